"""The end of a task: FINAL, the grace period, late events."""

from datetime import timedelta

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason
from trio_a2a.errors import InternalError
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.streams import open_queue_manager
from trio_a2a.streams.hooks import CallbackHook
from trio_a2a.testing import RecordingHook, artifact, message, status, task
from trio_a2a.types import TaskState

FINAL = [state for state in TaskState if state.is_final]


# ---------------------------------------------------------------------------------------------------------------- FINAL


@pytest.mark.requirement("S4-FINAL", "D3", "D4", "B47")
@pytest.mark.parametrize("state", FINAL)
@pytest.mark.parametrize("make", [status, task])
@within(5)
async def test_a_stream_ends_right_after_the_terminal_event_with_no_check_of_its_reader(
    autojump_clock: object, state: TaskState, make: object
) -> None:
    async with open_queue_manager() as manager:
        children = [await manager.create_or_tap("t") for _ in range(3)]
        await manager.enqueue("t", artifact("t"))
        last = make("t", state)  # type: ignore[operator]
        await manager.enqueue("t", last)
        for child in children:
            got = [event async for event in child]
            assert got[-1] is last
            assert len(got) == 2
            assert child.close_reason is CloseReason.FINAL
        assert trio.current_time() == 0, "no poll, no flush delay"


@pytest.mark.requirement("S4-FINAL", "B49", "D3", "B50")
@pytest.mark.parametrize("state", [TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED])
@within(10_000)
async def test_a_stream_stays_open_at_an_interrupted_state_without_limit(
    autojump_clock: object, state: TaskState
) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(status("t", state))
        await child.receive()
        await trio.sleep(5000)
        assert not child.closed
        await child.enqueue(status("t", TaskState.COMPLETED))
        assert len([event async for event in child]) == 1


