"""Push configurations over both HTTP bindings: the four operations, and the one that comes inline with a message."""

import attrs
import pytest
import trio
import trio.testing

from tests.deadline import within
from tests.server.bindings import REST, both_bindings, open_caller
from trio_a2a.errors import ContentTypeNotSupportedError, TaskPersistenceError
from trio_a2a.server import BearerTokenAuthenticator, Limits, agent_card
from trio_a2a.stores.push_memory import InMemoryPushConfigStore
from trio_a2a.types import AgentCapabilities

CREATE = "CreateTaskPushNotificationConfig"
GET = "GetTaskPushNotificationConfig"
LIST = "ListTaskPushNotificationConfigs"
DELETE = "DeleteTaskPushNotificationConfig"
HOOK = "https://example.com/hook"
SECRETS = {"token": "t0ken", "authentication": {"scheme": "Bearer", "credentials": "s3cret"}}
AUTH = BearerTokenAuthenticator({"a": "ann", "b": "bob"})


async def ask(_context, updater):
    await updater.require_input("what?")


async def finish(_context, updater):
    await updater.complete()


def params(text="hello", *, config=None, **members):
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **members}
    return {"message": message, **({} if config is None else {"configuration": {"taskPushNotificationConfig": config}})}


async def new_task(caller, **options) -> str:
    return (await caller.call("SendMessage", params(**options))).result["task"]["id"]


async def listed(caller, task_id) -> list[str]:
    answer = await caller.call(LIST, {"taskId": task_id, "pageSize": 100})
    return [config["id"] for config in answer.result.get("configs", ())]


def pushing(binding, executor=ask, **options):
    return open_caller(binding, executor, **{"push": InMemoryPushConfigStore(), **options})


# ------------------------------------------------------------------------------------------------------- the operations


@pytest.mark.requirement("C-111", "C-114", "C-115", "C-116", "C-119", "C-120")
@both_bindings
@within(5)
async def test_a_config_is_made_read_listed_and_removed(autojump_clock, binding):
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        made = (await caller.call(CREATE, {"taskId": task_id, "id": "one", "url": HOOK})).result
        assert made == {"taskId": task_id, "id": "one", "url": HOOK}
        assert (await caller.call(GET, {"taskId": task_id, "id": "one"})).result == made
        assert (await caller.call(LIST, {"taskId": task_id})).result == {"configs": [made]}
        for _ in range(2):  # an unknown one is no error
            answer = await caller.call(DELETE, {"taskId": task_id, "id": "one"})
            assert answer.result == {}
        answer = await caller.call(GET, {"taskId": task_id, "id": "one"})
        assert answer.reason == "TASK_NOT_FOUND"
        assert answer.metadata == {"taskId": task_id, "configId": "one"}
        assert (await caller.call(LIST, {"taskId": task_id})).result == {}


@both_bindings
@within(5)
async def test_a_config_without_an_id_gets_one_of_its_own(autojump_clock, binding):
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        made = [(await caller.call(CREATE, {"taskId": task_id, "url": HOOK})).result["id"] for _ in range(3)]
        assert len({*made, task_id, ""}) == 5
        assert await listed(caller, task_id) == sorted(made)


@both_bindings
@within(5)
async def test_the_same_id_again_replaces_and_ids_are_each_task_s_own(autojump_clock, binding):
    async with pushing(binding) as caller:
        first, second = await new_task(caller), await new_task(caller)
        for task_id, url in [(first, HOOK), (second, f"{HOOK}/2"), (first, f"{HOOK}/1")]:
            await caller.call(CREATE, {"taskId": task_id, "id": "same", "url": url})
        for task_id, url in [(first, f"{HOOK}/1"), (second, f"{HOOK}/2")]:
            (config,) = (await caller.call(LIST, {"taskId": task_id})).result["configs"]
            assert config["url"] == url
        await caller.call(DELETE, {"taskId": first, "id": "same"})
        assert await listed(caller, second) == ["same"]


