"""The only writer of a task: order, batches, one commit and one wake-up."""

from collections.abc import Sequence

import pytest
import trio
import trio.abc
import trio.testing

from tests.deadline import within
from trio_a2a.abc import Envelope, StoredTask, TaskChange
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.streams import ChildQueue, MainQueue, QueueManager, open_queue_manager
from trio_a2a.testing import FlakyStore, RecordingHook, SlowStore, artifact, message, status
from trio_a2a.types import Task, TaskState


async def live(manager: QueueManager, task_id: str = "t") -> tuple[MainQueue, ChildQueue]:
    child = await manager.create_or_tap(task_id)
    queue = manager.get(task_id)
    assert queue is not None
    return queue, child


@pytest.mark.requirement("S3-PIPELINE", "B8", "S1-NO-LOSS")
@within(60)
async def test_nothing_is_visible_before_it_is_stored(autojump_clock: object) -> None:
    store = SlowStore(commit_seconds={"t": 3})
    async with open_queue_manager(store) as manager:
        queue, child = await live(manager)
        await queue.enqueue(artifact("t"))
        await trio.sleep(2.9)
        assert child.statistics().backlog == 0
        assert queue.statistics().sequence == 0
        async with manager.subscribe("t") as late:
            assert late.statistics().backlog == 0, "no snapshot of what is not stored"
            await trio.sleep(0.2)
            assert child.statistics().backlog == 1
            assert late.statistics().backlog == 1
        assert queue.statistics().sequence == 1


@pytest.mark.requirement("S3-BATCH")
@within(60)
async def test_what_is_waiting_is_one_commit_in_order(autojump_clock: object) -> None:
    store = SlowStore(commit_seconds={"t": 1})
    async with open_queue_manager(store) as manager:
        queue, _ = await live(manager)
        queue.enqueue_nowait(artifact("t", "first"))
        await trio.testing.wait_all_tasks_blocked()
        for number in range(50):
            queue.enqueue_nowait(artifact("t", str(number), artifact_id=str(number)))
        await queue.flush()
        assert store.commits == [(1,), tuple(range(2, 52))]
        assert trio.current_time() == 2


@pytest.mark.requirement("S3-BATCH")
@within(60)
async def test_a_reader_wakes_once_for_a_batch(autojump_clock: object) -> None:
    """Counted with an instrument, not timed."""

    class Steps(trio.abc.Instrument):
        def __init__(self) -> None:
            self.of: dict[trio.lowlevel.Task, int] = {}

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.of[task] = self.of.get(task, 0) + 1

    got: list[Envelope] = []
    readers: list[trio.lowlevel.Task] = []

    async def read(child: ChildQueue) -> None:
        readers.append(trio.lowlevel.current_task())
        while len(got) < 100:
            got.extend(await child.receive_batch())

    async with open_queue_manager() as manager, trio.open_nursery() as nursery:
        queue, child = await live(manager)
        nursery.start_soon(read, child)
        await trio.testing.wait_all_tasks_blocked()
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        for number in range(100):
            queue.enqueue_nowait(artifact("t", str(number)))
        await queue.flush()
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(steps)
        assert len(got) == 100
        assert steps.of[readers[0]] == 1


@pytest.mark.requirement("S3-BATCH")
@within(60)
async def test_a_producer_that_awaits_each_enqueue_fills_batches_too(autojump_clock: object) -> None:
    store = FlakyStore()
    async with open_queue_manager(store) as manager:
        queue, _ = await live(manager)
        for number in range(100):
            await queue.enqueue(artifact("t", str(number)))
        await queue.flush()
        assert len(store.commits) < 20
        assert [sequence for commit in store.commits for sequence in commit] == list(range(1, 101))


