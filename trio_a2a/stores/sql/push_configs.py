"""Push configurations on an SQL database, encrypted where a key is given.

The whole configuration is encrypted, not only its token and credentials: the URL of a webhook is often a secret, too.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, final

import trio
from sqlalchemy import Connection, delete, select

from ...abc import PushConfigStore
from ...errors import A2AError, TaskSerializationError
from ...types import TaskPushNotificationConfig
from ...wire import from_json
from .database import Database, open_database
from .engine import EngineOptions
from .rows import check_key, encode_value, is_key
from .schema import push_configs
from .sealing import Sealer

__all__ = ["SqlPushConfigStore", "open_sql_push_config_store"]

_logger = logging.getLogger("trio_a2a.stores")

_COLUMNS: Final = (push_configs.c.config_id, push_configs.c.sealed, push_configs.c.body)


@final
class SqlPushConfigStore(PushConfigStore):
    """Keeps push configurations in an SQL database. Made by `open_sql_push_config_store`."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer

    def __repr__(self) -> str:
        return f"<SqlPushConfigStore {self._database.name}>"

    async def put(self, config: TaskPushNotificationConfig, *, owner: str) -> None:
        """Store a config; one of the same task with the same id is replaced.

        Raises:
            TaskSerializationError: It cannot be stored.
            StoreError: It could not be written.

        Cancellation: a checkpoint; it is then done or not done.
        """
        task_id = config.task_id
        for what, key in (("the task's id", task_id), ("the config's id", config.id), ("the owner", owner)):
            check_key(what, key, task_id=None if what == "the task's id" else task_id)
        row = {
            "task_id": task_id,
            "config_id": config.id,
            "owner": owner,
            "sealed": int(self._sealer.seals),
            "body": self._sealer.seal(encode_value(config, task_id)),
        }

        def work(connection: Connection) -> None:
            # In the one writer's transaction this is an upsert, in words that every database knows.
            connection.execute(_one(delete(push_configs), task_id, config.id))
            connection.execute(push_configs.insert(), row)

        await self._database.writer.do(work)

    async def get(self, task_id: str, config_id: str) -> TaskPushNotificationConfig | None:
        """Return the config, or None if there is none.

        Raises:
            TaskSerializationError: It cannot be read, or is encrypted with a key that the store was not given.
            StoreError: The database could not be read.

        Cancellation: a checkpoint.
        """
        if not (is_key(task_id) and is_key(config_id)):
            await trio.lowlevel.checkpoint()
            return None

        def work(connection: Connection) -> TaskPushNotificationConfig | None:
            row = connection.execute(_one(select(*_COLUMNS), task_id, config_id)).first()
            return None if row is None else self._config(task_id, row)

        return await self._database.read(work, task_id=task_id)

    async def list(
        self, task_id: str, *, after: str = "", limit: int | None = None
    ) -> Sequence[TaskPushNotificationConfig]:
        """Return the task's configs with ids above ``after``, in the order of their ids.

        Raises:
            TaskSerializationError: As `get`.
            StoreError: The database could not be read.

        Cancellation: a checkpoint.
        """
        if not (is_key(task_id) and is_key(after)):
            await trio.lowlevel.checkpoint()
            return ()
        query = (
            select(*_COLUMNS)
            .where(push_configs.c.task_id == task_id, push_configs.c.config_id > after)
            .order_by(push_configs.c.config_id)
            .limit(limit)
        )

        def work(connection: Connection) -> tuple[TaskPushNotificationConfig, ...]:
            return tuple(self._config(task_id, row) for row in connection.execute(query))

        return await self._database.read(work, task_id=task_id)

    async def delete(self, task_id: str, config_id: str | None = None) -> None:
        """Remove a config, or all of the task's; an unknown one is no error.

        Raises:
            StoreError: It could not be removed.

        Cancellation: a checkpoint; it is then done or not done.
        """
        if not (is_key(task_id) and (config_id is None or is_key(config_id))):
            await trio.lowlevel.checkpoint()
            return
        statement = delete(push_configs).where(push_configs.c.task_id == task_id)
        if config_id is not None:
            statement = statement.where(push_configs.c.config_id == config_id)

        def work(connection: Connection) -> None:
            connection.execute(statement)

        await self._database.writer.do(work)

    def _config(self, task_id: str, row: Any) -> TaskPushNotificationConfig:
        body = self._sealer.unseal(row.body, is_sealed=bool(row.sealed), task_id=task_id)
        try:
            config = from_json(body, TaskPushNotificationConfig)
        except (A2AError, TypeError) as error:
            raise TaskSerializationError("a stored push configuration cannot be read", task_id=task_id) from error
        if config.task_id != task_id or config.id != row.config_id:
            # So that what is encrypted cannot be moved to another task by whoever can write to the database.
            raise TaskSerializationError("a stored push configuration is another one's", task_id=task_id)
        return config


def _one(statement: Any, task_id: str, config_id: str) -> Any:
    return statement.where(push_configs.c.task_id == task_id, push_configs.c.config_id == config_id)


@asynccontextmanager
async def open_sql_push_config_store(
    url: str,
    *,
    encryption_key: str | bytes | Sequence[str | bytes] | None = None,
    create: bool = True,
    readers: int = 2,
    connect_timeout: float = 5.0,
    statement_timeout: float = 30.0,
    lock_timeout: float = 5.0,
    close_timeout: float = 10.0,
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
) -> AsyncIterator[SqlPushConfigStore]:
    """Open a store of push configurations on an SQL database for the block; it may be the tasks' database.

    Args:
        url: As for `open_sql_store`.
        encryption_key: A Fernet key, or several: the first encrypts, and what was encrypted with any of them can be
            read. None: configurations are stored as they are, with their tokens and credentials; a warning is logged.
        create: As for `open_sql_store`, like the rest.
        readers: Connections for reading.
        connect_timeout: Seconds for making a connection.
        statement_timeout: Seconds for one statement.
        lock_timeout: Seconds that a statement waits for a lock.
        close_timeout: Seconds for what is waiting when the block is left.
        synchronous: SQLite only.

    Raises:
        ValueError: A key is no Fernet key; otherwise as `open_sql_store`.
        ImportError: As `open_sql_store`.
        StoreError: As `open_sql_store`.

    Cancellation: as `open_sql_store`.
    """
    sealer = Sealer(encryption_key)
    if not sealer.seals:
        _logger.warning("push configurations are stored without encryption: no encryption_key was given")
    options = EngineOptions(
        connect_timeout=connect_timeout,
        statement_timeout=statement_timeout,
        lock_timeout=lock_timeout,
        synchronous=synchronous,
        readers=readers,
    )
    async with open_database(url, options, create=create, close_timeout=close_timeout) as database:
        yield SqlPushConfigStore(database, sealer)
