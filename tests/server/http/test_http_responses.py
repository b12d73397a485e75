"""Responses as bytes: framing, the fields that are the server's, and what an application may not send."""

import email.utils

import pytest

from trio_a2a.server.http.asgi import ApplicationError
from trio_a2a.server.http.responses import HttpDate, ResponseEncoder, refusal

DATE = b"Thu, 01 Jan 1970 00:00:00 GMT"


def encoder(*, is_head=False, is_1_1=True, keep_alive=True) -> ResponseEncoder:
    return ResponseEncoder(is_head=is_head, is_1_1=is_1_1, keep_alive=keep_alive)


def start(status=200, headers=()):
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data=b"", *, more=False):
    return {"type": "http.response.body", "body": data, "more_body": more}


def respond(response, *messages):
    response.start(messages[0])
    return [response.body(message, DATE) for message in messages[1:]]


def test_a_short_response_is_one_write_with_its_length():
    response = encoder()
    (data,) = respond(response, start(headers=[(b"x", b"y")]), body(b"hello"))
    assert data == b"HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 5\r\ndate: %b\r\n\r\nhello" % DATE
    assert response.complete
    assert response.keep_alive


def test_a_response_in_parts_is_chunked():
    response = encoder()
    first, second, empty, last = respond(
        response,
        start(),
        body(b"one", more=True),
        body(bytearray(b"two"), more=True),
        body(more=True),
        body(memoryview(b"!")),
    )
    assert first == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ndate: %b\r\n\r\n3\r\none\r\n" % DATE
    assert second == b"3\r\ntwo\r\n"
    assert empty == b""  # not the last chunk
    assert last == b"1\r\n!\r\n0\r\n\r\n"


def test_an_empty_first_part_sends_the_header_block():
    response = encoder()
    (data,) = respond(response, start(), body(more=True))
    assert data.endswith(b"\r\n\r\n")
    assert response.on_wire
    assert not response.complete


def test_a_length_that_the_application_gives_is_used_for_parts():
    response = encoder()
    first, last = respond(response, start(headers=[(b"Content-Length", b"4")]), body(b"ab", more=True), body(b"cd"))
    assert first == b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\ndate: %b\r\n\r\nab" % DATE
    assert last == b"cd"


@pytest.mark.parametrize(
    "messages",
    [
        [start(headers=[(b"content-length", b"4")]), body(b"abcde")],
        [start(headers=[(b"content-length", b"4")]), body(b"abc")],
        [start(headers=[(b"content-length", b"4")]), body(b"abc", more=True), body(b"de")],
        [start(headers=[(b"content-length", b"4")]), body(b"abc", more=True), body()],
    ],
)
def test_a_body_that_does_not_fit_its_length_is_an_error(messages):
    with pytest.raises(ApplicationError):
        respond(encoder(), *messages)


@pytest.mark.parametrize("length", [b"", b"-1", b"a", b"1 ", b"+1"])
def test_a_length_that_is_no_number_is_an_error(length):
    with pytest.raises(ApplicationError):
        respond(encoder(), start(headers=[(b"content-length", length)]), body(b"a"))


def test_two_lengths_are_an_error():
    with pytest.raises(ApplicationError):
        respond(encoder(), start(headers=[(b"content-length", b"1"), (b"Content-Length", b"1")]), body(b"a"))


@pytest.mark.parametrize("value", [b"a\r\nSet-Cookie: b", b"a\nb", b"a\rb", b"a\x00b", b"\x1b", b"\x7f"])
def test_a_field_value_that_could_end_the_field_is_an_error(value):
    response = encoder()
    with pytest.raises(ApplicationError) as caught:
        respond(response, start(headers=[(b"x", value)]), body())
    assert not response.on_wire
    assert "Cookie" not in str(caught.value)


@pytest.mark.parametrize("name", [b"", b"a b", b"a:", b"a\r\n", b"\xe9", b"a\x00", b"a\n"])
def test_a_field_name_that_is_no_token_is_an_error(name):
    with pytest.raises(ApplicationError):
        respond(encoder(), start(headers=[(name, b"x")]), body())


def test_tabs_and_bytes_past_ascii_are_allowed_in_values():
    (data,) = respond(encoder(), start(headers=[(b"x", b"a\tb\xe9")]), body())
    assert b"x: a\tb\xe9\r\n" in data


