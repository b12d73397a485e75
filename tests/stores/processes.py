"""Processes that share a database, in one: each is a store of its own, and the clock is moved by hand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import trio
from sqlalchemy import Connection, text

from tests.stores.databases import connect_to
from tests.stores.writers import TaskWriter
from trio_a2a.abc import StreamEvent
from trio_a2a.clock import Clock
from trio_a2a.stores import SqlTaskStore

START = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Wall(Clock):
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


async def write(store: SqlTaskStore, task_id: str, *events: StreamEvent) -> TaskWriter:
    """Commit a task's events as a process would that works on it."""
    writer = TaskWriter(task_id)
    await store.commit([writer.change(event) for event in events])
    return writer


async def claim_all(store: SqlTaskStore, limit: int = 100) -> list[str]:
    """Claim until there is nothing left."""
    claimed: list[str] = []
    while found := await store.claim_orphans(limit):
        assert len(found) <= limit
        claimed += found
    return claimed


@contextmanager
def inside(url: str) -> Iterator[Connection]:
    """Look into the database, or change what is in it."""
    engine = connect_to(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def kill(url: str, store: SqlTaskStore, name: str = "dead") -> None:
    """Make what the store's process has left behind that of another one, from which nothing more is heard."""
    with inside(url) as connection:
        names = {"name": name, "was": store.process_id}
        for statement in (
            "UPDATE a2a_processes SET process_id = :name WHERE process_id = :was",
            "UPDATE a2a_tasks SET runner = :name WHERE runner = :was",
        ):
            connection.execute(text(statement), names)


def lease_end(url: str, process_id: str) -> int | None:
    """When the lease of a process expires, in microseconds; None if it has none."""
    with inside(url) as connection:
        found = connection.execute(
            text("SELECT expires_at FROM a2a_processes WHERE process_id = :id"), {"id": process_id}
        ).scalar()
    return None if found is None else int(found)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what threads bring about, in a test whose clock stands still and so has no deadline of its own."""
    for _ in range(5000):
        if is_so():
            return
        await trio.to_thread.run_sync(int)
    raise AssertionError("what was waited for did not happen")


async def until_renewed(url: str, process_id: str, before: int | None) -> int:
    """Wait until the lease ends at another time than before, and return that."""
    for _ in range(5000):
        end = await trio.to_thread.run_sync(lease_end, url, process_id)
        if end not in {before, None}:
            assert end is not None
            return end
    raise AssertionError("the lease is not renewed")
