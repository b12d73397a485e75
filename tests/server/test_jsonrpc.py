"""The JSON-RPC binding over HTTP: its checks in their order, its results, its errors."""

import json

import attrs
import pytest
import trio
import trio.testing

from tests.deadline import within
from tests.server.peer import JSON, VERSION, message, open_peer
from trio_a2a.errors import AuthorizationError, TaskNotFoundError
from trio_a2a.server import BearerTokenAuthenticator, Limits, agent_card
from trio_a2a.testing import FlakyStore
from trio_a2a.types import AgentCapabilities, AgentExtension


async def echo(context, updater):
    await updater.start_work()
    await updater.add_artifact(context.text(), name="echo")
    await updater.complete("done")


async def ask(_context, updater):
    await updater.require_input("what?")


def card(**capabilities):
    return attrs.evolve(agent_card("Tested", "Is tested."), capabilities=AgentCapabilities(**capabilities))


# ----------------------------------------------------------------------------------------------------------- results


@pytest.mark.requirement("B53")
@within(5)
async def test_a_message_is_answered_with_the_task(autojump_clock):
    async with open_peer(echo) as peer:
        reply = await peer.send("hello", contextId="c")
    assert reply.headers["content-type"] == "application/json"
    assert reply.json["jsonrpc"] == "2.0"
    assert reply.json["id"] == 1
    (kind,) = reply.result
    task = reply.result[kind]
    assert kind == "task"
    assert task["contextId"] == "c"
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "hello"}]
    assert [m["parts"][0]["text"] for m in task["history"]] == ["hello"]


@pytest.mark.requirement("B53")
@within(5)
async def test_a_direct_reply_is_answered_as_a_message(autojump_clock):
    async def agent(_context, updater):
        await updater.reply("hi")

    async with open_peer(agent) as peer:
        result = (await peer.send()).result
    assert set(result) == {"message"}
    assert result["message"]["role"] == "ROLE_AGENT"
    assert "taskId" not in result["message"]


@within(5)
async def test_get_and_cancel_answer_with_the_bare_task(autojump_clock):
    async with open_peer(ask) as peer:
        task = (await peer.send()).result["task"]
        assert await peer.get(task["id"]) == task
        canceled = (await peer.call("CancelTask", {"id": task["id"]})).result
        assert canceled["id"] == task["id"]
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.requirement("S5-BLOCKING")
@within(5)
async def test_return_immediately_and_history_length_are_taken_from_the_configuration(autojump_clock):
    async def slow(_context, updater):
        await trio.sleep(3)
        await updater.complete()

    async with open_peer(slow) as peer:
        task = (await peer.send(configuration={"returnImmediately": True})).result["task"]
        assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
        assert trio.current_time() < 2
        assert "history" not in (await peer.send(configuration={"historyLength": 0})).result["task"]
        shown = await peer.call("GetTask", {"id": task["id"], "historyLength": 0})
        assert "history" not in shown.result


@pytest.mark.parametrize("id_", ["a", "", 0, -1, 2**53])
@within(5)
async def test_the_id_comes_back_as_it_was(autojump_clock, id_):
    async with open_peer(echo) as peer:
        reply = await peer.call("GetTask", {"id": "x"}, id=id_)
        assert reply.json["id"] == id_
        assert type(reply.json["id"]) is type(id_)


@within(5)
async def test_several_requests_may_come_over_one_connection(autojump_clock):
    async with open_peer(echo) as peer:
        wire = peer.connect()
        for number in range(3):
            reply = await peer.call("SendMessage", message(str(number)), id=number, wire=wire)
            assert reply.json["id"] == number
        reply = await peer.post(b"{", wire=wire)
        assert reply.code == -32700
        assert (await peer.call("SendMessage", message(), wire=wire)).result["task"]


# ---------------------------------------------------------------------------------------------------- JSON-RPC errors


@within(5)
async def test_what_is_no_json_is_a_parse_error_with_id_null(autojump_clock):
    async with open_peer(echo) as peer:
        reply = await peer.post(b'{"jsonrpc": "2.0", "id": 1')
    assert reply.status == 200
    assert reply.code == -32700
    assert reply.json["id"] is None
    assert reply.info["reason"] == "JSON_PARSE"


