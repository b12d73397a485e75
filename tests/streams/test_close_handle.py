"""What a hook can do with its handle."""

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason, StreamCloseHandle
from trio_a2a.streams import ChildQueue, EventQueueClosedError, open_queue_manager
from trio_a2a.streams.hooks import CallbackHook
from trio_a2a.testing import RecordingHook, artifact, status
from trio_a2a.types import TaskState


class Keeping(CallbackHook):
    """Keeps the handles that it was given."""

    def __init__(self) -> None:
        super().__init__(on_subscribe=self._keep)
        self.handles: list[StreamCloseHandle] = []

    async def _keep(self, task_id: str, handle: StreamCloseHandle) -> None:
        self.handles.append(handle)


@pytest.mark.requirement("S4-HANDLE", "B38", "B22")
@within(5)
async def test_close_streams_lets_backlogs_drain_and_then_ends_the_streams(autojump_clock: object) -> None:
    keeping = Keeping()
    async with open_queue_manager(hook=keeping) as manager:
        children = [await manager.create_or_tap("t") for _ in range(3)]
        first = artifact("t", "one")
        await manager.enqueue("t", first)
        queue = manager.get("t")
        assert queue is not None
        await queue.flush()
        await keeping.handles[0].close_streams()
        await manager.enqueue("t", artifact("t", "behind"))
        for child in children:
            assert [event async for event in child] == [first]
            assert child.close_reason is CloseReason.HANDLE
        assert manager.get("t") is queue, "the queue of an unfinished task stays"
        fresh = await manager.create_or_tap("t")
        assert not fresh.closed


@pytest.mark.requirement("S4-HANDLE", "S4-ABORT", "B23")
@within(5)
async def test_abort_streams_cancels_every_subscriptions_block_and_drops_backlogs(autojump_clock: object) -> None:
    keeping = Keeping()
    ended: list[ChildQueue] = []
    async with open_queue_manager(hook=keeping) as manager, trio.open_nursery() as nursery:
        await manager.enqueue("t", status("t"))

        async def subscribe() -> None:
            async with manager.subscribe("t") as child:
                await trio.sleep_forever()
            ended.append(child)

        for _ in range(3):
            nursery.start_soon(subscribe)
        await trio.testing.wait_all_tasks_blocked()
        plain = await manager.create_or_tap("t")
        await plain.enqueue(artifact("t"))
        await trio.testing.wait_all_tasks_blocked()
        await keeping.handles[0].abort_streams()
        await trio.testing.wait_all_tasks_blocked()
        assert len(ended) == 3, "an aborted block ends quietly"
        for child in (*ended, plain):
            assert child.close_reason is CloseReason.HANDLE
            assert [event async for event in child] == []


@pytest.mark.requirement("S4-HANDLE", "S4-ABORT")
@within(5)
async def test_an_abort_is_no_cancellation_for_what_is_around_the_block(autojump_clock: object) -> None:
    keeping = Keeping()
    async with open_queue_manager(hook=keeping) as manager:
        async with manager.subscribe("t"):
            await keeping.handles[0].abort_streams()
            await trio.sleep_forever()
        with trio.testing.assert_checkpoints():
            await trio.lowlevel.checkpoint()


@pytest.mark.requirement("S4-HANDLE", "D31")
@within(5)
async def test_close_subscriber_closes_that_one_only(autojump_clock: object) -> None:
    keeping = Keeping()
    async with open_queue_manager(hook=keeping) as manager:
        one, two = await manager.create_or_tap("t"), await manager.create_or_tap("t")
        other = await manager.create_or_tap("other")
        handle = keeping.handles[0]
        await handle.close_subscriber(two.id)
        assert two.close_reason is CloseReason.HANDLE
        assert not one.closed
        await handle.close_subscriber(two.id)
        await handle.close_subscriber(10**9)
        await handle.close_subscriber(other.id)
        assert not other.closed, "it is not of this task"
        assert handle.active_subscriber_count == 1
        assert handle.subscriber is not None
        assert handle.subscriber.id == one.id


@pytest.mark.requirement("S4-HANDLE", "B38")
@within(5)
async def test_closing_with_no_subscriber_does_nothing(autojump_clock: object) -> None:
    keeping = Keeping()
    async with open_queue_manager(hook=keeping) as manager:
        child = await manager.create_or_tap("t")
        await child.aclose()
        for _ in range(2):
            await keeping.handles[0].close_streams()
            await keeping.handles[0].abort_streams()
        assert child.close_reason is CloseReason.CONSUMER
        assert manager.get("t") is not None


@pytest.mark.requirement("S4-CLOSING-ATOMIC")
@within(60)
async def test_all_children_are_closed_before_the_first_hook_so_no_event_slips_between_two_of_them(
    autojump_clock: object,
) -> None:
    keeping = Keeping()
    states: list[list[bool]] = []
    children: list[ChildQueue] = []

    async def unsubscribed(task_id: str, handle: StreamCloseHandle) -> None:
        states.append([child.closed for child in children])
        await manager.enqueue("t", artifact("t", "slipping"))
        await trio.sleep(0.1)

    class Hook(Keeping):
        async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
            await unsubscribed(task_id, handle)

    keeping = Hook()
    async with open_queue_manager(hook=keeping) as manager:
        children += [await manager.create_or_tap("t") for _ in range(5)]
        for number in range(3):
            await manager.enqueue("t", artifact("t", str(number)))
        await trio.testing.wait_all_tasks_blocked()
        await keeping.handles[0].close_streams()
        assert states == [[True] * 5] * 5
        backlogs = {child.statistics().backlog for child in children}
        assert backlogs == {3}, "everyone has got the same events"


