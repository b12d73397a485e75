"""Lifecycle hooks to use and to build on.

A hook is one object for all tasks of a manager. `NoOpHook` is the base for hooks of one's own: override what is needed,
and the core does not spend time on the rest.
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import trio

from ..abc import StreamCloseHandle, StreamEvent, TaskStreamLifecycleHook
from ..errors import A2AError

__all__ = ["CallbackHook", "CloseStreamsHook", "HookChain", "IdleTimeoutHook", "NoOpHook"]

HOOK_METHODS = ("on_subscribe", "on_unsubscribe", "on_event")

SubscriberCallback = Callable[[str, StreamCloseHandle], Awaitable[None]]
EventCallback = Callable[[str, StreamEvent | A2AError, StreamCloseHandle], Awaitable[None]]


class NoOpHook(TaskStreamLifecycleHook):
    """Does nothing; the default, and the base for hooks that need only some of the three methods."""

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Do nothing."""

    async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Do nothing."""

    async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        """Do nothing."""


def overrides(hook: TaskStreamLifecycleHook, name: str) -> bool:
    """Tell whether the hook does something in the method ``name``; if not, the core need not call it."""
    method = getattr(hook, name)
    function = getattr(method, "__func__", method)
    if isinstance(hook, CallbackHook) and function is getattr(CallbackHook, name):
        return hook._callback(name) is not None
    if isinstance(hook, HookChain) and function is getattr(HookChain, name):
        return any(overrides(link, name) for link in hook.hooks)
    return function is not getattr(NoOpHook, name)


def require_coroutines(implementation: object, role: str, names: tuple[str, ...]) -> None:
    """Refuse an object whose methods could not be awaited, when it is given and not when it is called.

    Raises:
        TypeError: It lacks a method, or has one that is no coroutine function; the text names it.
    """
    if inspect.isclass(implementation):
        raise TypeError(f"{role}: {implementation.__name__} is a class; give an object, {implementation.__name__}(...)")
    for name in names:
        method = getattr(implementation, name, None)
        kind = type(implementation).__name__
        if method is None:
            raise TypeError(f"{role}: {kind} has no method {name}(); write it as `async def {name}`")
        if not _is_coroutine_function(method):
            raise TypeError(f"{role}: {kind}.{name} is no coroutine function; write it as `async def {name}`")


def _is_coroutine_function(function: object) -> bool:
    # An instance with an async __call__ is fine.
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


class CloseStreamsHook(NoOpHook):
    """Closes all streams of a task when it has ``max_subscribers`` of them; the agent goes on.

    Args:
        max_subscribers: The count that closes them: the subscriber that completes it gets a closed stream too.

    Raises:
        ValueError: ``max_subscribers`` is less than 1.
    """

    def __init__(self, max_subscribers: int = 3) -> None:
        if max_subscribers < 1:
            raise ValueError(f"max_subscribers must be at least 1, not {max_subscribers!r}")
        self.max_subscribers = max_subscribers

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_subscribers={self.max_subscribers})"

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Close the streams if this subscriber completes the count."""
        if handle.active_subscriber_count >= self.max_subscribers:
            await handle.close_streams()


class IdleTimeoutHook(NoOpHook):
    """Closes all streams of a task after a time without an event, counted from the first subscription on.

    Args:
        seconds: How long, on Trio's clock.

    Raises:
        ValueError: ``seconds`` is not positive.
    """

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"seconds must be positive, not {seconds!r}")
        self.seconds = seconds
        # One for each task that has subscribers: its deadline is when the streams are closed.
        self._timers: dict[str, trio.CancelScope] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.seconds})"

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Start the task's timer with its first subscriber."""
        if task_id not in self._timers:
            timer = trio.CancelScope(deadline=trio.current_time() + self.seconds)
            handle.start_soon(self._watch, task_id, timer, handle)
            self._timers[task_id] = timer

    async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        """Begin to count anew."""
        timer = self._timers.get(task_id)
        if timer is not None:
            timer.deadline = trio.current_time() + self.seconds

    async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Stop the timer with the last subscriber."""
        if handle.active_subscriber_count == 0:
            timer = self._timers.pop(task_id, None)
            if timer is not None:
                timer.cancel(reason="the task has no subscriber left")

    async def _watch(self, task_id: str, timer: trio.CancelScope, handle: StreamCloseHandle) -> None:
        try:
            with timer:
                await trio.sleep_forever()
            if self._timers.get(task_id) is timer:
                del self._timers[task_id]
                await handle.close_streams()
        finally:
            if self._timers.get(task_id) is timer:
                del self._timers[task_id]


class CallbackHook(TaskStreamLifecycleHook):
    """Calls async functions; what is not given is not called.

    Args:
        on_subscribe: ``async (task_id, handle)``.
        on_unsubscribe: ``async (task_id, handle)``.
        on_event: ``async (task_id, event, handle)``.

    Raises:
        TypeError: One of them is no coroutine function.
    """

    def __init__(
        self,
        *,
        on_subscribe: SubscriberCallback | None = None,
        on_unsubscribe: SubscriberCallback | None = None,
        on_event: EventCallback | None = None,
    ) -> None:
        given = {"on_subscribe": on_subscribe, "on_unsubscribe": on_unsubscribe, "on_event": on_event}
        for name, callback in given.items():
            if callback is not None and not _is_coroutine_function(callback):
                raise TypeError(f"{name} of CallbackHook is no coroutine function; write it with `async def`")
        self._on_subscribe = on_subscribe
        self._on_unsubscribe = on_unsubscribe
        self._on_event = on_event

    def _callback(self, name: str) -> object:
        return getattr(self, f"_{name}")

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Call ``on_subscribe``, if it was given."""
        if self._on_subscribe is not None:
            await self._on_subscribe(task_id, handle)

    async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Call ``on_unsubscribe``, if it was given."""
        if self._on_unsubscribe is not None:
            await self._on_unsubscribe(task_id, handle)

    async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        """Call ``on_event``, if it was given."""
        if self._on_event is not None:
            await self._on_event(task_id, event, handle)


@attrs.frozen(init=False)
class HookChain(TaskStreamLifecycleHook):
    """Several hooks as one, called in order. One that raises does not keep the next from being called.

    All links of a call share its one ``hook_timeout``.

    Attributes:
        hooks: The links.

    Raises:
        TypeError: A link lacks a method, or has one that is no coroutine function.
    """

    hooks: tuple[TaskStreamLifecycleHook, ...]

    def __init__(self, *hooks: TaskStreamLifecycleHook) -> None:
        for hook in hooks:
            require_coroutines(hook, "link of HookChain", HOOK_METHODS)
        self.__attrs_init__(hooks)

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Call each link's ``on_subscribe``."""
        await _in_order([partial(link.on_subscribe, task_id, handle) for link in self.hooks])

    async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Call each link's ``on_unsubscribe``."""
        await _in_order([partial(link.on_unsubscribe, task_id, handle) for link in self.hooks])

    async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        """Call each link's ``on_event``."""
        await _in_order([partial(link.on_event, task_id, event, handle) for link in self.hooks])


async def _in_order(calls: list[Callable[[], Awaitable[None]]]) -> None:
    failures: list[Exception] = []
    for call in calls:
        try:
            await call()
        except Exception as exc:  # boundary between the links: the core logs and counts what is raised here
            failures.append(exc)
    if failures:
        raise ExceptionGroup("hooks of a chain failed", failures)
