"""A client of one application, over streams in memory: says what it is told, and reads what comes back."""

import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
import trio.testing

from trio_a2a.server import A2AApp, Agent, agent_card
from trio_a2a.server.http import serve_stream

JSON = {"content-type": "application/json"}
VERSION = {"a2a-version": "1.0"}


@attrs.frozen
class Reply:
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def result(self) -> Any:
        assert self.status == 200, self
        assert "error" not in self.json, self.json
        return self.json["result"]

    @property
    def error(self) -> Any:
        assert "result" not in self.json, self.json
        return self.json["error"]

    @property
    def code(self) -> int:
        return self.error["code"]

    @property
    def info(self) -> Any:
        """The ErrorInfo detail."""
        return detail(self.error, "ErrorInfo")

    @property
    def violations(self) -> dict[str, str]:
        """Fields to descriptions of the BadRequest detail."""
        found = detail(self.error, "BadRequest")["fieldViolations"]
        return {violation["field"]: violation["description"] for violation in found}


def detail(error: Any, kind: str) -> Any:
    (found,) = (d for d in error.get("data", ()) if d["@type"] == f"type.googleapis.com/google.rpc.{kind}")
    return found


@attrs.frozen
class Frame:
    """One block of an SSE stream: an event, or a comment."""

    data: Any = None
    id: int | None = None
    event: str | None = None
    comment: str | None = None

    @property
    def result(self) -> Any:
        assert "error" not in self.data, self.data
        return self.data["result"]

    @property
    def says(self) -> str:
        """The kind of the event; the state of a status, or the text of a message."""
        if self.comment is not None:
            return f": {self.comment}"
        if "error" in self.data:
            return f"error {self.data['error']['code']}"
        ((kind, value),) = self.result.items()
        if kind == "message":
            return value["parts"][0]["text"]
        return value["status"]["state"].removeprefix("TASK_STATE_") if "status" in value else kind


class CutOffError(Exception):
    """The connection ended before the response."""


