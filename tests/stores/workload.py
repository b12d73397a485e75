"""Tasks in a queue manager while something is wrong with the database, and what their readers saw."""

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from tests.stores.checker import check, digest_of
from trio_a2a.abc import CloseReason
from trio_a2a.errors import InternalError, StoreError
from trio_a2a.stores import SqlTaskStore, open_sql_store
from trio_a2a.streams import ChildQueue, QueueManager, open_queue_manager
from trio_a2a.testing import artifact, status, task
from trio_a2a.types import TaskState
from trio_a2a.wire import to_json

SHORT = {"connect_timeout": 0.5, "statement_timeout": 0.5, "lock_timeout": 0.5}
"""Limits with which a test does not wait long for a fault to be noticed."""

# Larger than a page of the database: the first one finds that it is full.
_LARGE = "x" * 9000


@attrs.define(eq=False)
class Workload:
    """Tasks that are made, fed and followed, on a store that is in trouble at times.

    Attributes:
        store: The store.
        manager: A queue manager on it.
        seen: Digests of what subscribers got, by task and number.
        reasons: Why streams ended, by task, one after the other.
    """

    store: SqlTaskStore
    manager: QueueManager
    _nursery: trio.Nursery
    seen: dict[str, dict[int, str]] = attrs.Factory(lambda: defaultdict(dict))
    reasons: dict[str, list[CloseReason | None]] = attrs.Factory(lambda: defaultdict(list))
    _count: int = 0
    _following: set[str] = attrs.Factory(set)
    _wakers: set[trio.Event] = attrs.Factory(set)

    def follows(self, task_id: str) -> bool:
        """Tell whether somebody reads the task's stream."""
        return task_id in self._following

    async def follow(self, task_id: str) -> None:
        """Read a task's stream to its end, in the background, behind what was seen before."""
        await self._nursery.start(self._follow, task_id)

    async def _follow(self, task_id: str, *, task_status: trio.TaskStatus[None]) -> None:
        last = max(self.seen[task_id], default=None)
        async with self.manager.subscribe(task_id, snapshot=False, after=last) as child:
            task_status.started()
            self._following.add(task_id)
            try:
                await self._read(child, task_id)
            except InternalError as error:
                if not isinstance(error.__cause__, StoreError):
                    raise
            self.reasons[task_id].append(child.close_reason)
            self._following.discard(task_id)
            self._wake()

    async def _read(self, child: ChildQueue, task_id: str) -> None:
        known = self.seen[task_id]
        while True:
            try:
                batch = await child.receive_batch()
            except trio.EndOfChannel:
                return
            for envelope in batch:
                assert envelope.sequence == max(known, default=0) + 1, "without gap or double"
                known[envelope.sequence] = digest_of(to_json(envelope.event))
            self._wake()

    def _wake(self) -> None:
        for waker in self._wakers:
            waker.set()

    async def until(self, condition: Any) -> None:
        """Wait until it is true; it is looked at whenever something was seen."""
        while not condition():
            waker = trio.Event()
            self._wakers.add(waker)
            await waker.wait()
            self._wakers.discard(waker)

    async def begin(self, task_id: str) -> None:
        """Make a task and follow it."""
        await self.follow(task_id)
        await self.manager.enqueue(task_id, task(task_id))

    async def feed(self, task_id: str) -> None:
        """Give a task an event that is like no other."""
        self._count += 1
        await self.manager.enqueue(task_id, artifact(task_id, f"{self._count} {_LARGE}", artifact_id=f"{self._count}"))

    async def finish(self, task_id: str) -> None:
        await self.manager.enqueue(task_id, status(task_id, TaskState.COMPLETED))


@asynccontextmanager
async def open_workload(url: str, **options: Any) -> AsyncIterator[Workload]:
    """Open a store and a manager; on leaving, what was seen is compared with what is stored at ``url``."""
    async with open_sql_store(url, **{**SHORT, **options}) as store, open_queue_manager(store) as manager:
        async with trio.open_nursery() as nursery:
            work = Workload(store, manager, nursery)
            yield work
        await compare(url, work)


async def compare(url: str, work: Workload) -> None:
    findings = await trio.to_thread.run_sync(check, url, work.seen)
    assert not findings.faults, findings.faults
    # Whatever was stored was stored once: every event is like no other.
    for task_id in work.seen:
        log = await work.store.events(task_id, 0)
        bodies = [to_json(envelope.event) for envelope in log]
        assert len(set(bodies)) == len(bodies), "something is stored twice"


FAILED = CloseReason.STORE_FAILURE


async def outlive(work: Workload, fault: Any) -> None:
    """Have some tasks hit by a fault and others not; then all go on, with the same store.

    Args:
        work: The tasks' store.
        fault: An async context manager: the database is in trouble inside.
    """
    hit, quiet = [f"hit{number}" for number in range(4)], [f"quiet{number}" for number in range(3)]
    for task_id in hit + quiet:
        await work.begin(task_id)
        await work.feed(task_id)
    await work.until(lambda: all(len(work.seen[task_id]) == 2 for task_id in hit + quiet))
    async with fault:
        for task_id in hit:
            await work.feed(task_id)
        await work.until(lambda: all(work.reasons[task_id] for task_id in hit))
    assert all(work.reasons[task_id] == [FAILED] for task_id in hit)
    assert not any(work.reasons[task_id] for task_id in quiet), "others do not notice"
    for task_id in hit:
        await work.follow(task_id)
    for task_id in hit + quiet:
        await work.feed(task_id)
        await work.finish(task_id)
    await work.until(lambda: all(work.reasons[task_id][-1:] == [CloseReason.FINAL] for task_id in hit + quiet))
    for task_id in quiet:
        assert list(work.seen[task_id]) == [1, 2, 3, 4]
    for task_id in hit:
        assert len(work.seen[task_id]) in {4, 5}, "the one that failed may be there, if nobody could tell"
