"""Lifecycle hooks: when they are called, and what closing from within them does."""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason, StreamCloseHandle, StreamEvent
from trio_a2a.errors import A2AError, InternalError
from trio_a2a.streams import open_queue_manager
from trio_a2a.streams.hooks import CallbackHook, CloseStreamsHook, HookChain, NoOpHook
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