class Wire:
    """The client's end of a connection, which reads HTTP/1.1."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._buffer = b""
        self._chunked = False

    async def more(self) -> None:
        data = await self.stream.receive_some()
        if not data:
            raise CutOffError(f"end of file in the midst of a response: {self._buffer!r}")
        self._buffer += data

    async def until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            await self.more()
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    async def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self.more()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    async def head(self) -> tuple[int, dict[str, str]]:
        first, *lines = (await self.until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        assert len(headers) == len(lines), "a header came twice"
        headers = {name.lower(): value for name, value in headers.items()}
        self._chunked = headers.get("transfer-encoding") == "chunked"
        return int(first.split(" ")[1]), headers

    async def chunk(self) -> bytes:
        size = int(await self.until(b"\r\n"), 16)
        data = await self.exactly(size)
        assert await self.exactly(2) == b"\r\n"
        return data

    async def body(self, headers: dict[str, str], *, has_body: bool = True) -> bytes:
        if not has_body:
            return b""
        if not self._chunked:
            return await self.exactly(int(headers["content-length"]))
        body = b""
        while chunk := await self.chunk():
            body += chunk
        return body


class EventStream:
    """A response as it comes in."""

    def __init__(self, wire: Wire, status: int, headers: dict[str, str]) -> None:
        self.wire = wire
        self.status = status
        self.headers = headers
        self._text = b""
        self._ended = False

    async def frame(self) -> Frame | None:
        """Return the next block; None at the end of the response."""
        while b"\n\n" not in self._text:
            if self._ended or not (chunk := await self.wire.chunk()):
                self._ended = True
                assert not self._text, f"an unfinished block: {self._text!r}"
                return None
            self._text += chunk
        block, _, self._text = self._text.partition(b"\n\n")
        return parse_block(block.decode())

    async def frames(self) -> list[Frame]:
        """Return the blocks up to the end."""
        frames = []
        while (frame := await self.frame()) is not None:
            frames.append(frame)
        return frames

    async def reply(self) -> Reply:
        """Return the whole response, of a call that was not answered with a stream."""
        return Reply(self.status, self.headers, await self.wire.body(self.headers))


def parse_block(block: str) -> Frame:
    fields: dict[str, str] = {}
    assert block.splitlines() == block.split("\n"), "a client that splits lines as Python does would see another block"
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        assert name not in fields, f"{name!r} comes twice in {block!r}"
        fields[name] = value.removeprefix(" ")
    if "" in fields:
        return Frame(comment=fields[""])
    return Frame(
        data=json.loads(fields["data"]),
        id=int(fields["id"]) if "id" in fields else None,
        event=fields.get("event"),
    )


@attrs.define(eq=False)
class Peer:
    """Calls one application; each call has a connection of its own, unless it is given one."""

    app: Any
    nursery: trio.Nursery
    path: str = "/"
    options: dict[str, Any] = attrs.Factory(dict)
    pair: Callable[[], Any] = trio.testing.memory_stream_pair
    _ids: Any = attrs.Factory(lambda: itertools.count(1))

    def connect(self) -> Wire:
        ours, theirs = self.pair()
        limits = self.app.agent.limits.http() if isinstance(self.app, A2AApp) else None
        options = {"limits": limits, **self.options}

        async def serve() -> None:
            await serve_stream(self.app, theirs, **options)

        self.nursery.start_soon(serve)
        return Wire(ours)

    async def http(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"", wire: Wire | None = None
    ) -> Reply:
        wire = wire or self.connect()
        await wire.stream.send_all(request_bytes(method, path, headers or {}, body))
        status, received = await wire.head()
        has_body = method != "HEAD" and status != 304
        return Reply(status, received, await wire.body(received, has_body=has_body))

    async def post(self, body: bytes, headers: dict[str, str] | None = None, **options: Any) -> Reply:
        return await self.http("POST", self.path, {**JSON, **VERSION, **(headers or {})}, body, **options)

    def request(self, method: str, params: Any, id: Any = None) -> bytes:
        id = next(self._ids) if id is None else id
        return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()

    async def call(
        self, method: str, params: Any, headers: dict[str, str] | None = None, *, id: Any = None, **options: Any
    ) -> Reply:
        return await self.post(self.request(method, params, id), headers, **options)

    async def send(self, text: str = "hello", *, headers: dict[str, str] | None = None, **members: Any) -> Reply:
        return await self.call("SendMessage", message(text, **members), headers)

    async def get(self, task_id: str, **options: Any) -> Any:
        return (await self.call("GetTask", {"id": task_id}, **options)).result

    @asynccontextmanager
    async def stream(
        self, method: str, params: Any, headers: dict[str, str] | None = None, *, id: Any = None
    ) -> AsyncIterator[EventStream]:
        """A streaming call; leaving the block closes the connection."""
        wire = self.connect()
        body = self.request(method, params, id)
        await wire.stream.send_all(request_bytes("POST", self.path, {**JSON, **VERSION, **(headers or {})}, body))
        try:
            yield EventStream(wire, *await wire.head())
        finally:
            await trio.aclose_forcefully(wire.stream)


def message(text: str = "hello", *, configuration: Any = None, metadata: Any = None, **members: Any) -> Any:
    """The params of a message."""
    params = {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}], **members}}
    if configuration is not None:
        params["configuration"] = configuration
    if metadata is not None:
        params["metadata"] = metadata
    return params


def request_bytes(method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"{method} {path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in {"host": "test", **headers}.items()]
    if body or method == "POST":
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def make_app(executor: Any, *, app_options: dict[str, Any] | None = None, **options: Any) -> A2AApp:
    card = options.pop("card", None) or agent_card("Tested", "Is tested.")
    return A2AApp(Agent(card, executor, **options), **(app_options or {}))


@asynccontextmanager
async def open_peer(executor: Any, **options: Any) -> AsyncIterator[Peer]:
    """A client of an application with that agent; at the end its connections and the application are ended."""
    app = make_app(executor, **options)
    async with app.running(), trio.open_nursery() as nursery:
        yield Peer(app, nursery)
        nursery.cancel_scope.cancel()
