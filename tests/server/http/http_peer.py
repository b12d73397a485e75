"""A raw HTTP client for tests: says exactly the bytes it is told, and reads what comes back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio
import trio.testing

from trio_a2a.server.http import HttpLimits, serve_http, serve_stream
from trio_a2a.server.http.listeners import open_listeners

GET = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"


def post(body: bytes, *, path: bytes = b"/") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n%b" % (path, len(body), body)


CHUNKED = b"POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"


@attrs.frozen
class Reply:
    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Peer:
    """The client's end of a connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._buffer = b""

    async def send(self, data: bytes) -> None:
        with trio.fail_after(5):
            await self.stream.send_all(data)

    async def more(self) -> bool:
        # On a clock that jumps, longer than any time-out of the server, for tests that wait for one.
        mocked = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
        with trio.fail_after(600 if mocked else 5):
            data = await self.stream.receive_some()
        self._buffer += data
        return bool(data)

    async def until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            assert await self.more(), f"end of file before {mark!r}: {self._buffer!r}"
        found, _, self._buffer = self._buffer.partition(mark)
        return found + mark

    async def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            assert await self.more(), f"end of file before {size} bytes: {self._buffer!r}"
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    async def rest(self) -> bytes:
        while await self.more():
            pass
        data, self._buffer = self._buffer, b""
        return data

    async def head(self) -> tuple[int, dict[bytes, bytes]]:
        raw = await self.until(b"\r\n\r\n")
        first, *fields = raw[:-4].split(b"\r\n")
        headers = dict(field.split(b": ", 1) for field in fields)
        assert len(headers) == len(fields)
        return int(first.split(b" ")[1]), headers

    async def chunk(self) -> bytes:
        size = int(await self.until(b"\r\n"), 16)
        data = await self.exactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def reply(self, *, has_body: bool = True) -> Reply:
        status, headers = await self.head()
        body = b""
        if not has_body:
            pass
        elif headers.get(b"transfer-encoding") == b"chunked":
            while chunk := await self.chunk():
                body += chunk
        elif b"content-length" in headers:
            body = await self.exactly(int(headers[b"content-length"]))
        elif status != 204:
            body = await self.rest()
        return Reply(status, headers, body)

    async def ask(self, data: bytes) -> Reply:
        await self.send(data)
        return await self.reply()

    async def at_end(self) -> bool:
        """Whether the server has closed, and said nothing more."""
        return await self.rest() == b""


@asynccontextmanager
async def served(app, *, pair=trio.testing.memory_stream_pair, **options) -> AsyncIterator[Peer]:
    """A client of `app` over streams in memory; at the end the connection is cancelled."""
    ours, theirs = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: serve_stream(app, theirs, **options))
        yield Peer(ours)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def listening(app, *, ssl_context=None, **options):
    """A server on a free port of the loopback interface; at the end it is cancelled."""
    async with trio.open_nursery() as nursery:
        listeners = await open_listeners("127.0.0.1", 0, ssl_context=ssl_context)
        with trio.fail_after(5):
            server = await nursery.start(
                lambda task_status: serve_http(app, listeners, task_status=task_status, **options)
            )
        yield server
        nursery.cancel_scope.cancel()


async def dial(server) -> Peer:
    with trio.fail_after(5):
        return Peer(await trio.open_tcp_stream(*server.addresses[0]))


class Answering:
    """An application that reads the body and answers with it; keeps the scopes and bodies that it saw."""

    def __init__(self, *, status=200, headers=((b"content-type", b"text/plain"),), body=None):
        self.status, self.headers, self.body = status, headers, body
        self.scopes = []
        self.bodies = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            raise NotImplementedError
        self.scopes.append(scope)
        body = b""
        more = True
        while more:
            message = await receive()
            assert message["type"] == "http.request", message
            body += message["body"]
            more = message["more_body"]
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": body if self.body is None else self.body})


class Blocking:
    """An application that waits for ever, optionally after having sent something; tells what became of it."""

    def __init__(self, *, first=None):
        self.first = first
        self.running = trio.Event()
        self.ended = trio.Event()
        self.reason = None
        self.after = None

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            raise NotImplementedError
        try:
            if self.first is not None:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": self.first, "more_body": True})
            self.running.set()
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            self.reason = cancelled.reason
            with trio.move_on_after(1, shield=True):
                self.after = await receive()
            raise
        finally:
            self.ended.set()


def limits(**values) -> HttpLimits:
    return HttpLimits(**values)