@pytest.mark.requirement("C-113")
@both_bindings
@within(5)
async def test_a_task_that_is_over_has_configs_like_any_other(autojump_clock, binding):
    async with pushing(binding, finish) as caller:
        task_id = await new_task(caller)
        await trio.sleep(1)
        assert (await caller.call(CREATE, {"taskId": task_id, "id": "late", "url": HOOK})).result["id"] == "late"
        assert await listed(caller, task_id) == ["late"]


@pytest.mark.requirement("C-112", "C-118", "C-121")
@both_bindings
@pytest.mark.parametrize("operation", [CREATE, GET, LIST, DELETE])
@within(5)
async def test_an_unknown_task_is_not_found(autojump_clock, binding, operation):
    async with pushing(binding) as caller:
        answer = await caller.call(operation, {"taskId": "none", "id": "one", "url": HOOK})
    assert answer.reason == "TASK_NOT_FOUND"
    assert answer.metadata == {"taskId": "none"}


@both_bindings
@within(5)
async def test_ids_may_hold_anything(autojump_clock, binding):
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        odd = ["a/b", "a%2Fb", "ünï", "?x=1#y", "a:cancel", " ", "..", "%"]
        for id_ in odd:
            # The id of a new config is in the body.
            await caller.call(CREATE, {"taskId": task_id, "id": id_, "url": HOOK})
        assert await listed(caller, task_id) == sorted(odd)
        for id_ in odd:
            assert (await caller.call(GET, {"taskId": task_id, "id": id_})).result["id"] == id_
            assert (await caller.call(DELETE, {"taskId": task_id, "id": id_})).result == {}
        assert await listed(caller, task_id) == []


@both_bindings
@within(5)
async def test_what_is_required_is_missed_by_its_name(autojump_clock, binding):
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        answer = await caller.call(CREATE, {"taskId": task_id})
        assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", ["url"])
        answer = await caller.call(CREATE, {"taskId": task_id, "url": HOOK, "authentication": {}})
        assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", ["authentication.scheme"])
        if binding != REST:
            for operation in (CREATE, GET, LIST, DELETE):
                answer = await caller.call(operation, {"id": "one", "url": HOOK})
                assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", ["taskId"])


# -------------------------------------------------------------------------------------------------------------- secrets


@both_bindings
@within(5)
async def test_secrets_come_back_from_the_call_that_brought_them_and_from_no_other(autojump_clock, binding):
    """A-24."""
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        config = {"taskId": task_id, "id": "one", "url": HOOK, **SECRETS}
        assert (await caller.call(CREATE, config)).result == config
        for answer in (
            await caller.call(GET, {"taskId": task_id, "id": "one"}),
            await caller.call(LIST, {"taskId": task_id}),
        ):
            assert b"s3cret" not in answer.reply.body
            assert b"t0ken" not in answer.reply.body
        shown = (await caller.call(GET, {"taskId": task_id, "id": "one"})).result
        assert shown == {"taskId": task_id, "id": "one", "url": HOOK, "authentication": {"scheme": "Bearer"}}
        stored = await caller.peer.app.agent.push.get(task_id, "one")
        assert (stored.token, stored.authentication.credentials) == ("t0ken", "s3cret")


@both_bindings
@within(5)
async def test_secrets_are_shown_by_an_agent_that_says_so(autojump_clock, binding):
    async with pushing(binding, echo_push_secrets=True) as caller:
        task_id = await new_task(caller)
        config = {"taskId": task_id, "id": "one", "url": HOOK, **SECRETS}
        await caller.call(CREATE, config)
        assert (await caller.call(GET, {"taskId": task_id, "id": "one"})).result == config
        assert (await caller.call(LIST, {"taskId": task_id})).result == {"configs": [config]}


# ---------------------------------------------------------------------------------------------------------------- pages


@pytest.mark.requirement("C-117")
@both_bindings
@within(5)
async def test_configs_come_in_pages_in_the_order_of_their_ids(autojump_clock, binding):
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        for number in range(7):
            await caller.call(CREATE, {"taskId": task_id, "id": f"c{number}", "url": HOOK})
        pages, token = [], ""
        while True:
            answer = await caller.call(LIST, {"taskId": task_id, "pageSize": 3, "pageToken": token})
            pages.append([config["id"] for config in answer.result["configs"]])
            token = answer.result.get("nextPageToken", "")
            if not token:
                break
            await caller.call(DELETE, {"taskId": task_id, "id": pages[-1][-1]})  # the row that the token points at
        assert pages == [["c0", "c1", "c2"], ["c3", "c4", "c5"], ["c6"]]


