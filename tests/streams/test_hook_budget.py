"""Lifecycle hooks that fail: what is contained, and what it costs."""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import StreamCloseHandle, StreamEvent
from trio_a2a.errors import A2AError, InternalError
from trio_a2a.streams import open_queue_manager
from trio_a2a.streams.hooks import CallbackHook, NoOpHook
from trio_a2a.testing import RecordingHook, artifact, status
from trio_a2a.types import TaskState


class Hanging(NoOpHook):
    """Never returns from the methods that it is told to."""

    def __init__(self, *names: str, then: Callable[[str], object] = lambda name: None) -> None:
        self._names = names
        self._then = then

    async def _hang(self, name: str) -> None:
        self._then(name)
        if name in self._names:
            await trio.sleep_forever()

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        await self._hang("on_subscribe")

    async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        await self._hang("on_unsubscribe")

    async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        await self._hang("on_event")


class Raising(NoOpHook):
    """Raises in every method."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        raise self.error

    async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        raise self.error

    async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        raise self.error


# ------------------------------------------------------------------------------------------------- failures and budgets


@pytest.mark.requirement("S4-HOOK-FAILURE", "B11", "D25", "I2-HOOK-COSTS")
@pytest.mark.parametrize("error", [ValueError("on purpose"), ExceptionGroup("g", [KeyError()]), InternalError()])
@within(5)
async def test_a_hook_that_raises_is_logged_counted_and_contained(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    async with open_queue_manager(hook=Raising(error)) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        first, second = artifact("t", "one"), artifact("t", "two")
        await queue.enqueue(first)
        await queue.enqueue(second)
        await queue.flush()
        assert [child.receive_nowait(), child.receive_nowait()] == [first, second]
        await child.aclose()
        assert queue.statistics().hook_errors == manager.statistics().hook_errors == 4
        assert manager.statistics().hook_timeouts == 0
    failures = [record for record in caplog.records if record.name == "trio_a2a.streams" and record.exc_info]
    assert len(failures) == 4


@pytest.mark.requirement("S4-HOOK-FAILURE", "B11")
@pytest.mark.parametrize("name", ["on_subscribe", "on_unsubscribe"])
@within(60)
async def test_a_base_exception_of_a_hook_is_not_contained(autojump_clock: object, name: str) -> None:
    async def interrupt(task_id: str, handle: StreamCloseHandle) -> None:
        raise KeyboardInterrupt

    async with open_queue_manager(hook=CallbackHook(**{name: interrupt})) as manager:
        if name == "on_subscribe":
            with pytest.raises(KeyboardInterrupt):
                await manager.create_or_tap("t")
            assert manager.active_subscriber_count("t") == 0
        else:
            child = await manager.create_or_tap("t")
            with pytest.raises(KeyboardInterrupt):
                await child.aclose()
            assert child.closed


@pytest.mark.requirement("S4-HOOK-FAILURE", "B11")
@pytest.mark.parametrize("where", ["on_event", "scheduled", "run"])
@within(60)
async def test_a_keyboard_interrupt_in_a_queues_own_tasks_ends_the_manager_instead_of_hanging(
    autojump_clock: object, where: str
) -> None:
    async def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    async def schedule(task_id: str, handle: StreamCloseHandle) -> None:
        handle.start_soon(interrupt)

    hook = {
        "on_event": CallbackHook(on_event=interrupt),
        "scheduled": CallbackHook(on_subscribe=schedule),
        "run": NoOpHook(),
    }[where]
    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True):
        async with open_queue_manager(hook=hook) as manager:
            child = await manager.create_or_tap("t")
            queue = manager.get("t")
            assert queue is not None
            if where == "run":
                queue._start_run(interrupt)
            await queue.enqueue(artifact("t"))
            async for _ in child:
                pass
            await trio.sleep_forever()


@pytest.mark.requirement("S4-HOOK-FAILURE", "S4-HOOK-BUDGET", "I2-HOOK-COSTS", "D1")
@within(60)
async def test_an_on_event_that_never_returns_costs_its_task_one_hook_timeout_an_event_and_others_nothing(
    autojump_clock: object,
) -> None:
    class HangsForBad(NoOpHook):
        async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
            if task_id == "bad":
                await trio.sleep_forever()

    async with open_queue_manager(hook=HangsForBad(), hook_timeout=5) as manager:
        bad, good = await manager.create_or_tap("bad"), await manager.create_or_tap("good")
        await manager.enqueue("bad", artifact("bad", "one"))
        await manager.enqueue("bad", artifact("bad", "two"))
        for number in range(100):
            await manager.enqueue("good", artifact("good", str(number)))
            await good.receive()
        assert trio.current_time() == 0
        await bad.receive()
        assert trio.current_time() == 0, "the event is distributed before its hook"
        await bad.receive()
        assert trio.current_time() == 5
        queue = manager.get("bad")
        assert queue is not None
        await queue.flush()
        assert trio.current_time() == 10
        assert queue.statistics().hook_timeouts == manager.statistics().hook_timeouts == 2


@pytest.mark.requirement("S4-HOOK-FAILURE", "S4-HOOK-BUDGET")
@within(60)
async def test_an_on_subscribe_that_never_returns_costs_one_hook_timeout(autojump_clock: object) -> None:
    async with open_queue_manager(hook=Hanging("on_subscribe"), hook_timeout=3) as manager:
        child = await manager.create_or_tap("t")
        assert trio.current_time() == 3
        assert not child.closed
        assert manager.statistics().hook_timeouts == 1


@pytest.mark.requirement("S4-HOOK-BUDGET", "I2-HOOK-COSTS", "D26")
@pytest.mark.parametrize("way", ["close_streams", "task ends", "queue closed", "manager left"])
@within(600)
async def test_closing_a_thousand_children_has_one_hook_timeout_in_all_and_still_calls_the_hook_for_each(
    autojump_clock: object, way: str
) -> None:
    calls = 0
    handles: list[StreamCloseHandle] = []

    def count(name: str) -> None:
        nonlocal calls
        calls += name == "on_unsubscribe"

    class Hook(Hanging):
        async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
            handles.append(handle)

    async with open_queue_manager(hook=Hook("on_unsubscribe", then=count), hook_timeout=5) as manager:
        children = [await manager.create_or_tap("t") for _ in range(1000)]
        assert trio.testing.active_thread_count() == 0, "a subscriber is no thread"
        queue = manager.get("t")
        assert queue is not None
        other = await manager.create_or_tap("other")
        if way == "close_streams":
            await handles[0].close_streams()
        elif way == "task ends":
            await queue.enqueue(status("t", TaskState.COMPLETED))
            await queue.flush()
        elif way == "queue closed":
            await queue.aclose()
        if way != "manager left":
            assert trio.current_time() == 5
            assert manager.statistics().hook_timeouts >= 1
            assert calls == 1000
            assert all(child.closed for child in children)
            assert not other.closed
    assert calls == 1001, "every child's hook, and the other's when the manager is left"
    assert trio.current_time() <= 10


@pytest.mark.requirement("S4-HOOK-BUDGET")
@within(60)
async def test_a_hook_that_swallows_its_cancellation_has_overrun_all_the_same(autojump_clock: object) -> None:
    async def stubborn(task_id: str, handle: StreamCloseHandle) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(8)

    async with open_queue_manager(hook=CallbackHook(on_subscribe=stubborn), hook_timeout=5) as manager:
        await manager.create_or_tap("t")
        assert trio.current_time() == 8, "a hook that shields itself beats the budget"
        assert manager.statistics().hook_timeouts == 1


@pytest.mark.requirement("S4-HOOK-BOUND", "B33", "B40")
@within(5)
async def test_a_hook_is_bound_when_the_queue_is_made_and_kept_for_its_life(autojump_clock: object) -> None:
    first, second = RecordingHook(), RecordingHook()
    async with open_queue_manager(hook=first) as manager:
        child = await manager.create_or_tap("t")
        manager._hook = second
        await manager.create_or_tap("t")
        await child.aclose()
        assert first.names == ["on_subscribe", "on_subscribe", "on_unsubscribe"]
        assert second.names == []
