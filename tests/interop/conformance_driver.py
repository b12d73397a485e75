"""Drives the conformance agent over one binding, and checks what has to be true of every answer.

The two bindings have one interface here: an operation, its members as the specification names them, and an answer. The
habits are those of compatibility suites: JSON-RPC goes to the URL with a slash behind it and has the members of
``params`` in snake_case, and of a stream only the lines that begin with ``data:`` are looked at, each a JSON document.
"""

import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import attrs
import httpx2
import trio
from jsonschema import Draft202012Validator

from tests.server.peer import Wire, request_bytes
from trio_a2a.errors import ERROR_TABLE

__all__ = ["BINDINGS", "JSON", "OPERATIONS", "Answer", "Driver", "Stream", "connection", "open_driver", "route"]

BINDINGS = ("JSONRPC", "HTTP+JSON")
JSON = "application/json"
# What the suites' HTTP clients wait: a reply that takes longer is a failure.
TIMEOUT = httpx2.Timeout(5, read=30)

RESULTS = {
    "SendMessage": "SendMessageResponse",
    "GetTask": "Task",
    "ListTasks": "ListTasksResponse",
    "CancelTask": "Task",
    "CreateTaskPushNotificationConfig": "TaskPushNotificationConfig",
    "GetTaskPushNotificationConfig": "TaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs": "ListTaskPushNotificationConfigsResponse",
    "DeleteTaskPushNotificationConfig": None,
    "GetExtendedAgentCard": "AgentCard",
}
STREAMS = ("SendStreamingMessage", "SubscribeToTask")
OPERATIONS = (*RESULTS, *STREAMS)

_SCHEMA_FILE = Path(__file__).parents[1] / "contract" / "data" / "schema" / "a2a-1.0-emit.schema.json"
_SCHEMA = json.loads(_SCHEMA_FILE.read_text(encoding="utf-8"))
_VALIDATORS = {name: Draft202012Validator({**_SCHEMA, "$ref": f"#/$defs/{name}"}) for name in _SCHEMA["$defs"]}
_ROWS = {row.error.__name__: row for row in ERROR_TABLE}
_REASONS = {row.reason for row in ERROR_TABLE if row.reason is not None}
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


# ------------------------------------------------------------------------------------------------ what is always so


def check_schema(document: Any, name: str) -> None:
    """Check a document against the closed schema of what may be sent."""
    faults = [f"{list(fault.absolute_path)}: {fault.message}" for fault in _VALIDATORS[name].iter_errors(document)]
    assert not faults, f"{name}: {faults}"


