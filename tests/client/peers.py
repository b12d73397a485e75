"""Agents to call: ours, served over loopback, and servers written by hand that misbehave."""

import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

import trio_a2a
from trio_a2a.client import Client, connect

__all__ = ["BINDINGS", "Raw", "both_bindings", "card_json", "open_agent", "open_client", "open_raw", "sse"]

BINDINGS = ("JSONRPC", "HTTP+JSON")
both_bindings = pytest.mark.parametrize("binding", BINDINGS)


@asynccontextmanager
async def open_agent(executor: Any, *, card: Any = None, **options: Any) -> AsyncIterator[str]:
    """Serve an agent; gives its URL."""
    agent = trio_a2a.Agent(card or trio_a2a.agent_card("Tested", "Is tested."), executor, **options)
    async with trio.open_nursery() as nursery:
        served = await nursery.start(trio_a2a.serve, agent)
        yield served.url
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_client(executor: Any, binding: str, *, client: Any = None, **options: Any) -> AsyncIterator[Client]:
    """Serve an agent, and connect to it."""
    async with (
        open_agent(executor, **options) as url,
        connect(url, transports=(binding,), **(client or {})) as connected,
    ):
        yield connected


def card_json(url: str, binding: str = "JSONRPC", **members: Any) -> dict[str, Any]:
    """A card of an agent at that URL."""
    return {
        "name": "Raw",
        "description": "Is written by hand.",
        "version": "1",
        "capabilities": {"streaming": True, "pushNotifications": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
        "supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}],
        **members,
    }


@attrs.define
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@attrs.define(eq=False)
class Raw:
    """A server that answers each request with the bytes that a function gives, and closes.

    Attributes:
        url: Where it is.
        answer: The function; it may be async. What it returns is bytes, or a list with waits (seconds) in between.
        requests: What was asked, in order.
    """

    url: str
    answer: Callable[[Request], Any]
    requests: list[Request] = attrs.Factory(list)


def http(status: int, body: bytes = b"", content_type: str = "application/json", **headers: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status} X",
        f"content-type: {content_type}",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answer_json(document: Any, status: int = 200, **headers: str) -> bytes:
    return http(status, json.dumps(document).encode(), **headers)


SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
SSE_END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def sse(*documents: Any, ids: Any = None, end: bool = True) -> bytes:
    """A stream of events; without its end it is broken off."""
    frames = []
    for index, document in enumerate(documents):
        head = f"id: {ids[index]}\n" if ids is not None else ""
        frames.append(chunk(f"{head}data: {json.dumps(document)}\n\n".encode()))
    return SSE_HEAD + b"".join(frames) + (SSE_END if end else b"")


@asynccontextmanager
async def open_raw(answer: Callable[[Request], Any], *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Raw]:
    """Serve that function; the card is its business, too."""

    async def handle(stream: trio.abc.HalfCloseableStream) -> None:
        if tls is not None:
            stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        async with stream:
            try:
                data = b""
                while b"\r\n\r\n" not in data:
                    more = await stream.receive_some()
                    if not more:
                        return
                    data += more
                head, _, body = data.partition(b"\r\n\r\n")
                first, *lines = head.decode().split("\r\n")
                headers = {n.lower(): v for n, v in (line.split(": ", 1) for line in lines)}
                while len(body) < int(headers.get("content-length", 0)):
                    body += await stream.receive_some()
                method, path, _ = first.split(" ")
                request = Request(method, path, headers, body)
                raw.requests.append(request)
                result = raw.answer(request)
                for piece in result if isinstance(result, list) else [result]:
                    if isinstance(piece, bytes):
                        await stream.send_all(piece)
                    else:
                        await trio.sleep(piece)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        scheme = "http" if tls is None else "https"
        raw = Raw(url=f"{scheme}://127.0.0.1:{listeners[0].socket.getsockname()[1]}", answer=answer)
        nursery.start_soon(trio.serve_listeners, handle, listeners)
        yield raw
        nursery.cancel_scope.cancel()
