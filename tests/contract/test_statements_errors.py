"""The statements on errors, and on the forms of the JSON-RPC and the HTTP+JSON binding."""

import json

import pytest
import trio

from tests.contract.bindings import OPERATIONS, Caller, both_bindings, open_caller, said, states
from tests.contract.replay import assert_error, load
from tests.deadline import within
from tests.server.peer import Peer, make_app
from trio_a2a import errors
from trio_a2a.server import Limits
from trio_a2a.testing import FlakyStore

TABLE = [one for one in load("data/errors.json")["errors"] if one["jsonrpcCode"] is not None]
OWN = [one for one in TABLE if one["jsonrpcCode"] > -32100]
JSON = {"content-type": "application/json", "a2a-version": "1.0"}


async def finish(_context, updater):
    await updater.complete()


def refusing(name):
    async def agent(_context, _updater):
        raise getattr(errors, name)

    return agent


async def post(caller, body, path="/", **headers):
    reply = await caller.peer.http("POST", path, {**JSON, **headers}, body)
    return reply.status, reply.json


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.requirement("C-217", "C-218", "C-219", "C-220", "C-221", "C-223", "C-244", "C-259")
@pytest.mark.parametrize("table", ["1.0.0", "1.0.1"])
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["name"])
@both_bindings
@within(5)
async def test_each_error_has_its_codes_and_its_form(autojump_clock, binding, row, table):
    async with open_caller(binding, refusing(row["name"]), error_table=table) as caller:
        answer = await caller.call("SendMessage", said())
    assert_error(answer.error, rest=answer.rest)
    assert answer.reason == (row["reason"] or row["conventionalReason"])
    older = row.get("v1_0_0", row) if table == "1.0.0" else row
    if answer.rest:
        assert answer.status == answer.error["code"] == older["httpStatus"]
        assert answer.error["status"] == older["grpcStatus"]
        assert set(answer.body) == {"error"}
    else:
        assert answer.status == 200
        assert answer.error["code"] == row["jsonrpcCode"]


@pytest.mark.requirement("C-245")
def test_the_codes_of_the_protocol_s_own_errors_are_in_its_range():
    assert len(OWN) == 9
    rows = [errors.error_row(getattr(errors, one["name"])) for one in OWN]
    assert all(-32099 <= row.code <= -32001 for row in rows)


@pytest.mark.requirement("C-229", "C-230", "C-293")
@pytest.mark.parametrize(
    ("params", "fields"),
    [
        ({"message": 1}, ["message"]),
        ({"message": {**said()["message"], "parts": "hello"}}, ["message.parts"]),
        ({"message": {**said()["message"], "role": "ROLE_KING"}}, ["message.role"]),
        ({"message": {**said()["message"], "role": "ROLE_AGENT"}}, ["message.role"]),
        ({"message": {**said()["message"], "messageId": 7, "parts": [{}]}}, ["message.messageId", "message.parts[0]"]),
        ({**said(), "configuration": {"historyLength": 1.5}}, ["configuration.historyLength"]),
        ({**said(), "configuration": {"returnImmediately": "yes"}}, ["configuration.returnImmediately"]),
        ({**said(), "metadata": []}, ["metadata"]),
    ],
)
@both_bindings
@within(5)
async def test_what_is_wrong_is_named_and_never_reaches_the_agent(autojump_clock, binding, params, fields):
    asked = []

    async def agent(context, _updater):
        asked.append(context)

    async with open_caller(binding, agent) as caller:
        answer = await caller.call("SendMessage", params)
        assert answer.reason == "INVALID_PARAMS"
        assert answer.fields == fields
        assert (await caller.call("ListTasks")).result["totalSize"] == 0
    assert not asked


@pytest.mark.requirement("C-231")
@pytest.mark.parametrize("operation", ["GetTask", "CancelTask", "SubscribeToTask"])
@both_bindings
@within(5)
async def test_what_is_not_there_is_not_found(autojump_clock, binding, operation):
    async with open_caller(binding, finish) as caller:
        answer = await caller.call(operation, {"id": "unknown"})
    assert answer.reason == "TASK_NOT_FOUND"
    code = answer.error["code"], answer.error.get("status"), answer.status
    assert code == ((404, "NOT_FOUND", 404) if answer.rest else (-32001, None, 200))


