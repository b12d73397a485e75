"""Leaving the manager, a bug in one queue, and what a manager that is over says."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason, StreamCloseHandle
from trio_a2a.errors import InternalError
from trio_a2a.streams import EventQueueClosedError, QueueManager, open_queue_manager
from trio_a2a.streams.hooks import CallbackHook, IdleTimeoutHook
from trio_a2a.testing import FlakyStore, RecordingHook, SlowStore, artifact, status
from trio_a2a.types import TaskState

# -------------------------------------------------------------------------------------------------------------- leaving


@pytest.mark.requirement("S4-SHUTDOWN", "D27", "B13", "S1-SCOPE")
@within(60)
async def test_leaving_the_manager_stores_what_was_accepted_and_closes_children(autojump_clock: object) -> None:
    hook = RecordingHook()
    store = SlowStore(commit_seconds={"t": 2})
    before = trio.lowlevel.current_statistics().tasks_living
    async with open_queue_manager(store, hook=hook) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        for number in range(100):
            queue.enqueue_nowait(artifact("t", str(number), append=number > 0))
    assert trio.current_time() == 2
    stored = await store.get("t")
    assert stored is not None
    assert stored.sequence == 100
    assert stored.task.status.state is TaskState.SUBMITTED, "the task is not changed"
    assert child.close_reason is CloseReason.SHUTDOWN
    assert len([event async for event in child]) == 100, "its backlog can still be read"
    assert hook.names.count("on_unsubscribe") == 1
    assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.requirement("S4-SHUTDOWN")
@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt("mine")])
@within(5)
async def test_what_the_block_raises_leaves_as_it_is_also_while_everything_is_cancelled(
    autojump_clock: object, error: BaseException
) -> None:
    """A cancellation of the scope around the manager does not take its place."""
    for cancelled in (False, True):
        with pytest.raises(type(error)) as caught, trio.CancelScope() as scope:
            async with open_queue_manager() as manager:
                await manager.create_or_tap("t")
                if cancelled:
                    scope.cancel()
                raise error
        assert caught.value is error


@pytest.mark.requirement("S4-SHUTDOWN")
@within(5)
async def test_what_a_subscriber_s_block_raises_leaves_as_it_is_also_while_it_is_cancelled(
    autojump_clock: object,
) -> None:
    error = ValueError("mine")
    async with open_queue_manager() as manager:
        for opened in (manager.subscribe("t"), await manager.create_or_tap("t")):
            with pytest.raises(ValueError, match="mine") as caught, trio.CancelScope() as scope:
                async with opened:
                    scope.cancel()
                    raise error
            assert caught.value is error
        assert manager.active_subscriber_count("t") == 0


@pytest.mark.requirement("S4-SHUTDOWN")
@within(5)
async def test_a_cancelled_block_that_raises_nothing_is_cancelled(autojump_clock: object) -> None:
    with trio.CancelScope() as scope:
        async with open_queue_manager() as manager:
            await manager.create_or_tap("t")
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


@pytest.mark.requirement("S4-SHUTDOWN")
@within(60)
async def test_storing_what_was_accepted_has_five_seconds_for_all_tasks_together(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    store = SlowStore(commit_seconds={str(number): 100 for number in range(10)})
    async with open_queue_manager(store) as manager:
        children = [await manager.create_or_tap(str(number)) for number in range(10)]
        for child in children:
            await child.enqueue(artifact(child.task_id))
    assert trio.current_time() == 5
    assert {child.close_reason for child in children} == {CloseReason.SHUTDOWN}
    assert "gave up storing" in caplog.text


@pytest.mark.requirement("S4-SHUTDOWN", "D27")
@within(60)
async def test_leaving_the_manager_cancels_runs_and_does_not_wait_for_agents(autojump_clock: object) -> None:
    ended = []

    async def agent() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async with open_queue_manager() as manager:
        await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        queue._start_run(agent)
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(1)
    assert ended == [1]
    assert trio.current_time() == 1


@pytest.mark.requirement("S4-SHUTDOWN")
@within(60)
async def test_a_queue_that_is_still_loading_does_not_keep_the_manager(autojump_clock: object) -> None:
    store = SlowStore(get_seconds={"t": 1000})
    async with open_queue_manager(store) as manager, trio.open_nursery() as nursery:
        nursery.start_soon(manager.create_or_tap, "t")
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert trio.current_time() <= 6


@pytest.mark.requirement("S4-SHUTDOWN")
@within(60)
async def test_whoever_waits_for_a_load_when_the_manager_is_left_is_told(autojump_clock: object) -> None:
    store = SlowStore(get_seconds={"t": 2})

    async def open_late(manager: QueueManager) -> None:
        with pytest.raises(RuntimeError, match="closed"):
            await manager.create_or_tap("t")

    async with trio.open_nursery() as nursery:  # noqa: SIM117 - which of the two ends first is the point
        async with open_queue_manager(store) as manager:
            nursery.start_soon(open_late, manager)
            await trio.testing.wait_all_tasks_blocked()


@pytest.mark.requirement("S4-SHUTDOWN-MISUSE")
@within(5)
async def test_a_call_after_the_end_is_a_runtime_error_that_says_what_to_do(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None

    async def subscribe() -> None:
        async with manager.subscribe("t"):
            raise AssertionError("it was entered")

    calls: list[Any] = [
        lambda: manager.create_or_tap("t"),
        lambda: manager.tap("t"),
        lambda: manager.close("t"),
        lambda: manager.enqueue("t", artifact("t")),
        subscribe,
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="use it inside its `async with open_queue_manager"):
            await call()
    for plain in (lambda: manager.get("t"), lambda: manager.active_subscriber_count("t")):
        with pytest.raises(RuntimeError, match="closed"):
            plain()
    with pytest.raises(RuntimeError, match="closed"):
        manager.subscribe("t")
    assert manager.statistics().queues == 0
    assert "closed" in repr(manager)
    # What was handed out before is closed, each in its own way.
    with pytest.raises(EventQueueClosedError):
        await child.receive()
    for late in (lambda: queue.enqueue(artifact("t")), lambda: child.enqueue(artifact("t")), queue.tap):
        with pytest.raises(EventQueueClosedError) as caught:
            await late()
        assert isinstance(caught.value, RuntimeError)
        assert "use it inside the `async with open_queue_manager()` block" in str(caught.value)
    with pytest.raises(RuntimeError, match="ended with its manager"):
        queue.enqueue_nowait(artifact("t"))
    await child.aclose()
    await queue.aclose()


@pytest.mark.requirement("S4-SHUTDOWN-MISUSE")
@within(60)
async def test_new_work_is_refused_as_soon_as_the_manager_is_being_left(autojump_clock: object) -> None:
    store = SlowStore(commit_seconds={"t": 3})
    refused = []

    async def try_later(manager: QueueManager) -> None:
        await trio.sleep(1)
        with pytest.raises(RuntimeError):
            await manager.create_or_tap("other")
        refused.append(trio.current_time())

    async with trio.open_nursery() as nursery:  # noqa: SIM117 - which of the two ends first is the point
        async with open_queue_manager(store) as manager:
            await manager.enqueue("t", artifact("t"))
            nursery.start_soon(try_later, manager)
    assert refused == [1]
    assert trio.current_time() == 3


@pytest.mark.requirement("S4-SHUTDOWN", "S1-SCOPE")
@within(60)
async def test_readers_in_other_tasks_see_their_streams_end(autojump_clock: object) -> None:
    ended = []

    async def read(manager: QueueManager) -> None:
        async with manager.subscribe("t") as child:
            async for _ in child:
                pass
            ended.append(child.close_reason)

    async with trio.open_nursery() as nursery:  # noqa: SIM117 - which of the two ends first is the point
        async with open_queue_manager() as manager:
            for _ in range(5):
                nursery.start_soon(read, manager)
            await trio.testing.wait_all_tasks_blocked()
    assert ended == [CloseReason.SHUTDOWN] * 5


@pytest.mark.requirement("S4-SHUTDOWN")
@pytest.mark.parametrize(
    "error",
    [
        KeyError("mine"),
        ExceptionGroup("mine", [ValueError()]),
        trio.EndOfChannel(),
        KeyboardInterrupt("mine"),
        SystemExit(2),
    ],
)
@within(5)
async def test_an_error_in_the_block_leaves_as_it_is_and_everything_is_ended(
    autojump_clock: object, error: BaseException
) -> None:
    with pytest.raises(type(error)) as raised:
        async with open_queue_manager() as manager:
            child = await manager.create_or_tap("t")
            await child.enqueue(artifact("t"))
            raise error
    assert raised.value is error
    assert child.close_reason is CloseReason.SHUTDOWN
    assert await manager.store.get("t") is not None


# --------------------------------------------------------------------------------------------------- a bug in one queue


def _bug(state: object) -> None:
    raise ZeroDivisionError("a bug")


@pytest.mark.requirement("S4-BUG", "S1-ISOLATION")
@within(60)
async def test_a_bug_ends_its_queue_only_and_is_logged_once_with_its_traceback(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    hook = RecordingHook()
    async with open_queue_manager(hook=hook) as manager:
        other = await manager.create_or_tap("other")
        children = [await manager.create_or_tap("t") for _ in range(3)]
        queue = manager.get("t")
        assert queue is not None
        cancelled = trio.Event()

        async def agent() -> None:
            try:
                await trio.sleep_forever()
            finally:
                cancelled.set()

        queue._start_run(agent)
        queue.enqueue_nowait(artifact("t"))
        queue._mark(_bug)
        await cancelled.wait()
        await trio.testing.wait_all_tasks_blocked()
        for child in children:
            await child.receive()
            with pytest.raises(InternalError, match="Internal error"):
                await child.receive()
            assert child.close_reason is CloseReason.INTERNAL
        assert queue.closed
        assert manager.get("t") is None
        assert len(hook.of("on_unsubscribe")) == 3
        await other.enqueue(artifact("other"))
        await other.receive()
        # The task is still there, and a fresh queue takes it up.
        async with manager.subscribe("t") as fresh:
            (snapshot,) = await fresh.receive_batch()
            assert snapshot.sequence == 1
    logged = [record for record in caplog.records if record.exc_info]
    assert len(logged) == 1
    assert "a bug" in caplog.text
    assert "task t" in logged[0].getMessage()


@pytest.mark.requirement("S4-BUG", "S4-HOOKS")
@within(60)
async def test_a_hooks_own_work_ends_with_the_queue_that_had_a_bug(autojump_clock: object) -> None:
    hook = IdleTimeoutHook(10)
    async with open_queue_manager(hook=hook) as manager:
        before = trio.lowlevel.current_statistics().tasks_living
        await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        await trio.testing.wait_all_tasks_blocked()
        queue.enqueue_nowait(artifact("t"))
        queue._mark(_bug)
        await trio.testing.wait_all_tasks_blocked()
        assert hook._timers == {}
        assert trio.lowlevel.current_statistics().tasks_living == before
        child = await manager.create_or_tap("t")
        assert [event async for event in child] == []
        assert trio.current_time() == 10, "the next reader has a timer of its own"


@pytest.mark.requirement("S4-BUG")
@within(60)
async def test_a_bug_in_a_runs_own_task_ends_the_queue_after_what_was_accepted_is_stored(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent() -> None:
        await manager.enqueue("t", artifact("t", "accepted"))
        raise ZeroDivisionError("a bug of the runner")

    async with open_queue_manager(SlowStore(commit_seconds={"t": 1})) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        queue._start_run(agent)
        await child.receive()
        with pytest.raises(InternalError):
            await child.receive()
        assert child.close_reason is CloseReason.INTERNAL
        assert manager.get("t") is None
    assert "a bug of the runner" in caplog.text


@pytest.mark.requirement("S4-BUG")
@within(60)
async def test_a_bug_while_the_manager_is_cancelled_does_not_leave_it(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ZeroDivisionError("a bug in a finally clause")

    with trio.CancelScope() as scope:
        async with open_queue_manager() as manager:
            await manager.create_or_tap("t")
            queue = manager.get("t")
            assert queue is not None
            queue._start_run(agent)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert "a bug in a finally clause" in caplog.text


@pytest.mark.requirement("S4-BUG")
@within(60)
async def test_whoever_waits_for_a_flush_when_a_bug_ends_the_queue_is_told(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 1})) as manager:
        await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        queue.enqueue_nowait(artifact("t", "one"))
        queue._mark(_bug)
        await trio.testing.wait_all_tasks_blocked()
        queue.enqueue_nowait(artifact("t", "two"))
        with pytest.raises(EventQueueClosedError):
            await queue.flush()


# ------------------------------------------------------------------------------------------- hooks at the end of it all


@pytest.mark.requirement("S4-SHUTDOWN", "S4-HOOK-BUDGET")
@within(60)
async def test_hooks_that_hang_at_shutdown_cost_one_hook_timeout_for_all_queues_together(
    autojump_clock: object,
) -> None:
    async def hang(task_id: str, handle: StreamCloseHandle) -> None:
        await trio.sleep_forever()

    async with open_queue_manager(hook=CallbackHook(on_unsubscribe=hang), hook_timeout=3) as manager:
        for number in range(10):
            for _ in range(3):
                await manager.create_or_tap(str(number))
    assert trio.current_time() == 3
    assert manager.statistics().subscribers == 0


@pytest.mark.requirement("S4-SHUTDOWN")
@within(60)
async def test_a_flaky_store_at_shutdown_does_not_keep_the_manager(autojump_clock: object) -> None:
    store = FlakyStore(refuse=lambda change: True)
    async with open_queue_manager(store) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        for number in range(10):
            queue.enqueue_nowait(artifact("t", str(number)))
        await queue.enqueue(status("t", TaskState.COMPLETED))
    assert child.closed
    assert await store.get("t") is None
