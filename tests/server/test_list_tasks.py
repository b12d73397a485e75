"""ListTasks over both HTTP bindings: filters, order, pages, and what is shown of each task."""

from datetime import UTC, datetime, timedelta
from itertools import chain

import attrs
import pytest
import trio
import trio.testing

from tests.deadline import within
from tests.server.bindings import REST, Caller, both_bindings, open_caller
from trio_a2a.abc import TaskChange
from trio_a2a.server import BearerTokenAuthenticator
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.testing import artifact, message, task
from trio_a2a.types import TaskState

START = datetime(2024, 5, 1, 12, tzinfo=UTC)


async def idle(_context, updater):
    await updater.require_input("what?")


async def by_state(context, updater):
    await getattr(updater, context.text())()


def ids(answer) -> list[str]:
    return [one["id"] for one in answer.result["tasks"]]


async def filled(
    count: int, *, owner: str = "", at=lambda number: START + timedelta(minutes=number)
) -> InMemoryTaskStore:
    """A store with tasks t00, t01 ..., the last one newest."""
    store = InMemoryTaskStore()
    for number in range(count):
        await put(store, f"t{number:02}", at(number), owner=owner)
    return store


async def put(store, task_id, at, *, owner="", state=TaskState.WORKING, context="c", sequence=1, tenant=""):
    whole = task(
        task_id,
        state,
        "said",
        context_id=context,
        timestamp=at,
        history=[message("one"), message("two"), message("three")],
        artifacts=[artifact(task_id, "made").artifact],
    )
    change = TaskChange(
        task_id=task_id, sequence=sequence, event=whole, snapshot=lambda: whole, owner=owner, tenant=tenant
    )
    await store.commit([change])


async def all_pages(caller: Caller, **params) -> list[list[str]]:
    pages, token = [], ""
    while True:
        answer = await caller.call("ListTasks", {**params, **({"pageToken": token} if token else {})})
        pages.append(ids(answer))
        token = answer.result["nextPageToken"]
        if not token:
            return pages


# ------------------------------------------------------------------------------------------------ the form of an answer


@pytest.mark.requirement("C-092", "C-093")
@both_bindings
@within(5)
async def test_a_list_of_nothing_has_all_four_members(autojump_clock, binding):
    async with open_caller(binding, idle) as caller:
        answer = await caller.call("ListTasks")
    assert answer.result == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


@pytest.mark.requirement("C-096")
@both_bindings
@within(5)
async def test_the_page_size_is_50_unless_it_is_said_and_at_most_100(autojump_clock, binding):
    async with open_caller(binding, idle, store=await filled(99)) as caller:
        answer = await caller.call("ListTasks")
        assert (len(ids(answer)), answer.result["pageSize"], answer.result["totalSize"]) == (50, 50, 99)
        for size in (1, 98, 99, 100):
            answer = await caller.call("ListTasks", {"pageSize": size})
            assert answer.result["pageSize"] == size
            assert len(ids(answer)) == min(size, 99)
            assert (answer.result["nextPageToken"] == "") is (size >= 99)
        for size in (0, -1, 101, 2**31):
            answer = await caller.call("ListTasks", {"pageSize": size})
            assert answer.reason == "INVALID_PARAMS"
            assert list(answer.fields) == ["pageSize"]


@both_bindings
@within(5)
async def test_exactly_100_tasks_are_one_page_of_100(autojump_clock, binding):
    store = await filled(100)
    async with open_caller(binding, idle, store=store) as caller:
        answer = await caller.call("ListTasks", {"pageSize": 100})
        assert (len(ids(answer)), answer.result["nextPageToken"]) == (100, "")
        await put(store, "one-more", START - timedelta(days=1))
        answer = await caller.call("ListTasks", {"pageSize": 100})
        assert answer.result["nextPageToken"]
        last = await caller.call("ListTasks", {"pageSize": 100, "pageToken": answer.result["nextPageToken"]})
        assert ids(last) == ["one-more"]
        assert last.result["totalSize"] == 101


# -------------------------------------------------------------------------------------------------------------- filters


