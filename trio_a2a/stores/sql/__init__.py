"""Stores on an SQL database: SQLite, PostgreSQL, MySQL and MariaDB (extras ``sql``, ``postgres``, ``mysql``)."""

try:
    import sqlalchemy as sqlalchemy
except ImportError as exc:
    raise ImportError("SQL stores need the extra 'sql': pip install 'trio-a2a[sql]'") from exc

from .push_configs import (
    SqlPushConfigStore as SqlPushConfigStore,
    open_sql_push_config_store as open_sql_push_config_store,
)
from .retention import Pruned as Pruned
from .tasks import SqlTaskStore as SqlTaskStore, open_sql_store as open_sql_store

__all__ = ["Pruned", "SqlPushConfigStore", "SqlTaskStore", "open_sql_push_config_store", "open_sql_store"]
