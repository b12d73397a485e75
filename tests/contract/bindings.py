"""One client for both HTTP bindings: says what is asked for, and reads the answer, whichever binding carries it.

The routes are those of the protocol's table of operations.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

import attrs
import pytest
import trio

from tests.contract.replay import load
from tests.server.peer import EventStream, Frame, Peer, open_peer, request_bytes
from trio_a2a.server import A2AApp, BearerTokenAuthenticator

__all__ = ["OPERATIONS", "PAIR", "Answer", "Caller", "Events", "both_bindings", "open_caller", "said", "states"]

both_bindings = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])

OPERATIONS = {one["operation"]: one for one in load("data/operations.json")}

PAIR = {"authenticator": BearerTokenAuthenticator({"a-token": "ann", "b-token": "bob"})}
"""Options of an agent that knows two callers."""


@attrs.frozen
class Answer:
    """A whole answer.

    Attributes:
        status: The HTTP status.
        headers: The headers.
        body: The JSON document.
        rest: Whether it came over HTTP+JSON.
    """

    status: int
    headers: dict[str, str]
    body: Any
    rest: bool

    @property
    def result(self) -> Any:
        """The bare result."""
        assert "error" not in self.body, self.body
        assert self.status == 200, self
        return self.body if self.rest else self.body["result"]

    @property
    def error(self) -> Any:
        assert "error" in self.body, self.body
        return self.body["error"]

    @property
    def details(self) -> dict[str, Any]:
        """The details of the error by their kind."""
        found = self.error.get("details" if self.rest else "data", ())
        return {one["@type"].removeprefix("type.googleapis.com/google.rpc."): one for one in found}

    @property
    def reason(self) -> str:
        """Which error it is."""
        return self.details["ErrorInfo"]["reason"]

    @property
    def fields(self) -> list[str]:
        """The members of the request that are at fault."""
        return [violation["field"] for violation in self.details["BadRequest"]["fieldViolations"]]


@attrs.define
class Events:
    """A stream as it comes: bare events, comments left out."""

    stream: EventStream
    rest: bool

    @property
    def headers(self) -> dict[str, str]:
        return self.stream.headers

    def bare(self, frame: Frame) -> Any:
        return frame.data if self.rest or "error" in frame.data else frame.data["result"]

    async def next(self) -> Any:
        """Return the next event; None at the end."""
        assert self.headers["content-type"].startswith("text/event-stream"), await self.stream.reply()
        while (frame := await self.stream.frame()) is not None:
            if frame.comment is None:
                return self.bare(frame)
        return None

    async def all(self) -> list[Any]:
        """Return the events up to the end."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events

    async def answer(self) -> Answer:
        """Return the whole answer of a call that was not answered with a stream."""
        assert self.headers["content-type"] == "application/json"
        reply = await self.stream.reply()
        return Answer(reply.status, reply.headers, reply.json, self.rest)


@attrs.define
class Caller:
    """Calls an agent over one binding.

    Attributes:
        peer: The connections.
        binding: Its name in cards.
        token: The bearer token of a caller that is known; None for none.
    """

    peer: Peer
    binding: str
    token: str | None = None

    @property
    def app(self) -> A2AApp:
        return self.peer.app

    def by(self, token: str | None) -> "Caller":
        """Return the same agent's caller with another token."""
        return attrs.evolve(self, token=token)

    def over(self, binding: str) -> "Caller":
        """Return the same agent's caller over another binding."""
        return attrs.evolve(self, binding=binding)

    def request(self, operation: str, params: Any, headers: dict[str, str], query: dict[str, str]) -> bytes:
        """The bytes of a request."""
        send = {"a2a-version": "1.0", **headers}
        if self.token is not None:
            send["authorization"] = f"Bearer {self.token}"
        send = {name: value for name, value in send.items() if value}
        if self.binding == "JSONRPC":
            document = {"jsonrpc": "2.0", "id": "one", "method": operation, "params": params}
            path = f"/?{urlencode(query)}" if query else "/"
            return request_bytes("POST", path, {"content-type": "application/json", **send}, _text(document))
        route = OPERATIONS[operation]["rest"]
        rest, path = dict(params), route["path"]
        for name in ("id", "taskId"):
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
        if rest.get("tenant") and not query:
            path = f"/{quote(rest['tenant'], safe='')}{path}"
        if route["verb"] == "POST":
            body = _text(rest) if rest else b""
            path = f"{path}?{urlencode(query)}" if query else path
            return request_bytes("POST", path, {"content-type": "application/json", **send}, body)
        plain = {name: json.dumps(value) if isinstance(value, bool) else value for name, value in rest.items()} | query
        return request_bytes(route["verb"], f"{path}?{urlencode(plain)}" if plain else path, send, b"")

    async def call(
        self,
        operation: str,
        params: Any = None,
        headers: dict[str, str] | None = None,
        *,
        query: dict[str, str] | None = None,
    ) -> Answer:
        """Call an operation.

        Args:
            operation: Its name.
            params: The members of its request; over HTTP+JSON they go where they belong.
            headers: More headers; an empty value takes one away.
            query: More parameters of the URL.
        """
        async with self.stream(operation, params, headers, query=query) as events:
            return await events.answer()

    @asynccontextmanager
    async def stream(
        self,
        operation: str,
        params: Any = None,
        headers: dict[str, str] | None = None,
        *,
        query: dict[str, str] | None = None,
    ) -> AsyncIterator[Events]:
        """Call an operation, and read its answer as it comes; leaving the block closes the connection."""
        wire = self.peer.connect()
        await wire.stream.send_all(self.request(operation, params or {}, headers or {}, query or {}))
        try:
            yield Events(EventStream(wire, *await wire.head()), self.binding != "JSONRPC")
        finally:
            await trio.aclose_forcefully(wire.stream)

    async def send(self, text: str = "hello", *, configuration: Any = None, **members: Any) -> Any:
        """Send a message, and return the task or the message that is the answer."""
        ((_, value),) = (
            await self.call("SendMessage", said(text, configuration=configuration, **members))
        ).result.items()
        return value

    async def streamed(self, text: str = "hello", *, configuration: Any = None, **members: Any) -> list[Any]:
        """Send a message, and return the events of its stream."""
        async with self.stream("SendStreamingMessage", said(text, configuration=configuration, **members)) as events:
            return await events.all()

    async def get(self, task_id: str, **members: Any) -> Any:
        """Return a task."""
        return (await self.call("GetTask", {"id": task_id, **members})).result


def _text(document: Any) -> bytes:
    return json.dumps(document).encode()


def said(text: str = "hello", *, configuration: Any = None, **members: Any) -> dict[str, Any]:
    """The request of a message."""
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}], **members}
    return {"message": message} if configuration is None else {"message": message, "configuration": configuration}


def states(events: list[Any]) -> list[str]:
    """What events say: the state of a task or a status, or the kind of another."""
    names = []
    for event in events:
        ((kind, value),) = event.items()
        status = value.get("status") if isinstance(value, dict) and kind != "error" else None
        names.append(kind if status is None else status["state"].removeprefix("TASK_STATE_"))
    return names


@asynccontextmanager
async def open_caller(binding: str, executor: Any, **options: Any) -> AsyncIterator[Caller]:
    """A caller of an application with that agent."""
    async with open_peer(executor, **options) as peer:
        yield Caller(peer, binding)
