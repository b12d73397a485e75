"""What hostile ids, headers, cards and answers cannot do."""

import gzip
import logging

import attrs
import pytest

from tests.client.peers import answer_json, both_bindings, card_json, http, open_raw
from tests.client.scripted import ScriptedTransport, client_of
from tests.deadline import within
from trio_a2a.client import (
    ClientError,
    ConnectionFailedError,
    ConnectionLostError,
    HttpStatusError,
    Interceptor,
    InvalidResponseError,
    ResponseTooLargeError,
    connect,
)
from trio_a2a.client.http import MAX_BODY
from trio_a2a.client.interfaces import MAX_INTERFACES, choose_interfaces
from trio_a2a.client.push_configs import MAX_PAGES
from trio_a2a.errors import InvalidParamsError, UnavailableError
from trio_a2a.types import AgentCard, ListTaskPushNotificationConfigsResponse
from trio_a2a.wire import from_dict


def card_of(url, binding, **interface):
    card = from_dict(card_json(url, binding), AgentCard)
    return attrs.evolve(card, supported_interfaces=[attrs.evolve(card.supported_interfaces[0], **interface)])


@pytest.mark.parametrize("id", ["", ".", ".."])
@within(5)
async def test_an_id_cannot_lead_to_another_route(id):
    """These segments vanish from a URL's path: a deletion of the webhook ".." would be one of something else."""
    async with open_raw(lambda _: answer_json({})) as raw, connect(card_of(raw.url, "HTTP+JSON")) as client:
        for call in (
            client.get_task(id),
            client.cancel_task(id),
            client.push_configs.delete("t", id),
            client.push_configs.get(id, "c"),
        ):
            with pytest.raises(InvalidParamsError, match="URL"):
                await call
        with pytest.raises(InvalidParamsError):
            async with client.subscribe(id):
                pass
        assert raw.requests == []
    async with (
        open_raw(lambda _: answer_json({})) as raw,
        connect(card_of(raw.url, "HTTP+JSON", tenant="..")) as client,
    ):
        with pytest.raises(InvalidParamsError):
            await client.get_task("t")


@pytest.mark.parametrize(
    ("id", "path"),
    [("a/b", "a%2Fb"), ("a?b#c", "a%3Fb%23c"), ("%2e%2e", "%252e%252e"), ("a\r\nb ü", "a%0D%0Ab%20%C3%BC")],
)
@within(5)
async def test_an_id_is_one_segment_whatever_it_holds(id, path):
    async with open_raw(lambda _: http(404)) as raw, connect(card_of(raw.url, "HTTP+JSON")) as client:
        with pytest.raises(HttpStatusError):
            await client.get_task(id)
        assert raw.requests[0].path == f"/tasks/{path}"


@within(5)
async def test_a_base_url_keeps_its_query():
    async with open_raw(lambda _: answer_json({"tasks": []})) as raw:
        async with connect(card_of(f"{raw.url}/a2a/?key=1#x", "HTTP+JSON", tenant="t 1")) as client:
            assert [task async for task in client.list_tasks(page_size=3)] == []
        assert raw.requests[0].path == "/a2a/t%201/tasks?key=1&pageSize=3"


class Heading(Interceptor):
    def __init__(self, name, value):
        self.header = {name: value}

    async def before(self, call):
        return attrs.evolve(call, headers=self.header)


@pytest.mark.parametrize(
    ("name", "value"), [("x", "a\r\ny: z"), ("x\r\ny", "z"), ("x", "ü"), ("x", "a\0"), ("", "a"), ("a b", "c")]
)
@both_bindings
@within(5)
async def test_a_header_that_would_be_two_is_misuse_and_nothing_is_sent(binding, name, value):
    async with open_raw(lambda _: answer_json({})) as raw:
        async with connect(card_of(raw.url, binding), interceptors=[Heading(name, value)]) as client:
            with pytest.raises(ValueError, match="cannot be sent") as caught:
                await client.get_task("t")
        assert raw.requests == []
        assert "z" not in str(caught.value).replace(repr(name), "")


@pytest.mark.parametrize("uri", ["https://a.example/x, https://b.example", "a\r\nb: c", "ü"])
@within(5)
async def test_an_extension_s_uri_is_one(uri):
    async with open_raw(lambda _: http(404)) as raw, connect(card_of(raw.url, "HTTP+JSON"), extensions=[uri]) as client:
        with pytest.raises(HttpStatusError):
            await client.get_task("t")
        assert "," not in raw.requests[0].headers["a2a-extensions"]
        assert "b" not in raw.requests[0].headers