@pytest.mark.requirement("C-232", "C-233", "C-291")
@both_bindings
@within(5)
async def test_an_overload_is_not_taken_for_a_bug(autojump_clock, binding, caplog):
    async def agent(_context, updater):
        await updater.start_work()
        await trio.sleep_forever()

    store = FlakyStore()
    async with open_caller(binding, agent, store=store, limits=Limits(streams_per_task=1)) as caller:
        async with caller.stream("SendStreamingMessage", said()) as events:
            task = (await events.next())["task"]
            busy = await caller.call("SubscribeToTask", {"id": task["id"]})
            assert busy.status == 429
            assert int(busy.headers["retry-after"]) >= 1
            if busy.rest:
                assert busy.error["status"] == "RESOURCE_EXHAUSTED"
        store.unreadable = True
        bug = await caller.call("GetTask", {"id": task["id"]})
    assert bug.reason == "INTERNAL_ERROR"
    assert "retry-after" not in bug.headers
    assert bug.status == (500 if bug.rest else 200)


@pytest.mark.requirement("C-232", "C-233")
@both_bindings
@within(5)
async def test_an_agent_that_is_not_there_yet_is_unavailable_for_a_while(autojump_clock, binding):
    async with trio.open_nursery() as nursery:
        answer = await Caller(Peer(make_app(finish), nursery), binding).call("ListTasks")
        nursery.cancel_scope.cancel()
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    if answer.rest:
        assert answer.error["status"] == "UNAVAILABLE"


@pytest.mark.requirement("C-234", "C-243")
@both_bindings
@within(5)
async def test_a_failure_inside_is_logged_and_not_told(autojump_clock, binding, caplog):
    store = FlakyStore(error=RuntimeError("the cellar is flooded"))
    store.unreadable = True
    async with open_caller(binding, finish, store=store) as caller:
        answer = await caller.call("GetTask", {"id": "any"})
    assert answer.reason == "INTERNAL_ERROR"
    assert "cellar" not in str(answer)
    assert "the cellar is flooded" in caplog.text


@pytest.mark.requirement("C-243")
@both_bindings
@within(5)
async def test_an_agent_may_say_itself_that_something_failed(autojump_clock, binding):
    async with open_caller(binding, refusing("InternalError")) as caller:
        answer = await caller.call("SendMessage", said())
        assert (await caller.call("ListTasks")).result["totalSize"] == 0
    assert answer.error["code"] == (500 if answer.rest else -32603)


@pytest.mark.requirement("C-235")
@both_bindings
@within(5)
async def test_an_agent_that_answers_nothing_is_an_invalid_agent_response(autojump_clock, binding):
    async def agent(_context, _updater):
        pass

    async with open_caller(binding, agent) as caller:
        for operation in ("SendMessage", "SendStreamingMessage"):
            assert (await caller.call(operation, said())).reason == "INVALID_AGENT_RESPONSE"


# ----------------------------------------------------------------------------------------------------------- JSON-RPC


def rpc(**members):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}, **members}).encode()


@pytest.mark.requirement("C-236", "C-249")
@within(5)
async def test_json_rpc_is_json_by_post_and_answers_with_a_result_or_an_error(autojump_clock):
    async with open_caller("JSONRPC", finish) as caller:
        for body in (rpc(), rpc(params={"pageSize": 0})):
            reply = await caller.peer.http("POST", "/", JSON, body)
            assert reply.headers["content-type"] == "application/json"
            assert set(reply.json) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
            assert reply.json["jsonrpc"] == "2.0"
        assert (await caller.peer.http("GET", "/", JSON)).status == 405
        assert (await post(caller, rpc(), **{"content-type": "text/plain"}))[0] == 415


@pytest.mark.requirement("C-237")
@within(5)
async def test_methods_are_called_by_the_names_of_the_table(autojump_clock):
    async with open_caller("JSONRPC", finish) as caller:
        for operation, row in OPERATIONS.items():
            assert (await post(caller, rpc(method=operation)))[1].get("error", {}).get("code") != -32601
            for name in (row["v03JsonrpcMethod"], operation.lower(), operation[0].lower() + operation[1:]):
                if name is not None:
                    assert (await post(caller, rpc(method=name)))[1]["error"]["code"] == -32601


