"""All live tasks of a process: a map from task ids to main queues, and the nursery that these run in.

The manager opens a queue where one is needed, hands out subscribers, and ends everything in order when its block is
left. It never waits for one task on behalf of another: what may take time is done by the queue's own task or by the
caller's. Queues that nobody needs stand in one list, in the order in which they fell idle; a single task retires them
when their time has come, so an idle queue has no timer of its own. The same task is the one that notices a cancellation
of the manager, and gives the processors, whose commits are shielded from it, their deadline.

It is past 400 lines because the whole public API of the core is here, and much of that is text.
"""

import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, final

import trio

from ..abc import Envelope, EventLog, StreamEvent, TaskStateProvider, TaskStore, TaskStreamLifecycleHook
from ..beside import block_outcome
from ..clock import TrioClock
from ..errors import A2AError
from ..stores import InMemoryTaskStore
from .child_queue import ChildQueue
from .exceptions import EventQueueClosedError, NoTaskQueueError
from .hooks import HOOK_METHODS, NoOpHook, overrides, require_coroutines
from .main_queue import FINISH_SECONDS, MainQueue
from .processor import read_task
from .statistics import QueueManagerStatistics, Tally

__all__ = ["QueueManager", "open_queue_manager"]

_logger = logging.getLogger("trio_a2a.streams")

STORE_METHODS = ("get", "commit", "delete", "list")
PROVIDER_METHODS = ("is_task_active", "is_task_finalized")


