"""Stores that misbehave: one that fails when it is told to, and one that takes its time.

Both keep their tasks in an `InMemoryTaskStore`, which a test can look into at any time.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import final

import trio

from ..abc import Envelope, EventLog, StoredTask, TaskChange, TaskStateProvider, TaskStore
from ..errors import TaskPersistenceError
from ..stores import InMemoryTaskStore
from ..types import ListTasksRequest, Task

__all__ = ["FlakyStore", "SlowStore"]


class _Outside(TaskStore, EventLog, TaskStateProvider):
    """Passes everything on to the store inside."""

    def __init__(self, inner: InMemoryTaskStore | None) -> None:
        self.inner = inner if inner is not None else InMemoryTaskStore()

    async def get(self, task_id: str) -> StoredTask | None:
        return await self.inner.get(task_id)

    async def commit(self, changes: Sequence[TaskChange]) -> None:
        await self.inner.commit(changes)

    async def delete(self, task_id: str) -> None:
        await self.inner.delete(task_id)

    async def list(
        self, query: ListTasksRequest, *, owner: str, after: tuple[datetime | None, str] | None = None
    ) -> tuple[Sequence[Task], int]:
        return await self.inner.list(query, owner=owner, after=after)

    async def events(self, task_id: str, after: int) -> Sequence[Envelope]:
        return await self.inner.events(task_id, after)

    @property
    def grace_period(self) -> float:
        return self.inner.grace_period

    async def is_task_active(self, task_id: str) -> bool:
        return await self.inner.is_task_active(task_id)

    async def is_task_finalized(self, task_id: str) -> bool:
        return await self.inner.is_task_finalized(task_id)


@final
class FlakyStore(_Outside):
    """Fails when it is told to.

    Attributes:
        inner: Where the tasks are.
        refuse: Called with each change of a commit; if it says True for one, the whole commit fails. None: none fails.
        unreadable: Whether `get` fails.
        forgets_to_answer: Whether a commit that fails by ``refuse`` is carried out all the same, as when the connection
            breaks after it.
        error: What is raised.
        commits: The event numbers of every commit that was tried, in order.
    """

    def __init__(
        self,
        inner: InMemoryTaskStore | None = None,
        *,
        refuse: Callable[[TaskChange], bool] | None = None,
        error: Exception | None = None,
    ) -> None:
        super().__init__(inner)
        self.refuse = refuse
        self.error = error if error is not None else TaskPersistenceError("the store is broken, as it was told to be")
        self.unreadable = False
        self.forgets_to_answer = False
        self.commits: list[tuple[int, ...]] = []

    async def get(self, task_id: str) -> StoredTask | None:
        """Return the task, unless ``unreadable`` is set."""
        if self.unreadable:
            await trio.lowlevel.checkpoint()
            raise self.error
        return await self.inner.get(task_id)

    async def commit(self, changes: Sequence[TaskChange]) -> None:
        """Store the changes, unless one of them is refused."""
        self.commits.append(tuple(change.sequence for change in changes))
        refused = self.refuse is not None and any(map(self.refuse, changes))
        if not refused or self.forgets_to_answer:
            await self.inner.commit(changes)
        else:
            await trio.lowlevel.checkpoint()
        if refused:
            raise self.error


@final
class SlowStore(_Outside):
    """Takes its time, on Trio's clock, for the tasks that it is told to be slow for.

    Attributes:
        inner: Where the tasks are.
        get_seconds: How long `get` takes, by task id.
        commit_seconds: How long a commit takes, by task id; the slowest of its tasks counts.
        commits: The event numbers of every commit that was begun, in order.
    """

    def __init__(
        self,
        inner: InMemoryTaskStore | None = None,
        *,
        get_seconds: Mapping[str, float] | None = None,
        commit_seconds: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(inner)
        self.get_seconds = dict(get_seconds or {})
        self.commit_seconds = dict(commit_seconds or {})
        self.commits: list[tuple[int, ...]] = []

    async def get(self, task_id: str) -> StoredTask | None:
        """Return the task, in its time."""
        await trio.sleep(self.get_seconds.get(task_id, 0.0))
        return await self.inner.get(task_id)

    async def commit(self, changes: Sequence[TaskChange]) -> None:
        """Store the changes, in their time."""
        self.commits.append(tuple(change.sequence for change in changes))
        await trio.sleep(max((self.commit_seconds.get(change.task_id, 0.0) for change in changes), default=0.0))
        await self.inner.commit(changes)
