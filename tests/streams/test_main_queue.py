"""One task's queue, as its producers see it."""

import math
from typing import Any

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason
from trio_a2a.errors import InternalError
from trio_a2a.streams import (
    EventQueueClosedError,
    MainQueue,
    QueueManager,
    TaskIdMismatchError,
    open_queue_manager,
)
from trio_a2a.testing import FlakyStore, SlowStore, artifact, message, status, task
from trio_a2a.types import Message, Part, TaskState


async def live(manager: QueueManager, task_id: str = "t") -> MainQueue:
    """Open a task's queue and keep it open with a subscriber."""
    await manager.create_or_tap(task_id)
    queue = manager.get(task_id)
    assert queue is not None
    return queue


# ---------------------------------------------------------------------------------------------------------- accepting


@pytest.mark.requirement("S4-MISMATCH", "B5")
@pytest.mark.parametrize("event", [task("x"), status("x"), artifact("x")], ids=["task", "status", "artifact"])
@within(5)
async def test_an_event_of_another_task_is_refused_before_anything_is_queued(
    autojump_clock: object, event: Any
) -> None:
    async with open_queue_manager() as manager:
        queue = await live(manager)
        for put in (queue.enqueue, _as_async(queue.enqueue_nowait)):
            with pytest.raises(TaskIdMismatchError, match="'x'") as refusal:
                await put(event)
            assert isinstance(refusal.value, ValueError)
        with pytest.raises(TaskIdMismatchError):
            await manager.enqueue("t", event)
        assert queue.statistics().in_flight == 0
        await queue.flush()
        assert await manager.store.get("t") is None


@pytest.mark.requirement("S4-MISMATCH", "B5")
@within(5)
async def test_messages_and_errors_are_not_compared_with_the_task(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        said = message("hi", task_id="other", context_id="other")
        await child.enqueue(said)
        assert await child.receive() is said


@pytest.mark.requirement("S4-JSON-VALUES")
@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 2**64, -(2**63) - 1, {"deep": [{"x": math.nan}]}, "\ud800", {"\ud800": 1}],
    ids=repr,
)
@within(5)
async def test_a_value_that_json_cannot_carry_is_refused_before_it_is_stored(
    autojump_clock: object, value: Any
) -> None:
    async with open_queue_manager() as manager:
        queue = await live(manager)
        events = [
            status("t", metadata={"v": value}),
            artifact("t", Part(data=value)),
            artifact("t", metadata={"v": value}),
            task("t", metadata={"v": value}),
            task("t", history=[message(Part(text="x", metadata={"v": value}))]),
            message(Part(data=[value])),
        ]
        for event in events:
            with pytest.raises(ValueError, match=r"JSON|64 bits|surrogate"):
                await queue.enqueue(event)
            with pytest.raises(ValueError, match=r"JSON|64 bits|surrogate"):
                queue.enqueue_nowait(event)
        assert queue.statistics().in_flight == 0


@pytest.mark.requirement("S4-JSON-VALUES")
@pytest.mark.parametrize(
    "event",
    [
        artifact("t", "\ud800"),
        artifact("t", artifact_id="\ud800"),
        artifact("t", Part(url="\ud800")),
        artifact("t", Part(text="x", filename="\ud800")),
        status("t", text="\ud800"),
        status("t", context_id="\ud800"),
        Message.agent("x", message_id="\ud800"),
        Message.agent("x", extensions=["\ud800"]),
        InternalError("\ud800"),
    ],
)
@within(5)
async def test_a_lone_surrogate_is_refused_wherever_it_is(autojump_clock: object, event: Any) -> None:
    async with open_queue_manager() as manager:
        queue = await live(manager)
        with pytest.raises(ValueError, match="surrogate"):
            await queue.enqueue(event)


@pytest.mark.requirement("S4-MAIN-ENQUEUE")
@pytest.mark.parametrize("thing", ["text", None, {"kind": "task"}, object(), ValueError("x")])
@within(5)
async def test_what_is_no_event_is_refused(autojump_clock: object, thing: Any) -> None:
    async with open_queue_manager() as manager:
        queue = await live(manager)
        with pytest.raises(TypeError, match="update events"):
            await queue.enqueue(thing)
        with pytest.raises(TypeError, match="update events"):
            queue.enqueue_nowait(thing)