def _members(document: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(document, dict):
        yield from document.items()
    children = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    for child in children:
        yield from _members(child)


def check_everywhere(document: Any) -> None:
    """Check what holds at any depth: the spelling of keys, of enums and of times."""
    for key, value in _members(document):
        assert "_" not in key, f"{key!r} is snake_case"
        if key == "timestamp":
            assert _TIMESTAMP.fullmatch(value), value
        if key in {"state", "role"} and isinstance(value, str):
            assert re.fullmatch("(TASK_STATE|ROLE)_[A-Z_]+", value), value


def check_result(document: Any, name: str) -> None:
    """Check a whole result."""
    check_schema(document, name)
    check_everywhere(document)


def _check_error(error: Any, details: Any) -> None:
    assert type(error["code"]) is int, error
    assert isinstance(error["message"], str), error
    assert error["message"], error
    check_everywhere(error)
    (info,) = (detail for detail in details if detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo")
    assert set(info) <= {"@type", "reason", "domain", "metadata"}, info
    assert info["reason"] in _REASONS, info
    assert info["domain"] == "a2a-protocol.org", info


# ------------------------------------------------------------------------------------------------------- the answers


@attrs.frozen
class Answer:
    """The answer to one call: a result, or an error.

    Attributes:
        rest: Whether it came over HTTP+JSON.
        status: The HTTP status.
        headers: The headers.
        body: The JSON body.
    """

    rest: bool
    status: int
    headers: Any
    body: Any

    @property
    def refused(self) -> bool:
        return "error" in self.body

    @property
    def result(self) -> Any:
        assert not self.refused, self.body
        assert 200 <= self.status < 300, self
        return self.body if self.rest else self.body["result"]

    @property
    def error(self) -> Any:
        assert self.refused, self.body
        return self.body["error"]

    @property
    def details(self) -> Any:
        return self.error["details" if self.rest else "data"]

    @property
    def reason(self) -> str:
        return next(detail["reason"] for detail in self.details if detail["@type"].endswith("ErrorInfo"))

    def is_error(self, name: str) -> bool:
        """Tell whether it is this error, by its code or HTTP status and by its reason."""
        row = _ROWS[name]
        code = row.http_status("1.0.1") if self.rest else row.code
        return self.error["code"] == code and self.reason == row.reason

    def check(self, result: str | None) -> "Answer":
        """Check all that is true of any answer, and of the result if it is one."""
        assert not 300 <= self.status < 400, "a redirect"
        assert JSON in self.headers["content-type"], self.headers
        if self.refused:
            self._check_refusal()
        elif result is None:
            assert self.result == {}
        else:
            check_result(self.result, result)
        return self

    def _check_refusal(self) -> None:
        error = self.error
        _check_error(error, self.details)
        if self.rest:
            assert set(self.body) == {"error"}, self.body
            assert set(error) == {"code", "status", "message", "details"}, error
            assert error["code"] == self.status >= 400, error
        else:
            assert set(self.body) == {"jsonrpc", "id", "error"}, self.body
            assert set(error) <= {"code", "message", "data"}, error


class Stream:
    """A stream of events as a suite reads it, or the plain answer that came in its place.

    Attributes:
        answer: The refusal; None for a stream.
        blocks: The lines of each block that was read.
    """

    def __init__(self, wire: Wire, request_id: Any, headers: dict[str, str], answer: Answer | None) -> None:
        self.answer = answer
        self.headers = headers
        self.blocks: list[list[str]] = []
        self._wire = wire
        self._id = request_id
        self._text = b""

    async def event(self) -> Any:
        """Return the next event; None at the end."""
        assert self.answer is None, self.answer
        while True:
            while b"\n\n" not in self._text:
                chunk = await self._wire.chunk()
                if not chunk:
                    assert not self._text, f"an unfinished block: {self._text!r}"
                    return None
                self._text += chunk
            block, _, self._text = self._text.partition(b"\n\n")
            # Split as clients in Python do: at each line break that Unicode has.
            lines = block.decode().splitlines()
            self.blocks.append(lines)
            data = [line.removeprefix("data:") for line in lines if line.startswith("data:")]
            if data:
                return self._event(*data)

    def _event(self, data: str) -> Any:
        event = json.loads(data)
        if self._id is not None:
            assert set(event) == {"jsonrpc", "id", "result"}, event
            assert event["id"] == self._id, event
            event = event["result"]
        check_result(event, "StreamResponse")
        return event

    async def rest(self) -> list[Any]:
        """Return the events up to the end."""
        events = []
        while (event := await self.event()) is not None:
            events.append(event)
        return events


# ------------------------------------------------------------------------------------------------------------ calling


def route(operation: str, members: dict[str, Any]) -> tuple[str, str, Any]:
    """Return the method, the path with its query, and the body of an operation over HTTP+JSON."""
    members = dict(members)
    match operation:
        case "SendMessage":
            return "POST", "/message:send", members
        case "SendStreamingMessage":
            return "POST", "/message:stream", members
        case "GetTask":
            return "GET", f"/tasks/{members.pop('id')}{_query(members)}", None
        case "ListTasks":
            return "GET", f"/tasks{_query(members)}", None
        case "CancelTask":
            return "POST", f"/tasks/{members['id']}:cancel", b""
        case "SubscribeToTask":
            return "POST", f"/tasks/{members['id']}:subscribe", b""
        case "GetExtendedAgentCard":
            return "GET", "/extendedAgentCard", None
    configs = f"/tasks/{members.pop('taskId')}/pushNotificationConfigs"
    match operation:
        case "CreateTaskPushNotificationConfig":
            return "POST", configs, members
        case "ListTaskPushNotificationConfigs":
            return "GET", configs + _query(members), None
        case "GetTaskPushNotificationConfig":
            return "GET", f"{configs}/{members['id']}", None
        case "DeleteTaskPushNotificationConfig":
            return "DELETE", f"{configs}/{members['id']}", None
    raise ValueError(operation)


def _query(members: dict[str, Any]) -> str:
    values = {name: json.dumps(value) if isinstance(value, bool) else value for name, value in members.items()}
    return f"?{urlencode(values)}" if values else ""


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


@attrs.define(eq=False)
class Driver:
    """Calls the program at a URL over one binding.

    Attributes:
        url: The URL of the program.
        binding: The binding.
        http: The client.
        headers: The headers of each call.
    """

    url: str
    binding: str
    http: httpx2.AsyncClient
    headers: dict[str, str]
    _ids: Any = attrs.Factory(lambda: itertools.count(1))

    @property
    def rest(self) -> bool:
        return self.binding == "HTTP+JSON"

    def message(self, name: str, **members: Any) -> dict[str, Any]:
        """Make a message whose id is made as the suites make theirs."""
        suffix = self.binding.lower().replace("+", "_")
        return {
            "messageId": f"{name}-1a2b3c4d-{suffix}",
            "role": "ROLE_USER",
            "parts": [{"text": "What is said here is not looked at."}],
            **members,
        }

    async def call(self, operation: str, members: dict[str, Any], headers: dict[str, str] | None = None) -> Answer:
        """Call an operation that has one answer, and check what is true of all of them."""
        method, path, body, request_id = self._request(operation, members)
        kind = {"content-type": JSON} if method == "POST" else {}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        answer = await self.raw(method, path, content, {**self.headers, **kind, **(headers or {})})
        if not self.rest:
            assert answer.body["jsonrpc"] == "2.0", answer
            assert answer.body["id"] == request_id, answer
        return answer.check(RESULTS.get(operation))

    async def raw(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> Answer:
        """Send a request as it is given."""
        response = await self.http.request(method, self.url + path, content=content, headers=headers)
        return Answer(self.rest, response.status_code, response.headers, json.loads(response.content))

    def _request(self, operation: str, members: dict[str, Any]) -> tuple[str, str, Any, Any]:
        if self.rest:
            return *route(operation, members), None
        request_id = next(self._ids)
        params = {_snake(name): value for name, value in members.items()}
        return "POST", "/", {"jsonrpc": "2.0", "id": request_id, "method": operation, "params": params}, request_id

    async def send(
        self, name: str, configuration: Any = None, headers: dict[str, str] | None = None, **members: Any
    ) -> Answer:
        """Send a message."""
        return await self.call("SendMessage", self.sending(name, configuration, **members), headers)

    def sending(self, name: str, configuration: Any = None, **members: Any) -> dict[str, Any]:
        """Return the members of a request with a message."""
        request = {"message": self.message(name, **members)}
        return request if configuration is None else {**request, "configuration": configuration}

    async def task(self, name: str, configuration: Any = None, **members: Any) -> Any:
        """Send a message that makes a task, or goes on with one; return it."""
        return (await self.send(name, configuration, **members)).result["task"]

    async def get(self, task_id: str, **members: Any) -> Any:
        """Return a task."""
        return (await self.call("GetTask", {"id": task_id, **members})).result

    @asynccontextmanager
    async def stream(
        self, operation: str, members: dict[str, Any], headers: dict[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        """Call an operation that answers with a stream; leaving the block closes its connection, read or not."""
        method, path, body, request_id = self._request(operation, members)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {**self.headers, "content-type": JSON, "accept": "text/event-stream", **(headers or {})}
        async with connection(self.url) as wire:
            await wire.stream.send_all(request_bytes(method, path, sent, content))
            status, received = await wire.head()
            answer = None
            if "text/event-stream" not in received["content-type"]:
                answer = Answer(self.rest, status, received, json.loads(await wire.body(received)))
                assert answer.check(None).refused
            else:
                assert status == 200
            yield Stream(wire, request_id, received, answer)

    def streaming(self, name: str, **members: Any) -> Any:
        """Stream what a message brings about."""
        return self.stream("SendStreamingMessage", self.sending(name, **members))

    def subscribing(self, task_id: str) -> Any:
        """Subscribe to a task."""
        return self.stream("SubscribeToTask", {"id": task_id})

    async def refusal(self, operation: str, members: dict[str, Any], headers: dict[str, str] | None = None) -> Answer:
        """Call any operation; return the error that it is answered with, which is no stream."""
        if operation not in STREAMS:
            answer = await self.call(operation, members, headers)
            assert answer.refused, answer
            return answer
        async with self.stream(operation, members, headers) as stream:
            assert stream.answer is not None, "a stream was opened"
            return stream.answer


@asynccontextmanager
async def connection(url: str) -> AsyncIterator[Wire]:
    """A bare connection to a program."""
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    stream = await trio.open_tcp_stream(address.hostname, address.port)
    try:
        yield Wire(stream)
    finally:
        await trio.aclose_forcefully(stream)


@asynccontextmanager
async def open_driver(url: str, binding: str, headers: dict[str, str]) -> AsyncIterator[Driver]:
    """A driver with a client of its own."""
    async with httpx2.AsyncClient(verify=False, trust_env=False, timeout=TIMEOUT) as http:
        yield Driver(url, binding, http, headers)
