"""The only writer of one task.

The processor takes what is waiting in the inbox as a batch and carries it through the same steps every time:

    reduce      the state after each event, by a pure function
    persist     one commit for the batch; nothing is visible before it is stored
    distribute  every subscriber's channel gets the batch, in one block without a checkpoint
    hook        `on_event`, if the hook has one of its own: then each event is distributed and its hook awaited singly
    marks       whoever waited for this point (a flush, a blocked caller, the end of a run) is told

A batch ends behind a terminal event, so that what follows one is judged as late. A commit that fails as a batch is
tried event by event, so that one bad event fails alone; after a failed one the state is read again from the store, and
its sequence number tells whether the commit happened after all.

Two things keep the cost of an event low when a producer awaits each `enqueue`. The processor *coalesces*: as long as
passes of the scheduler bring more events it waits for another one, up to `_COALESCE_PASSES`, so that a batch, one
commit and one wake-up of each reader stand for many events. A lone event waits for two passes, some microseconds. And a
batch is never more than half of a child's bound, so that a reader that has drained to half has room for it.

The steps share the batch and the state, and are one module of a little more than 400 lines for that.
"""

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, final

import attrs
import trio

from ..abc import CloseReason, Envelope, EventLog, StoredTask, StreamEvent, TaskChange, TaskStore
from ..errors import (
    A2AError,
    InternalError,
    InvalidAgentResponseError,
    StoreError,
    TaskConflictError,
    TaskPersistenceError,
    TaskTakenOverError,
    TaskTerminalError,
)
from ..types import Message, Task, TaskStatusUpdateEvent
from ..types.identifier import new_id
from .child_queue import ChildQueue
from .exceptions import SubscriberLaggedError
from .inbox import Inbox
from .reducer import WorkingTask, failure_update, reduce

if TYPE_CHECKING:
    from .main_queue import MainQueue

__all__ = ["Accepted", "Item", "Processor", "read_task"]

_logger = logging.getLogger("trio_a2a.streams")

_COALESCE_PASSES = 16
# A producer that sends in every pass may run behind the processor in one and before it in the next (Trio shuffles
# them): one pass without an event does not say that it has stopped.
_EMPTY_PASSES = 2
_BATCH_LIMIT = 256
"""Events in one commit at most: a bound on what a failed one costs, and on how long the next subscriber waits."""


@final
@attrs.frozen
class Accepted:
    """An item of the inbox that is more than an event: an error, or a run's first event with the user's message."""

    event: StreamEvent | A2AError
    message: Message | None = None


Item = StreamEvent | Accepted | None
"""What is in the inbox; None only wakes the processor."""


@final
@attrs.define(eq=False)
class _Step:
    """What became of one item: the event to distribute, and the state after it.

    ``change`` is None for what is not stored. ``envelope`` is None for what is not distributed (it was refused, or
    there is an ``error`` that takes its place).
    """

    state: WorkingTask | None
    sequence: int
    change: TaskChange | None = None
    envelope: Envelope | None = None
    error: A2AError | None = None
    store_failed: bool = False
    finalizes: bool = False


