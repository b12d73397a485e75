"""The statements on GetTask, ListTasks and CancelTask, over both HTTP bindings."""

import math

import pytest
import trio
import trio.testing

from tests.agents.desk import start
from tests.contract.bindings import PAIR, both_bindings, open_caller, said, states
from tests.deadline import within
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.types import TaskState

FINAL = [state for state in TaskState if state.is_final]


async def talk(context, updater):
    """Ends in the state that it is told, with five messages in the history."""
    for number in range(4):
        await updater.start_work(str(number))
    await updater.add_artifact("a")
    await updater.update_status(TaskState[context.text()])


async def ask(_context, updater):
    await updater.require_input("What?")


async def work(_context, updater):
    await updater.start_work()
    await trio.sleep_forever()


def said_in(task):
    return [message["parts"][0]["text"] for message in task.get("history", ())]


# ------------------------------------------------------------------------------------------------------------- GetTask


@pytest.mark.requirement("C-083")
@both_bindings
@within(5)
async def test_a_task_is_shown_with_status_artifacts_and_history(autojump_clock, binding):
    async with open_caller(binding, talk) as caller:
        task = await caller.get((await caller.send("COMPLETED"))["id"])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "a"}]
    assert said_in(task) == ["COMPLETED", "0", "1", "2", "3"]


@pytest.mark.requirement("C-084", "C-231")
@both_bindings
@within(5)
async def test_a_task_that_is_none_is_not_found(autojump_clock, binding):
    async with open_caller(binding, talk) as caller:
        answer = await caller.call("GetTask", {"id": "unknown"})
    assert answer.reason == "TASK_NOT_FOUND"
    assert answer.error["code"] == (-32001 if binding == "JSONRPC" else 404)


@pytest.mark.requirement("C-085", "C-086", "C-087", "B63")
@pytest.mark.parametrize(("length", "count"), [(None, 5), (0, 0), (1, 1), (2, 2), (5, 5), (99, 5)])
@both_bindings
@within(5)
async def test_history_has_the_newest_messages_and_no_more_than_were_asked_for(autojump_clock, binding, length, count):
    async with open_caller(binding, talk) as caller:
        task = await caller.send("COMPLETED")
        options = {} if length is None else {"historyLength": length}
        shown = await caller.get(task["id"], **options)
    assert said_in(shown) == ["COMPLETED", "0", "1", "2", "3"][5 - count :]
    assert ("history" in shown) == (count > 0)


@pytest.mark.requirement("C-088")
@pytest.mark.parametrize(
    ("operation", "params", "field"),
    [
        ("GetTask", {"id": "any", "historyLength": -1}, "historyLength"),
        ("ListTasks", {"historyLength": -1}, "historyLength"),
        ("SendMessage", said(configuration={"historyLength": -1}), "configuration.historyLength"),
    ],
)
@both_bindings
@within(5)
async def test_a_negative_history_length_is_refused(autojump_clock, binding, operation, params, field):
    async with open_caller(binding, talk) as caller:
        answer = await caller.call(operation, params)
    assert answer.reason == "INVALID_PARAMS"
    assert answer.fields == [field]


# ----------------------------------------------------------------------------------------------------------- ListTasks


async def listed(caller, **members):
    return (await caller.call("ListTasks", members)).result


def ids(page):
    return [task["id"] for task in page["tasks"]]


@pytest.mark.requirement("C-089")
@both_bindings
@within(5)
async def test_a_list_has_the_caller_s_tasks_alone(autojump_clock, binding):
    async with open_caller(binding, ask, **PAIR) as caller:
        ann, bob = caller.by("a-token"), caller.by("b-token")
        task = await ann.send()
        other = await bob.send()
        assert ids(await listed(ann)) == [task["id"]]
        assert ids(await listed(bob)) == [other["id"]]
        assert await listed(bob, contextId=task["contextId"]) == {
            "tasks": [],
            "nextPageToken": "",
            "pageSize": 50,
            "totalSize": 0,
        }