@pytest.mark.parametrize("status", [100, 101, 199, 1000, 0, -1, "200", None, 200.0])
def test_a_status_that_is_none_of_a_final_response_is_an_error(status):
    with pytest.raises(ApplicationError):
        encoder().start(start(status))


def test_a_status_without_a_name_is_sent_without_one():
    (data,) = respond(encoder(), start(299), body())
    assert data.startswith(b"HTTP/1.1 299 \r\n")


def test_messages_out_of_order_are_errors():
    with pytest.raises(ApplicationError):
        encoder().body(body(), DATE)
    response = encoder()
    response.start(start())
    with pytest.raises(ApplicationError):
        response.start(start())
    response.body(body(), DATE)
    with pytest.raises(ApplicationError):
        response.body(body(), DATE)


@pytest.mark.parametrize("wrong", ["text", 5, None])
def test_a_body_that_is_not_bytes_is_an_error(wrong):
    for response in (encoder(), encoder(is_1_1=False)):
        with pytest.raises(TypeError):
            respond(response, start(), body(b"a", more=True), body(wrong, more=True))


def test_head_has_the_fields_of_the_body_and_no_body():
    (data,) = respond(encoder(is_head=True), start(), body(b"hello"))
    assert data == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ndate: %b\r\n\r\n" % DATE
    (data,) = respond(encoder(is_head=True), start(headers=[(b"content-length", b"7")]), body(b""))
    assert data == b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\ndate: %b\r\n\r\n" % DATE
    first, last = respond(encoder(is_head=True), start(), body(b"a", more=True), body(b"b"))
    assert first == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ndate: %b\r\n\r\n" % DATE
    assert last == b""


def test_204_and_304_have_no_body():
    (data,) = respond(encoder(), start(204, [(b"content-length", b"4")]), body(b"null"))
    assert data == b"HTTP/1.1 204 No Content\r\ndate: %b\r\n\r\n" % DATE
    (data,) = respond(encoder(), start(304, [(b"content-length", b"4")]), body(b""))
    assert data == b"HTTP/1.1 304 Not Modified\r\ncontent-length: 4\r\ndate: %b\r\n\r\n" % DATE
    first, last = respond(encoder(), start(304), body(b"a", more=True), body(b"b"))
    assert first == b"HTTP/1.1 304 Not Modified\r\ndate: %b\r\n\r\n" % DATE
    assert last == b""


def test_http_1_0_keeps_the_connection_only_with_a_length():
    response = encoder(is_1_1=False)
    (data,) = respond(response, start(), body(b"hello"))
    assert b"\r\nconnection: keep-alive\r\n" in data
    assert response.keep_alive
    response = encoder(is_1_1=False)
    first, last = respond(response, start(), body(b"a", more=True), body(b"b"))
    assert first == b"HTTP/1.1 200 OK\r\ndate: %b\r\nconnection: close\r\n\r\na" % DATE
    assert last == b"b"
    assert not response.keep_alive


def test_the_application_may_close_but_not_frame():
    response = encoder()
    headers = [(b"Connection", b"Close"), (b"Transfer-Encoding", b"gzip"), (b"Keep-Alive", b"9"), (b"upgrade", b"h2c")]
    (data,) = respond(response, start(headers=headers), body(b"a"))
    assert data == b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ndate: %b\r\nconnection: close\r\n\r\na" % DATE
    assert not response.keep_alive


def test_the_date_of_the_application_is_left_alone():
    (data,) = respond(encoder(), start(headers=[(b"Date", b"x")]), body())
    assert data.count(b"ate: ") == 1
    assert b"Date: x\r\n" in data


def test_no_server_field_is_sent():
    (data,) = respond(encoder(), start(), body())
    assert b"server" not in data.lower()


def test_the_date_is_made_once_a_second():
    date = HttpDate()
    first = date.at(10.0)
    assert date.at(10.9) is first
    assert email.utils.parsedate_to_datetime(date.at(11.0).decode()).tzinfo is not None


def test_a_refusal_is_a_whole_response_that_closes():
    assert refusal(400, "no", DATE) == (
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 3\r\n"
        b"date: %b\r\nconnection: close\r\n\r\nno\n" % DATE
    )
    assert refusal(400, "no", DATE, with_body=False).endswith(b"\r\n\r\n")
