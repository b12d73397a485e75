"""Calling the lifecycle hook, and what it gets in hand.

`HookCalls` is the boundary around user code: every call has a budget on Trio's clock, an `Exception` or an overrun is
logged, counted and contained, and ``BaseException`` is not. It also knows which tasks are inside ``on_unsubscribe`` at
the moment, which is all that the rule "closing from within it has no effect" needs.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVarTuple, final

import trio

from ..abc import CloseReason, StreamCloseHandle, StreamEvent, SubscriberInfo, TaskStreamLifecycleHook
from ..errors import A2AError
from .statistics import Tally

if TYPE_CHECKING:
    from .child_queue import ChildQueue
    from .main_queue import MainQueue

__all__ = ["CloseHandle", "HookCalls"]

_logger = logging.getLogger("trio_a2a.streams")
_Args = TypeVarTuple("_Args")


@final
class CloseHandle(StreamCloseHandle):
    """The handle of one callback."""

    __slots__ = ("_queue", "_subscriber")

    def __init__(self, queue: "MainQueue", subscriber: "ChildQueue | None") -> None:
        self._queue = queue
        self._subscriber = subscriber

    def __repr__(self) -> str:
        return f"<StreamCloseHandle of {self._queue.task_id!r}, {self.active_subscriber_count} subscribers>"

    @property
    def active_subscriber_count(self) -> int:
        """How many subscribers the task has."""
        return self._queue._subscriber_count()

    @property
    def subscriber(self) -> SubscriberInfo | None:
        """Whom this callback is about; None in ``on_event``."""
        return self._subscriber._info if self._subscriber is not None else None

    async def close_streams(self) -> None:
        """Close every subscriber's send side: backlogs drain, then the streams end."""
        await self._close(self._queue._children.values(), immediate=False)

    async def abort_streams(self) -> None:
        """Cancel every subscription's scope and drop the backlogs."""
        await self._close(self._queue._children.values(), immediate=True)

    async def close_subscriber(self, id: int) -> None:
        """Close one subscriber's send side; an unknown id is no error."""
        child = self._queue._children.get(id)
        await self._close((child,) if child is not None else (), immediate=False)

    async def _close(self, children: "Iterable[ChildQueue]", *, immediate: bool) -> None:
        if not self._queue._hooks.is_within_unsubscribe():
            await self._queue._close_children(
                tuple(children), CloseReason.HANDLE, immediate=immediate, cancel_scopes=immediate
            )
        await trio.lowlevel.checkpoint()

    def start_soon(self, async_fn: Callable[[*_Args], Awaitable[object]], *args: *_Args) -> None:
        """Run ``async_fn(*args)`` in the queue's nursery."""
        self._queue._start_scheduled(partial(async_fn, *args))


@final
class HookCalls:
    """The hook of one main queue, called within its budget.

    It is told the queue at each call and does not hold it: the queue holds this.

    Attributes:
        sees_events: Whether the hook has an ``on_event`` of its own, which makes the processor stop at each event.
    """

    __slots__ = ("_hook", "_sees_subscribers", "_tally", "_task_id", "_timeout", "_unsubscribing", "sees_events")

    def __init__(
        self,
        task_id: str,
        hook: TaskStreamLifecycleHook,
        timeout: float,
        tally: Tally,
        *,
        sees_events: bool,
        sees_subscribers: bool,
    ) -> None:
        self._task_id = task_id
        self._hook = hook
        self._timeout = timeout
        self._tally = tally
        self.sees_events = sees_events
        self._sees_subscribers = sees_subscribers
        self._unsubscribing: list[trio.lowlevel.Task] = []

    def is_within_unsubscribe(self) -> bool:
        """Tell whether the current task is running ``on_unsubscribe`` of this queue."""
        return trio.lowlevel.current_task() in self._unsubscribing

    async def subscribed(self, queue: "MainQueue", child: "ChildQueue") -> None:
        """Run ``on_subscribe``. Cancellation passes through."""
        if self._sees_subscribers:
            call = partial(self._hook.on_subscribe, self._task_id, CloseHandle(queue, child))
            await self._call("on_subscribe", call, trio.current_time() + self._timeout, shield=False)

    async def unsubscribed(self, queue: "MainQueue", children: "Iterable[ChildQueue]") -> None:
        """Run ``on_unsubscribe`` for each, all within one budget, even in a task that is being cancelled."""
        if not self._sees_subscribers:
            return
        task = trio.lowlevel.current_task()
        nested = task in self._unsubscribing
        deadline = trio.current_time() + self._timeout
        if not nested:
            self._unsubscribing.append(task)
        try:
            for child in children:
                call = partial(self._hook.on_unsubscribe, self._task_id, CloseHandle(queue, child))
                await self._call("on_unsubscribe", call, deadline, shield=True)
        finally:
            if not nested:
                self._unsubscribing.remove(task)

    async def event(self, queue: "MainQueue", event: StreamEvent | A2AError) -> None:
        """Run ``on_event``."""
        if self.sees_events:
            call = partial(self._hook.on_event, self._task_id, event, CloseHandle(queue, None))
            await self._call("on_event", call, trio.current_time() + self._timeout, shield=True)

    def scheduled_failed(self, exc: Exception) -> None:
        """Log and count the failure of work that the hook scheduled."""
        self._failed("scheduled work", exc)

    async def _call(self, name: str, call: Callable[[], Awaitable[object]], deadline: float, *, shield: bool) -> None:
        in_time = trio.current_time() < deadline
        with trio.CancelScope(deadline=deadline, shield=shield) as budget:
            try:
                await call()
            except Exception as exc:  # boundary around user code (containment of hooks)
                self._failed(name, exc)
        # A hook that overran and swallowed its cancellation has overrun all the same.
        if budget.cancelled_caught or (in_time and trio.current_time() >= deadline):
            self._tally.hook_timeout()
            _logger.warning("%s of %r for task %s overran its %s s", name, self._hook, self._task_id, self._timeout)

    def _failed(self, name: str, exc: Exception) -> None:
        self._tally.hook_error()
        _logger.error("%s of %r for task %s failed", name, self._hook, self._task_id, exc_info=exc)
