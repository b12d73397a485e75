"""Slow subscribers: what they cost, and when they are cut off."""

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason
from trio_a2a.streams import ChildQueue, EventQueueClosedError, MainQueue, SubscriberLaggedError, open_queue_manager
from trio_a2a.testing import RecordingHook, artifact, status
from trio_a2a.types import TaskArtifactUpdateEvent, TaskState


async def read_all(child: ChildQueue, pause: float = 0.0) -> list[str]:
    """Read to the end, taking ``pause`` for each event."""
    got = []
    async for event in child:
        if isinstance(event, TaskArtifactUpdateEvent):
            got.append(event.artifact.text())
        if pause:
            await trio.sleep(pause)
    return got


async def produce(queue: MainQueue, count: int) -> None:
    for number in range(count):
        await queue.enqueue(artifact("t", str(number)))
    await queue.enqueue(status("t", TaskState.COMPLETED))


def texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


@pytest.mark.requirement("S4-SLOW", "I2-LAG", "S1-NO-LOSS", "D22")
@within(10_000)
async def test_a_reader_a_few_times_slower_than_a_tight_producer_gets_all_of_twenty_thousand_events(
    autojump_clock: object,
) -> None:
    """Slower by the scheduler's measure: several passes for each event, while the producer takes one."""
    count = 20_000
    got: dict[str, list[str]] = {}

    async def slow(child: ChildQueue) -> None:
        mine = got["slow"] = []
        async for event in child:
            if isinstance(event, TaskArtifactUpdateEvent):
                mine.append(event.artifact.text())
            for _ in range(3):
                await trio.lowlevel.checkpoint()

    async def fast(child: ChildQueue) -> None:
        got["fast"] = await read_all(child)

    async with open_queue_manager() as manager, trio.open_nursery() as nursery:
        nursery.start_soon(slow, await manager.create_or_tap("t"))
        nursery.start_soon(fast, await manager.create_or_tap("t"))
        queue = manager.get("t")
        assert queue is not None
        await produce(queue, count)
    assert got["slow"] == texts(count)
    assert got["fast"] == texts(count)
    assert manager.statistics().lagged_subscribers == 0


@pytest.mark.requirement("S4-SLOW", "I2-LAG")
@within(10_000)
async def test_a_reader_that_takes_its_time_slows_the_producer_and_loses_nothing(autojump_clock: object) -> None:
    """In virtual time: half a buffer is drained within the grace, so it keeps its place."""
    count = 5000
    async with open_queue_manager() as manager, trio.open_nursery() as nursery:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        nursery.start_soon(produce, queue, count)
        assert await read_all(child, pause=0.0015) == texts(count)
        assert trio.current_time() == pytest.approx(count * 0.0015, rel=0.1)


@pytest.mark.requirement("S4-SLOW", "I2-LAG", "B30", "D23")
@within(10_000)
async def test_a_reader_that_takes_an_event_every_nine_tenths_of_a_second_is_cut(autojump_clock: object) -> None:
    count = 3000
    ends = {}
    async with open_queue_manager() as manager, trio.open_nursery() as nursery:
        slow, fast = await manager.create_or_tap("t"), await manager.create_or_tap("t")

        async def read_slowly() -> None:
            with pytest.raises(SubscriberLaggedError) as cut:
                await read_all(slow, pause=0.9)
            ends["slow"] = cut.value

        async def read_fast() -> None:
            assert await read_all(fast) == texts(count)
            ends["fast at"] = trio.current_time()

        nursery.start_soon(read_slowly)
        nursery.start_soon(read_fast)
        queue = manager.get("t")
        assert queue is not None
        await produce(queue, count)
    assert slow.close_reason is CloseReason.LAGGED
    assert ends["fast at"] == 1.0, "the others lost one lag_grace in all"
    assert "'t'" in str(ends["slow"])
    assert slow.statistics().received == 1000 + 1, "it had its backlog first"


@pytest.mark.requirement("S4-SLOW", "I2-LAG", "B30", "D23", "S1-ISOLATION")
@within(10_000)
async def test_a_stuck_reader_keeps_its_backlog_and_costs_its_task_one_lag_grace_and_other_tasks_nothing(
    autojump_clock: object,
) -> None:
    hook = RecordingHook()
    async with open_queue_manager(hook=hook, queue_size=100, lag_grace=2) as manager:
        stuck, good = await manager.create_or_tap("t"), await manager.create_or_tap("t")
        other = await manager.create_or_tap("other")
        queue = manager.get("t")
        assert queue is not None
        times: dict[str, float] = {}

        async def read_good() -> None:
            assert await read_all(good) == texts(1000)
            times["good"] = trio.current_time()

        async def use_other() -> None:
            for number in range(1000):
                await other.enqueue(artifact("other", str(number)))
                await other.receive()
            times["other"] = trio.current_time()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_good)
            nursery.start_soon(use_other)
            nursery.start_soon(produce, queue, 1000)
        assert times == {"good": 2.0, "other": 0.0}
        assert stuck.closed
        assert stuck.close_reason is CloseReason.LAGGED
        seen = [str(number) for number in range(stuck.statistics().backlog)]
        got = []
        with pytest.raises(SubscriberLaggedError):
            while True:
                event = await stuck.receive()
                assert isinstance(event, TaskArtifactUpdateEvent)
                got.append(event.artifact.text())
        assert got == seen
        assert 50 <= len(got) <= 100
        with pytest.raises(SubscriberLaggedError):
            stuck.receive_nowait()
        with pytest.raises(SubscriberLaggedError):
            await stuck.receive_batch()
        with pytest.raises(trio.BrokenResourceError):
            await stuck.receive()
        assert manager.statistics().lagged_subscribers == 1
        reasons = [call.subscriber.close_reason for call in hook.of("on_unsubscribe") if call.subscriber]
        assert reasons.count(CloseReason.LAGGED) == 1


