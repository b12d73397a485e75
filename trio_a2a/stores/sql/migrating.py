"""Bringing a database's tables to the version that this program needs, with Alembic.

The scripts are part of the package (`migrations`), and no configuration file is needed. All of it is one transaction
where the database can do that (not on MySQL), under the lock that whoever makes the tables takes, too: of several
processes that migrate at once one does it, and the others find it done.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import attrs
from sqlalchemy import Connection, delete

from .engine import EngineOptions, make_engines, parse_url
from .faults import Faults
from .schema import SCHEMA_VERSION, schema_version
from .versions import alone, check_file, newer_error, read_version

__all__ = ["Migration", "current_version", "migrate"]

T = TypeVar("T")

# Alembic hands the connection to its scripts through module globals.
_one_at_a_time = threading.Lock()

_LOCK_SECONDS: Final = 60.0
"""How long a migration waits for another one, and for writers that hold locks on the tables."""
_STATEMENT_SECONDS: Final = 3600.0
"""A statement may have to write a large table anew."""
_CONNECT_SECONDS: Final = 10.0


@attrs.frozen(kw_only=True)
class Migration:
    """What a migration has done.

    Attributes:
        before: The version of the tables before; None if there were none.
        after: Their version now.
    """

    before: str | None
    after: str


def migrate(url: str) -> Migration:
    """Make the tables, or bring them to the version that this program needs. Blocks; Trio is not needed.

    Args:
        url: As for `open_sql_store`.

    Raises:
        ValueError: As `open_sql_store`.
        ImportError: Alembic or the database's driver is not installed; the text names the extra.
        StoreError: The database cannot be reached, the tables are of a later version, or a step failed.
    """
    try:
        import alembic  # noqa: F401, PLC0415 - its absence is told before the database is touched
    except ImportError as error:
        raise ImportError("migrations need the extra 'sql': pip install 'trio-a2a[sql]'") from error
    return _with_connection(url, _migrate, writes=True)


def current_version(url: str) -> str | None:
    """Return the version of a database's tables; None if it has none. Blocks; Trio is not needed.

    Args:
        url: As for `open_sql_store`.

    Raises:
        ValueError: As `open_sql_store`.
        ImportError: The database's driver is not installed; the text names the extra.
        StoreError: The database cannot be reached; an SQLite file that is not there is not made.
    """
    return _with_connection(url, read_version, writes=False)


def _with_connection(url: str, work: Callable[[Connection], T], *, writes: bool) -> T:
    parsed = parse_url(url)
    writer, reader = make_engines(
        parsed,
        EngineOptions(
            connect_timeout=_CONNECT_SECONDS,
            statement_timeout=_STATEMENT_SECONDS,
            lock_timeout=_LOCK_SECONDS,
            synchronous="FULL",
            readers=1,
        ),
    )
    if not writes:
        check_file(parsed)
    engine = writer if writes else reader
    faults = Faults(engine)
    try:
        with engine.connect() as connection:
            return work(connection)
    except faults.any as error:
        what = "the tables could not be migrated" if writes else "the database cannot be opened"
        raise faults.store_error(what, error) from None
    finally:
        writer.dispose()
        reader.dispose()


def _migrate(connection: Connection) -> Migration:
    with _one_at_a_time, alone(connection, _LOCK_SECONDS):
        before = read_version(connection)
        if before != SCHEMA_VERSION:
            _upgrade(connection, before)
        connection.commit()
    return Migration(before=before, after=SCHEMA_VERSION)


def _upgrade(connection: Connection, before: str | None) -> None:
    from alembic import command  # noqa: PLC0415 - programs that migrate nothing do not pay for it
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    # Where configuration files have it, a percent sign is written twice.
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    if before is not None and before not in known:
        if before > SCHEMA_VERSION:
            raise newer_error(before)
        # From before the first revision, which makes what is missing.
        connection.execute(delete(schema_version))
    # As the stores make it, not as Alembic would: with the same name for its key.
    schema_version.create(connection, checkfirst=True)
    command.upgrade(config, SCHEMA_VERSION)