@pytest.mark.requirement("C-097", "C-098", "C-099", "C-100")
@both_bindings
@within(5)
async def test_filters_combine(autojump_clock, binding):
    store = InMemoryTaskStore()
    await put(store, "a", START, context="one")
    await put(store, "b", START + timedelta(minutes=1), context="one", state=TaskState.COMPLETED)
    await put(store, "c", START + timedelta(minutes=2), context="two")
    await put(store, "d", START + timedelta(minutes=3), context="two", tenant="acme")
    at = "2024-05-01T12:01:00{}Z".format
    async with open_caller(binding, idle, store=store) as caller:

        async def listed(**params):
            answer = await caller.call("ListTasks", params)
            assert answer.result["totalSize"] == len(ids(answer))
            return "".join(ids(answer))

        assert await listed() == "dcba"
        assert await listed(contextId="one") == "ba"
        assert await listed(contextId="none") == ""
        assert await listed(status="TASK_STATE_WORKING") == "dca"
        assert await listed(status="TASK_STATE_WORKING", contextId="one") == "a"
        assert await listed(statusTimestampAfter=at("")) == "dcb"
        assert await listed(statusTimestampAfter=at(".001")) == "dc"
        assert await listed(statusTimestampAfter="2024-05-01T14:01:00+02:00") == "dcb"
        assert await listed(statusTimestampAfter="2999-01-01T00:00:00Z") == ""
        assert await listed(tenant="acme") == "d"
        assert await listed(contextId="two", status="TASK_STATE_WORKING", statusTimestampAfter=at("")) == "dc"


@pytest.mark.requirement("C-102", "C-230")
@both_bindings
@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "WORKING"},
        {"status": "TASK_STATE_GONE"},
        {"statusTimestampAfter": "2024-05-01"},
        {"statusTimestampAfter": "2024-05-01T12:00:00"},
        {"statusTimestampAfter": "2024-13-01T12:00:00Z"},
        {"historyLength": -1},
        {"pageSize": "many"},
        {"pageSize": 1.5},
        {"includeArtifacts": "yes"},
        {"pageToken": "nonsense"},
    ],
    ids=lambda wrong: "-".join(map(str, *wrong.items())),
)
@within(5)
async def test_a_filter_that_is_none_is_refused_by_its_name(autojump_clock, binding, wrong):
    async with open_caller(binding, idle) as caller:
        answer = await caller.call("ListTasks", wrong)
    assert answer.reason == "INVALID_PARAMS"
    assert list(answer.fields) == list(wrong)


# ---------------------------------------------------------------------------------------------------------------- order


@pytest.mark.requirement("C-090")
@both_bindings
@within(5)
async def test_tasks_come_newest_status_first_ties_by_id_those_without_a_time_last(autojump_clock, binding):
    store = InMemoryTaskStore()
    for task_id, at in [("b", 1), ("a", 1), ("z", None), ("c", 2), ("y", None), ("d", 0)]:
        await put(store, task_id, None if at is None else START + timedelta(minutes=at))
    async with open_caller(binding, idle, store=store) as caller:
        assert "".join(ids(await caller.call("ListTasks"))) == "cabdyz"
        for size in (1, 2, 3, 4, 5):
            assert "".join(chain.from_iterable(await all_pages(caller, pageSize=size))) == "cabdyz"


@both_bindings
@within(30)
async def test_a_task_moves_to_the_front_when_its_status_changes_and_not_when_it_gets_an_artifact(
    autojump_clock, binding
):
    async with open_caller(binding, idle) as caller:
        made = []
        for _ in range(3):
            answer = await caller.call("SendMessage", {"message": user_message()})
            made.append(answer.result["task"]["id"])
            await trio.sleep(1)
        assert ids(await caller.call("ListTasks")) == made[::-1]
        await caller.peer.app.updater(made[0]).add_artifact("new")
        await trio.testing.wait_all_tasks_blocked()
        assert ids(await caller.call("ListTasks")) == made[::-1]
        await caller.peer.app.updater(made[0]).start_work()
        await trio.testing.wait_all_tasks_blocked()
        assert ids(await caller.call("ListTasks")) == [made[0], made[2], made[1]]


def user_message(text="hello", **members):
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **members}


# ---------------------------------------------------------------------------------------------------------------- pages