@pytest.mark.requirement("C-238")
@pytest.mark.parametrize("id_", [1, 0, -7, 2**53, "one", "", "7"])
@within(5)
async def test_an_id_comes_back_as_it_was(autojump_clock, id_):
    async with open_caller("JSONRPC", finish) as caller:
        for method in ("ListTasks", "Foo"):
            _, answer = await post(caller, rpc(id=id_, method=method))
            assert (answer["id"], type(answer["id"])) == (id_, type(id_))


@pytest.mark.requirement("C-238", "C-240")
@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'"text"',
        b"7",
        b"null",
        b"[%b]" % rpc(),
        rpc(jsonrpc="1.0"),
        rpc(jsonrpc=None),
        rpc(method=None),
        rpc(method=7),
        rpc(id=None),
        rpc(id=1.5),
        rpc(id=[]),
        b'{"jsonrpc": "2.0", "id": 1}',
        b'{"id": 1, "method": "ListTasks"}',
        b'{"jsonrpc": "2.0", "method": "ListTasks"}',
    ],
)
@within(5)
async def test_what_is_no_request_is_an_invalid_one(autojump_clock, body):
    async with open_caller("JSONRPC", finish) as caller:
        status, answer = await post(caller, body)
    assert (status, answer["error"]["code"]) == (200, -32600)


@pytest.mark.requirement("C-239")
@pytest.mark.parametrize("body", [b"", b"{", b'{"jsonrpc":"2.0","id":22,', rpc()[:-1], b"{'a': 1}", rpc() + b"}"])
@within(5)
async def test_what_is_no_json_is_a_parse_error_without_an_id(autojump_clock, body):
    async with open_caller("JSONRPC", finish) as caller:
        status, answer = await post(caller, body)
    assert (status, answer["error"]["code"], answer["id"]) == (200, -32700, None)


@pytest.mark.requirement("C-241")
@within(5)
async def test_a_method_that_is_none_is_not_found(autojump_clock):
    async with open_caller("JSONRPC", finish) as caller:
        assert (await post(caller, rpc(method="Foo")))[1]["error"]["code"] == -32601


@pytest.mark.requirement("C-242")
@pytest.mark.parametrize("params", [{"pageSize": "many"}, {"status": 99}, {"contextId": {}}])
@within(5)
async def test_params_of_the_wrong_type_are_invalid(autojump_clock, params):
    async with open_caller("JSONRPC", finish) as caller:
        assert (await post(caller, rpc(params=params)))[1]["error"]["code"] == -32602


@pytest.mark.requirement("C-242")
@within(5)
async def test_params_are_an_object(autojump_clock):
    async with open_caller("JSONRPC", finish) as caller:
        for params in ([], [{"pageSize": 1}]):
            assert (await post(caller, rpc(params=params)))[1]["error"]["code"] == -32602
            assert (await post(caller, rpc(method="Foo", params=params)))[1]["error"]["code"] == -32601


@pytest.mark.requirement("C-246")
@within(5)
async def test_each_event_of_a_json_rpc_stream_is_a_whole_response(autojump_clock):
    async with (
        open_caller("JSONRPC", finish) as caller,
        caller.peer.stream("SendStreamingMessage", said(), id="seven") as stream,
    ):
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"
        frames = await stream.frames()
    assert len(frames) == 2
    for frame in frames:
        assert set(frame.data) == {"jsonrpc", "id", "result"}
        assert (frame.data["jsonrpc"], frame.data["id"]) == ("2.0", "seven")


@pytest.mark.requirement("C-248")
@within(5)
async def test_the_extended_card_needs_no_params(autojump_clock):
    async with open_caller("JSONRPC", finish, extended_card=lambda _: None) as caller:
        for body in (
            b'{"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}',
            rpc(method="GetExtendedAgentCard"),
        ):
            assert (await post(caller, body))[1]["error"]["code"] == -32007


# ---------------------------------------------------------------------------------------------------------- HTTP+JSON


@pytest.mark.requirement("C-251", "C-262")
@pytest.mark.parametrize("operation", OPERATIONS)
@within(5)
async def test_each_operation_is_at_its_path_by_its_verbs_and_by_no_other(autojump_clock, operation):
    row = OPERATIONS[operation]["rest"]
    path = row["path"].replace("{id}", "unknown").replace("{taskId}", "unknown")
    shared = [one["rest"] for one in OPERATIONS.values() if one["rest"]["path"] == row["path"]]
    verbs = {verb for one in shared for verb in (one["verb"], *one["alsoAccept"])}
    async with open_caller("HTTP+JSON", finish) as caller:
        for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            reply = await caller.peer.http(verb, path, JSON)
            if verb in verbs:
                assert reply.status != 405
                reasons = [one["reason"] for one in reply.json.get("error", {}).get("details", ()) if "reason" in one]
                assert "METHOD_NOT_FOUND" not in reasons
            else:
                assert reply.status == 405
                assert set(reply.headers["allow"].split(", ")) == verbs


