"""The HTTP+JSON binding over HTTP: its checks in their order, its results, its errors."""

import json

import attrs
import pytest
import trio
import trio.testing

from tests.deadline import within
from tests.server.bindings import REST, Caller, open_caller
from tests.server.peer import VERSION, request_bytes
from trio_a2a.errors import AuthorizationError, InvalidAgentResponseError
from trio_a2a.server import BearerTokenAuthenticator, Limits, agent_card
from trio_a2a.stores.push_memory import InMemoryPushConfigStore
from trio_a2a.testing import FlakyStore
from trio_a2a.types import AgentCapabilities, AgentExtension, Part

A2A_JSON = "application/a2a+json"
JSON = "application/json"
HOOK = "https://example.com/hook"
AUTH = BearerTokenAuthenticator({"a": "ann", "b": "bob"})


async def echo(context, updater):
    await updater.start_work()
    await updater.add_artifact(context.text(), name="echo")
    await updater.complete("done")


async def ask(_context, updater):
    await updater.require_input("what?")


def rest(executor, **options):
    return open_caller(REST, executor, **options)


def body(text="hello", **members):
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **members}}


async def new_task(caller: Caller, **members) -> str:
    answer = await caller.rest("POST", "/message:send", document=body(**members))
    return answer.result["task"]["id"]


def card(**capabilities):
    return attrs.evolve(agent_card("Tested", "Is tested."), capabilities=AgentCapabilities(**capabilities))


# -------------------------------------------------------------------------------------------------------------- results


@pytest.mark.requirement("S5-OPERATIONS", "C-251", "C-258")
@within(5)
async def test_every_operation_has_its_route_and_answers_with_the_bare_result(autojump_clock):
    async with rest(ask, push=InMemoryPushConfigStore(), extended_card=agent_card("Extended", ".")) as caller:
        sent = (await caller.rest("POST", "/message:send", document=body())).result
        assert set(sent) == {"task"}
        task, id_ = sent["task"], sent["task"]["id"]
        assert (await caller.rest("GET", f"/tasks/{id_}")).result == task
        listed = (await caller.rest("GET", "/tasks")).result
        assert [one["id"] for one in listed["tasks"]] == [id_]
        configs = f"/tasks/{id_}/pushNotificationConfigs"
        config = (await caller.rest("POST", configs, document={"id": "one", "url": HOOK})).result
        assert config == {"taskId": id_, "id": "one", "url": HOOK}
        assert (await caller.rest("GET", configs)).result == {"configs": [config]}
        assert (await caller.rest("GET", f"{configs}/one")).result == config
        assert (await caller.rest("DELETE", f"{configs}/one")).result == {}
        assert (await caller.rest("GET", "/extendedAgentCard")).result["name"] == "Extended"
        canceled = (await caller.rest("POST", f"/tasks/{id_}:cancel")).result
        assert (canceled["id"], canceled["status"]["state"]) == (id_, "TASK_STATE_CANCELED")


@within(5)
async def test_a_direct_reply_is_a_message(autojump_clock):
    async def agent(_context, updater):
        await updater.reply("hi")

    async with rest(agent) as caller:
        result = (await caller.rest("POST", "/message:send", document=body())).result
    assert result["message"]["parts"] == [{"text": "hi"}]


@pytest.mark.requirement("C-260")
@within(5)
async def test_a_stream_is_of_bare_events_with_their_numbers(autojump_clock):
    async with rest(echo) as caller, caller.stream("SendStreamingMessage", body()) as events:
        assert events.headers["content-type"] == "text/event-stream"
        assert events.headers["cache-control"] == "no-cache"
        assert events.headers["x-accel-buffering"] == "no"
        found = await events.rest()
    assert [event.says for event in found] == ["SUBMITTED", "WORKING", "artifactUpdate", "COMPLETED"]
    assert [event.id for event in found] == [1, 2, 3, 4]
    assert all(event.frame.event is None and "jsonrpc" not in event.frame.data for event in found)