@pytest.mark.parametrize(
    ("body", "id_", "fields"),
    [
        ([], None, None),
        ([{"jsonrpc": "2.0", "id": 1, "method": "GetTask"}], None, None),
        ({"jsonrpc": "2.0", "method": "GetTask", "params": {"id": "x"}}, None, ["id"]),
        ({"jsonrpc": "2.0", "id": None, "method": "GetTask"}, None, ["id"]),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "GetTask"}, None, ["id"]),
        ({"jsonrpc": "1.0", "id": 7, "method": "GetTask"}, 7, ["jsonrpc"]),
        ({"id": "x", "method": "GetTask"}, "x", ["jsonrpc"]),
        ({"jsonrpc": "2.0", "id": 7}, 7, ["method"]),
        ({"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": "x"}, 7, ["params"]),
        ("hello", None, None),
    ],
    ids=[
        "empty",
        "batch",
        "notification",
        "null-id",
        "float-id",
        "version",
        "no-version",
        "no-method",
        "params",
        "str",
    ],
)
@within(5)
async def test_what_is_no_request_is_an_invalid_request(autojump_clock, body, id_, fields):
    async with open_peer(echo) as peer:
        reply = await peer.post(json.dumps(body).encode())
    assert reply.status == 200
    assert reply.code == -32600
    assert reply.json["id"] == id_
    if fields is not None:
        assert list(reply.violations) == fields


@pytest.mark.parametrize("method", ["message/send", "sendMessage", ""])
@within(5)
async def test_an_unknown_method_is_not_found(autojump_clock, method):
    async with open_peer(echo) as peer:
        reply = await peer.call(method, {}, id="q")
    assert (reply.status, reply.code, reply.json["id"]) == (200, -32601, "q")
    assert reply.info["reason"] == "METHOD_NOT_FOUND"


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize(
    ("params", "fields"),
    [
        ({}, {"message"}),
        ({"message": {}}, {"message.messageId", "message.role", "message.parts"}),
        ({"message": "hello"}, {"message"}),
        ({"message": {**message()["message"], "parts": []}}, {"message.parts"}),
        ({"message": {**message()["message"], "parts": [{"text": "a"}, {"text": 1}]}}, {"message.parts[1].text"}),
        ({"message": {**message()["message"], "parts": [{}]}}, {"message.parts[0]"}),
        ({"message": {**message()["message"], "parts": [{"text": "a", "url": "b"}]}}, {"message.parts[0]"}),
        ({"message": {**message()["message"], "role": "ROLE_AGENT"}}, {"message.role"}),
        (message(configuration={"historyLength": -1}), {"configuration.historyLength"}),
        (message(configuration={"returnImmediately": "yes"}), {"configuration.returnImmediately"}),
    ],
)
@within(5)
async def test_wrong_params_are_invalid_and_every_fault_is_named_by_its_path(autojump_clock, method, params, fields):
    async with open_peer(echo) as peer:
        reply = await peer.call(method, params, id=9)
        assert (reply.status, reply.code, reply.json["id"]) == (200, -32602, 9)
        assert reply.headers["content-type"] == "application/json"
        assert set(reply.violations) == fields
        assert reply.info["reason"] == "INVALID_PARAMS"


@pytest.mark.parametrize(
    ("method", "params", "fields"),
    [
        ("GetTask", {}, {"id"}),
        ("GetTask", {"id": 7}, {"id"}),
        ("GetTask", {"id": "x", "historyLength": -1}, {"historyLength"}),
        ("CancelTask", {}, {"id"}),
        ("SubscribeToTask", {}, {"id"}),
    ],
)
@within(5)
async def test_wrong_params_of_the_other_methods_are_invalid_too(autojump_clock, method, params, fields):
    async with open_peer(echo) as peer:
        reply = await peer.call(method, params)
        assert reply.code == -32602
        assert set(reply.violations) == fields


@pytest.mark.parametrize("method", ["GetTask", "CancelTask", "SubscribeToTask"])
@within(5)
async def test_an_unknown_task_is_not_found(autojump_clock, method):
    async with open_peer(echo) as peer:
        reply = await peer.call(method, {"id": "no-such-task"})
    assert (reply.status, reply.code) == (200, -32001)
    assert reply.info == {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "TASK_NOT_FOUND",
        "domain": "a2a-protocol.org",
        "metadata": {"taskId": "no-such-task"},
    }