@both_bindings
@within(5)
async def test_a_page_has_50_configs_unless_it_is_said_and_a_wrong_size_is_refused(autojump_clock, binding):
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        for number in range(51):
            await caller.call(CREATE, {"taskId": task_id, "id": f"{number:03}", "url": HOOK})
        for size, count in [(None, 50), (0, 50), (1, 1), (51, 51), (100, 51)]:
            answer = await caller.call(LIST, {"taskId": task_id, **({} if size is None else {"pageSize": size})})
            assert len(answer.result["configs"]) == count
            assert ("nextPageToken" in answer.result) is (count < 51)
        for size in (-1, 101, 2**31):
            answer = await caller.call(LIST, {"taskId": task_id, "pageSize": size})
            assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", ["pageSize"])


@both_bindings
@within(5)
async def test_a_token_is_good_for_its_task_and_its_owner_alone(autojump_clock, binding):
    async with pushing(binding, authenticator=AUTH) as caller:
        ann, bob = caller.speaking_for("a"), caller.speaking_for("b")
        task_id, other, bobs = await new_task(ann), await new_task(ann), await new_task(bob)
        for number in range(2):
            await ann.call(CREATE, {"taskId": task_id, "id": f"{number}", "url": HOOK})
        token = (await ann.call(LIST, {"taskId": task_id, "pageSize": 1})).result["nextPageToken"]
        tasks = (await ann.call("ListTasks", {"pageSize": 1})).result["nextPageToken"]
        assert len((await ann.call(LIST, {"taskId": task_id, "pageToken": token})).result["configs"]) == 1
        for client, asked, used in [
            (ann, other, token),
            (bob, bobs, token),
            (ann, task_id, tasks),
            (ann, task_id, "x"),
            (ann, task_id, token[:-1]),
        ]:
            answer = await client.call(LIST, {"taskId": asked, "pageToken": used})
            assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", ["pageToken"])


# ------------------------------------------------------------------------------------------------------ at most so many


@both_bindings
@within(5)
async def test_a_task_has_100_configs_at_most(autojump_clock, binding):
    async with pushing(binding) as caller:
        task_id, other = await new_task(caller), await new_task(caller)
        for number in range(100):
            assert (await caller.call(CREATE, {"taskId": task_id, "id": f"{number:03}", "url": HOOK})).status == 200
        answer = await caller.call(CREATE, {"taskId": task_id, "id": "100", "url": HOOK})
        assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", ["taskId"])
        answer = await caller.call(CREATE, {"taskId": task_id, "url": HOOK})
        assert answer.reason == "INVALID_PARAMS"
        assert (await caller.call(CREATE, {"taskId": task_id, "id": "050", "url": f"{HOOK}/new"})).status == 200
        assert (await caller.call(CREATE, {"taskId": other, "url": HOOK})).status == 200
        await caller.call(DELETE, {"taskId": task_id, "id": "000"})
        assert (await caller.call(CREATE, {"taskId": task_id, "id": "100", "url": HOOK})).status == 200
        assert len(await listed(caller, task_id)) == 100


@both_bindings
@within(5)
async def test_callers_that_come_at_once_do_not_pass_the_bound_together(autojump_clock, binding):
    async with pushing(binding) as caller, trio.open_nursery() as nursery:
        task_id = await new_task(caller)
        answers = []

        async def create():
            answer = await caller.call(CREATE, {"taskId": task_id, "url": HOOK})
            answers.append("made" if answer.error is None else answer.reason)

        for _ in range(130):
            nursery.start_soon(create)
        while len(answers) < 130:
            await trio.testing.wait_all_tasks_blocked()
        assert len(await listed(caller, task_id)) == 100
        assert answers.count("made") == 100
        assert answers.count("INVALID_PARAMS") == 30