@pytest.mark.requirement("C-261", "C-262")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("headers", "sent"),
    [({}, b""), ({"content-type": "text/plain"}, b"ignored"), ({"content-type": JSON}, b"{"), ({}, b'{"id": "other"}')],
)
@within(5)
async def test_a_subscription_is_by_either_verb_and_its_body_is_not_looked_at(autojump_clock, method, headers, sent):
    """A-01."""
    async with rest(ask) as caller:
        id_ = await new_task(caller)
        data = request_bytes(method, f"/tasks/{id_}:subscribe", {**VERSION, **headers}, sent)
        async with caller.raw_stream(data) as events:
            assert (await events.next()).value["task"]["id"] == id_
            await caller.rest("POST", f"/tasks/{id_}:cancel")
            assert [event.says for event in await events.rest()] == ["CANCELED"]
        async with caller.raw_stream(data) as events:
            answer = await events.answer()
            assert (answer.status, answer.reason) == (400, "UNSUPPORTED_OPERATION")


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        ({}, b""),
        ({"content-type": JSON}, b""),
        ({"content-type": "text/plain"}, b""),
        ({"content-type": JSON}, b"{}"),
        ({"content-type": A2A_JSON}, b'{"metadata": {"why": "enough"}}'),
        ({"content-type": f"{JSON}; charset=utf-8"}, b'{"unknown": 1, "tenant": "acme"}'),
    ],
)
@within(5)
async def test_a_cancellation_may_have_a_body_or_none(autojump_clock, headers, sent):
    async with rest(ask) as caller:
        id_ = await new_task(caller)
        answer = await caller.rest("POST", f"/tasks/{id_}:cancel", headers, body=sent)
        assert answer.result["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.requirement("C-109")
@within(5)
async def test_the_metadata_of_a_cancellation_reach_the_agent(autojump_clock):
    seen = []

    class Agent:
        async def execute(self, _context, updater):
            await updater.require_input()

        async def cancel(self, context, _updater):
            seen.append((context.metadata, context.tenant))

    async with rest(Agent()) as caller:
        id_ = await new_task(caller)
        await caller.rest("POST", f"/acme/tasks/{id_}:cancel", document={"metadata": {"why": "enough"}})
    assert seen == [({"why": "enough"}, "acme")]


# ---------------------------------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nowhere"),
        ("POST", "/message"),
        ("POST", "/message:shout"),
        ("GET", "/tasks/"),
        ("GET", "/v1/tasks/x/y"),
        ("POST", "/tasks/x:delete"),
        ("GET", "/tasks/x/pushNotificationConfigs/y/z"),
        ("GET", "/a/b/tasks"),
        ("GET", "//tasks"),
        ("GET", "/tasks//pushNotificationConfigs"),
        ("POST", "/tasks/:cancel"),
    ],
)
@within(5)
async def test_an_unknown_path_is_404_with_the_body_of_an_error(autojump_clock, method, path):
    async with rest(echo) as caller:
        answer = await caller.rest(method, path)
    assert answer.status == 404
    assert (answer.error["code"], answer.error["status"]) == (404, "NOT_FOUND")
    assert answer.reason == "METHOD_NOT_FOUND"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/message:send", "POST"),
        ("GET", "/message:stream", "POST"),
        ("POST", "/tasks", "GET"),
        ("DELETE", "/tasks/x", "GET"),
        ("GET", "/tasks/x:cancel", "POST"),
        ("DELETE", "/tasks/x:subscribe", "POST, GET"),
        ("PUT", "/tasks/x/pushNotificationConfigs", "POST, GET"),
        ("POST", "/tasks/x/pushNotificationConfigs/y", "GET, DELETE"),
        ("POST", "/extendedAgentCard", "GET"),
        ("PATCH", "/acme/tasks", "GET"),
        ("OPTIONS", "/tasks", "GET"),
    ],
)
@within(5)
async def test_another_verb_is_405_with_the_body_of_an_error_and_says_which_there_are(
    autojump_clock, method, path, allowed
):
    async with rest(echo) as caller:
        answer = await caller.rest(method, path)
    assert answer.status == 405
    assert answer.headers["allow"] == allowed
    assert (answer.error["code"], answer.reason) == (405, "METHOD_NOT_FOUND")


@within(5)
async def test_head_is_no_verb_of_the_binding_and_its_answer_has_no_body(autojump_clock):
    async with rest(echo) as caller:
        reply = await caller.peer.http("HEAD", "/tasks", VERSION)
    assert (reply.status, reply.body) == (405, b"")


@pytest.mark.parametrize("task_id", ["a/b", "a%2Fb", "x:cancel", "x:subscribe", "ünï ☃", "?#&=", "..", "%", "tasks"])
@within(5)
async def test_an_id_may_hold_anything_when_it_is_encoded(autojump_clock, task_id):
    """The colon behind which a verb stands is the last that is not encoded."""
    async with rest(ask) as caller:
        for operation in ("GetTask", "CancelTask", "SubscribeToTask"):
            answer = await caller.call(operation, {"id": task_id})
            assert (answer.status, answer.reason) == (404, "TASK_NOT_FOUND")
            assert answer.metadata == {"taskId": task_id}


@within(5)
async def test_below_a_path_of_its_own_the_binding_is_found_there_alone(autojump_clock):
    async with rest(ask, app_options={"rest_path": "/api/", "rpc_path": "/rpc"}) as caller:
        answer = await caller.rest("POST", "/api/message:send", document=body())
        assert answer.result["task"]
        assert (await caller.rest("GET", "/api/tasks")).result["totalSize"] == 1
        assert (await caller.rest("GET", "/api/acme/tasks?tenant=acme")).result["totalSize"] == 0
        for path in ("/tasks", "/apitasks", "/api"):
            assert (await caller.rest("GET", path)).status == 404


