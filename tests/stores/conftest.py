"""The databases of the tests of SQL stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores.databases import KINDS, database


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new database of each kind."""
    with database(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A new file for what is the same on all databases."""
    return f"sqlite:///{tmp_path / 'tasks.db'}"
