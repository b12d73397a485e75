"""Servers that break the protocol, or break: each has an error that says so, and none hangs or grows a client."""

import json

import pytest
import trio
import trio.testing

from tests.client.peers import (
    SSE_END,
    SSE_HEAD,
    answer_json,
    both_bindings,
    card_json,
    chunk,
    http,
    open_raw,
    sse,
)
from tests.client.scripted import ScriptedTransport, client_of as client_on
from tests.deadline import within
from trio_a2a.client import (
    ConnectionLostError,
    HttpStatusError,
    InvalidResponseError,
    ResponseTooLargeError,
    StreamInterruptedError,
    connect,
)
from trio_a2a.errors import A2AError, InternalError, RateLimitedError, TaskNotFoundError
from trio_a2a.types import AgentCard, ListTasksResponse, Task, TaskState, TaskStatus
from trio_a2a.wire import from_dict

TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
DONE = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}


def wrapped(binding, request, result):
    if binding != "JSONRPC":
        return result
    return {"jsonrpc": "2.0", "id": request.json["id"], "result": result}


def answering(binding, document, status=200, **headers):
    return lambda request: answer_json(wrapped(binding, request, document), status, **headers)


def client_of(raw, binding, **options):
    members = options.pop("card", {})
    return connect(from_dict(card_json(raw.url, binding, **members), AgentCard, strict=False), **options)


# -------------------------------------------------------------------------------------------------------------- answers


@pytest.mark.requirement("C-250")
@pytest.mark.parametrize(
    "change",
    [
        {"id": 999},
        {"id": "1"},
        {"id": None},
        {"result": {}},
        {"result": {"task": DONE, "message": {}}},
        {"result": 5},
        {"result": {"task": {"id": "t"}}},
        {"error": 5},
    ],
    ids=str,
)
@within(5)
async def test_a_response_that_is_none_is_an_error(change):
    def answer(request):
        return answer_json({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": DONE}, **change})

    async with open_raw(answer) as raw, client_of(raw, "JSONRPC") as client:
        with pytest.raises(InvalidResponseError):
            await client.send("x")
        assert len(raw.requests) == 1


@within(5)
async def test_an_error_whose_request_could_not_be_read_has_no_id():
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "no"}}
    async with open_raw(lambda _: answer_json(error)) as raw, client_of(raw, "JSONRPC") as client:
        with pytest.raises(InternalError, match="no"):
            await client.send("x")


@both_bindings
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"<html>", b'"text"', b"\xff\xfe"])
@within(5)
async def test_what_is_no_json_object_is_an_error(binding, body):
    async with open_raw(lambda _: http(200, body)) as raw, client_of(raw, binding) as client:
        with pytest.raises(InvalidResponseError):
            await client.send("x")


@both_bindings
@pytest.mark.parametrize("status", [302, 400, 404, 500, 502])
@within(5)
async def test_a_status_of_something_in_between_is_a_transport_error_with_its_body(binding, status):
    async with open_raw(lambda _: http(status, b"<h1>No</h1>", "text/html")) as raw, client_of(raw, binding) as client:
        with pytest.raises(HttpStatusError, match="<h1>No") as caught:
            await client.send("x")
        assert caught.value.status == status
        assert len(raw.requests) == 1


@both_bindings
@within(5)
async def test_the_statuses_that_mean_one_thing_are_their_errors_whatever_the_body_is(binding):
    limited = http(429, b"slow down", "text/plain", retry_after="7")
    async with open_raw(lambda _: limited) as raw, client_of(raw, binding) as client:
        with pytest.raises(RateLimitedError) as caught:
            await client.send("x")
        assert caught.value.retry_after == 7
        assert len(raw.requests) == 1


@both_bindings
@within(5)
async def test_a_broken_connection_is_an_error_and_what_is_safe_is_repeated(binding):
    def answer(request):
        if len(raw.requests) < 3:
            return b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"
        return answer_json(wrapped(binding, request, TASK))

    async with open_raw(answer) as raw, client_of(raw, binding) as client:
        assert (await client.get_task("t")).id == "t"
        assert len(raw.requests) == 3
        raw.requests.clear()
        with pytest.raises(ConnectionLostError):
            await client.cancel_task("t")
        assert len(raw.requests) == 1