@within(5)
async def test_what_a_terminal_task_refuses(autojump_clock):
    async with open_peer(echo) as peer:
        task = (await peer.send()).result["task"]
        for method, params, code in [
            ("SendMessage", message(taskId=task["id"]), -32004),
            ("SendStreamingMessage", message(taskId=task["id"]), -32004),
            ("SubscribeToTask", {"id": task["id"]}, -32004),
            ("CancelTask", {"id": task["id"]}, -32002),
        ]:
            reply = await peer.call(method, params)
            assert (method, reply.status, reply.code) == (method, 200, code)
            assert reply.info["metadata"] == {"taskId": task["id"], "state": "TASK_STATE_COMPLETED"}


@within(5)
async def test_a_part_of_a_media_type_that_the_agent_does_not_take_is_refused(autojump_clock):
    """A-51."""
    async with open_peer(echo) as peer:
        for parts, code in [
            ([{"raw": "AAAA", "mediaType": "image/png"}], -32005),
            ([{"text": "x", "mediaType": "text/plain; charset=utf-8"}], None),
            ([{"text": "x"}], None),
        ]:
            reply = await peer.send(parts=parts)
            assert reply.json.get("error", {}).get("code") == code
        reply = await peer.send(parts=[{"text": "x", "mediaType": "image/png"}])
        assert reply.info["metadata"] == {"mediaType": "image/png"}


@within(5)
async def test_an_inline_push_configuration_is_refused_before_anything_is_made(autojump_clock):
    """A-32."""
    called = []

    async def agent(_context, updater):
        called.append(True)
        await updater.complete()

    async with open_peer(agent) as peer:
        reply = await peer.send(configuration={"taskPushNotificationConfig": {"url": "https://example.com"}})
        assert reply.code == -32003
    assert not called


@within(5)
async def test_an_agent_s_refusal_is_the_answer(autojump_clock):
    async def agent(_context, _updater):
        raise TaskNotFoundError("Whatever it says", metadata={"a": "b"})

    async with open_peer(agent) as peer:
        reply = await peer.send()
    assert (reply.status, reply.code) == (200, -32001)
    assert reply.error["message"] == "Whatever it says"
    assert reply.info["metadata"] == {"a": "b"}


@within(5)
async def test_an_error_that_has_no_json_rpc_code_is_an_invalid_request_in_a_body(autojump_clock):
    async def agent(_context, _updater):
        raise AuthorizationError("Not you")

    async with open_peer(agent) as peer:
        reply = await peer.send()
    assert (reply.code, reply.error["message"]) == (-32600, "Not you")


@within(5)
async def test_a_store_that_fails_is_an_internal_error_without_detail(autojump_clock, caplog):
    store = FlakyStore(error=RuntimeError("the password is swordfish"))
    async with open_peer(echo, store=store) as peer:
        store.unreadable = True
        reply = await peer.call("GetTask", {"id": "x"}, id="q")
        assert (reply.status, reply.code, reply.json["id"]) == (200, -32603, "q")
        assert reply.error["message"] == "Internal error"
        assert b"swordfish" not in reply.body
        assert "swordfish" in caplog.text
        store.unreadable = False
        assert (await peer.send()).result["task"]


@within(5)
async def test_a_failed_agent_is_a_failed_task_and_not_an_error(autojump_clock, caplog):
    async def agent(_context, _updater):
        raise LookupError("swordfish")

    async with open_peer(agent) as peer:
        reply = await peer.send()
    assert reply.result["task"]["status"]["message"]["parts"] == [{"text": "The agent failed."}]
    assert b"swordfish" not in reply.body


@within(5)
async def test_surrogates_and_line_breaks_in_texts_come_through(autojump_clock):
    text = "\u2028 \u0085 \U0001f600 \x00 ü"
    async with open_peer(echo) as peer:
        task = (await peer.send(text)).result["task"]
        assert task["artifacts"][0]["parts"][0]["text"] == text


# ---------------------------------------------------------------------------------------------------- the HTTP level


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/jsonx", "application/a2a+json", ""])
@within(5)
async def test_another_content_type_is_415_with_id_null(autojump_clock, content_type):
    """A-51."""
    async with open_peer(echo) as peer:
        headers = {**VERSION} if content_type is None else {**VERSION, "content-type": content_type}
        reply = await peer.http("POST", "/", headers, peer.request("GetTask", {"id": "x"}))
    assert (reply.status, reply.code, reply.json["id"]) == (415, -32005, None)


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json;x=y"]
)
@within(5)
async def test_json_with_parameters_is_json(autojump_clock, content_type):
    async with open_peer(echo) as peer:
        assert (await peer.call("GetTask", {"id": "x"}, {"content-type": content_type})).code == -32001


