"""One live task: its nursery, its inbox, its subscribers, and every way in which they end.

A `MainQueue` is opened by its manager and runs as one task, `run`: it loads the stored task, then is its processor
until the inbox is closed. In its nursery live the task's agent runs and what hooks schedule. A queue that is made for a
new task's first message begins with that run in its own task, since spawning one costs a tenth of a short request: then
the processor becomes a task of its own when there is something to process, or to end, and an agent that only replies
needs none.

How long it lives follows from who needs it: subscribers, runs, and callers that are just opening it. When nobody does
and nothing is in flight, `_settle` closes the queue of a finished task and puts that of an unfinished one on the
manager's list of idle queues. Closing is always the same sequence: leave the manager's map and refuse new events, let
the processor finish what was accepted, end the runs, close the children, leave the nursery. These ends depend on each
other, which is why they stand in one module, past 400 lines.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, final

import trio

from ..abc import CloseReason, Envelope, StreamEvent, SubscriberInfo, TaskStreamLifecycleHook
from ..errors import A2AError, InternalError, StoreError
from ..types import Message
from .admission import admit
from .child_queue import ChildQueue
from .close_handle import HookCalls
from .exceptions import EventQueueClosedError, ManagerEndedError
from .inbox import Inbox
from .light_event import LightEvent
from .processor import Accepted, Item, Processor
from .reducer import WorkingTask
from .statistics import MainQueueStatistics, Tally

if TYPE_CHECKING:
    from .manager import QueueManager

__all__ = ["FINISH_SECONDS", "MainQueue"]

_logger = logging.getLogger("trio_a2a.streams")

FINISH_SECONDS = 5.0
"""How long what was accepted may take to be stored once the queue is being ended from outside."""

_CLOCK_SKEW = 0.01
"""Seconds to wait at least before a finished task is asked for again whether it takes late events."""

Mark = Callable[[WorkingTask | None], None]


@final
class MainQueue:
    """The queue of one live task, made by `QueueManager`.

    Attributes:
        task_id: The task.
    """

    def __init__(
        self,
        manager: "QueueManager",
        task_id: str,
        hook: TaskStreamLifecycleHook,
        *,
        owner: str,
        tenant: str,
        before: "MainQueue | None" = None,
    ) -> None:
        self.task_id = task_id
        self._manager = manager
        # The task's queue before this one, if it may still be storing what it accepted: one writer at a time.
        self._before = before
        self._written = LightEvent()
        self._tally = Tally(manager._tally)
        self._hooks = HookCalls(
            task_id,
            hook,
            manager._hook_timeout,
            self._tally,
            sees_events=manager._hook_sees_events,
            sees_subscribers=manager._hook_sees_subscribers,
        )
        self._inbox: Inbox[Item] = Inbox(manager._queue_size)
        self._children: dict[int, ChildQueue] = {}
        self._processor = Processor(self, self._inbox, owner=owner, tenant=tenant)
        self._accepted = 0
        self._done = 0
        self._passed = 0
        # Lists, though what is in them leaves in any order: there are few at a time, and every live task has these.
        self._marks: list[tuple[int, Mark]] = []
        self._needs = 0
        self._had_run = False
        self._closed = False
        self._loaded = LightEvent()
        self._load_failure: Exception | None = None
        self._gone = LightEvent()
        self._ended_from_outside = False
        self._unreported: StoreError | None = None
        self._nursery: trio.Nursery | None = None
        self._loading: trio.CancelScope | None = None
        self._shield: trio.CancelScope | None = None
        self._runs: list[trio.CancelScope] = []
        # The run for whose message the queue was made, until the queue's task begins with it.
        self._first_run: Callable[[], Awaitable[None]] | None = None
        self._is_in_first_run = False
        self._task: trio.lowlevel.Task | None = None
        self._has_processor = False
        self._ends_with_grace = False
        self._grace_scope: trio.CancelScope | None = None
        self._scheduled: list[trio.CancelScope] = []
        self._work_deadline = math.inf
        # For the layer that runs agents: what it keeps for as long as the queue lives.
        self._beside: object = None

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<MainQueue {self.task_id!r}: {state}, {len(self._children)} subscribers, {self._in_flight} in flight>"

    # ---------------------------------------------------------------------------------------------------- public API

    @property
    def closed(self) -> bool:
        """Whether it takes no more events and subscribers; the manager makes a fresh one where it is asked."""
        return self._closed

    def statistics(self) -> MainQueueStatistics:
        """Return what the queue holds now and what happened to it."""
        tally = self._tally
        return MainQueueStatistics(
            in_flight=self._in_flight,
            subscribers=len(self._children),
            sequence=self._processor.sequence,
            hook_errors=tally.hook_errors,
            hook_timeouts=tally.hook_timeouts,
            late_events_dropped=tally.late_events_dropped,
            lagged_subscribers=tally.lagged_subscribers,
        )

    async def enqueue(self, event: StreamEvent | A2AError) -> None:
        """Accept an event; waits while ``queue_size`` events are in flight.

        Args:
            event: A stream event, or an error, which makes an active task FAILED.

        Raises:
            EventQueueClosedError: The queue is closed.
            TaskIdMismatchError: The event is of another task.
            ValueError: JSON cannot carry a value in it.
            TypeError: It is no event.

        Cancellation: a checkpoint; when it is cancelled, nothing was accepted.
        """
        admit(self.task_id, event)
        await self._accept(event)

    def enqueue_nowait(self, event: StreamEvent | A2AError) -> None:
        """Accept an event if there is room.

        Raises:
            trio.WouldBlock: ``queue_size`` events are in flight.
            EventQueueClosedError: The queue is closed; and the other errors of `enqueue`.
        """
        admit(self.task_id, event)
        if self._closed:
            raise self._closed_error()
        if not self._inbox.take_permits():
            raise trio.WouldBlock
        self._put(event)

    async def tap(self) -> ChildQueue:
        """Return a new subscriber, which gets what is distributed from now on; no snapshot.

        ``on_subscribe`` has run when it returns, and may have closed the child.

        Raises:
            EventQueueClosedError: The queue is closed.

        Cancellation: a checkpoint. When it is cancelled, no subscriber is left and ``on_unsubscribe`` has run.
        """
        await trio.lowlevel.checkpoint()
        child = self._register()
        await self._welcome(child)
        return child

    async def flush(self) -> None:
        """Return when all that was accepted so far is stored and distributed.

        Raises:
            StoreError: An event could not be stored since the last time that somebody was told so.
            EventQueueClosedError: The queue was ended before it had stored everything.

        Cancellation: a checkpoint; nothing is changed by it.
        """
        passed = trio.Event()
        self._mark(lambda _: passed.set())
        await passed.wait()
        self._raise_unstored()

    def _raise_unstored(self) -> None:
        """Raise what `flush` has to tell: once each."""
        failure, self._unreported = self._unreported, None
        if failure is not None:
            raise failure
        if self._written.is_set() and self._passed < self._accepted:
            raise EventQueueClosedError(self.task_id) from self._load_failure

    @property
    def _is_flushed(self) -> bool:
        """Whether `flush` has nothing to wait for and nothing to tell."""
        return self._accepted == self._passed and self._unreported is None

    async def aclose(self, *, immediate: bool = False) -> None:
        """End the queue: refuse events, finish what was accepted (5 s), end the runs, close the children (SHUTDOWN).

        Args:
            immediate: Drop what was accepted but not begun to be stored, and the children's backlogs.

        Cancellation: a checkpoint. The queue is being closed even when it is cancelled.
        """
        self._shut_down(immediate=immediate)
        await self._gone.wait()

    # -------------------------------------------------------------------------------------------------- the queue's
    # task

    async def run(self) -> None:
        """Be the queue, until it is closed. Expected failures are handled here; only a BaseException leaves."""
        reason, failure = CloseReason.SHUTDOWN, None
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._load()
                if self._first_run is not None:
                    first, self._first_run = self._first_run, None
                    self._task = trio.lowlevel.current_task()
                    self._is_in_first_run = True
                    await first()
                if not self._has_processor:
                    self._has_processor = True
                    await self._process()
        except* Exception:  # boundary: a bug in one queue is nobody else's
            _logger.exception("the queue of task %s failed; its streams and its run are ended", self.task_id)
            reason, failure = CloseReason.INTERNAL, partial(InternalError, "Internal error")
        finally:
            self._stop_accepting()
            self._end_writing()
            self._nursery = None
            await self._close_children(tuple(self._children.values()), reason, failure=failure)
            self._loaded.set()
            self._gone.set()
            self._manager._ending.discard(self)
            # The queue and its processor name each other. Untied, they go when the last reader lets go of them; as
            # garbage in a circle they would make the collector run once for a dozen short tasks.
            self._processor.release()
            self._beside = self._task = None

    async def _process(self) -> None:
        """Be the processor until the inbox is closed, then end what still goes on."""
        if self._inbox or not self._closed:
            await self._process_shielded(self._processor.run)
        self._end_writing()
        self._stop_accepting()
        self._end_work()
        # A bug in a run has cancelled the nursery: then the children are closed with its reason, when that is left.
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._close_children(
            tuple(self._children.values()), CloseReason.SHUTDOWN, immediate=self._processor.dropping
        )

    async def _process_shielded(self, process: Callable[[], Awaitable[None]]) -> None:
        """Process; a cancellation of the manager must not cut a commit in two.

        The processor ends because its inbox is closed, and `_bound_shield` gives the shield its deadline.
        """
        with trio.CancelScope(shield=True) as self._shield:
            if self._ended_from_outside:
                self._bound_shield()
            await process()
        if self._shield.cancelled_caught:
            _logger.warning("task %s: gave up storing after %s s", self.task_id, FINISH_SECONDS)
            self._end_writing()

    def _have_processor(self) -> None:
        """Start the processor as a task of its own, if the queue's own task is still busy with its first run."""
        if self._is_in_first_run and not self._has_processor:
            self._has_processor = True
            self._open_nursery().start_soon(self._process, name=f"processor of task {self.task_id}")

    async def _load(self) -> None:
        if self._is_ready_to_run:
            self._loaded.set()
            return
        with trio.CancelScope() as self._loading:
            if self._ended_from_outside:
                self._bound_shield()
            if self._before is not None:
                await self._before._written.wait()
                self._before = None
            try:
                await self._processor.load()
            except Exception as exc:  # boundary to the store: whoever opens the queue is told
                self._load_failure = exc
        if self._load_failure is not None or self._loading.cancelled_caught:
            # What was accepted meanwhile cannot be numbered.
            self._processor.dropping = True
            self._stop_accepting()
        self._loaded.set()

    @property
    def _is_ready_to_run(self) -> bool:
        """Whether runs can be started although the queue's own task has not begun: there is nothing to wait for."""
        return self._processor.is_new and self._before is None

    def _end_writing(self) -> None:
        """No commit comes from this queue any more: a fresh one may read the task."""
        self._processor.close()
        self._written.set()
        self._manager._has_written(self)
        while self._marks:
            self._marks.pop(0)[1](self._processor.state)

    def _end_work(self) -> None:
        """End the runs, if the queue was ended from outside, and give what hooks scheduled its last seconds."""
        if self._ended_from_outside:
            self._cancel_runs()
        self._work_deadline = trio.current_time() + self._manager._hook_timeout
        for scope in self._scheduled:
            scope.deadline = min(scope.deadline, self._work_deadline)

    def _cancel_runs(self) -> None:
        for scope in self._runs:
            scope.cancel(reason="the task's queue was closed")

    # --------------------------------------------------------------------------------------------- accepting events

    @property
    def _in_flight(self) -> int:
        return self._accepted - self._done

    async def _accept(self, item: StreamEvent | Accepted | A2AError, passed: Mark | None = None) -> None:
        """Wait for a permit and put the item in. Shaped like a channel's send: first put, then yield."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise self._closed_error()
        if passed is not None and self._concerns_nobody(item):
            # First the yield: the caller is not to be answered before the agent has gone on.
            await trio.lowlevel.cancel_shielded_checkpoint()
            if self._concerns_nobody(item):
                self._accepted += 1
                self._done += 1
                self._passed += 1
                passed(None)
                return
            if self._closed:
                raise await self._refusal()
        if self._inbox.take_permits():
            self._put(item, passed)
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            await self._inbox.wait_for_permit()
            if self._closed:
                raise await self._refusal()
            self._put(item, passed)

    def _concerns_nobody(self, item: StreamEvent | Accepted | A2AError) -> bool:
        """Tell whether a run's report is a direct reply to a caller who waits for it, and who is told by the mark.

        There is nothing to store, and no subscriber to hand it to: the processor need not be woken.
        """
        return (
            isinstance(item, Message)
            and self._accepted == self._passed
            and self._processor.state is None
            and not (self._children or self._closed)
        )

    async def _refusal(self) -> EventQueueClosedError:
        """Return what a producer is told, unless the queue was closed by a cancellation that this task is under too."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return EventQueueClosedError(self.task_id)

    def _put(self, item: StreamEvent | Accepted | A2AError, passed: Mark | None = None) -> None:
        self._accepted += 1
        if passed is not None:
            self._marks.append((self._accepted, passed))
        if not self._needs:
            self._manager._not_idle(self)
        self._inbox.put(item if not isinstance(item, A2AError) else Accepted(item))
        self._have_processor()

    async def _accept_report(self, event: StreamEvent, message: Message | None, passed: Mark | None) -> None:
        """Accept a run's event: the first one with the message that began the run; ``passed`` as for `_mark`."""
        admit(self.task_id, event)
        await self._accept(event if message is None else Accepted(event, message), passed)

    async def _accept_whole(
        self, events: Sequence[StreamEvent], passed: Callable[[StreamEvent, WorkingTask | None], None]
    ) -> bool:
        """Accept and flush the events that are all that a new task's first run reports, if that can be done at once.

        It can be where the run is in the queue's own task, which then is the processor while the run waits: no task is
        spawned or woken for a task that is over as soon as it has begun.

        Returns:
            Whether it was done; if not, nothing was.

        Raises:
            StoreError: As `flush`.
        """
        if not (self._is_in_first_run and trio.lowlevel.current_task() is self._task) or self._has_processor:
            return False
        for event in events:
            admit(self.task_id, event)
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed or not self._inbox.take_permits(len(events)):
            return False
        self._has_processor = True
        for event in events:
            self._put(event, partial(passed, event))
        try:
            await self._process_shielded(self._processor.run_down)
        except Exception as exc:  # boundary: a bug ends the queue, it does not pass through the agent's code
            self._open_nursery().start_soon(_raise, exc)
            await trio.sleep_forever()
        self._has_processor = False
        if self.closed:
            self._have_processor()
        self._raise_unstored()
        return True

    def _mark(self, passed: Mark) -> None:
        """Call ``passed`` with the state as it is when all that was accepted so far is stored and distributed.

        This is how a run finds its end, and a blocked caller its answer: in order with the events, and without a wait.
        It is called in the processor, between two events, and must not raise.
        """
        if self._accepted == self._passed or self._written.is_set():
            passed(self._processor.state)
        else:
            self._marks.append((self._accepted, passed))

    def _distributed(self, count: int) -> None:
        """Give back the permits of events that are through."""
        self._done += count
        self._inbox.give_back(count)

    def _pass(self, count: int, state: WorkingTask | None) -> None:
        """Events are through, their hook and their closing included: tell who waits for this point."""
        self._passed += count
        while self._marks and self._marks[0][0] <= self._passed:
            self._marks.pop(0)[1](state)

    # --------------------------------------------------------------------------------------------------- subscribers

    def _subscriber_count(self) -> int:
        return len(self._children)

    def _register(self, *, snapshot: bool = False) -> ChildQueue:
        """Make a child between two batches. There is no checkpoint here: snapshot and registration are one step."""
        if self._closed:
            raise self._closed_error()
        manager = self._manager
        info = SubscriberInfo(id=next(manager._subscriber_ids), opened_at=manager._clock.now())
        child = ChildQueue(self, info.id, manager._queue_size, info)
        if snapshot and self._processor.state is not None:
            child._put_in_front((Envelope(self._processor.sequence, self._processor.state.task()),))
        child._joined_at, child._joined_state = self._processor.sequence, self._processor.state
        self._children[info.id] = child
        manager._subscribers += 1
        self._hold()
        if self._processor.finalized_at is not None and not self._ends_with_grace:
            self._ends_with_grace = True
            self._open_nursery().start_soon(self._end_with_grace, name=f"grace period of task {self.task_id}")
        return child

    async def _end_with_grace(self) -> None:
        """End the subscribers of a finished task when nothing can come any more: no late event is taken then.

        How long that is only the provider knows. One that does not tell (`TaskStateProvider.grace_period` is optional)
        is asked for each subscriber, and if the task is active then, its subscribers stay until they leave.
        """
        with trio.CancelScope() as self._grace_scope:
            while not self._closed and await self._manager._is_active(self.task_id):
                finalized_at = self._processor.finalized_at
                left = None if finalized_at is None else self._manager._grace_left(finalized_at)
                if left is None:
                    self._ends_with_grace = False  # the next subscriber asks again
                    return
                # At least a moment: the store's clock may be a little behind.
                await trio.sleep_until(trio.current_time() + max(left, _CLOCK_SKEW))
        if not self._grace_scope.cancelled_caught:
            self._ends_with_grace = False
            await self._close_children(tuple(self._children.values()), CloseReason.FINAL)

    async def _welcome(self, child: ChildQueue) -> None:
        """Run the hook for a new child; if that is cancelled, the child is gone."""
        try:
            await self._hooks.subscribed(self, child)
        except BaseException:
            await self._close_children((child,), CloseReason.CONSUMER, immediate=True)
            raise

    async def _close_children(
        self,
        children: Iterable[ChildQueue],
        reason: CloseReason,
        *,
        immediate: bool = False,
        cancel_scopes: bool = False,
        failure: Callable[[], Exception] | None = None,
    ) -> None:
        """Close the children: all of them first, without a checkpoint, then the hook once for each that was listed."""
        left = []
        for child in children:
            if self._children.pop(child._id, None) is not None:
                left.append(child)
                self._manager._subscribers -= 1
            child._end(reason, failure)
            if immediate:
                child._drop()
            if cancel_scopes:
                child._abort()
        if left:
            try:
                await self._hooks.unsubscribed(self, left)
            finally:
                for _ in left:
                    self._release()

    # ------------------------------------------------------------------------------------------------- runs and work

    def _start_run(self, run: Callable[[], Awaitable[None]], scope: trio.CancelScope | None = None) -> None:
        """Run an agent in the queue's nursery.

        Args:
            run: What is called there.
            scope: What is cancelled when the queue is ended from outside: the run enters it itself, and ends soon after
                it has been cancelled. By default one around all of the run.
        """
        if self._closed:
            raise EventQueueClosedError(self.task_id)
        is_first = self._nursery is None and self._first_run is None and self._is_ready_to_run
        nursery = None if is_first else self._open_nursery()
        if scope is None:
            scope = trio.CancelScope()
            run = partial(_in_scope, scope, run)
        cancelled = scope
        self._runs.append(cancelled)
        self._had_run = True
        self._hold()

        async def in_queue() -> None:
            try:
                await run()
            except BaseException:
                # The processor is shielded from the nursery's cancellation; it ends because its inbox is closed.
                self._shut_down()
                raise
            finally:
                self._runs.remove(cancelled)
                if nursery is None:
                    self._is_in_first_run = False
                self._release()

        if nursery is None:
            self._first_run = in_queue
        else:
            nursery.start_soon(in_queue, name=f"run of task {self.task_id}")

    def _start_scheduled(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run what a hook schedules."""
        nursery = self._open_nursery()
        scope = trio.CancelScope(deadline=self._work_deadline)
        self._scheduled.append(scope)

        async def in_scope() -> None:
            try:
                with scope:
                    await work()
            except Exception as exc:  # boundary around user code (containment of hooks), outside of its scope
                self._hooks.scheduled_failed(exc)
            except BaseException:
                self._shut_down()
                raise
            finally:
                self._scheduled.remove(scope)

        nursery.start_soon(in_scope, name=f"hook work of task {self.task_id}")

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None:
            raise EventQueueClosedError(self.task_id)
        return self._nursery

    # ----------------------------------------------------------------------------------------------------- its lifetime

    def _hold(self) -> None:
        self._needs += 1
        if self._needs == 1:
            self._manager._not_idle(self)

    def _release(self) -> None:
        self._needs -= 1
        self._settle()

    def _settle(self, *, asked: bool = False) -> None:
        """Decide what becomes of a queue that nobody needs. Called whenever that may have become so.

        Args:
            asked: The state provider was asked just now, and the task is not final.
        """
        if self._needs or self._closed or self._in_flight or not self._loaded.is_set():
            return
        state = self._processor.state
        if self._manager._asks_provider and not asked:
            # The answer may take time, so the processor asks, and what it says counts if it is still so then.
            self._processor.ask_provider()
        elif not self._manager._asks_provider and state is not None and state.is_final:
            self._stop_accepting()
        elif state is None and self._had_run:
            self._stop_accepting()  # a direct reply: there never was a task, and nobody can come back to it
        else:
            self._manager._idle_now(self)

    def _settle_finalized(self) -> None:
        """Close the queue of a task that the provider says is final, unless somebody needs it again."""
        if not (self._needs or self._in_flight):
            self._stop_accepting()

    def _closed_error(self) -> Exception:
        """Return why nothing can be done with a closed queue; after the manager's end it is misuse."""
        if self._gone.is_set() and self._manager._closed:
            return ManagerEndedError(self.task_id)
        return EventQueueClosedError(self.task_id)

    def _stop_accepting(self) -> None:
        """Leave the manager's map and close the inbox. Idempotent; producers that wait are turned away."""
        if self._closed:
            return
        self._closed = True
        if self._grace_scope is not None:
            self._grace_scope.cancel(reason="the task's queue is closed")
        self._manager._forget(self)
        self._inbox.close()
        self._have_processor()

    def _shut_down(self, *, immediate: bool = False) -> None:
        """Begin to end the queue from outside."""
        self._ended_from_outside = True
        if immediate:
            self._processor.dropping = True
        self._stop_accepting()
        self._cancel_runs()
        self._bound_shield()

    def _bound_shield(self) -> None:
        """Give what the store is asked to do its last seconds."""
        for scope in (self._loading, self._shield):
            if scope is not None:
                scope.deadline = min(scope.deadline, trio.current_time() + FINISH_SECONDS)


async def _raise(exc: Exception) -> None:
    raise exc


async def _in_scope(scope: trio.CancelScope, run: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await run()
