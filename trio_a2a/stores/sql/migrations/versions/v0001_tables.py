"""Tasks with their events and snapshots, the processes that run them, and push configurations."""

from typing import Final

from alembic import op
from sqlalchemy import BigInteger, Column, LargeBinary, SmallInteger, String, inspect
from sqlalchemy.dialects.mysql import LONGBLOB, VARBINARY
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None


def _key(length: int = 512) -> TypeEngine[str]:
    text = String(length).with_variant(String(collation="C"), "postgresql")
    return text.with_variant(VARBINARY(length), "mysql", "mariadb")


def _bytes() -> TypeEngine[bytes]:
    return LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")


_INDEXES: Final = {
    "a2a_tasks": {
        "a2a_tasks_by_owner": ["owner", "position", "task_id"],
        "a2a_tasks_by_context": ["owner", "context_key", "position", "task_id"],
        "a2a_tasks_by_state": ["owner", "state", "position", "task_id"],
        "a2a_tasks_by_tenant": ["owner", "tenant", "position", "task_id"],
        "a2a_tasks_by_end": ["finalized_at", "task_id"],
        "a2a_tasks_by_runner": ["runner", "task_id"],
    },
    "a2a_processes": {"a2a_processes_by_expiry": ["expires_at"]},
}


def upgrade() -> None:
    """Make what is missing of the tables and their indexes."""
    op.create_table(
        "a2a_tasks",
        Column("task_id", _key(), primary_key=True),
        Column("owner", _key(), nullable=False),
        Column("tenant", _key(), nullable=False),
        Column("context_key", _key(), nullable=False),
        Column("state", _key(32), nullable=False),
        Column("position", BigInteger, nullable=False),
        Column("last_sequence", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("finalized_at", BigInteger),
        Column("runner", _key(64), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "a2a_snapshots",
        Column("task_id", _key(), primary_key=True),
        Column("sequence", BigInteger, nullable=False),
        Column("body", _bytes(), nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "a2a_events",
        Column("task_id", _key(), primary_key=True),
        Column("sequence", BigInteger, primary_key=True, autoincrement=False),
        Column("recorded_at", BigInteger, nullable=False),
        Column("kind", _key(16), nullable=False),
        Column("body", _bytes(), nullable=False),
        Column("message", _bytes()),
        if_not_exists=True,
    )
    op.create_table(
        "a2a_processes",
        Column("process_id", _key(64), primary_key=True),
        Column("started_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "a2a_push_configs",
        Column("task_id", _key(), primary_key=True),
        Column("config_id", _key(), primary_key=True),
        Column("owner", _key(), nullable=False),
        Column("sealed", SmallInteger, nullable=False),
        Column("body", _bytes(), nullable=False),
        if_not_exists=True,
    )
    # MySQL has no IF NOT EXISTS for indexes.
    inspector = inspect(op.get_bind())
    for table, indexes in _INDEXES.items():
        there = {index["name"] for index in inspector.get_indexes(table)}
        for name, columns in indexes.items():
            if name not in there:
                op.create_index(name, table, columns)
