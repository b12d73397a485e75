"""Arbitrary bytes, cut anywhere: the server never fails, never says 500, and always ends."""

import logging

import trio
import trio.testing
from hypothesis import given, settings, strategies as st

from trio_a2a.server.http import HttpLimits, serve_stream

from .http_peer import CHUNKED, GET, Answering, post

SEEDS = [
    GET,
    post(b"hello"),
    CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b"5;ext=1\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n",
    b"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
    b"GET http://a/b HTTP/1.1\r\nHost: c\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]
NOISE = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b" ",
    b":",
    b"0",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"\xff",
]


@st.composite
def mutations(draw) -> bytes:
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=4))))
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 8)))
        data[start:end] = draw(st.one_of(st.sampled_from(NOISE), st.binary(max_size=6)))
    return bytes(data)


async def exchange(pieces: list[bytes], *, half_close: bool) -> bytes:
    """All that the server says; the client sends all pieces, then nothing or an end of file."""
    app = Answering()
    ours, theirs = trio.testing.memory_stream_pair()
    heard = bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: serve_stream(app, theirs, limits=HttpLimits(max_head=2000, max_body=5000)))

        async def hear():
            while data := await ours.receive_some():
                heard.extend(data)

        nursery.start_soon(hear)
        try:
            for piece in pieces:
                await ours.send_all(piece)
                await trio.testing.wait_all_tasks_blocked()
            if half_close:
                await ours.send_eof()
        except trio.BrokenResourceError:
            pass
    await ours.aclose()
    return bytes(heard)


def check(data: bytes, cuts: list[int], *, half_close: bool) -> None:
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger("trio_a2a.server.http")
    logger.addHandler(handler)
    try:
        # The clock jumps over every time-out; 200 s is more than all of them in a row.
        async def bounded():
            with trio.fail_after(200):
                return await exchange(pieces, half_close=half_close)

        heard = trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        logger.removeHandler(handler)
    assert b"HTTP/1.1 500" not in heard
    assert not [record for record in records if record.levelno >= logging.WARNING]
    if heard:
        assert heard.startswith(b"HTTP/1.1 ")


@settings(max_examples=300, deadline=None)
@given(st.data(), st.booleans())
def test_mutated_requests_never_hurt_the_server(data, half_close):
    stream = data.draw(mutations())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    check(stream, cuts, half_close=half_close)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_never_hurt_the_server(stream, half_close):
    check(stream, [len(stream) // 2], half_close=half_close)