@pytest.mark.parametrize(
    "url", [f"http://{'a' * 70}.example/", "http://a..example/", "http://127.0.0.1:0/", "http://a b/", "http://\0/"]
)
@both_bindings
@within(10)
async def test_a_url_that_leads_nowhere_is_a_connection_that_failed(binding, url):
    async with connect(card_of(url, binding)) as client:
        with pytest.raises(ConnectionFailedError):
            await client.cancel_task("t")


@both_bindings
@within(30)
async def test_a_small_answer_cannot_become_a_large_one(binding):
    """A server that packs its answer although it was asked not to is understood, within the bound of an answer."""
    bomb = gzip.compress(b" " * (MAX_BODY + 1))
    cases = [
        (http(200, gzip.compress(b"{}"), content_encoding="gzip, gzip"), InvalidResponseError),
        (http(200, b"{}", content_encoding="zstd"), InvalidResponseError),
        (http(200, b"{}", content_encoding="gzip"), InvalidResponseError),
        (http(200, gzip.compress(b"{}")[:-4], content_encoding="gzip"), ConnectionLostError),
        (http(200, bomb, content_encoding="gzip"), ResponseTooLargeError),
    ]
    for answer, error in cases:
        async with open_raw(lambda _, answer=answer: answer) as raw, connect(card_of(raw.url, binding)) as client:
            with pytest.raises(error):
                await client.cancel_task("t")
    document = {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}
    if binding == "JSONRPC":
        document = {"jsonrpc": "2.0", "id": 1, "result": document}
    packed = gzip.compress(answer_json(document).partition(b"\r\n\r\n")[2])
    for body in (packed, packed + b"more"):
        answer = http(200, body, content_encoding="gzip")
        async with open_raw(lambda _, answer=answer: answer) as raw, connect(card_of(raw.url, binding)) as client:
            assert (await client.get_task("t")).id == "t"


@both_bindings
@within(10)
async def test_an_error_status_is_one_whatever_its_content_type(binding):
    answer = http(503, b"", content_type="text/event-stream")
    async with open_raw(lambda _: answer) as raw, connect(card_of(raw.url, binding)) as client:
        with pytest.raises(UnavailableError):
            await client.cancel_task("t")
        with pytest.raises(UnavailableError):
            async with client.stream("x"):
                pass


@pytest.mark.parametrize("id", [True, "1", None, 2])
@within(5)
async def test_a_response_with_another_id_is_an_error(id):
    def answer(_request):
        return answer_json(
            {"jsonrpc": "2.0", "id": id, "result": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}}
        )

    async with open_raw(answer) as raw, connect(card_of(raw.url, "JSONRPC")) as client:
        with pytest.raises(InvalidResponseError, match="another request"):
            await client.cancel_task("t")


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"HTTP/1.1 101 X\r\n\r\n",
        b"HTTP/1.1 103 X\r\n\r\n" * 50,
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nset-cookie: \xff\xfe=1\r\nx\xff: a\r\n\r\n",
        b"HTTP/1.1 204 No\r\n\r\n",
        http(200, b"<html>", content_type="text/html"),
        http(301, location="http://127.0.0.1:1/"),
        http(999),
    ],
)
@both_bindings
@within(10)
async def test_whatever_comes_is_an_error_of_the_client(binding, answer, caplog):
    caplog.set_level(logging.CRITICAL)
    async with open_raw(lambda _: answer) as raw, connect(card_of(raw.url, binding)) as client:
        with pytest.raises(ClientError):
            await client.cancel_task("t")
        with pytest.raises(ClientError):
            async with client.stream("x") as events:
                await anext(events)
        assert len(raw.requests) == 2


@within(5)
async def test_an_error_keeps_the_beginning_of_a_body():
    async with open_raw(lambda _: http(418, b"x" * 1_000_000)) as raw, connect(card_of(raw.url, "HTTP+JSON")) as client:
        with pytest.raises(HttpStatusError) as caught:
            await client.cancel_task("t")
        assert len(caught.value.body) < 10_000
        assert len(str(caught.value)) < 300


@within(10)
async def test_a_card_cannot_make_a_client_knock_at_many_doors():
    one = card_of("http://127.0.0.1:1", "JSONRPC").supported_interfaces[0]
    card = from_dict(card_json("http://127.0.0.1:1"), AgentCard)
    many = attrs.evolve(card, supported_interfaces=[one] * 1000)
    assert len(choose_interfaces(many, ("JSONRPC",))) == MAX_INTERFACES


@within(30)
async def test_a_list_of_webhooks_that_has_no_end_is_an_error(autojump_clock):
    pages = [ListTaskPushNotificationConfigsResponse(configs=[], next_page_token=str(n)) for n in range(MAX_PAGES + 1)]
    transport = ScriptedTransport(answers=pages)
    with pytest.raises(InvalidResponseError, match="does not end"):
        await client_of(transport).push_configs.list("t")
    assert len(transport.calls) == MAX_PAGES