@pytest.mark.requirement("S4-CLOSING-ATOMIC", "S7-CHECKPOINTS")
@within(5)
async def test_the_methods_of_a_handle_are_checkpoints(autojump_clock: object) -> None:
    keeping = Keeping()
    async with open_queue_manager(hook=keeping) as manager:
        for name, arguments in (("close_streams", ()), ("abort_streams", ()), ("close_subscriber", (1,))):
            await manager.create_or_tap("t")
            for _ in range(2):
                with trio.testing.assert_checkpoints():
                    await getattr(keeping.handles[-1], name)(*arguments)


# ----------------------------------------------------------------------------------------------------------- start_soon


@pytest.mark.requirement("S4-START-SOON")
@within(60)
async def test_work_that_is_scheduled_runs_in_the_queues_nursery_and_can_close_later(autojump_clock: object) -> None:
    async def later(handle: StreamCloseHandle, seconds: float) -> None:
        await trio.sleep(seconds)
        await handle.close_streams()

    async def schedule(task_id: str, handle: StreamCloseHandle) -> None:
        handle.start_soon(later, handle, 7)

    async with open_queue_manager(hook=CallbackHook(on_subscribe=schedule)) as manager:
        child = await manager.create_or_tap("t")
        assert not child.closed
        assert [event async for event in child] == []
        assert trio.current_time() == 7
        assert child.close_reason is CloseReason.HANDLE


@pytest.mark.requirement("S4-START-SOON", "S4-HOOK-FAILURE", "D25")
@within(60)
async def test_scheduled_work_that_fails_is_a_contained_hook_failure(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ValueError("on purpose")

    async def schedule(task_id: str, handle: StreamCloseHandle) -> None:
        handle.start_soon(fail)

    async with open_queue_manager(hook=CallbackHook(on_subscribe=schedule)) as manager:
        child = await manager.create_or_tap("t")
        await trio.testing.wait_all_tasks_blocked()
        assert manager.statistics().hook_errors == 1
        await child.enqueue(artifact("t"))
        await child.receive()
    assert "on purpose" in caplog.text


@pytest.mark.requirement("S4-START-SOON", "S1-SCOPE")
@pytest.mark.parametrize("when", ["on_subscribe", "on_unsubscribe"])
@within(60)
async def test_scheduled_work_has_one_hook_timeout_to_finish_when_the_queue_ends(
    autojump_clock: object, when: str
) -> None:
    ended = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async def schedule(task_id: str, handle: StreamCloseHandle) -> None:
        handle.start_soon(work)

    before = trio.lowlevel.current_statistics().tasks_living
    async with open_queue_manager(hook=CallbackHook(**{when: schedule}), hook_timeout=3) as manager:
        inside = trio.lowlevel.current_statistics().tasks_living
        await manager.create_or_tap("t")
        await trio.sleep(10)
        await manager.close("t")
        assert ended == [13]
        assert trio.lowlevel.current_statistics().tasks_living == inside
    assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.requirement("S4-START-SOON", "S4-LAST-CHILD")
@within(60)
async def test_scheduled_work_does_not_keep_the_queue_of_a_finished_task(autojump_clock: object) -> None:
    async def schedule(task_id: str, handle: StreamCloseHandle) -> None:
        handle.start_soon(trio.sleep_forever)

    before = trio.lowlevel.current_statistics().tasks_living
    async with open_queue_manager(hook=CallbackHook(on_subscribe=schedule), hook_timeout=3) as manager:
        inside = trio.lowlevel.current_statistics().tasks_living
        child = await manager.create_or_tap("t")
        await child.enqueue(status("t", TaskState.COMPLETED))
        async for _ in child:
            pass
        await trio.testing.wait_all_tasks_blocked()
        assert manager.get("t") is None
        await trio.sleep(3.1)
        assert trio.lowlevel.current_statistics().tasks_living == inside
    assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.requirement("S4-HANDLE")
@within(5)
async def test_a_handle_says_whose_it_is(autojump_clock: object) -> None:
    keeping = Keeping()
    hook = RecordingHook(keeping)
    async with open_queue_manager(hook=hook) as manager:
        await manager.create_or_tap("t")
        assert repr(keeping.handles[0]) == "<StreamCloseHandle of 't', 1 subscribers>"


@pytest.mark.requirement("S4-FRESH", "S4-START-SOON")
@within(60)
async def test_on_unsubscribe_of_a_queue_that_had_a_bug_cannot_schedule_but_is_called(autojump_clock: object) -> None:
    failures = []

    async def schedule(task_id: str, handle: StreamCloseHandle) -> None:
        try:
            handle.start_soon(trio.sleep_forever)
        except EventQueueClosedError as refusal:
            failures.append(refusal)

    def bug(state: object) -> None:
        raise ZeroDivisionError

    async with open_queue_manager(hook=CallbackHook(on_unsubscribe=schedule)) as manager:
        await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        queue.enqueue_nowait(artifact("t"))
        queue._mark(bug)
        await trio.testing.wait_all_tasks_blocked()
        assert len(failures) == 1