@final
class QueueManager:
    """The queues of all live tasks, made by `open_queue_manager`.

    Every method but `statistics` raises RuntimeError when the manager's block has been left; so do those of its queues.

    Attributes:
        store: Where the tasks are kept.
    """

    def __init__(
        self,
        store: TaskStore,
        state_provider: TaskStateProvider | None,
        hook: TaskStreamLifecycleHook,
        *,
        queue_size: int,
        lag_grace: float,
        hook_timeout: float,
        idle_timeout: float | None,
        nursery: trio.Nursery,
    ) -> None:
        self.store = store
        self._provider = state_provider
        # The store's own answer is what the processor's state already says; only somebody else's must be asked for.
        provider: object = state_provider
        self._asks_provider = provider is not None and provider is not store
        self._hook = hook
        self._hook_sees_events = overrides(hook, "on_event")
        self._hook_sees_subscribers = overrides(hook, "on_subscribe") or overrides(hook, "on_unsubscribe")
        self._queue_size = queue_size
        self._lag_grace = lag_grace
        self._hook_timeout = hook_timeout
        self._idle_timeout = idle_timeout
        self._nursery = nursery
        self._clock = TrioClock()
        self._queues: dict[str, MainQueue] = {}
        self._ending: set[MainQueue] = set()
        # The last queue of a task that has left the map and may still be storing what it accepted.
        self._leaving: dict[str, MainQueue] = {}
        self._idle: dict[MainQueue, float] = {}
        self._idle_added = trio.Event()
        self._tally = Tally()
        self._subscribers = 0
        self._subscriber_ids = itertools.count(1)
        self._closed = False
        self._cancelled = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<QueueManager: {state}, {len(self._queues)} queues, {self._subscribers} subscribers>"

    # ---------------------------------------------------------------------------------------------------- public API

    async def create_or_tap(self, task_id: str) -> ChildQueue:
        """Return a new subscriber of the task, opening its main queue at need; without a snapshot.

        Raises:
            StoreError: The task could not be read.
            RuntimeError: The manager is closed.

        Cancellation: a checkpoint. When it is cancelled, no subscriber is left and ``on_unsubscribe`` has run.
        """
        _require_task_id(task_id)
        queue = await self._open(task_id)
        return await self._joined(queue)

    async def tap(self, task_id: str) -> ChildQueue | None:
        """Return a new subscriber of a task that is live, or stored and not final; None for any other.

        Raises:
            StoreError: The task could not be read.
            RuntimeError: The manager is closed.

        Cancellation: as `create_or_tap`.
        """
        await self._check_accepting()
        _require_task_id(task_id)
        if task_id not in self._queues:
            stored = await read_task(self.store, task_id)
            if task_id not in self._queues and (stored is None or stored.task.status.state.is_final):
                return None
        return await self.create_or_tap(task_id)

    def get(self, task_id: str) -> MainQueue | None:
        """Return the task's live queue, if there is one."""
        self._check_open()
        return self._queues.get(task_id)

    async def close(self, task_id: str) -> None:
        """End the task's queue gracefully; see `MainQueue.aclose`.

        Raises:
            NoTaskQueueError: There is none.
            RuntimeError: The manager is closed.
        """
        await self._check_accepting()
        queue = self._queues.get(task_id)
        if queue is None:
            raise NoTaskQueueError(task_id)
        await queue.aclose()

    async def enqueue(self, task_id: str, event: StreamEvent | A2AError) -> None:
        """Accept an event from outside a run, opening the task's queue at need.

        An event of a finished task is processed while the state provider says that the task is active, and dropped and
        counted after that.

        Raises:
            StoreError: The task could not be read.
            TaskIdMismatchError, ValueError, TypeError: As `MainQueue.enqueue`.
            RuntimeError: The manager is closed.

        Cancellation: a checkpoint; when it is cancelled, nothing was accepted.
        """
        while True:
            queue = await self._open(task_id)
            try:
                await queue.enqueue(event)
            except EventQueueClosedError:
                # It was closed while this producer waited for room; a fresh one takes the event, unless it is all over.
                await self._check_accepting()
            else:
                return
            finally:
                queue._release()

    def active_subscriber_count(self, task_id: str) -> int:
        """Return how many subscribers the task has; -1 if it has no live queue."""
        self._check_open()
        queue = self._queues.get(task_id)
        return queue._subscriber_count() if queue is not None else -1

    def subscribe(
        self, task_id: str, *, snapshot: bool = True, after: int | None = None
    ) -> AbstractAsyncContextManager[ChildQueue]:
        """Subscribe for the length of a block: ``async with manager.subscribe(id) as child``.

        Opens the task's queue at need. Leaving the block closes the child; `StreamCloseHandle.abort_streams` ends the
        block quietly, and the child's ``close_reason`` says so.

        Args:
            task_id: The task.
            snapshot: Put the current Task in front, where the task is stored: then come exactly the events behind it.
            after: The number of the last event that the reader has. The events behind it come first, without a
                snapshot; if it is unknown, or they are no longer there, the snapshot does.

        Raises:
            StoreError: The task could not be read.
            RuntimeError: The manager is closed.

        Cancellation: entering is a checkpoint, and leaves nothing behind when it is cancelled; so is leaving.
        """
        self._check_open()
        _require_task_id(task_id)
        number: object = after
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise TypeError(f"after is the number of an event, not {after!r}")
        return self._subscription(task_id, snapshot=snapshot, after=after)

    def statistics(self) -> QueueManagerStatistics:
        """Return what is live now, and what has happened to all queues so far."""
        tally = self._tally
        return QueueManagerStatistics(
            queues=len(self._queues),
            subscribers=self._subscribers,
            hook_errors=tally.hook_errors,
            hook_timeouts=tally.hook_timeouts,
            late_events_dropped=tally.late_events_dropped,
            lagged_subscribers=tally.lagged_subscribers,
        )

    # ------------------------------------------------------------------------------------------- opening and joining

    async def _open(self, task_id: str, *, new: bool = False, owner: str = "", tenant: str = "") -> MainQueue:
        """Return the task's open, loaded queue, held by the caller, who must release it.

        Args:
            task_id: The task.
            new: The task was made just now, so there is nothing to load.
            owner: Who owns a task that is not stored yet.
            tenant: Its tenant.
        """
        await self._check_accepting()
        while True:
            queue = self._queues.get(task_id)
            if queue is None:
                before = self._leaving.get(task_id)
                queue = MainQueue(self, task_id, self._hook, owner=owner, tenant=tenant, before=before)
                if new:
                    queue._processor.is_new = True
                self._queues[task_id] = queue
                self._ending.add(queue)
                self._nursery.start_soon(queue.run, name=f"queue of task {task_id}")
            queue._hold()
            if new and queue._is_ready_to_run:
                return queue
            try:
                await queue._loaded.wait()
                await self._check_accepting()
            except BaseException:
                queue._release()
                raise
            if not queue._closed:
                return queue
            failure = queue._load_failure
            queue._release()
            if failure is not None:
                raise failure

    async def _joined(self, queue: MainQueue, *, snapshot: bool = False) -> ChildQueue:
        """Register a subscriber of a queue that the caller holds, and let go of the queue."""
        try:
            child = queue._register(snapshot=snapshot)
        finally:
            queue._release()
        await queue._welcome(child)
        return child

    @asynccontextmanager
    async def _subscription(self, task_id: str, *, snapshot: bool, after: int | None) -> AsyncIterator[ChildQueue]:
        queue = await self._open(task_id)
        child = await self._joined(queue, snapshot=snapshot and after is None)
        try:
            if after is not None:
                await self._replay(queue, child, after)
            with child._attach(trio.CancelScope()):
                yield child
        finally:
            await child._leave(immediate=True)
        await trio.lowlevel.checkpoint()

    async def _replay(self, queue: MainQueue, child: ChildQueue, after: int) -> None:
        """Put the events between ``after`` and the child's first one in front of it, or a snapshot."""
        at, state = child._joined_at, child._joined_state
        envelopes: list[Envelope] = []
        if after < at and isinstance(self.store, EventLog):
            envelopes = [e for e in await self.store.events(queue.task_id, after) if e.sequence <= at]
        complete = after == at or (len(envelopes) == at - after and 0 <= after < at)
        if complete:
            child._put_in_front(tuple(envelopes))
        elif state is not None:
            child._put_in_front((Envelope(at, state.task()),))

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(
                "this queue manager is closed; use it inside its `async with open_queue_manager()` block"
            )

    async def _check_accepting(self) -> None:
        """As `_check_open`, and when the manager is being cancelled: a task that is so too gets its Cancelled."""
        if self._closed or self._cancelled:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._check_open()
            raise RuntimeError("this queue manager is being cancelled; nothing can be opened in it any more")

    # ------------------------------------------------------------------------------------------------ for the queues

    async def _is_finalized(self, task_id: str) -> bool:
        """Ask the provider; one that fails keeps the queue open."""
        assert self._provider is not None
        try:
            return await self._provider.is_task_finalized(task_id)
        except Exception:  # boundary to the state provider
            _logger.exception("the state provider could not say whether task %s is finalized", task_id)
            return False

    async def _is_active(self, task_id: str) -> bool:
        """Ask the provider about late events; without one, or if it fails, a finished task takes none."""
        if self._provider is None:
            return False
        try:
            return await self._provider.is_task_active(task_id)
        except Exception:  # boundary to the state provider
            _logger.exception("the state provider could not say whether task %s is active", task_id)
            return False

    def _grace_left(self, finalized_at: datetime) -> float | None:
        """Return the seconds until a finished task takes no more late events; None if the provider does not say."""
        grace_period = getattr(self._provider, "grace_period", None)
        if grace_period is None:
            return None
        left: float = grace_period - (self._clock.now() - finalized_at).total_seconds()
        return left

    def _forget(self, queue: MainQueue) -> None:
        if self._queues.get(queue.task_id) is queue:
            del self._queues[queue.task_id]
            if not queue._written.is_set():
                self._leaving[queue.task_id] = queue
        self._idle.pop(queue, None)

    def _has_written(self, queue: MainQueue) -> None:
        if self._leaving.get(queue.task_id) is queue:
            del self._leaving[queue.task_id]

    def _idle_now(self, queue: MainQueue) -> None:
        if self._idle_timeout is not None and queue not in self._idle:
            self._idle[queue] = trio.current_time() + self._idle_timeout
            self._idle_added.set()

    def _not_idle(self, queue: MainQueue) -> None:
        self._idle.pop(queue, None)

    # ------------------------------------------------------------------------------------------------------ lifetime

    async def _keep_house(self) -> None:
        """Retire queues that were idle for long enough; when the manager is cancelled, bound what is shielded."""
        try:
            while True:
                while not self._idle:  # again: what was added may be gone by now
                    self._idle_added = trio.Event()
                    await self._idle_added.wait()
                # All wait equally long, so the first to fall idle is the first to go.
                await trio.sleep_until(next(iter(self._idle.values())))
                now = trio.current_time()
                for queue, due in tuple(self._idle.items()):
                    if due > now:
                        break
                    queue._stop_accepting()
        finally:
            self._cancelled = True
            for queue in tuple(self._ending):
                queue._shut_down()

    async def _shut_down(self) -> None:
        """Refuse new work, let the queues store what they accepted, end them; five seconds in all."""
        self._closed = True
        with trio.move_on_after(FINISH_SECONDS, shield=True) as budget:
            for queue in tuple(self._ending):
                queue._shut_down()
            for queue in tuple(self._ending):
                await queue._gone.wait()
        if budget.cancelled_caught:
            _logger.warning("the queues did not end within %s s and are cancelled", FINISH_SECONDS)