# -------------------------------------------------------------------------------------------------------------- tenants


class Tenants:
    """Notes the tenant of each message."""

    def __init__(self):
        self.seen = []

    async def execute(self, context, updater):
        self.seen.append(context.tenant)
        await updater.require_input()


@pytest.mark.parametrize(
    ("path", "member", "tenant"),
    [
        ("/message:send", None, ""),
        ("/message:send", "acme", "acme"),
        ("/acme/message:send", None, "acme"),
        ("/acme/message:send", "", "acme"),
        ("/acme/message:send", "acme", "acme"),
        ("/acme/message:send?tenant=acme", "acme", "acme"),
        ("/message:send?tenant=acme", None, "acme"),
        ("/message:send?tenant=acme", "acme", "acme"),
        ("/a%20b%2Fc/message:send", "a b/c", "a b/c"),
        ("/tasks/message:send", None, "tasks"),
    ],
)
@within(5)
async def test_the_tenant_is_the_prefix_or_else_of_the_body_or_the_query(autojump_clock, path, member, tenant):
    """A-17."""
    agent = Tenants()
    async with rest(agent) as caller:
        document = body() if member is None else {**body(), "tenant": member}
        assert (await caller.rest("POST", path, document=document)).result["task"]
        assert agent.seen == [tenant]
        total = (await caller.rest("GET", f"/tasks?tenant={tenant and 'other'}")).result["totalSize"]
        assert total == (0 if tenant else 1)


@pytest.mark.parametrize(
    ("method", "path", "member"),
    [
        ("POST", "/acme/message:send", "other"),
        ("POST", "/acme/message:stream", "other"),
        ("POST", "/acme/message:send", 7),
        ("POST", "/acme/message:send?tenant=other", None),
        ("POST", "/message:send?tenant=other", "acme"),
        ("POST", "/message:send", ["acme"]),
        ("GET", "/acme/tasks?tenant=other", None),
        ("GET", "/acme/tasks/x?tenant=other", None),
        ("DELETE", "/acme/tasks/x/pushNotificationConfigs/y?tenant=other", None),
        ("POST", "/acme/tasks/x:cancel", "Acme"),
    ],
)
@within(5)
async def test_tenants_that_contradict_each_other_are_refused(autojump_clock, method, path, member):
    async with rest(ask, push=InMemoryPushConfigStore()) as caller:
        document = None if method != "POST" else {**body(), **({} if member is None else {"tenant": member})}
        answer = await caller.rest(method, path, document=document)
    assert (answer.status, answer.reason, list(answer.fields)) == (400, "INVALID_PARAMS", ["tenant"])


@pytest.mark.requirement("C-177")
@within(5)
async def test_every_route_also_lies_below_a_tenant(autojump_clock):
    async with rest(ask, push=InMemoryPushConfigStore(), extended_card=agent_card("Extended", ".")) as caller:
        operations = [
            ("GetTask", {"id": "x"}),
            ("CancelTask", {"id": "x"}),
            ("SubscribeToTask", {"id": "x"}),
            ("CreateTaskPushNotificationConfig", {"taskId": "x", "url": HOOK}),
            ("GetTaskPushNotificationConfig", {"taskId": "x", "id": "y"}),
            ("ListTaskPushNotificationConfigs", {"taskId": "x"}),
            ("DeleteTaskPushNotificationConfig", {"taskId": "x", "id": "y"}),
        ]
        for operation, params in operations:
            answer = await caller.raw(caller.request(operation, params, prefix="/acme"))
            assert answer.reason == "TASK_NOT_FOUND", operation
        assert (await caller.raw(caller.request("ListTasks", prefix="/acme"))).result["totalSize"] == 0
        assert (await caller.raw(caller.request("GetExtendedAgentCard", prefix="/acme"))).result["name"] == "Extended"
        async with caller.raw_stream(caller.request("SendStreamingMessage", body(), prefix="/acme")) as events:
            assert [event.says for event in await events.rest()] == ["SUBMITTED", "INPUT_REQUIRED"]
        assert (await caller.rest("GET", "/acme/tasks")).result["totalSize"] == 1


# ------------------------------------------------------------------------------------------------- path, body and query


@pytest.mark.parametrize(
    ("path", "document", "field"),
    [
        ("/tasks/{}:cancel", {"id": "other"}, "id"),
        ("/tasks/{}:cancel", {"id": 7}, "id"),
        ("/tasks/{}/pushNotificationConfigs", {"taskId": "other", "url": HOOK}, "taskId"),
        ("/tasks/{}/pushNotificationConfigs", {"task_id": "other", "url": HOOK}, "taskId"),
        ("/tasks/{}/pushNotificationConfigs", {"taskId": {}, "url": HOOK}, "taskId"),
    ],
)
@within(5)
async def test_what_a_body_says_against_its_path_is_refused(autojump_clock, path, document, field):
    """A-16."""
    async with rest(ask, push=InMemoryPushConfigStore()) as caller:
        id_ = await new_task(caller)
        answer = await caller.rest("POST", path.format(id_), document=document)
        assert (answer.status, answer.reason, list(answer.fields)) == (400, "INVALID_PARAMS", [field])


