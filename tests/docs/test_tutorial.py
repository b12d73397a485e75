"""The tutorial is followed as a reader would: its files are saved, its commands are run, and they print what it shows.

A block says in its first line what it is: a ``console`` with commands and what they print, a ``text`` that the server
of the page has printed since, or a file with its name (``python eggtimer.py``). Servers run until the end of the page.
Ids, times and the port differ from run to run, so they are made equal before anything is compared. Nothing is passed
over in silence: a block or a command of no known kind fails, and so does a file that nothing uses. Installing is not
done here; what is to be installed is compared with what there is.
"""

import importlib.metadata
import itertools
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
DEADLINE = 60.0

_BLOCK = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PROGRAMS = {
    "python": [sys.executable],
    "pytest": [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
    "trio-a2a": [sys.executable, "-c", "from trio_a2a.cli import main; main()"],
}
_SETTING_UP = {"python3 -m venv .venv", ". .venv/bin/activate"}


@attrs.frozen
class Block:
    kind: str
    name: str
    text: str


@attrs.define
class Command:
    line: str
    output: str = ""


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    blocks = [Block(*match.groups(default="")) for match in _BLOCK.finditer(text)]
    assert text.count("```") == 2 * len(blocks), "every fence belongs to a block that says what it is"
    return blocks


def commands_of(block: Block) -> list[Command]:
    commands: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append(Command(line[2:]))
        else:
            commands[-1].output += f"{line}\n"
    return commands


def alike(text: str) -> str:
    """Make equal what differs from run to run."""
    for pattern, same in (
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID"),
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\b", "TIME"),
        (r"\bin \d+\.\d\ds\b", "in SECONDS"),
        (r"(?m)[ ]+$", ""),  # no page has blanks at the end of a line
    ):
        text = re.sub(pattern, same, text)
    return text.strip()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class Server:
    """A command that goes on; its output is read as it comes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify()

    def says(self, expected: str) -> None:
        """Wait for so many lines as are expected, and compare them."""
        count = len(expected.splitlines())
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) >= count, DEADLINE)
            said, self._lines = self._lines[:count], self._lines[count:]
        assert alike("".join(said)) == alike(expected)

    def stop(self) -> None:
        """End it as Ctrl-C does; it has nothing more to say."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(DEADLINE) == 0
        self.join()
        assert self._lines == []

    def join(self) -> None:
        self._reader.join(DEADLINE)


class Reader:
    """Somebody who follows the tutorial, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.servers: list[Server] = []
        self.processes: list[subprocess.Popen[str]] = []
        self.used: set[str] = set()
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONUNBUFFERED": "1",
        }

    def save(self, block: Block) -> None:
        (self.folder / block.name).write_text(self.here(block.text), encoding="utf-8")

    def here(self, text: str) -> str:
        """Put a free port in the place of that of the page."""
        return text.replace("8000", str(self.port))

    def follow(self, block: Block) -> None:
        if block.name:
            self.save(block)
        elif block.kind == "console":
            for command in commands_of(block):
                self.type(command)
        elif block.kind == "text":
            self.servers[-1].says(self.here(block.text))
        else:
            raise AssertionError(f"nothing is done with a block of kind {block.kind!r}")

    def type(self, command: Command) -> None:
        if command.line in _SETTING_UP:
            return
        program, *arguments = shlex.split(self.here(command.line))
        if program == "pip":
            check_installation(arguments)
            return
        self.used.update(argument.partition(":")[0].removesuffix(".py") for argument in arguments)
        process = subprocess.Popen(
            [*_PROGRAMS[program], *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        if program == "trio-a2a" and arguments[0] == "serve":
            self.servers.append(Server(process))
            self.servers[-1].says(self.here(command.output))
            return
        output, _ = process.communicate(timeout=DEADLINE)
        assert alike(output) == alike(self.here(command.output)), command.line
        assert process.returncode == 0, output

    def uses(self, block: Block) -> bool:
        """Tell whether a command named the file, or a program imported it."""
        stem = Path(block.name).stem
        imported = list((self.folder / "__pycache__").glob(f"{stem}.*.pyc"))
        return stem in self.used or bool(imported) or block.kind == "ini"


def check_installation(arguments: list[str]) -> None:
    """What a page has its readers install is what there is: our extras, and packages of the tests."""
    assert arguments[0] == "install"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for requirement in arguments[1:]:
        name, _, wanted = requirement.removesuffix("]").partition("[")
        assert importlib.metadata.version(name)
        for extra in filter(None, wanted.split(",")):
            assert extra in extras


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        for process in reader.processes:
            process.kill()
            process.wait()
        for server in reader.servers:
            server.join()  # its output has ended with the process
        for process in reader.processes:
            assert process.stdout is not None
            process.stdout.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_of_the_tutorial_does_what_it_says(page: Path, reader: Reader) -> None:
    """With the files of the pages before it."""
    for earlier in PAGES[: PAGES.index(page)]:
        for block in blocks_of(earlier):
            if block.name:
                reader.save(block)
    blocks = blocks_of(page)
    assert blocks
    for block in blocks:
        reader.follow(block)
    for server in reader.servers:
        server.stop()
    for block in blocks:
        assert not block.name or reader.uses(block), f"nothing runs {block.name}"


def test_the_pages_lead_from_one_to_the_next() -> None:
    assert [page.stem for page in PAGES] == ["1-agent", "2-client", "3-hook", "4-test"]
    for page, following in itertools.pairwise(PAGES):
        assert f"]({following.name})" in page.read_text(encoding="utf-8").splitlines()[-1]