def open_queue_manager(
    store: TaskStore | None = None,
    *,
    state_provider: TaskStateProvider | None = None,
    hook: TaskStreamLifecycleHook | None = None,
    queue_size: int = 1000,
    lag_grace: float = 1.0,
    hook_timeout: float = 5.0,
    idle_timeout: float | None = 300.0,
) -> AbstractAsyncContextManager[QueueManager]:
    """Open the stream core for the length of an ``async with`` block.

    Leaving the block refuses new work, stores what was accepted (five seconds), cancels runs and closes children
    (SHUTDOWN). It neither waits for agents nor changes their tasks.

    Args:
        store: Where tasks are kept; a new `InMemoryTaskStore` by default.
        state_provider: Says whether a task is active or finalized; the store by default, if it is one.
        hook: Sees subscribers come and go; `NoOpHook` by default.
        queue_size: Events of one task accepted and not yet distributed, and events waiting for one subscriber.
        lag_grace: Seconds that a task waits for its full subscribers before it cuts them off; 0 for none.
        hook_timeout: Seconds for one event's hook, or for all hooks of one closing operation.
        idle_timeout: Seconds after which the queue of an unfinished task that nobody uses is retired; the next tap
            brings it back from the store. None: never.

    Raises:
        ValueError: A size or a time-out is not positive.
        TypeError: The hook, the provider or the store lacks a method, or has one that is no coroutine function.

    Cancellation: entering is no checkpoint. When the block is cancelled everything in it ends, and commits that have
    begun are finished or given up within five seconds.
    """
    size: object = queue_size
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"queue_size must be an integer of at least 1, not {queue_size!r}")
    if not lag_grace >= 0:
        raise ValueError(f"lag_grace must be 0 (no wait) or more seconds, not {lag_grace!r}")
    if not hook_timeout > 0:
        raise ValueError(f"hook_timeout must be a positive number of seconds, not {hook_timeout!r}")
    if idle_timeout is not None and not idle_timeout > 0:
        raise ValueError(f"idle_timeout must be a positive number of seconds, or None for never, not {idle_timeout!r}")
    if store is None:
        store = InMemoryTaskStore()
    if hook is None:
        hook = NoOpHook()
    if state_provider is None and isinstance(store, TaskStateProvider):
        state_provider = store
    require_coroutines(store, "store", STORE_METHODS)
    require_coroutines(hook, "hook", HOOK_METHODS)
    if state_provider is not None:
        require_coroutines(state_provider, "state_provider", PROVIDER_METHODS)
    return _running_manager(
        store,
        state_provider,
        hook,
        queue_size=queue_size,
        lag_grace=lag_grace,
        hook_timeout=hook_timeout,
        idle_timeout=idle_timeout,
    )


@asynccontextmanager
async def _running_manager(
    store: TaskStore, state_provider: TaskStateProvider | None, hook: TaskStreamLifecycleHook, **options: Any
) -> AsyncIterator[QueueManager]:
    own: BaseException | None = None
    hidden: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            manager = QueueManager(store, state_provider, hook, nursery=nursery, **options)
            nursery.start_soon(manager._keep_house, name="queue manager")
            try:
                yield manager
            except BaseException as exc:
                # It does not go through the nursery, which would put it into a group; it is raised below.
                own = exc
            await manager._shut_down()
            nursery.cancel_scope.cancel(reason="the queue manager was closed")
    except BaseException as exc:
        # The queues contain their own failures, so this is a cancellation of all, or a bug.
        hidden = exc
    outcome = block_outcome(own, hidden, "the block failed, and so did the queue manager")
    if outcome is not None:
        try:
            raise outcome
        finally:
            del own, hidden, outcome  # they hold this frame, which holds them


def _require_task_id(task_id: object) -> None:
    if not isinstance(task_id, str):
        raise TypeError(f"a task id is a str, not {task_id!r}")
    if not task_id:
        raise ValueError("a task id is not empty")