@pytest.mark.requirement("C-090")
@both_bindings
@within(30)
async def test_the_task_that_was_updated_last_comes_first(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        tasks = []
        for _ in range(3):
            tasks.append((await caller.send())["id"])
            await trio.sleep(1)
        assert ids(await listed(caller)) == tasks[::-1]
        await caller.send(taskId=tasks[0])
        assert ids(await listed(caller)) == [tasks[0], tasks[2], tasks[1]]


@pytest.mark.requirement("C-091")
@both_bindings
@within(30)
async def test_pages_have_each_old_task_once_while_new_ones_are_made(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        old = []
        for _ in range(7):
            old.append((await caller.send())["id"])
            await trio.sleep(1)
        seen, token = [], ""
        while True:
            page = await listed(caller, pageSize=2, **({"pageToken": token} if token else {}))
            seen += ids(page)
            await caller.send()
            await trio.sleep(1)
            token = page["nextPageToken"]
            if not token:
                break
    assert seen == old[::-1]


@pytest.mark.requirement("C-092", "C-093")
@both_bindings
@within(5)
async def test_a_list_has_all_its_members_also_when_it_is_empty(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        assert await listed(caller) == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
        await caller.send()
        page = await listed(caller, pageSize=1)
    assert page["nextPageToken"] == ""
    assert (page["pageSize"], page["totalSize"]) == (1, 1)


@pytest.mark.requirement("C-094", "C-095")
@pytest.mark.parametrize("included", [None, False, True])
@both_bindings
@within(5)
async def test_artifacts_are_listed_if_they_are_asked_for(autojump_clock, binding, included):
    async def agent(context, updater):
        await (talk(context, updater) if context.text() == "COMPLETED" else ask(context, updater))

    async with open_caller(binding, agent) as caller:
        task = await caller.send("COMPLETED")
        await caller.send()
        page = await listed(caller, **({} if included is None else {"includeArtifacts": included}))
    shown = {one["id"]: one.get("artifacts") for one in page["tasks"]}
    assert shown[task["id"]] == (task["artifacts"] if included else None)
    assert len(shown) == 2
    assert all(("artifacts" in one) == (shown[one["id"]] is not None) for one in page["tasks"])


@pytest.mark.requirement("C-096")
@both_bindings
@within(30)
async def test_a_page_has_50_tasks_and_from_1_to_100_on_request(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        for _ in range(60):
            await caller.send()
        for size, count in ((None, 50), (1, 1), (100, 60)):
            page = await listed(caller, **({} if size is None else {"pageSize": size}))
            assert (len(page["tasks"]), page["pageSize"], page["totalSize"]) == (count, size or 50, 60)
        for size in (0, -1, 101):
            answer = await caller.call("ListTasks", {"pageSize": size})
            assert answer.reason == "INVALID_PARAMS"
            assert answer.fields == ["pageSize"]


@pytest.mark.requirement("C-097", "C-098", "C-100")
@both_bindings
@within(5)
async def test_a_list_is_filtered_by_context_and_state_and_counts_what_matches(autojump_clock, binding):
    async with open_caller(binding, talk) as caller:
        first = await caller.send("COMPLETED", contextId="one")
        second = await caller.send("FAILED", contextId="one")
        third = await caller.send("COMPLETED", contextId="two")
        assert set(ids(await listed(caller, contextId="one"))) == {first["id"], second["id"]}
        assert set(ids(await listed(caller, status="TASK_STATE_COMPLETED"))) == {first["id"], third["id"]}
        assert ids(await listed(caller, status="TASK_STATE_COMPLETED", contextId="two")) == [third["id"]]
        page = await listed(caller, pageSize=1)
        assert (len(page["tasks"]), page["totalSize"]) == (1, 3)
        answer = await caller.call("ListTasks", {"status": "TASK_STATE_RUNNING"})
    assert answer.reason == "INVALID_PARAMS"
    assert answer.fields == ["status"]


@pytest.mark.requirement("C-099")
@both_bindings
@within(5)
async def test_the_time_filter_includes_its_boundary(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        first = await caller.send()
        await trio.sleep(1)
        second, third = await caller.send(), None
        await trio.sleep(1)
        third = await caller.send()
        after = await listed(caller, statusTimestampAfter=second["status"]["timestamp"])
        future = await listed(caller, statusTimestampAfter="9999-01-01T00:00:00Z")
    assert ids(after) == [third["id"], second["id"]]
    assert first["id"] not in ids(after)
    assert future["totalSize"] == 0


@pytest.mark.requirement("B62")
@pytest.mark.parametrize("text", ["yesterday", "2026-01-01", "2026-01-01T00:00:00", "-1"])
@both_bindings
@within(5)
async def test_what_is_no_time_is_refused(autojump_clock, binding, text):
    async with open_caller(binding, ask) as caller:
        answer = await caller.call("ListTasks", {"statusTimestampAfter": text})
    assert answer.reason == "INVALID_PARAMS"
    assert answer.fields == ["statusTimestampAfter"]


@pytest.mark.requirement("C-101", "B63")
@both_bindings
@within(5)
async def test_history_length_counts_for_each_task_of_a_list(autojump_clock, binding):
    async with open_caller(binding, talk) as caller:
        for _ in range(2):
            await caller.send("COMPLETED")
        assert [said_in(task) for task in (await listed(caller, historyLength=1))["tasks"]] == [["3"], ["3"]]
        assert not any("history" in task for task in (await listed(caller))["tasks"])


@pytest.mark.requirement("C-102")
@both_bindings
@within(5)
async def test_a_page_token_is_good_for_its_own_list_and_caller_alone(autojump_clock, binding):
    async with open_caller(binding, ask, **PAIR) as caller:
        ann, bob = caller.by("a-token"), caller.by("b-token")
        for _ in range(3):
            await ann.send(contextId="one")
        token = (await listed(ann, pageSize=1))["nextPageToken"]
        for one, params in (
            (ann, {"pageToken": "garbage"}),
            (ann, {"pageToken": token, "contextId": "one"}),
            (bob, {"pageToken": token}),
        ):
            answer = await one.call("ListTasks", params)
            assert answer.reason == "INVALID_PARAMS"
            assert answer.fields == ["pageToken"]
        assert len((await listed(ann, pageSize=2, pageToken=token))["tasks"]) == 2


# ---------------------------------------------------------------------------------------------------------- CancelTask


@pytest.mark.requirement("C-104", "B60")
@both_bindings
@within(5)
async def test_a_cancelled_task_is_returned_and_seen_by_its_streams(autojump_clock, binding):
    async with open_caller(binding, work) as caller:
        async with caller.stream("SendStreamingMessage", said()) as events:
            task = (await events.next())["task"]
            canceled = (await caller.call("CancelTask", {"id": task["id"]})).result
            assert canceled["id"] == task["id"]
            assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
            assert states(await events.all()) == ["WORKING", "CANCELED"]
        assert await caller.get(task["id"]) == canceled


@pytest.mark.requirement("C-105", "B60")
@pytest.mark.parametrize("state", FINAL)
@both_bindings
@within(5)
async def test_a_terminal_task_cannot_be_cancelled(autojump_clock, binding, state):
    async with open_caller(binding, talk) as caller:
        task = await caller.send(state.name)
        answer = await caller.call("CancelTask", {"id": task["id"]})
        assert await caller.get(task["id"]) == task
    assert answer.reason == "TASK_NOT_CANCELABLE"


@pytest.mark.requirement("C-106", "B60")
@both_bindings
@within(5)
async def test_a_task_that_is_none_cannot_be_cancelled(autojump_clock, binding):
    async with open_caller(binding, work) as caller:
        assert (await caller.call("CancelTask", {"id": "unknown"})).reason == "TASK_NOT_FOUND"


@pytest.mark.requirement("C-107", "B60")
@both_bindings
@within(5)
async def test_ten_cancels_at_once_cancel_once(autojump_clock, binding):
    async with open_caller(binding, work) as caller, caller.stream("SendStreamingMessage", said()) as events:
        task = (await events.next())["task"]
        async with trio.open_nursery() as nursery:
            outcomes = [start(nursery, caller.call, "CancelTask", {"id": task["id"]}) for _ in range(10)]
        answers = [outcome.value for outcome in outcomes]
        assert states(await events.all()) == ["WORKING", "CANCELED"]
        for answer in answers:
            if "error" in answer.body:
                assert answer.reason == "TASK_NOT_CANCELABLE"
            else:
                assert answer.result["status"]["state"] == "TASK_STATE_CANCELED"
        assert any("error" not in answer.body for answer in answers)
        again = await caller.call("CancelTask", {"id": task["id"]})
    assert again.reason == "TASK_NOT_CANCELABLE"


@pytest.mark.requirement("C-108", "C-294")
@both_bindings
@within(5)
async def test_a_task_that_was_deleted_is_unknown_to_every_operation(autojump_clock, binding):
    store = InMemoryTaskStore(grace_period=0)
    async with open_caller(binding, talk, store=store) as caller:
        task = await caller.send("COMPLETED")
        await store.delete(task["id"])
        for operation in ("GetTask", "CancelTask", "SubscribeToTask"):
            assert (await caller.call(operation, {"id": task["id"]})).reason == "TASK_NOT_FOUND"
        assert (await listed(caller))["totalSize"] == 0


@pytest.mark.requirement("C-109")
@both_bindings
@within(5)
async def test_the_agent_sees_the_metadata_of_a_cancel(autojump_clock, binding):
    seen = []

    class Agent:
        async def execute(self, _context, updater):
            await updater.start_work()
            await trio.sleep(math.inf)

        async def cancel(self, context, _updater):
            seen.append(context.metadata)

    async with open_caller(binding, Agent()) as caller:
        task = await caller.send(configuration={"returnImmediately": True})
        await caller.call("CancelTask", {"id": task["id"], "metadata": {"reason": "no longer needed"}})
    assert seen == [{"reason": "no longer needed"}]
