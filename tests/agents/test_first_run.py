"""The run for which a queue was made is in the queue's own task, and cannot be told from any other."""

import logging

import pytest
import trio
import trio.testing

from tests.agents.desk import open_desk, rest
from tests.deadline import within
from trio_a2a.abc import CloseReason
from trio_a2a.errors import InternalError, StoreError
from trio_a2a.streams.hooks import CallbackHook
from trio_a2a.testing import FlakyStore, RecordingHook, SlowStore, artifact, task
from trio_a2a.types import TaskState


async def completing(context, updater):
    await updater.complete("done")


@within(5)
async def test_a_task_that_ends_as_it_begins_is_one_commit_of_two_events(autojump_clock):
    store = FlakyStore()
    async with open_desk(completing, store=store) as desk:
        task = await desk.send("hello")
        assert store.commits == [(1, 2)]
        assert task.status.state is TaskState.COMPLETED
        assert [message.text() for message in task.history] == ["hello"]
        assert [envelope.sequence for envelope in await store.events(task.id, 0)] == [1, 2]
        assert desk.manager.statistics().queues == 0


@within(5)
async def test_its_stream_and_its_hook_see_the_task_and_its_end(autojump_clock):
    hook = RecordingHook()
    async with open_desk(completing, hook=hook) as desk:
        events = await desk.streamed("hello")
    assert [type(event).__name__ for event in events] == ["Task", "TaskStatusUpdateEvent"]
    assert hook.names == ["on_subscribe", "on_event", "on_event", "on_unsubscribe"]
    assert hook.events == events


@within(5)
async def test_an_agent_that_works_on_is_served_by_a_processor_beside_it(autojump_clock):
    """Events are distributed while the run goes on, not when it is over."""

    async def agent(context, updater):
        await updater.start_work()
        await go_on.wait()
        await updater.complete()

    go_on = trio.Event()
    async with open_desk(agent) as desk, desk.stream("hello") as stream:
        seen = [envelope.event for envelope in await stream.receive_batch()]
        assert [type(event).__name__ for event in seen] == ["Task", "TaskStatusUpdateEvent"]
        go_on.set()
        assert len(await rest(stream)) == 1


@within(30)
async def test_an_event_from_outside_is_processed_while_the_run_says_nothing(autojump_clock):
    async def agent(context, updater):
        task_ids.append(context.task_id)
        await trio.sleep(10)
        await updater.complete()

    task_ids: list[str] = []
    async with open_desk(agent) as desk, trio.open_nursery() as nursery:
        nursery.start_soon(desk.send, "hello")
        await trio.testing.wait_all_tasks_blocked()
        (task_id,) = task_ids
        async with desk.manager.subscribe(task_id) as child:
            await desk.manager.enqueue(task_id, task(task_id))
            await desk.manager.enqueue(task_id, artifact(task_id, "from outside"))
            assert trio.current_time() < 10
            assert (await child.receive()).id == task_id
            assert (await child.receive()).artifact.text() == "from outside"


@within(5)
async def test_an_end_that_is_not_stored_is_told_to_the_agent_and_to_the_caller(autojump_clock, caplog):
    async def agent(context, updater):
        with pytest.raises(StoreError):
            await updater.complete("done")
        failures.append("told")

    failures: list[str] = []
    store = FlakyStore(refuse=lambda change: True)
    async with open_desk(agent, store=store) as desk:
        with pytest.raises(InternalError):
            await desk.send("hello")
    assert failures == ["told"]


@within(5)
async def test_an_end_that_only_the_next_try_can_store_is_stored_then(autojump_clock, caplog):
    async def agent(context, updater):
        with pytest.raises(StoreError):
            await updater.complete("first")
        store.refuse = None
        await updater.complete("second")

    store = FlakyStore(refuse=lambda change: change.sequence == 2)
    async with open_desk(agent, store=store) as desk:
        task = await desk.send("hello")
    assert task.status.state is TaskState.COMPLETED
    assert task.status.message.text() == "second"
    assert [message.text() for message in task.history] == ["hello"]


@within(5)
async def test_a_task_of_the_agent_may_report_the_end(autojump_clock):
    """It is not the queue's own task, so it cannot be the processor."""

    async def agent(context, updater):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(updater.complete, "from within")

    async with open_desk(agent) as desk:
        task = await desk.send("hello")
        assert task.status.message.text() == "from within"


