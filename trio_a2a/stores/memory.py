"""Tasks in the memory of one process.

Nothing survives the process, and nothing is ever evicted. What is kept of a task is the last change, whose snapshot is
built when somebody asks for it: so a commit costs the same however long the task is. Beside it lie the last events, for
readers that come back. A short task is packed when it is over.
"""

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import final

import attrs
import trio

from ..abc import Envelope, EventLog, StoredTask, StreamEvent, TaskChange, TaskStateProvider, TaskStore
from ..clock import Clock, TrioClock
from ..errors import TaskConflictError
from ..types import ListTasksRequest, Task, TaskState, TaskStatusUpdateEvent
from .packed import PackedTask, is_short

__all__ = ["InMemoryTaskStore"]

# How far back a reader may continue. Nearly all that the log costs is that it keeps the events.
_REPLAY_EVENTS = 1000
_DEFAULT_PAGE_SIZE = 50  # protocol section 16
_NEVER = datetime.min.replace(tzinfo=UTC)


@attrs.define(eq=False)
class _Row:
    """A task that goes on, or is too long to be packed."""

    change: TaskChange
    finalized_at: datetime | None
    # The last events, that of `change` at the end, so that their numbers need not be kept. At least the last
    # `_REPLAY_EVENTS`, and at most twice as many. A list: an empty deque is larger than one of fifty events.
    events: list[StreamEvent] = attrs.Factory(list)

    @property
    def sequence(self) -> int:
        return self.change.sequence

    @property
    def owner(self) -> str:
        return self.change.owner

    @property
    def tenant(self) -> str:
        return self.change.tenant

    @property
    def context_id(self) -> str:
        return self.task.context_id

    @property
    def state(self) -> TaskState:
        return self.task.status.state

    @property
    def timestamp(self) -> datetime | None:
        return self.task.status.timestamp

    @property
    def task(self) -> Task:
        return self.change.snapshot()

    def packed(self) -> "_Row | PackedTask":
        """Return what the task is kept as now that it is over."""
        assert self.finalized_at is not None
        change, task = self.change, self.task
        if not is_short(task, self.events):
            return self
        return PackedTask(
            task,
            self.events,
            sequence=change.sequence,
            owner=change.owner,
            tenant=change.tenant,
            finalized_at=self.finalized_at,
        )