@both_bindings
@within(20)
async def test_an_endless_answer_is_cut_off(binding):
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    endless = [head, *[chunk(b" " * 1_000_000)] * 1000]
    async with open_raw(lambda _: endless) as raw, client_of(raw, binding) as client:
        with pytest.raises(ResponseTooLargeError):
            await client.send("x")


@both_bindings
@within(5)
async def test_an_answer_with_a_stream_to_a_call_is_an_error(binding):
    async with open_raw(lambda _: sse({"task": DONE})) as raw, client_of(raw, binding) as client:
        with pytest.raises(InvalidResponseError, match="answered with a stream"):
            await client.send("x")


@both_bindings
@within(5)
async def test_what_a_later_version_adds_does_no_harm(binding):
    task = {**DONE, "new": 1, "status": {"state": "TASK_STATE_PAUSED", "mood": "good"}}
    async with open_raw(answering(binding, task)) as raw, client_of(raw, binding) as client:
        assert (await client.get_task("t")).status.state is TaskState.UNSPECIFIED


@both_bindings
@pytest.mark.parametrize("answer", [http(204), http(200, b"{}"), http(200, b"null"), http(201, b" ")])
@within(5)
async def test_a_deletion_is_answered_in_several_ways(binding, answer):
    if binding == "JSONRPC":
        answer = None

    def reply(request):
        return answer or answer_json({"jsonrpc": "2.0", "id": request.json["id"], "result": None})

    async with open_raw(reply) as raw, client_of(raw, binding) as client:
        await client.push_configs.delete("t", "c")


@both_bindings
@within(5)
async def test_a_list_without_an_end_is_an_error(binding):
    page = {"tasks": [DONE], "nextPageToken": "again", "pageSize": 1, "totalSize": 1}
    configs = {"configs": [{"taskId": "t", "url": "https://example.com"}], "nextPageToken": "again"}
    async with open_raw(answering(binding, page)) as raw, client_of(raw, binding) as client:
        with pytest.raises(InvalidResponseError, match="does not end"):
            assert not [task async for task in client.list_tasks()]
        raw.answer = answering(binding, configs)
        with pytest.raises(InvalidResponseError, match="does not end"):
            await client.push_configs.list("t")


def listed(token, *tasks):
    return ListTasksResponse(tasks=tasks, next_page_token=token, page_size=1, total_size=1)


@within(30)
async def test_a_list_that_leads_back_to_a_page_before_is_an_error(autojump_clock):
    """Whatever the length of the circle; a server of this kind would keep a program for ever."""
    for length in (1, 2, 3, 10, 100):
        pages = [listed(str(n % length)) for n in range(5 * length)]
        transport = ScriptedTransport(answers=pages)
        with pytest.raises(InvalidResponseError, match="does not end"):
            assert not [task async for task in client_on(transport).list_tasks()]
        assert len(transport.calls) < 5 * length


@within(30)
async def test_a_list_of_empty_pages_is_given_up_and_a_long_list_is_not(autojump_clock):
    def pages(count, *tasks):
        return [*(listed(str(n), *tasks) for n in range(1, count)), listed("")]

    one = Task(id="t", status=TaskStatus(state=TaskState.WORKING))
    full = client_on(ScriptedTransport(answers=pages(3000, one)))
    assert len([task async for task in full.list_tasks()]) == 2999
    with pytest.raises(InvalidResponseError, match="1000 pages in a row are empty"):
        assert not [task async for task in client_on(ScriptedTransport(answers=pages(3000))).list_tasks()]


# -------------------------------------------------------------------------------------------------------------- streams


@both_bindings
@within(5)
async def test_leaving_a_stream_that_another_task_reads_ends_it_there(binding):
    def answer(request):
        return [SSE_HEAD + chunk(b"data: %b\n\n" % json.dumps(wrapped(binding, request, {"task": TASK})).encode()), 60]

    ended = trio.Event()

    async def read_on(events):
        async for _ in events:
            pass
        ended.set()

    async with open_raw(answer) as raw, client_of(raw, binding) as client, trio.open_nursery() as nursery:
        async with client.stream("x") as events:
            await anext(events)
            nursery.start_soon(read_on, events)
            await trio.testing.wait_all_tasks_blocked()
        await ended.wait()
        assert len(raw.requests) == 1