@pytest.mark.requirement("S3-BATCH")
@within(60)
async def test_a_lone_event_waits_for_nothing(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        queue, child = await live(manager)
        await queue.enqueue(artifact("t"))
        for _ in range(6):
            await trio.lowlevel.checkpoint()
        assert child.statistics().backlog == 1


@pytest.mark.requirement("S3-HOOKED-BATCH")
@within(60)
async def test_a_hook_with_an_on_event_sees_a_batch_as_one_commit_and_each_event_singly(autojump_clock: object) -> None:
    hook = RecordingHook()
    store = FlakyStore()
    async with open_queue_manager(store, hook=hook) as manager:
        queue, _ = await live(manager)
        events = [artifact("t", str(number)) for number in range(5)]
        for event in events:
            queue.enqueue_nowait(event)
        await queue.flush()
        assert store.commits == [(1, 2, 3, 4, 5)]
        assert hook.events == events


@pytest.mark.requirement("S3-BATCH-RETRY", "B9")
@pytest.mark.parametrize("bad", [1, 3, 5])
@within(60)
async def test_a_commit_that_fails_as_a_batch_is_retried_event_by_event_so_a_bad_one_fails_alone(
    autojump_clock: object, bad: int
) -> None:
    store = FlakyStore(refuse=lambda change: change.event == events[bad - 1])
    events = [artifact("t", str(number), artifact_id=str(number)) for number in range(1, 6)]
    async with open_queue_manager(store) as manager:
        queue, child = await live(manager)
        for event in events:
            queue.enqueue_nowait(event)
        with pytest.raises(type(store.error)):
            await queue.flush()
        stored = await store.get("t")
        assert stored is not None
        assert [entry.text() for entry in stored.task.artifacts] == [str(n) for n in range(1, 6) if n != bad]
        assert stored.sequence == 4
        assert child.statistics().backlog == bad - 1


@pytest.mark.requirement("S3-BATCH-RETRY", "B9")
@within(60)
async def test_an_event_that_failed_alone_is_not_tried_again(autojump_clock: object) -> None:
    store = FlakyStore(refuse=lambda change: True)
    async with open_queue_manager(store) as manager:
        queue, _ = await live(manager)
        await queue.enqueue(artifact("t"))
        with pytest.raises(type(store.error)):
            await queue.flush()
        assert store.commits == [(1,)]


@pytest.mark.requirement("S3-PIPELINE", "S4-TERMINAL")
@within(60)
async def test_a_batch_ends_behind_a_terminal_event_and_the_rest_is_judged_as_late(autojump_clock: object) -> None:
    store = FlakyStore(InMemoryTaskStore(grace_period=0))
    async with open_queue_manager(store) as manager:
        queue, child = await live(manager)
        for event in (
            artifact("t", "one"),
            status("t", TaskState.COMPLETED),
            artifact("t", "late"),
            artifact("t", "late too"),
        ):
            queue.enqueue_nowait(event)
        await queue.flush()
        assert store.commits == [(1, 2)]
        assert queue.statistics().late_events_dropped == 2
        assert len([event async for event in child]) == 2


@pytest.mark.requirement("S3-PIPELINE")
@within(60)
async def test_direct_messages_travel_in_order_with_the_events_around_them(autojump_clock: object) -> None:
    store = FlakyStore()
    async with open_queue_manager(store) as manager:
        queue, child = await live(manager)
        events = [message("a"), artifact("t", "1"), message("b"), artifact("t", "2"), message("c")]
        for event in events:
            queue.enqueue_nowait(event)
        await queue.flush()
        batch = await child.receive_batch()
        assert [envelope.event for envelope in batch] == events
        assert [envelope.sequence for envelope in batch] == [0, 1, 0, 2, 0]
        assert store.commits == [(1, 2)]


@pytest.mark.requirement("S1-ISOLATION", "I2-SLOW-STORE", "D1")
@within(600)
async def test_a_store_that_takes_ten_seconds_for_one_task_delays_no_other_task(autojump_clock: object) -> None:
    store = SlowStore(commit_seconds={"slow": 10}, get_seconds={"slow to load": 10})
    async with open_queue_manager(store) as manager, trio.open_nursery() as nursery:
        nursery.start_soon(manager.create_or_tap, "slow to load")
        slow, _ = await live(manager, "slow")
        await slow.enqueue(artifact("slow"))
        for number in range(20):
            task_id = f"good {number}"
            async with manager.subscribe(task_id) as child:
                await child.enqueue(status(task_id))
                await child.receive()
                await child.enqueue(status(task_id, TaskState.COMPLETED))
                assert len([event async for event in child]) == 1
        assert trio.current_time() == 0
        await slow.flush()
        assert trio.current_time() == 10


@pytest.mark.requirement("S3-STATE", "S1-FLAT-COST", "S4-TASK-CHANGE")
@within(60)
async def test_a_store_that_asks_for_no_snapshot_makes_none_be_built(autojump_clock: object) -> None:
    built = 0
    taken: list[TaskChange] = []

    class LogOnly:
        async def get(self, task_id: str) -> StoredTask | None:
            return None

        async def commit(self, changes: Sequence[TaskChange]) -> None:
            taken.extend(changes)

        async def delete(self, task_id: str) -> None: ...

        async def list(self, query: object, *, owner: str, after: object = None) -> tuple[Sequence[Task], int]:
            return (), 0

    async with open_queue_manager(LogOnly()) as manager:
        queue, _ = await live(manager)
        for number in range(50):
            await queue.enqueue(artifact("t", str(number), append=number > 0))
        await queue.flush()
        state = queue._processor.state
        assert state is not None
        assert state._task is None, "nobody asked"
    for number, change in enumerate(taken):
        snapshot = change.snapshot()
        built += 1
        assert snapshot is change.snapshot(), "it is kept"
        assert len(snapshot.artifacts[0].parts) == number + 1, "each is the state after its own event"
        assert (change.task_id, change.sequence, change.owner, change.tenant) == ("t", number + 1, "", "")
    assert built == 50


@pytest.mark.requirement("S1-FLAT-COST")
@within(60)
async def test_an_event_costs_as_many_scheduler_steps_at_the_end_of_a_long_task_as_at_its_start(
    autojump_clock: object,
) -> None:
    class Steps(trio.abc.Instrument):
        count = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.count += 1

    async with open_queue_manager() as manager:
        queue, child = await live(manager)
        await queue.enqueue(artifact("t", "0"))
        costs = []
        for _ in range(10):
            steps = Steps()
            trio.lowlevel.add_instrument(steps)
            for number in range(500):
                await queue.enqueue(artifact("t", str(number), append=True))
                if number % 100 == 0:
                    await child.receive_batch(1000)
            await queue.flush()
            trio.lowlevel.remove_instrument(steps)
            costs.append(steps.count)
            await child.receive_batch(10_000)
        assert max(costs) <= min(costs) * 1.2


@pytest.mark.requirement("S3-FOLLOW-UP", "B19", "D13", "D14")
@within(60)
async def test_the_message_that_began_a_run_is_stored_in_the_change_of_its_first_event(autojump_clock: object) -> None:
    store = FlakyStore()
    async with open_queue_manager(store) as manager:
        queue, child = await live(manager)
        first, follow_up = message("first"), message("follow-up")
        for said, event in (
            (first, status("t", TaskState.INPUT_REQUIRED, "which one?")),
            (follow_up, artifact("t", "the blue one")),
        ):
            await queue._accept_report(event, said, None)
            await queue.flush()
        await queue.enqueue(status("t", TaskState.COMPLETED, "done"))
        await queue.flush()
        assert store.commits == [(1,), (2,), (3,)], "the messages have no number of their own"
        stored = await store.get("t")
        assert stored is not None
        assert [entry.text() for entry in stored.task.history] == ["first", "which one?", "follow-up"]
        assert len([event async for event in child]) == 3, "and are no events"


@pytest.mark.requirement("S3-FOLLOW-UP")
@within(60)
async def test_a_message_whose_first_event_could_not_be_stored_is_not_stored_either(autojump_clock: object) -> None:
    store = FlakyStore(refuse=lambda change: change.sequence == 2)
    async with open_queue_manager(store) as manager:
        queue, _ = await live(manager)
        await queue.enqueue(status("t", TaskState.INPUT_REQUIRED, "which one?"))
        await queue.flush()
        before = await store.get("t")
        await queue._accept_report(artifact("t"), message("lost"), None)
        with pytest.raises(type(store.error)):
            await queue.flush()
        assert await store.get("t") == before
