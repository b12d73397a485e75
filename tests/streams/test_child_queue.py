"""A subscriber's channel."""

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason
from trio_a2a.streams import ChildQueue, ChildQueueStatistics, EventQueueClosedError, open_queue_manager
from trio_a2a.testing import RecordingHook, artifact, status
from trio_a2a.types import TaskArtifactUpdateEvent, TaskState


async def rest(child: ChildQueue) -> list[str]:
    """Read to the end; artifacts by their text, others by their kind."""
    return [e.artifact.text() if isinstance(e, TaskArtifactUpdateEvent) else type(e).__name__ async for e in child]


# -------------------------------------------------------------------------------------------------------- receiving


@pytest.mark.requirement("S4-CHILD", "B1")
@within(5)
async def test_a_child_is_a_trio_receive_channel_that_ends_like_one(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        assert isinstance(child, trio.abc.ReceiveChannel)
        await manager.enqueue("t", artifact("t", "one"))
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        assert await rest(child) == ["one", "TaskStatusUpdateEvent"]
        with pytest.raises(trio.EndOfChannel):
            await child.receive()
        with pytest.raises(trio.EndOfChannel):
            child.receive_nowait()


@pytest.mark.requirement("S4-CHILD", "B46")
@within(5)
async def test_receive_nowait_takes_what_is_there_and_never_waits(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        with pytest.raises(trio.WouldBlock):
            child.receive_nowait()
        first, second = artifact("t", "one"), artifact("t", "two")
        await child.enqueue(first)
        await child.enqueue(second)
        await trio.testing.wait_all_tasks_blocked()
        assert child.statistics() == ChildQueueStatistics(backlog=2, received=0)
        assert child.receive_nowait() is first
        assert child.statistics() == ChildQueueStatistics(backlog=1, received=1)
        assert child.receive_nowait() is second
        with pytest.raises(trio.WouldBlock):
            child.receive_nowait()
        await child.aclose()
        with pytest.raises(EventQueueClosedError):
            child.receive_nowait()


@pytest.mark.requirement("S4-RECEIVE-BATCH", "S3-BATCH")
@within(5)
async def test_receive_batch_takes_all_that_is_there_with_numbers(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        for number in range(10):
            queue.enqueue_nowait(artifact("t", str(number)))
        await queue.flush()
        batch = await child.receive_batch(limit=4)
        assert [envelope.sequence for envelope in batch] == [1, 2, 3, 4]
        batch = await child.receive_batch()
        assert [envelope.sequence for envelope in batch] == [5, 6, 7, 8, 9, 10]
        assert child.statistics() == ChildQueueStatistics(backlog=0, received=10)


@pytest.mark.requirement("S4-RECEIVE-BATCH")
@within(5)
async def test_receive_batch_waits_for_one_and_ends_with_the_stream(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        got: list[int] = []

        async def read() -> None:
            with pytest.raises(EventQueueClosedError) as ended:
                while True:
                    got.extend(e.sequence for e in await child.receive_batch())
            assert ended.value.reason is CloseReason.FINAL

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            assert got == []
            await child.enqueue(artifact("t"))
            await trio.testing.wait_all_tasks_blocked()
            assert got == [1]
            await child.enqueue(status("t", TaskState.FAILED))
        assert got == [1, 2]


@pytest.mark.requirement("S4-RECEIVE-BATCH")
@pytest.mark.parametrize("limit", [0, -1])
@within(5)
async def test_receive_batch_refuses_a_limit_that_takes_nothing(autojump_clock: object, limit: int) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        with pytest.raises(ValueError, match="at least 1"):
            await child.receive_batch(limit)


@pytest.mark.requirement("S4-CHILD")
@within(5)
async def test_singles_and_batches_can_be_mixed_without_loss(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        for number in range(9):
            queue.enqueue_nowait(artifact("t", str(number)))
        await queue.flush()
        got: list[str] = []
        for _ in range(3):
            event = child.receive_nowait()
            assert isinstance(event, TaskArtifactUpdateEvent)
            got.append(event.artifact.text())
            event = await child.receive()
            assert isinstance(event, TaskArtifactUpdateEvent)
            got.append(event.artifact.text())
            (envelope,) = await child.receive_batch(1)
            assert isinstance(envelope.event, TaskArtifactUpdateEvent)
            got.append(envelope.event.artifact.text())
        assert got == [str(number) for number in range(9)]


@pytest.mark.requirement("S4-CHILD")
@within(5)
async def test_a_second_reader_of_one_child_is_told_to_tap_for_itself(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rest, child)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError, match="tap once for each reader"):
                await child.receive()
            with pytest.raises(trio.BusyResourceError):
                await child.receive_batch()
            await child.enqueue(status("t", TaskState.COMPLETED))


@pytest.mark.requirement("S4-CHILD")
@within(5)
async def test_a_cancelled_receive_takes_nothing(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        with trio.move_on_after(1) as scope:
            await child.receive()
        assert scope.cancelled_caught
        await child.enqueue(artifact("t", "one"))
        await child.enqueue(artifact("t", "two"))
        await trio.testing.wait_all_tasks_blocked()
        for receive in (child.receive, child.receive_batch):
            with trio.CancelScope() as scope:
                scope.cancel()
                await receive()
            assert scope.cancelled_caught
        assert child.statistics().backlog == 2
        await child.aclose()
        assert await rest(child) == ["one", "two"]


@pytest.mark.requirement("S4-CHILD")
@within(5)
async def test_a_batch_and_a_cancellation_that_come_together_lose_nothing(autojump_clock: object) -> None:
    """Whichever comes first, the event is received or stays."""
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        got: list[object] = []

        async def read(scope: trio.CancelScope) -> None:
            with scope:
                got.append(await child.receive())

        for number in range(6):
            scope = trio.CancelScope()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read, scope)
                await trio.testing.wait_all_tasks_blocked()
                queue = manager.get("t")
                assert queue is not None
                queue.enqueue_nowait(artifact("t", str(number)))
                for _ in range(number):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        await child.aclose()
        left = [event async for event in child]
        assert [e.artifact.text() for e in (*got, *left) if isinstance(e, TaskArtifactUpdateEvent)] == list("012345")


@pytest.mark.requirement("S7-CHECKPOINTS")
@within(5)
async def test_every_async_method_of_a_child_is_a_checkpoint(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        with trio.testing.assert_checkpoints():
            await child.enqueue(artifact("t"))
        await child.enqueue(artifact("t"))
        await child.enqueue(artifact("t"))
        await trio.testing.wait_all_tasks_blocked()
        with trio.testing.assert_checkpoints():
            await child.receive()
        with trio.testing.assert_checkpoints():
            await child.receive_batch(1)
        with trio.testing.assert_checkpoints():
            await child.receive_batch()
        with trio.testing.assert_checkpoints():
            await child.aclose()
        with trio.testing.assert_checkpoints():
            await child.aclose(immediate=True)


# ---------------------------------------------------------------------------------------------------------- closing


@pytest.mark.requirement("B22", "S4-CHILD-ACLOSE")
@within(5)
async def test_a_graceful_close_keeps_the_backlog(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(artifact("t", "one"))
        await child.enqueue(artifact("t", "two"))
        queue = manager.get("t")
        assert queue is not None
        await queue.flush()
        assert not child.closed
        assert child.close_reason is None
        await child.aclose()
        assert child.closed
        assert child.close_reason is CloseReason.CONSUMER
        await queue.enqueue(artifact("t", "too late for it"))
        assert await rest(child) == ["one", "two"]


@pytest.mark.requirement("B23", "S4-CHILD-ACLOSE")
@within(5)
async def test_an_immediate_close_drops_the_backlog(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(artifact("t"))
        await trio.testing.wait_all_tasks_blocked()
        await child.aclose(immediate=True)
        assert child.statistics() == ChildQueueStatistics(backlog=0, received=0)
        assert await rest(child) == []


@pytest.mark.requirement("B24", "S4-CHILD-ACLOSE", "S4-UNSUBSCRIBE")
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
@within(5)
async def test_closing_twice_unsubscribes_once_and_an_immediate_one_drops_the_backlog(
    autojump_clock: object, first: bool, second: bool
) -> None:
    hook = RecordingHook()
    async with open_queue_manager(hook=hook) as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(artifact("t", "one"))
        await trio.testing.wait_all_tasks_blocked()
        await child.aclose(immediate=first)
        await child.aclose(immediate=second)
        assert await rest(child) == ([] if first or second else ["one"])
        assert len(hook.of("on_unsubscribe")) == 1
        assert child.close_reason is CloseReason.CONSUMER


@pytest.mark.requirement("S4-CHILD-ACLOSE")
@within(5)
async def test_leaving_the_block_of_a_child_closes_it(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        async with await manager.create_or_tap("t") as child:
            assert manager.active_subscriber_count("t") == 1
        assert child.closed
        assert manager.active_subscriber_count("t") == 0


@pytest.mark.requirement("S4-UNSUBSCRIBE", "S4-CHILD-ACLOSE", "D7")
@within(5)
async def test_a_close_that_is_cancelled_closes_all_the_same(autojump_clock: object) -> None:
    hook = RecordingHook()
    async with open_queue_manager(hook=hook) as manager:
        child = await manager.create_or_tap("t")
        with trio.CancelScope() as scope:
            scope.cancel()
            await child.aclose()
        assert scope.cancelled_caught
        assert child.closed
        assert len(hook.of("on_unsubscribe")) == 1
        assert manager.active_subscriber_count("t") == 0


@pytest.mark.requirement("S4-CHILD-ACLOSE", "D7")
@within(5)
async def test_closing_a_child_wakes_its_reader(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        for immediate in (False, True):
            child = await manager.create_or_tap("t")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(rest, child)
                await trio.testing.wait_all_tasks_blocked()
                await child.aclose(immediate=immediate)


@pytest.mark.requirement("B23", "S4-ABORT")
@within(5)
async def test_nothing_comes_out_of_a_child_that_was_dropped_while_its_reader_woke(autojump_clock: object) -> None:
    """The batch is in the reader's hand, but its task has not run again when the backlog is dropped."""
    async with open_queue_manager() as manager:
        for passes in range(8):
            child = await manager.create_or_tap("t")
            got: list[object] = []

            async def read(child: ChildQueue = child, got: list[object] = got) -> None:
                got.extend([event async for event in child])

            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked()
                queue = manager.get("t")
                assert queue is not None
                queue.enqueue_nowait(artifact("t"))
                for _ in range(passes):
                    await trio.lowlevel.checkpoint()
                received = child.statistics().received
                await queue._close_children((child,), CloseReason.HANDLE, immediate=True)
            assert child.statistics() == ChildQueueStatistics(backlog=0, received=received)
            assert len(got) == received


@pytest.mark.requirement("S4-CHILD-ENQUEUE", "B3")
@within(5)
async def test_a_childs_enqueue_goes_to_the_main_queue_and_so_to_everyone(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        one, two = await manager.create_or_tap("t"), await manager.create_or_tap("t")
        await one.enqueue(artifact("t", "x"))
        await one.enqueue(status("t", TaskState.COMPLETED))
        assert await rest(one) == await rest(two) == ["x", "TaskStatusUpdateEvent"]
        with pytest.raises(EventQueueClosedError):
            await one.enqueue(artifact("t", "y"))


@pytest.mark.requirement("S4-CHILD")
@within(5)
async def test_a_child_says_what_it_is(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        assert child.task_id == "t"
        assert isinstance(child.id, int)
        assert "'t'" in repr(child)
        assert "open" in repr(child)
        await child.aclose()
        assert "CONSUMER" in repr(child)