@pytest.mark.parametrize("spelling", ["taskId", "task_id"])
@pytest.mark.parametrize("same", [True, False], ids=["same", "empty"])
@within(5)
async def test_what_a_body_repeats_of_its_path_is_taken(autojump_clock, spelling, same):
    async with rest(ask, push=InMemoryPushConfigStore()) as caller:
        id_ = await new_task(caller)
        document = {spelling: id_ if same else "", "url": HOOK}
        answer = await caller.rest("POST", f"/tasks/{id_}/pushNotificationConfigs", document=document)
        assert answer.result["taskId"] == id_


@pytest.mark.requirement("C-253", "C-254", "C-256")
@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", False),
        ("includeArtifacts=true", True),
        ("includeArtifacts=false", False),
        ("includeArtifacts=true&includeArtifacts=false", True),
        ("unknown=1&includeArtifacts=true&include_artifacts=maybe", True),
        ("pageSize=%35&includeArtifacts=%74rue&status=TASK_STATE_COMPLETED", True),
        ("statusTimestampAfter=2024-05-01T12%3A00%3A00Z&includeArtifacts=true", True),
        ("contextId=&pageToken=&tenant=&includeArtifacts=true", True),
    ],
)
@within(5)
async def test_a_query_is_read_by_its_rules(autojump_clock, query, shown):
    async with rest(echo) as caller:
        await new_task(caller)
        (task,) = (await caller.rest("GET", f"/tasks?{query}")).result["tasks"]
        assert ("artifacts" in task) is shown


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("includeArtifacts=1", "includeArtifacts"),
        ("includeArtifacts=True", "includeArtifacts"),
        ("includeArtifacts=", "includeArtifacts"),
        ("pageSize=", "pageSize"),
        ("pageSize=ten", "pageSize"),
        ("pageSize=0", "pageSize"),
        ("pageSize=5.5", "pageSize"),
        ("pageSize=1e99", "pageSize"),
        ("pageSize=99999999999999999999", "pageSize"),
        ("historyLength=-1", "historyLength"),
        ("status=completed", "status"),
        ("status=", "status"),
        ("statusTimestampAfter=yesterday", "statusTimestampAfter"),
        ("statusTimestampAfter=2024-05-01T12:00:00", "statusTimestampAfter"),
    ],
)
@within(5)
async def test_what_breaks_the_rules_of_a_query_is_refused_by_its_name(autojump_clock, query, field):
    async with rest(echo) as caller:
        answer = await caller.rest("GET", f"/tasks?{query}")
    assert (answer.status, answer.reason, list(answer.fields)) == (400, "INVALID_PARAMS", [field])


@within(5)
async def test_the_query_of_a_post_and_the_body_of_a_get_are_ignored(autojump_clock):
    async with rest(ask) as caller:
        answer = await caller.rest("POST", "/message:send?historyLength=-1&message=x", document=body())
        id_ = answer.result["task"]["id"]
        answer = await caller.rest("GET", f"/tasks/{id_}", {"content-type": "text/plain"}, body=b"\xff{")
        assert answer.result["id"] == id_


# ---------------------------------------------------------------------------------------------------------- media types


@pytest.mark.requirement("C-252")
@pytest.mark.parametrize(
    ("content_type", "accept", "answer_type"),
    [
        (JSON, None, JSON),
        (JSON, "*/*", JSON),
        (JSON, f"{A2A_JSON}, {JSON}", A2A_JSON),
        (JSON, f"{A2A_JSON};q=0", JSON),
        (A2A_JSON, None, A2A_JSON),
        (f"{A2A_JSON}; charset=utf-8", JSON, A2A_JSON),
        ("Application/JSON", None, JSON),
        ("application/vnd.x+json", None, JSON),
    ],
)
@within(5)
async def test_the_answer_is_of_the_type_that_the_caller_used_or_asked_for(
    autojump_clock, content_type, accept, answer_type
):
    """A-03."""
    headers = {"content-type": content_type, **({} if accept is None else {"accept": accept})}
    async with rest(ask) as caller:
        answer = await caller.rest("POST", "/message:send", headers, document=body())
        assert answer.headers["content-type"] == answer_type
        assert answer.result["task"]
        answer = await caller.rest("POST", "/message:send", headers, document={})
        assert (answer.status, answer.headers["content-type"]) == (400, answer_type)
        answer = await caller.rest("POST", "/message:stream", headers, document={})
        assert (answer.status, answer.headers["content-type"]) == (400, answer_type)