async def read(client, **options):
    async with client.stream("x", **options) as events:
        return [event async for event in events]


def frames(binding, request, *results):
    return [wrapped(binding, request, result) for result in results]


@both_bindings
@within(5)
async def test_a_stream_that_is_answered_with_plain_json_is_one_event(binding):
    """The Content-Type decides, not the method."""
    async with open_raw(answering(binding, {"task": DONE})) as raw, client_of(raw, binding) as client:
        (event,) = await read(client)
        assert event.id == "t"


@both_bindings
@within(5)
async def test_all_of_the_grammar_is_read(binding):
    def answer(request):
        first, last = (json.dumps(one, indent=1) for one in frames(binding, request, {"task": TASK}, {"task": DONE}))
        lines = "".join(f"data:{line}\r\n" for line in first.splitlines())
        # In pieces that fall where they like.
        raw_bytes = f"\ufeff: started\r\n\r\nevent: x\r\n{lines}\r\ndata\n\nretry: 5\rdata: {last}\n\n"
        raw_bytes = raw_bytes.replace(last, json.dumps(json.loads(last))).encode()
        return [SSE_HEAD, *[chunk(raw_bytes[at : at + 7]) for at in range(0, len(raw_bytes), 7)], SSE_END]

    async with open_raw(answer) as raw, client_of(raw, binding) as client:
        assert [event.status.state for event in await read(client)] == [TaskState.WORKING, TaskState.COMPLETED]


@both_bindings
@within(5)
async def test_an_event_of_a_later_version_is_passed_over(binding):
    def answer(request):
        return sse(*frames(binding, request, {"task": TASK}, {"somethingNew": {}}, {"task": DONE}))

    async with open_raw(answer) as raw, client_of(raw, binding) as client:
        assert len(await read(client)) == 2


@both_bindings
@pytest.mark.parametrize(
    "garbage", [b"data: {\n\n", b"data: 5\n\n", b"data: []\n\n", b"data: \xff\n\n", b'data: {"task": 5}\n\n']
)
@within(5)
async def test_garbage_in_a_stream_is_an_error(binding, garbage):
    def answer(request):
        (first,) = frames(binding, request, {"task": TASK})
        return [SSE_HEAD, chunk(b"data: %b\n\n" % json.dumps(first).encode()), chunk(garbage), SSE_END]

    async with open_raw(answer) as raw, client_of(raw, binding) as client:
        with pytest.raises(InvalidResponseError):
            await read(client)
        assert len(raw.requests) == 1


@within(5)
async def test_an_event_for_another_request_is_an_error():
    def answer(request):
        return sse({"jsonrpc": "2.0", "id": request.json["id"] + 1, "result": {"task": TASK}})

    async with open_raw(answer) as raw, client_of(raw, "JSONRPC") as client:
        with pytest.raises(InvalidResponseError, match="id"):
            await read(client)


