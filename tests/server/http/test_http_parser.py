"""Requests out of bytes: what is accepted, what is refused and how, whatever the portions."""

import httptools
import pytest
from hypothesis import given, settings, strategies as st

from trio_a2a.server.http.head import BadRequestError
from trio_a2a.server.http.limits import HttpLimits
from trio_a2a.server.http.parser import BUFFER_SIZE, RequestParser

HOST = b"Host: test\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

# Requests that are refused: name, bytes, status.
REFUSED = [
    ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ("unknown method", b"FETCH / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("method in lower case", b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("blank in front", b" GET / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("two blanks in the request line", b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("blank behind the version", b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n", 400),
    ("tab in the request line", b"GET\t/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("HTTP/0.9", b"GET /\r\n\r\n", 505),
    ("HTTP/0.9 by name", b"GET / HTTP/0.9\r\n\r\n", 505),
    ("HTTP/1.2", b"GET / HTTP/1.2\r\n" + HOST + b"\r\n", 505),
    ("HTTP/1.10", b"GET / HTTP/1.10\r\n" + HOST + b"\r\n", 505),
    ("HTTP/2.0", b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    ("HTTP/3", b"GET / HTTP/3\r\n" + HOST + b"\r\n", 505),
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("RTSP", b"OPTIONS * RTSP/1.0\r\n" + HOST + b"\r\n", 505),
    ("ICE", b"SOURCE / ICE/1.0\r\n" + HOST + b"\r\n", 505),
    ("no Host", b"GET / HTTP/1.1\r\n\r\n", 400),
    ("two Hosts", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("the same Host twice", b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    ("two Hosts in HTTP/1.0", b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("Host with a path", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    ("Host with a user", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
    ("Host list", b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    ("Host with a port that is no number", b"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400),
    ("no blank line but a bare LF", b"GET / HTTP/1.1\nHost: a\n\n", 400),
    ("bare LF behind a field", b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400),
    ("bare CR behind a field", b"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", 400),
    ("bare LF as blank line", b"GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
    ("CR CR LF", b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", 400),
    ("bare LF in front of the request", b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("folded field", b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", 400),
    ("field with a blank in front", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    ("blank in front of the colon", b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    ("field without a name", b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400),
    ("field without a colon", b"GET / HTTP/1.1\r\nHost: a\r\nfoo\r\n\r\n", 400),
    ("field name of more than ASCII", b"GET / HTTP/1.1\r\nHost: a\r\nX\xe9: b\r\n\r\n", 400),
    ("NUL in a field", b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400),
    ("control character in a field", b"GET / HTTP/1.1\r\nHost: a\r\nX: \x1b[0m\r\n\r\n", 400),
    ("target of more than ASCII", b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("control character in the target", b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("fragment in the target", b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("target without a slash", b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("asterisk for GET", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("absolute target of another scheme", b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("absolute target with a user", b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("absolute target without a host", b"GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("CONNECT", b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 501),
    ("unknown expectation", POST + b"Expect: miracles\r\nContent-Length: 1\r\n\r\n", 417),
    # framing: what smugglers use
    ("length and chunked", POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("chunked and length", POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
    ("two lengths", POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    ("the same length twice", POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
    ("list of lengths", POST + b"Content-Length: 3, 3\r\n\r\nabc", 400),
    ("length with a sign", POST + b"Content-Length: +3\r\n\r\nabc", 400),
    ("negative length", POST + b"Content-Length: -3\r\n\r\nabc", 400),
    ("hexadecimal length", POST + b"Content-Length: 0x3\r\n\r\nabc", 400),
    ("length with an underscore", POST + b"Content-Length: 1_0\r\n\r\n0123456789", 400),
    ("empty length", POST + b"Content-Length: \r\n\r\n", 400),
    ("length past 64 bits", POST + b"Content-Length: 99999999999999999999\r\n\r\n", 400),
    ("length past the limit", POST + b"Content-Length: 16777217\r\n\r\n", 413),
    ("gzip, chunked", POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ("chunked, chunked", POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
    ("chunked, gzip", POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
    ("xchunked", POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    ("identity", POST + b"Transfer-Encoding: identity\r\n\r\n", 400),
    ("chunked in two fields", POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("chunked with a vertical tab", POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    ("chunked in HTTP/1.0", b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("chunk size with a bare LF", CHUNKED + b"3\nabc\r\n0\r\n\r\n", 400),
    ("chunk longer than its size", CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n", 400),
    ("chunk shorter than its size", CHUNKED + b"4\r\nabc\r\n0\r\n\r\n", 400),
    ("chunk size with a blank", CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n", 400),
    ("chunk size with 0x", CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n", 400),
    ("chunk size with a sign", CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n", 400),
    ("chunk size with an underscore", CHUNKED + b"0_3\r\nabc\r\n0\r\n\r\n", 400),
    ("negative chunk size", CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n", 400),
    ("no chunk size", CHUNKED + b"\r\nabc\r\n0\r\n\r\n", 400),
    ("chunk size past 64 bits", CHUNKED + b"fffffffffffffffff\r\nabc", 400),
    ("chunk size past the limit", CHUNKED + b"ffffffffffffffff\r\nabc", 413),
    ("NUL in a chunk extension", CHUNKED + b"3;a=\x00\r\nabc\r\n0\r\n\r\n", 400),
    ("bare LF in a chunk extension", CHUNKED + b"3;a\nb\r\nabc\r\n0\r\n\r\n", 400),
    ("line end in a quoted chunk extension", CHUNKED + b'3;a="\r\n"\r\nabc\r\n0\r\n\r\n', 400),
    ("trailer with a bare LF", CHUNKED + b"0\r\nT: 1\n\r\n", 400),
    ("folded trailer", CHUNKED + b"0\r\nT: 1\r\n 2\r\n\r\n", 400),
    ("length as a trailer", CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n", 400),
]

# Requests that are accepted: name, bytes, method, target, body.
ACCEPTED = [
    ("GET", b"GET /a?b=c HTTP/1.1\r\n" + HOST + b"\r\n", "GET", b"/a?b=c", b""),
    ("HTTP/1.0 without Host", b"GET / HTTP/1.0\r\n\r\n", "GET", b"/", b""),
    ("empty Host", b"GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET", b"/", b""),
    ("IPv6 Host", b"GET / HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n", "GET", b"/", b""),
    ("empty lines in front", b"\r\n\r\nGET / HTTP/1.1\r\n" + HOST + b"\r\n", "GET", b"/", b""),
    ("asterisk", b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", "OPTIONS", b"*", b""),
    ("absolute form", b"GET http://other:80/a?b HTTP/1.1\r\n" + HOST + b"\r\n", "GET", b"/a?b", b""),
    ("absolute form without a path", b"GET https://other?b HTTP/1.1\r\n" + HOST + b"\r\n", "GET", b"/?b", b""),
    ("length", POST + b"Content-Length: 3\r\n\r\nabc", "POST", b"/", b"abc"),
    ("length 0", POST + b"Content-Length: 0\r\n\r\n", "POST", b"/", b""),
    ("length with blanks behind", POST + b"Content-Length: 3 \t\r\n\r\nabc", "POST", b"/", b"abc"),
    ("chunks", CHUNKED + b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", "POST", b"/", b"abcd"),
    ("chunks of more than one digit", CHUNKED + b"0A\r\n0123456789\r\n000\r\n\r\n", "POST", b"/", b"0123456789"),
    ("CRLF as data", CHUNKED + b"8\r\n\r\n0\r\n\r\n\r\r\n0\r\n\r\n", "POST", b"/", b"\r\n0\r\n\r\n\r"),
    ("chunk extensions", CHUNKED + b'3;a=b;c="d"\r\nabc\r\n0;e\r\n\r\n', "POST", b"/", b"abc"),
    ("trailers", CHUNKED + b"1\r\na\r\n0\r\nT: 1\r\nU: 2\r\n\r\n", "POST", b"/", b"a"),
    ("CHUNKED in capitals", POST + b"Transfer-Encoding: CHUNKED\r\n\r\n1\r\na\r\n0\r\n\r\n", "POST", b"/", b"a"),
    (
        "upgrade, no body",
        b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        "GET",
        b"/",
        b"",
    ),
    (
        "upgrade, length",
        POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
        "POST",
        b"/",
        b"abc",
    ),
    (
        "upgrade, chunks",
        POST + b"Upgrade: websocket\r\nConnection: upgrade\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "POST",
        b"/",
        b"abc",
    ),
]
FOLLOWER = b"GET /next HTTP/1.1\r\nHost: next\r\n\r\n"


def feed(parser: RequestParser, data: bytes, size: int) -> None:
    for position in range(0, len(data), size):
        parser.feed(data[position : position + size])


def refusal(data: bytes, size: int, limits: HttpLimits | None = None) -> int | None:
    """The status with which the parser refuses the first request of `data`, fed in portions of `size`."""
    try:
        feed(RequestParser(limits or HttpLimits()), data, size)
    except BadRequestError as error:
        return error.status
    return None


@pytest.mark.parametrize("size", [1, 2, 7, 100_000])
@pytest.mark.parametrize(("data", "status"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_malformed_request_is_refused_with_its_status_however_it_is_cut(data, status, size):
    assert refusal(data, size) == status


@pytest.mark.parametrize("size", [1, 2, 7, 100_000])
@pytest.mark.parametrize(
    ("data", "method", "target", "body"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED]
)
def test_a_request_is_read_the_same_however_it_is_cut(data, method, target, body, size):
    """And not one byte past its end: the request behind it is intact."""
    parser = RequestParser(HttpLimits())
    feed(parser, data + FOLLOWER, size)
    assert parser.head is not None
    assert (parser.head.method, parser.head.target) == (method, target)
    assert parser.complete
    assert parser.take_body() == body
    if parser.head.keep_alive:
        parser.next_request()
        assert parser.head is not None
        assert parser.head.target == b"/next"
        assert parser.head.headers == [(b"host", b"next")]
        assert parser.complete


def test_pipelined_requests_come_one_at_a_time():
    parser = RequestParser(HttpLimits())
    parser.feed(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(50)))
    for number in range(50):
        assert parser.head is not None
        assert parser.head.target == b"/%d" % number
        parser.next_request()
    assert parser.head is None
    assert not parser.partial


def test_a_malformed_request_behind_a_good_one_does_not_spoil_the_good_one():
    parser = RequestParser(HttpLimits())
    parser.feed(FOLLOWER + b"GET / HTTP/1.1\r\n\r\n")
    assert parser.head is not None
    assert parser.complete
    with pytest.raises(BadRequestError) as caught:
        parser.next_request()
    assert caught.value.status == 400


def test_the_target_of_absolute_form_replaces_the_host_field():
    parser = RequestParser(HttpLimits())
    parser.feed(b"GET http://right:81/ HTTP/1.1\r\nA: 1\r\nHost: wrong\r\n\r\n")
    assert parser.head is not None
    assert parser.head.headers == [(b"a", b"1"), (b"host", b"right:81")]


def test_field_names_are_in_lower_case_and_values_without_blanks_around_them():
    parser = RequestParser(HttpLimits())
    parser.feed(b"GET / HTTP/1.1\r\nHOST: a\r\nX-Y: \t b c \t\r\nEmpty:\r\nX-Y: \xe9\r\n\r\n")
    assert parser.head is not None
    assert parser.head.headers == [(b"host", b"a"), (b"x-y", b"b c"), (b"empty", b""), (b"x-y", b"\xe9")]


@pytest.mark.parametrize(
    ("version", "connection", "keep_alive"),
    [
        (b"1.1", None, True),
        (b"1.1", b"close", False),
        (b"1.1", b"foo, Close", False),
        (b"1.1", b"keep-alive", True),
        (b"1.0", None, False),
        (b"1.0", b"Keep-Alive", True),
        (b"1.0", b"keep-alive, close", False),
    ],
)
def test_the_version_and_the_connection_field_say_whether_the_connection_stays(version, connection, keep_alive):
    parser = RequestParser(HttpLimits())
    field = b"" if connection is None else b"Connection: %b\r\n" % connection
    parser.feed(b"GET / HTTP/%b\r\nHost: a\r\n%b\r\n" % (version, field))
    assert parser.head is not None
    assert parser.head.keep_alive is keep_alive


def test_expect_counts_in_1_1_only():
    for version, expected in ((b"1.1", True), (b"1.0", False)):
        parser = RequestParser(HttpLimits())
        parser.feed(b"POST / HTTP/%b\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n" % version)
        assert parser.head is not None
        assert parser.head.expects_continue is expected


def head_of(size: int) -> bytes:
    start = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
    return start + b"x" * (size - len(start) - 4) + b"\r\n\r\n"


@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_a_header_block_may_be_as_large_as_the_limit_and_not_a_byte_larger(size):
    bounds = HttpLimits(max_head=2000)
    assert refusal(head_of(2000), size, bounds) is None
    assert refusal(head_of(2001), size, bounds) == 431


def test_a_header_block_without_an_end_is_refused_at_the_limit():
    parser = RequestParser(HttpLimits(max_head=2000))
    parser.feed(head_of(5000)[:2000])
    with pytest.raises(BadRequestError) as caught:
        parser.feed(b"x")
    assert caught.value.status == 431


def test_empty_lines_in_front_of_a_request_count_against_the_header_block():
    assert refusal(b"\r\n" * 1001, 10, HttpLimits(max_head=2000)) == 431


@pytest.mark.parametrize("size", [1, 100_000])
def test_as_many_fields_as_the_limit_and_not_one_more(size):
    bounds = HttpLimits(max_headers=10)
    assert refusal(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 9 + b"\r\n", size, bounds) is None
    assert refusal(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 10 + b"\r\n", size, bounds) == 431


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_target_may_be_as_long_as_the_limit_and_not_a_byte_longer(size):
    bounds = HttpLimits(max_target=300)
    assert refusal(b"GET /" + b"a" * 299 + b" HTTP/1.1\r\nHost: a\r\n\r\n", size, bounds) is None
    assert refusal(b"GET /" + b"a" * 300 + b" HTTP/1.1\r\nHost: a\r\n\r\n", size, bounds) == 414


def test_a_target_without_an_end_is_refused_early():
    assert refusal(b"GET /" + b"a" * 1000, 100, HttpLimits(max_target=300)) == 414


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_body_may_be_as_long_as_the_limit_and_not_a_byte_longer(size):
    bounds = HttpLimits(max_body=10)
    assert refusal(POST + b"Content-Length: 10\r\n\r\n0123456789", size, bounds) is None
    assert refusal(POST + b"Content-Length: 11\r\n\r\n", size, bounds) == 413
    assert refusal(CHUNKED + b"5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n", size, bounds) is None
    assert refusal(CHUNKED + b"5\r\n01234\r\n6\r\n", size, bounds) == 413


def test_a_body_without_a_limit_may_have_any_length():
    parser = RequestParser(HttpLimits(max_body=None))
    parser.feed(POST + b"Content-Length: 18446744073709551615\r\n\r\nabc")
    assert parser.take_body() == b"abc"
    parser = RequestParser(HttpLimits(max_body=None))
    parser.feed(CHUNKED + b"ffffffffffffffff\r\nabc")
    assert parser.take_body() == b"abc"


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_chunk_line_and_the_trailers_have_limits(size):
    bounds = HttpLimits(max_chunk_line=100, max_trailers=100)
    assert refusal(CHUNKED + b"1;" + b"a" * 96 + b"\r\nx\r\n0\r\n\r\n", size, bounds) is None
    assert refusal(CHUNKED + b"1;" + b"a" * 97 + b"\r\nx\r\n0\r\n\r\n", size, bounds) == 400
    assert refusal(CHUNKED + b"0\r\nT: " + b"a" * 93 + b"\r\n\r\n", size, bounds) is None
    assert refusal(CHUNKED + b"0\r\nT: " + b"a" * 94 + b"\r\n\r\n", size, bounds) == 400


def test_a_chunk_line_and_trailers_without_an_end_are_refused():
    bounds = HttpLimits(max_chunk_line=100, max_trailers=100)
    assert refusal(CHUNKED + b"1;" + b"a" * 1000, 50, bounds) == 400
    assert refusal(CHUNKED + b"0\r\n" + b"T: a\r\n" * 1000, 50, bounds) == 400


def test_a_parser_says_that_it_is_full_before_it_holds_much():
    parser = RequestParser(HttpLimits())
    parser.feed(POST + b"Content-Length: 1000000\r\n\r\n")
    assert not parser.full
    parser.feed(b"x" * BUFFER_SIZE)
    assert parser.full
    assert len(parser.take_body()) == BUFFER_SIZE
    assert not parser.full


def test_pipelined_requests_fill_a_parser_too():
    parser = RequestParser(HttpLimits())
    parser.feed(FOLLOWER)
    assert not parser.full
    parser.feed(FOLLOWER * (BUFFER_SIZE // len(FOLLOWER) + 1))
    assert parser.full


def test_a_body_of_the_smallest_chunks_is_put_together():
    parser = RequestParser(HttpLimits())
    parser.feed(CHUNKED + b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n")
    assert parser.take_body() == b"a" * 10_000


def test_bytearrays_as_memory_and_tls_streams_give_them_become_bytes():
    parser = RequestParser(HttpLimits())
    parser.feed(bytearray(POST + b"Content-Length: 1\r\n\r\na"))
    assert parser.head is not None
    assert type(parser.head.target) is bytes
    assert type(parser.take_body()) is bytes


PIECES = st.sampled_from(
    [
        *(b"GET", b"POST", b" ", b"/", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"Host: a"),
        *(b"Content-Length: 3", b"Transfer-Encoding: chunked", b"abc", b"3", b"0", b";", b"\x00", b"\xff", b":", b"\t"),
        *(b"Upgrade: x", b"Connection: Upgrade", b"Connection: close", b"Expect: 100-continue"),
        *(b"GET / HTTP/1.1\r\nHost: a\r\n", CHUNKED, POST, FOLLOWER),
    ]
)


def outcome(data: bytes, cuts: list[int]) -> list[object]:
    """All that a parser makes of `data`, cut as told."""
    parser = RequestParser(HttpLimits())
    seen: list[object] = []
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    try:
        for piece in pieces:
            parser.feed(piece)
            while parser.complete:
                seen += [parser.head, parser.take_body()]
                parser.next_request()
    except BadRequestError as error:
        seen.append(error.status)
    else:
        seen.append(parser.head)
    return seen


@settings(max_examples=500)
@given(st.data())
def test_how_the_bytes_are_cut_changes_nothing(data):
    stream = b"".join(data.draw(st.lists(st.one_of(PIECES, st.binary(max_size=5)), max_size=15)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    assert outcome(stream, cuts) == outcome(stream, [])


def test_what_llhttp_is_relied_on_for_is_what_this_build_does():
    """httptools can be told to be lenient; a build that is so by default must not get past this."""
    for data in (b"GET / HTTP/1.1\nHost: a\n\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n"):
        with pytest.raises(httptools.HttpParserError):
            httptools.HttpRequestParser(object()).feed_data(data)
