"""The one thread that writes to the database, and group commit.

Theory of operation
-------------------
Trio tasks put their work into a queue and wait. The thread takes all that is waiting when it becomes free, and writes
it as one *group*: one transaction, so one wait for the disk, with one statement for all rows of a kind. While it waits
for the database the next group gathers, so groups are the larger the slower the database is. When the group is durable
one call into Trio wakes all its callers.

A commit of a task that the group has already begins the next group. Other work, such as deleting, has a transaction of
its own. What is done when a group fails is in `transactions`; a savepoint for each commit, the other way to have a bad
one fail alone, would cost every group what there only the failing ones pay.

A caller that is cancelled withdraws its work if the thread has not taken it. Else it waits, a bounded time, for the
decision, and then is cancelled: the work is done or not done, and neither half done nor done later on, unless that time
was not enough, which is logged. The transaction is the thread's affair in any case.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, cast, final

import trio
from sqlalchemy import Connection, Engine

from ...errors import TaskPersistenceError
from .commit import PreparedCommit
from .statements import Statements
from .transactions import Pending, Transactions

__all__ = ["Writer"]

_logger = logging.getLogger("trio_a2a.stores")

T = TypeVar("T")

# Work that may wait for the thread. Each live task has one commit underway at most; beyond it callers wait in turn.
_MAX_WAITING: Final = 10_000
# A group's events and bytes at most: a bound on how long its first caller waits for the last one's rows.
_GROUP_EVENTS: Final = 2048
_GROUP_BYTES: Final = 4 << 20
# How long a cancelled caller waits for the decision about what the thread has begun. A commit takes milliseconds; the
# stream core gives one five seconds in all.
_DECISION_SECONDS: Final = 2.0
# How long leaving waits for the thread to notice that it is to give up what is waiting.
_GIVE_UP_SECONDS: Final = 1.0


@final
class Writer:
    """Owns the thread that writes.

    Args:
        engine: Makes the connection; transactions, no autocommit.
        statements: The database's dialect.
    """

    def __init__(self, engine: Engine, statements: Statements) -> None:
        self._transactions = Transactions(engine, statements)
        self._queue: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._room = trio.Semaphore(_MAX_WAITING)
        self._lock = threading.Lock()
        self._closed = False
        self._giving_up = False
        self._ended = trio.Event()
        self._trio = trio.lowlevel.current_trio_token()
        self._thread = threading.Thread(target=self._run, name="trio-a2a-sql-writer", daemon=False)

    def start(self) -> None:
        """Start the thread; it ends with `aclose`."""
        self._thread.start()

    # ------------------------------------------------------------------------------------------------ on Trio's thread

    async def commit(self, commit: PreparedCommit) -> None:
        """Write a commit, together with others.

        Raises:
            TaskConflictError: A task is not at the expected number.
            StoreError: It could not be written.

        Cancellation: a checkpoint; see the module's text.
        """
        await self._submit(Pending(commit, repeatable=True))

    async def do(self, work: Callable[[Connection], T], *, repeatable: bool = True) -> T:
        """Call ``work(connection)`` on the thread, in a transaction of its own, and return what it returns.

        Args:
            work: Must not keep the connection. What it raises rolls back.
            repeatable: Whether it may be done a second time where a lost connection leaves open whether it was done.

        Raises:
            StoreError: The database failed.

        Cancellation: a checkpoint; see the module's text.
        """
        return cast("T", await self._submit(Pending(work, repeatable)))

    async def _submit(self, pending: Pending) -> Any:
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            # Without `acquire`, which would be a second pass of the scheduler for every commit.
            self._room.acquire_nowait()
        except trio.WouldBlock:
            await self._room.acquire()
        try:
            if self._closed:
                raise TaskPersistenceError("the SQL store is closed; use it inside its `async with` block")
            self._queue.put(pending)
            try:
                await pending.done.wait()
            except trio.Cancelled:
                if not self._withdraw(pending):
                    await self._decision(pending)
                raise
        finally:
            self._room.release()
        if pending.failure is not None:
            raise pending.failure
        return pending.result

    def _withdraw(self, pending: Pending) -> bool:
        with self._lock:  # the thread holds it while it takes a group, never while it works
            pending.withdrawn = not pending.taken
        return pending.withdrawn

    async def _decision(self, pending: Pending) -> None:
        with trio.move_on_after(_DECISION_SECONDS, shield=True):
            await pending.done.wait()
            return
        _logger.warning(
            "a cancelled commit was not decided within %s s; its sequence number will tell", _DECISION_SECONDS
        )

    async def aclose(self, timeout: float) -> None:
        """Take nothing more, write what is waiting, and end the thread. Idempotent.

        Args:
            timeout: Seconds for what is waiting; what is then left fails.

        Cancellation: a checkpoint; shielded for the time-out, so that the thread does not outlive the caller.
        """
        if self._closed or self._thread.ident is None:
            self._closed = True
            await trio.lowlevel.checkpoint()
            return
        self._closed = True
        self._queue.put(None)
        with trio.move_on_after(timeout, shield=True):
            await self._ended.wait()
        if not self._ended.is_set():
            self._giving_up = True
            with trio.move_on_after(_GIVE_UP_SECONDS, shield=True):
                await self._ended.wait()
        if self._ended.is_set():
            with trio.move_on_after(_GIVE_UP_SECONDS, shield=True):  # it was the thread's last act to say so
                await trio.to_thread.run_sync(self._thread.join)
        else:
            _logger.error("the database did not answer: the writer's thread ends with its statement's time-out")
        await trio.lowlevel.checkpoint()

    # ---------------------------------------------------------------------------------------------------- on the thread

    def _run(self) -> None:
        try:
            left: deque[Pending] = deque()
            open_ = True
            while open_ or left:
                open_ = self._gather(left, wait=not left) and open_
                group = self._take_group(left)
                if group:
                    self._process(group)
        finally:
            self._transactions.close()
            self._in_trio(self._ended.set)

    def _gather(self, left: deque[Pending], *, wait: bool) -> bool:
        """Add what is waiting; tell whether more can come."""
        with suppress(queue.Empty):
            while True:
                pending = self._queue.get(block=wait)
                wait = False
                if pending is None:
                    return False
                left.append(pending)
        return True

    def _take_group(self, left: deque[Pending]) -> list[Pending]:
        """Take the commits in front that can be written together, or one piece of other work."""
        group: list[Pending] = []
        tasks: set[str] = set()
        events = size = 0
        with self._lock:
            while left:
                pending = left[0]
                if not pending.withdrawn:
                    work = pending.work
                    if not isinstance(work, PreparedCommit):
                        if not group:
                            pending.taken = True
                            group.append(left.popleft())
                        break
                    events += len(work.rows)
                    size += work.size
                    if group and (events > _GROUP_EVENTS or size > _GROUP_BYTES or not tasks.isdisjoint(work.parts)):
                        break
                    tasks.update(work.parts)
                    pending.taken = True
                    group.append(pending)
                left.popleft()
        return group

    def _process(self, group: list[Pending]) -> None:
        if self._giving_up:
            for pending in group:
                pending.failure = TaskPersistenceError("the SQL store was closed before this could be written")
        else:
            self._transactions.carry_out(group)
        self._in_trio(_wake, group)

    def _in_trio(self, call: Callable[..., object], *args: Any) -> None:
        # The Trio run may be over, when leaving the store did not wait for the thread any longer.
        with suppress(trio.RunFinishedError):
            self._trio.run_sync_soon(call, *args)


def _wake(group: list[Pending]) -> None:
    for pending in group:
        pending.done.set()
