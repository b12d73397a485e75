"""The version of a database's tables: reading it, refusing a wrong one, and making tables where there are none."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Connection, Engine, func, inspect, select

from ...errors import StoreError, TaskPersistenceError
from .engine import shown
from .faults import Faults
from .schema import SCHEMA_VERSION, metadata, schema_version

__all__ = ["alone", "check_file", "newer_error", "prepare_tables", "read_version", "require_version"]

# Any number, as long as nobody else uses it in the database.
_POSTGRESQL_LOCK: Final = 0x7472696F_6132610A


# How long opening waits for another process that makes the tables.
_LOCK_SECONDS: Final = 30.0


def prepare_tables(engine: Engine, url: URL, *, create: bool) -> None:
    """Check the version of the tables.

    Args:
        engine: The writer's.
        url: The database, for the texts of errors.
        create: Make them if there are none.

    Raises:
        StoreError: The database cannot be opened; or it has no tables, or tables of another version, and the text says
            what to do.
    """
    faults = Faults(engine)
    try:
        if not create:
            check_file(url)
        with engine.connect() as connection:
            found = read_version(connection)
        if found is None and create:
            found = _created(engine)
    except faults.any as error:
        raise faults.store_error("the database cannot be opened", error) from None
    _require(found, url)


def require_version(connection: Connection, url: URL) -> None:
    """Refuse tables of another version, and a database without any.

    Raises:
        StoreError: It is one of these; the text says what to do.
    """
    _require(read_version(connection), url)


def _require(found: str | None, url: URL) -> None:
    if found is None:
        raise TaskPersistenceError(f"the database has no trio_a2a tables; run: {_command(url)}")
    if found > SCHEMA_VERSION:
        raise newer_error(found)
    if found != SCHEMA_VERSION:
        raise TaskPersistenceError(
            f"the tables are of version {found}, and this program needs {SCHEMA_VERSION}; run: {_command(url)}"
        )


def check_file(url: URL) -> None:
    """Refuse an SQLite file that is not there: connecting would make an empty one.

    Raises:
        StoreError: There is no such file.
    """
    file = url.database or ""
    if url.get_backend_name() == "sqlite" and not file.startswith("file:") and not Path(file).is_file():
        raise TaskPersistenceError(f"there is no file {file}; to make the database run: {_command(url)}")


def newer_error(found: str) -> StoreError:
    """Return the error for tables that a later version of this library has made."""
    return TaskPersistenceError(
        f"the tables are of version {found}, and this program knows those up to {SCHEMA_VERSION}: it is too old for"
        " them; run: pip install --upgrade trio-a2a"
    )


def _command(url: URL) -> str:
    return f"trio-a2a db migrate {shlex.quote(shown(url))}"


def read_version(connection: Connection) -> str | None:
    """Return the version of the tables; None if there are none."""
    if not inspect(connection).has_table(schema_version.name):
        return None
    return connection.scalar(select(schema_version.c.version_num))


def _created(engine: Engine) -> str | None:
    with engine.connect() as connection, alone(connection, _LOCK_SECONDS):
        # Another process may have made them while this one waited.
        found = read_version(connection)
        if found is None:
            metadata.create_all(connection)
            for table in metadata.tables.values():
                for index in table.indexes:
                    # On MySQL, which cannot roll it back, making them may have been broken off behind the table.
                    index.create(connection, checkfirst=True)
            connection.execute(schema_version.insert().values(version_num=SCHEMA_VERSION))
            connection.commit()
            found = SCHEMA_VERSION
        return found


@contextmanager
def alone(connection: Connection, timeout: float) -> Iterator[None]:
    """Let one process at a time make or change the tables; commit within the block.

    Args:
        connection: Of the writer's engine.
        timeout: Seconds to wait for another process. PostgreSQL and SQLite have it from the engine's lock time-out.

    Raises:
        StoreError: Another process is at it for longer.
    """
    kind = connection.dialect.name
    if kind == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_POSTGRESQL_LOCK)))
        yield
    elif kind == "sqlite":
        # The transaction, which is immediate, does it. It begins with the first statement.
        connection.execute(select(1))
        yield
    else:
        # Names of locks are the server's, not the database's. DDL is not transactional, so the lock is the session's.
        name = func.concat("trio_a2a:", func.md5(func.database()))
        if connection.scalar(select(func.get_lock(name, timeout))) != 1:
            raise TaskPersistenceError(f"another process is making or changing the tables, for more than {timeout:g} s")
        try:
            yield
        finally:
            connection.scalar(select(func.release_lock(name)))