@pytest.mark.parametrize("table", ["1.0.1", "1.0.0"])
@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", None])
@within(5)
async def test_a_body_of_another_type_is_400_and_under_the_older_table_415(autojump_clock, table, content_type):
    headers = {} if content_type is None else {"content-type": content_type}
    async with rest(ask, error_table=table) as caller:
        for path in ("/message:send", "/message:stream", "/tasks/x:cancel"):
            answer = await caller.rest("POST", path, headers, body=b"{not json")
            assert answer.status == (400 if table == "1.0.1" else 415)
            assert answer.error["status"] == "INVALID_ARGUMENT"
            assert answer.reason == "CONTENT_TYPE_NOT_SUPPORTED"


@within(5)
async def test_a_post_without_a_body_lacks_its_message(autojump_clock):
    async with rest(ask) as caller:
        answer = await caller.rest("POST", "/message:send")
    assert (answer.status, answer.reason, list(answer.fields)) == (400, "INVALID_PARAMS", ["message"])


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"{", "JSON_PARSE"),
        (b"\xff", "JSON_PARSE"),
        (b"[]", "INVALID_REQUEST"),
        (b"null", "INVALID_REQUEST"),
        (b'"x"', "INVALID_REQUEST"),
        (b"{}", "INVALID_PARAMS"),
        (b'{"message": NaN}', "JSON_PARSE"),
    ],
)
@within(5)
async def test_a_body_that_is_no_request_is_400(autojump_clock, sent, reason):
    async with rest(ask) as caller:
        for path in ("/message:send", "/message:stream"):
            answer = await caller.rest("POST", path, {"content-type": JSON}, body=sent)
            assert (answer.status, answer.error["status"], answer.reason) == (400, "INVALID_ARGUMENT", reason)


async def misbehave(_context, updater):
    raise InvalidAgentResponseError


@pytest.mark.requirement("C-259")
@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("1.0.1", {"cancel": 400, "send": 400, "media": 400, "agent": 500, "get": 404, "push": 400}),
        ("1.0.0", {"cancel": 409, "send": 400, "media": 415, "agent": 502, "get": 404, "push": 400}),
    ],
)
@within(5)
async def test_both_error_tables_are_spoken(autojump_clock, table, expected):
    async def agent(context, updater):
        await (misbehave if context.text() == "misbehave" else echo)(context, updater)

    async with rest(agent, error_table=table) as caller:
        id_ = await new_task(caller)
        answers = {
            "cancel": await caller.rest("POST", f"/tasks/{id_}:cancel"),
            "send": await caller.rest("POST", "/message:send", document=body(taskId=id_)),
            "media": await caller.rest(
                "POST", "/message:send", document=body(parts=[{"raw": "", "mediaType": "image/png"}])
            ),
            "agent": await caller.rest("POST", "/message:send", document=body("misbehave")),
            "get": await caller.rest("GET", "/tasks/none"),
            "push": await caller.rest("GET", f"/tasks/{id_}/pushNotificationConfigs"),
        }
    assert {name: answer.status for name, answer in answers.items()} == expected
    assert [answer.reason for answer in answers.values()] == [
        "TASK_NOT_CANCELABLE",
        "UNSUPPORTED_OPERATION",
        "CONTENT_TYPE_NOT_SUPPORTED",
        "INVALID_AGENT_RESPONSE",
        "TASK_NOT_FOUND",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
    ]
    for answer in answers.values():
        assert answer.error["code"] == answer.status
        assert answer.error["message"]


@within(5)
async def test_a_store_that_fails_is_an_internal_error_without_detail(autojump_clock, caplog):
    store = FlakyStore(error=RuntimeError("the password is swordfish"))
    async with rest(ask, store=store) as caller:
        store.unreadable = True
        answer = await caller.rest("GET", "/tasks/x")
        assert (answer.status, answer.error["status"], answer.reason) == (500, "INTERNAL", "INTERNAL_ERROR")
        assert b"swordfish" not in answer.reply.body
        store.unreadable = False
        assert (await caller.rest("GET", "/tasks/x")).status == 404
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@within(10)
async def test_a_failure_before_a_stream_opens_is_a_plain_error_and_one_inside_is_an_event_of_its_own(autojump_clock):
    """A-55."""

    async def agent(context, updater):
        await trio.sleep(float(context.text()))
        await updater.start_work()

    store = FlakyStore(refuse=lambda _: True)
    async with rest(agent, store=store) as caller:
        async with caller.stream("SendStreamingMessage", body("0.9")) as events:
            answer = await events.answer()
            assert (answer.status, answer.reason) == (500, "INTERNAL_ERROR")
        async with caller.stream("SendStreamingMessage", body("3")) as events:
            (event,) = await events.rest()
    assert event.frame.event == "error"
    assert event.id is None
    assert event.says == "error INTERNAL_ERROR"
    assert event.frame.data["error"]["code"] == 500


