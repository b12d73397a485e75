"""Retention: deleting finished tasks that are old, so that commits in between hardly notice.

Theory of operation
-------------------
What is due is looked for on a reader's connection, a page at a time, oldest end first. It is deleted in small steps,
each a transaction of the writer's, so commits that come meanwhile wait for one step at most. A step is bounded by the
events that it deletes as well as by its tasks; a task with more events than one step may have first loses its oldest
ones, step by step, behind its snapshot: it can still be read until the last step takes the rest. After each step
pruning rests for a multiple of the time that it took: so few commits meet a step at all.

Each step asks again whether its tasks are due, under a lock on their rows: they may have been deleted, and made anew.
Ids go in order, so that two processes which prune at once take their locks in the same one.
"""

import logging
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import attrs
import trio
from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select

from ...clock import Clock
from ...errors import StoreError
from .database import Database
from .schema import events, push_configs, snapshots, tasks, to_micros

__all__ = [
    "DEFAULT_BATCH",
    "DEFAULT_SHARE",
    "Pruned",
    "check_retention",
    "count_due",
    "ends_before",
    "keep_pruned",
    "prune",
]

_logger = logging.getLogger("trio_a2a.stores")

DEFAULT_BATCH: Final = 50
"""Tasks that are deleted in one transaction."""
_STEP_EVENTS: Final = 100
"""Events that are deleted in one transaction: as many as a few commits write."""
DEFAULT_SHARE: Final = 0.05
"""The part of the time for which pruning is at work."""
_PAGE: Final = 1000
"""Due tasks that are looked for at once; a bound on what is in memory."""
_EASE_SECONDS: Final = 60.0
_EASE_SHARE: Final = 20
"""Automatic retention gathers what becomes due for so long, or for this part of the span: no wake-up for each task."""


@attrs.frozen(kw_only=True)
class Pruned:
    """What was deleted, or with ``dry_run`` would be.

    Attributes:
        tasks: Tasks.
        events: Their events.
    """

    tasks: int
    events: int


class _Due(NamedTuple):
    """A task to be deleted."""

    task_id: str
    finalized_at: int
    last_sequence: int


def ends_before(now: datetime, older_than: float) -> int:
    """Return the instant, as a column holds it, before which a task must have ended to be older than so many seconds.

    Raises:
        ValueError: It is no number of seconds.
    """
    if not (older_than >= 0 and math.isfinite(older_than)):
        raise ValueError(f"older_than must be 0 or more seconds, not {older_than!r}")
    # No column holds an instant before this one.
    return max(to_micros(now) - round(older_than * 1_000_000), -(2**63))


async def prune(database: Database, before: int, *, batch: int, share: float) -> Pruned:
    """Delete the tasks that ended before an instant.

    Raises:
        StoreError: The database failed; what was deleted so far is deleted.

    Cancellation: as `SqlTaskStore.prune`.
    """
    rest = 1 / share - 1
    pruned = Pruned(tasks=0, events=0)
    after: _Due | None = None
    while page := await database.read(_due, before, after):
        for step in _steps(page, batch):
            if step[0].last_sequence > _STEP_EVENTS:
                await _shorten(database, step[0], before, rest)
            gone = await _rested(database, _Delete(step, before), rest)
            pruned = Pruned(tasks=pruned.tasks + gone.tasks, events=pruned.events + gone.events)
        after = page[-1]
        if len(page) < _PAGE:
            break
    return pruned


def count_due(connection: Connection, before: int) -> Pruned:
    """Return how much `prune` would delete."""
    count = select(func.count(), func.coalesce(func.sum(tasks.c.last_sequence), 0))
    found, events_ = connection.execute(count.where(tasks.c.finalized_at < before)).one()
    return Pruned(tasks=found, events=int(events_))


def _due(connection: Connection, before: int, after: _Due | None) -> list[_Due]:
    query = (
        select(tasks.c.task_id, tasks.c.finalized_at, tasks.c.last_sequence)
        .where(tasks.c.finalized_at < before)
        .order_by(tasks.c.finalized_at, tasks.c.task_id)
        .limit(_PAGE)
    )
    if after is not None:
        # Behind the last one: what was deleted may still be in the index, and would be passed over each time.
        query = query.where(tasks.c.finalized_at >= after.finalized_at).where(_behind(after))
    return [_Due._make(row) for row in connection.execute(query)]


def _behind(due: _Due) -> ColumnElement[bool]:
    return or_(
        tasks.c.finalized_at > due.finalized_at,
        and_(tasks.c.finalized_at == due.finalized_at, tasks.c.task_id > due.task_id),
    )


