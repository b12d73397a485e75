"""What is in a database, in numbers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs
from sqlalchemy import Connection, Table, and_, func, select, text

from .maintenance import looking
from .schema import SCHEMA_VERSION, events, from_micros, metadata, processes, push_configs, tasks, to_micros

__all__ = ["Survey", "survey"]


@attrs.frozen(kw_only=True)
class Survey:
    """What is in a database.

    Attributes:
        version: The version of its tables.
        tasks: How many tasks are in each state that there is.
        events: Their events.
        push_configs: Push configurations.
        bytes: What the tables and their indexes take on the disk: SQLite's whole file, MySQL's own estimate.
        oldest: When the oldest task was made; None without one. Like the others it is aware UTC.
        newest: When the newest task was made.
        first_end: When the first of the tasks ended that retention would delete first.
        live_processes: Processes whose lease is running.
        dead_processes: Processes whose lease has run out.
        orphans: Tasks that are marked as worked on by a process without a running lease.
    """

    version: str
    tasks: Mapping[str, int]
    events: int
    push_configs: int
    bytes: int
    oldest: datetime | None
    newest: datetime | None
    first_end: datetime | None
    live_processes: int
    dead_processes: int
    orphans: int


def survey(url: str, now: datetime) -> Survey:
    """Count what is in a database. Blocks, for as long as the database needs to count; Trio is not needed.

    Args:
        url: As for `open_sql_store`.
        now: Against which leases are held.

    Raises:
        ValueError: As `open_sql_store`.
        ImportError: As `open_sql_store`.
        StoreError: The database cannot be read, or its tables are missing or of another version.
    """
    return looking(url, lambda connection: _survey(connection, to_micros(now)))


def _survey(connection: Connection, now: int) -> Survey:
    states = connection.execute(select(tasks.c.state, func.count()).group_by(tasks.c.state).order_by(tasks.c.state))
    oldest, newest, first_end = connection.execute(
        select(func.min(tasks.c.created_at), func.max(tasks.c.created_at), func.min(tasks.c.finalized_at))
    ).one()
    live = processes.c.expires_at > now
    at_work = select(func.count()).select_from(
        tasks.outerjoin(processes, and_(processes.c.process_id == tasks.c.runner, live))
    )
    return Survey(
        version=SCHEMA_VERSION,
        tasks={row[0]: row[1] for row in states},
        events=_count(connection, events),
        push_configs=_count(connection, push_configs),
        bytes=_bytes(connection),
        oldest=_instant(oldest),
        newest=_instant(newest),
        first_end=_instant(first_end),
        live_processes=_count(connection, processes, live),
        dead_processes=_count(connection, processes, ~live),
        orphans=connection.scalar(at_work.where(tasks.c.runner != "", processes.c.process_id.is_(None))) or 0,
    )


def _count(connection: Connection, table: Table, *conditions: Any) -> int:
    return connection.scalar(select(func.count()).select_from(table).where(*conditions)) or 0


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


def _bytes(connection: Connection) -> int:
    kind = connection.dialect.name
    names = list(metadata.tables)
    if kind == "sqlite":
        found = connection.execute(text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"))
    elif kind == "postgresql":
        sizes = " + ".join(f"pg_total_relation_size('{name}')" for name in names)
        found = connection.execute(text(f"SELECT {sizes}"))
    else:
        found = connection.execute(
            text(
                "SELECT SUM(data_length + index_length) FROM information_schema.tables"
                " WHERE table_schema = DATABASE() AND table_name LIKE 'a2a\\_%'"
            )
        )
    return int(found.scalar() or 0)