@both_bindings
@within(5)
async def test_an_inline_config_past_the_bound_refuses_the_message(autojump_clock, binding):
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        for _ in range(100):
            await caller.call(CREATE, {"taskId": task_id, "url": HOOK})
        answer = await caller.call("SendMessage", params(taskId=task_id, config={"url": HOOK}))
        assert answer.reason == "INVALID_PARAMS"
        history = (await caller.call("GetTask", {"id": task_id})).result["history"]
        assert [one["role"] for one in history].count("ROLE_USER") == 1


# ----------------------------------------------------------------------------------------------------------- bad values

BAD_URLS = [
    "",
    "example.com/hook",
    "/hook",
    "//example.com/hook",
    "ftp://example.com",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https://",
    "https:///hook",
    "https://user@example.com",
    "https://user:pw@example.com",
    "https://@example.com",
    "https://example.com:0",
    "https://example.com:99999",
    "https://example.com:x",
    "https://[::1",
    "https://example.com/\r\nX: y",
    "https://example.com/\nx",
    "https://exam\tple.com",
    "https://example.com/a b",
    " https://example.com",
    "https://example.com/\x00",
    "https://example.com/\u2028",
    "https://good.example\\@evil.example",
]


@both_bindings
@pytest.mark.parametrize("url", BAD_URLS)
@within(5)
async def test_what_is_no_absolute_web_address_is_refused(autojump_clock, binding, url):
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        answer = await caller.call(CREATE, {"taskId": task_id, "url": url})
        assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", ["url"])
        assert await listed(caller, task_id) == []
        answer = await caller.call("SendMessage", params(config={"url": url}))
        assert (answer.reason, list(answer.fields)) == (
            "INVALID_PARAMS",
            ["configuration.taskPushNotificationConfig.url"],
        )
        assert (await caller.call("ListTasks")).result["totalSize"] == 1


@both_bindings
@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "http://example.com:8080/a?b=c#d",
        "HTTPS://Example.com/",
        "https://[2001:db8::1]:443/x",
        "http://127.0.0.1:1",
    ],
)
@within(5)
async def test_a_web_address_is_taken_as_it_is(autojump_clock, binding, url):
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        assert (await caller.call(CREATE, {"taskId": task_id, "url": url})).result["url"] == url


@both_bindings
@pytest.mark.parametrize("bad", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "\x7f", "a\tb"])
@within(5)
async def test_what_could_forge_a_header_is_refused_with_every_fault(autojump_clock, binding, bad):
    async with pushing(binding) as caller:
        task_id = await new_task(caller)
        config = {"url": "x", "token": bad, "authentication": {"scheme": bad, "credentials": bad}}
        answer = await caller.call(CREATE, {"taskId": task_id, **config})
        names = ["url", "token", "authentication.scheme", "authentication.credentials"]
        assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", names)
        assert b"Evil" not in answer.reply.body
        answer = await caller.call("SendMessage", params(config=config))
        assert list(answer.fields) == [f"configuration.taskPushNotificationConfig.{name}" for name in names]


# ------------------------------------------------------------------------------------------------------- the capability


@pytest.mark.requirement("C-110")
@both_bindings
@pytest.mark.parametrize("operation", [CREATE, GET, LIST, DELETE])
@pytest.mark.parametrize("declared", [None, False])
@within(5)
async def test_an_agent_that_does_not_push_refuses_before_it_looks_at_the_request(
    autojump_clock, binding, operation, declared
):
    """The card decides: an agent that declares ``False`` does not push, though it was given a store."""
    card = attrs.evolve(agent_card("T", "."), capabilities=AgentCapabilities(push_notifications=declared))
    push = None if declared is None else InMemoryPushConfigStore()
    async with open_caller(binding, ask, card=card, push=push) as caller:
        task_id = await new_task(caller)
        for request in ({"taskId": task_id, "id": "x", "url": HOOK}, {"taskId": "none", "id": "x", "url": 7}):
            answer = await caller.call(operation, request)
            assert answer.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
        answer = await caller.call("SendMessage", params(config={"url": "bad"}))
        assert answer.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
        assert (await caller.call("ListTasks")).result["totalSize"] == 1


