"""The statements on streams, over both HTTP bindings."""

import attrs
import pytest
import trio
import trio.testing

from tests.agents.desk import start
from tests.contract.bindings import PAIR, both_bindings, open_caller, said, states
from tests.deadline import within
from trio_a2a.errors import InvalidAgentResponseError
from trio_a2a.server import agent_card
from trio_a2a.types import AgentCapabilities, TaskState

FINAL = [state for state in TaskState if state.is_final]
STREAMS = ["SendStreamingMessage", "SubscribeToTask"]


def reporting(state):
    async def agent(_context, updater):
        await updater.update_status(state)

    return agent


async def ask(context, updater):
    if context.task is None:
        await updater.require_input("What?")
    else:
        await updater.complete("Thank you.")


def chunks(events):
    """The texts of the artifact updates."""
    return [event["artifactUpdate"]["artifact"]["parts"][0]["text"] for event in events if "artifactUpdate" in event]


# ------------------------------------------------------------------------------------------------ SendStreamingMessage


@pytest.mark.requirement("C-057", "C-064")
@both_bindings
@within(5)
async def test_each_event_is_read_before_the_agent_makes_the_next(autojump_clock, binding):
    steps = [trio.Event() for _ in range(3)]

    async def agent(_context, updater):
        for number, step in enumerate(steps):
            await updater.add_artifact(str(number))
            await step.wait()
        await updater.complete()

    async with (
        open_caller(binding, agent) as caller,
        caller.stream("SendStreamingMessage", said()) as events,
    ):
        assert states([await events.next()]) == ["SUBMITTED"]
        for number, step in enumerate(steps):
            assert chunks([await events.next()]) == [str(number)]
            step.set()
        assert states(await events.all()) == ["COMPLETED"]


