"""Lifecycle hooks: when they are called, what they cost, and the ones that come with the package."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason, StreamCloseHandle, StreamEvent
from trio_a2a.errors import A2AError, InternalError
from trio_a2a.streams import ChildQueue, EventQueueClosedError, open_queue_manager
from trio_a2a.streams.hooks import CallbackHook, CloseStreamsHook, HookChain, IdleTimeoutHook, NoOpHook
from trio_a2a.testing import FlakyStore, RecordingHook, artifact, message, status
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


# ------------------------------------------------------------------------------------------------------- when and about


@pytest.mark.requirement("S4-SUBSCRIBE", "B34", "D31")
@within(5)
async def test_on_subscribe_is_awaited_before_the_child_is_handed_out_and_the_count_includes_it(
    autojump_clock: object,
) -> None:
    hook = RecordingHook(Hanging())
    async with open_queue_manager(hook=hook) as manager:
        for expected in (1, 2, 3):
            child = await manager.create_or_tap("t")
            call = hook.calls[-1]
            assert (call.name, call.task_id, call.subscribers) == ("on_subscribe", "t", expected)
            assert call.subscriber is not None
            assert call.subscriber.id == child.id
            assert call.subscriber.close_reason is None
            assert call.subscriber.opened_at.tzinfo is not None
        assert len({call.subscriber.id for call in hook.calls if call.subscriber}) == 3


@pytest.mark.requirement("S4-UNSUBSCRIBE", "B35", "D31")
@within(5)
async def test_on_unsubscribe_is_awaited_inside_the_close_and_the_count_excludes_it(autojump_clock: object) -> None:
    tasks = []

    async def note(task_id: str, handle: StreamCloseHandle) -> None:
        await trio.sleep(1)
        tasks.append(trio.lowlevel.current_task())

    hook = RecordingHook(CallbackHook(on_unsubscribe=note))
    async with open_queue_manager(hook=hook) as manager:
        children = [await manager.create_or_tap("t") for _ in range(3)]
        for left in (2, 1, 0):
            child = children[left]
            await child.aclose()
            assert tasks[-1] is trio.lowlevel.current_task(), "in the task that closes"
            call = hook.calls[-1]
            assert (call.name, call.subscribers) == ("on_unsubscribe", left)
            assert call.subscriber is not None
            assert call.subscriber.id == child.id
            assert call.subscriber.close_reason is CloseReason.CONSUMER
            assert trio.current_time() == 3 - left


@pytest.mark.requirement("S4-EVENT-HOOK", "B36", "B8", "S3-PIPELINE")
@within(5)
async def test_on_event_comes_after_the_event_is_stored_and_distributed_in_order(autojump_clock: object) -> None:
    seen = []
    async with open_queue_manager() as outer:
        store = outer.store

    async def look(task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        stored = await store.get(task_id)
        assert stored is not None
        seen.append((event, stored.sequence, child.statistics().backlog, handle.subscriber))

    async with open_queue_manager(store, hook=CallbackHook(on_event=look)) as manager:
        child = await manager.create_or_tap("t")
        events = [artifact("t", str(number)) for number in range(5)]
        queue = manager.get("t")
        assert queue is not None
        for event in events:
            queue.enqueue_nowait(event)
        await queue.flush()
    # One commit for all, but each is distributed, and its hook awaited, before the next.
    assert seen == [(event, 5, index + 1, None) for index, event in enumerate(events)]


@pytest.mark.requirement("S4-EVENT-HOOK", "B36")
@within(5)
async def test_on_event_is_called_only_when_somebody_was_there(autojump_clock: object) -> None:
    hook = RecordingHook()
    async with open_queue_manager(hook=hook) as manager:
        await manager.enqueue("t", artifact("t", "nobody"))
        await trio.testing.wait_all_tasks_blocked()
        child = await manager.create_or_tap("t")
        seen = artifact("t", "somebody")
        await manager.enqueue("t", seen)
        await trio.testing.wait_all_tasks_blocked()
        await child.aclose()
        await manager.enqueue("t", artifact("t", "nobody again"))
        await trio.testing.wait_all_tasks_blocked()
        assert hook.events == [seen]


@pytest.mark.requirement("S4-EVENT-HOOK", "B36", "B9")
@within(5)
async def test_on_event_sees_direct_messages_and_the_errors_that_take_an_events_place(autojump_clock: object) -> None:
    hook = RecordingHook()
    store = FlakyStore()
    async with open_queue_manager(store, hook=hook) as manager:
        child = await manager.create_or_tap("t")
        said = message("hi")
        await child.enqueue(said)
        await trio.testing.wait_all_tasks_blocked()
        store.refuse = lambda change: True
        await child.enqueue(artifact("t"))
        await trio.testing.wait_all_tasks_blocked()
        assert hook.events[0] is said
        assert isinstance(hook.events[1], InternalError)
        assert len(hook.events) == 2


@pytest.mark.requirement("S4-EVENT-HOOK", "S3-HOOKED-BATCH", "B38", "I2-HOOK-CLOSES")
@pytest.mark.parametrize("at", [0, 1, 4])
@within(5)
async def test_a_close_in_on_event_at_k_ends_every_stream_behind_k(autojump_clock: object, at: int) -> None:
    count = 0

    async def close(task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        nonlocal count
        if count == at:
            await handle.close_streams()
        count += 1

    async with open_queue_manager(hook=CallbackHook(on_event=close)) as manager:
        children = [await manager.create_or_tap("t") for _ in range(3)]
        queue = manager.get("t")
        assert queue is not None
        events = [artifact("t", str(number)) for number in range(6)]
        for event in events:
            queue.enqueue_nowait(event)
        await queue.flush()
        for child in children:
            assert [event async for event in child] == events[: at + 1], "the event just delivered is still read"
            assert child.close_reason is CloseReason.HANDLE
        assert queue.statistics().sequence == 6, "the agent's events are stored all the same"


# -------------------------------------------------------------------------------------------------------- once for each


@pytest.mark.requirement("S4-UNSUBSCRIBE", "I2-ONCE", "B35", "D8", "B26")
@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("reader cancelled", CloseReason.CONSUMER),
        ("reader leaves", CloseReason.CONSUMER),
        ("handle closes", CloseReason.HANDLE),
        ("handle aborts", CloseReason.HANDLE),
        ("handle closes one", CloseReason.HANDLE),
        ("lags", CloseReason.LAGGED),
        ("task ends", CloseReason.FINAL),
        ("store fails", CloseReason.STORE_FAILURE),
        ("bug", CloseReason.INTERNAL),
        ("queue closed", CloseReason.SHUTDOWN),
        ("manager left", CloseReason.SHUTDOWN),
        ("manager cancelled", CloseReason.SHUTDOWN),
    ],
)
@within(60)
async def test_on_unsubscribe_runs_exactly_once_however_a_stream_ends(
    autojump_clock: object, way: str, reason: CloseReason
) -> None:
    handles: list[StreamCloseHandle] = []

    async def keep(task_id: str, handle: StreamCloseHandle) -> None:
        handles.append(handle)

    hook = RecordingHook(CallbackHook(on_subscribe=keep))
    store = FlakyStore()
    reader = trio.CancelScope()

    async def read() -> None:
        with reader:
            async with manager.subscribe("t") as child:
                if way == "reader leaves":
                    return
                if way == "lags":
                    await trio.sleep_forever()
                try:
                    async for _ in child:
                        pass
                except InternalError:
                    assert way in {"store fails", "bug"}
                await child.aclose()

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as whole:
            async with open_queue_manager(store, hook=hook, queue_size=4, lag_grace=0.5) as manager:
                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked()
                queue = manager.get("t")
                assert queue is not None
                if way == "reader cancelled":
                    reader.cancel()
                elif way == "handle closes":
                    await handles[0].close_streams()
                    await handles[0].close_streams()
                elif way == "handle aborts":
                    await handles[0].abort_streams()
                    await handles[0].abort_streams()
                elif way == "handle closes one":
                    info = handles[0].subscriber
                    assert info is not None
                    await handles[0].close_subscriber(info.id)
                    await handles[0].close_subscriber(info.id)
                elif way == "lags":
                    for _ in range(8):
                        await queue.enqueue(artifact("t"))
                elif way == "task ends":
                    await queue.enqueue(status("t", TaskState.COMPLETED))
                elif way == "store fails":
                    store.refuse = lambda change: True
                    await queue.enqueue(artifact("t"))
                elif way == "bug":
                    queue.enqueue_nowait(artifact("t"))
                    queue._mark(lambda state: _bug())
                elif way == "queue closed":
                    await manager.close("t")
                elif way == "manager cancelled":
                    whole.cancel()
                if way not in {"manager left", "manager cancelled"}:
                    await trio.testing.wait_all_tasks_blocked()
                    await trio.sleep(1)
                    assert len(hook.of("on_unsubscribe")) == 1
        reader.cancel()
    assert len(hook.of("on_subscribe")) == 1
    (call,) = hook.of("on_unsubscribe")
    assert call.subscriber is not None
    assert call.subscriber.close_reason is reason
    assert call.subscribers == 0


def _bug() -> None:
    raise ZeroDivisionError("a bug")


# ----------------------------------------------------------------------------------------------------- no effect within


@pytest.mark.requirement("S4-UNSUBSCRIBE-NO-EFFECT", "I2-HOOK-CLOSES", "B38", "D5")
@pytest.mark.parametrize("method", ["close_streams", "abort_streams", "close_subscriber"])
@pytest.mark.parametrize("path", ["plain close", "close_streams", "cancelled reader", "lagged", "on_event"])
@within(60)
async def test_closing_from_within_on_unsubscribe_has_no_effect_on_any_path(
    autojump_clock: object, path: str, method: str
) -> None:
    others: list[int] = []
    handles: list[StreamCloseHandle] = []

    async def unsubscribed(task_id: str, handle: StreamCloseHandle) -> None:
        if method == "close_subscriber":
            for id_ in others:
                await handle.close_subscriber(id_)
        else:
            await getattr(handle, method)()

    async def subscribed(task_id: str, handle: StreamCloseHandle) -> None:
        handles.append(handle)

    async def event(task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        if path == "on_event":
            await handle.close_subscriber(child.id)

    hook = RecordingHook(CallbackHook(on_unsubscribe=unsubscribed, on_subscribe=subscribed, on_event=event))
    async with open_queue_manager(hook=hook, queue_size=2, lag_grace=0.5) as manager:
        child = await manager.create_or_tap("t")
        staying = await manager.create_or_tap("t")
        others.append(staying.id)
        if path == "plain close":
            await child.aclose()
        elif path == "close_streams":
            await handles[0].close_subscriber(child.id)
        elif path == "cancelled reader":
            with trio.CancelScope() as scope:
                scope.cancel()
                await child.aclose()
        elif path == "lagged":
            for _ in range(5):
                await manager.enqueue("t", artifact("t"))
                if staying.statistics().backlog:
                    await staying.receive_batch()
            await trio.sleep(2)
        elif path == "on_event":
            await manager.enqueue("t", artifact("t"))
            await trio.testing.wait_all_tasks_blocked()
        assert child.closed
        assert not staying.closed
        assert len(hook.of("on_unsubscribe")) == 1
        # Outside the callback the same handle works again.
        await handles[0].close_streams()
        assert staying.closed


@pytest.mark.requirement("S4-UNSUBSCRIBE-NO-EFFECT", "B38")
@within(5)
async def test_close_streams_calls_on_unsubscribe_once_for_each_although_each_call_closes_again(
    autojump_clock: object,
) -> None:
    async def again(task_id: str, handle: StreamCloseHandle) -> None:
        await handle.close_streams()

    hook = RecordingHook(HookChain(CloseStreamsHook(5), CallbackHook(on_unsubscribe=again)))
    async with open_queue_manager(hook=hook) as manager:
        children = [await manager.create_or_tap("t") for _ in range(5)]
        assert all(child.closed for child in children)
        ids = [call.subscriber.id for call in hook.of("on_unsubscribe") if call.subscriber]
        assert sorted(ids) == sorted(child.id for child in children)
        assert {call.subscribers for call in hook.of("on_unsubscribe")} == {0}, "all are closed before the first hook"


@pytest.mark.requirement("S4-UNSUBSCRIBE-NO-EFFECT", "S4-START-SOON", "I2-HOOK-CLOSES")
@within(5)
async def test_work_that_on_unsubscribe_schedules_is_not_within_it_and_closes_the_streams(
    autojump_clock: object,
) -> None:
    async def later(task_id: str, handle: StreamCloseHandle) -> None:
        handle.start_soon(handle.close_streams)

    async with open_queue_manager(hook=CallbackHook(on_unsubscribe=later)) as manager:
        child, staying = await manager.create_or_tap("t"), await manager.create_or_tap("t")
        await child.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert staying.close_reason is CloseReason.HANDLE


@pytest.mark.requirement("S4-UNSUBSCRIBE-NO-EFFECT")
@within(60)
async def test_another_task_may_close_streams_while_an_on_unsubscribe_is_running(autojump_clock: object) -> None:
    handles = []

    async def subscribed(task_id: str, handle: StreamCloseHandle) -> None:
        handles.append(handle)

    async def slow(task_id: str, handle: StreamCloseHandle) -> None:
        await trio.sleep(2)

    hook = CallbackHook(on_subscribe=subscribed, on_unsubscribe=slow)
    async with open_queue_manager(hook=hook) as manager, trio.open_nursery() as nursery:
        child, staying = await manager.create_or_tap("t"), await manager.create_or_tap("t")
        nursery.start_soon(child.aclose)
        await trio.sleep(1)
        await handles[0].close_streams()
        assert staying.closed


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