# ------------------------------------------------------------------------------------------------------- inline configs


@pytest.mark.requirement("C-122")
@both_bindings
@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
@within(5)
async def test_an_inline_config_is_stored_before_the_agent_begins(autojump_clock, binding, operation):
    push = InMemoryPushConfigStore()
    seen = []

    async def agent(context, updater):
        seen.extend(await push.list(context.task_id))
        await updater.complete()

    async with open_caller(binding, agent, push=push) as caller:
        request = params(config={"url": HOOK, **SECRETS})
        if operation == "SendMessage":
            task_id = (await caller.call(operation, request)).result["task"]["id"]
        else:
            async with caller.stream(operation, request) as events:
                task_id = (await events.rest())[0].value["task"]["id"]
        (config,) = seen
        assert (config.task_id, config.url, config.token) == (task_id, HOOK, "t0ken")
        assert config.id not in {"", task_id}
        assert await listed(caller, task_id) == [config.id]


@both_bindings
@within(5)
async def test_an_inline_config_of_a_follow_up_is_added_to_its_task(autojump_clock, binding):
    async with pushing(binding) as caller:
        task_id = await new_task(caller, config={"url": HOOK, "id": "first"})
        await new_task(caller, taskId=task_id, config={"url": HOOK, "id": "second"})
        await new_task(caller, taskId=task_id, config={"url": HOOK, "id": "second", "taskId": task_id})
        assert await listed(caller, task_id) == ["first", "second"]


@both_bindings
@within(5)
async def test_an_inline_config_that_names_another_task_is_refused(autojump_clock, binding):
    """A-31."""
    async with pushing(binding) as caller:
        task_id, other = await new_task(caller), await new_task(caller)
        for request in (
            params(config={"url": HOOK, "taskId": other}),
            params(config={"url": HOOK, "taskId": other}, taskId=task_id),
            params(config={"url": HOOK, "taskId": "none"}),
        ):
            answer = await caller.call("SendMessage", request)
            assert answer.reason == "INVALID_PARAMS"
            assert list(answer.fields) == ["configuration.taskPushNotificationConfig.taskId"]
        assert await listed(caller, other) == []


@both_bindings
@within(5)
async def test_the_config_of_a_task_that_was_not_made_is_forgotten(autojump_clock, binding):
    async def agent(context, updater):
        if context.text() == "refuse":
            raise ContentTypeNotSupportedError
        if context.text() == "reply":
            await updater.reply("hi")

    push = InMemoryPushConfigStore()
    async with open_caller(binding, agent, push=push) as caller:
        for text in ("refuse", "reply", "say nothing"):
            await caller.call("SendMessage", params(text, config={"url": HOOK}))
            await trio.testing.wait_all_tasks_blocked()
            assert not push._configs, text


@both_bindings
@within(5)
async def test_the_config_of_a_refused_follow_up_stays_with_its_task(autojump_clock, binding):
    async def agent(context, updater):
        if context.task is not None:
            raise ContentTypeNotSupportedError
        await updater.require_input()

    async with pushing(binding, agent) as caller:
        task_id = await new_task(caller)
        await caller.call("SendMessage", params(taskId=task_id, config={"url": HOOK, "id": "kept"}))
        await trio.testing.wait_all_tasks_blocked()
        assert await listed(caller, task_id) == ["kept"]


class Slow(InMemoryPushConfigStore.__mro__[1]):
    """A store whose `put` is slow to return, once the config is in it."""

    def __init__(self):
        self.inner = InMemoryPushConfigStore()
        self.go_on = trio.Event()

    async def put(self, config, *, owner):
        await self.inner.put(config, owner=owner)
        await self.go_on.wait()

    async def get(self, task_id, config_id):
        return await self.inner.get(task_id, config_id)

    async def list(self, task_id, *, after="", limit=None):
        return await self.inner.list(task_id, after=after, limit=limit)

    async def delete(self, task_id, config_id=None):
        await self.inner.delete(task_id, config_id)


