"""The task store on an SQL database."""

import logging
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, final, get_args

import trio
from sqlalchemy import Connection, delete

from ...abc import (
    Envelope,
    EventLog,
    OrphanedTasks,
    OrphanPolicy,
    StoredTask,
    TaskChange,
    TaskStateProvider,
    TaskStore,
)
from ...beside import running_beside
from ...clock import Clock, TrioClock
from ...errors import TaskSerializationError
from ...types import ListTasksRequest, Task
from ...types.identifier import new_id
from .commit import prepare
from .database import Database, open_database
from .engine import EngineOptions
from .lease import Lease, holding_lease
from .listing import Filters, filters_of, read_page
from .orphans import Candidate, claim, find_orphans
from .reading import read_events, read_state, read_task
from .retention import DEFAULT_BATCH, DEFAULT_SHARE, Pruned, check_retention, count_due, ends_before, keep_pruned, prune
from .rows import is_key, state_of
from .schedule import SnapshotSchedule
from .schema import events, from_micros, snapshots, tasks, to_micros

__all__ = ["SqlTaskStore", "open_sql_store"]

_logger = logging.getLogger("trio_a2a.stores")

_DEFAULT_PAGE_SIZE = 50  # protocol section 16
# A total that took longer than this to count serves the next pages, too, for so many times as long: a list of a million
# tasks is not counted anew for each of its pages.
_SLOW_COUNT = 0.05
_COUNT_SHARE = 20
# How long leaving waits for this process's row to be removed, which otherwise expires.
_FAREWELL_SECONDS = 2.0
# Lists that are paged through at the same time and are worth remembering.
_MAX_TOTALS = 256


