"""How an agent reports: the forms it may use, the rules it must keep, and what happens when it does not."""

from functools import partial

import pytest
import trio
import trio.testing

from tests.agents.desk import Stream, open_desk, rest, start, states, texts
from tests.deadline import within
from trio_a2a.agents.updater import Reports, TaskUpdater
from trio_a2a.errors import (
    InvalidAgentResponseError,
    StoreError,
    TaskNotFoundError,
    TaskPersistenceError,
    TaskTerminalError,
)
from trio_a2a.streams import EventQueueClosedError
from trio_a2a.testing import FlakyStore, SlowStore
from trio_a2a.types import Message, Part, Role, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent

FINAL = ["complete", "fail", "reject", "cancel"]
STATE_OF = {
    "complete": TaskState.COMPLETED,
    "fail": TaskState.FAILED,
    "reject": TaskState.REJECTED,
    "cancel": TaskState.CANCELED,
    "require_input": TaskState.INPUT_REQUIRED,
    "require_auth": TaskState.AUTH_REQUIRED,
    "start_work": TaskState.WORKING,
}


async def run(agent, **options):
    """Let an agent handle one message; return the answer, and the events of its stream."""
    async with open_desk(agent, **options) as desk:
        events = await desk.streamed()
        first = events[0]
        return (await desk.get(first.id) if isinstance(first, Task) else first), events


# -------------------------------------------------------------------------------------------------------------- states


@pytest.mark.requirement("S5-UPDATER-METHODS", "B68")
@pytest.mark.parametrize("method", list(STATE_OF))
@within(5)
async def test_each_method_reports_its_state_with_what_the_agent_says(autojump_clock, method):
    async def agent(_context, updater):
        await getattr(updater, method)("so it is")

    async with open_desk(agent) as desk:
        task = await desk.send()
        assert task.status.state is STATE_OF[method]
        assert task.status.message.text() == "so it is"
        assert (await desk.get(task.id)) == task
        stored = [envelope.event for envelope in await desk.manager.store.events(task.id, 0)]
    assert states(stored) == ["SUBMITTED", STATE_OF[method].name]


@pytest.mark.requirement("S5-SUBMITTED-FIRST")
@within(5)
async def test_where_the_first_event_is_an_update_the_submitted_task_is_made_first(autojump_clock):
    async def agent(_context, updater):
        await updater.complete()

    task, events = await run(agent)
    first = events[0]
    assert isinstance(first, Task)
    assert first.status.state is TaskState.SUBMITTED
    assert first.status.timestamp is not None
    assert texts(first.history) == ["hello"]
    assert (first.history[0].task_id, first.history[0].context_id) == (task.id, task.context_id)
    assert first.artifacts == ()


@pytest.mark.requirement("S5-SUBMITTED-FIRST")
@within(5)
async def test_an_artifact_as_the_first_event_comes_behind_the_submitted_task_too(autojump_clock):
    async def agent(_context, updater):
        await updater.add_artifact("result")

    _, events = await run(agent)
    assert states(events) == ["SUBMITTED", "TaskArtifactUpdateEvent"]


@within(5)
async def test_a_status_message_moves_to_the_history_with_the_next_status(autojump_clock):
    """A-58."""

    async def agent(_context, updater):
        await updater.start_work("reading")
        await updater.start_work("writing")
        await updater.complete("done")

    task, _ = await run(agent)
    assert texts(task.history) == ["hello", "reading", "writing"]
    assert task.status.message.text() == "done"


