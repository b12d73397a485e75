"""Database servers of the tests' own, which can be stopped and started without harm to others.

They live in a temporary folder and on a port of their own. Where their programs are not installed the test is skipped,
with the reason; with ``TRIO_A2A_REQUIRE_SERVERS=1`` it fails.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from tests.stores.databases import connect_to, unavailable

_START_SECONDS = 60.0
_USERS = {"postgresql": "postgres", "mariadb": "mysql"}


@attrs.define(eq=False)
class Server:
    """A server.

    Attributes:
        kind: PostgreSQL or MariaDB.
        url: Its database, as its administrator.
    """

    kind: str
    url: str
    _folder: Path
    _command: Sequence[str]
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, **_as_user(self.kind))
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
            except OperationalError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Stop it as a crash would: connections break, and it recovers at its next start."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if self.kind == "postgresql" else signal.SIGKILL)
            self._process.wait(_START_SECONDS)
            self._process = None

    def execute(self, *statements: str, database: str | None = None) -> None:
        """Execute statements as the administrator, in a database that is named or in the server's own."""
        url = self.url if database is None else f"{self.url.rpartition('/')[0]}/{database}"
        engine = connect_to(url).execution_options(isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                for statement in statements:
                    connection.execute(text(statement))
        finally:
            engine.dispose()


@contextmanager
def server(kind: str) -> Iterator[Server]:
    """Make a server and start it; it is gone afterwards."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        folder = Path(name)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        data = folder / "data"
        data.mkdir()
        if os.getuid() == 0:
            for path in (folder, data):
                shutil.chown(path, _USERS[kind])
        made = _postgresql(folder, data, port) if kind == "postgresql" else _mariadb(folder, data, port)
        made.start()
        try:
            yield made
        finally:
            made.stop()


def _as_user(kind: str) -> dict[str, object]:
    """They refuse to run as root."""
    if os.getuid() != 0:
        return {}
    return {"user": _USERS[kind], "group": _USERS[kind], "extra_groups": []}


def _postgresql(folder: Path, data: Path, port: int) -> Server:
    initdb = shutil.which("initdb") or next(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), None)
    if initdb is None:
        unavailable("PostgreSQL is not installed")
    programs = Path(initdb).resolve().parent
    _run("postgresql", programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
    command = [programs / "postgres", "-D", data, "-p", port, "-k", "", "-c", "listen_addresses=127.0.0.1"]
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    return Server("postgresql", url, folder, [str(word) for word in command])


def _mariadb(folder: Path, data: Path, port: int) -> Server:
    program = shutil.which("mariadbd")
    if program is None or shutil.which("mariadb-install-db") is None:
        unavailable("MariaDB is not installed")
    options = ("--no-defaults", f"--datadir={data}")
    # The smallest that it starts with: it lives for a few tests.
    small = ("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M")
    _run(
        "mariadb", "mariadb-install-db", *options, *small, "--auth-root-authentication-method=normal", "--skip-test-db"
    )
    paths = (f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}")
    command = (program, *options, *small, "--bind-address=127.0.0.1", f"--port={port}", *paths)
    return Server("mariadb", f"mariadb://root@127.0.0.1:{port}/mysql", folder, command)


def _run(kind: str, *command: object) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, check=False, **_as_user(kind))
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
