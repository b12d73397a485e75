"""Joining a stream: the snapshot, then exactly what comes behind it."""

import random

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason, Envelope, StreamCloseHandle
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.streams import ChildQueue, EventQueueClosedError, QueueManager, open_queue_manager
from trio_a2a.streams.hooks import CallbackHook
from trio_a2a.testing import FlakyStore, RecordingHook, SlowStore, artifact, message, status
from trio_a2a.types import Task, TaskState


async def numbers(child: ChildQueue) -> list[int]:
    """Read to the end; the events' numbers."""
    got: list[int] = []
    with pytest.raises(EventQueueClosedError):
        while True:
            got += [envelope.sequence for envelope in await child.receive_batch()]
    return got


async def waiting(child: ChildQueue) -> list[Envelope]:
    """What is there now."""
    return list(await child.receive_batch()) if child.statistics().backlog else []


async def fill(manager: QueueManager, count: int, task_id: str = "t") -> None:
    """Give the task ``count`` events and let them through."""
    for number in range(count):
        await manager.enqueue(task_id, artifact(task_id, str(number), append=number > 0))
    queue = manager.get(task_id)
    assert queue is not None
    await queue.flush()


# ------------------------------------------------------------------------------------------------------------ joining


@pytest.mark.requirement("I2-JOINING", "S1-NO-LOSS", "S3-JOINING", "S3-SEQUENCE", "B8", "D9")
@pytest.mark.parametrize("seed", range(5))
@within(600)
async def test_sixty_readers_that_join_while_events_flow_each_see_the_snapshot_and_then_all_that_follows(
    autojump_clock: object, seed: int
) -> None:
    """The snapshot after event k, then k+1, k+2 ... to the end; none lost, none twice."""
    total = 300
    rng = random.Random(seed)
    delays = [rng.uniform(0, 3) for _ in range(60)]
    pace = [rng.choice([0, 0, 0.005, 0.04]) for _ in range(total)]
    joined_at: list[int] = []

    async def read(manager: QueueManager, delay: float) -> None:
        await trio.sleep(delay)
        async with manager.subscribe("t") as child:
            first = await child.receive_batch(1)
            at = first[0].sequence
            assert isinstance(first[0].event, Task)
            parts = [part.text for entry in first[0].event.artifacts for part in entry.parts]
            assert parts == [str(number) for number in range(1, at)], "the snapshot is the task after event k"
            if rng.random() < 0.5:
                await trio.sleep(rng.uniform(0, 0.5))
            got = await numbers(child)
            assert child.close_reason is CloseReason.FINAL
        assert got == list(range(at + 1, total + 1))
        joined_at.append(at)

    store = SlowStore(commit_seconds={"t": 0.01})
    async with open_queue_manager(store, lag_grace=30) as manager, trio.open_nursery() as nursery:
        await manager.enqueue("t", status("t"))
        queue = manager.get("t")
        assert queue is not None
        await queue.flush()
        for delay in delays:
            nursery.start_soon(read, manager, delay)
        for number in range(1, total - 1):
            await queue.enqueue(artifact("t", str(number), append=number > 1))
            await trio.sleep(pace[number])
        # The end comes when the last of them has joined.
        await trio.sleep(max(0, max(delays) - trio.current_time()) + 0.01)
        await queue.enqueue(status("t", TaskState.COMPLETED))
    assert len(joined_at) == 60
    assert len(set(joined_at)) > 20, "they joined at many different events"


