"""A scripted agent does what its script says, task by task, and writes down what it was asked."""

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a import Agent, agent_card
from trio_a2a.agents import RequestContext
from trio_a2a.agents.updater import TaskUpdater
from trio_a2a.errors import UnsupportedOperationError
from trio_a2a.testing import ScriptedAgent, Step, check_agent_executor, serve_in_memory
from trio_a2a.types import Message, Task, TaskArtifactUpdateEvent, TaskState


@pytest.mark.requirement("S7-TESTING")
@within(100)
async def test_a_script_is_played_step_by_step_on_trio_s_clock(autojump_clock):
    """Every kind of report, and the seconds in between."""
    agent = ScriptedAgent(
        Step.work("on it"),
        Step.artifact("one", artifact_id="a", name="numbers"),
        Step.sleep(30),
        Step.artifact(" two", artifact_id="a", append=True, last_chunk=True),
        Step.status(TaskState.WORKING, "nearly", metadata={"done": 0.9}),
        Step.complete("done"),
    )
    async with serve_in_memory(agent) as client, client.stream("go") as events:
        seen = [event async for event in events]
    assert trio.current_time() == pytest.approx(30)
    assert isinstance(seen[0], Task)
    assert sum(isinstance(event, TaskArtifactUpdateEvent) for event in seen) == 2
    assert events.task.artifacts[0].text("") == "one two"
    assert events.task.metadata == {"done": 0.9}
    assert events.task.status.state is TaskState.COMPLETED
    assert agent.texts == ["go"]
    assert repr(agent) == "<ScriptedAgent of 6 steps, called 1 times>"


@within(5)
async def test_the_next_message_of_a_task_goes_on_where_its_script_stopped(autojump_clock):
    agent = ScriptedAgent(Step.require_input("Which?"), Step.require_auth("Who?"), Step.fail("no such thing"))
    async with serve_in_memory(agent) as client:
        one, two = await client.send("x"), await client.send("y")
        assert one.status.message.text() == two.status.message.text() == "Which?"
        asked = await client.send("this one", task_id=one.id)
        assert asked.status.state is TaskState.AUTH_REQUIRED
        await agent.wait_until_idle()
        assert (await client.get_task(one.id)).status.state is TaskState.FAILED
        assert (await client.get_task(two.id)).status.state is TaskState.INPUT_REQUIRED
    assert agent.texts == ["x", "y", "this one"]


@within(5)
async def test_a_message_for_which_there_is_no_step_left_is_told_to_the_log(autojump_clock, caplog):
    async with serve_in_memory(ScriptedAgent(Step.require_input())) as client:
        task = await client.send("x")
        assert (await client.send("more", task_id=task.id)).status.state is TaskState.FAILED
    assert "no step left for the message 'more'" in caplog.text


@within(5)
async def test_a_script_may_depend_on_the_text_of_the_message(autojump_clock):
    async def hello(context, updater):
        await updater.reply(f"{context.text()} yourself")

    agent = ScriptedAgent(
        Step.complete(),
        by_text={
            "hello": hello,
            "no": [Step.error(UnsupportedOperationError("no"))],
            "break": [Step.error(OSError())],
        },
    )
    async with serve_in_memory(agent) as client:
        answer = await client.send("hello")
        assert isinstance(answer, Message)
        assert answer.text() == "hello yourself"
        with pytest.raises(UnsupportedOperationError):
            await client.send("no")
        assert (await client.send("break")).status.message.text() == "The agent failed."
        assert (await client.send("else")).status.state is TaskState.COMPLETED


@within(100)
async def test_a_run_waits_until_the_test_releases_it(autojump_clock):
    gated = ScriptedAgent(Step.wait("first"), Step.work(), Step.wait("second"), Step.complete())
    async with serve_in_memory(gated) as client, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(client.send, "x")
        await gated.wait_until_called(2)
        gated.release("first", times=2)
        await trio.testing.wait_all_tasks_blocked()
        assert gated.running == 2
        gated.release("second")
        await trio.testing.wait_all_tasks_blocked()
        assert gated.running == 1
        gated.release("second")
    assert gated.running == 0


@within(100)
async def test_cancellations_are_written_down(autojump_clock):
    agent = ScriptedAgent(Step.work(), Step.hold(), on_cancel=[Step.artifact("what there is"), Step.sleep(1)])
    async with serve_in_memory(agent) as client:
        task = await client.send("x", return_immediately=True)
        canceled = await client.cancel_task(task.id)
        assert canceled.status.state is TaskState.CANCELED
        assert canceled.artifacts[0].text() == "what there is"
    assert [context.task_id for context in agent.cancellations] == [task.id]
    assert agent.cancellations[0].message is None
    assert agent.cancelled == [task.id]
    assert agent.running == 0


class Silent:
    """Takes reports, and shows them to nobody."""

    async def state(self):
        return None

    async def report(self, event, message):
        await trio.lowlevel.checkpoint()

    async def flush(self):
        await trio.lowlevel.checkpoint()


@within(5)
async def test_a_resumed_task_goes_on_with_its_script(autojump_clock):
    agent = ScriptedAgent(Step.work(), Step.wait("crash"), Step.artifact("x"))
    context = RequestContext(message=Message.user("x"), task=None, task_id="t", context_id="c")
    with trio.move_on_after(1):
        await agent.execute(context, TaskUpdater(Silent(), "t", "c"))
    await agent.resume(context, TaskUpdater(Silent(), "t", "c"))
    assert [one.task_id for one in agent.resumptions] == ["t"]
    assert agent.cancelled == ["t"]
    with pytest.raises(AssertionError, match="no step left"):
        await agent.resume(context, TaskUpdater(Silent(), "t", "c"))


@pytest.mark.requirement("S7-EXECUTOR-SUITE", "S7-CONFORMANCE")
@within(100_000)
async def test_a_scripted_agent_is_an_executor(autojump_clock):
    await check_agent_executor(
        lambda: ScriptedAgent(
            Step.work(), Step.sleep(1), Step.artifact("x"), Step.complete(), on_cancel=[Step.sleep(1)]
        )
    )


def test_what_is_no_step_is_refused_at_once():
    with pytest.raises(TypeError, match="a step is a Step"):
        ScriptedAgent(TaskState.WORKING)
    assert repr(Step.sleep(3)) == "Step(text='sleep 3', ends_run=False)"
    assert Agent(agent_card("x", "y"), ScriptedAgent(Step.complete())).executor is not None