@pytest.mark.parametrize("announced", [True, False], ids=["content-length", "chunked"])
@within(5)
async def test_a_body_past_the_limit_is_413_with_id_null(autojump_clock, announced):
    async with open_peer(echo, limits=Limits(max_body=1000)) as peer:
        wire = peer.connect()
        body = peer.request("SendMessage", message("x" * 2000))
        headers = "".join(f"{name}: {value}\r\n" for name, value in {**JSON, **VERSION, "host": "test"}.items())
        if announced:
            framed = f"content-length: {len(body)}\r\n\r\n".encode() + body
        else:
            framed = b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        await wire.stream.send_all(f"POST / HTTP/1.1\r\n{headers}".encode() + framed)
        status, received = await wire.head()
        answer = json.loads(await wire.body(received))
        assert status == 413
        assert answer["id"] is None
        assert answer["error"]["code"] == -32600
        assert (await peer.send("short")).result["task"]


@within(5)
async def test_a_body_of_just_the_limit_is_taken(autojump_clock):
    async with open_peer(echo) as sizing:
        size = len(sizing.request("SendMessage", message("x" * 500), id=1))
    async with open_peer(echo, limits=Limits(max_body=size)) as peer:
        assert (await peer.call("SendMessage", message("x" * 500), id=1)).result["task"]
        assert (await peer.call("SendMessage", message("x" * 501), id=1)).status == 413


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
@within(5)
async def test_another_http_method_is_405_and_says_which_is_allowed(autojump_clock, method):
    async with open_peer(echo) as peer:
        reply = await peer.http(method, "/")
    assert reply.status == 405
    assert reply.headers["allow"] == "POST"


@within(5)
async def test_a_client_that_leaves_before_its_body_is_there_is_no_news(autojump_clock, caplog):
    async with open_peer(echo) as peer:
        wire = peer.connect()
        await wire.stream.send_all(
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n"
        )
        await trio.testing.wait_all_tasks_blocked()
        await wire.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert (await peer.send()).result["task"]
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


# ---------------------------------------------------------------------------------------------- versions, extensions


@pytest.mark.parametrize("headers", [{"a2a-version": "0.3"}, {"a2a-version": ""}, {"a2a-version": "2.0"}])
@within(5)
async def test_a_version_that_is_not_served_is_refused_with_the_id(autojump_clock, headers):
    async with open_peer(echo) as peer:
        reply = await peer.call("GetTask", {"id": "x"}, headers, id="q")
    assert (reply.status, reply.code, reply.json["id"]) == (200, -32009, "q")
    assert reply.info["metadata"]["supported"] == "1.0"


@within(5)
async def test_a_request_without_a_version_asks_for_0_3(autojump_clock):
    async with open_peer(echo) as peer:
        reply = await peer.http("POST", "/", JSON, peer.request("GetTask", {"id": "x"}))
    assert reply.code == -32009
    assert reply.info["metadata"]["requested"] == "0.3"


@pytest.mark.parametrize(
    ("header", "query", "accepted"),
    [
        (None, "1.0", True),
        ("1.0", "0.3", True),
        ("0.3", "1.0", False),
        ("1.0.7", None, True),
        ("1.1", None, False),
    ],
)
@within(5)
async def test_the_header_comes_before_the_query_and_patch_numbers_do_not_matter(
    autojump_clock, header, query, accepted
):
    async with open_peer(echo) as peer:
        headers = {**JSON} if header is None else {**JSON, "A2A-Version": header}
        path = "/" if query is None else f"/?A2A-Version={query}"
        reply = await peer.http("POST", path, headers, peer.request("GetTask", {"id": "x"}))
    assert reply.code == (-32001 if accepted else -32009)


@within(5)
async def test_the_version_is_judged_before_the_syntax(autojump_clock):
    async with open_peer(echo) as peer:
        for body, id_ in [(b"{", None), (b'{"id": 7}', 7), (b"[]", None)]:
            reply = await peer.post(body, {"a2a-version": "9.9"})
            assert (reply.code, reply.json["id"]) == (-32009, id_)