# ------------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.requirement("S4-BOUNDS", "S4-ENQUEUE-NOWAIT", "B4", "B7", "D2")
@within(60)
async def test_queue_size_counts_events_that_are_being_committed_too(autojump_clock: object) -> None:
    store = SlowStore(commit_seconds={"t": 10})
    async with open_queue_manager(store, queue_size=3) as manager:
        queue = await live(manager)
        queue.enqueue_nowait(artifact("t", "0"))
        await trio.testing.wait_all_tasks_blocked()
        assert store.commits == [(1,)], "the first is being committed"
        queue.enqueue_nowait(artifact("t", "1"))
        queue.enqueue_nowait(artifact("t", "2"))
        assert queue.statistics().in_flight == 3
        with pytest.raises(trio.WouldBlock):
            queue.enqueue_nowait(artifact("t", "3"))
        await queue.flush()
        assert queue.statistics().in_flight == 0
        queue.enqueue_nowait(artifact("t", "3"))
        assert queue.statistics().in_flight == 1


@pytest.mark.requirement("S4-BOUNDS", "B5", "D2", "S3-BACKPRESSURE")
@within(600)
async def test_a_producer_waits_while_queue_size_events_are_in_flight(autojump_clock: object) -> None:
    store = SlowStore(commit_seconds={"t": 10})
    async with open_queue_manager(store, queue_size=2, lag_grace=0) as manager:
        queue = await live(manager)
        times = []
        for number in range(5):
            await queue.enqueue(artifact("t", str(number)))
            times.append(round(trio.current_time()))
            assert queue.statistics().in_flight <= 2
        assert times == [0, 0, 10, 20, 30]


@pytest.mark.requirement("S4-MAIN-ENQUEUE", "S3-BACKPRESSURE")
@within(60)
async def test_waiting_producers_are_served_first_come_first_served_and_none_can_barge_in(
    autojump_clock: object,
) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 1}), queue_size=1) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None

        async def produce(text: str) -> None:
            await queue.enqueue(artifact("t", text))

        async def barge() -> None:
            while trio.current_time() < 3:
                with pytest.raises(trio.WouldBlock):
                    queue.enqueue_nowait(artifact("t", "barged"))
                await trio.sleep(0.1)

        async with trio.open_nursery() as nursery:
            for text in "abcde":
                nursery.start_soon(produce, text)
                await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(barge)
            got = []
            for _ in range(5):
                event = await child.receive()
                got.append(event.artifact.text())  # type: ignore[union-attr]
        assert got == list("abcde")


@pytest.mark.requirement("S4-MAIN-ENQUEUE")
@within(60)
async def test_a_producer_that_is_cancelled_while_it_waits_has_enqueued_nothing(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 10}), queue_size=1) as manager:
        queue = await live(manager)
        await queue.enqueue(artifact("t", "0"))
        with trio.move_on_after(1) as scope:
            await queue.enqueue(artifact("t", "1"))
        assert scope.cancelled_caught
        await queue.flush()
        assert queue.statistics().sequence == 1
        with trio.CancelScope() as scope:
            scope.cancel()
            await queue.enqueue(artifact("t", "2"))
        assert scope.cancelled_caught
        await queue.flush()
        assert queue.statistics().sequence == 1
        queue.enqueue_nowait(artifact("t", "3"))


@pytest.mark.requirement("S4-BOUNDS")
@within(600)
async def test_a_failed_event_gives_its_permit_back(autojump_clock: object) -> None:
    store = FlakyStore(refuse=lambda change: True)
    async with open_queue_manager(store, queue_size=2) as manager:
        queue = await live(manager)
        for _ in range(10):
            await queue.enqueue(artifact("t"))
        assert queue.statistics().in_flight <= 2
        store.refuse = None
        with pytest.raises(type(store.error)):
            await queue.flush()
        assert queue.statistics().in_flight == 0


# -------------------------------------------------------------------------------------------------------------- flush


@pytest.mark.requirement("S4-FLUSH")
@within(60)
async def test_flush_returns_when_all_accepted_so_far_is_stored_and_distributed(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 3})) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        await queue.enqueue(artifact("t", "one"))
        await queue.enqueue(artifact("t", "two"))
        await queue.flush()
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.sequence == 2
        assert child.statistics().backlog == 2
        before = trio.current_time()
        await queue.flush()
        assert trio.current_time() == before, "there is nothing to wait for"


@pytest.mark.requirement("S4-FLUSH")
@within(60)
async def test_flush_does_not_wait_for_what_is_accepted_after_it(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 3})) as manager:
        queue = await live(manager)
        await queue.enqueue(artifact("t", "one"))
        async with trio.open_nursery() as nursery:

            async def later() -> None:
                await trio.sleep(1)
                for _ in range(5):
                    await queue.enqueue(artifact("t"))

            nursery.start_soon(later)
            await queue.flush()
            assert trio.current_time() == 3


