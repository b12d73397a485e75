"""One connection for an operator's work on a database: migrating, looking, checking. Trio is not needed."""

from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection

from .engine import EngineOptions, make_engines, parse_url
from .faults import Faults
from .versions import check_file, require_version

__all__ = ["LOCK_SECONDS", "changing", "looking"]

T = TypeVar("T")

LOCK_SECONDS: Final = 60.0
"""How long a migration waits for another one, and for writers that hold locks on the tables."""
_STATEMENT_SECONDS: Final = 3600.0
"""A statement may have to read a large table, or to write it anew."""
_CONNECT_SECONDS: Final = 10.0


def changing(url: str, work: Callable[[Connection], T]) -> T:
    """Call ``work(connection)`` with a connection that can write, whatever the version of the tables.

    Raises:
        ValueError: As `open_sql_store`.
        ImportError: As `open_sql_store`.
        StoreError: The database cannot be reached, or failed; or ``work`` raised it.
    """
    return _call(url, work, writes=True, any_version=True)


def looking(url: str, work: Callable[[Connection], T], *, any_version: bool = False) -> T:
    """Call ``work(connection)`` with a connection in autocommit that cannot write.

    Args:
        url: As for `open_sql_store`. An SQLite file that is not there is not made.
        work: What to do.
        any_version: Whether the tables may be of another version, or missing.

    Raises:
        ValueError: As `open_sql_store`.
        ImportError: As `open_sql_store`.
        StoreError: As `changing`; or the tables are of another version.
    """
    return _call(url, work, writes=False, any_version=any_version)


def _call(url: str, work: Callable[[Connection], T], *, writes: bool, any_version: bool) -> T:
    parsed = parse_url(url)
    options = EngineOptions(
        connect_timeout=_CONNECT_SECONDS,
        statement_timeout=_STATEMENT_SECONDS,
        lock_timeout=LOCK_SECONDS,
        synchronous="FULL",
        readers=1,
    )
    if not writes:
        check_file(parsed)
    engine = make_engines(parsed, options)[0 if writes else 1]
    faults = Faults(engine)
    what = "the database cannot be opened"
    try:
        with engine.connect() as connection:
            what = "the database failed"
            if not any_version:
                require_version(connection, parsed)
            return work(connection)
    except faults.any as error:
        raise faults.store_error(what, error) from None
    finally:
        engine.dispose()
