"""One client for both HTTP bindings: an operation and its params go in, a result or an error comes out.

What a test says of an operation holds for both bindings; this is where their forms differ.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

import attrs
import pytest
import trio

from .peer import JSON, VERSION, EventStream, Frame, Peer, Reply, open_peer, request_bytes

__all__ = ["BINDINGS", "JSONRPC", "REST", "Answer", "Caller", "both_bindings", "open_caller"]

JSONRPC = "JSONRPC"
REST = "HTTP+JSON"
BINDINGS = (JSONRPC, REST)

both_bindings = pytest.mark.parametrize("binding", BINDINGS)

_TASK = "/tasks/{id}"
_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"
_CONFIG = f"{_CONFIGS}/{{id}}"
ROUTES = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", _TASK),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", f"{_TASK}:cancel"),
    "SubscribeToTask": ("POST", f"{_TASK}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", _CONFIGS),
    "GetTaskPushNotificationConfig": ("GET", _CONFIG),
    "ListTaskPushNotificationConfigs": ("GET", _CONFIGS),
    "DeleteTaskPushNotificationConfig": ("DELETE", _CONFIG),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}


@attrs.frozen
class Answer:
    """What an operation was answered with."""

    reply: Reply

    @property
    def status(self) -> int:
        return self.reply.status

    @property
    def headers(self) -> dict[str, str]:
        return self.reply.headers

    @property
    def error(self) -> Any:
        """The error object of either binding; None if it is a result."""
        return self.reply.json.get("error")

    @property
    def result(self) -> Any:
        assert self.status == 200, self.reply
        assert self.error is None, self.reply
        document = self.reply.json
        return document["result"] if "jsonrpc" in document else document

    @property
    def reason(self) -> str:
        """The reason of the ErrorInfo, or the HTTP status of an error that has none."""
        assert self.error is not None, self.reply
        return next((one["reason"] for one in details(self.error, "ErrorInfo")), str(self.status))

    @property
    def metadata(self) -> dict[str, str]:
        (info,) = details(self.error, "ErrorInfo")
        return info.get("metadata", {})

    @property
    def fields(self) -> dict[str, str]:
        """Fields to descriptions of the BadRequest detail."""
        assert self.error is not None, self.reply
        found = [v for one in details(self.error, "BadRequest") for v in one["fieldViolations"]]
        return {violation["field"]: violation["description"] for violation in found}


def details(error: Any, kind: str) -> list[Any]:
    """The details of an error that are of this kind."""
    found = error.get("data") or error.get("details") or []
    return [one for one in found if one["@type"] == f"type.googleapis.com/google.rpc.{kind}"]


@attrs.frozen
class Event:
    """One event of a stream: a StreamResponse, an error, or a comment."""

    frame: Frame

    @property
    def id(self) -> int | None:
        return self.frame.id

    @property
    def value(self) -> Any:
        """The StreamResponse."""
        document = self.frame.data
        assert "error" not in document, document
        return document["result"] if "jsonrpc" in document else document

    @property
    def says(self) -> str:
        """The kind of the event; the state of a status, the text of a message, the reason of an error."""
        if self.frame.comment is not None:
            return f": {self.frame.comment}"
        if "error" in self.frame.data:
            (info,) = details(self.frame.data["error"], "ErrorInfo")
            return f"error {info['reason']}"
        ((kind, value),) = self.value.items()
        if kind == "message":
            return value["parts"][0]["text"]
        return value["status"]["state"].removeprefix("TASK_STATE_") if "status" in value else kind


@attrs.frozen
class Events:
    """A stream as it comes in, or the answer that came in its place."""

    stream: EventStream

    @property
    def headers(self) -> dict[str, str]:
        return self.stream.headers

    @property
    def is_stream(self) -> bool:
        return self.stream.headers["content-type"] == "text/event-stream"

    async def next(self) -> Event:
        assert self.is_stream, await self.answer()
        frame = await self.stream.frame()
        assert frame is not None, "the stream has ended"
        return Event(frame)

    async def rest(self) -> list[Event]:
        """The events up to the end."""
        assert self.is_stream, await self.answer()
        return [Event(frame) for frame in await self.stream.frames()]

    async def answer(self) -> Answer:
        """The whole response of a call that was not answered with a stream."""
        assert not self.is_stream
        return Answer(await self.stream.reply())


@attrs.frozen
class Caller:
    """A client of one application in one binding."""

    peer: Peer
    binding: str
    headers: dict[str, str] = attrs.Factory(dict)

    def speaking_for(self, token: str) -> "Caller":
        """The same client with a bearer token."""
        return attrs.evolve(self, headers={**self.headers, "authorization": f"Bearer {token}"})

    @property
    def manager(self) -> Any:
        return self.peer.app._running.manager

    def request(
        self, operation: str, params: Any = None, headers: dict[str, str] | None = None, *, prefix: str = ""
    ) -> bytes:
        """The bytes of a request."""
        params = {} if params is None else params
        headers = {**JSON, **VERSION, **self.headers, **(headers or {})}
        if self.binding == JSONRPC:
            return request_bytes("POST", self.peer.path, headers, self.peer.request(operation, params))
        method, path = ROUTES[operation]
        for name in ("id", "taskId"):
            if f"{{{name}}}" in path:
                params = dict(params)
                path = path.replace(f"{{{name}}}", quote(str(params.pop(name)), safe=""))
        if method == "POST":
            return request_bytes(method, prefix + path, headers, json.dumps(params).encode())
        query = urlencode({k: json.dumps(v) if isinstance(v, bool) else v for k, v in params.items()})
        del headers["content-type"]
        return request_bytes(method, prefix + path + (f"?{query}" if query else ""), headers, b"")

    async def call(self, operation: str, params: Any = None, headers: dict[str, str] | None = None) -> Answer:
        return await self.raw(self.request(operation, params, headers))

    async def raw(self, data: bytes) -> Answer:
        """Send these bytes, and read the answer."""
        wire = self.peer.connect()
        await wire.stream.send_all(data)
        status, received = await wire.head()
        return Answer(Reply(status, received, await wire.body(received)))

    async def rest(
        self, method: str, path: str, headers: dict[str, str] | None = None, document: Any = None, body: bytes = b""
    ) -> Answer:
        """A request of the HTTP+JSON binding, written out."""
        headers = {**VERSION, **self.headers, **(headers or {})}
        if document is not None:
            headers, body = {**JSON, **headers}, json.dumps(document).encode()
        return Answer(await self.peer.http(method, path, headers, body))

    @asynccontextmanager
    async def stream(self, operation: str, params: Any, headers: dict[str, str] | None = None) -> AsyncIterator[Events]:
        """A streaming call; leaving the block closes the connection."""
        async with self.raw_stream(self.request(operation, params, headers)) as events:
            yield events

    @asynccontextmanager
    async def raw_stream(self, data: bytes) -> AsyncIterator[Events]:
        wire = self.peer.connect()
        await wire.stream.send_all(data)
        try:
            yield Events(EventStream(wire, *await wire.head()))
        finally:
            await trio.aclose_forcefully(wire.stream)


@asynccontextmanager
async def open_caller(binding: str, executor: Any, **options: Any) -> AsyncIterator[Caller]:
    """A client of an application with that agent."""
    async with open_peer(executor, **options) as peer:
        yield Caller(peer, binding)
