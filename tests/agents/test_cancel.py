"""Cancelling a task: what the agent is asked, what is reported, and when it is refused."""

import pytest
import trio
import trio.testing

from tests.agents.desk import Stream, open_desk, rest, start, state_of, states, texts
from tests.deadline import within
from trio_a2a.errors import InternalError, TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from trio_a2a.server import Limits
from trio_a2a.testing import FlakyStore, SlowStore
from trio_a2a.types import TaskState


async def work_for_ever(_context, updater):
    await updater.start_work()
    await trio.sleep_forever()


class Cancellable:
    """Works for ever, and does what it is told when it is cancelled."""

    def __init__(self, on_cancel, execute=work_for_ever):
        self._on_cancel = on_cancel
        self._execute = execute
        self.contexts = []
        self.ended = trio.Event()

    async def execute(self, context, updater):
        try:
            await self._execute(context, updater)
        finally:
            self.ended.set()

    async def cancel(self, context, updater):
        self.contexts.append(context)
        await self._on_cancel(context, updater)


async def nothing(_context, _updater):
    pass


# --------------------------------------------------------------------------------------------- without an own `cancel`


@pytest.mark.requirement("S5-CANCEL", "D10")
@within(5)
async def test_a_cancelled_task_is_canceled_and_its_run_is_ended(autojump_clock):
    ended = []

    async def agent(_context, updater):
        await updater.start_work("on it")
        try:
            await trio.sleep_forever()
        finally:
            ended.append(True)

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        await trio.testing.wait_all_tasks_blocked()
        task = await desk.cancel(task.id)
        assert ended
        assert task.status.state is TaskState.CANCELED
        assert task.status.timestamp is not None
        assert texts(task.history) == ["hello", "on it"]
        assert await desk.get(task.id) == task
        assert desk.manager.statistics().queues == 0


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_the_callers_and_readers_of_a_cancelled_run_see_the_cancellation(autojump_clock):
    async with open_desk(work_for_ever) as desk, trio.open_nursery() as nursery:
        blocked = start(nursery, desk.send)
        await trio.testing.wait_all_tasks_blocked()
        (task_id,) = desk.manager._queues
        reading = start(nursery, desk.streamed, task_id=task_id)  # waits for its turn
        async with desk.subscribe(task_id) as stream:
            await trio.testing.wait_all_tasks_blocked()
            await desk.cancel(task_id)
            assert states(await rest(stream)) == ["WORKING", "CANCELED"]
        assert (await blocked.result()).status.state is TaskState.CANCELED
        with pytest.raises(UnsupportedOperationError):
            await reading.result()