def _steps(page: Sequence[_Due], batch: int) -> list[list[_Due]]:
    """Cut a page into what is deleted together: at most ``batch`` tasks and `_STEP_EVENTS`, or one larger task."""
    steps: list[list[_Due]] = [[]]
    size = 0
    for due in page:
        if steps[-1] and (len(steps[-1]) == batch or size + due.last_sequence > _STEP_EVENTS):
            steps.append([])
            size = 0
        steps[-1].append(due)
        size += due.last_sequence
    return steps


async def _shorten(database: Database, due: _Due, before: int, rest: float) -> None:
    """Delete a long task's events from the front, up to the last ones behind its snapshot."""
    bounds = await database.read(_bounds, due.task_id)
    if bounds is not None:
        first, last = bounds
        for end in range(first + _STEP_EVENTS, last, _STEP_EVENTS):
            await _rested(database, _Shorten(due.task_id, end, before), rest)


def _bounds(connection: Connection, task_id: str) -> tuple[int, int] | None:
    """Return the number of a task's first event, and that of its snapshot; None without one of them."""
    first = connection.scalar(select(func.min(events.c.sequence)).where(events.c.task_id == task_id))
    last = connection.scalar(select(snapshots.c.sequence).where(snapshots.c.task_id == task_id))
    return None if first is None or last is None else (first, last)


async def _rested(database: Database, work: Any, rest: float) -> Pruned:
    started = trio.current_time()
    done: Pruned = await database.writer.do(work)
    await trio.sleep((trio.current_time() - started) * rest)
    return done


def _locked(connection: Connection, due: ColumnElement[bool]) -> list[str]:
    """Return which tasks are due, and keep others from changing them until the transaction's end."""
    found = select(tasks.c.task_id).where(due).order_by(tasks.c.task_id).with_for_update()
    return list(connection.scalars(found))


@attrs.frozen
class _Delete:
    """One step: some tasks, whole."""

    step: Sequence[_Due]
    before: int

    def __call__(self, connection: Connection) -> Pruned:
        due = and_(tasks.c.task_id.in_(sorted(due.task_id for due in self.step)), tasks.c.finalized_at < self.before)
        if connection.dialect.delete_returning:
            ids = list(connection.scalars(delete(tasks).where(due).returning(tasks.c.task_id)))
        elif ids := _locked(connection, due):
            connection.execute(delete(tasks).where(tasks.c.task_id.in_(ids)))
        if ids:
            for table in (events, snapshots, push_configs):
                connection.execute(delete(table).where(table.c.task_id.in_(ids)))
        gone = frozenset(ids)
        return Pruned(tasks=len(ids), events=sum(due.last_sequence for due in self.step if due.task_id in gone))


@attrs.frozen
class _Shorten:
    """One step: the oldest events of a long task."""

    task_id: str
    end: int
    before: int

    def __call__(self, connection: Connection) -> Pruned:
        if _locked(connection, and_(tasks.c.task_id == self.task_id, tasks.c.finalized_at < self.before)):
            connection.execute(delete(events).where(events.c.task_id == self.task_id, events.c.sequence <= self.end))
        return Pruned(tasks=0, events=0)


# ------------------------------------------------------------------------------------------------------- automatically


def check_retention(retention: float | None, grace_period: float) -> None:
    """Refuse a span that makes no sense.

    Raises:
        ValueError: It is no number of seconds, or not longer than the grace period.
    """
    if retention is not None and not (retention > grace_period and math.isfinite(retention)):
        raise ValueError(
            f"retention must be more seconds than the grace_period ({grace_period:g}), in which a finished task still"
            f" counts as active; or None for no end; not {retention!r}"
        )


async def keep_pruned(database: Database, retention: float, clock: Clock) -> None:
    """Delete tasks when their time has come, until cancelled. A failure of the database is logged, and not the end.

    Cancellation: as `SqlTaskStore.prune`.
    """
    ease = min(_EASE_SECONDS, retention / _EASE_SHARE)
    while True:
        # A task that ends from now on is not due before the whole span is over.
        wait = retention
        try:
            pruned = await prune(
                database, ends_before(clock.now(), retention), batch=DEFAULT_BATCH, share=DEFAULT_SHARE
            )
            if pruned.tasks:
                _logger.info("%s tasks, finished more than %g s ago, were deleted", pruned.tasks, retention)
            oldest = await database.read(_oldest)
            if oldest is not None:
                wait += (oldest - to_micros(clock.now())) / 1_000_000
        except (StoreError, TypeError) as error:  # boundary of retention: the tasks are more important than it is
            _logger.warning("old tasks could not be deleted: %s", error)
            wait = 0.0
        await trio.sleep(max(wait, 0.0) + ease)


def _oldest(connection: Connection) -> int | None:
    found: int | None = connection.scalar(select(func.min(tasks.c.finalized_at)))
    return found
