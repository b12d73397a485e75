"""One database: its writer's thread, its readers' threads, and what happens when it is opened and left."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, final

import trio
from sqlalchemy import URL, Engine

from ...errors import TaskPersistenceError
from .engine import EngineOptions, make_engines, parse_url, shown
from .faults import Faults
from .statements import Statements, statements_for
from .versions import prepare_tables
from .writer import Writer

__all__ = ["Database", "open_database"]

T = TypeVar("T")


@final
class Database:
    """A database that is open. Made by `open_database`.

    Attributes:
        name: Its URL without the password.
        statements: Its dialect.
        writer: Writes to it.
    """

    def __init__(self, url: URL, writer: Engine, readers: Engine, count: int) -> None:
        self.name = shown(url)
        self.statements: Statements = statements_for(url.get_backend_name())
        self.writer = Writer(writer, self.statements)
        self._engine = readers
        self._faults = Faults(readers)
        self._count = count
        # As many threads as connections.
        self._threads = trio.CapacityLimiter(count)
        self._closed = False

    async def read(self, work: Callable[..., T], *args: Any, task_id: str | None = None) -> T:
        """Call ``work(connection, *args)`` on a reader's thread, and return what it returns.

        Args:
            work: Only reads, and does not keep the connection. It is called again if the connection is lost.
            args: What it gets beside the connection.
            task_id: The task concerned, for the error.

        Raises:
            StoreError: The database failed, or ``work`` raised it.

        Cancellation: a checkpoint; the thread goes on to the end of its work, which nobody waits for.
        """
        if self._closed:
            raise TaskPersistenceError("the SQL store is closed; use it inside its `async with` block")
        return await trio.to_thread.run_sync(
            self._read, work, args, task_id, limiter=self._threads, abandon_on_cancel=True
        )

    def _read(self, work: Callable[..., T], args: tuple[Any, ...], task_id: str | None) -> T:
        try:
            try:
                return self._once(work, args)
            except self._faults.any as error:
                # A pooled connection that the server has closed meanwhile. The pool then drops its others, too.
                if not getattr(error, "connection_invalidated", False):
                    raise
                return self._once(work, args)
        except self._faults.any as error:
            raise self._faults.store_error("the database could not be read", error, task_id=task_id) from None

    def _once(self, work: Callable[..., T], args: tuple[Any, ...]) -> T:
        with self._engine.connect() as connection:
            return work(connection, *args)

    async def aclose(self, timeout: float) -> None:
        """Take nothing more; write what waits; end the threads and the connections.

        Args:
            timeout: Seconds for what is waiting.

        Cancellation: a checkpoint; shielded for the time-out.
        """
        self._closed = True
        try:
            await self.writer.aclose(timeout)
        finally:
            with trio.move_on_after(timeout, shield=True):
                # All slots free: no reader is at work any more.
                for slot in range(self._count):
                    await self._threads.acquire_on_behalf_of(slot)
                await trio.to_thread.run_sync(self._engine.dispose)


@asynccontextmanager
async def open_database(
    url: str, options: EngineOptions, *, create: bool, close_timeout: float
) -> AsyncIterator[Database]:
    """Connect to a database, check that its tables are ours, and keep it open for the block.

    Args:
        url: Where it is.
        options: Settings of the connections.
        create: Make the tables if there are none.
        close_timeout: Seconds for what is waiting when the block is left.

    Raises:
        ValueError: The URL is none of a database that is supported.
        ImportError: Its driver is not installed.
        StoreError: It cannot be reached, or its tables are of another version.

    Cancellation: entering is a checkpoint. Leaving is shielded for ``close_timeout``.
    """
    # The driver and its dialect are imported there: that reads many files.
    parsed, writer, readers = await trio.to_thread.run_sync(_engines, url, options)
    database = Database(parsed, writer, readers, options.readers)
    await trio.to_thread.run_sync(partial(prepare_tables, writer, parsed, create=create))
    database.writer.start()
    try:
        yield database
    finally:
        await database.aclose(close_timeout)


def _engines(url: str, options: EngineOptions) -> tuple[URL, Engine, Engine]:
    parsed = parse_url(url)
    return parsed, *make_engines(parsed, options)