@pytest.mark.requirement("S5-CANCEL-LAST-WORDS")
@within(5)
async def test_a_cancelled_agent_may_still_say_something_under_a_shield(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(1, shield=True):
                await updater.add_artifact("what I had")
                await updater.cancel("as you like")

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        await trio.testing.wait_all_tasks_blocked()
        task = await desk.cancel(task.id)
    assert task.status.state is TaskState.CANCELED
    assert task.status.message.text() == "as you like"
    assert task.artifacts[0].text() == "what I had"


@pytest.mark.requirement("S5-CANCEL")
@pytest.mark.parametrize("method", ["complete", "fail", "reject"])
@within(5)
async def test_where_the_cancelled_agent_reports_another_end_the_task_is_not_cancelable(autojump_clock, method):
    async def agent(_context, updater):
        await updater.start_work()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(1, shield=True):
                await getattr(updater, method)("just in time")

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(TaskNotCancelableError):
            await desk.cancel(task.id)
        task = await desk.get(task.id)
    assert task.status.message.text() == "just in time"


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_an_agent_that_raises_when_it_is_cancelled_is_canceled_all_the_same(autojump_clock, caplog):
    async def agent(_context, updater):
        await updater.start_work()
        try:
            await trio.sleep_forever()
        finally:
            raise LookupError("swordfish")

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        await trio.testing.wait_all_tasks_blocked()
        task = await desk.cancel(task.id)
    assert task.status.state is TaskState.CANCELED
    assert task.status.message is None
    assert "swordfish" in caplog.text


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_an_agent_that_ends_quietly_when_it_is_cancelled_is_canceled(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
            await trio.sleep_forever()

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        await trio.testing.wait_all_tasks_blocked()
        before = trio.current_time()
        assert (await desk.cancel(task.id)).status.state is TaskState.CANCELED
        assert trio.current_time() - before == 1.0


@pytest.mark.requirement("S5-CANCEL-NO-RUN")
@within(5)
async def test_a_task_without_a_run_is_canceled_at_once(autojump_clock):
    async def agent(_context, updater):
        await updater.require_input("what?")

    async with open_desk(agent) as desk:
        task = await desk.send()
        before = trio.current_time()
        async with desk.subscribe(task.id) as stream:
            canceled = await desk.cancel(task.id)
            assert states(await rest(stream)) == ["INPUT_REQUIRED", "CANCELED"]
        assert trio.current_time() == before
    assert canceled.status.state is TaskState.CANCELED
    assert texts(canceled.history) == ["hello", "what?"]


@pytest.mark.requirement("S5-CANCEL-NO-RUN")
@within(5)
async def test_a_run_that_waits_for_its_turn_is_cancelled_with_the_others(autojump_clock):
    async with open_desk(work_for_ever) as desk, trio.open_nursery() as nursery:
        task = await desk.send(immediately=True)
        waiting = [start(nursery, desk.send, text, task_id=task.id) for text in ("two", "three")]
        await trio.testing.wait_all_tasks_blocked()
        before = trio.current_time()
        assert (await desk.cancel(task.id)).status.state is TaskState.CANCELED
        assert trio.current_time() == before
        for caller in waiting:
            with pytest.raises(UnsupportedOperationError):
                await caller.result()
        assert texts((await desk.get(task.id)).history) == ["hello"]


# ------------------------------------------------------------------------------------------------ with an own `cancel`


@pytest.mark.requirement("S5-CANCEL", "S5-CANCEL-CONTEXT")
@within(5)
async def test_the_agent_s_cancel_is_awaited_before_its_run_is_cancelled(autojump_clock):
    order = []

    async def execute(_context, updater):
        await updater.start_work()
        try:
            await trio.sleep_forever()
        finally:
            order.append("run cancelled")

    async def cancel(context, updater):
        order.append("asked")
        await trio.sleep(1)
        await updater.add_artifact("what I had")
        order.append("agreed")

    agent = Cancellable(cancel, execute)
    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        await trio.testing.wait_all_tasks_blocked()
        canceled = await desk.cancel(task.id, metadata={"why": "changed my mind"})
    assert order == ["asked", "agreed", "run cancelled"]
    assert canceled.status.state is TaskState.CANCELED
    assert canceled.artifacts[0].text() == "what I had"
    (context,) = agent.contexts
    assert context.message is None
    assert context.text() == ""
    assert (context.task_id, context.context_id) == (task.id, task.context_id)
    assert context.task.status.state is TaskState.WORKING
    assert context.metadata == {"why": "changed my mind"}


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_a_terminal_state_that_the_agent_s_cancel_reports_is_the_task_s(autojump_clock):
    async def cancel(_context, updater):
        await updater.cancel("as you wish")

    async with open_desk(Cancellable(cancel)) as desk:
        task = await desk.send(immediately=True)
        async with desk.subscribe(task.id) as stream:
            canceled = await desk.cancel(task.id)
            assert states(await rest(stream))[-1] == "CANCELED"
    assert canceled.status.message.text() == "as you wish"


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_a_cancel_that_completes_the_task_is_answered_not_cancelable(autojump_clock):
    async def cancel(_context, updater):
        await updater.complete("it was done anyway")

    agent = Cancellable(cancel)
    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        with pytest.raises(TaskNotCancelableError):
            await desk.cancel(task.id)
        assert (await desk.get(task.id)).status.state is TaskState.COMPLETED
        await agent.ended.wait()


@pytest.mark.requirement("S5-CANCEL-RAISES")
@pytest.mark.parametrize("error", [LookupError("swordfish"), TaskNotCancelableError("Too late"), InternalError("x")])
@within(5)
async def test_a_cancel_that_raises_leaves_the_task_unchanged_and_its_run_goes_on(autojump_clock, caplog, error):
    async def cancel(_context, _updater):
        raise error

    async def execute(_context, updater):
        await updater.start_work()
        await trio.sleep(1)
        await updater.complete()

    async with open_desk(Cancellable(cancel, execute)) as desk:
        task = await desk.send(immediately=True)
        await trio.testing.wait_all_tasks_blocked()
        before = await desk.get(task.id)
        with pytest.raises(TaskNotCancelableError) as caught:
            await desk.cancel(task.id)
        assert "swordfish" not in caught.value.message
        assert await desk.get(task.id) == before
        await trio.sleep(2)
        assert (await desk.get(task.id)).status.state is TaskState.COMPLETED


@pytest.mark.requirement("S5-CANCEL-TIMEOUT")
@within(30)
async def test_a_cancel_that_overruns_is_not_cancelable_and_the_run_goes_on(autojump_clock):
    async def cancel(_context, _updater):
        await trio.sleep_forever()

    async def execute(_context, updater):
        await updater.start_work()
        await trio.sleep(20)
        await updater.complete()

    async with open_desk(Cancellable(cancel, execute)) as desk:
        task = await desk.send(immediately=True)
        before = trio.current_time()
        with pytest.raises(TaskNotCancelableError):
            await desk.cancel(task.id)
        assert trio.current_time() - before == 10.0
        assert (await desk.get(task.id)).status.state is TaskState.WORKING
        await trio.sleep(15)
        assert (await desk.get(task.id)).status.state is TaskState.COMPLETED


@pytest.mark.requirement("S5-CANCEL-TIMEOUT")
@within(30)
async def test_a_cancel_whose_own_nursery_fails_at_its_deadline_is_contained(autojump_clock, caplog):
    async def fail_when_cancelled():
        try:
            await trio.sleep_forever()
        finally:
            raise LookupError

    async def cancel(_context, _updater):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(fail_when_cancelled)

    async with open_desk(Cancellable(cancel)) as desk:
        task = await desk.send(immediately=True)
        with pytest.raises(TaskNotCancelableError):
            await desk.cancel(task.id)
        assert (await desk.get(task.id)).status.state is TaskState.WORKING
        assert desk.manager.get(task.id) is not None
    assert {record.name for record in caplog.records} == {"trio_a2a.agents"}


@pytest.mark.requirement("S5-CANCEL-TIMEOUT")
@within(30)
async def test_an_agent_that_shields_itself_makes_the_cancel_overrun_and_is_canceled_when_it_ends(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 15):
            await trio.sleep_forever()

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        await trio.testing.wait_all_tasks_blocked()
        before = trio.current_time()
        with pytest.raises(TaskNotCancelableError):
            await desk.cancel(task.id)
        assert trio.current_time() - before == 10.0
        assert (await desk.get(task.id)).status.state is TaskState.WORKING
        async with desk.subscribe(task.id) as stream:
            assert states(await rest(stream)) == ["WORKING", "CANCELED"]
        assert trio.current_time() - before == 15.0


@pytest.mark.requirement("S5-CANCEL-TIMEOUT")
@within(30)
async def test_the_time_for_a_cancel_is_the_limit_s(autojump_clock):
    async def cancel(_context, _updater):
        await trio.sleep_forever()

    async with open_desk(Cancellable(cancel), limits=Limits(cancel_timeout=3)) as desk:
        task = await desk.send(immediately=True)
        before = trio.current_time()
        with pytest.raises(TaskNotCancelableError):
            await desk.cancel(task.id)
        assert trio.current_time() - before == 3.0


# --------------------------------------------------------------------------------------------- several, and the others


@pytest.mark.requirement("S5-CANCEL-SERIALISED")
@within(5)
async def test_cancels_are_serialised_and_the_second_finds_the_task_over(autojump_clock):
    running = 0

    async def cancel(_context, _updater):
        nonlocal running
        assert running == 0
        running += 1
        await trio.sleep(1)
        running -= 1

    agent = Cancellable(cancel)
    async with open_desk(agent) as desk, trio.open_nursery() as nursery:
        task = await desk.send(immediately=True)
        callers = [start(nursery, desk.cancel, task.id) for _ in range(3)]
        for caller in callers:
            await caller.done.wait()
        errors = [caller.error for caller in callers if caller.error is not None]
        assert len(errors) == 2
        assert all(isinstance(error, TaskNotCancelableError) for error in errors)
    assert len(agent.contexts) == 1


@pytest.mark.requirement("S5-CANCEL-SERIALISED")
@within(5)
async def test_after_a_cancel_that_failed_the_next_one_is_tried(autojump_clock, caplog):
    tries = []

    async def cancel(_context, _updater):
        tries.append(True)
        if len(tries) == 1:
            raise LookupError

    async with open_desk(Cancellable(cancel)) as desk:
        task = await desk.send(immediately=True)
        with pytest.raises(TaskNotCancelableError):
            await desk.cancel(task.id)
        assert (await desk.cancel(task.id)).status.state is TaskState.CANCELED


@pytest.mark.requirement("S5-CANCEL")
@pytest.mark.parametrize("method", ["complete", "fail", "cancel", "reject"])
@within(5)
async def test_a_task_that_is_over_cannot_be_cancelled(autojump_clock, method):
    async def agent(_context, updater):
        await getattr(updater, method)()

    async with open_desk(agent) as desk:
        task = await desk.send()
        for _ in range(2):
            with pytest.raises(TaskNotCancelableError) as caught:
                await desk.cancel(task.id)
            assert caught.value.metadata == {"taskId": task.id, "state": task.status.state.value}
        assert await desk.get(task.id) == task


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_a_task_that_ends_while_the_agent_is_asked_cannot_be_cancelled_any_more(autojump_clock):
    async def execute(_context, updater):
        await updater.start_work()
        await trio.sleep(1)
        await updater.complete("made it")

    async def cancel(_context, _updater):
        await trio.sleep(2)

    async with open_desk(Cancellable(cancel, execute)) as desk:
        task = await desk.send(immediately=True)
        with pytest.raises(TaskNotCancelableError):
            await desk.cancel(task.id)
        assert (await desk.get(task.id)).status.message.text() == "made it"


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_an_unknown_task_cannot_be_cancelled(autojump_clock):
    async with open_desk(work_for_ever) as desk:
        with pytest.raises(TaskNotFoundError):
            await desk.cancel("no-such-task")
        assert desk.manager.statistics().queues == 0


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_a_caller_of_cancel_that_goes_away_does_not_stop_the_cancellation(autojump_clock):
    async def cancel(_context, _updater):
        await trio.sleep(2)

    async with open_desk(Cancellable(cancel)) as desk:
        task = await desk.send(immediately=True)
        with trio.move_on_after(1) as scope:
            await desk.cancel(task.id)
        assert scope.cancelled_caught
        await trio.sleep(2)
        assert (await desk.get(task.id)).status.state is TaskState.CANCELED
        assert desk.manager.statistics().queues == 0


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_a_message_that_comes_while_a_task_is_being_cancelled_is_refused(autojump_clock):
    async def cancel(_context, _updater):
        await trio.sleep(1)

    async with open_desk(Cancellable(cancel)) as desk, trio.open_nursery() as nursery:
        task = await desk.send(immediately=True)
        cancelling = start(nursery, desk.cancel, task.id)
        await trio.testing.wait_all_tasks_blocked()
        message = start(nursery, desk.send, "wait", task_id=task.id)
        assert (await cancelling.result()).status.state is TaskState.CANCELED
        with pytest.raises(UnsupportedOperationError):
            await message.result()


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_a_cancellation_that_cannot_be_stored_is_an_internal_error(autojump_clock, caplog):
    store = FlakyStore()

    async def agent(_context, updater):
        await updater.require_input()

    async with open_desk(agent, store=store) as desk:
        task = await desk.send()
        store.refuse = lambda _: True
        with pytest.raises(InternalError, match="could not be stored"):
            await desk.cancel(task.id)
        store.refuse = None
        assert await desk.get(task.id) == task
        assert (await desk.cancel(task.id)).status.state is TaskState.CANCELED


@pytest.mark.requirement("S5-CANCEL")
@within(5)
async def test_an_end_from_outside_that_is_underway_wins_over_the_cancellation(autojump_clock):
    store = SlowStore()

    async def agent(_context, updater):
        await updater.require_input()

    async with open_desk(agent, store=store) as desk, trio.open_nursery() as nursery:
        task = await desk.send()
        store.commit_seconds[task.id] = 1.0
        completing = start(nursery, desk.operations.updater(task.id).complete)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(TaskNotCancelableError):
            await desk.cancel(task.id)
        await completing.result()
        assert (await desk.get(task.id)).status.state is TaskState.COMPLETED


@within(20)
async def test_a_cancellation_that_is_underway_when_the_server_ends_is_told(autojump_clock, caplog):
    async def cancel(_context, _updater):
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with open_desk(Cancellable(cancel)) as desk:
            task = await desk.send(immediately=True)
            cancelling = start(nursery, desk.cancel, task.id)
            await trio.testing.wait_all_tasks_blocked()
            store = desk.manager.store
        with pytest.raises(TaskNotCancelableError):
            await cancelling.result()
    assert (await store.get(task.id)).task.status.state is TaskState.WORKING
    assert not caplog.records


@pytest.mark.requirement("S5-CANCEL", "S5-STREAM-END")
@within(5)
async def test_the_stream_of_a_cancelled_run_ends_with_the_cancellation(autojump_clock):
    async with open_desk(work_for_ever) as desk, desk.stream() as sent:
        stream = Stream(sent)
        task = await stream.next()
        assert state_of(await stream.next()) == "WORKING"
        await desk.cancel(task.id)
        assert state_of(await stream.next()) == "CANCELED"
        with pytest.raises(trio.EndOfChannel):
            await stream.next()
