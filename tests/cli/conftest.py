"""Agents that the whole folder talks to, each in a process of its own."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .program import running

HERE = Path(__file__).parent


def served(name: str) -> Iterator[str]:
    with running("serve", f"agents:{name}", "--port", "0", cwd=HERE) as process:
        match = re.search(r"http://\S+", process.stdout.readline())
        assert match, process.stderr.read()
        yield match[0]


@pytest.fixture(scope="session")
def able() -> Iterator[str]:
    """An agent that can do everything; its URL."""
    yield from served("able")


@pytest.fixture(scope="session")
def blocking() -> Iterator[str]:
    """An agent that does not stream."""
    yield from served("blocking")


@pytest.fixture(scope="session")
def private() -> Iterator[str]:
    """An agent that wants to know who is calling."""
    yield from served("private")