@pytest.mark.requirement("S3-JOINING")
@within(5)
async def test_joining_is_one_block_without_a_checkpoint(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        await fill(manager, 3)
        queue = manager.get("t")
        assert queue is not None
        with trio.testing.assert_no_checkpoints():
            child = queue._register(snapshot=True)
        (envelope,) = await child.receive_batch()
        assert envelope.sequence == 3
        await child.aclose()


@pytest.mark.requirement("S4-SUBSCRIBE-BLOCK", "S3-SNAPSHOT-NUMBER", "S3-SEQUENCE")
@within(5)
async def test_a_subscription_begins_with_the_task_as_it_is_under_the_number_of_its_last_event(
    autojump_clock: object,
) -> None:
    async with open_queue_manager() as manager:
        await fill(manager, 3)
        async with manager.subscribe("t") as child:
            await child.enqueue(artifact("t", "new", append=True))
            await trio.testing.wait_all_tasks_blocked()
            snapshot, event = await child.receive_batch()
            assert isinstance(snapshot.event, Task)
            assert snapshot.sequence == 3
            assert event.sequence == 4
            stored = await manager.store.get("t")
            assert stored is not None
            assert stored.sequence == 4
            assert len(snapshot.event.artifacts[0].parts) == 3


@pytest.mark.requirement("S4-SUBSCRIBE-BLOCK")
@within(5)
async def test_a_subscription_to_a_task_that_is_not_stored_has_no_snapshot(autojump_clock: object) -> None:
    async with open_queue_manager() as manager, manager.subscribe("new") as child:
        assert child.statistics().backlog == 0
        first = artifact("new", "x")
        await child.enqueue(first)
        assert await child.receive() is first


@pytest.mark.requirement("S4-SUBSCRIBE-BLOCK")
@within(5)
async def test_a_subscription_can_do_without_a_snapshot(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        await fill(manager, 3)
        async with manager.subscribe("t", snapshot=False) as child:
            assert child.statistics().backlog == 0


@pytest.mark.requirement("S4-SUBSCRIBE-BLOCK", "S4-UNSUBSCRIBE", "D7")
@within(5)
async def test_leaving_the_block_closes_the_child_and_drops_its_backlog(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        await fill(manager, 1)
        async with manager.subscribe("t") as child:
            assert manager.active_subscriber_count("t") == 1
        assert child.closed
        assert child.close_reason is CloseReason.CONSUMER
        assert child.statistics().backlog == 0
        assert manager.active_subscriber_count("t") == 0


@pytest.mark.requirement("S4-SUBSCRIBE-BLOCK", "D7")
@within(5)
async def test_an_error_in_the_block_closes_the_child_and_leaves_as_it_is(autojump_clock: object) -> None:
    hook = RecordingHook()
    async with open_queue_manager(hook=hook) as manager:
        with pytest.raises(KeyError, match="mine"):
            async with manager.subscribe("t") as child:
                raise KeyError("mine")
        assert child.closed
        assert len(hook.of("on_unsubscribe")) == 1


@pytest.mark.requirement("S3-SEQUENCE", "S3-UNNUMBERED")
@within(5)
async def test_stored_events_are_numbered_from_one_and_a_direct_message_has_number_zero(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        for event in (status("t"), artifact("t"), message("hi"), artifact("t"), status("t", TaskState.COMPLETED)):
            await child.enqueue(event)
        assert await numbers(child) == [1, 2, 0, 3, 4]
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.sequence == 4


@pytest.mark.requirement("S3-CHANNELS", "B8")
@within(5)
async def test_every_subscriber_has_a_channel_of_its_own_and_sees_one_total_order(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        children = [await manager.create_or_tap("t") for _ in range(10)]
        for number in range(100):
            await children[number % 10].enqueue(artifact("t", str(number)))
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        for child in children:
            assert await numbers(child) == list(range(1, 102))


# --------------------------------------------------------------------------------------------------- after: continuing


@pytest.mark.requirement("S4-AFTER", "S3-SEQUENCE", "S1-NO-LOSS")
@pytest.mark.parametrize("after", range(6))
@within(5)
async def test_a_reader_that_names_the_last_event_it_saw_gets_the_rest(autojump_clock: object, after: int) -> None:
    async with open_queue_manager() as manager:
        await fill(manager, 5)
        async with manager.subscribe("t", after=after) as child:
            await child.enqueue(status("t", TaskState.COMPLETED))
            assert await numbers(child) == list(range(after + 1, 7))


@pytest.mark.requirement("S4-AFTER")
@pytest.mark.parametrize("after", [6, 1000, -1])
@within(5)
async def test_a_number_that_the_task_does_not_have_gives_a_snapshot(autojump_clock: object, after: int) -> None:
    async with open_queue_manager() as manager:
        await fill(manager, 5)
        for snapshot in (True, False):
            async with manager.subscribe("t", after=after, snapshot=snapshot) as child:
                (envelope,) = await waiting(child)
                assert envelope.sequence == 5
                assert isinstance(envelope.event, Task)


@pytest.mark.requirement("S4-AFTER")
@within(60)
async def test_events_that_the_log_no_longer_has_give_a_snapshot(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        queue_events = 1200
        await manager.enqueue("t", status("t"))
        queue = manager.get("t")
        assert queue is not None
        for number in range(1, queue_events):
            await queue.enqueue(artifact("t", str(number), append=number > 1))
        await queue.flush()
        async with manager.subscribe("t", after=100) as child:
            assert [e.sequence for e in await waiting(child)] == [1200]
        async with manager.subscribe("t", after=200) as child:
            got = []
            while child.statistics().backlog:
                got += [e.sequence for e in await child.receive_batch()]
            assert got == list(range(201, 1201))


@pytest.mark.requirement("S4-AFTER")
@within(5)
async def test_after_a_task_that_is_not_stored_nothing_comes_first(autojump_clock: object) -> None:
    async with open_queue_manager() as manager, manager.subscribe("new", after=7) as child:
        assert child.statistics().backlog == 0


@pytest.mark.requirement("S4-AFTER")
@within(5)
async def test_a_store_without_a_log_gives_a_snapshot(autojump_clock: object) -> None:
    inner = InMemoryTaskStore()

    class PlainStore:
        get = staticmethod(inner.get)
        commit = staticmethod(inner.commit)
        delete = staticmethod(inner.delete)
        list = staticmethod(inner.list)

    async with open_queue_manager(PlainStore()) as manager:
        await fill(manager, 3)
        async with manager.subscribe("t", after=1) as child:
            assert [e.sequence for e in await waiting(child)] == [3]
        async with manager.subscribe("t", after=3) as child:
            assert child.statistics().backlog == 0, "there is nothing that it has not seen"


@pytest.mark.requirement("S4-AFTER", "S1-NO-LOSS")
@within(60)
async def test_events_that_come_while_the_log_is_read_come_behind_what_was_missed(autojump_clock: object) -> None:
    class SlowLog:
        def __init__(self) -> None:
            self.inner = InMemoryTaskStore()
            self.get, self.commit = self.inner.get, self.inner.commit
            self.delete, self.list = self.inner.delete, self.inner.list

        async def events(self, task_id: str, after: int) -> object:
            await trio.sleep(1)
            return await self.inner.events(task_id, after)

    async with open_queue_manager(SlowLog()) as manager:
        await fill(manager, 5)
        queue = manager.get("t")
        assert queue is not None
        async with trio.open_nursery() as nursery:

            async def produce() -> None:
                await trio.sleep(0.5)
                await queue.enqueue(artifact("t", "meanwhile", append=True))
                await trio.sleep(1)
                await queue.enqueue(status("t", TaskState.COMPLETED))

            nursery.start_soon(produce)
            async with manager.subscribe("t", after=2) as child:
                assert await numbers(child) == [3, 4, 5, 6, 7]


@pytest.mark.requirement("S4-AFTER")
@within(60)
async def test_a_log_that_cannot_be_read_leaves_no_subscriber(autojump_clock: object) -> None:
    class BrokenLog(SlowLogBase):
        async def events(self, task_id: str, after: int) -> object:
            raise FlakyStore().error

    hook = RecordingHook()
    async with open_queue_manager(BrokenLog(), hook=hook) as manager:
        await fill(manager, 5)
        with pytest.raises(type(FlakyStore().error)):
            async with manager.subscribe("t", after=2):
                raise AssertionError("it was entered")
        assert manager.active_subscriber_count("t") == 0
        assert hook.names == ["on_subscribe", "on_unsubscribe"]


class SlowLogBase:
    def __init__(self) -> None:
        inner = InMemoryTaskStore()
        self.get, self.commit, self.delete, self.list = inner.get, inner.commit, inner.delete, inner.list


@pytest.mark.requirement("S4-BOUNDS", "S4-AFTER")
@pytest.mark.parametrize("queue_size", [1, 2, 10])
@within(60)
async def test_what_is_put_in_front_of_a_stream_does_not_count_against_its_bound(
    autojump_clock: object, queue_size: int
) -> None:
    """Else a reader that comes back would be cut off for what it has missed."""
    async with open_queue_manager(queue_size=queue_size) as manager:
        await fill(manager, 30)
        async with manager.subscribe("t", after=0) as late, manager.subscribe("t") as new:
            for number in range(queue_size):
                await manager.enqueue("t", artifact("t", f"new {number}", append=True))
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(10)
            assert late.statistics().backlog == 30 + queue_size
            assert new.statistics().backlog == 1 + queue_size
            assert not late.closed
            assert not new.closed


# ------------------------------------------------------------------------------------------------- while it is entered


@pytest.mark.requirement("S4-SUBSCRIBE", "B38", "I2-HOOK-CLOSES")
@pytest.mark.parametrize("method", ["close_streams", "abort_streams"])
@within(5)
async def test_a_hook_that_closes_the_streams_in_on_subscribe_gives_a_closed_child(
    autojump_clock: object, method: str
) -> None:
    async def close(task_id: str, handle: StreamCloseHandle) -> None:
        await getattr(handle, method)()

    async with open_queue_manager(hook=CallbackHook(on_subscribe=close)) as manager:
        await manager.enqueue("t", status("t"))
        for opening in (manager.create_or_tap, manager.tap):
            child = await opening("t")
            assert child is not None
            assert child.closed
            assert child.close_reason is CloseReason.HANDLE
            with pytest.raises(EventQueueClosedError) as ended:
                await child.receive()
            assert ended.value.reason is CloseReason.HANDLE
            with pytest.raises(EventQueueClosedError):
                child.receive_nowait()


@pytest.mark.requirement("S4-SUBSCRIBE", "B38", "I2-HOOK-CLOSES")
@within(5)
async def test_a_subscription_that_is_closed_in_on_subscribe_yields_the_snapshot_and_ends(
    autojump_clock: object,
) -> None:
    async def close(task_id: str, handle: StreamCloseHandle) -> None:
        await handle.close_streams()

    async with open_queue_manager(hook=CallbackHook(on_subscribe=close)) as manager:
        await fill(manager, 2)
        async with manager.subscribe("t") as child:
            assert await numbers(child) == [2]
        async with manager.subscribe("t", after=0) as child:
            assert await numbers(child) == [1, 2]


@pytest.mark.requirement("S4-ABORT-ENTERING", "S4-ABORT")
@pytest.mark.parametrize("after", [None, 0])
@within(5)
async def test_an_abort_while_the_block_is_entered_cancels_it_when_its_body_starts(
    autojump_clock: object, after: int | None
) -> None:
    async def abort(task_id: str, handle: StreamCloseHandle) -> None:
        await handle.abort_streams()

    reached = []
    async with open_queue_manager(hook=CallbackHook(on_subscribe=abort)) as manager:
        await fill(manager, 2)
        async with manager.subscribe("t", after=after) as child:
            reached.append("body")
            assert child.statistics().backlog == 0
            await trio.lowlevel.checkpoint()
            reached.append("behind its first checkpoint")
        reached.append("behind the block")
        assert child.close_reason is CloseReason.HANDLE
    assert reached == ["body", "behind the block"]


@pytest.mark.requirement("S4-SUBSCRIBE", "S4-SUBSCRIBE-CANCELLED")
@within(60)
async def test_a_caller_that_is_cancelled_in_on_subscribe_leaves_no_child_and_on_unsubscribe_runs(
    autojump_clock: object,
) -> None:
    async def hang(task_id: str, handle: StreamCloseHandle) -> None:
        await trio.sleep(3)

    hook = RecordingHook(CallbackHook(on_subscribe=hang))
    async with open_queue_manager(hook=hook) as manager:
        await fill(manager, 1)
        queue = manager.get("t")
        assert queue is not None

        async def subscribe() -> None:
            async with manager.subscribe("t"):
                raise AssertionError("it was entered")

        openings = (lambda: manager.create_or_tap("t"), lambda: manager.tap("t"), queue.tap, subscribe)
        for number, opening in enumerate(openings, 1):
            with trio.move_on_after(1) as scope:
                await opening()
            assert scope.cancelled_caught
            assert manager.active_subscriber_count("t") == 0
            assert hook.names == ["on_subscribe", "on_unsubscribe"] * number
        infos = [call.subscriber for call in hook.of("on_unsubscribe")]
        assert {info.close_reason for info in infos if info} == {CloseReason.CONSUMER}


@pytest.mark.requirement("S4-SUBSCRIBE", "B34", "B37", "S4-EVENT-OVERLAP")
@within(60)
async def test_events_reach_a_subscriber_whose_on_subscribe_is_still_running(autojump_clock: object) -> None:
    async def hang(task_id: str, handle: StreamCloseHandle) -> None:
        await trio.sleep(3)

    hook = RecordingHook(CallbackHook(on_subscribe=hang))
    async with open_queue_manager(hook=hook) as manager, trio.open_nursery() as nursery:
        await fill(manager, 1)

        async def join() -> None:
            async with manager.subscribe("t") as child:
                assert trio.current_time() == 3
                assert await numbers(child) == [1, 2, 3]

        nursery.start_soon(join)
        await trio.sleep(1)
        await manager.enqueue("t", artifact("t"))
        await trio.sleep(1)
        assert hook.names == ["on_subscribe", "on_event"], "on_event ran before on_subscribe was through"
        await trio.sleep(2)
        await manager.enqueue("t", status("t", TaskState.COMPLETED))


# ------------------------------------------------------------------------------------------------------------ encoding


@pytest.mark.requirement("S3-ENCODED-ONCE")
@within(5)
async def test_an_event_is_encoded_once_per_encoding_whatever_the_number_of_readers(autojump_clock: object) -> None:
    calls: list[str] = []

    def first(event: object) -> bytes:
        calls.append("first")
        return repr(event).encode()

    def second(event: object) -> bytes:
        calls.append("second")
        return b"2"

    async with open_queue_manager() as manager:
        children = [await manager.create_or_tap("t") for _ in range(20)]
        event = artifact("t", "x")
        await manager.enqueue("t", event)
        for child in children:
            (envelope,) = await child.receive_batch()
            assert envelope.encoded(first) == repr(event).encode()
            assert envelope.encoded(second) == b"2"
        assert calls == ["first", "second"]