@final
class SqlTaskStore(TaskStore, EventLog, TaskStateProvider, OrphanedTasks):
    """Keeps tasks in an SQL database: a store, a log of all events, a state provider, and a finder of orphans.

    Made by `open_sql_store`. Any number of processes may work on one database.

    Attributes:
        grace_period: Seconds for which a finalized task still counts as active.
        process_id: What this store's tasks are marked with while a run works on them.
    """

    def __init__(
        self,
        database: Database,
        grace_period: float,
        clock: Clock,
        *,
        process_id: str,
        lease: Lease,
        on_orphan: OrphanPolicy,
    ) -> None:
        self._database = database
        self.grace_period = grace_period
        self.process_id = process_id
        self._lease = lease
        self._on_orphan: OrphanPolicy = on_orphan
        # Whose claim was tried and has an outcome that is not known.
        self._unsettled: tuple[Candidate, ...] = ()
        self._grace = timedelta(seconds=grace_period)
        self._clock = clock
        self._schedule = SnapshotSchedule()
        # Total, when it was counted on Trio's clock, and how long that took.
        self._totals: dict[Filters, tuple[int, float, float]] = {}

    def __repr__(self) -> str:
        return f"<SqlTaskStore {self._database.name}>"

    async def get(self, task_id: str) -> StoredTask | None:
        """Return the task, or None if there is none.

        Raises:
            StoreError: It could not be read.

        Cancellation: a checkpoint.
        """
        if not is_key(task_id):
            await trio.lowlevel.checkpoint()
            return None
        return await self._database.read(read_task, task_id, task_id=task_id)

    async def commit(self, changes: Sequence[TaskChange]) -> None:
        """Store the changes, all or none; together with those of other callers, in one transaction.

        Raises:
            TaskConflictError: A change's number is not the stored one plus one.
            TaskSerializationError: An event or an id cannot be stored.
            StoreError: It could not be written.

        Cancellation: a checkpoint. A commit that the writer has not begun is not done. One that it has begun is decided
        before the caller is cancelled, unless that takes longer than two seconds; the sequence number tells.
        """
        if not changes:
            await trio.lowlevel.checkpoint()
            return
        now = to_micros(self._clock.now())
        prepared = prepare(
            changes,
            now=now,
            runner=self.process_id,
            statements=self._database.statements,
            schedule=self._schedule,
        )
        await self._database.writer.commit(prepared)

    async def delete(self, task_id: str) -> None:
        """Remove the task and its log; an unknown one is no error.

        Raises:
            StoreError: It could not be removed.

        Cancellation: as `commit`.
        """
        if not is_key(task_id):
            await trio.lowlevel.checkpoint()
            return

        def work(connection: Connection) -> None:
            for table in (tasks, snapshots, events):
                connection.execute(delete(table).where(table.c.task_id == task_id))

        await self._database.writer.do(work)

    async def prune(
        self, older_than: float, *, batch: int = DEFAULT_BATCH, share: float = DEFAULT_SHARE, dry_run: bool = False
    ) -> Pruned:
        """Delete finished tasks that are old, with their events, snapshots and push configurations.

        It is done in small transactions with rests between them, so that commits that come meanwhile are hardly slower.
        A task may be deleted while it still counts as active, if ``older_than`` is below the grace period; late events
        of it then fail.

        Args:
            older_than: How long ago, in seconds, a task must have ended. By the store's clock.
            batch: Tasks that are deleted in one transaction, at most; fewer if they have many events.
            share: The part of the time for which it is at work; the rest is for commits. 1: without rests.
            dry_run: Delete nothing; return what would be deleted.

        Returns:
            How much was deleted.

        Raises:
            ValueError: A number makes no sense.
            StoreError: The database failed; what was deleted before that is deleted.

        Cancellation: a checkpoint. The step that is under way is decided as a `commit` is; those before it are done. A
        task is deleted whole or not, but one with hundreds of events may then lack the oldest ones in its log.
        """
        if batch < 1:
            raise ValueError(f"batch must be at least 1, not {batch!r}")
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {share!r}")
        before = ends_before(self._clock.now(), older_than)
        if dry_run:
            return await self._database.read(count_due, before)
        return await prune(self._database, before, batch=batch, share=share)

    async def list(
        self, query: ListTasksRequest, *, owner: str, after: tuple[datetime | None, str] | None = None
    ) -> tuple[Sequence[Task], int]:
        """Return a page of the owner's tasks, newest status first, and how many match in all.

        The total is counted with every page, except where counting takes long: then pages that follow soon have the
        total of the one before.

        Raises:
            StoreError: They could not be read.

        Cancellation: a checkpoint.
        """
        filters = filters_of(query, owner)
        if not filters.can_match:
            await trio.lowlevel.checkpoint()
            return (), 0
        known = self._known_total(filters) if after is not None else None
        started = trio.current_time()

        def work(connection: Connection) -> tuple[Sequence[Task], int | None]:
            size = query.page_size or _DEFAULT_PAGE_SIZE
            return read_page(connection, filters, size=size, after=after, counted=known is not None)

        page, total = await self._database.read(work)
        if known is None:
            known = total or 0
            self._remember_total(filters, known, started)
        return page, known

    def _known_total(self, filters: Filters) -> int | None:
        total, counted_at, took = self._totals.get(filters, (0, -math.inf, 0.0))
        return total if trio.current_time() - counted_at < took * _COUNT_SHARE else None

    def _remember_total(self, filters: Filters, total: int, started: float) -> None:
        self._totals.pop(filters, None)
        now = trio.current_time()
        if now - started > _SLOW_COUNT:
            self._totals[filters] = (total, now, now - started)
            if len(self._totals) > _MAX_TOTALS:
                del self._totals[next(iter(self._totals))]

    async def events(self, task_id: str, after: int) -> Sequence[Envelope]:
        """Return the events with numbers above ``after``: the log reaches back to the first.

        Raises:
            StoreError: They could not be read.

        Cancellation: a checkpoint.
        """
        if not is_key(task_id):
            await trio.lowlevel.checkpoint()
            return ()
        return await self._database.read(read_events, task_id, max(after, 0), task_id=task_id)

    async def is_task_active(self, task_id: str) -> bool:
        """Tell whether the task is not final, or ``now < finalized_at + grace_period``.

        A row that cannot be read is no active task; that is logged.

        Raises:
            StoreError: The database could not be read.

        Cancellation: a checkpoint.
        """
        found, finalized_at = await self._state(task_id)
        # A difference: the sum would overflow for an end in the last seconds that there are.
        return found and (finalized_at is None or self._clock.now() - finalized_at < self._grace)

    async def is_task_finalized(self, task_id: str) -> bool:
        """Tell whether the task is in a terminal state. A row that cannot be read is none; that is logged.

        Raises:
            StoreError: The database could not be read.

        Cancellation: a checkpoint.
        """
        found, finalized_at = await self._state(task_id)
        return found and finalized_at is not None

    @property
    def on_orphan(self) -> OrphanPolicy:
        """What a server does with tasks whose process died."""
        return self._on_orphan

    async def claim_orphans(self, limit: int) -> Sequence[str]:
        """Make this process the runner of tasks whose own is gone, at most so many, and return their ids.

        Raises:
            StoreError: The database failed; what was claimed all the same is returned by a later call.

        Cancellation: a checkpoint; what was claimed all the same is returned by a later call.
        """
        now = self._lease.now
        candidates = self._unsettled
        if not candidates:
            candidates = tuple(await self._database.read(find_orphans, self.process_id, now, limit))
        if not candidates:
            return ()
        self._unsettled = candidates
        found = await self._database.writer.do(lambda connection: claim(connection, candidates, self.process_id, now))
        self._unsettled = ()
        return found

    async def wait_for_orphans(self) -> None:
        """Return when there may be orphans that were not there at the last claim.

        Cancellation: a checkpoint; nothing is lost when it is cancelled.
        """
        await self._lease.wait_for_orphans()

    async def _state(self, task_id: str) -> tuple[bool, datetime | None]:
        """Tell whether there is such a task, and when it ended."""
        if not is_key(task_id):
            await trio.lowlevel.checkpoint()
            return False, None
        try:
            row = await self._database.read(read_state, task_id, task_id=task_id)
            if row is None:
                return False, None
            name, micros = row
            finalized_at = None if micros is None else from_micros(micros)
            if state_of(name, task_id).is_final != (finalized_at is not None):
                raise TaskSerializationError("the stored state and the instant of the end disagree", task_id=task_id)
        except (TaskSerializationError, TypeError, OverflowError) as error:
            _logger.error("task %s counts as neither active nor finalized: its row cannot be read: %r", task_id, error)
            return False, None
        return True, finalized_at