@pytest.mark.requirement("S4-FINAL", "D24", "D32", "B31", "B51", "B32")
@within(5)
async def test_nothing_behind_the_terminal_event_reaches_a_stream_that_ended_with_it(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        for event in (artifact("t", "one"), status("t", TaskState.COMPLETED), artifact("t", "late")):
            queue.enqueue_nowait(event)
        await queue.flush()
        assert len([event async for event in child]) == 2
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.sequence == 3, "the late artifact is stored, in the grace period"


@pytest.mark.requirement("S4-FINAL")
@within(60)
async def test_a_stream_ends_before_the_hook_of_its_terminal_event_is_through(autojump_clock: object) -> None:
    async def slow(task_id: str, event: object, handle: object) -> None:
        await trio.sleep(3)

    async with open_queue_manager(hook=CallbackHook(on_event=slow)) as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(status("t", TaskState.COMPLETED))
        assert len([event async for event in child]) == 1
        assert trio.current_time() == 0
        assert child.close_reason is CloseReason.FINAL


@pytest.mark.requirement("S4-FINAL")
@within(5)
async def test_on_unsubscribe_of_a_stream_that_ended_has_run_when_flush_returns(autojump_clock: object) -> None:
    hook = RecordingHook()
    async with open_queue_manager(hook=hook) as manager:
        await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        await queue.enqueue(status("t", TaskState.COMPLETED))
        await queue.flush()
        assert hook.names == ["on_subscribe", "on_event", "on_unsubscribe"]


# --------------------------------------------------------------------------------------------------------- grace period


@pytest.mark.requirement("I2-GRACE", "S4-PROVIDER", "B20", "B21")
@pytest.mark.parametrize("grace", [0.001, 1.0, 15.0, 3600.5])
@pytest.mark.parametrize("start", [0.0, 0.1, 12345.678901])
@within(100_000)
async def test_a_task_is_active_just_before_the_end_of_its_grace_period_and_not_exactly_at_it(
    autojump_clock: object, grace: float, start: float
) -> None:
    store = InMemoryTaskStore(grace_period=grace)
    async with open_queue_manager(store) as manager:
        await trio.sleep(start)
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.testing.wait_all_tasks_blocked()
        ended = trio.current_time()
        assert await store.is_task_active("t")
        assert await store.is_task_finalized("t")
        await trio.sleep_until(ended + grace - 0.0005)
        assert await store.is_task_active("t"), "just before"
        assert await store.is_task_finalized("t")
        await trio.sleep_until(ended + grace)
        assert not await store.is_task_active("t"), "exactly at it"
        assert await store.is_task_finalized("t"), "whatever the grace period"


@pytest.mark.requirement("I2-GRACE", "B21")
@within(5)
async def test_a_grace_period_of_zero_ends_at_once(autojump_clock: object) -> None:
    store = InMemoryTaskStore(grace_period=0)
    async with open_queue_manager(store) as manager:
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.testing.wait_all_tasks_blocked()
        assert not await store.is_task_active("t")
        assert await store.is_task_finalized("t")


@pytest.mark.requirement("S4-LATE", "I2-GRACE", "B16")
@within(100)
async def test_a_late_artifact_in_the_grace_period_is_stored_and_reaches_children_opened_in_it(
    autojump_clock: object,
) -> None:
    async with open_queue_manager(InMemoryTaskStore(grace_period=15)) as manager:
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.sleep(14.999)
        async with manager.subscribe("t") as child:
            await child.receive()
            late = artifact("t", "late")
            await manager.enqueue("t", late)
            assert await child.receive() is late
            assert not child.closed
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.task.artifacts == (late.artifact,)
        assert stored.task.status.state is TaskState.COMPLETED
        assert manager.statistics().late_events_dropped == 0


@pytest.mark.requirement("S4-LATE", "I2-GRACE")
@within(100)
async def test_a_late_event_after_the_grace_period_is_dropped_and_counted(autojump_clock: object) -> None:
    async with open_queue_manager(InMemoryTaskStore(grace_period=15)) as manager:
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.sleep(15)
        for event in (artifact("t"), status("t", TaskState.COMPLETED), message("hi"), InternalError("x")):
            await manager.enqueue("t", event)
        await trio.testing.wait_all_tasks_blocked()
        assert manager.statistics().late_events_dropped == 4
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.sequence == 1
        assert manager.get("t") is None, "the queue that judged them is gone again"


@pytest.mark.requirement("S4-LATE")
@within(100)
async def test_the_grace_period_may_end_between_two_late_events_of_one_queue(autojump_clock: object) -> None:
    async with open_queue_manager(InMemoryTaskStore(grace_period=15)) as manager:
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.testing.wait_all_tasks_blocked()
        child = await manager.create_or_tap("t")
        await child.enqueue(artifact("t", "in time"))
        await trio.sleep(15)
        await child.enqueue(artifact("t", "too late"))
        queue = manager.get("t")
        assert queue is not None
        await queue.flush()
        assert child.statistics().backlog == 1
        assert queue.statistics().late_events_dropped == 1


@pytest.mark.requirement("S4-LATE", "S4-TERMINAL", "B16")
@within(100)
async def test_a_late_change_to_another_state_is_refused_and_the_same_state_is_a_replay(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.testing.wait_all_tasks_blocked()
        async with manager.subscribe("t") as child:
            await child.receive()
            for event in (status("t", TaskState.WORKING), task("t", TaskState.FAILED), InternalError("x")):
                await child.enqueue(event)
            replay = status("t", TaskState.COMPLETED)
            await child.enqueue(replay)
            assert await child.receive() is replay
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.task.status.state is TaskState.COMPLETED
        assert stored.sequence == 2
        assert manager.statistics().late_events_dropped == 3


@pytest.mark.requirement("S4-TERMINAL", "S4-FINALIZED-ONCE", "D20")
@within(1000)
async def test_finalized_at_is_set_once_so_a_replay_does_not_prolong_the_grace_period(autojump_clock: object) -> None:
    store = InMemoryTaskStore(grace_period=15)
    async with open_queue_manager(store) as manager:
        await manager.enqueue("t", status("t", TaskState.CANCELED))
        await trio.sleep(10)
        first = await store.get("t")
        await manager.enqueue("t", status("t", TaskState.CANCELED))
        await manager.enqueue("t", artifact("t"))
        await trio.sleep(4.9)
        second = await store.get("t")
        assert first is not None
        assert second is not None
        assert second.sequence == 3
        assert first.finalized_at == second.finalized_at
        assert await store.is_task_active("t")
        await trio.sleep(0.1)
        assert not await store.is_task_active("t")


@pytest.mark.requirement("S4-LATE-UNKNOWN", "B15")
@pytest.mark.parametrize("event", [artifact("new"), status("new"), task("new")], ids=["artifact", "status", "task"])
@within(5)
async def test_only_finalized_tasks_drop_events_an_unknown_tasks_first_one_makes_it(
    autojump_clock: object, event: object
) -> None:
    async with open_queue_manager() as manager:
        await manager.enqueue("new", event)  # type: ignore[arg-type]
        await trio.testing.wait_all_tasks_blocked()
        stored = await manager.store.get("new")
        assert stored is not None
        assert stored.sequence == 1
        assert manager.statistics().late_events_dropped == 0


@pytest.mark.requirement("S4-TIME", "I2-GRACE")
@within(100)
async def test_a_mock_clock_moves_recorded_dates_as_well_as_waits(autojump_clock: object) -> None:
    store = InMemoryTaskStore()
    async with open_queue_manager(store) as manager:
        for task_id in ("a", "b"):
            await manager.enqueue(task_id, status(task_id, TaskState.COMPLETED))
            await trio.sleep(7.5)
    a, b = await store.get("a"), await store.get("b")
    assert a is not None
    assert b is not None
    assert a.finalized_at is not None
    assert b.finalized_at is not None
    assert b.finalized_at - a.finalized_at == timedelta(seconds=7.5)


# --------------------------------------------------------------------------------------------------------- error events


@pytest.mark.requirement("S4-ERROR-EVENT", "B18")
@within(5)
async def test_an_error_as_an_event_makes_an_active_task_failed_and_readers_and_hooks_see_the_update(
    autojump_clock: object,
) -> None:
    hook = RecordingHook()
    async with open_queue_manager(hook=hook) as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(status("t", text="working"))
        await child.enqueue(InternalError("safe text", metadata={"k": "v"}))
        first, last = [event async for event in child]
        assert hook.events == [first, last]
        assert last.status.state is TaskState.FAILED  # type: ignore[union-attr]
        assert last.status.message.text() == "safe text"  # type: ignore[union-attr]
        assert last.status.timestamp is not None  # type: ignore[union-attr]
        assert child.close_reason is CloseReason.FINAL
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.task.status == last.status  # type: ignore[union-attr]
        assert [m.text() for m in stored.task.history] == ["working"]


@pytest.mark.requirement("S4-ERROR-EVENT", "B18")
@within(5)
async def test_an_error_where_there_is_no_task_ends_the_streams_with_it_and_stores_nothing(
    autojump_clock: object,
) -> None:
    async with open_queue_manager() as manager:
        children = [await manager.create_or_tap("t") for _ in range(2)]
        error = InternalError("no task")
        await children[0].enqueue(error)
        raised = []
        for child in children:
            with pytest.raises(InternalError, match="no task") as failure:
                await child.receive()
            assert child.closed
            raised.append(failure.value)
        assert raised[0] is not raised[1], "each reader raises its own"
        assert await manager.store.get("t") is None


@pytest.mark.requirement("S4-ERROR-EVENT", "S4-TERMINAL")
@within(5)
async def test_a_chunk_of_no_artifact_makes_the_task_failed(autojump_clock: object) -> None:
    """Protocol section 4.3: an agent error, InvalidAgentResponse."""
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(status("t"))
        await child.enqueue(artifact("t", "x", append=True))
        _, last = [event async for event in child]
        assert last.status.state is TaskState.FAILED  # type: ignore[union-attr]


@pytest.mark.requirement("S4-FINAL")
@within(60)
async def test_a_reader_of_a_finished_task_is_ended_when_its_grace_period_is(autojump_clock: object) -> None:
    async with open_queue_manager(InMemoryTaskStore(grace_period=15)) as manager:
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.sleep(5)
        async with manager.subscribe("t") as child:
            await manager.enqueue("t", artifact("t", "late"))
            events = [event async for event in child]
        assert [type(event).__name__ for event in events] == ["Task", "TaskArtifactUpdateEvent"]
        assert child.close_reason is CloseReason.FINAL
        assert trio.current_time() == pytest.approx(15)


@pytest.mark.requirement("S4-FINAL")
@within(60)
async def test_a_reader_that_comes_after_the_grace_period_gets_what_there_is_and_ends(autojump_clock: object) -> None:
    async with open_queue_manager(InMemoryTaskStore(grace_period=15)) as manager:
        await manager.enqueue("t", status("t", TaskState.WORKING))
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.sleep(16)
        async with manager.subscribe("t") as child:
            (snapshot,) = [event async for event in child]
        assert snapshot.status.state is TaskState.COMPLETED
        async with manager.subscribe("t", after=1) as child:
            (last,) = [event async for event in child]
        assert last.status.state is TaskState.COMPLETED
        child = await manager.create_or_tap("t")
        assert not [event async for event in child]
        assert manager.statistics().queues == 0


@within(20_000)
async def test_readers_of_a_finished_task_stay_where_the_provider_does_not_say_how_long(
    autojump_clock: object,
) -> None:
    class Provider:
        active = True

        async def is_task_active(self, task_id: str) -> bool:
            return self.active

        async def is_task_finalized(self, task_id: str) -> bool:
            return True

    provider = Provider()
    async with open_queue_manager(state_provider=provider) as manager:
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.testing.wait_all_tasks_blocked()
        async with manager.subscribe("t") as child:
            await child.receive()
            await trio.sleep(10_000)
            assert not child.closed
        provider.active = False
        async with manager.subscribe("t") as child:
            assert len([event async for event in child]) == 1