@pytest.mark.requirement("S4-FLUSH", "S4-STORE-FAILURE")
@within(60)
async def test_flush_raises_the_store_error_once(autojump_clock: object) -> None:
    store = FlakyStore(refuse=lambda change: True)
    async with open_queue_manager(store) as manager:
        queue = await live(manager)
        await queue.enqueue(artifact("t"))
        with pytest.raises(type(store.error)) as failure:
            await queue.flush()
        assert failure.value is store.error
        await queue.flush()


@pytest.mark.requirement("S4-FLUSH")
@within(60)
async def test_flush_of_a_queue_that_dropped_events_says_so(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 10})) as manager:
        queue = await live(manager)
        await queue.enqueue(artifact("t", "being stored"))
        await trio.testing.wait_all_tasks_blocked()
        await queue.enqueue(artifact("t", "dropped"))
        async with trio.open_nursery() as nursery:

            async def flush() -> None:
                with pytest.raises(EventQueueClosedError):
                    await queue.flush()

            nursery.start_soon(flush)
            await trio.testing.wait_all_tasks_blocked()
            await queue.aclose(immediate=True)


@pytest.mark.requirement("S7-CHECKPOINTS")
@within(60)
async def test_every_async_method_of_a_main_queue_is_a_checkpoint(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        queue = await live(manager)
        with trio.testing.assert_checkpoints():
            await queue.enqueue(artifact("t"))
        with trio.testing.assert_checkpoints():
            await queue.flush()
        with trio.testing.assert_checkpoints():
            await queue.flush()
        with trio.testing.assert_checkpoints():
            await queue.tap()
        with trio.testing.assert_no_checkpoints():
            queue.enqueue_nowait(artifact("t"))
        with trio.testing.assert_checkpoints():
            await queue.aclose()
        with trio.testing.assert_checkpoints():
            await queue.aclose()


# ------------------------------------------------------------------------------------------------------------- closing


@pytest.mark.requirement("S4-ACLOSE", "B27", "B28", "D8")
@within(60)
async def test_a_graceful_close_stores_what_was_accepted_and_then_ends_the_children(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 1})) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        for number in range(3):
            queue.enqueue_nowait(artifact("t", str(number)))
        await queue.aclose()
        assert queue.closed
        assert child.close_reason is CloseReason.SHUTDOWN
        assert len([event async for event in child]) == 3
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.sequence == 3


@pytest.mark.requirement("S4-ACLOSE")
@within(60)
async def test_a_graceful_close_gives_the_store_five_seconds(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 100})) as manager:
        queue = await live(manager)
        await queue.enqueue(artifact("t"))
        await queue.aclose()
        assert trio.current_time() == 5
        with pytest.raises(EventQueueClosedError):
            await queue.flush()


@pytest.mark.requirement("S4-ACLOSE", "B28")
@within(60)
async def test_an_immediate_close_finishes_the_commit_that_has_begun_and_drops_the_rest(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 2})) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        queue.enqueue_nowait(artifact("t", "begun"))
        await trio.testing.wait_all_tasks_blocked()
        queue.enqueue_nowait(artifact("t", "not begun"))
        await queue.aclose(immediate=True)
        assert trio.current_time() == 2
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.sequence == 1
        assert [event async for event in child] == [], "the backlog is dropped"


@pytest.mark.requirement("S4-ACLOSE", "B6", "B29", "D8")
@within(60)
async def test_a_closed_queue_refuses_events_and_subscribers_and_can_be_closed_again(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        queue = await live(manager)
        await queue.aclose()
        await queue.aclose(immediate=True)
        with pytest.raises(EventQueueClosedError):
            await queue.enqueue(artifact("t"))
        with pytest.raises(EventQueueClosedError):
            queue.enqueue_nowait(artifact("t"))
        with pytest.raises(EventQueueClosedError):
            await queue.tap()
        await queue.flush()
        assert manager.get("t") is None
        assert "closed" in repr(queue)


@pytest.mark.requirement("S4-ACLOSE")
@within(60)
async def test_closing_turns_waiting_producers_away(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 3}), queue_size=1) as manager:
        queue = await live(manager)
        await queue.enqueue(artifact("t", "accepted"))
        refused = 0

        async def produce() -> None:
            nonlocal refused
            with pytest.raises(EventQueueClosedError):
                await queue.enqueue(artifact("t"))
            refused += 1

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(produce)
            await trio.testing.wait_all_tasks_blocked()
            await queue.aclose()
        assert refused == 10
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.sequence == 1


@pytest.mark.requirement("S4-ACLOSE")
@within(60)
async def test_a_close_that_is_cancelled_goes_on_without_its_caller(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 2})) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        await queue.enqueue(artifact("t", "x"))
        with trio.move_on_after(1) as scope:
            await queue.aclose()
        assert scope.cancelled_caught
        assert queue.closed
        assert len([event async for event in child]) == 1
        assert trio.current_time() == 2


