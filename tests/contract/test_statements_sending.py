"""The statements on SendMessage, over both HTTP bindings."""

import math

import pytest
import trio
import trio.testing

from tests.agents.desk import start
from tests.contract.bindings import PAIR, both_bindings, open_caller, said, states
from tests.deadline import within
from trio_a2a.errors import InvalidParamsError, TaskTerminalError
from trio_a2a.stores import InMemoryPushConfigStore
from trio_a2a.types import TaskState

STATES = [state for state in TaskState if state.is_final or state.is_interrupted]
FINAL = [state for state in TaskState if state.is_final]


def reporting(state):
    async def agent(_context, updater):
        await updater.update_status(state)

    return agent


async def ask(context, updater):
    if context.task is None:
        await updater.require_input("What?")
    else:
        await updater.complete("Thank you.")


# ----------------------------------------------------------------------------------------------------- when it answers


@pytest.mark.requirement("C-029", "B56")
@pytest.mark.parametrize("state", STATES)
@both_bindings
@within(30)
async def test_a_call_blocks_until_the_task_is_terminal_or_interrupted(autojump_clock, binding, state):
    async def agent(_context, updater):
        await updater.start_work()
        await trio.sleep(20)
        await updater.update_status(state)
        await trio.sleep(math.inf if state is TaskState.AUTH_REQUIRED else 0)

    async with open_caller(binding, agent) as caller:
        before = trio.current_time()
        task = await caller.send()
        assert task["status"]["state"] == state.value
        assert trio.current_time() - before == 20


@pytest.mark.requirement("C-030", "B56")
@both_bindings
@within(5)
async def test_the_answer_has_the_last_state_and_all_artifacts(autojump_clock, binding):
    async def agent(_context, updater):
        for name in ("one", "two", "three"):
            await updater.add_artifact(name, name=name)
        await updater.complete("done")

    async with open_caller(binding, agent) as caller:
        task = await caller.send()
        assert task == await caller.get(task["id"])
    assert [artifact["name"] for artifact in task["artifacts"]] == ["one", "two", "three"]
    assert task["status"]["message"]["parts"] == [{"text": "done"}]


