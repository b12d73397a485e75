"""One message, one run: whom it answers, when, and what becomes of the task however the run ends."""

import logging

import pytest
import trio
import trio.testing

from tests.agents.desk import Stream, open_desk, rest, start, state_of, states, texts
from tests.deadline import within
from trio_a2a.agents.runner import AGENT_FAILED
from trio_a2a.errors import (
    ContentTypeNotSupportedError,
    InternalError,
    InvalidAgentResponseError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from trio_a2a.streams import EventQueueClosedError
from trio_a2a.streams.hooks import NoOpHook
from trio_a2a.testing import FlakyStore, RecordingHook, ScriptedAgent, SlowStore, artifact
from trio_a2a.types import Message, Task, TaskState


async def ask(_context, updater):
    await updater.require_input("what else?")


async def finish(_context, updater):
    await updater.complete("done")


# ------------------------------------------------------------------------------------------- runs and their callers


@pytest.mark.requirement("S5-RUN-OWN-SCOPE", "B59")
@within(5)
async def test_a_reader_that_goes_away_ends_its_stream_and_the_agent_goes_on(autojump_clock):
    go_on = trio.Event()

    async def agent(_context, updater):
        await updater.start_work()
        await go_on.wait()
        await updater.complete("all the same")

    async with open_desk(agent) as desk:
        async with desk.stream() as sent:
            task = await Stream(sent).next()
        assert desk.manager.active_subscriber_count(task.id) == 0
        go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (await desk.get(task.id)).status.message.text() == "all the same"


@pytest.mark.requirement("S5-RUN-OWN-SCOPE")
@within(5)
async def test_a_blocked_caller_that_goes_away_does_not_end_the_agent(autojump_clock):
    ids = []

    async def agent(context, updater):
        ids.append(context.task_id)
        await updater.start_work()
        await trio.sleep(2)
        await updater.complete()

    async with open_desk(agent) as desk:
        with trio.move_on_after(1) as scope:
            await desk.send()
        assert scope.cancelled_caught
        await trio.sleep(2)
        assert (await desk.get(ids[0])).status.state is TaskState.COMPLETED


@pytest.mark.requirement("S5-RUN-OWN-SCOPE")
@within(5)
async def test_a_reader_that_goes_away_while_its_message_waits_for_its_turn_does_not_take_it_back(autojump_clock):
    async def slow(_context, updater):
        await updater.start_work()
        await trio.sleep(2)
        await updater.require_input()

    async with open_desk(ScriptedAgent(by_text={"slow": slow, "finish": finish})) as desk:
        task = await desk.send("slow", immediately=True)
        with trio.move_on_after(1):
            async with desk.stream("finish", task_id=task.id) as stream:
                await stream.receive_batch()
        await trio.sleep(2)
        task = await desk.get(task.id)
        assert task.status.state is TaskState.COMPLETED
        assert "finish" in texts(task.history)
        assert desk.manager.statistics().subscribers == 0


@pytest.mark.requirement("S5-RUN-FIFO", "D11")
@within(5)
async def test_runs_of_one_task_go_one_at_a_time_first_in_first_out_and_each_caller_is_answered_by_its_own(
    autojump_clock,
):
    running = 0

    async def agent(context, updater):
        nonlocal running
        assert running == 0, "two runs of one task at a time"
        running += 1
        await updater.start_work()
        await trio.sleep(1)
        running -= 1
        await updater.require_input(f"answer to {context.text()}")

    async with open_desk(agent) as desk:
        task = await desk.send("first")
        async with trio.open_nursery() as nursery:
            callers = []
            for text in ("a", "b", "c"):
                callers.append(start(nursery, desk.send, text, task_id=task.id))
                await trio.testing.wait_all_tasks_blocked()
            answers = [await caller.result() for caller in callers]
    assert [answer.status.message.text() for answer in answers] == ["answer to a", "answer to b", "answer to c"]
    users = [text for text in texts(answers[-1].history) if text in {"first", "a", "b", "c"}]
    assert users == ["first", "a", "b", "c"]


@pytest.mark.requirement("S5-RUN-FIFO")
@within(5)
async def test_streams_of_queued_messages_each_end_with_their_own_run(autojump_clock):
    async def agent(context, updater):
        await trio.sleep(0.1)
        await updater.require_input(context.text())

    async with open_desk(agent) as desk:
        task = await desk.send("first")
        async with trio.open_nursery() as nursery:
            callers = []
            for text in ("a", "b"):
                callers.append(start(nursery, desk.streamed, text, task_id=task.id))
                await trio.testing.wait_all_tasks_blocked()
            streams = [await caller.result() for caller in callers]
    for text, events in zip("ab", streams, strict=True):
        assert isinstance(events[0], Task)
        assert [event.status.message.text() for event in events[1:]] == [text]


@pytest.mark.requirement("S5-RUN-FIFO")
@within(5)
async def test_runs_of_different_tasks_do_not_wait_for_each_other(autojump_clock):
    both = trio.testing.Sequencer()

    async def one(_context, updater):
        async with both(0):
            pass
        async with both(2):
            await updater.complete()

    async def two(_context, updater):
        async with both(1):
            await updater.complete()

    async with open_desk(ScriptedAgent(by_text={"one": one, "two": two})) as desk, trio.open_nursery() as nursery:
        callers = [start(nursery, desk.send, text) for text in ("one", "two")]
        for caller in callers:
            assert (await caller.result()).status.state is TaskState.COMPLETED


@within(5)
async def test_a_message_whose_task_ends_while_it_waits_for_its_turn_is_refused(autojump_clock):
    async def slow(_context, updater):
        await updater.start_work()
        await trio.sleep(1)
        await updater.complete()

    async with open_desk(ScriptedAgent(by_text={"slow": slow})) as desk:
        task = await desk.send("slow", immediately=True)
        async with trio.open_nursery() as nursery:
            callers = [
                start(nursery, desk.send, "slow", task_id=task.id),
                start(nursery, desk.streamed, "slow", task_id=task.id),
            ]
        for caller in callers:
            with pytest.raises(UnsupportedOperationError):
                await caller.result()
        assert texts((await desk.get(task.id)).history) == ["slow"]


# ------------------------------------------------------------------------------------------------ how a run may end


class SecretError(Exception):
    """What must not be seen by a caller."""


async def fail(_context, _updater):
    raise SecretError("the password is swordfish")


async def fail_later(_context, updater):
    await updater.start_work("on it")
    await updater.add_artifact("so far")
    raise SecretError("the password is swordfish")


@pytest.mark.requirement("S5-FAILED")
@pytest.mark.parametrize("agent", [fail, fail_later])
@within(5)
async def test_an_agent_that_raises_makes_a_failed_task_and_the_detail_is_in_the_log_alone(
    autojump_clock, caplog, agent
):
    async with open_desk(agent) as desk:
        task = await desk.send("my message")
        assert await desk.get(task.id) == task
    assert task.status.state is TaskState.FAILED
    assert task.status.message.text() == AGENT_FAILED == "The agent failed."
    assert texts(task.history)[0] == "my message"
    assert "swordfish" not in repr(task)
    assert "swordfish" in caplog.text
    assert [record.name for record in caplog.records if record.levelno >= logging.ERROR] == ["trio_a2a.agents"]


@pytest.mark.requirement("S5-FAILED")
@within(5)
async def test_an_agent_that_raises_on_a_follow_up_fails_the_task_with_that_message_in_its_history(
    autojump_clock, caplog
):
    async with open_desk(ScriptedAgent(by_text={"ask": ask, "fail": fail})) as desk:
        task = await desk.send("ask")
        events = await desk.streamed("fail", task_id=task.id)
        task = await desk.get(task.id)
    assert states(events) == ["INPUT_REQUIRED", "FAILED"]
    assert texts(task.history) == ["ask", "what else?", "fail"]


@pytest.mark.requirement("S5-FAILED")
@within(5)
async def test_the_artifacts_of_an_agent_that_raises_are_kept(autojump_clock, caplog):
    async with open_desk(fail_later) as desk:
        task = await desk.send()
    assert [artifact.text() for artifact in task.artifacts] == ["so far"]
    assert texts(task.history) == ["hello", "on it"]


@pytest.mark.requirement("S5-FAILED")
@within(5)
async def test_an_agent_whose_own_nursery_fails_is_an_agent_that_raises(autojump_clock, caplog):
    async def agent(_context, updater):
        await updater.start_work()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(fail, None, None)

    async with open_desk(agent) as desk:
        task = await desk.send()
    assert task.status.state is TaskState.FAILED
    assert "swordfish" in caplog.text


@pytest.mark.requirement("S5-FAILED")
@within(5)
async def test_one_agent_that_fails_is_noticed_by_no_other_task(autojump_clock, caplog):
    go_on = trio.Event()

    async def wait(_context, updater):
        await updater.start_work()
        await go_on.wait()
        await updater.complete()

    async with open_desk(ScriptedAgent(by_text={"wait": wait, "fail": fail})) as desk, trio.open_nursery() as nursery:
        waiting = start(nursery, desk.send, "wait")
        await trio.testing.wait_all_tasks_blocked()
        await desk.send("fail")
        go_on.set()
        assert (await waiting.result()).status.state is TaskState.COMPLETED


async def refuse(_context, _updater):
    raise ContentTypeNotSupportedError("No poems, please")


@pytest.mark.requirement("S5-REFUSAL")
@within(5)
async def test_an_a2a_error_before_the_first_event_refuses_the_message_and_nothing_is_stored(autojump_clock, caplog):
    ids = []

    async def agent(context, updater):
        ids.append(context.task_id)
        await refuse(context, updater)

    async with open_desk(agent) as desk:
        with pytest.raises(ContentTypeNotSupportedError, match="No poems, please"):
            await desk.send()
        with pytest.raises(ContentTypeNotSupportedError, match="No poems, please"):
            await desk.streamed()
        with pytest.raises(ContentTypeNotSupportedError, match="No poems, please"):
            await desk.send(immediately=True)
        for id_ in ids:
            with pytest.raises(TaskNotFoundError):
                await desk.get(id_)
        assert desk.manager.statistics().queues == 0
        assert desk.manager.statistics().subscribers == 0
    assert len(ids) == 3
    assert not caplog.records


@pytest.mark.requirement("S5-REFUSAL")
@within(5)
async def test_a_follow_up_that_is_refused_leaves_the_task_as_it_was(autojump_clock):
    async with open_desk(ScriptedAgent(by_text={"ask": ask, "refuse": refuse})) as desk:
        task = await desk.send("ask")
        for call in (desk.send, desk.streamed):
            with pytest.raises(ContentTypeNotSupportedError):
                await call("refuse", task_id=task.id)
        with pytest.raises(ContentTypeNotSupportedError):
            await desk.send("refuse", task_id=task.id, immediately=True)
        assert await desk.get(task.id) == task
        assert (await desk.manager.store.get(task.id)).sequence == 2


@pytest.mark.requirement("S5-REFUSAL", "S5-FAILED")
@within(5)
async def test_an_a2a_error_after_the_first_event_makes_a_failed_task(autojump_clock, caplog):
    async def agent(context, updater):
        await updater.start_work()
        await refuse(context, updater)

    async with open_desk(agent) as desk:
        events = await desk.streamed()
    assert states(events) == ["SUBMITTED", "WORKING", "FAILED"]
    assert events[-1].status.message.text() == AGENT_FAILED


@pytest.mark.requirement("S5-NO-ANSWER")
@within(5)
async def test_a_run_that_emits_nothing_at_all_is_an_invalid_agent_response(autojump_clock):
    async def agent(_context, _updater):
        pass

    async with open_desk(agent) as desk:
        for call in (desk.send, desk.streamed):
            with pytest.raises(InvalidAgentResponseError):
                await call()
        with pytest.raises(InvalidAgentResponseError):
            await desk.send(immediately=True)
        assert desk.manager.statistics().queues == 0


@pytest.mark.requirement("S5-NO-ANSWER")
@within(5)
async def test_a_follow_up_to_which_nothing_is_emitted_leaves_the_task_as_it_was(autojump_clock):
    async def silent(_context, _updater):
        pass

    async with open_desk(ScriptedAgent(by_text={"ask": ask, "silent": silent})) as desk:
        task = await desk.send("ask")
        with pytest.raises(InvalidAgentResponseError):
            await desk.send("silent", task_id=task.id)
        assert await desk.get(task.id) == task


@pytest.mark.requirement("S5-FIRE-AND-FORGET")
@within(5)
async def test_a_run_that_ends_without_a_terminal_state_leaves_the_task_as_it_is(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work("somebody else goes on")
        await updater.add_artifact("so far")

    async with open_desk(agent) as desk:
        task = await desk.send()
        assert task.status.state is TaskState.WORKING
        assert task.artifacts[0].text() == "so far"
        assert await desk.get(task.id) == task
        events = await desk.streamed()
        assert states(events) == ["SUBMITTED", "WORKING", "TaskArtifactUpdateEvent"]


# ---------------------------------------------------------------------------------------------------- blocking calls


@pytest.mark.requirement("S5-BLOCKING", "B52", "D12")
@within(5)
async def test_a_blocking_send_answers_at_a_terminal_state_with_all_artifacts(autojump_clock):
    done = []

    async def agent(_context, updater):
        for number in range(300):
            await updater.add_artifact(str(number))
        await updater.complete("that was all")
        await trio.sleep(1)
        done.append(True)

    async with open_desk(agent) as desk:
        task = await desk.send()
        assert not done
        await trio.sleep(2)
    assert [artifact.text() for artifact in task.artifacts] == [str(number) for number in range(300)]
    assert task.status.message.text() == "that was all"
    assert done


@pytest.mark.requirement("S5-BLOCKING")
@pytest.mark.parametrize("method", ["require_input", "require_auth"])
@within(5)
async def test_a_blocking_send_answers_at_an_interrupted_state_and_the_agent_goes_on(autojump_clock, method):
    go_on = trio.Event()

    async def agent(_context, updater):
        await updater.start_work()
        await updater.add_artifact("so far")
        await getattr(updater, method)("I need something")
        await go_on.wait()
        await updater.complete("got it")

    async with open_desk(agent) as desk:
        task = await desk.send()
        assert task.status.state.is_interrupted
        assert task.status.message.text() == "I need something"
        assert task.artifacts[0].text() == "so far"
        go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (await desk.get(task.id)).status.state is TaskState.COMPLETED


@pytest.mark.requirement("S5-BLOCKING")
@within(5)
async def test_what_another_run_reports_does_not_answer_a_blocking_send(autojump_clock):
    async def slow_ask(_context, updater):
        await updater.start_work()
        await trio.sleep(1)
        await updater.require_input("what else?")
        await trio.sleep(1)

    async with open_desk(ScriptedAgent(by_text={"slow_ask": slow_ask, "finish": finish})) as desk:
        task = await desk.send("slow_ask", immediately=True)
        answer = await desk.send("finish", task_id=task.id)
    assert answer.status.state is TaskState.COMPLETED


@pytest.mark.requirement("S5-BLOCKING")
@within(5)
async def test_a_state_that_a_task_is_in_already_does_not_answer_the_next_message(autojump_clock):
    async def work(_context, updater):
        await updater.add_artifact("more")
        await trio.sleep(1)
        await updater.complete()

    async with open_desk(ScriptedAgent(by_text={"ask": ask, "work": work})) as desk:
        task = await desk.send("ask")
        answer = await desk.send("work", task_id=task.id)
    assert answer.status.state is TaskState.COMPLETED


@pytest.mark.requirement("S5-BLOCKING")
@within(5)
async def test_an_interrupted_state_answers_also_when_the_next_report_is_made_at_the_same_time(autojump_clock):
    """Two tasks of one agent report in the same moment, so that both are through before either goes on."""
    for _ in range(10):  # Trio picks at random who runs first

        async def agent(_context, updater):
            await updater.start_work()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(updater.require_auth, "your key?")
                nursery.start_soon(updater.start_work, "meanwhile")
            await trio.sleep(2)
            await updater.complete()

        async with open_desk(agent) as desk:
            with trio.fail_after(1):
                task = await desk.send()
        assert task.status.message.text() == "your key?"


@pytest.mark.requirement("S5-BLOCKING")
@within(5)
async def test_a_blocking_send_returns_at_most_the_history_that_was_asked_for(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work("one")
        await updater.start_work("two")
        await updater.complete()

    async with open_desk(agent) as desk:
        assert texts((await desk.send(history_length=2)).history) == ["one", "two"]
        assert (await desk.send(history_length=0)).history == ()
        assert texts((task := await desk.send(history_length=9)).history) == ["hello", "one", "two"]
        assert texts((await desk.get(task.id, history_length=1)).history) == ["two"]
        assert (await desk.get(task.id, history_length=0)).history == ()


@within(5)
async def test_an_outcome_that_cannot_be_stored_is_an_internal_error_without_detail(autojump_clock, caplog):
    store = FlakyStore(refuse=lambda _: True)
    async with open_desk(finish, store=store) as desk:
        with pytest.raises(InternalError, match="could not be stored"):
            await desk.send()
        assert desk.manager.statistics().queues == 0
        store.refuse = None
        assert (await desk.send()).status.state is TaskState.COMPLETED


@within(5)
async def test_a_failure_that_cannot_be_stored_leaves_the_task_as_it_was(autojump_clock, caplog):
    store = FlakyStore()

    async def agent(_context, updater):
        await updater.start_work()
        await updater.flush()
        store.refuse = lambda _: True
        raise SecretError

    async with open_desk(agent, store=store) as desk:
        with pytest.raises(InternalError):
            await desk.send()
    (row,) = store.inner._rows.values()
    assert row.change.snapshot().status.state is TaskState.WORKING


@within(20)
async def test_a_failure_that_is_stored_slowly_is_answered_when_it_is(autojump_clock, caplog):
    """The boundary does not wait longer than 5 s for it, but the caller does."""
    store = SlowStore()

    async def agent(context, updater):
        await updater.start_work()
        await updater.flush()
        store.commit_seconds[context.task_id] = 8
        raise SecretError

    async with open_desk(agent, store=store) as desk:
        assert (await desk.send()).status.state is TaskState.FAILED
        assert (await desk.streamed())[-1].status.state is TaskState.FAILED
    assert "not stored within" in caplog.text


@within(5)
async def test_an_agent_that_raises_when_its_task_has_just_ended_otherwise_changes_nothing(autojump_clock, caplog):
    store = SlowStore()

    async def agent(context, updater):
        await updater.start_work()
        await updater.flush()
        store.commit_seconds[context.task_id] = 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(desk.operations.updater(context.task_id).complete, "by somebody else")
            await trio.testing.wait_all_tasks_blocked()
            raise SecretError

    async with open_desk(agent, store=store) as desk:
        task = await desk.send()
        await trio.sleep(2)
        assert (await desk.get(task.id)).status.message.text() in {"by somebody else", AGENT_FAILED}


# ------------------------------------------------------------------------------------------------ returnImmediately


@pytest.mark.requirement("S5-RETURN-IMMEDIATELY")
@within(5)
async def test_a_call_that_does_not_wait_is_told_when_the_task_cannot_be_stored(autojump_clock, caplog):
    for agent in (finish, ask):
        async with open_desk(agent, store=FlakyStore(refuse=lambda _: True)) as desk:
            with pytest.raises(InternalError, match="could not be stored"):
                await desk.send(immediately=True)


@pytest.mark.requirement("S5-RETURN-IMMEDIATELY")
@within(5)
async def test_a_call_that_does_not_wait_waits_for_what_the_run_needs_to_begin(autojump_clock):
    store = SlowStore(get_seconds={"related": 2})

    async def agent(_context, updater):
        await trio.sleep(1)
        await updater.complete()

    async with open_desk(agent, store=store) as desk:
        task = await desk.send(Message.user("x", reference_task_ids=("related",)), immediately=True)
        assert task.status.state is TaskState.SUBMITTED


@pytest.mark.requirement("S5-RETURN-IMMEDIATELY")
@within(5)
async def test_a_call_that_does_not_wait_gets_the_first_event_at_once(autojump_clock):
    go_on = trio.Event()

    async def agent(_context, updater):
        await updater.start_work("on it")
        await go_on.wait()
        await updater.complete()

    async with open_desk(agent) as desk:
        before = trio.current_time()
        task = await desk.send(immediately=True)
        assert trio.current_time() == before
        assert task.status.state in {TaskState.SUBMITTED, TaskState.WORKING}
        assert texts(task.history) == ["hello"]
        go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (await desk.get(task.id)).status.state is TaskState.COMPLETED


@pytest.mark.requirement("S5-RETURN-IMMEDIATELY")
@within(5)
async def test_after_a_second_of_silence_the_submitted_task_is_made_and_returned(autojump_clock):
    async def agent(_context, updater):
        await trio.sleep(2)
        await updater.start_work("on it")
        await updater.complete("done")

    async with open_desk(agent) as desk:
        before = trio.current_time()
        task = await desk.send("my message", immediately=True)
        assert trio.current_time() - before == 1.0
        assert task.status.state is TaskState.SUBMITTED
        assert texts(task.history) == ["my message"]
        assert await desk.get(task.id) == task
        async with desk.subscribe(task.id) as stream:
            events = await rest(stream)
        assert states(events) == ["SUBMITTED", "WORKING", "COMPLETED"]
        assert texts((await desk.get(task.id)).history) == ["my message", "on it"]


@pytest.mark.requirement("S5-RETURN-IMMEDIATELY")
@within(5)
async def test_a_reply_after_the_task_was_made_completes_it(autojump_clock):
    async def agent(_context, updater):
        await trio.sleep(2)
        await updater.reply("hi")

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        async with desk.subscribe(task.id) as stream:
            assert states(await rest(stream)) == ["SUBMITTED", "COMPLETED"]
        task = await desk.get(task.id)
    assert task.status.message.text() == "hi"
    assert task.status.message.task_id == task.id
    assert texts(task.history) == ["hello"]


@pytest.mark.requirement("S5-RETURN-IMMEDIATELY", "S5-REPLY")
@within(5)
async def test_a_reply_after_a_report_of_the_agent_is_refused_also_where_the_task_was_made_for_it(autojump_clock):
    async def agent(_context, updater):
        await trio.sleep(2)
        await updater.start_work()
        with pytest.raises(InvalidAgentResponseError):
            await updater.reply("hi")
        await updater.require_input()

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        await trio.sleep(2)
        assert (await desk.get(task.id)).status.state is TaskState.INPUT_REQUIRED


@pytest.mark.requirement("S5-RETURN-IMMEDIATELY", "S5-NO-ANSWER")
@within(5)
async def test_a_run_that_emits_nothing_after_the_task_was_made_fails_it(autojump_clock):
    async def agent(_context, _updater):
        await trio.sleep(2)

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        await trio.sleep(2)
        task = await desk.get(task.id)
    assert task.status.state is TaskState.FAILED
    assert texts(task.history) == ["hello"]


@pytest.mark.requirement("S5-RETURN-IMMEDIATELY")
@within(5)
async def test_a_refusal_after_the_task_was_made_fails_it(autojump_clock, caplog):
    async def agent(context, updater):
        await trio.sleep(2)
        await refuse(context, updater)

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        await trio.sleep(2)
        assert (await desk.get(task.id)).status.state is TaskState.FAILED


@pytest.mark.requirement("S5-RETURN-IMMEDIATELY")
@within(5)
async def test_a_call_that_does_not_wait_gets_a_direct_reply_that_is_quick(autojump_clock):
    async def agent(_context, updater):
        await trio.sleep(0.5)
        await updater.reply("hi")

    async with open_desk(agent) as desk:
        answer = await desk.send(immediately=True)
    assert isinstance(answer, Message)


@pytest.mark.requirement("S5-RETURN-IMMEDIATELY")
@within(5)
async def test_a_follow_up_that_does_not_wait_gets_the_task_as_it_is(autojump_clock):
    async def slow(_context, updater):
        await trio.sleep(2)
        await updater.complete()

    async with open_desk(ScriptedAgent(by_text={"ask": ask, "slow": slow})) as desk:
        task = await desk.send("ask")
        before = trio.current_time()
        assert await desk.send("slow", task_id=task.id, immediately=True) == task
        assert trio.current_time() - before == 1.0
        await trio.sleep(2)
        task = await desk.get(task.id)
    assert task.status.state is TaskState.COMPLETED
    assert texts(task.history) == ["ask", "what else?", "slow"]


# ----------------------------------------------------------------------------------------------------------- streams


@pytest.mark.requirement("S5-STREAM-END")
@within(5)
async def test_a_send_stream_ends_at_the_terminal_event_while_the_agent_goes_on(autojump_clock):
    async def agent(_context, updater):
        await updater.complete()
        await trio.sleep_forever()

    async with open_desk(agent) as desk:
        assert states(await desk.streamed()) == ["SUBMITTED", "COMPLETED"]


@pytest.mark.requirement("S5-STREAM-END")
@within(5)
async def test_a_send_stream_ends_at_the_direct_message_while_the_agent_goes_on(autojump_clock):
    async def agent(_context, updater):
        await updater.reply("hi")
        await trio.sleep_forever()

    async with open_desk(agent) as desk:
        assert texts(await desk.streamed()) == ["hi"]


@pytest.mark.requirement("S5-STREAM-END", "S3-RUN-ENDED", "B50")
@within(5)
async def test_a_send_stream_ends_when_its_run_is_over_and_not_at_the_interrupted_state(autojump_clock):
    async def agent(_context, updater):
        await updater.require_input("what?")
        await trio.sleep(1)
        await updater.add_artifact("one more thing")

    async with open_desk(agent) as desk:
        before = trio.current_time()
        events = await desk.streamed()
        assert trio.current_time() - before == 1.0
    assert states(events) == ["SUBMITTED", "INPUT_REQUIRED", "TaskArtifactUpdateEvent"]


@pytest.mark.requirement("S5-STREAM-END")
@within(5)
async def test_a_send_stream_goes_on_after_its_run_where_the_task_is_auth_required(autojump_clock):
    """A-05: as a subscription."""

    async def agent(_context, updater):
        await updater.require_auth("log in, please")

    async with (
        open_desk(ScriptedAgent(by_text={"begin": agent, "finish": finish})) as desk,
        desk.stream("begin") as sent,
    ):
        stream = Stream(sent)
        task = await stream.next()
        assert state_of(await stream.next()) == "AUTH_REQUIRED"
        with trio.move_on_after(2) as scope:
            await stream.next()
        assert scope.cancelled_caught
        await desk.operations.updater(task.id).start_work("thank you")
        assert state_of(await stream.next()) == "WORKING"
        await desk.send("finish", task_id=task.id)
        assert state_of(await stream.next()) == "COMPLETED"
        with pytest.raises(trio.EndOfChannel):
            await stream.next()


@pytest.mark.requirement("S5-STREAM-END")
@within(5)
async def test_a_send_stream_ends_where_the_task_is_auth_required_no_more_when_its_run_is_over(autojump_clock):
    async def agent(_context, updater):
        await updater.require_auth("log in, please")
        await trio.sleep(1)
        await updater.start_work("thank you")

    async with open_desk(agent) as desk:
        assert states(await desk.streamed()) == ["SUBMITTED", "AUTH_REQUIRED", "WORKING"]


@pytest.mark.requirement("S5-SNAPSHOT-FIRST")
@within(5)
async def test_the_stream_of_a_follow_up_begins_with_the_stored_task(autojump_clock):
    """A-06."""
    async with open_desk(ScriptedAgent(by_text={"ask": ask, "finish": finish})) as desk:
        task = await desk.send("ask")
        async with desk.stream("finish", task_id=task.id) as stream:
            batch = list(await stream.receive_batch())
            while batch[-1].sequence != 3:
                batch.extend(await stream.receive_batch())
    assert [envelope.sequence for envelope in batch] == [2, 3]
    assert batch[0].event == task
    assert state_of(batch[1].event) == "COMPLETED"


@pytest.mark.requirement("S5-STREAM-END", "S3-RUN-ENDED")
@within(5)
async def test_a_stream_that_is_over_and_not_yet_read_costs_the_task_nothing(autojump_clock, caplog):
    """Its reader is slow, and meanwhile the task goes on with the next message."""
    async with (
        open_desk(ScriptedAgent(by_text={"ask": ask, "finish": finish})) as desk,
        desk.stream("ask") as slow_reader,
    ):
        await trio.testing.wait_all_tasks_blocked()
        (task,) = [row.change.snapshot() for row in desk.manager.store._rows.values()]
        assert task.status.state is TaskState.INPUT_REQUIRED
        assert (await desk.send("finish", task_id=task.id)).status.state is TaskState.COMPLETED
        assert states(await rest(slow_reader)) == ["SUBMITTED", "INPUT_REQUIRED"]
    assert not caplog.records


@pytest.mark.requirement("S3-RUN-ENDED")
@within(20)
async def test_a_run_that_ends_while_others_report_on_its_task_ends_its_stream_and_nothing_else(autojump_clock, caplog):
    """Its marker lies between two events of one batch, and a hook makes these go out singly."""
    for passes in range(12):
        go_on = trio.Event()

        async def agent(_context, updater, passes=passes, go_on=go_on):
            await updater.start_work()
            await go_on.wait()
            for _ in range(passes):
                await trio.lowlevel.checkpoint()

        async def report(desk, task_id, go_on=go_on):
            go_on.set()
            for number in range(100):
                await desk.manager.enqueue(task_id, artifact(task_id, str(number), context_id=""))

        async with open_desk(agent, hook=RecordingHook()) as desk, trio.open_nursery() as nursery:
            async with desk.stream() as stream:
                await trio.testing.wait_all_tasks_blocked()
                (task_id,) = desk.manager.store._rows
                nursery.start_soon(report, desk, task_id)
                events = await rest(stream)
            await trio.testing.wait_all_tasks_blocked()
            assert (await desk.manager.store.get(task_id)).sequence == 102
        assert states(events)[:2] == ["SUBMITTED", "WORKING"]
    assert not caplog.records


@pytest.mark.requirement("S5-STREAM-END")
@within(5)
async def test_a_stream_that_is_over_counts_as_a_subscriber_no_more(autojump_clock):
    hook = RecordingHook()
    async with open_desk(ask, hook=hook) as desk:
        async with desk.stream() as stream:
            task = await Stream(stream).next()
            await trio.testing.wait_all_tasks_blocked()
            assert desk.manager.active_subscriber_count(task.id) == 0
            assert hook.names.count("on_unsubscribe") == 1
        assert hook.names.count("on_unsubscribe") == 1


@pytest.mark.requirement("S5-STREAM-END")
@within(5)
async def test_a_store_failure_ends_a_send_stream_with_an_internal_error(autojump_clock, caplog):
    store = FlakyStore()

    async def agent(_context, updater):
        await updater.start_work()
        await updater.flush()
        store.refuse = lambda _: True
        await updater.add_artifact("lost")

    async with open_desk(agent, store=store) as desk, desk.stream() as stream:
        events = Stream(stream)
        assert [state_of(await events.next()), state_of(await events.next())] == ["SUBMITTED", "WORKING"]
        with pytest.raises(InternalError, match="could not be stored"):
            await events.next()


@pytest.mark.requirement("S5-STREAM-END")
@within(5)
async def test_a_hook_that_aborts_the_streams_ends_a_send_stream_quietly(autojump_clock):
    class Abort(NoOpHook):
        async def on_event(self, task_id, event, handle):
            if state_of(event) == "WORKING":
                await handle.abort_streams()

    async def agent(_context, updater):
        await updater.start_work()
        await trio.sleep(1)
        await updater.complete()

    async with open_desk(agent, hook=Abort()) as desk:
        ended = False
        async with desk.stream() as stream:
            with pytest.raises(trio.Cancelled):
                await rest(stream)
            await trio.sleep_forever()
        ended = True
        await trio.sleep(2)
        assert ended
        (row,) = desk.manager.store._rows.values()
        assert row.task.status.state is TaskState.COMPLETED


# ---------------------------------------------------------------------------------------------------- what is refused


@within(5)
async def test_a_message_to_an_unknown_task_is_not_found_and_none_is_made(autojump_clock):
    async with open_desk(finish) as desk:
        for call in (desk.send, desk.streamed):
            with pytest.raises(TaskNotFoundError):
                await call(task_id="chosen by the client")
        assert await desk.manager.store.get("chosen by the client") is None


@within(5)
async def test_a_message_to_a_task_that_is_over_is_refused(autojump_clock):
    async with open_desk(finish) as desk:
        task = await desk.send()
        for call in (desk.send, desk.streamed):
            with pytest.raises(UnsupportedOperationError) as caught:
                await call(task_id=task.id)
            assert caught.value.metadata == {"taskId": task.id, "state": "TASK_STATE_COMPLETED"}
        assert await desk.get(task.id) == task


@within(5)
async def test_a_message_that_names_another_context_than_its_task_s_is_refused(autojump_clock):
    """A-10."""
    async with open_desk(ask) as desk:
        task = await desk.send()
        with pytest.raises(InvalidParamsError) as caught:
            await desk.send(task_id=task.id, context_id="another")
        assert [violation.field for violation in caught.value.violations] == ["message.contextId"]
        await desk.send(task_id=task.id, context_id=task.context_id)


@within(5)
async def test_a_message_that_is_not_the_user_s_is_refused(autojump_clock):
    async with open_desk(ask) as desk:
        with pytest.raises(InvalidParamsError) as caught:
            await desk.send(Message.agent("I am the agent"))
    assert [violation.field for violation in caught.value.violations] == ["message.role"]


# ----------------------------------------------------------------------------------------------------------- the end


@pytest.mark.requirement("S4-SHUTDOWN")
@within(20)
async def test_leaving_the_manager_cancels_the_runs_and_leaves_their_tasks_as_they_are(autojump_clock, caplog):
    ended = []

    async def agent(_context, updater):
        await updater.start_work()
        try:
            await trio.sleep_forever()
        finally:
            ended.append(True)

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        store = desk.manager.store
    assert ended
    assert (await store.get(task.id)).task.status.state is TaskState.WORKING
    assert not caplog.records


async def raise_when_cancelled(_context, updater):
    await updater.start_work()
    try:
        await trio.sleep_forever()
    finally:
        raise SecretError


async def raise_beside_cancelled(context, updater):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(raise_when_cancelled, context, updater)


@pytest.mark.requirement("S4-SHUTDOWN")
@pytest.mark.parametrize("agent", [raise_when_cancelled, raise_beside_cancelled])
@within(20)
async def test_an_agent_that_raises_while_the_server_ends_it_is_contained(autojump_clock, caplog, agent):
    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        store = desk.manager.store
    assert (await store.get(task.id)).task.status.state is TaskState.WORKING
    assert {record.name for record in caplog.records} == {"trio_a2a.agents"}


@pytest.mark.requirement("S4-SHUTDOWN")
@within(20)
async def test_last_words_that_come_too_late_are_lost_without_a_sound(autojump_clock, caplog):
    raised = []

    async def agent(_context, updater):
        await updater.start_work()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(1, shield=True):
                try:
                    await updater.complete("too late")
                except EventQueueClosedError:
                    raised.append(True)
                    raise

    async with open_desk(agent) as desk:
        task = await desk.send(immediately=True)
        store = desk.manager.store
    assert raised
    assert (await store.get(task.id)).task.status.state is TaskState.WORKING
    assert not caplog.records


@pytest.mark.requirement("S4-SHUTDOWN")
@within(20)
async def test_the_callers_of_a_run_that_has_said_nothing_yet_are_told_that_it_was_interrupted(autojump_clock):
    async def agent(_context, _updater):
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with open_desk(agent) as desk:
            callers = [start(nursery, desk.send), start(nursery, desk.streamed)]
            await trio.testing.wait_all_tasks_blocked()
        for caller in callers:
            with pytest.raises(InternalError, match="interrupted"):
                await caller.result()


@pytest.mark.requirement("S4-SHUTDOWN")
@within(20)
async def test_blocked_callers_and_streams_end_with_the_manager(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with open_desk(agent) as desk:
            task = await desk.send(immediately=True)
            callers = [
                start(nursery, desk.send),
                start(nursery, desk.streamed),
                start(nursery, desk.send, task_id=task.id),
                start(nursery, desk.streamed, task_id=task.id),
            ]
            await trio.testing.wait_all_tasks_blocked()
        for caller in callers:
            await caller.done.wait()
            assert caller.error is None or isinstance(caller.error, InternalError)


@pytest.mark.requirement("B9")
@within(5)
async def test_a_task_whose_beginning_could_not_be_stored_is_not_made_by_what_follows(autojump_clock):
    """Otherwise it would exist without the message that began it."""
    store = FlakyStore(refuse=lambda change: isinstance(change.event, Task))

    async def agent(_context, updater):
        await updater.start_work()
        await updater.add_artifact("a")
        await updater.complete()

    async with open_desk(agent, store=store) as desk:
        with pytest.raises(InternalError, match="could not be stored"):
            await desk.send("hello")
        assert "0 tasks" in repr(store.inner)
