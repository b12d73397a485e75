"""A hook that writes down what it sees, and the suite for lifecycle hooks."""

import inspect
from collections.abc import Callable
from typing import final

import attrs
import trio

from ..abc import StreamCloseHandle, StreamEvent, SubscriberInfo, TaskStreamLifecycleHook
from ..errors import A2AError, InternalError
from ..streams import QueueManager, open_queue_manager
from ..types import TaskState
from .constructors import artifact, status

__all__ = ["HookCall", "RecordingHook", "check_lifecycle_hook"]

_TASK = "task-of-the-suite"


@attrs.frozen(kw_only=True)
class HookCall:
    """One call of a hook.

    Attributes:
        name: The method.
        task_id: The task.
        subscribers: How many subscribers there were.
        subscriber: Whom it was about; None for ``on_event``.
        event: The event, for ``on_event``.
        time: When, on Trio's clock.
    """

    name: str
    task_id: str
    subscribers: int
    subscriber: SubscriberInfo | None = None
    event: StreamEvent | A2AError | None = None
    time: float


@final
class RecordingHook(TaskStreamLifecycleHook):
    """Writes down every call, then passes it on.

    Args:
        then: The hook that is called after the writing down; None for none.

    Attributes:
        calls: The calls so far.
    """

    def __init__(self, then: TaskStreamLifecycleHook | None = None) -> None:
        self._then = then
        self.calls: list[HookCall] = []

    def of(self, name: str) -> list[HookCall]:
        """Return the calls of one method."""
        return [call for call in self.calls if call.name == name]

    @property
    def names(self) -> list[str]:
        """The methods that were called, in order."""
        return [call.name for call in self.calls]

    @property
    def events(self) -> list[StreamEvent | A2AError | None]:
        """The events that were seen, in order."""
        return [call.event for call in self.of("on_event")]

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Write it down and pass it on."""
        self._write("on_subscribe", task_id, handle)
        if self._then is not None:
            await self._then.on_subscribe(task_id, handle)

    async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """Write it down and pass it on."""
        self._write("on_unsubscribe", task_id, handle)
        if self._then is not None:
            await self._then.on_unsubscribe(task_id, handle)

    async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        """Write it down and pass it on."""
        self._write("on_event", task_id, handle, event)
        if self._then is not None:
            await self._then.on_event(task_id, event, handle)

    def _write(
        self, name: str, task_id: str, handle: StreamCloseHandle, event: StreamEvent | A2AError | None = None
    ) -> None:
        self.calls.append(
            HookCall(
                name=name,
                task_id=task_id,
                subscribers=handle.active_subscriber_count,
                subscriber=handle.subscriber,
                event=event,
                time=trio.current_time(),
            )
        )


async def check_lifecycle_hook(make_hook: Callable[[], TaskStreamLifecycleHook]) -> None:
    """Check that a hook meets the obligations of `TaskStreamLifecycleHook`.

    It is run in a queue manager: with one subscriber and with several, with events, with an error, with a reader that
    is cancelled, for a task that ends and for one that goes on. It must not raise, must be done within
    ``hook_timeout``, must leave nothing running when the manager is left, and one hook must do for many tasks. Closing
    streams is allowed. A hook that shields itself from cancellation without a deadline makes the suite hang: run it
    under ``fail_after``.

    Args:
        make_hook: Returns a fresh hook.

    Raises:
        AssertionError: The hook breaks an obligation; the text says which.
    """
    hook = make_hook()
    for name in ("on_subscribe", "on_unsubscribe", "on_event"):
        method = getattr(hook, name, None)
        assert method is not None, f"the hook has no method {name}"
        call = getattr(method, "__call__", None)  # noqa: B004 - an instance with an async __call__ is fine
        is_async = inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(call)
        assert is_async, f"{name} of the hook is no coroutine function"

    tasks_before = trio.lowlevel.current_statistics().tasks_living
    async with open_queue_manager(hook=make_hook()) as manager:
        for task_id in (_TASK, f"{_TASK}-2"):
            await _run_a_stream(manager, task_id)
        seen = manager.statistics()
        assert seen.hook_errors == 0, f"the hook raised {seen.hook_errors} times; the log says what"
        assert seen.hook_timeouts == 0, f"the hook overran its hook_timeout {seen.hook_timeouts} times"
        assert seen.subscribers == 0, "a subscriber was left although all of them have closed"
    seen = manager.statistics()
    assert seen.hook_errors == 0, "the hook raised while the manager shut down"
    assert seen.hook_timeouts == 0, "the hook overran its hook_timeout while the manager shut down"
    tasks_after = trio.lowlevel.current_statistics().tasks_living
    assert tasks_after == tasks_before, "the hook left a Trio task running when its manager was left"


async def _run_a_stream(manager: QueueManager, task_id: str) -> None:
    """Take a task from its first event to its end, with readers that come and go."""
    first = await manager.create_or_tap(task_id)
    await manager.enqueue(task_id, status(task_id))
    second = await manager.create_or_tap(task_id)
    await manager.enqueue(task_id, artifact(task_id))
    await second.aclose()
    await second.aclose()
    with trio.CancelScope() as scope:
        async with manager.subscribe(task_id):
            scope.cancel()
            await trio.lowlevel.checkpoint()
    third = await manager.create_or_tap(task_id)
    await manager.enqueue(task_id, InternalError("an error instead of an event"))
    await manager.enqueue(task_id, status(task_id, TaskState.COMPLETED))  # refused: the error has ended the task
    queue = manager.get(task_id)
    if queue is not None:
        await queue.flush()
    for child in (first, third):
        await child.aclose(immediate=True)