@final
class InMemoryTaskStore(TaskStore, EventLog, TaskStateProvider):
    """Keeps tasks in memory: a store, a log of each task's last 1000 events, and a state provider.

    The log of a finished task goes when its grace period is over; the task itself stays until it is deleted.

    Args:
        grace_period: Seconds for which a finalized task still counts as active. 0: none.
        clock: Where ``finalized_at`` and the end of the grace period are read; `TrioClock` by default.

    Raises:
        ValueError: The grace period is negative.

    Attributes:
        grace_period: As given.
    """

    def __init__(self, grace_period: float = 15.0, clock: Clock | None = None) -> None:
        if not grace_period >= 0:
            raise ValueError(f"grace_period must be 0 or more seconds, not {grace_period!r}")
        self.grace_period = grace_period
        self._grace = timedelta(seconds=grace_period)
        self._clock = clock if clock is not None else TrioClock()
        self._rows: dict[str, _Row | PackedTask] = {}
        # Tasks that are over and still have their log, in the order in which they ended.
        self._finished: deque[tuple[datetime, str]] = deque()

    def __repr__(self) -> str:
        return f"<InMemoryTaskStore: {len(self._rows)} tasks>"

    async def get(self, task_id: str) -> StoredTask | None:
        """Return the task, or None if there is none."""
        await trio.lowlevel.checkpoint()
        row = self._rows.get(task_id)
        return None if row is None else _stored(row)

    async def commit(self, changes: Sequence[TaskChange]) -> None:
        """Store the changes, all or none.

        Raises:
            TaskConflictError: A change's number is not the stored one plus one.

        Cancellation: a checkpoint; when it is cancelled, nothing was stored.
        """
        await trio.lowlevel.checkpoint()
        expected: dict[str, int] = {}
        for change in changes:
            row = self._rows.get(change.task_id)
            at = expected.get(change.task_id, row.sequence if row is not None else 0)
            if change.sequence != at + 1:
                raise TaskConflictError(
                    f"task {change.task_id!r} is at event {at}, so event {change.sequence} cannot follow",
                    task_id=change.task_id,
                )
            expected[change.task_id] = change.sequence
        finished = {change.task_id for change in changes if self._add(change)}
        for task_id in finished:
            row = self._rows[task_id]
            if isinstance(row, _Row):
                self._rows[task_id] = row.packed()
        if self._finished:
            self._put_away(self._clock.now())

    def _add(self, change: TaskChange) -> bool:
        """Add a change; tell whether its task is over."""
        row = self._rows.get(change.task_id)
        if row is None:
            row = self._rows[change.task_id] = _Row(change, None)
        elif isinstance(row, PackedTask):  # a late event
            row = self._rows[change.task_id] = _Row(change, row.finalized_at, row.events)
        row.change = change
        row.events.append(change.event)
        if len(row.events) > 2 * _REPLAY_EVENTS:
            del row.events[:-_REPLAY_EVENTS]
        if row.finalized_at is None and _state_of(change).is_final:
            row.finalized_at = self._clock.now()
            self._finished.append((row.finalized_at, change.task_id))
        return row.finalized_at is not None

    def _put_away(self, now: datetime) -> None:
        """Keep only the task itself of those whose grace period is over: nobody continues their streams any more."""
        while self._finished and self._finished[0][0] + self._grace <= now:
            _, task_id = self._finished.popleft()
            row = self._rows.get(task_id)
            if isinstance(row, PackedTask):
                row.drop_events()
            elif row is not None and row.finalized_at is not None:
                row.events = []
                # Without the working state, which holds the task's parts a second time.
                row.change = _settled(row.change)

    async def delete(self, task_id: str) -> None:
        """Remove the task and its log; an unknown one is no error."""
        await trio.lowlevel.checkpoint()
        self._rows.pop(task_id, None)

    async def list(
        self, query: ListTasksRequest, *, owner: str, after: tuple[datetime | None, str] | None = None
    ) -> tuple[Sequence[Task], int]:
        """Return a page of the owner's tasks, newest status first, and how many match in all."""
        await trio.lowlevel.checkpoint()
        found = [
            (_position(row.timestamp, task_id), row)
            for task_id, row in self._rows.items()
            if row.owner == owner and query.tenant in {"", row.tenant} and _matches(row, query)
        ]
        found.sort(key=lambda entry: entry[0])
        total = len(found)
        if after is not None:
            behind = _position(*after)
            found = [entry for entry in found if entry[0] > behind]
        return tuple(row.task for _, row in found[: query.page_size or _DEFAULT_PAGE_SIZE]), total

    async def events(self, task_id: str, after: int) -> Sequence[Envelope]:
        """Return the events with numbers above ``after`` that are still held."""
        await trio.lowlevel.checkpoint()
        row = self._rows.get(task_id)
        if row is None:
            return ()
        last = row.sequence
        events = row.events
        count = min(last - after, len(events), _REPLAY_EVENTS)
        if count <= 0:
            return ()
        return tuple(map(Envelope, range(last - count + 1, last + 1), events[-count:]))

    async def is_task_active(self, task_id: str) -> bool:
        """Tell whether the task is not final, or ``now < finalized_at + grace_period``."""
        await trio.lowlevel.checkpoint()
        row = self._rows.get(task_id)
        if row is None:
            return False
        return row.finalized_at is None or self._clock.now() < row.finalized_at + self._grace

    async def is_task_finalized(self, task_id: str) -> bool:
        """Tell whether the task is in a terminal state."""
        await trio.lowlevel.checkpoint()
        row = self._rows.get(task_id)
        return row is not None and row.finalized_at is not None


def _stored(row: _Row | PackedTask) -> StoredTask:
    return StoredTask(
        task=row.task, sequence=row.sequence, owner=row.owner, tenant=row.tenant, finalized_at=row.finalized_at
    )


def _settled(change: TaskChange) -> TaskChange:
    """Return the change with its snapshot made."""
    task = change.snapshot()
    return TaskChange(
        task_id=change.task_id,
        sequence=change.sequence,
        event=change.event,
        snapshot=lambda: task,
        owner=change.owner,
        tenant=change.tenant,
    )


def _state_of(change: TaskChange) -> TaskState:
    """The state that the change's event reports; an artifact reports none."""
    event = change.event
    return event.status.state if isinstance(event, Task | TaskStatusUpdateEvent) else TaskState.UNSPECIFIED


def _matches(row: _Row | PackedTask, query: ListTasksRequest) -> bool:
    since, at = query.status_timestamp_after, row.timestamp
    return (
        (not query.context_id or row.context_id == query.context_id)
        and (query.status is TaskState.UNSPECIFIED or row.state is query.status)
        and (since is None or (at is not None and at >= since))
    )


def _position(timestamp: datetime | None, task_id: str) -> tuple[bool, timedelta, str]:
    """Sort key: newest status first, tasks without a time last, ties by id."""
    if timestamp is None:
        return True, timedelta(0), task_id
    return False, _NEVER - timestamp, task_id
