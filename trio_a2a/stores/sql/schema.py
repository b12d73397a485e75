"""The tables: one schema for SQLite, PostgreSQL and MySQL/MariaDB.

Why they are as they are:

- **A task's snapshot has a table of its own.** Every event moves ``last_sequence`` of its task, and SQLite writes the
  whole row for it: with the snapshot in the row, an event of a long task would cost as much as the task.
- **Instants are integers**, microseconds since 1970 in UTC: the same on all databases, exact, and compared as numbers.
- **Ids are compared byte by byte**, as Python compares strings: `Key` is binary on MySQL, whose text collations ignore
  blanks at the end, and has the collation "C" on PostgreSQL.
- **The order of a listing is one ascending index**: ``position`` is the status time with its sign turned, and the
  largest number for a task without one. Descending indexes are not everywhere.
- **Lease columns**: a process that runs tasks has a row in ``a2a_processes`` with the instant at which its lease
  expires, and ``runner`` of each task that it is working on. Tasks whose runner has no live lease are orphans.
- Foreign keys are left out: a task, its snapshot and its events are always changed in one transaction, and the check
  would be paid for every event.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    Index,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    TypeDecorator,
)
from sqlalchemy.dialects.mysql import LONGBLOB, VARBINARY
from sqlalchemy.types import TypeEngine

__all__ = [
    "KEY_BYTES",
    "NO_POSITION",
    "SCHEMA_VERSION",
    "Key",
    "events",
    "from_micros",
    "metadata",
    "processes",
    "push_configs",
    "schema_version",
    "snapshots",
    "tasks",
    "to_micros",
]

SCHEMA_VERSION: Final = "0001"
"""The revision of the migrations that these tables are the outcome of."""

KEY_BYTES: Final = 512
"""The longest id, in bytes of UTF-8. Four of them and a number fit into an InnoDB index (3072 bytes)."""

NO_POSITION: Final = 2**63 - 1
"""The ``position`` of a task without a status time: behind all others."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(instant: datetime) -> int:
    """Return an aware instant as a column holds it."""
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the instant of a column's number, aware UTC.

    Raises:
        OverflowError: The number is no instant.
    """
    return _EPOCH + micros * _MICROSECOND


class Key(TypeDecorator[str]):
    """Text that is compared and ordered by the bytes of its UTF-8."""

    impl = String
    cache_ok = True

    def __init__(self, length: int = KEY_BYTES) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the database's own type for it."""
        if dialect.name in {"mysql", "mariadb"}:
            return dialect.type_descriptor(VARBINARY(self.length))
        if dialect.name == "postgresql":
            return dialect.type_descriptor(String(collation="C"))
        return dialect.type_descriptor(String(self.length))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """Make the driver's value: bytes for a binary column."""
        return value.encode() if value is not None and dialect.name in {"mysql", "mariadb"} else value

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """Make the text of a column."""
        return value.decode() if isinstance(value, bytes) else value


_Bytes = LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")

metadata = MetaData()

tasks = Table(
    "a2a_tasks",
    metadata,
    Column("task_id", Key(), primary_key=True),
    Column("owner", Key(), nullable=False),
    Column("tenant", Key(), nullable=False),
    # The context's id, or a digest of one that is too long to be indexed (see `rows.context_key`).
    Column("context_key", Key(), nullable=False),
    Column("state", Key(32), nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("finalized_at", BigInteger),
    # The process whose run works on the task; "" where none does.
    Column("runner", Key(64), nullable=False),
    # One for each filter of a listing, every one in the listing's order.
    Index("a2a_tasks_by_owner", "owner", "position", "task_id"),
    Index("a2a_tasks_by_context", "owner", "context_key", "position", "task_id"),
    Index("a2a_tasks_by_state", "owner", "state", "position", "task_id"),
    Index("a2a_tasks_by_tenant", "owner", "tenant", "position", "task_id"),
    # Retention deletes the oldest finished tasks; recovery looks for those of dead processes.
    Index("a2a_tasks_by_end", "finalized_at", "task_id"),
    Index("a2a_tasks_by_runner", "runner", "task_id"),
)

snapshots = Table(
    "a2a_snapshots",
    metadata,
    Column("task_id", Key(), primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("body", _Bytes, nullable=False),
)

events = Table(
    "a2a_events",
    metadata,
    Column("task_id", Key(), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("recorded_at", BigInteger, nullable=False),
    Column("kind", Key(16), nullable=False),
    Column("body", _Bytes, nullable=False),
    # The user's message of a follow-up, beside the first event of its run.
    Column("message", _Bytes),
)

processes = Table(
    "a2a_processes",
    metadata,
    Column("process_id", Key(64), primary_key=True),
    Column("started_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("a2a_processes_by_expiry", "expires_at"),
)

push_configs = Table(
    "a2a_push_configs",
    metadata,
    Column("task_id", Key(), primary_key=True),
    Column("config_id", Key(), primary_key=True),
    Column("owner", Key(), nullable=False),
    # Whether the body is encrypted.
    Column("sealed", SmallInteger, nullable=False),
    Column("body", _Bytes, nullable=False),
)

schema_version = Table(
    "a2a_schema_version",
    metadata,
    # As Alembic keeps its revision, so that migrations go on from here.
    Column("version_num", String(32), primary_key=True),
)