URI, OTHER = "https://example.com/ext/v1", "https://example.com/other/v1"


@within(5)
async def test_the_extensions_that_are_activated_are_echoed_and_the_agent_is_told(autojump_clock):
    told = []

    async def agent(context, updater):
        told.append(context.extensions)
        await updater.complete()

    declared = card(extensions=(AgentExtension(uri=URI), AgentExtension(uri=OTHER)))
    async with open_peer(agent, card=declared) as peer:
        reply = await peer.send(headers={"a2a-extensions": f"{OTHER}, urn:unknown,{URI}"})
        assert reply.headers["a2a-extensions"] == f"{OTHER}, {URI}"
        assert "a2a-extensions" not in (await peer.send()).headers
        assert (await peer.call("GetTask", {"id": "x"}, {"a2a-extensions": URI})).headers["a2a-extensions"] == URI
        async with peer.stream("SendStreamingMessage", message(), {"a2a-extensions": URI}) as stream:
            assert stream.headers["a2a-extensions"] == URI
            await stream.frames()
    assert told == [(OTHER, URI), (), (URI,)]


@within(5)
async def test_a_required_extension_must_be_activated_for_every_operation(autojump_clock):
    """A-39."""
    declared = card(extensions=(AgentExtension(uri=URI, required=True), AgentExtension(uri=OTHER)))
    async with open_peer(echo, card=declared) as peer:
        for method in ("SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "SubscribeToTask"):
            reply = await peer.call(method, {}, {"a2a-extensions": OTHER})
            assert (method, reply.code) == (method, -32008)
            assert reply.info["metadata"] == {"uri": URI}
        assert (await peer.send(headers={"a2a-extensions": URI})).result["task"]
        assert (await peer.call("NoSuchMethod", {})).code == -32601


@pytest.mark.parametrize("method", ["SendStreamingMessage", "SubscribeToTask"])
@within(5)
async def test_without_the_streaming_capability_a_stream_is_unsupported_whatever_its_params(autojump_clock, method):
    """The capability is judged before the parameters (A-33)."""
    async with open_peer(echo, card=card(streaming=False)) as peer:
        for params in (message(), {"id": "x"}, {}, {"message": 7}):
            assert (await peer.call(method, params)).code == -32004
        assert (await peer.send()).result["task"]


# ---------------------------------------------------------------------------------------------------- who is calling

TOKENS = BearerTokenAuthenticator({"ann-s-token": "ann", "bob-s-token": "bob"})
ANN, BOB = {"authorization": "Bearer ann-s-token"}, {"authorization": "Bearer bob-s-token"}


@pytest.mark.requirement("S5-OWNER")
@within(5)
async def test_a_task_of_another_principal_does_not_exist(autojump_clock):
    async with open_peer(ask, authenticator=TOKENS) as peer:
        task = (await peer.send(headers=ANN)).result["task"]
        id_ = task["id"]
        for method, params in [
            ("GetTask", {"id": id_}),
            ("CancelTask", {"id": id_}),
            ("SubscribeToTask", {"id": id_}),
            ("SendMessage", message(taskId=id_)),
            ("SendStreamingMessage", message(taskId=id_)),
        ]:
            hidden = await peer.call(method, params, BOB)
            assert (method, hidden.code) == (method, -32001)
            text = json.dumps(hidden.error).replace(id_, "ID")
            missing = await peer.call(method, json.loads(json.dumps(params).replace(id_, "no-such-task")), BOB)
            assert text == json.dumps(missing.error).replace("no-such-task", "ID"), "the answers differ"
        assert await peer.get(id_, headers=ANN) == task
        assert (await peer.send(headers=ANN, taskId=id_)).result["task"]["id"] == id_


@within(5)
async def test_a_caller_without_credentials_is_401_before_anything_else_is_looked_at(autojump_clock):
    async with open_peer(echo, authenticator=TOKENS) as peer:
        for headers, body in [({**JSON}, b"{"), ({"content-type": "text/plain"}, b""), ({**JSON, **VERSION}, b"[]")]:
            reply = await peer.http("POST", "/", headers, body)
            assert reply.status == 401
            assert reply.headers["www-authenticate"] == "Bearer"
            assert reply.json["id"] is None
            assert reply.error["message"] == "Authentication required"