@both_bindings
@within(5)
async def test_a_caller_that_leaves_while_its_config_is_stored_leaves_none_behind(autojump_clock, binding):
    push = Slow()
    async with open_caller(binding, ask, push=push) as caller:
        wire = caller.peer.connect()
        await wire.stream.send_all(caller.request("SendMessage", params(config={"url": HOOK})))
        await trio.testing.wait_all_tasks_blocked()
        assert push.inner._configs
        await trio.aclose_forcefully(wire.stream)
        await trio.testing.wait_all_tasks_blocked()
        assert not push.inner._configs
        assert (await caller.call("ListTasks")).result["totalSize"] == 0


@both_bindings
@within(5)
async def test_messages_whose_configs_are_being_stored_count_as_waiting(autojump_clock, binding):
    push = Slow()
    push.go_on.set()
    async with open_caller(binding, ask, push=push, limits=Limits(queued_sends=2)) as caller:
        task_id = await new_task(caller)
        push.go_on = trio.Event()
        statuses = []

        async def send():
            answer = await caller.call("SendMessage", params(taskId=task_id, config={"url": HOOK}))
            statuses.append(answer.status)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            assert statuses == [429, 429]
            push.go_on.set()
        assert statuses == [429, 429, 200, 200, 200]
        assert len(await listed(caller, task_id)) == 3


class Failing(Slow):
    """A store that cannot store."""

    async def put(self, config, *, owner):
        raise TaskPersistenceError("disk full: /dev/sda1", task_id=config.task_id)


@both_bindings
@within(5)
async def test_a_config_that_cannot_be_stored_is_an_internal_error_and_nothing_is_made(autojump_clock, binding, caplog):
    async with open_caller(binding, ask, push=Failing()) as caller:
        answer = await caller.call("SendMessage", params(config={"url": HOOK}))
        assert answer.reason == "INTERNAL_ERROR"
        assert b"disk" not in answer.reply.body
        assert (await caller.call("ListTasks")).result["totalSize"] == 0
        await trio.testing.wait_all_tasks_blocked()
    assert "disk full" in caplog.text


class CannotForget(Slow):
    """A store that stores, and cannot remove."""

    def __init__(self):
        super().__init__()
        self.go_on.set()

    async def delete(self, task_id, config_id=None):
        raise TaskPersistenceError("disk full: /dev/sda1", task_id=task_id)


@both_bindings
@within(5)
async def test_a_config_that_cannot_be_forgotten_is_a_warning_and_changes_no_answer(autojump_clock, binding, caplog):
    async def agent(_context, updater):
        await updater.reply("hi")

    async with open_caller(binding, agent, push=CannotForget()) as caller:
        answer = await caller.call("SendMessage", params(config={"url": HOOK}))
        assert answer.result["message"]["parts"] == [{"text": "hi"}]
        await trio.testing.wait_all_tasks_blocked()
        assert caller.manager.statistics().queues == 0
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# --------------------------------------------------------------------------------------------------------------- owners


@pytest.mark.requirement("S5-OWNER", "C-123")
@both_bindings
@within(5)
async def test_the_configs_of_another_s_task_do_not_exist(autojump_clock, binding):
    async with pushing(binding, authenticator=AUTH) as caller:
        ann, bob = caller.speaking_for("a"), caller.speaking_for("b")
        task_id = await new_task(ann, config={"url": HOOK, "id": "one"})
        for operation in (CREATE, GET, LIST, DELETE):
            hidden = await bob.call(operation, {"taskId": task_id, "id": "one", "url": HOOK})
            missing = await bob.call(operation, {"taskId": "none", "id": "one", "url": HOOK})
            assert (
                (hidden.status, hidden.reason) == (missing.status, missing.reason) == (missing.status, "TASK_NOT_FOUND")
            )
            assert hidden.error["message"] == missing.error["message"]
            assert (await caller.call(operation, {"taskId": task_id, "id": "one", "url": HOOK})).status == 401
        answer = await bob.call("SendMessage", params(config={"url": HOOK, "taskId": task_id}))
        assert answer.reason == "INVALID_PARAMS"
        assert await listed(ann, task_id) == ["one"]
