"""An HTTP request as the bindings see it."""

import pytest
import trio

from tests.deadline import within
from trio_a2a.server.operations import Call
from trio_a2a.server.request import BodyTooLargeError, ClientGoneError, Request, respond


def request(*headers, query=b"", **scope):
    return Request({"type": "http", "method": "POST", "headers": headers, "query_string": query, **scope})


def receiver(*messages):
    left = list(messages)

    async def receive():
        await trio.lowlevel.checkpoint()
        return left.pop(0)

    return receive


def chunk(data, *, more=False):
    return {"type": "http.request", "body": data, "more_body": more}


def test_repeated_headers_are_joined():
    asked = request((b"a2a-extensions", b"urn:a"), (b"x", b"1"), (b"a2a-extensions", b"urn:b,urn:a"))
    assert asked.headers["a2a-extensions"] == "urn:a, urn:b,urn:a"
    assert asked.requested_extensions() == ("urn:a", "urn:b")


@pytest.mark.requirement("C-257")
def test_of_repeated_query_parameters_the_first_counts():
    assert request(query=b"a=1&a=2&b=%20%C3%BC&c=").query == {"a": "1", "b": " ü", "c": ""}


def test_a_service_parameter_is_a_header_or_else_a_query_parameter():
    assert request((b"a2a-version", b"1.0"), query=b"A2A-Version=0.3").parameter("A2A-Version") == "1.0"
    assert request(query=b"A2A-Version=0.3").parameter("A2A-Version") == "0.3"
    assert request().parameter("A2A-Version") is None
    assert request(query=b"A2A-Extensions=urn:a,urn:b").requested_extensions() == ("urn:a", "urn:b")
    assert request().requested_extensions() == ()


@pytest.mark.parametrize(
    ("value", "media_type"),
    [
        (b"application/json", "application/json"),
        (b"APPLICATION/JSON;charset=utf-8", "application/json"),
        (b" text/plain ", "text/plain"),
        (b"", ""),
    ],
)
def test_the_media_type_is_told_without_parameters_and_in_lower_case(value, media_type):
    assert request((b"content-type", value)).media_type == media_type
    assert not request().media_type


def test_an_authenticator_sees_where_the_client_is():
    assert request(client=("192.0.2.1", 80)).for_authenticator().client == ("192.0.2.1", 80)
    assert request(client=["192.0.2.1", 80]).for_authenticator().client == ("192.0.2.1", 80)
    assert request(client=None).for_authenticator().client is None
    assert request().for_authenticator().client is None


def test_only_activated_extensions_are_echoed():
    assert Request.echoed(Call()) == []
    assert Request.echoed(Call(extensions=("urn:a", "urn:b"))) == [(b"a2a-extensions", b"urn:a, urn:b")]


@within(5)
async def test_a_body_comes_in_any_number_of_pieces():
    receive = receiver(chunk(b"ab", more=True), chunk(b"", more=True), {"type": "http.request", "body": b"c"})
    assert await request().body(receive, 3) == b"abc"
    assert await request().body(receiver({"type": "http.request"}), None) == b""


@within(5)
async def test_a_body_past_the_limit_is_refused_as_soon_as_that_is_known():
    for length in (b"4", b"9" * 5000):
        with pytest.raises(BodyTooLargeError):
            await request((b"content-length", length)).body(receiver(), 3)
    with pytest.raises(BodyTooLargeError):
        await request().body(receiver(chunk(b"ab", more=True), chunk(b"cd", more=True)), 3)


@pytest.mark.parametrize("length", [b"", b"abc", b"-5", b"5, 5"])
@within(5)
async def test_a_length_that_is_none_is_left_to_the_server(length):
    """Ours refuses such a request; whatever another one lets through is measured."""
    assert await request((b"content-length", length)).body(receiver(chunk(b"abc")), 3) == b"abc"


@within(5)
async def test_a_client_that_goes_away_within_its_body_is_gone():
    with pytest.raises(ClientGoneError):
        await request().body(receiver(chunk(b"ab", more=True), {"type": "http.disconnect"}), 3)


@within(5)
async def test_a_response_says_its_length_and_type():
    sent = []

    async def send(message):
        await trio.lowlevel.checkpoint()
        sent.append(message)

    await respond(send, 418, b"tea", b"text/plain", [(b"x", b"y")])
    assert sent == [
        {
            "type": "http.response.start",
            "status": 418,
            "headers": [(b"content-type", b"text/plain"), (b"content-length", b"3"), (b"x", b"y")],
        },
        {"type": "http.response.body", "body": b"tea", "more_body": False},
    ]


def test_the_query_may_repeat_the_extensions_as_headers_may():
    repeated = request(query=b"A2A-Extensions=urn:a&other=1&a2a-extensions=urn:b,urn:c")
    assert repeated.requested_extensions() == ("urn:a", "urn:b", "urn:c")
    assert list(repeated.query) == ["A2A-Extensions", "other", "a2a-extensions"]
    assert request().requested_extensions() == ()
