"""Where tasks, and what clients registered for them, are kept.

The SQL stores are imported when they are first used, with the extra that they need.
"""

from typing import TYPE_CHECKING, Any

from .memory import InMemoryTaskStore as InMemoryTaskStore
from .push_memory import InMemoryPushConfigStore as InMemoryPushConfigStore

if TYPE_CHECKING:
    from .sql import (
        SqlPushConfigStore as SqlPushConfigStore,
        SqlTaskStore as SqlTaskStore,
        open_sql_push_config_store as open_sql_push_config_store,
        open_sql_store as open_sql_store,
    )

__all__ = [
    "InMemoryPushConfigStore",
    "InMemoryTaskStore",
    "SqlPushConfigStore",
    "SqlTaskStore",
    "open_sql_push_config_store",
    "open_sql_store",
]

_SQL = {"SqlPushConfigStore", "SqlTaskStore", "open_sql_push_config_store", "open_sql_store"}


def __getattr__(name: str) -> Any:
    if name in _SQL:
        from . import sql  # noqa: PLC0415 - who keeps tasks in memory does not pay for SQLAlchemy

        return getattr(sql, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
