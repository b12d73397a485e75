"""Queues that nobody uses."""

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason
from trio_a2a.streams import (
    open_queue_manager,
)
from trio_a2a.testing import RecordingHook, SlowStore, artifact, status

# ---------------------------------------------------------------------------------------------------------------- idle


@pytest.mark.requirement("S4-IDLE", "I2-IDLE")
@within(100_000)
async def test_ten_thousand_idle_tasks_cost_no_nursery_and_come_back_on_tap(autojump_clock: object) -> None:
    count = 10_000
    async with open_queue_manager(idle_timeout=300) as manager:
        before = trio.lowlevel.current_statistics().tasks_living
        for number in range(count):
            child = await manager.create_or_tap(str(number))
            queue = manager.get(str(number))
            assert queue is not None
            queue.enqueue_nowait(status(str(number)))
            await child.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert manager.statistics().queues == count
        await trio.sleep(299)
        assert manager.statistics().queues == count
        await trio.sleep(2)
        await trio.testing.wait_all_tasks_blocked()
        assert manager.statistics().queues == 0
        assert trio.lowlevel.current_statistics().tasks_living == before
        for number in range(0, count, 1000):
            child = await manager.tap(str(number))  # type: ignore[assignment]
            assert child is not None
            queue = manager.get(str(number))
            assert queue is not None
            assert queue.statistics().sequence == 1
            await child.aclose()


@pytest.mark.requirement("S4-IDLE")
@within(10_000)
async def test_a_queue_that_is_used_again_is_idle_from_then_on(autojump_clock: object) -> None:
    async with open_queue_manager(idle_timeout=10) as manager:
        child = await manager.create_or_tap("t")
        await child.aclose()
        await trio.sleep(9)
        await manager.enqueue("t", artifact("t"))
        await trio.sleep(9)
        assert manager.get("t") is not None, "an event came"
        child = await manager.create_or_tap("t")
        await trio.sleep(100)
        assert manager.get("t") is not None, "a subscriber is there"
        await child.aclose()
        await trio.sleep(9.9)
        assert manager.get("t") is not None
        await trio.sleep(0.2)
        assert manager.get("t") is None


@pytest.mark.requirement("S4-IDLE")
@within(10_000)
async def test_a_queue_that_is_storing_is_not_idle(autojump_clock: object) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 50}), idle_timeout=10) as manager:
        await manager.enqueue("t", artifact("t"))
        await trio.sleep(49)
        assert manager.get("t") is not None
        await trio.sleep(10)
        assert manager.get("t") is not None
        await trio.sleep(2)
        assert manager.get("t") is None
        assert await manager.store.get("t") is not None


@pytest.mark.requirement("S4-IDLE")
@within(10_000_000)
async def test_without_an_idle_timeout_queues_stay(autojump_clock: object) -> None:
    async with open_queue_manager(idle_timeout=None) as manager:
        child = await manager.create_or_tap("t")
        await child.aclose()
        await trio.sleep(80_000)
        assert manager.get("t") is not None


@pytest.mark.requirement("S4-IDLE")
@within(10_000)
async def test_queues_that_fall_idle_one_after_the_other_retire_one_after_the_other(autojump_clock: object) -> None:
    async with open_queue_manager(idle_timeout=10) as manager:
        for number in range(20):
            child = await manager.create_or_tap(str(number))
            await child.aclose()
            await trio.sleep(1)
        await trio.sleep(0.5)
        left = []
        for _ in range(12):
            left.append(manager.statistics().queues)
            await trio.sleep(1)
        assert left == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0]


@pytest.mark.requirement("S4-IDLE", "S4-UNSUBSCRIBE")
@within(60)
async def test_a_retired_queue_has_closed_nobody(autojump_clock: object) -> None:
    hook = RecordingHook()
    async with open_queue_manager(hook=hook, idle_timeout=1) as manager:
        child = await manager.create_or_tap("t")
        await child.aclose()
        await trio.sleep(2)
        assert hook.names == ["on_subscribe", "on_unsubscribe"]
        assert child.close_reason is CloseReason.CONSUMER
