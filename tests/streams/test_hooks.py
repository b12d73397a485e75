"""The hooks that come with the package."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason, StreamCloseHandle, StreamEvent
from trio_a2a.errors import A2AError
from trio_a2a.streams import ChildQueue, EventQueueClosedError, open_queue_manager
from trio_a2a.streams.hooks import CallbackHook, CloseStreamsHook, HookChain, IdleTimeoutHook, NoOpHook
from trio_a2a.testing import RecordingHook, artifact, status
from trio_a2a.types import TaskState

# ----------------------------------------------------------------------------------------------------------- ready-made


@pytest.mark.requirement("S4-HOOKS", "B33")
@within(5)
async def test_the_no_op_hook_does_nothing_and_costs_nothing(autojump_clock: object) -> None:
    async with open_queue_manager(hook=NoOpHook()) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        assert not queue._hooks.sees_events
        await NoOpHook().on_subscribe("t", _handle_of(queue))
        await NoOpHook().on_unsubscribe("t", _handle_of(queue))
        await NoOpHook().on_event("t", artifact("t"), _handle_of(queue))
        assert not child.closed


def _handle_of(queue: object) -> StreamCloseHandle:
    from trio_a2a.streams.close_handle import CloseHandle

    return CloseHandle(queue, None)  # type: ignore[arg-type]


@pytest.mark.requirement("S4-HOOKS", "I2-HOOK-CLOSES")
@within(5)
async def test_close_streams_hook_closes_all_at_its_count_and_lets_others_subscribe_after_that(
    autojump_clock: object,
) -> None:
    async with open_queue_manager(hook=CloseStreamsHook()) as manager:
        one, two = await manager.create_or_tap("t"), await manager.create_or_tap("t")
        assert not one.closed
        assert not two.closed
        three = await manager.create_or_tap("t")
        assert one.closed
        assert two.closed
        assert three.closed
        four = await manager.create_or_tap("t")
        assert not four.closed
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        assert len([event async for event in four]) == 1
    with pytest.raises(ValueError, match="at least 1"):
        CloseStreamsHook(0)
    assert repr(CloseStreamsHook(max_subscribers=2)) == "CloseStreamsHook(max_subscribers=2)"


@pytest.mark.requirement("S4-HOOKS")
@within(600)
async def test_idle_timeout_hook_closes_the_streams_after_that_long_without_an_event(autojump_clock: object) -> None:
    async with open_queue_manager(hook=IdleTimeoutHook(10)) as manager:
        child = await manager.create_or_tap("t")
        await trio.sleep(9)
        await manager.enqueue("t", artifact("t"))
        await trio.sleep(9)
        assert not child.closed
        late = await manager.create_or_tap("t")
        assert trio.current_time() == 18
        assert len([event async for event in child]) == 1
        assert trio.current_time() == 19, "counted from the last event, not from the last subscriber"
        assert late.close_reason is CloseReason.HANDLE
        again = await manager.create_or_tap("t")
        assert [event async for event in again] == []
        assert trio.current_time() == 29, "a subscriber that comes then starts a timer of its own"
    with pytest.raises(ValueError, match="positive"):
        IdleTimeoutHook(0)
    assert repr(IdleTimeoutHook(2.5)) == "IdleTimeoutHook(2.5)"


@pytest.mark.requirement("S4-HOOKS")
@within(600)
async def test_idle_timeout_hook_keeps_nothing_for_tasks_without_subscribers(autojump_clock: object) -> None:
    hook = IdleTimeoutHook(10)
    before = trio.lowlevel.current_statistics().tasks_living
    async with open_queue_manager(hook=hook) as manager:
        for task_id in "abc":
            child = await manager.create_or_tap(task_id)
            await child.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert hook._timers == {}
        await manager.create_or_tap("d")
        assert set(hook._timers) == {"d"}
    assert hook._timers == {}
    assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.requirement("S4-HOOKS")
@within(600)
async def test_the_timer_of_the_last_reader_that_left_does_not_close_the_stream_of_the_next(
    autojump_clock: object,
) -> None:
    async with open_queue_manager(hook=IdleTimeoutHook(10)) as manager:
        for _ in range(30):
            old = await manager.create_or_tap("t")
            new = []

            async def join(new: list[ChildQueue] = new) -> None:
                new.append(await manager.create_or_tap("t"))

            async with trio.open_nursery() as nursery:  # the two run in either order
                nursery.start_soon(old.aclose)
                nursery.start_soon(join)
            await trio.testing.wait_all_tasks_blocked()
            assert not new[0].closed
            await new[0].aclose()


@pytest.mark.requirement("S4-HOOKS")
@within(5)
async def test_callback_hook_calls_what_it_was_given(autojump_clock: object) -> None:
    calls: list[str] = []

    def noting(name: str) -> Callable[..., Awaitable[None]]:
        async def call(*args: object) -> None:
            calls.append(name)

        return call

    for given in (["on_subscribe"], ["on_unsubscribe"], ["on_event"], ["on_subscribe", "on_event"], []):
        calls.clear()
        hook = CallbackHook(**{name: noting(name) for name in given})
        async with open_queue_manager(hook=hook) as manager:
            child = await manager.create_or_tap("t")
            await child.enqueue(artifact("t"))
            await trio.testing.wait_all_tasks_blocked()
            await child.aclose()
        assert sorted(calls) == sorted(given)


@pytest.mark.requirement("S4-HOOKS", "S4-HOOK-TYPES")
def test_callback_hook_and_hook_chain_refuse_what_is_no_coroutine_function() -> None:
    def plain(*args: object) -> None:
        pass

    class Sync(NoOpHook):
        def on_unsubscribe(self, *args: object) -> None:  # type: ignore[override]
            pass

    for name in ("on_subscribe", "on_unsubscribe", "on_event"):
        with pytest.raises(TypeError, match=name):
            CallbackHook(**{name: plain})
    with pytest.raises(TypeError, match="on_unsubscribe"):
        HookChain(NoOpHook(), Sync())


@pytest.mark.requirement("S4-HOOKS")
@within(60)
async def test_hook_chain_calls_its_links_in_order_and_isolates_their_errors(autojump_clock: object) -> None:
    order: list[int] = []

    def link(number: int) -> CallbackHook:
        async def call(*args: object) -> None:
            order.append(number)
            if number == 2:
                raise ValueError("on purpose")

        return CallbackHook(on_subscribe=call, on_unsubscribe=call, on_event=call)

    async with open_queue_manager(hook=HookChain(link(1), link(2), NoOpHook(), link(3))) as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(artifact("t"))
        await trio.testing.wait_all_tasks_blocked()
        await child.aclose()
        assert order == [1, 2, 3] * 3
        assert manager.statistics().hook_errors == 3


@pytest.mark.requirement("S4-HOOKS", "S4-HOOK-BUDGET")
@within(60)
async def test_the_links_of_a_chain_have_one_hook_timeout_in_all(autojump_clock: object) -> None:
    async def slow(*args: object) -> None:
        await trio.sleep(3)

    chain = HookChain(*[CallbackHook(on_subscribe=slow) for _ in range(3)])
    async with open_queue_manager(hook=chain, hook_timeout=5) as manager:
        await manager.create_or_tap("t")
        assert trio.current_time() == 5
        assert manager.statistics().hook_timeouts == 1


@pytest.mark.requirement("S4-HOOKS")
@within(5)
async def test_a_chain_of_hooks_without_an_on_event_does_not_slow_the_processor_down(autojump_clock: object) -> None:
    class Counting(CallbackHook):
        async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
            seen.append(event)

    seen: list[object] = []
    for hook, sees in (
        (HookChain(NoOpHook(), CloseStreamsHook(9)), False),
        (HookChain(NoOpHook(), RecordingHook()), True),
        (CallbackHook(), False),
        (Counting(), True),
    ):
        async with open_queue_manager(hook=hook) as manager:
            child = await manager.create_or_tap("t")
            queue = manager.get("t")
            assert queue is not None
            assert queue._hooks.sees_events is sees
            await child.enqueue(artifact("t"))
            await trio.testing.wait_all_tasks_blocked()
    assert len(seen) == 1


@pytest.mark.requirement("S4-START-SOON")
@within(5)
async def test_a_handle_whose_queue_is_gone_closes_nothing_and_starts_nothing(autojump_clock: object) -> None:
    handles: list[StreamCloseHandle] = []

    async def keep(task_id: str, handle: StreamCloseHandle) -> None:
        handles.append(handle)

    async with open_queue_manager(hook=CallbackHook(on_subscribe=keep)) as manager:
        await manager.create_or_tap("t")
        await manager.close("t")
        fresh = await manager.create_or_tap("t")
        (old, _) = handles
        await old.close_streams()
        await old.abort_streams()
        await old.close_subscriber(fresh.id)
        assert old.active_subscriber_count == 0
        assert not fresh.closed
        with pytest.raises(EventQueueClosedError):
            old.start_soon(trio.sleep, 1)