@pytest.mark.requirement("C-058")
@both_bindings
@within(5)
async def test_a_direct_reply_is_a_stream_of_one_message(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.reply("hi")

    async with open_caller(binding, agent) as caller:
        events = await caller.streamed()
    assert [event["message"]["parts"] for event in events] == [[{"text": "hi"}]]


@pytest.mark.requirement("C-059")
@both_bindings
@within(5)
async def test_the_first_event_is_the_task_also_for_a_follow_up(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        first = await caller.streamed()
        task = await caller.get(first[0]["task"]["id"])
        second = await caller.streamed(taskId=task["id"])
    assert states(first) == ["SUBMITTED", "INPUT_REQUIRED"]
    assert second[0] == {"task": task}
    assert states(second[1:]) == ["COMPLETED"]


@pytest.mark.requirement("C-060", "C-073")
@both_bindings
@within(5)
async def test_after_the_task_come_updates_and_nothing_else(autojump_clock, binding):
    refused = []

    async def agent(_context, updater):
        await updater.start_work()
        with pytest.raises(InvalidAgentResponseError) as caught:
            await updater.reply("no")
        refused.append(caught)
        await updater.add_artifact("a")
        raise caught.value

    async with open_caller(binding, agent) as caller:
        events = await caller.streamed()
    assert len(refused) == 1
    assert [list(event) for event in events] == [["task"], ["statusUpdate"], ["artifactUpdate"], ["statusUpdate"]]
    assert states(events)[-1] == "FAILED"


@pytest.mark.requirement("C-061")
@pytest.mark.parametrize("state", FINAL)
@both_bindings
@within(5)
async def test_a_stream_ends_when_the_task_does(autojump_clock, binding, state):
    async def agent(_context, updater):
        await updater.update_status(state)
        await trio.sleep_forever()

    async with open_caller(binding, agent) as caller:
        assert states(await caller.streamed()) == ["SUBMITTED", state.name]


@pytest.mark.requirement("C-062", "C-079")
@pytest.mark.parametrize("operation", STREAMS)
@both_bindings
@within(5)
async def test_an_agent_that_does_not_stream_says_so_before_anything_else(autojump_clock, binding, operation):
    """A capability that a card leaves open follows what is served, so an absent one is never an agent's own."""
    card = attrs.evolve(agent_card("Tested", "."), capabilities=AgentCapabilities(streaming=False))
    params = said(taskId="unknown") if operation == "SendStreamingMessage" else {"id": "unknown"}
    async with open_caller(binding, ask, card=card) as caller:
        assert (await caller.call(operation, params)).reason == "UNSUPPORTED_OPERATION"
    async with open_caller(binding, ask) as caller:
        assert caller.app.agent.card.capabilities.streaming is True


@pytest.mark.requirement("C-063")
@both_bindings
@within(5)
async def test_what_is_refused_is_refused_in_a_plain_answer(autojump_clock, binding):
    async with open_caller(binding, reporting(TaskState.COMPLETED)) as caller:
        task = await caller.send()
        for members, reason in (
            ({"taskId": task["id"]}, "UNSUPPORTED_OPERATION"),
            ({"taskId": "unknown"}, "TASK_NOT_FOUND"),
            ({"parts": [{"text": "a", "mediaType": "application/x-nope"}]}, "CONTENT_TYPE_NOT_SUPPORTED"),
            ({"parts": []}, "INVALID_PARAMS"),
        ):
            plain = await caller.call("SendMessage", said(**members))
            answer = await caller.call("SendStreamingMessage", said(**members))
            assert answer.reason == reason
            assert (answer.status, answer.error) == (plain.status, plain.error)


@pytest.mark.requirement("C-065", "C-066", "C-083")
@both_bindings
@within(30)
async def test_five_hundred_chunks_come_in_order_and_are_the_artifact_in_the_end(autojump_clock, binding):
    async def agent(_context, updater):
        async with updater.artifact(name="numbers") as out:
            for number in range(500):
                await out.write(str(number))
        await updater.complete()

    numbers = [str(number) for number in range(500)]
    async with open_caller(binding, agent) as caller:
        events = await caller.streamed()
        assert chunks(events)[:500] == numbers
        (artifact,) = (await caller.get(events[0]["task"]["id"]))["artifacts"]
    assert [part["text"] for part in artifact["parts"]] == numbers


@pytest.mark.requirement("C-067", "C-068", "C-069", "C-070")
@both_bindings
@within(10)
async def test_all_streams_of_a_task_get_the_same_and_one_that_leaves_changes_nothing(autojump_clock, binding):
    turns = [trio.Event(), trio.Event()]

    async def agent(_context, updater):
        await updater.start_work()
        for turn in turns:
            await turn.wait()
            await updater.add_artifact("a")
            await updater.add_artifact("b")
        await updater.complete()

    async with (
        open_caller(binding, agent) as caller,
        trio.open_nursery() as nursery,
        caller.stream("SendStreamingMessage", said()) as sender,
    ):
        task = (await sender.next())["task"]
        assert states([await sender.next()]) == ["WORKING"]
        async with (
            caller.stream("SubscribeToTask", {"id": task["id"]}) as first,
            caller.over("JSONRPC" if binding == "HTTP+JSON" else "HTTP+JSON").stream(
                "SubscribeToTask", {"id": task["id"]}
            ) as other,
        ):
            for stream in (first, other):
                assert states([await stream.next()]) == ["WORKING"]
            async with caller.stream("SubscribeToTask", {"id": task["id"]}) as leaving:
                await leaving.next()
                turns[0].set()
                await leaving.next()
            turns[1].set()
            outcomes = [start(nursery, stream.all) for stream in (sender, first, other)]
            results = [await outcome.result() for outcome in outcomes]
    assert results[0] == results[1] == results[2]
    assert chunks(results[0]) == ["a", "b", "a", "b"]
    assert states(results[0])[-1] == "COMPLETED"


@pytest.mark.requirement("C-071")
@both_bindings
@within(5)
async def test_a_task_goes_on_when_all_its_streams_are_gone(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.start_work()
        await trio.sleep(2)
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        async with caller.stream("SendStreamingMessage", said()) as sender:
            task = (await sender.next())["task"]
            async with caller.stream("SubscribeToTask", {"id": task["id"]}) as subscriber:
                await subscriber.next()
        await trio.sleep(3)
        assert (await caller.get(task["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.requirement("C-072", "C-278", "C-279")
@both_bindings
@within(5)
async def test_a_stream_stays_open_while_a_credential_comes_from_elsewhere(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.require_auth("Please log in at https://login.example.")

    async with open_caller(binding, agent) as caller:
        async with caller.stream("SendStreamingMessage", said()) as events:
            task = (await events.next())["task"]
            assert states([await events.next()]) == ["AUTH_REQUIRED"]
            await trio.testing.wait_all_tasks_blocked()  # the run is over
            updater = caller.app.updater(task["id"])
            await updater.start_work()
            await updater.complete()
            assert states(await events.all()) == ["WORKING", "COMPLETED"]
        assert (await caller.get(task["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


# ----------------------------------------------------------------------------------------------------- SubscribeToTask


@pytest.mark.requirement("C-075", "C-076", "B61")
@both_bindings
@within(5)
async def test_a_subscription_begins_with_the_task_as_it_is_and_misses_nothing_after_it(autojump_clock, binding):
    go_on = trio.Event()

    async def agent(_context, updater):
        await updater.add_artifact("one", name="one")
        await updater.start_work("half way")
        await go_on.wait()
        await updater.add_artifact("two", name="two")
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        task = await caller.send(configuration={"returnImmediately": True})
        await trio.testing.wait_all_tasks_blocked()
        async with caller.stream("SubscribeToTask", {"id": task["id"]}) as events:
            assert await events.next() == {"task": await caller.get(task["id"])}
            go_on.set()
            rest = await events.all()
        final = await caller.get(task["id"])
    assert chunks(rest) == ["two"]
    assert states(rest) == ["artifactUpdate", "COMPLETED"]
    assert [artifact["name"] for artifact in final["artifacts"]] == ["one", "two"]


@pytest.mark.requirement("C-076")
@both_bindings
@within(30)
async def test_readers_that_join_while_events_flow_all_end_at_the_stored_task(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.start_work()
        await trio.sleep(1)
        for number in range(60):
            await updater.add_artifact([str(number)], artifact_id="log", append=number > 0)
            await trio.lowlevel.checkpoint()
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        task = await caller.send(configuration={"returnImmediately": True})

        async def read(delay):
            await trio.sleep(delay)
            async with caller.stream("SubscribeToTask", {"id": task["id"]}) as events:
                if events.headers["content-type"] == "application/json":
                    assert (await events.answer()).reason == "UNSUPPORTED_OPERATION"  # the task was over
                    return None
                return await events.all()

        async with trio.open_nursery() as nursery:
            outcomes = [start(nursery, read, delay) for delay in [0.5] * 3 + [1.0] * 20]
        (whole,) = (await caller.get(task["id"]))["artifacts"]
        streams = [outcome.value for outcome in outcomes if outcome.value is not None]
    assert len(streams) >= 3
    for events in streams:
        seen = [part for artifact in events[0]["task"].get("artifacts", ()) for part in artifact["parts"]]
        for event in events[1:]:
            seen += event.get("artifactUpdate", {}).get("artifact", {}).get("parts", [])
        assert seen == whole["parts"]


@pytest.mark.requirement("C-077", "C-247", "C-261", "B61")
@pytest.mark.parametrize("state", FINAL)
@both_bindings
@within(5)
async def test_a_terminal_task_cannot_be_subscribed_to(autojump_clock, binding, state):
    async with open_caller(binding, reporting(state)) as caller:
        task = await caller.send()
        answer = await caller.call("SubscribeToTask", {"id": task["id"]})
    assert answer.reason == "UNSUPPORTED_OPERATION"
    assert answer.headers["content-type"] == "application/json"
    assert answer.status == (200 if binding == "JSONRPC" else 400)


@pytest.mark.requirement("C-078", "B61")
@both_bindings
@within(5)
async def test_a_task_that_the_caller_may_not_see_is_as_unknown_as_one_that_is_none(autojump_clock, binding):
    async with open_caller(binding, ask, **PAIR) as caller:
        task = await caller.by("a-token").send()
        bob = caller.by("b-token")
        hidden = await bob.call("SubscribeToTask", {"id": task["id"]})
        missing = await bob.call("SubscribeToTask", {"id": "0" * len(task["id"])})
    assert hidden.reason == "TASK_NOT_FOUND"
    assert hidden.details["ErrorInfo"]["metadata"] == {"taskId": task["id"]}
    assert str(hidden.body).replace(task["id"], "0" * len(task["id"])) == str(missing.body)
    assert hidden.status == missing.status


@pytest.mark.requirement("C-080", "B61")
@pytest.mark.parametrize("state", FINAL)
@both_bindings
@within(5)
async def test_a_subscription_ends_at_the_terminal_state(autojump_clock, binding, state):
    async with open_caller(binding, ask) as caller:
        task = await caller.send()
        async with caller.stream("SubscribeToTask", {"id": task["id"]}) as events:
            await events.next()
            await caller.app.updater(task["id"]).update_status(state)
            assert states(await events.all()) == [state.name]


@pytest.mark.requirement("C-081", "B61")
@both_bindings
@within(5)
async def test_any_task_that_is_not_over_can_be_subscribed_to(autojump_clock, binding):
    async def agent(context, updater):
        if context.text() == "go":
            await updater.start_work()
            await trio.sleep(1)
            await updater.complete()
        else:
            await updater.update_status(TaskState[context.text()])

    async with open_caller(binding, agent) as caller:
        tasks = [await caller.send("go", configuration={"returnImmediately": True})]
        tasks += [await caller.send(state) for state in ("INPUT_REQUIRED", "AUTH_REQUIRED", "WORKING")]
        tasks.append((await caller.streamed("INPUT_REQUIRED"))[0]["task"])
        for task in tasks:
            async with caller.stream("SubscribeToTask", {"id": task["id"]}) as events:
                assert (await events.next())["task"]["id"] == task["id"]