@pytest.mark.requirement("C-091")
@both_bindings
@pytest.mark.parametrize("size", [1, 7, 25])
@within(5)
async def test_pages_make_up_the_whole_list(autojump_clock, binding, size):
    async with open_caller(
        binding, idle, store=await filled(25, at=lambda n: START + timedelta(minutes=n // 4))
    ) as caller:
        whole = ids(await caller.call("ListTasks"))
        pages = await all_pages(caller, pageSize=size)
    assert list(chain.from_iterable(pages)) == whole
    assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)


@pytest.mark.requirement("C-091")
@both_bindings
@within(5)
async def test_pages_are_stable_while_tasks_come_go_and_change(autojump_clock, binding):
    """Each task that is left alone is listed once, whatever happens to the others between two pages."""
    store = await filled(12)
    async with open_caller(binding, idle, store=store) as caller:
        first = await caller.call("ListTasks", {"pageSize": 4})
        assert ids(first) == ["t11", "t10", "t09", "t08"]
        await store.delete("t08")  # the row that the token points at
        await put(store, "new", START + timedelta(days=1))
        await put(store, "t05", START + timedelta(days=1), sequence=2)  # has moved to the front
        await put(store, "t10", START + timedelta(days=2), sequence=2)
        second = await caller.call("ListTasks", {"pageSize": 4, "pageToken": first.result["nextPageToken"]})
        assert ids(second) == ["t07", "t06", "t04", "t03"]
        assert second.result["totalSize"] == 12
        rest = await caller.call("ListTasks", {"pageSize": 100, "pageToken": second.result["nextPageToken"]})
        assert ids(rest) == ["t02", "t01", "t00"]
        assert rest.result["nextPageToken"] == ""


@pytest.mark.requirement("C-102")
@both_bindings
@within(5)
async def test_a_token_is_good_for_its_filters_alone_and_for_any_page_size_and_view(autojump_clock, binding):
    filters = {
        "contextId": "c",
        "status": "TASK_STATE_WORKING",
        "statusTimestampAfter": "2024-01-01T00:00:00Z",
        "tenant": "acme",
    }
    store = InMemoryTaskStore()
    for number in range(5):
        await put(store, f"t{number}", START + timedelta(minutes=number), tenant="acme")
    async with open_caller(binding, idle, store=store) as caller:
        token = (await caller.call("ListTasks", {**filters, "pageSize": 2})).result["nextPageToken"]
        for other in [
            {"contextId": "d"},
            {"contextId": ""},
            {"status": "TASK_STATE_COMPLETED"},
            {"status": "TASK_STATE_UNSPECIFIED"},
            {"statusTimestampAfter": "2024-01-01T00:00:00.001Z"},
            {"tenant": "other"},
        ]:
            answer = await caller.call("ListTasks", {**filters, **other, "pageToken": token})
            assert answer.reason == "INVALID_PARAMS", other
            assert list(answer.fields) == ["pageToken"]
        answer = await caller.call(
            "ListTasks", {**filters, "pageToken": token, "pageSize": 1, "historyLength": 1, "includeArtifacts": True}
        )
        assert ids(answer) == ["t2"]
        same_instant = {**filters, "statusTimestampAfter": "2024-01-01T01:00:00.000+01:00"}
        assert ids(await caller.call("ListTasks", {**same_instant, "pageToken": token})) == ["t2", "t1", "t0"]


AUTH = BearerTokenAuthenticator({"a": "ann", "b": "bob"})


@pytest.mark.requirement("S5-OWNER", "C-089")
@both_bindings
@within(5)
async def test_a_list_shows_the_caller_s_tasks_and_a_token_is_the_caller_s_own(autojump_clock, binding):
    store = await filled(5, owner="ann")
    await put(store, "bob's", START, owner="bob")
    await put(store, "nobody's", START, owner="")
    async with open_caller(binding, idle, store=store, authenticator=AUTH) as caller:
        ann, bob = caller.speaking_for("a"), caller.speaking_for("b")
        answer = await ann.call("ListTasks", {"pageSize": 2})
        assert ids(answer) == ["t04", "t03"]
        assert answer.result["totalSize"] == 5
        token = answer.result["nextPageToken"]
        assert ids(await ann.call("ListTasks", {"pageToken": token})) == ["t02", "t01", "t00"]
        refused = await bob.call("ListTasks", {"pageToken": token})
        assert refused.reason == "INVALID_PARAMS"
        answer = await bob.call("ListTasks")
        assert (ids(answer), answer.result["totalSize"]) == (["bob's"], 1)
        assert ids(await bob.call("ListTasks", {"contextId": "c"})) == ["bob's"]
        assert (await caller.call("ListTasks")).status == 401


@within(5)
async def test_a_token_of_one_binding_is_good_in_the_other(autojump_clock):
    async with open_caller(REST, idle, store=await filled(3)) as rest:
        rpc = attrs.evolve(rest, binding="JSONRPC")
        token = (await rest.call("ListTasks", {"pageSize": 1})).result["nextPageToken"]
        assert ids(await rpc.call("ListTasks", {"pageToken": token})) == ["t01", "t00"]


@both_bindings
@within(5)
async def test_processes_with_one_key_take_each_other_s_tokens(autojump_clock, binding):
    store, key = await filled(3), b"k" * 16
    async with open_caller(binding, idle, store=store, page_token_key=key) as caller:
        token = (await caller.call("ListTasks", {"pageSize": 1})).result["nextPageToken"]
    async with open_caller(binding, idle, store=store, page_token_key=key) as caller:
        assert ids(await caller.call("ListTasks", {"pageToken": token})) == ["t01", "t00"]
    async with open_caller(binding, idle, store=store) as caller:
        assert (await caller.call("ListTasks", {"pageToken": token})).reason == "INVALID_PARAMS"


# ---------------------------------------------------------------------------------------------- what is shown of a task


@pytest.mark.requirement("C-094", "C-095", "C-101")
@both_bindings
@within(5)
async def test_history_and_artifacts_are_shown_when_they_are_asked_for(autojump_clock, binding):
    async with open_caller(binding, idle, store=await filled(1)) as caller:

        async def shown(**params):
            (one,) = (await caller.call("ListTasks", params)).result["tasks"]
            texts = [message["parts"][0]["text"] for message in one.get("history", ["none"]) if message != "none"]
            return texts if "history" in one else None, one.get("artifacts", "absent")

        assert await shown() == (None, "absent")
        assert await shown(historyLength=0) == (None, "absent")
        assert await shown(historyLength=1, includeArtifacts=False) == (["three"], "absent")
        assert await shown(historyLength=2) == (["two", "three"], "absent")
        texts, artifacts = await shown(historyLength=99, includeArtifacts=True)
        assert texts == ["one", "two", "three"]
        assert artifacts[0]["parts"] == [{"text": "made"}]


@pytest.mark.requirement("C-085", "C-087", "C-088")
@both_bindings
@within(5)
async def test_get_shows_all_of_the_history_or_the_newest_so_many(autojump_clock, binding):
    async with open_caller(binding, idle, store=await filled(1)) as caller:

        async def history(**params):
            one = (await caller.call("GetTask", {"id": "t00", **params})).result
            return "history" in one, [message["parts"][0]["text"] for message in one.get("history", ())]

        assert await history() == (True, ["one", "two", "three"])
        assert await history(historyLength=0) == (False, [])
        assert await history(historyLength=1) == (True, ["three"])
        assert await history(historyLength=3) == (True, ["one", "two", "three"])
        assert await history(historyLength=2**31 - 1) == (True, ["one", "two", "three"])
        for wrong in (-1, 2**31, 1.5):
            answer = await caller.call("GetTask", {"id": "t00", "historyLength": wrong})
            assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", ["historyLength"])


@pytest.mark.requirement("C-098")
@both_bindings
@within(5)
async def test_a_task_of_each_state_is_found_by_it(autojump_clock, binding):
    states = {
        "start_work": "WORKING",
        "complete": "COMPLETED",
        "fail": "FAILED",
        "reject": "REJECTED",
        "cancel": "CANCELED",
        "require_input": "INPUT_REQUIRED",
        "require_auth": "AUTH_REQUIRED",
    }
    async with open_caller(binding, by_state) as caller:
        made = {}
        for text in states:
            answer = await caller.call("SendMessage", {"message": user_message(text)})
            made[text] = answer.result["task"]["id"]
        for text, state in states.items():
            assert ids(await caller.call("ListTasks", {"status": f"TASK_STATE_{state}"})) == [made[text]]
        assert ids(await caller.call("ListTasks", {"status": "TASK_STATE_SUBMITTED"})) == []