@pytest.mark.requirement("S4-FRESH", "S1-NO-LOSS")
@within(60)
async def test_a_fresh_queue_waits_until_the_closed_one_has_stored_everything(autojump_clock: object) -> None:
    """One writer of a task at a time: else the two would conflict, and a subscriber would miss events."""
    async with open_queue_manager(SlowStore(commit_seconds={"t": 2})) as manager:
        queue = await live(manager)
        await queue.enqueue(artifact("t", "one"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(queue.aclose)
            await trio.testing.wait_all_tasks_blocked()
            async with manager.subscribe("t") as child:
                snapshot = await child.receive_batch()
                assert [envelope.sequence for envelope in snapshot] == [1], "the closed queue's event is in it"
                fresh = manager.get("t")
                assert fresh is not None
                assert fresh is not queue
                await fresh.enqueue(artifact("t", "two", append=True))
                (envelope,) = await child.receive_batch()
                assert envelope.sequence == 2


@pytest.mark.requirement("S4-ACLOSE", "S4-FRESH")
@within(600)
async def test_a_queue_whose_store_does_not_answer_when_it_is_loaded_can_be_closed(autojump_clock: object) -> None:
    store = SlowStore(get_seconds={"t": 1000})
    async with open_queue_manager(store) as manager, trio.open_nursery() as nursery:
        nursery.start_soon(manager.create_or_tap, "t")
        await trio.testing.wait_all_tasks_blocked()
        queue = manager.get("t")
        assert queue is not None
        queue.enqueue_nowait(artifact("t", "cannot be numbered"))
        store.get_seconds.clear()
        await manager.close("t")
        assert trio.current_time() == 5
        with pytest.raises(EventQueueClosedError):
            await queue.flush()
        await trio.testing.wait_all_tasks_blocked()
        assert manager.active_subscriber_count("t") == 1, "whoever waited has a fresh queue"
        assert await store.get("t") is None


@pytest.mark.requirement("S4-GET", "S1-NO-LOSS")
@within(60)
async def test_events_that_a_queue_accepts_while_it_is_loaded_come_behind_those_that_are_stored(
    autojump_clock: object,
) -> None:
    store = SlowStore(get_seconds={"t": 2})
    async with open_queue_manager(store) as manager:
        await manager.enqueue("t", artifact("t", "stored"))
        await manager.close("t")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(manager.create_or_tap, "t")
            await trio.testing.wait_all_tasks_blocked()
            queue = manager.get("t")
            assert queue is not None
            queue.enqueue_nowait(artifact("t", "early", append=True))
            await queue.flush()
        stored = await store.get("t")
        assert stored is not None
        assert stored.sequence == 2
        assert stored.task.artifacts[0].text("|") == "stored|early"


@pytest.mark.requirement("S4-STORE-FAILURE", "S4-FLUSH")
@within(60)
async def test_events_that_a_queue_accepted_before_its_load_failed_are_not_stored_and_flush_says_why(
    autojump_clock: object,
) -> None:
    store = FlakyStore()
    async with open_queue_manager(store) as manager, trio.open_nursery() as nursery:
        store.unreadable = True

        async def opening() -> None:
            with pytest.raises(type(store.error)):
                await manager.create_or_tap("t")

        nursery.start_soon(opening)
        while manager.get("t") is None:
            await trio.lowlevel.checkpoint()
        queue = manager.get("t")
        assert queue is not None
        queue.enqueue_nowait(artifact("t"))
        with pytest.raises(EventQueueClosedError) as ended:
            await queue.flush()
        assert ended.value.__cause__ is store.error
        assert store.commits == []


@pytest.mark.requirement("S4-STATISTICS", "B4")
@within(5)
async def test_a_queue_tells_what_it_holds_and_what_happened(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        queue = await live(manager)
        assert queue.task_id == "t"
        queue.enqueue_nowait(artifact("t"))
        assert queue.statistics().in_flight == 1
        await queue.flush()
        seen = queue.statistics()
        assert (seen.in_flight, seen.subscribers, seen.sequence) == (0, 1, 1)
        assert (seen.hook_errors, seen.hook_timeouts, seen.late_events_dropped, seen.lagged_subscribers) == (0,) * 4
        await queue.tap()
        assert queue.statistics().subscribers == 2
        await queue.enqueue(status("t", TaskState.COMPLETED))
        await queue.flush()
        assert queue.statistics().subscribers == 0


def _as_async(function: Any) -> Any:
    async def call(event: Any) -> None:
        function(event)
        await trio.lowlevel.checkpoint()

    return call