@within(5)
async def test_outside_running_the_answer_is_503_in_the_form_of_the_binding(autojump_clock):
    async with rest(ask) as caller:
        app = caller.peer.app
        running, app._running = app._running, None
        answer = await caller.rest("GET", "/tasks")
        app._running = running
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.error["code"] == 503
    assert answer.error["status"] == "UNAVAILABLE"


# -------------------------------------------------------------------------------------------------- the order of checks


@within(5)
async def test_checks_come_in_the_order_of_the_protocol(autojump_clock):
    """Protocol 6.5: authentication, version, route, method, syntax, extensions, capability, params, look-up, state."""
    extension = AgentExtension(uri="urn:x", required=True)
    agents = card(streaming=False, extensions=(extension,))
    async with rest(ask, card=agents, authenticator=AUTH) as caller:
        known = {"authorization": "Bearer a"}
        at_one = {**known, **VERSION}
        active = {**at_one, "a2a-extensions": "urn:x"}

        async def refusal(method, path, headers, sent=b""):
            headers = {"content-type": JSON, **headers}
            reply = await caller.peer.http(method, path, headers, sent)
            error = reply.json["error"]
            return reply.status, error["details"][0]["reason"] if "details" in error else None

        assert await refusal("PUT", "/nowhere", {}, b"{") == (401, None)
        assert await refusal("PUT", "/nowhere", known, b"{") == (400, "VERSION_NOT_SUPPORTED")
        assert await refusal("PUT", "/nowhere", at_one, b"{") == (404, "METHOD_NOT_FOUND")
        assert await refusal("PUT", "/message:stream", at_one, b"{") == (405, "METHOD_NOT_FOUND")
        assert await refusal("POST", "/message:stream", at_one, b"{") == (400, "JSON_PARSE")
        assert await refusal("POST", "/message:stream", at_one, b"{}") == (400, "EXTENSION_SUPPORT_REQUIRED")
        assert await refusal("POST", "/message:stream", active, b"{}") == (400, "UNSUPPORTED_OPERATION")
        assert await refusal("POST", "/tasks/x:subscribe", active) == (400, "UNSUPPORTED_OPERATION")
        assert await refusal("POST", "/message:send", active, b"{}") == (400, "INVALID_PARAMS")
        assert await refusal("GET", "/tasks/x?historyLength=x", active) == (400, "INVALID_PARAMS")
        assert await refusal("GET", "/tasks/x", active) == (404, "TASK_NOT_FOUND")


@pytest.mark.requirement("C-153", "C-155", "C-162", "C-163")
@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({}, "", 400),
        ({"a2a-version": ""}, "", 400),
        ({"a2a-version": "0.3"}, "", 400),
        ({"a2a-version": "1.1"}, "", 400),
        ({"a2a-version": "1.0"}, "", 200),
        ({"A2A-VERSION": "1.0.7"}, "", 200),
        ({}, "?A2A-Version=1.0", 200),
        ({}, "?a2a-version=1.0", 200),
        ({}, "?A2A-Version=2.0", 400),
        ({"a2a-version": "1.0"}, "?A2A-Version=2.0", 200),
        ({"a2a-version": "2.0"}, "?A2A-Version=1.0", 400),
    ],
)
@within(5)
async def test_the_version_is_of_the_header_or_else_of_the_query(autojump_clock, headers, query, status):
    async with rest(ask) as caller:
        reply = await caller.peer.http("GET", f"/tasks{query}", headers)
    assert reply.status == status
    if status == 400:
        (info,) = reply.json["error"]["details"]
        assert info["reason"] == "VERSION_NOT_SUPPORTED"
        assert info["metadata"]["supported"] == "1.0"


@pytest.mark.requirement("C-165", "C-168", "C-172", "C-173")
@pytest.mark.parametrize(
    ("headers", "query", "activated"),
    [
        ({}, "", None),
        ({"a2a-extensions": "urn:other"}, "", None),
        ({"a2a-extensions": "urn:one"}, "", "urn:one"),
        ({"A2A-Extensions": "urn:two , urn:other,urn:one,urn:two"}, "", "urn:two, urn:one"),
        ({"a2a-extensions": "URN:ONE"}, "", None),
        ({}, "?A2A-Extensions=urn:one,urn%3Atwo", "urn:one, urn:two"),
        ({"a2a-extensions": "urn:one"}, "?A2A-Extensions=urn:two", "urn:one"),
    ],
)
@within(5)
async def test_activated_extensions_are_echoed_on_every_kind_of_answer(autojump_clock, headers, query, activated):
    seen = []

    async def agent(context, updater):
        seen.append(", ".join(context.extensions) or None)
        await updater.require_input()

    extensions = tuple(AgentExtension(uri=uri) for uri in ("urn:one", "urn:two"))
    async with rest(agent, card=card(extensions=extensions)) as caller:
        for path in ("/message:send", "/message:stream"):
            data = request_bytes("POST", path + query, {**VERSION, "content-type": JSON, **headers}, json_of(body()))
            async with caller.raw_stream(data) as events:
                assert events.headers.get("a2a-extensions") == activated
        answer = await caller.rest("GET", f"/tasks/none{query}", headers)
        assert answer.status == 404
        assert answer.headers.get("a2a-extensions") == activated
    assert seen == [activated, activated]