@pytest.mark.requirement("C-262")
@pytest.mark.parametrize("verb", ["GET", "POST"])
@within(5)
async def test_a_subscription_is_by_get_or_post(autojump_clock, verb):
    async def agent(_context, updater):
        await updater.require_input("?")

    async with open_caller("HTTP+JSON", agent) as caller:
        task = await caller.send()
        await caller.app.updater(task["id"]).start_work()
        wire = caller.peer.connect()
        headers = "content-length: 0\r\n" if verb == "POST" else ""
        path = f"/tasks/{task['id']}:subscribe"
        request = f"{verb} {path} HTTP/1.1\r\nhost: test\r\na2a-version: 1.0\r\n{headers}\r\n"
        await wire.stream.send_all(request.encode())
        status, received = await wire.head()
    assert status == 200
    assert received["content-type"] == "text/event-stream"


@pytest.mark.requirement("C-252")
@within(5)
async def test_the_media_type_of_the_specification_is_taken_and_answered_where_it_is_used(autojump_clock):
    body = json.dumps(said()).encode()
    own = "application/a2a+json"
    async with open_caller("HTTP+JSON", finish) as caller:
        for headers, answered in (
            ({"content-type": own}, own),
            ({"content-type": f"{own}; charset=utf-8"}, own),
            ({"accept": f"{own}, application/json"}, own),
            ({}, "application/json"),
        ):
            reply = await caller.peer.http("POST", "/message:send", {**JSON, **headers}, body)
            assert reply.status == 200
            assert reply.headers["content-type"] == answered


@pytest.mark.requirement("C-253", "C-254", "C-256")
@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ("pageSize=1", 2),
        ("contextId=one", 1),
        ("context_id=one", 2),
        ("status=TASK_STATE_COMPLETED", 2),
        ("status=TASK_STATE_FAILED", 0),
        ("statusTimestampAfter=9999-01-01T00%3A00%3A00Z", 0),
        ("includeArtifacts=true&historyLength=1", 2),
        ("includeArtifacts=True", None),
        ("includeArtifacts=1", None),
        ("pageSize=1.5", None),
        ("historyLength=few", None),
        ("status=working", None),
        ("statusTimestampAfter=now", None),
    ],
)
@within(5)
async def test_a_get_is_told_everything_in_its_query(autojump_clock, query, matches):
    async with open_caller("HTTP+JSON", finish) as caller:
        await caller.send(contextId="one")
        await caller.send(contextId="two")
        reply = await caller.peer.http("GET", f"/tasks?{query}", {"a2a-version": "1.0"})
    if matches is None:
        assert reply.status == 400
        assert reply.json["error"]["details"][0]["reason"] == "INVALID_PARAMS"
    else:
        assert reply.json["totalSize"] == matches


@pytest.mark.requirement("C-253")
@within(5)
async def test_the_body_of_a_get_is_not_looked_at(autojump_clock):
    async with open_caller("HTTP+JSON", finish) as caller:
        await caller.send()
        reply = await caller.peer.http("GET", "/tasks", JSON, b'{"contextId": "none"}')
    assert reply.json["totalSize"] == 1


@pytest.mark.requirement("C-258")
@within(5)
async def test_a_result_stands_bare(autojump_clock):
    async with open_caller("HTTP+JSON", finish) as caller:
        sent = (await caller.call("SendMessage", said())).body
        assert list(sent) == ["task"]
        assert (await caller.call("GetTask", {"id": sent["task"]["id"]})).body == sent["task"]


@pytest.mark.requirement("C-260")
@within(5)
async def test_each_event_of_an_http_json_stream_is_bare(autojump_clock):
    async with open_caller("HTTP+JSON", finish) as caller, caller.stream("SendStreamingMessage", said()) as events:
        assert events.headers["content-type"] == "text/event-stream"
        frames = await events.stream.frames()
    assert [set(frame.data) for frame in frames] == [{"task"}, {"statusUpdate"}]
    assert states([frame.data for frame in frames]) == ["SUBMITTED", "COMPLETED"]