@within(5)
async def test_of_two_ends_at_once_one_wins(autojump_clock):
    async def agent(context, updater):
        async def end(method):
            try:
                await method("mine")
            except Exception as exc:
                errors.append(type(exc).__name__)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end, updater.complete)
            nursery.start_soon(end, updater.fail)

    errors: list[str] = []
    async with open_desk(agent) as desk:
        task = await desk.send("hello")
        assert task.status.state in {TaskState.COMPLETED, TaskState.FAILED}
    assert errors == ["TaskTerminalError"]


@within(5)
async def test_a_cancelled_report_was_not_made_and_can_be_made_again(autojump_clock):
    async def agent(context, updater):
        with trio.CancelScope() as scope:
            scope.cancel()
            await updater.complete("not made")
        await updater.complete("made")

    async with open_desk(agent) as desk:
        task = await desk.send("hello")
    assert task.status.message.text() == "made"
    assert [message.text() for message in task.history] == ["hello"]


async def _left_while_storing(store: SlowStore, seconds: float) -> str:
    """Leave the manager one second after a commit of so many has begun; return the task's id."""
    task_ids: list[str] = []

    async def agent(context, updater):
        task_ids.append(context.task_id)
        store.commit_seconds[context.task_id] = seconds
        await updater.complete("done")

    async with trio.open_nursery() as nursery, open_desk(agent, store=store) as desk:
        nursery.start_soon(_send_and_ignore, desk)
        await trio.sleep(1)
    store.commit_seconds.clear()
    return task_ids[0]


@within(30)
async def test_a_commit_that_has_begun_is_finished_when_the_manager_is_left(autojump_clock):
    store = SlowStore()
    stored = await store.get(await _left_while_storing(store, 2))
    assert trio.current_time() == pytest.approx(2, abs=0.1)
    assert stored.task.status.state is TaskState.COMPLETED


@within(30)
async def test_a_commit_that_takes_too_long_is_given_up_when_the_manager_is_left(autojump_clock, caplog):
    store = SlowStore()
    stored = await store.get(await _left_while_storing(store, 100))
    assert trio.current_time() == pytest.approx(6, abs=0.1)
    assert "gave up storing" in caplog.text
    assert stored is None


@within(5)
async def test_a_bug_ends_the_queue_and_does_not_pass_through_the_agent(autojump_clock, caplog):
    """What the agent catches must not be a fault of the library."""

    async def agent(context, updater):
        try:
            await updater.complete("done")
        except Exception as exc:
            caught.append(exc)
            raise

    def explode(*_args):
        raise ZeroDivisionError("a bug")

    caught: list[Exception] = []
    async with open_desk(agent) as desk:
        clock = desk.manager._clock
        desk.manager._clock = type("Clock", (), {"now": explode})()
        assert (await desk.send("hello")).status.state is TaskState.COMPLETED, "that was stored"
        desk.manager._clock = clock
        assert (await desk.send("again")).status.state is TaskState.COMPLETED
    assert caught == []
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "a bug" in caplog.text
    assert "the queue of task" in record.getMessage()


@within(30)
async def test_its_streams_are_closed_while_an_agent_that_shields_itself_still_runs(autojump_clock):
    async def agent(context, updater):
        task_ids.append(context.task_id)
        await updater.start_work()
        with trio.move_on_after(3, shield=True):
            await trio.sleep_forever()

    task_ids: list[str] = []
    async with open_desk(agent) as desk, trio.open_nursery() as nursery:
        nursery.start_soon(_send_and_ignore, desk)
        await trio.testing.wait_all_tasks_blocked()
        async with desk.manager.subscribe(task_ids[0]) as child:
            await child.receive()
            nursery.start_soon(desk.manager.close, task_ids[0])
            with pytest.raises(trio.EndOfChannel):
                await child.receive()
            assert child.close_reason is CloseReason.SHUTDOWN
            assert trio.current_time() < 1


@within(30)
async def test_a_hook_that_closes_the_streams_at_the_end_works_as_ever(autojump_clock):
    async def on_event(task_id, event, handle):
        counts.append(handle.active_subscriber_count)
        await handle.close_streams()

    counts: list[int] = []
    async with open_desk(completing, hook=CallbackHook(on_event=on_event)) as desk:
        events = await desk.streamed("hello")
    assert [type(event).__name__ for event in events] == ["Task"]
    assert counts == [1]


async def _send_and_ignore(desk):
    try:
        await desk.send("hello")
    except Exception:
        logging.getLogger("tests").debug("the send was ended")