@asynccontextmanager
async def open_sql_store(
    url: str,
    *,
    grace_period: float = 15.0,
    clock: Clock | None = None,
    on_orphan: OrphanPolicy = "fail",
    lease: float = 30.0,
    retention: float | None = None,
    create: bool = True,
    readers: int = 4,
    connect_timeout: float = 5.0,
    statement_timeout: float = 30.0,
    lock_timeout: float = 5.0,
    close_timeout: float = 10.0,
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
) -> AsyncIterator[SqlTaskStore]:
    """Open a task store on an SQL database for the block.

    The store has to outlive what writes to it: open it around the agent, or around the queue manager, which stores what
    it has accepted when it is left.

    Args:
        url: ``sqlite:///tasks.db``, ``postgresql://user:password@host/name``, ``mysql://...`` or ``mariadb://...``.
        grace_period: Seconds for which a finalized task still counts as active. 0: none.
        clock: Where the instants of rows come from; `TrioClock` by default. Processes that share a database are to have
            clocks that agree to well within a lease.
        on_orphan: What a server does with tasks that were SUBMITTED or WORKING when their process ended: "fail" makes
            them FAILED, "resume" calls the executor's ``resume``, and "keep" leaves them.
        lease: Seconds after which a process that was not heard of counts as dead. It is heard of each third of that.
        retention: Seconds after their end at which tasks are deleted, a minute later at most; it works while the block
            is open. None: they are kept, until somebody calls `SqlTaskStore.prune`.
        create: Make the tables where there are none. Tables of another version are never changed here.
        readers: Connections, and threads, for reading; one more writes.
        connect_timeout: Seconds for making a connection.
        statement_timeout: Seconds for one statement; not on SQLite, where statements wait for locks only.
        lock_timeout: Seconds that a statement waits for a lock of somebody else.
        close_timeout: Seconds for what is waiting when the block is left; what is then left fails.
        synchronous: SQLite only. With "NORMAL" a commit survives the end of the process, however it comes, but the last
            ones may be lost when the power fails; "FULL" waits for the disk each time. Neither can damage the database.

    Raises:
        ValueError: The URL is none of a database that is supported, or a number makes no sense.
        ImportError: The database's driver is not installed; the text names the extra.
        StoreError: The database cannot be reached, or its tables are missing or of another version; the text then says
            which command to run.

    Cancellation: entering is a checkpoint. Leaving gives up the lease, refuses new calls, writes what is waiting, and
    ends the threads; it is shielded for ``close_timeout`` and two seconds.
    """
    if not (grace_period >= 0 and math.isfinite(grace_period)):
        raise ValueError(f"grace_period must be 0 or more seconds, not {grace_period!r}")
    if not (lease > 0 and math.isfinite(lease)):
        raise ValueError(f"lease must be a positive number of seconds, not {lease!r}")
    if on_orphan not in get_args(OrphanPolicy):
        raise ValueError(f"on_orphan must be one of {get_args(OrphanPolicy)}, not {on_orphan!r}")
    check_retention(retention, grace_period)
    options = EngineOptions(
        connect_timeout=connect_timeout,
        statement_timeout=statement_timeout,
        lock_timeout=lock_timeout,
        synchronous=synchronous,
        readers=readers,
    )
    clock = clock if clock is not None else TrioClock()
    process_id = new_id()
    async with (
        open_database(url, options, create=create, close_timeout=close_timeout) as database,
        holding_lease(
            database,
            process_id,
            clock,
            lease,
            looks_out=on_orphan != "keep",
            close_timeout=min(close_timeout, _FAREWELL_SECONDS),
        ) as held,
        nullcontext()
        if retention is None
        else running_beside(partial(keep_pruned, database, retention, clock), name="retention of the SQL store"),
    ):
        yield SqlTaskStore(database, grace_period, clock, process_id=process_id, lease=held, on_orphan=on_orphan)
