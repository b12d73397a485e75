"""Bringing a database's tables to the version that this program needs, with Alembic.

The scripts are part of the package (`migrations`), and no configuration file is needed. All of it is one transaction
where the database can do that (not on MySQL), under the lock that whoever makes the tables takes, too: of several
processes that migrate at once one does it, and the others find it done.
"""

import threading
from pathlib import Path

import attrs
from sqlalchemy import Connection, delete

from .maintenance import LOCK_SECONDS, changing, looking
from .schema import SCHEMA_VERSION, schema_version
from .versions import alone, newer_error, read_version

__all__ = ["Migration", "current_version", "migrate"]

# Alembic hands the connection to its scripts through module globals.
_one_at_a_time = threading.Lock()


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
    return changing(url, _migrate)


def current_version(url: str) -> str | None:
    """Return the version of a database's tables; None if it has none. Blocks; Trio is not needed.

    Args:
        url: As for `open_sql_store`.

    Raises:
        ValueError: As `open_sql_store`.
        ImportError: The database's driver is not installed; the text names the extra.
        StoreError: The database cannot be reached; an SQLite file that is not there is not made.
    """
    return looking(url, read_version, any_version=True)


def _migrate(connection: Connection) -> Migration:
    with _one_at_a_time, alone(connection, LOCK_SECONDS):
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