def json_of(document):
    return json.dumps(document).encode()


# --------------------------------------------------------------------------------------------------------------- owners


@pytest.mark.requirement("S5-OWNER", "C-078", "C-123")
@pytest.mark.parametrize("binding", ["JSONRPC", REST])
@within(5)
async def test_for_another_principal_a_task_does_not_exist_in_any_operation(autojump_clock, binding):
    """The answers for what is hidden and for what is missing differ in the id alone."""
    async with open_caller(binding, ask, authenticator=AUTH, push=InMemoryPushConfigStore()) as caller:
        ann, bob = caller.speaking_for("a"), caller.speaking_for("b")
        id_ = (await ann.call("SendMessage", body())).result["task"]["id"]

        def operations(task_id):
            return [
                ("GetTask", {"id": task_id}),
                ("CancelTask", {"id": task_id}),
                ("SubscribeToTask", {"id": task_id}),
                ("SendMessage", body(taskId=task_id)),
                ("SendStreamingMessage", body(taskId=task_id)),
                ("CreateTaskPushNotificationConfig", {"taskId": task_id, "url": HOOK}),
                ("GetTaskPushNotificationConfig", {"taskId": task_id, "id": "x"}),
                ("ListTaskPushNotificationConfigs", {"taskId": task_id}),
                ("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "x"}),
            ]

        for (operation, hidden), (_, missing) in zip(operations(id_), operations("missing"), strict=True):
            answers = [await bob.call(operation, params) for params in (hidden, missing)]
            assert [answer.reason for answer in answers] == ["TASK_NOT_FOUND"] * 2, operation
            assert answers[0].status == answers[1].status
            bodies = [{**answer.reply.json, "id": 0} for answer in answers]
            assert json.dumps(bodies[0]) == json.dumps(bodies[1]).replace("missing", id_)
            assert (await caller.call(operation, hidden)).status == 401
        referring = body("look", referenceTaskIds=[id_])
        assert (await bob.call("SendMessage", referring)).result["task"]["id"] != id_
        assert (await bob.call("ListTasks")).result["totalSize"] == 1
        assert (await ann.call("GetTask", {"id": id_})).result["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert (await ann.call("GetTask", {"id": id_})).result["history"][0]["parts"] == [{"text": "hello"}]


@within(5)
async def test_a_caller_that_may_not_is_403_and_an_unknown_one_is_401(autojump_clock):
    class Gate:
        async def authenticate(self, request):
            raise AuthorizationError("not you")

    async with rest(ask, authenticator=Gate()) as caller:
        answer = await caller.rest("GET", "/nowhere")
        assert (answer.status, answer.error["status"]) == (403, "PERMISSION_DENIED")
    async with rest(ask, authenticator=AUTH) as caller:
        answer = await caller.rest("GET", "/nowhere")
        assert (answer.status, answer.error["status"]) == (401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"] == "Bearer"


# ---------------------------------------------------------------------------------------------------------- connections


@within(5)
async def test_several_requests_may_come_over_one_connection(autojump_clock):
    async with rest(echo) as caller:
        wire = caller.peer.connect()
        for path, status in [("/tasks", 200), ("/nowhere", 404), ("/tasks/x", 404), ("/message:send", 405)]:
            assert (await caller.peer.http("GET", path, VERSION, wire=wire)).status == status
        reply = await caller.peer.http(
            "POST", "/message:send", {**VERSION, "content-type": JSON}, json_of(body()), wire=wire
        )
        assert reply.json["task"]


@within(5)
async def test_a_client_that_leaves_before_its_body_is_there_is_no_news(autojump_clock, caplog):
    async with rest(echo) as caller:
        wire = caller.peer.connect()
        head = request_bytes("POST", "/message:send", {**VERSION, "content-type": JSON}, b"x" * 100)[:-50]
        await wire.stream.send_all(head)
        await trio.testing.wait_all_tasks_blocked()
        await trio.aclose_forcefully(wire.stream)
        await trio.testing.wait_all_tasks_blocked()
        assert (await caller.rest("GET", "/tasks")).result["totalSize"] == 0
    assert not caplog.records


@within(5)
async def test_data_of_every_kind_comes_through(autojump_clock):
    async def agent(context, updater):
        await updater.add_artifact([*context.message.parts, Part(raw=b"\x00\xff")])
        await updater.complete()

    parts = [
        {"text": "line\u2028break \x85 \N{GRINNING FACE}"},
        {"data": None},
        {"data": {"a": [1, 2.5, None, True]}},
        {"url": HOOK, "filename": "f"},
        {"raw": "AP8="},
    ]
    async with rest(agent) as caller:
        answer = await caller.rest("POST", "/message:send", document=body(parts=parts))
        assert answer.result["task"]["artifacts"][0]["parts"] == [*parts, {"raw": "AP8="}]
        async with caller.stream("SendStreamingMessage", body(parts=parts)) as events:
            found = await events.rest()
        assert found[1].value["artifactUpdate"]["artifact"]["parts"] == [*parts, {"raw": "AP8="}]


@within(5)
async def test_the_limit_of_a_body_is_413_in_the_form_of_the_binding(autojump_clock):
    document = json_of(body())
    async with rest(ask, limits=Limits(max_body=len(document))) as caller:
        assert (await caller.rest("POST", "/message:send", {"content-type": JSON}, body=document)).result["task"]
        answer = await caller.rest("POST", "/message:send", {"content-type": JSON}, body=document + b" ")
    assert (answer.status, answer.error["code"], answer.error["status"]) == (413, 413, "INVALID_ARGUMENT")
    assert answer.reason == "INVALID_REQUEST"


# --------------------------------------------------------------------------------------------- beside the other binding


@within(5)
async def test_both_bindings_say_the_same_of_one_agent(autojump_clock):
    """Protocol section 1: equivalent results, and errors that correspond."""
    card_of_members = agent_card("Extended", ".")
    async with rest(echo, push=InMemoryPushConfigStore(), extended_card=card_of_members) as caller:
        other = attrs.evolve(caller, binding="JSONRPC")
        id_ = (await caller.call("SendMessage", body())).result["task"]["id"]
        await other.call("CreateTaskPushNotificationConfig", {"taskId": id_, "id": "one", "url": HOOK})
        for operation, params in [
            ("GetTask", {"id": id_}),
            ("GetTask", {"id": id_, "historyLength": 0}),
            ("ListTasks", {}),
            ("ListTasks", {"includeArtifacts": True, "historyLength": 1, "status": "TASK_STATE_COMPLETED"}),
            ("GetTaskPushNotificationConfig", {"taskId": id_, "id": "one"}),
            ("ListTaskPushNotificationConfigs", {"taskId": id_}),
            ("DeleteTaskPushNotificationConfig", {"taskId": id_, "id": "none"}),
            ("GetExtendedAgentCard", {}),
        ]:
            assert (await caller.call(operation, params)).result == (await other.call(operation, params)).result
        for operation, params in [
            ("GetTask", {"id": "none"}),
            ("GetTask", {"id": id_, "historyLength": -1}),
            ("CancelTask", {"id": id_}),
            ("SubscribeToTask", {"id": id_}),
            ("SendMessage", body(taskId=id_)),
            ("SendStreamingMessage", body(taskId=id_)),
            ("SendMessage", body(taskId="none")),
            ("SendMessage", body(taskId=id_, contextId="other")),
            ("SendMessage", body(role="ROLE_AGENT")),
            ("SendMessage", body(parts=[{"text": "x", "mediaType": "image/png"}])),
            ("SendMessage", {"message": {}}),
            ("ListTasks", {"pageToken": "x"}),
            ("CreateTaskPushNotificationConfig", {"taskId": id_, "url": "x"}),
        ]:
            answers = [await each.call(operation, params) for each in (caller, other)]
            assert answers[0].reason == answers[1].reason, (operation, params)
            assert answers[0].fields == answers[1].fields
            assert answers[0].metadata == answers[1].metadata
            assert answers[0].error["message"] == answers[1].error["message"]


@within(5)
async def test_both_bindings_stream_the_same_events_of_one_task(autojump_clock):
    go_on = trio.Event()

    async def agent(_context, updater):
        await updater.start_work("begun")
        await go_on.wait()
        async with updater.artifact(name="a") as out:
            await out.write("one")
            await out.write("two")
        await updater.complete("done")

    async with rest(agent) as caller:
        other = attrs.evolve(caller, binding="JSONRPC")
        async with caller.stream("SendStreamingMessage", body()) as sender:
            id_ = (await sender.next()).value["task"]["id"]
            assert (await sender.next()).says == "WORKING"
            async with (
                caller.stream("SubscribeToTask", {"id": id_}) as one,
                other.stream("SubscribeToTask", {"id": id_}) as two,
            ):
                snapshots = [await one.next(), await two.next()]
                assert snapshots[0].value == snapshots[1].value
                go_on.set()
                heard = [[(event.id, event.value) for event in await events.rest()] for events in (sender, one, two)]
    assert heard[0] == heard[1] == heard[2]
    assert [number for number, _ in heard[0]] == [3, 4, 5, 6]