@pytest.mark.requirement("S4-SLOW")
@within(100)
async def test_the_slot_of_a_reader_that_was_cut_is_free_at_once(autojump_clock: object) -> None:
    async with open_queue_manager(queue_size=2, lag_grace=1) as manager:
        child = await manager.create_or_tap("t")
        for _ in range(4):
            await manager.enqueue("t", artifact("t"))
        await trio.sleep(2)
        assert child.closed
        assert manager.active_subscriber_count("t") == 0
        await child.aclose()
        assert child.close_reason is CloseReason.LAGGED, "the first reason stays"


@pytest.mark.requirement("S4-SLOW")
@within(100)
async def test_all_that_are_full_share_one_wait(autojump_clock: object) -> None:
    async with open_queue_manager(queue_size=10, lag_grace=1) as manager:
        stuck = [await manager.create_or_tap("t") for _ in range(20)]
        good = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, queue, 100)
            assert await read_all(good) == texts(100)
        assert trio.current_time() == 1
        assert all(child.close_reason is CloseReason.LAGGED for child in stuck)
        assert manager.statistics().lagged_subscribers == 20


@pytest.mark.requirement("S4-SLOW")
@within(100)
async def test_a_reader_that_drains_while_another_is_waited_for_costs_nothing_more(autojump_clock: object) -> None:
    """The second has room, and takes nothing more, before the wait for the first is over."""
    async with open_queue_manager(queue_size=10, lag_grace=5) as manager:
        first, second = await manager.create_or_tap("t"), await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        for number in range(10):
            await queue.enqueue(artifact("t", str(number)))
        await queue.flush()
        queue.enqueue_nowait(artifact("t", "10"))
        await trio.testing.wait_all_tasks_blocked()
        assert len(await second.receive_batch()) == 10
        await trio.sleep(2)
        assert len(await first.receive_batch()) == 10
        await queue.flush()
        assert trio.current_time() == 2
        assert first.statistics().backlog == second.statistics().backlog == 1


@pytest.mark.requirement("S4-SLOW")
@within(100)
async def test_a_full_reader_is_waited_for_until_it_has_drained_to_half_its_bound(autojump_clock: object) -> None:
    async with open_queue_manager(queue_size=10, lag_grace=50) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        for number in range(11):
            await queue.enqueue(artifact("t", str(number)))
        await trio.testing.wait_all_tasks_blocked()
        assert child.statistics().backlog == 10
        for left in (9, 8, 7, 6):
            child.receive_nowait()
            await trio.testing.wait_all_tasks_blocked()
            assert child.statistics().backlog == left
        child.receive_nowait()
        await trio.testing.wait_all_tasks_blocked()
        assert child.statistics().backlog == 6


@pytest.mark.requirement("S4-SLOW")
@within(100)
async def test_without_a_lag_grace_a_full_reader_is_cut_at_once(autojump_clock: object) -> None:
    async with open_queue_manager(queue_size=3, lag_grace=0) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        for number in range(4):
            await queue.enqueue(artifact("t", str(number)))
        await queue.flush()
        assert trio.current_time() == 0
        assert child.close_reason is CloseReason.LAGGED
        assert [child.receive_nowait() for _ in range(3)]
        with pytest.raises(SubscriberLaggedError):
            child.receive_nowait()


@pytest.mark.requirement("S4-SLOW")
@pytest.mark.parametrize("immediate", [False, True])
@within(100)
async def test_a_full_reader_that_leaves_ends_the_wait_for_it(autojump_clock: object, immediate: bool) -> None:
    async with open_queue_manager(queue_size=3, lag_grace=50) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        for number in range(5):
            await queue.enqueue(artifact("t", str(number)))
        await trio.sleep(1)
        await child.aclose(immediate=immediate)
        await queue.flush()
        assert trio.current_time() == 1
        assert child.close_reason is CloseReason.CONSUMER


@pytest.mark.requirement("S4-SLOW", "S4-FINAL")
@within(100)
async def test_a_full_reader_that_drains_in_time_gets_the_terminal_event_and_its_end(autojump_clock: object) -> None:
    async with open_queue_manager(queue_size=4, lag_grace=5) as manager, trio.open_nursery() as nursery:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        nursery.start_soon(produce, queue, 4)
        await trio.sleep(1)
        assert await read_all(child) == texts(4)
        assert child.close_reason is CloseReason.FINAL


@pytest.mark.requirement("S4-SLOW")
@within(100)
async def test_a_reader_that_joins_while_another_is_waited_for_gets_each_event_once(autojump_clock: object) -> None:
    async with open_queue_manager(queue_size=2, lag_grace=5) as manager:
        await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, queue, 10)
            await trio.sleep(1)
            async with manager.subscribe("t") as child:
                got = []
                with pytest.raises(EventQueueClosedError):
                    while True:
                        got += [envelope.sequence for envelope in await child.receive_batch()]
        assert got == list(range(got[0], 12))


@pytest.mark.requirement("S4-BOUNDS")
@pytest.mark.parametrize("queue_size", [1, 2, 3, 7])
@within(1000)
async def test_a_child_never_holds_more_than_its_bound(autojump_clock: object, queue_size: int) -> None:
    async with open_queue_manager(queue_size=queue_size, lag_grace=10) as manager, trio.open_nursery() as nursery:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        nursery.start_soon(produce, queue, 60)
        got = 0
        most = 0
        while True:
            most = max(most, child.statistics().backlog)
            await trio.sleep(0.1)
            try:
                await child.receive()
            except EventQueueClosedError:
                break
            got += 1
        assert got == 61
        assert most <= queue_size