@both_bindings
@within(5)
async def test_an_error_in_a_stream_ends_it_whatever_its_name(binding):
    def answer(request):
        (first,) = frames(binding, request, {"task": TASK})
        if binding == "JSONRPC":
            error = {"jsonrpc": "2.0", "id": request.json["id"], "error": {"code": -32001, "message": "gone"}}
        else:
            details = [{"reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}]
            error = {"error": {"code": 404, "status": "NOT_FOUND", "message": "gone", "details": details}}
        return sse(first, error)

    async with open_raw(answer) as raw, client_of(raw, binding) as client:
        with pytest.raises(TaskNotFoundError, match="gone"):
            await read(client)


@within(5)
async def test_an_error_that_says_nothing_is_an_error_too():
    def answer(_request):
        return sse({"task": TASK}, {"error": {"code": 404}})

    async with open_raw(answer) as raw, client_of(raw, "HTTP+JSON") as client:
        with pytest.raises(A2AError, match="ended with an error"):
            await read(client)


@both_bindings
@within(5)
async def test_a_refused_stream_is_not_repeated(binding):
    async with open_raw(lambda _: http(503, b"", retry_after="1")) as raw, client_of(raw, binding) as client:
        with pytest.raises(A2AError):
            await read(client)
        assert len(raw.requests) == 1


@both_bindings
@within(20)
async def test_a_line_without_an_end_is_cut_off(binding):
    endless = [SSE_HEAD, chunk(b"data: "), *[chunk(b"x" * 1_000_000)] * 1000]
    async with open_raw(lambda _: endless) as raw, client_of(raw, binding) as client:
        with pytest.raises(ResponseTooLargeError):
            await read(client)


@both_bindings
@within(10)
async def test_a_server_without_numbers_is_followed_by_its_snapshots(binding):
    """A subscription begins with the task, and what is known of it is not shown again."""

    def answer(request):
        count = len(raw.requests)
        return sse(*frames(binding, request, {"task": TASK if count < 3 else DONE}), end=count > 1)

    async with open_raw(answer) as raw, client_of(raw, binding) as client:
        async with client.stream("x") as events:
            shown = [event async for event in events]
        assert [event.status.state for event in shown] == [TaskState.WORKING, TaskState.COMPLETED]
        assert events.resumed == 2
        assert all("last-event-id" not in request.headers for request in raw.requests)


@within(5)
async def test_a_server_that_takes_subscriptions_by_get_is_asked_so():
    def answer(request):
        return http(405) if request.method == "POST" else sse({"task": DONE})

    async with open_raw(answer) as raw, client_of(raw, "HTTP+JSON") as client:
        for _ in range(2):
            async with client.subscribe("t") as events:
                assert [event async for event in events]
        assert [request.method for request in raw.requests] == ["POST", "GET", "GET"]
        assert raw.requests[-1].path == "/tasks/t:subscribe"


@both_bindings
@within(5)
async def test_a_stream_that_never_begins_is_told(binding):
    async with open_raw(lambda _: [SSE_HEAD, SSE_END]) as raw, client_of(raw, binding) as client:
        with pytest.raises(StreamInterruptedError, match="before its first event"):
            await read(client)
        assert len(raw.requests) == 1


# ------------------------------------------------------------------------------------------------------------- requests


@pytest.mark.requirement("C-175", "C-176", "C-188", "C-255")
@both_bindings
@within(5)
async def test_the_tenant_of_the_interface_is_in_every_request(binding):
    tenant = "a b/ü"

    def answer(request):
        return answer_json(wrapped(binding, request, {"task": DONE} if b"message" in request.body else DONE))

    async with open_raw(answer) as raw:
        interface = {"url": raw.url + "/base/", "protocolBinding": binding, "protocolVersion": "1.0", "tenant": tenant}
        for interfaces, expected in (([interface], tenant), ([{**interface, "tenant": ""}], None)):
            raw.requests.clear()
            async with client_of(raw, binding, card={"supportedInterfaces": interfaces}) as client:
                await client.send("x")
                await client.get_task("t/1:cancel")
                await client.cancel_task("t?")
            if binding == "JSONRPC":
                assert [request.json["params"].get("tenant") for request in raw.requests] == [expected] * 3
            else:
                prefix = "/base/a%20b%2F%C3%BC" if expected else "/base"
                assert [request.path.removeprefix(prefix) for request in raw.requests] == [
                    "/message:send",
                    "/tasks/t%2F1%3Acancel",
                    "/tasks/t%3F:cancel",
                ]
                assert raw.requests[0].json.get("tenant") == expected
            for request in raw.requests:
                assert request.headers["a2a-version"] == "1.0"
                assert request.headers["accept-encoding"] == "identity"
                if request.body:
                    assert request.headers["content-type"] == "application/json"


@within(5)
async def test_cookies_of_a_server_are_not_kept():
    async with open_raw(answering("HTTP+JSON", TASK, set_cookie="a=b")) as raw, client_of(raw, "HTTP+JSON") as client:
        for _ in range(2):
            assert isinstance(await client.get_task("t"), Task)
        assert all("cookie" not in request.headers for request in raw.requests)


@both_bindings
@within(5)
async def test_a_server_that_sends_nothing_is_given_its_time(binding):
    async with open_raw(lambda _: [100.0]) as raw, client_of(raw, binding, timeout=0.2) as client:
        started = trio.current_time()
        with pytest.raises(TimeoutError):
            await client.get_task("t")
        assert trio.current_time() - started < 2
