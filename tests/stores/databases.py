"""Databases for tests: each asks for a fresh one and drops it.

SQLite is a file of the test's own. For PostgreSQL and MariaDB a database is made on the server of this machine (other
places through ``TRIO_A2A_POSTGRES`` and ``TRIO_A2A_MARIADB``). Where no server answers the test is skipped, with the
reason; with ``TRIO_A2A_REQUIRE_SERVERS=1`` it fails.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine, create_engine, inspect, make_url, text
from sqlalchemy.exc import OperationalError

KINDS = ("sqlite", "postgresql", "mariadb")
SERVERS = {
    "postgresql": os.environ.get("TRIO_A2A_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres"),
    "mariadb": os.environ.get("TRIO_A2A_MARIADB", "mariadb://root@127.0.0.1:3306/test"),
}
_DRIVERS = {"postgresql": "postgresql+psycopg", "mariadb": "mariadb+pymysql"}


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str]:
    """Make a database of the kind, and drop it afterwards; the value is its URL."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / f'{uuid4().hex}.db'}"
        return
    server = make_url(SERVERS[kind])
    name = f"trio_a2a_{uuid4().hex}"
    if kind == "postgresql":
        # A schema is as separate, and is made and dropped in a hundredth of the time.
        made, dropped = f"CREATE SCHEMA {name}", f"DROP SCHEMA {name} CASCADE"
        url = server.update_query_dict({"options": f"-csearch_path={name}", "application_name": name})
    else:
        made, dropped = f"CREATE DATABASE {name}", f"DROP DATABASE {name}"
        url = server.set(database=name)
    execute(kind, made)
    try:
        yield url.render_as_string(hide_password=False)
    finally:
        execute(kind, dropped)


def execute(kind: str, statement: str) -> None:
    """Execute a statement on the server, as its administrator; skip the test where none answers."""
    engine = create_engine(
        make_url(SERVERS[kind]).set(drivername=_DRIVERS[kind]),
        isolation_level="AUTOCOMMIT",
        connect_args={"connect_timeout": 5},
    )
    try:
        with engine.connect() as connection:
            connection.execute(text(statement))
    except OperationalError as error:
        unavailable(f"no {kind} server answers: {error.orig}")
    finally:
        engine.dispose()


def emptied(url: str) -> str:
    """Delete all rows: for a server, whose tables take long to make, this is as good as a new database."""
    engine = connect_to(url)
    with engine.begin() as connection:
        for table in inspect(connection).get_table_names():
            if table != "a2a_schema_version":
                connection.execute(text(f"DELETE FROM {table}"))  # noqa: S608 - a name from the catalogue
    engine.dispose()
    return url


def connect_to(url: str) -> Engine:
    """Return an engine of the test's own for a store's database."""
    parsed = make_url(url)
    return create_engine(parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername)))


def unavailable(reason: str) -> None:
    """Skip the test, or fail it where servers are required."""
    if os.environ.get("TRIO_A2A_REQUIRE_SERVERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
