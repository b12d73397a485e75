"""The fakes do what they say."""

import pytest
import trio

from tests.deadline import within
from trio_a2a.abc import StreamCloseHandle
from trio_a2a.errors import TaskPersistenceError
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.streams import open_queue_manager
from trio_a2a.streams.hooks import CallbackHook
from trio_a2a.testing import (
    FlakyStore,
    RecordingHook,
    SlowStore,
    artifact,
    check_event_log,
    check_task_store,
    status,
)
from trio_a2a.types import TaskState


@pytest.mark.requirement("S7-TESTING")
@within(60)
async def test_a_recording_hook_writes_everything_down_and_passes_it_on(autojump_clock: object) -> None:
    passed = []

    async def then(*args: object) -> None:
        passed.append(args[0])

    hook = RecordingHook(CallbackHook(on_subscribe=then, on_unsubscribe=then, on_event=then))
    async with open_queue_manager(hook=hook) as manager:
        child = await manager.create_or_tap("t")
        await trio.sleep(2)
        event = artifact("t")
        await child.enqueue(event)
        await child.receive()
        await child.aclose()
    assert hook.names == ["on_subscribe", "on_event", "on_unsubscribe"]
    assert hook.events == [event]
    assert [call.time for call in hook.calls] == [0, 2, 2]
    assert [call.subscribers for call in hook.calls] == [1, 1, 0]
    assert passed == ["t"] * 3


@pytest.mark.requirement("S7-TESTING")
@within(60)
async def test_a_flaky_store_fails_when_it_is_told_to_and_is_a_good_store_else(autojump_clock: object) -> None:
    async def check(open_store: object) -> None:
        await check_task_store(open_store)  # type: ignore[arg-type]
        await check_event_log(open_store)  # type: ignore[arg-type]

    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def flaky():  # type: ignore[no-untyped-def]
        yield FlakyStore()

    @asynccontextmanager
    async def slow():  # type: ignore[no-untyped-def]
        yield SlowStore(commit_seconds={"t": 1}, get_seconds={"t": 2})

    await check(flaky)
    await check(slow)

    inner = InMemoryTaskStore()
    store = FlakyStore(inner, refuse=lambda change: change.task_id == "bad", error=TaskPersistenceError("mine"))
    async with open_queue_manager(store) as manager:
        for task_id in ("good", "bad"):
            await manager.enqueue(task_id, status(task_id))
        for task_id in ("good", "bad"):
            queue = manager.get(task_id)
            assert queue is not None
            if task_id == "bad":
                with pytest.raises(TaskPersistenceError, match="mine"):
                    await queue.flush()
            else:
                await queue.flush()
    assert await inner.get("good") is not None
    assert await inner.get("bad") is None
    store.unreadable = True
    with pytest.raises(TaskPersistenceError):
        await store.get("good")
    assert sorted(store.commits) == [(1,), (1,)]


@pytest.mark.requirement("S7-TESTING")
@within(60)
async def test_a_slow_store_takes_its_time_for_the_tasks_that_it_is_told(autojump_clock: object) -> None:
    store = SlowStore(commit_seconds={"slow": 3}, get_seconds={"slow": 2})
    async with open_queue_manager(store) as manager:
        for task_id, seconds in (("fast", 0), ("slow", 5)):
            before = trio.current_time()
            await manager.enqueue(task_id, status(task_id, TaskState.WORKING))
            queue = manager.get(task_id)
            assert queue is not None
            await queue.flush()
            assert trio.current_time() - before == seconds
    assert await store.is_task_active("slow")
    assert not await store.is_task_finalized("slow")


@pytest.mark.requirement("S7-TESTING")
async def test_a_recording_hook_alone_does_nothing_else() -> None:
    class Handle:
        active_subscriber_count = 3
        subscriber = None

    hook = RecordingHook()
    handle: StreamCloseHandle = Handle()  # type: ignore[assignment]
    await hook.on_subscribe("t", handle)
    await hook.on_unsubscribe("t", handle)
    await hook.on_event("t", artifact("t"), handle)
    assert [call.subscribers for call in hook.calls] == [3, 3, 3]