@final
class Processor:
    """Carries a main queue's events to the store and the subscribers.

    Attributes:
        state: The task as subscribers have seen it; None where there is none.
        sequence: The number of the last event in it.
        finalized_at: When it became final, by the clock of whoever saw it first; None before.
        owner: Id of the task's principal.
        tenant: The task's tenant.
        dropping: Set by an immediate close: what is not begun is dropped.
        is_new: Set for a task that was made just now: there is nothing to load.
    """

    def __init__(
        self,
        queue: "MainQueue",
        inbox: Inbox[Item],
        *,
        owner: str,
        tenant: str,
    ) -> None:
        self._queue = queue
        self._manager = queue._manager
        self._store = queue._manager.store
        self._inbox = inbox
        self.owner = owner
        self.tenant = tenant
        self.state: WorkingTask | None = None
        self.sequence = 0
        self.finalized_at: datetime | None = None
        self.dropping = False
        self.is_new = False
        self._ask = False
        self._failure: StoreError | None = None
        # The event that makes the task could not be stored. What follows must not make one in its place: it would lack
        # the message that began it.
        self._was_not_made = False
        size = self._manager._queue_size
        self._batch_limit = min(_BATCH_LIMIT, size - size // 2)

    async def load(self) -> None:
        """Read the stored task.

        Raises:
            StoreError: The store could not read it.
        """
        stored = None if self.is_new else await read_task(self._store, self._queue.task_id)
        if stored is not None:
            self.state = WorkingTask.of(stored.task)
            self.sequence = stored.sequence
            self.owner = stored.owner
            self.tenant = stored.tenant
            self.finalized_at = stored.finalized_at

    async def run(self) -> None:
        """Process until the inbox is closed and empty."""
        self._queue._settle()
        while await self._inbox.wait():
            await self.run_down()

    async def run_down(self) -> None:
        """Process what is in the inbox, until there is nothing left."""
        while self._inbox:
            batch = await self._next_batch()
            while batch and not self.dropping:
                batch = await self._process(batch)
            self._queue._distributed(len(batch))
            if self._ask:
                await self._ask_provider()
            else:
                self._queue._settle()

    def close(self) -> None:
        """Take nothing more. Idempotent."""
        self._inbox.clear()

    def release(self) -> None:
        """Let go of the queue, which has ended; what is known of the task stays."""
        del self._queue

    def ask_provider(self) -> None:
        """Have the state provider asked whether the task is final, once nothing is in flight."""
        if not self._ask:
            self._ask = True
            self._inbox.put(None)

    async def _ask_provider(self) -> None:
        self._ask = False
        if await self._manager._is_finalized(self._queue.task_id):
            self._queue._settle_finalized()
        else:
            self._queue._settle(asked=True)

    async def _next_batch(self) -> list[StreamEvent | Accepted]:
        """Take what is waiting, and what comes while passes of the scheduler bring more."""
        batch: list[StreamEvent | Accepted] = []
        self._take_waiting(batch)
        empty = 0
        for _ in range(_COALESCE_PASSES):
            before = len(batch)
            if before == self._batch_limit or (before and _says_all(batch[-1])):
                break
            await trio.lowlevel.cancel_shielded_checkpoint()
            self._take_waiting(batch)
            empty = empty + 1 if len(batch) == before else 0
            if empty == _EMPTY_PASSES:
                break
        return batch

    def _take_waiting(self, batch: list[StreamEvent | Accepted]) -> None:
        """Move what is waiting into the batch, until that is full."""
        inbox = self._inbox
        while inbox and len(batch) < self._batch_limit:
            item = inbox.take()
            if item is not None:
                batch.append(item)

    # ------------------------------------------------------------------------------------------------------- reducing

    async def _process(self, items: list[StreamEvent | Accepted]) -> list[StreamEvent | Accepted]:
        """Carry the items through, up to and including a terminal event; return the rest."""
        if self.state is not None and self.state.is_final and not await self._still_active(items):
            return []
        steps = self._steps(items)
        if not await self._persist(steps):
            await self._process_singly(items[: len(steps)])
        elif self._queue._hooks.sees_events or any(step.error is not None for step in steps):
            for step in steps:
                await self._deliver([step])
        else:
            await self._deliver(steps)
        return items[len(steps) :]

    async def _process_singly(self, items: Sequence[StreamEvent | Accepted]) -> None:
        """Carry the items of a failed commit through one by one, so that one that cannot be stored fails alone.

        One that was alone in that commit has failed; it is not tried again. Nor is the first one after a conflict:
        another writer's events are missing in these streams, so they must end. Where another process has taken the
        task over, the whole queue ends, with what works on the task here: it must not go on beside the other one.
        """
        has_failed = len(items) == 1 or isinstance(self._failure, TaskConflictError)
        for item in items:
            (step,) = self._steps([item])
            if step.change is not None and (has_failed or not await self._persist([step])):
                step = self._unstored(step)
                has_failed = False
            await self._deliver([step])
            if step.store_failed and isinstance(self._failure, TaskTakenOverError):
                self._queue._shut_down(immediate=True)
                break

    async def _still_active(self, items: Sequence[StreamEvent | Accepted]) -> bool:
        """Ask the provider about events that come after the end; drop them if it is too late."""
        if await self._manager._is_active(self._queue.task_id):
            return True
        for _ in items:
            self._queue._tally.late_event_dropped()
        _logger.info("task %s: dropped %s late events", self._queue.task_id, len(items))
        self._queue._distributed(len(items))
        self._queue._pass(len(items), self.state)
        return False

    def _steps(self, items: Sequence[StreamEvent | Accepted]) -> list[_Step]:
        """Reduce the items one after the other, stopping behind the one that makes the task final."""
        steps: list[_Step] = []
        state, sequence = self.state, self.sequence
        was_final = state is not None and state.is_final
        for item in items:
            step = self._step(item, state, sequence)
            steps.append(step)
            state, sequence = step.state, step.sequence
            if not was_final and state is not None and state.is_final:
                step.finalizes = True
                break
        return steps

    def _step(self, item: StreamEvent | Accepted, state: WorkingTask | None, sequence: int) -> _Step:
        event, message = (item.event, item.message) if isinstance(item, Accepted) else (item, None)
        if isinstance(event, A2AError):
            return self._failure_step(event, state, sequence, message)
        if isinstance(event, Message):
            return _Step(state, sequence, envelope=Envelope(0, event))
        if state is None and self._was_not_made and not isinstance(event, Task):
            self._queue._unreported = self._failure
            return _Step(state, sequence, error=_not_stored(self._failure), store_failed=True)
        try:
            new = reduce(state, event, message)
        except TaskTerminalError as refusal:
            _logger.info("refused an event: %s", refusal)
            self._queue._tally.late_event_dropped()
            return _Step(state, sequence)
        except InvalidAgentResponseError as error:
            return self._failure_step(error, state, sequence, message)
        assert new is not None  # only a direct Message leaves a task unmade
        return self._stored_step(event, new, sequence + 1, message)

    def _failure_step(
        self, error: A2AError, state: WorkingTask | None, sequence: int, message: Message | None
    ) -> _Step:
        if state is None:
            return _Step(state, sequence, error=error)
        if state.is_final:
            self._queue._tally.late_event_dropped()
            return _Step(state, sequence)
        update = failure_update(state, error.message, timestamp=self._manager._clock.now(), message_id=new_id())
        new = reduce(state, update, message)
        assert new is not None
        return self._stored_step(update, new, sequence + 1, message)

    def _stored_step(self, event: StreamEvent, state: WorkingTask, sequence: int, message: Message | None) -> _Step:
        change = TaskChange(
            task_id=state.id,
            sequence=sequence,
            event=event,
            snapshot=state.task,
            owner=self.owner,
            tenant=self.tenant,
            message=message,
        )
        return _Step(state, sequence, change=change, envelope=Envelope(sequence, event))

    # ------------------------------------------------------------------------------------------------------- persisting

    async def _persist(self, steps: Sequence[_Step]) -> bool:
        """Commit the steps' changes; tell whether they are stored."""
        changes = [step.change for step in steps if step.change is not None]
        if not changes:
            return True
        try:
            await self._store.commit(changes)
        except Exception as exc:  # boundary to the store: a failed commit is an event of this task's streams
            self._failure = exc if isinstance(exc, StoreError) else _persistence_error(exc, self._queue.task_id)
            return await self._was_stored(changes[-1])
        return True

    async def _was_stored(self, last: TaskChange) -> bool:
        """Read the task again after a failed commit, and tell whether that had happened all the same.

        The number alone could be that of another process's event, so the log is asked, where there is one.
        """
        try:
            stored = await self._store.get(self._queue.task_id)
            found = stored.sequence if stored is not None else 0
            if found == last.sequence and isinstance(self._store, EventLog):
                log = await self._store.events(self._queue.task_id, found - 1)
                is_ours = [envelope.event for envelope in log] == [last.event]
            else:
                is_ours = found == last.sequence
        except Exception:  # boundary to the store: the failed commit is what is reported
            _logger.warning("task %s could not be read after a failed commit", self._queue.task_id, exc_info=True)
            return False
        if is_ours and not isinstance(self._failure, TaskConflictError):
            return True
        if found != self.sequence:
            if not isinstance(self._failure, TaskConflictError):
                # A commit is done whole or not at all, so this is somebody else's.
                conflict = TaskConflictError(
                    f"task {last.task_id!r} was changed by another writer, at event {found}", task_id=last.task_id
                )
                conflict.__cause__ = self._failure
                self._failure = conflict
            self.state = WorkingTask.of(stored.task) if stored is not None else None
            self.sequence = found
        return False

    def _unstored(self, step: _Step) -> _Step:
        """Return what takes the place of an event that could not be stored."""
        failure = self._failure
        _logger.error("task %s: an event could not be stored: %r", self._queue.task_id, failure)
        self._queue._unreported = failure
        self._was_not_made = step.change is not None and isinstance(step.change.event, Task)
        return _Step(self.state, self.sequence, error=_not_stored(failure), store_failed=True)

    # ----------------------------------------------------------------------------------------------------- distributing

    async def _deliver(self, steps: Sequence[_Step]) -> None:
        """Hand stored steps to the subscribers and the hook: several without an error, or a single one."""
        queue, last = self._queue, steps[-1]
        children = tuple(queue._children.values())
        # One block without a checkpoint: a subscriber that joins afterwards has these events in its snapshot.
        self.state, self.sequence = last.state, last.sequence
        if last.finalizes:
            self.finalized_at = self._manager._clock.now()
        batch = tuple(step.envelope for step in steps if step.envelope is not None)
        full = self._offer(children, batch, finalizes=last.finalizes) if batch else []
        if last.error is not None:
            for child in children:
                child._end(_error_reason(last), partial(_again, last.error))
        if full:
            await self._wait_for(full, finalizes=last.finalizes)
        queue._distributed(len(steps))
        if children and queue._hooks.sees_events:
            event = last.envelope.event if last.envelope is not None else last.error
            if event is not None:
                await queue._hooks.event(queue, event)
        if last.error is not None:
            await queue._close_children(children, _error_reason(last))
        elif last.finalizes:
            await queue._close_children(children, CloseReason.FINAL)
        for step in steps:
            queue._pass(1, step.state)

    def _offer(
        self, children: Sequence[ChildQueue], batch: tuple[Envelope, ...], *, finalizes: bool
    ) -> list[tuple[ChildQueue, tuple[Envelope, ...]]]:
        """Send the batch to all; return those who have no room for all of it, and the rest of each."""
        full = []
        for child in children:
            rest = child._offer(batch)
            if rest:
                full.append((child, rest))
            elif finalizes:
                child._end(CloseReason.FINAL)
        return full

    async def _wait_for(self, full: Iterable[tuple[ChildQueue, tuple[Envelope, ...]]], *, finalizes: bool) -> None:
        """Give full subscribers one `lag_grace` in all to drain to half their bound; cut off those who do not."""
        waiting = deque(full)
        with trio.move_on_after(self._manager._lag_grace):
            while waiting:
                child, rest = waiting[0]
                if not child.closed:
                    await child._room().wait()
                waiting.popleft()
                if not child.closed:
                    self._offer((child,), rest, finalizes=finalizes)
        lagged = []
        for child, rest in waiting:
            # One that has room by now was only waiting behind the others. Half its bound is room for any batch.
            if not child.closed and (not child._has_room() or self._offer((child,), rest, finalizes=finalizes)):
                lagged.append(child)
        if lagged:
            for child in lagged:
                self._queue._tally.subscriber_lagged()
                _logger.info("task %s: subscriber %s lagged and is cut off", self._queue.task_id, child.id)
            failure = partial(SubscriberLaggedError, self._queue.task_id)
            await self._queue._close_children(lagged, CloseReason.LAGGED, failure=failure)


def _says_all(item: StreamEvent | Accepted) -> bool:
    """Tell whether nothing is to be expected behind the item: it is a direct reply, or ends the task."""
    event = item.event if isinstance(item, Accepted) else item
    if isinstance(event, TaskStatusUpdateEvent):
        return event.status.state.is_final
    return isinstance(event, Message)


async def read_task(store: TaskStore, task_id: str) -> StoredTask | None:
    """Read a task; whatever the store raises is a StoreError.

    Raises:
        StoreError: The store could not read it.
    """
    try:
        return await store.get(task_id)
    except StoreError:
        raise
    except Exception as exc:  # boundary to the store
        raise _persistence_error(exc, task_id) from exc


def _persistence_error(exc: Exception, task_id: str) -> StoreError:
    error = TaskPersistenceError(f"the task store failed: {type(exc).__name__}", task_id=task_id)
    error.__cause__ = exc
    return error


def _not_stored(cause: StoreError | None) -> InternalError:
    error = InternalError("The task could not be stored")
    error.__cause__ = cause
    return error


def _error_reason(step: _Step) -> CloseReason:
    return CloseReason.STORE_FAILURE if step.store_failed else CloseReason.INTERNAL


def _again(error: A2AError) -> A2AError:
    """Return the error as a new object: each reader raises its own, with its own traceback."""
    again = copy(error)
    again.__cause__ = error.__cause__
    return again