@pytest.mark.requirement("C-031", "C-035", "B57")
@both_bindings
@within(5)
async def test_a_call_that_does_not_wait_is_answered_while_the_work_goes_on(autojump_clock, binding):
    go_on = trio.Event()

    async def agent(_context, updater):
        await updater.start_work()
        await go_on.wait()
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        task = await caller.send(configuration={"returnImmediately": True})
        assert task["status"]["state"] == "TASK_STATE_WORKING"
        go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (await caller.get(task["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.requirement("C-032")
@both_bindings
@within(5)
async def test_a_direct_reply_is_the_same_for_a_call_that_does_not_wait(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.reply("hi")

    async with open_caller(binding, agent) as caller:
        replies = [await caller.send(configuration=c) for c in (None, {"returnImmediately": True})]
    assert [reply["parts"] for reply in replies] == [[{"text": "hi"}]] * 2


@pytest.mark.requirement("C-033")
@both_bindings
@within(5)
async def test_a_stream_runs_to_the_end_also_where_the_call_need_not_wait(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.start_work()
        await trio.sleep(3)
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        events = await caller.streamed(configuration={"returnImmediately": True})
    assert states(events) == ["SUBMITTED", "WORKING", "COMPLETED"]


@pytest.mark.requirement("B65")
@both_bindings
@within(5)
async def test_after_the_end_nothing_is_left_of_a_run(autojump_clock, binding):
    async with open_caller(binding, reporting(TaskState.COMPLETED)) as caller:
        before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(3):
            await caller.send()
            await caller.streamed()
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == before


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.requirement("C-036", "B54")
@pytest.mark.parametrize("state", FINAL)
@both_bindings
@within(5)
async def test_a_terminal_task_takes_no_message(autojump_clock, binding, state):
    async with open_caller(binding, reporting(state)) as caller:
        task = await caller.send()
        answer = await caller.call("SendMessage", said(taskId=task["id"]))
        assert answer.reason == "UNSUPPORTED_OPERATION"
        assert answer.details["ErrorInfo"]["metadata"] == {"taskId": task["id"], "state": state.value}
        assert await caller.get(task["id"]) == task


@pytest.mark.requirement("C-037", "C-038", "B54")
@both_bindings
@within(5)
async def test_an_unknown_task_is_not_found_and_not_made(autojump_clock, binding):
    asked = []

    async def agent(context, _updater):
        asked.append(context)

    async with open_caller(binding, agent) as caller:
        assert (await caller.call("SendMessage", said(taskId="mine"))).reason == "TASK_NOT_FOUND"
        assert (await caller.call("GetTask", {"id": "mine"})).reason == "TASK_NOT_FOUND"
        assert (await caller.call("ListTasks")).result["totalSize"] == 0
    assert not asked


@pytest.mark.requirement("C-039", "C-288")
@both_bindings
@within(5)
async def test_a_part_of_a_media_type_that_the_agent_does_not_list_is_refused(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        answer = await caller.call("SendMessage", said(parts=[{"raw": "AAEC", "mediaType": "application/x-nope"}]))
        assert answer.reason == "CONTENT_TYPE_NOT_SUPPORTED"
        assert (await caller.call("ListTasks")).result["totalSize"] == 0


@pytest.mark.requirement("C-044", "B54")
@both_bindings
@within(5)
async def test_a_context_that_is_not_the_task_s_is_refused(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        task, other = await caller.send(), await caller.send()
        answer = await caller.call("SendMessage", said(taskId=task["id"], contextId=other["contextId"]))
        assert answer.reason == "INVALID_PARAMS"
        assert answer.fields == ["message.contextId"]
        assert await caller.get(task["id"]) == task


# ------------------------------------------------------------------------------------------------- ids and contexts


@pytest.mark.requirement("C-040")
@both_bindings
@within(30)
async def test_each_new_task_has_an_id_of_its_own(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        async with trio.open_nursery() as nursery:
            outcomes = [start(nursery, caller.send) for _ in range(100)]
        ids = {outcome.value["id"] for outcome in outcomes}
    assert len(ids) == 100


@pytest.mark.requirement("C-041")
@both_bindings
@within(5)
async def test_a_new_context_is_told_in_the_answer(autojump_clock, binding):
    async def agent(context, updater):
        await (updater.reply("hi") if context.text() == "reply" else updater.complete())

    async with open_caller(binding, agent) as caller:
        contexts = [(await caller.send(text))["contextId"] for text in ("reply", "work", "work")]
    assert all(contexts)
    assert len(set(contexts)) == 3


@pytest.mark.requirement("C-042")
@both_bindings
@within(5)
async def test_a_context_of_the_client_s_is_kept_or_refused_and_never_replaced(autojump_clock, binding):
    async def agent(context, updater):
        if context.context_id == "taken":
            raise InvalidParamsError("This conversation is closed")
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        assert (await caller.send(contextId="Mine, with spaces"))["contextId"] == "Mine, with spaces"
        assert (await caller.call("SendMessage", said(contextId="taken"))).reason == "INVALID_PARAMS"
        assert (await caller.call("ListTasks", {"contextId": "taken"})).result["totalSize"] == 0


@pytest.mark.requirement("C-043", "B54")
@both_bindings
@within(5)
async def test_a_follow_up_without_a_context_is_in_that_of_its_task(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        first = await caller.send()
        task = await caller.send("this", taskId=first["id"])
    assert task["contextId"] == first["contextId"]
    stored = task["history"][-1]
    assert stored["parts"] == [{"text": "this"}]
    assert (stored["taskId"], stored["contextId"]) == (task["id"], task["contextId"])


@pytest.mark.requirement("C-045")
@both_bindings
@within(5)
async def test_tasks_of_one_context_are_one_session(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        first = await caller.send()
        second = await caller.send(contextId=first["contextId"])
        await caller.send()
        listed = (await caller.call("ListTasks", {"contextId": first["contextId"]})).result
    assert {task["id"] for task in listed["tasks"]} == {first["id"], second["id"]}


@pytest.mark.requirement("C-053")
@both_bindings
@within(5)
async def test_a_task_that_wants_input_is_continued_by_a_message_that_names_it(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        first = await caller.send("go")
        assert first["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        task = await caller.send("this", taskId=first["id"], contextId=first["contextId"])
    assert task["id"] == first["id"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [message["parts"][0]["text"] for message in task["history"]] == ["go", "What?", "this"]


@pytest.mark.requirement("C-048")
@both_bindings
@within(5)
async def test_a_message_that_comes_twice_is_two_messages(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        first, second = await caller.send(messageId="same"), await caller.send(messageId="same")
    assert first["id"] != second["id"]


# --------------------------------------------------------------------------------------------------------- its options


@pytest.mark.requirement("C-046", "C-047", "B56")
@both_bindings
@within(5)
async def test_the_answer_has_the_newest_messages_that_were_asked_for(autojump_clock, binding):
    async def agent(_context, updater):
        for number in range(4):
            await updater.start_work(str(number))
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        whole = await caller.send("user")
        two = await caller.send("user", configuration={"historyLength": 2})
        none = await caller.send("user", configuration={"historyLength": 0})
    assert [message["parts"][0]["text"] for message in whole["history"]] == ["user", "0", "1", "2", "3"]
    assert [message["parts"][0]["text"] for message in two["history"]] == ["2", "3"]
    assert "history" not in none


@pytest.mark.requirement("C-049")
@both_bindings
@within(5)
async def test_the_agent_sees_which_output_the_caller_wants(autojump_clock, binding):
    async def agent(context, updater):
        await updater.reply(", ".join(context.configuration.accepted_output_modes))

    async with open_caller(binding, agent) as caller:
        reply = await caller.send(configuration={"acceptedOutputModes": ["text/plain", "image/*"]})
    assert reply["parts"] == [{"text": "text/plain, image/*"}]


@pytest.mark.requirement("C-051")
@both_bindings
@within(5)
async def test_the_agent_sees_the_tasks_that_a_message_refers_to_if_its_sender_may(autojump_clock, binding):
    seen = []

    async def agent(context, updater):
        seen.append([task.id for task in context.related_tasks])
        await updater.complete()

    async with open_caller(binding, agent, **PAIR) as caller:
        ann, bob = caller.by("a-token"), caller.by("b-token")
        first, foreign = await ann.send(), await bob.send()
        await ann.send(referenceTaskIds=[foreign["id"], "unknown", first["id"]])
    assert seen == [[], [], [first["id"]]]


@pytest.mark.requirement("B55", "C-122")
@both_bindings
@within(5)
async def test_a_push_configuration_that_comes_with_a_message_is_there_when_the_agent_begins(autojump_clock, binding):
    push = InMemoryPushConfigStore()
    seen = []

    async def agent(context, updater):
        seen.extend(await push.list(context.task_id))
        await updater.complete()

    config = {"url": "https://hooks.example", "token": "t"}
    async with open_caller(binding, agent, push=push) as caller:
        task = await caller.send(configuration={"taskPushNotificationConfig": config})
        listed = (await caller.call("ListTaskPushNotificationConfigs", {"taskId": task["id"]})).result["configs"]
    assert [(one.task_id, one.url, one.token) for one in seen] == [(task["id"], "https://hooks.example", "t")]
    assert [(one["taskId"], one["id"]) for one in listed] == [(task["id"], seen[0].id)]


# ---------------------------------------------------------------------------------------------------------- the agent


@pytest.mark.requirement("C-056")
@pytest.mark.parametrize("state", FINAL)
@both_bindings
@within(5)
async def test_a_terminal_task_never_changes(autojump_clock, binding, state):
    refused = []

    async def agent(_context, updater):
        await updater.update_status(state)
        for report in (updater.start_work, updater.complete, lambda: updater.add_artifact("more")):
            with pytest.raises(TaskTerminalError) as caught:
                await report()
            refused.append(caught)

    async with open_caller(binding, agent) as caller:
        task = await caller.send()
        await trio.testing.wait_all_tasks_blocked()
        assert await caller.get(task["id"]) == task
    assert task["status"]["state"] == state.value
    assert len(refused) == 3


@pytest.mark.requirement("B58")
@both_bindings
@within(5)
async def test_what_an_agent_raises_is_its_own_task_s_failure(autojump_clock, binding, caplog):
    async def agent(_context, updater):
        await updater.start_work()
        raise RuntimeError("the secret of the house")

    async with open_caller(binding, agent) as caller:
        task = await caller.send()
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert task["status"]["message"]["parts"] == [{"text": "The agent failed."}]
    assert "the secret of the house" in caplog.text