@within(5)
async def test_a_follow_up_s_message_joins_the_history_with_its_run_s_first_report_and_only_once(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work("hm")
        await updater.require_input("what?")

    async with open_desk(agent) as desk:
        task = await desk.send("one")
        task = await desk.send("two", task_id=task.id)
    assert texts(task.history) == ["one", "hm", "what?", "two", "hm"]


@within(5)
async def test_the_metadata_of_a_status_is_merged_into_the_task_s(autojump_clock):
    async def agent(_context, updater):
        await updater.update_status(TaskState.WORKING, metadata={"a": 1, "b": 1})
        await updater.update_status(TaskState.COMPLETED, metadata={"b": 2})

    task, events = await run(agent)
    assert task.metadata == {"a": 1, "b": 2}
    assert events[-1].metadata == {"b": 2}


@pytest.mark.requirement("S5-UPDATER-FORMS")
@pytest.mark.parametrize(
    "said",
    ["hi", Message.agent("hi"), Part(text="hi"), ["hi"], [Part(text="hi")], Message.user("hi")],
    ids=["str", "message", "part", "strs", "parts", "wrong-role"],
)
@within(5)
async def test_a_message_may_be_a_str_a_message_or_parts(autojump_clock, said):
    async def agent(_context, updater):
        await updater.complete(said)

    task, _ = await run(agent)
    message = task.status.message
    assert message.text() == "hi"
    assert message.role is Role.AGENT
    assert (message.task_id, message.context_id) == (task.id, task.context_id)
    assert message.message_id


@pytest.mark.parametrize("strange", [Message.agent("hi", task_id="another"), Message.agent("hi", context_id="another")])
@within(5)
async def test_a_message_that_names_another_task_or_context_is_refused(autojump_clock, strange):
    refused = []

    async def agent(_context, updater):
        await updater.start_work()
        with pytest.raises(ValueError, match="another task or context"):
            await updater.start_work(strange)
        refused.append(True)
        await updater.complete()

    _, events = await run(agent)
    assert refused
    assert states(events) == ["SUBMITTED", "WORKING", "COMPLETED"]


@within(5)
async def test_no_state_is_no_report(autojump_clock):
    async def agent(_context, updater):
        with pytest.raises(InvalidAgentResponseError):
            await updater.update_status(TaskState.UNSPECIFIED)
        await updater.complete()

    _, events = await run(agent)
    assert states(events) == ["SUBMITTED", "COMPLETED"]


@pytest.mark.parametrize("value", [float("nan"), 2**70])
@within(5)
async def test_what_json_cannot_carry_is_refused_and_nothing_is_changed_by_it(autojump_clock, value):
    async def agent(_context, updater):
        await updater.start_work()
        with pytest.raises(ValueError):
            await updater.add_artifact(Part(data={"value": value}))
        with pytest.raises(ValueError):
            await updater.complete(Part(data={"value": value}))
        await updater.complete("fine")

    task, events = await run(agent)
    assert states(events) == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert task.artifacts == ()


# ---------------------------------------------------------------------------------------------------------- terminal


@pytest.mark.requirement("S5-UPDATER-FLUSH")
@pytest.mark.parametrize("method", FINAL)
@within(5)
async def test_a_terminal_method_returns_when_the_end_is_stored(autojump_clock, method):
    stored = []

    async def agent(context, updater):
        await updater.add_artifact("result")
        await getattr(updater, method)()
        stored.append(await store.get(context.task_id))
        done.set()

    done = trio.Event()
    store = SlowStore()
    async with open_desk(agent, store=store) as desk:
        await desk.send()
        await done.wait()
    assert stored[0].task.status.state is STATE_OF[method]
    assert stored[0].task.artifacts[0].text() == "result"


def calls(updater):
    return {
        **{name: partial(getattr(updater, name), "more") for name in STATE_OF},
        "add_artifact": partial(updater.add_artifact, "more"),
        "reply": partial(updater.reply, "more"),
        "update_status": partial(updater.update_status, TaskState.WORKING),
    }


@pytest.mark.requirement("S5-TERMINAL-ERROR", "B67")
@pytest.mark.parametrize("method", FINAL)
@within(5)
async def test_after_a_terminal_state_every_method_but_flush_raises_and_nothing_is_sent(autojump_clock, method):
    raised = []

    async def agent(_context, updater):
        await updater.start_work()
        await getattr(updater, method)("the end")
        for name, call in calls(updater).items():
            expected = InvalidAgentResponseError if name == "reply" else TaskTerminalError
            with pytest.raises(expected):
                await call()
            raised.append(name)
        with pytest.raises(TaskTerminalError):
            async with updater.artifact(name="log") as out:
                await out.write("more")
        await updater.flush()
        raised.append("flush")

    task, events = await run(agent)
    assert len(raised) == 11
    assert states(events) == ["SUBMITTED", "WORKING", STATE_OF[method].name]
    assert task.status.message.text() == "the end"


@pytest.mark.requirement("S5-TERMINAL-ERROR")
@within(5)
async def test_an_agent_that_goes_on_after_the_end_leaves_the_task_as_it_ended(autojump_clock, caplog):
    async def agent(_context, updater):
        await updater.complete("fine")
        await updater.start_work()

    task, events = await run(agent)
    assert task.status.state is TaskState.COMPLETED
    assert states(events) == ["SUBMITTED", "COMPLETED"]
    assert "TaskTerminalError" in caplog.text


@pytest.mark.requirement("B66")
@pytest.mark.parametrize("begun", [True, False], ids=["begun", "as the first report"])
@within(5)
async def test_of_two_terminal_calls_at_once_one_wins_and_the_other_is_told(autojump_clock, begun):
    async def agent(_context, updater):
        if begun:
            await updater.start_work()
        async with trio.open_nursery() as nursery:
            outcomes.extend(start(nursery, getattr(updater, name)) for name in ("complete", "fail"))

    for _ in range(10):  # Trio picks at random who runs first
        outcomes = []
        task, events = await run(agent)
        winner, loser = sorted(outcomes, key=lambda outcome: outcome.error is not None)
        assert winner.error is None
        assert isinstance(loser.error, TaskTerminalError)
        assert states(events)[-1] == task.status.state.name == ["COMPLETED", "FAILED"][outcomes.index(winner)]
        assert sum(event in {"COMPLETED", "FAILED"} for event in states(events)) == 1


@pytest.mark.requirement("B66")
@within(5)
async def test_of_two_updaters_that_end_a_task_at_once_one_is_told_that_it_was_too_late(autojump_clock):
    outcomes = []

    async def agent(context, updater):
        await updater.start_work()
        await updater.flush()
        other = desk.operations.updater(context.task_id)
        async with trio.open_nursery() as nursery:
            outcomes.extend([start(nursery, updater.complete), start(nursery, other.fail)])

    async with open_desk(agent) as desk:
        task = await desk.send()
        await trio.testing.wait_all_tasks_blocked()
        assert await desk.get(task.id) == task
    assert sorted(outcome.error is None for outcome in outcomes) == [False, True]
    loser = outcomes[task.status.state is TaskState.COMPLETED]
    assert isinstance(loser.error, TaskTerminalError)


@pytest.mark.requirement("S5-UPDATER-FLUSH")
@within(5)
async def test_an_end_that_cannot_be_stored_raises_in_the_agent_which_may_try_again(autojump_clock, caplog):
    store = FlakyStore()

    async def agent(_context, updater):
        await updater.start_work()
        await updater.flush()
        store.refuse = lambda _: True
        with pytest.raises(StoreError):
            await updater.complete("first try")
        assert (await store.get(updater.task_id)).task.status.state is TaskState.WORKING
        store.refuse = None
        await updater.complete("second try")

    async with open_desk(agent, store=store) as desk:
        task = await desk.send()
    assert task.status.state is TaskState.COMPLETED
    assert task.status.message.text() == "second try"


@within(5)
async def test_a_report_that_could_not_be_stored_is_told_by_the_next_flush_once(autojump_clock, caplog):
    store = FlakyStore()

    async def agent(_context, updater):
        await updater.start_work()
        await updater.flush()
        store.refuse = lambda _: True
        await updater.add_artifact("lost")
        with pytest.raises(StoreError):
            await updater.flush()
        store.refuse = None
        await updater.flush()
        await updater.complete()

    async with open_desk(agent, store=store) as desk:
        task = await desk.send()
    assert task.status.state is TaskState.COMPLETED
    assert task.artifacts == ()


# --------------------------------------------------------------------------------------------------------- artifacts


@pytest.mark.requirement("B70")
@within(5)
async def test_artifacts_get_ids_of_their_own_and_keep_their_order(autojump_clock):
    ids = []

    async def agent(_context, updater):
        ids.append(await updater.add_artifact("one", name="first", description="the first", metadata={"k": 1}))
        ids.append(await updater.add_artifact(["two", Part(data=[2])], artifact_id="mine", extensions=("urn:x",)))
        await updater.complete()

    task, _ = await run(agent)
    one, two = task.artifacts
    assert [one.artifact_id, two.artifact_id] == ids
    assert ids[1] == "mine"
    assert (one.name, one.description, one.metadata, one.text()) == ("first", "the first", {"k": 1}, "one")
    assert [part.value for part in two.parts] == ["two", [2]]
    assert two.extensions == ("urn:x",)


@within(5)
async def test_an_artifact_with_a_known_id_takes_the_place_of_the_earlier_one(autojump_clock):
    async def agent(_context, updater):
        id_ = await updater.add_artifact("draft")
        await updater.add_artifact("other")
        assert await updater.add_artifact("final", artifact_id=id_) == id_

    task, _ = await run(agent)
    assert [artifact.text() for artifact in task.artifacts] == ["final", "other"]


@within(5)
async def test_append_puts_parts_behind_those_of_the_artifact(autojump_clock):
    async def agent(_context, updater):
        id_ = await updater.add_artifact("one")
        await updater.add_artifact("two", artifact_id=id_, append=True, last_chunk=True)

    task, events = await run(agent)
    assert [part.text for part in task.artifacts[0].parts] == ["one", "two"]
    assert [(e.append, e.last_chunk) for e in events[1:]] == [(False, False), (True, True)]


@within(5)
async def test_append_without_an_id_is_a_mistake_that_is_told_at_once(autojump_clock):
    async def agent(_context, updater):
        with pytest.raises(ValueError, match="artifact_id"):
            await updater.add_artifact("more", append=True)
        await updater.complete()

    _, events = await run(agent)
    assert states(events) == ["SUBMITTED", "COMPLETED"]


@within(5)
async def test_append_to_an_artifact_that_does_not_exist_fails_the_task(autojump_clock):
    """A-62: an agent error."""

    async def agent(_context, updater):
        await updater.add_artifact("more", artifact_id="nothing", append=True)

    task, _ = await run(agent)
    assert task.status.state is TaskState.FAILED
    assert task.artifacts == ()


@within(5)
async def test_an_artifact_without_parts_is_refused(autojump_clock):
    async def agent(_context, updater):
        with pytest.raises(InvalidAgentResponseError):
            await updater.add_artifact([])
        async with updater.artifact() as out:
            with pytest.raises(InvalidAgentResponseError):
                await out.write()
        await updater.complete()

    task, events = await run(agent)
    assert states(events) == ["SUBMITTED", "COMPLETED"]
    assert task.artifacts == ()


@pytest.mark.requirement("S5-ARTIFACT-WRITER")
@within(5)
async def test_the_artifact_writer_appends_to_one_artifact_and_closes_it(autojump_clock):
    async def agent(_context, updater):
        async with updater.artifact(name="log", description="what happened") as out:
            await out.write("one")
            await out.write("two", Part(data=3))
        await updater.complete(out.artifact_id)

    task, events = await run(agent)
    chunks = [event for event in events if isinstance(event, TaskArtifactUpdateEvent)]
    assert [(c.append, c.last_chunk) for c in chunks] == [(False, False), (True, False), (True, True)]
    assert {c.artifact.artifact_id for c in chunks} == {task.status.message.text()}
    assert [part.text for part in chunks[-1].artifact.parts] == [""]
    (artifact,) = task.artifacts
    assert (artifact.name, artifact.description) == ("log", "what happened")
    assert [part.value for part in artifact.parts] == ["one", "two", 3]


@pytest.mark.requirement("S5-ARTIFACT-WRITER")
@within(5)
async def test_a_block_that_writes_nothing_sends_nothing(autojump_clock):
    async def agent(_context, updater):
        async with updater.artifact(name="log"):
            pass
        await updater.complete()

    task, events = await run(agent)
    assert states(events) == ["SUBMITTED", "COMPLETED"]
    assert task.artifacts == ()


@pytest.mark.requirement("S5-ARTIFACT-WRITER")
@within(5)
async def test_a_block_that_is_left_by_an_exception_leaves_the_artifact_open(autojump_clock):
    async def agent(_context, updater):
        with pytest.raises(LookupError):
            async with updater.artifact(artifact_id="log") as out:
                await out.write("one")
                raise LookupError
        await updater.add_artifact("two", artifact_id="log", append=True)

    task, events = await run(agent)
    assert [event.last_chunk for event in events[1:]] == [False, False]
    assert [part.text for part in task.artifacts[0].parts] == ["one", "two"]


@within(5)
async def test_two_tasks_of_the_agent_may_write_to_one_artifact(autojump_clock):
    async def agent(_context, updater):
        async with updater.artifact() as out, trio.open_nursery() as nursery:
            for word in "abc":
                nursery.start_soon(out.write, word)

    task, _ = await run(agent)
    assert sorted(part.text for part in task.artifacts[0].parts) == ["a", "b", "c"]


# ------------------------------------------------------------------------------------------------------ direct replies


@pytest.mark.requirement("S5-REPLY")
@within(5)
async def test_a_reply_answers_without_a_task(autojump_clock):
    async def agent(context, updater):
        await updater.reply("hi yourself")
        ids.append(context.task_id)

    ids = []
    async with open_desk(agent) as desk:
        answer = await desk.send(context_id="talk")
        with pytest.raises(TaskNotFoundError):
            await desk.get(ids[0])
        assert desk.manager.statistics().queues == 0
        events = await desk.streamed()
    assert isinstance(answer, Message)
    assert (answer.text(), answer.role) == ("hi yourself", Role.AGENT)
    assert (answer.context_id, answer.task_id) == ("talk", "")
    assert texts(events) == ["hi yourself"]


@pytest.mark.requirement("S5-REPLY")
@within(5)
async def test_whoever_reads_the_queue_of_a_run_gets_its_reply_too(autojump_clock):
    """One that only its caller waits for takes a shorter way; a subscriber, however late, makes it the usual one."""

    async def agent(context, updater):
        async def join():
            children.append(await desk.manager.create_or_tap(context.task_id))

        if context.text() == "joined before":
            await join()
            await updater.reply("hi")
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(join)
                await updater.reply("hi")

    children = []
    async with open_desk(agent) as desk:
        answer = await desk.send("joined before")
        assert isinstance(answer, Message)
        assert await children.pop().receive() == answer
        for _ in range(20):  # Trio may run either of the two first
            answer = await desk.send("joins meanwhile")
            assert isinstance(answer, Message)
            await trio.testing.wait_all_tasks_blocked()
            async with children.pop() as child:
                if child.statistics().backlog:
                    assert child.receive_nowait() == answer


@pytest.mark.requirement("S5-REPLY", "B69")
@within(5)
async def test_a_reply_after_a_task_event_is_refused(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work()
        with pytest.raises(InvalidAgentResponseError):
            await updater.reply("hi")
        await updater.complete()

    _, events = await run(agent)
    assert states(events) == ["SUBMITTED", "WORKING", "COMPLETED"]


@pytest.mark.requirement("S5-REPLY", "B69")
@within(5)
async def test_a_reply_to_a_message_that_names_a_task_is_refused_and_fails_an_agent_that_does_not_expect_it(
    autojump_clock,
):
    async def agent(context, updater):
        if context.task is not None:
            await updater.reply("hi")
        await updater.require_input()

    async with open_desk(agent) as desk:
        task = await desk.send()
        with pytest.raises(InvalidAgentResponseError):
            await desk.send(task_id=task.id)
        assert await desk.get(task.id) == task


@pytest.mark.requirement("S5-REPLY")
@within(5)
async def test_after_a_reply_nothing_else_can_be_reported(autojump_clock):
    refused = []

    async def agent(_context, updater):
        await updater.reply("hi")
        for call in calls(updater).values():
            with pytest.raises(InvalidAgentResponseError):
                await call()
            refused.append(call)

    async with open_desk(agent) as desk:
        assert texts(await desk.streamed()) == ["hi"]
        assert desk.manager.statistics().queues == 0
    assert len(refused) == 10


@pytest.mark.requirement("S5-REPLY")
@within(5)
async def test_the_second_of_two_replies_is_refused(autojump_clock):
    async def agent(_context, updater):
        async with trio.open_nursery() as nursery:
            outcomes.extend(start(nursery, updater.reply, text) for text in ("one", "two"))

    outcomes = []
    async with open_desk(agent) as desk:
        answer = await desk.send()
    assert sorted(outcome.error is None for outcome in outcomes) == [False, True]
    assert answer.text() == ["one", "two"][outcomes[1].error is None]


# ------------------------------------------------------------------------------------------- checkpoints, cancellation


@within(5)
async def test_every_method_is_a_checkpoint(autojump_clock):
    async def agent(_context, updater):
        for call in (
            updater.start_work,
            partial(updater.add_artifact, "x"),
            updater.require_input,
            updater.flush,
            updater.complete,
            updater.flush,
        ):
            with trio.testing.assert_checkpoints():
                await call()

    task, _ = await run(agent)
    assert task.status.state is TaskState.COMPLETED


@pytest.mark.parametrize("method", ["start_work", "complete", "require_input"])
@within(5)
async def test_a_first_report_that_is_cancelled_was_not_made_and_the_next_one_takes_its_place(autojump_clock, method):
    async def agent(_context, updater):
        with trio.CancelScope() as scope:
            scope.cancel()
            await getattr(updater, method)("never")
        assert scope.cancelled_caught
        await updater.start_work("but this")

    task, events = await run(agent)
    assert states(events) == ["SUBMITTED", "WORKING"]
    assert texts(task.history) == ["hello"]


@within(5)
async def test_a_reply_that_is_cancelled_was_not_made(autojump_clock):
    async def agent(_context, updater):
        with trio.CancelScope() as scope:
            scope.cancel()
            await updater.reply("never")
        assert scope.cancelled_caught
        await updater.complete()

    _, events = await run(agent)
    assert states(events) == ["SUBMITTED", "COMPLETED"]


@within(5)
async def test_an_end_that_is_cancelled_was_not_made(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work()
        with trio.CancelScope() as scope:
            scope.cancel()
            await updater.complete()
        await updater.fail("after all")

    _, events = await run(agent)
    assert states(events) == ["SUBMITTED", "WORKING", "FAILED"]


class Unwilling(Reports):
    """Takes no reports until it is told to."""

    def __init__(self):
        self.willing = False
        self.events = []

    async def state(self):
        await trio.lowlevel.checkpoint()

    async def report(self, event, message):
        await trio.lowlevel.checkpoint()
        if not self.willing:
            raise EventQueueClosedError("t")
        self.events.append((event, message))

    async def flush(self):
        await trio.lowlevel.checkpoint()


@within(5)
async def test_what_was_not_taken_was_not_reported(autojump_clock):
    reports = Unwilling()
    message = Message.user("hello")
    updater = TaskUpdater(reports, "t", "c", message=message, direct_reply=True)
    for call in (updater._promise, updater.start_work, partial(updater.reply, "x"), updater.complete):
        with pytest.raises(EventQueueClosedError):
            await call()
    reports.willing = True
    await updater.reply("hi")
    ((event, _),) = reports.events
    assert isinstance(event, Message)
    assert repr(updater) == "<TaskUpdater of 't'>"


# --------------------------------------------------------------------------------------------------- from outside a run


async def left_working(_context, updater):
    await updater.start_work()


@pytest.mark.requirement("S5-APP-UPDATER")
@within(5)
async def test_from_outside_a_run_a_task_is_reported_on_and_ended(autojump_clock):
    async with open_desk(left_working) as desk:
        task = await desk.send()
        async with desk.subscribe(task.id) as stream:
            updater = desk.operations.updater(task.id)
            await updater.start_work("still at it")
            assert updater.context_id == task.context_id
            await updater.add_artifact("late", name="result")
            await updater.complete("at last")
            assert (await desk.get(task.id)).status.state is TaskState.COMPLETED
            events = await rest(stream)
    assert states(events) == ["WORKING", "WORKING", "TaskArtifactUpdateEvent", "COMPLETED"]
    assert {event.context_id for event in events} == {task.context_id}


@pytest.mark.requirement("S5-APP-UPDATER")
@within(5)
async def test_from_outside_a_run_an_unknown_task_is_not_found_and_none_is_made(autojump_clock):
    async with open_desk(left_working) as desk:
        updater = desk.operations.updater("nothing")
        for call in (updater.start_work, partial(updater.add_artifact, "x"), updater.complete):
            with pytest.raises(TaskNotFoundError):
                await call()
        assert await desk.manager.store.get("nothing") is None


@pytest.mark.requirement("S5-APP-UPDATER", "S5-TERMINAL-ERROR")
@within(5)
async def test_from_outside_a_run_a_task_that_is_over_raises(autojump_clock):
    async def agent(_context, updater):
        await updater.complete()

    async with open_desk(agent) as desk:
        task = await desk.send()
        updater = desk.operations.updater(task.id)
        for call in (updater.start_work, partial(updater.add_artifact, "x"), updater.complete):
            with pytest.raises(TaskTerminalError):
                await call()
        await updater.flush()
        assert await desk.get(task.id) == task


@within(5)
async def test_from_outside_a_run_there_is_no_direct_reply(autojump_clock):
    async with open_desk(left_working) as desk:
        task = await desk.send()
        with pytest.raises(InvalidAgentResponseError):
            await desk.operations.updater(task.id).reply("hi")


@within(5)
async def test_from_outside_a_run_one_of_two_ends_wins_and_the_other_is_told(autojump_clock):
    async with open_desk(left_working) as desk:
        task = await desk.send()
        updater = desk.operations.updater(task.id)
        async with trio.open_nursery() as nursery:
            outcomes = [start(nursery, call) for call in (updater.complete, updater.fail)]
        assert sorted(outcome.error is None for outcome in outcomes) == [False, True]


@within(5)
async def test_an_end_from_outside_that_cannot_be_stored_raises(autojump_clock, caplog):
    store = FlakyStore(error=TaskPersistenceError("full"))
    async with open_desk(left_working, store=store) as desk:
        task = await desk.send()
        store.refuse = lambda _: True
        with pytest.raises(StoreError):
            await desk.operations.updater(task.id).complete()
        store.refuse = None
        assert (await desk.get(task.id)).status.state is TaskState.WORKING


@within(5)
async def test_a_report_of_the_agent_and_one_from_outside_are_both_seen(autojump_clock):
    go_on = trio.Event()

    async def agent(_context, updater):
        await updater.start_work()
        await go_on.wait()
        await updater.complete("by the agent")

    async with open_desk(agent) as desk, desk.stream() as sent:
        stream = Stream(sent)
        task = await stream.next()
        await stream.next()
        await desk.operations.updater(task.id).start_work("from outside")
        assert (await stream.next()).status.message.text() == "from outside"
        go_on.set()
        assert isinstance(end := await stream.next(), TaskStatusUpdateEvent)
        assert end.status.message.text() == "by the agent"
        assert texts((await desk.get(task.id)).history) == ["hello", "from outside"]
