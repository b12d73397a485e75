"""Bindings in their raw form: requests as they stand in the protocol, answers with all that is odd about them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, final
from urllib.parse import quote, urlencode

import attrs
import orjson

from ...client.http import HttpAnswer, HttpStream
from ...errors import ERROR_DOMAIN
from ...types import AgentInterface
from .probe import Probe, json_of

__all__ = ["Binding", "JsonRpcBinding", "Reply", "RestBinding", "binding_of"]

_VERSION = "a2a-version"
_EVENTS = "text/event-stream"


@final
@attrs.frozen(kw_only=True)
class Reply:
    """An answer, as a check looks at it.

    Attributes:
        status: The HTTP status.
        result: The result's JSON; None if there is none.
        code: What the error is named by: the JSON-RPC code, or the HTTP status; None if it is no error.
        reason: The reason of the error's ErrorInfo; None without one.
        message: The error's text.
        oddities: What is wrong with the form of the answer.
        begins: The beginning of the body, for what is no answer at all.
    """

    status: int
    result: Any = None
    code: int | None = None
    reason: str | None = None
    message: str = ""
    oddities: tuple[str, ...] = ()
    begins: str = ""

    @property
    def is_error(self) -> bool:
        """Whether it is an error of the protocol."""
        return self.code is not None

    def __str__(self) -> str:
        """Return it in a few words."""
        if self.is_error:
            return f"error {self.code}{f' {self.reason}' if self.reason else ''}: {self.message}"
        if self.result is not None:
            return "a result"
        return f"HTTP {self.status} without a JSON answer{f': {self.begins}' if self.begins else ''}"


class Binding(Protocol):
    """One interface of the agent."""

    @property
    def name(self) -> str:
        """The binding's name."""
        ...

    async def ask(self, operation: str, members: Mapping[str, Any], *, version: str | None = "1.0") -> Reply:
        """Call an operation.

        Args:
            operation: Its name.
            members: Its request.
            version: The version that is asked for; None: none is named.

        Raises:
            ClientError: There is no answer.
        """
        ...

    def open(self, operation: str, members: Mapping[str, Any]) -> Any:
        """Begin a stream: gives, as a context manager, an `HttpStream` of events, or a `Reply` in its place."""
        ...

    def unwrapped(self, frame: Any) -> Any:
        """Return the StreamResponse in the JSON of a frame; None if there is none."""
        ...


def _error_info(details: Any) -> str | None:
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and detail.get("domain") == ERROR_DOMAIN:
            reason = detail.get("reason")
            if isinstance(reason, str):
                return reason
    return None


def _is_json(answer: HttpAnswer) -> bool:
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type == "application/json" or (media_type.startswith("application/") and media_type.endswith("+json"))


def _begins(answer: HttpAnswer) -> str:
    return answer.body[:80].decode(errors="replace")


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------


@final
class JsonRpcBinding(Binding):
    """A JSON-RPC endpoint."""

    ID: Final = "doctor-1"

    def __init__(self, probe: Probe, interface: AgentInterface) -> None:
        self._probe = probe
        self._url = interface.url
        self._tenant = interface.tenant

    @property
    def name(self) -> str:
        """The binding's name."""
        return "JSONRPC"

    async def ask(self, operation: str, members: Mapping[str, Any], *, version: str | None = "1.0") -> Reply:
        """Call an operation, as the Protocol says."""
        return await self.post(self._body(operation, members), version=version)

    async def post(self, body: bytes, *, version: str | None = "1.0", id_: str | None = ID) -> Reply:
        """Post a body as it is.

        Args:
            body: The body.
            version: As for `ask`.
            id_: The id that the answer should have; None: null.

        Raises:
            ClientError: There is no answer.
        """
        headers = self._headers(version, "application/json")
        return self._reply(await self._probe.exchange("POST", self._url, headers=headers, body=body), id_)

    @asynccontextmanager
    async def open(self, operation: str, members: Mapping[str, Any]) -> AsyncIterator[HttpStream | Reply]:
        """Begin a stream, as the Protocol says."""
        headers = self._headers("1.0", f"{_EVENTS}, application/json")
        body = self._body(operation, members)
        async with self._probe.open("POST", self._url, headers=headers, body=body) as stream:
            if stream.content_type == _EVENTS:
                yield stream
            else:
                yield self._reply(await self._probe.read(stream), self.ID)

    def unwrapped(self, frame: Any) -> Any:
        """Return the result in a frame."""
        return frame.get("result") if isinstance(frame, dict) else None

    def _body(self, operation: str, members: Mapping[str, Any]) -> bytes:
        params = {**members, **({"tenant": self._tenant} if self._tenant else {})}
        return orjson.dumps({"jsonrpc": "2.0", "id": self.ID, "method": operation, "params": params})

    def _headers(self, version: str | None, accept: str) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": accept}
        return headers if version is None else {**headers, _VERSION: version}

    def _reply(self, answer: HttpAnswer, id_: str | None) -> Reply:
        document = json_of(answer.body)
        if not isinstance(document, dict):
            return Reply(status=answer.status, begins=_begins(answer))
        oddities = []
        if not _is_json(answer):
            oddities.append("its content type is not JSON")
        if document.get("jsonrpc") != "2.0":
            oddities.append("it lacks jsonrpc: 2.0")
        if document.get("id") != id_:
            oddities.append(f"its id is {document.get('id')!r}, not {id_!r}")
        error = document.get("error")
        if not isinstance(error, dict):
            if "result" not in document:
                return Reply(status=answer.status, begins=_begins(answer))
            if answer.status != 200:
                oddities.append(f"its HTTP status is {answer.status}")
            return Reply(status=answer.status, result=document["result"], oddities=tuple(oddities))
        code, message = error.get("code"), error.get("message")
        if "result" in document:
            oddities.append("it has a result and an error")
        if answer.status != 200:
            oddities.append(f"its HTTP status is {answer.status}: errors of JSON-RPC come with 200")
        if not isinstance(code, int):
            oddities.append("its code is no number")
        if not isinstance(message, str):
            oddities.append("its message is no text")
        data = error.get("data")
        if data is not None and not isinstance(data, list):
            oddities.append("its data is no list of details")
        return Reply(
            status=answer.status,
            code=code if isinstance(code, int) else 0,
            reason=_error_info(data),
            message=message if isinstance(message, str) else "",
            oddities=tuple(oddities),
        )


# --- HTTP+JSON --------------------------------------------------------------------------------------------------------

_ROUTES: Final[Mapping[str, tuple[str, str]]] = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}


@final
class RestBinding(Binding):
    """An HTTP+JSON endpoint."""

    def __init__(self, probe: Probe, interface: AgentInterface) -> None:
        self._probe = probe
        tenant = f"/{quote(interface.tenant, safe='')}" if interface.tenant else ""
        self._base = f"{interface.url.rstrip('/')}{tenant}"

    @property
    def name(self) -> str:
        """The binding's name."""
        return "HTTP+JSON"

    async def ask(self, operation: str, members: Mapping[str, Any], *, version: str | None = "1.0") -> Reply:
        """Call an operation, as the Protocol says."""
        method, path, body = self._request(operation, members)
        return await self.request(method, path, body=body, version=version)

    async def request(self, method: str, path: str, *, body: bytes | None = None, version: str | None = "1.0") -> Reply:
        """Send a request below the binding's base.

        Raises:
            ClientError: There is no answer.
        """
        headers = self._headers(version, body, "application/a2a+json, application/json")
        return self._reply(await self._probe.exchange(method, f"{self._base}{path}", headers=headers, body=body))

    @asynccontextmanager
    async def open(self, operation: str, members: Mapping[str, Any]) -> AsyncIterator[HttpStream | Reply]:
        """Begin a stream, as the Protocol says."""
        method, path, body = self._request(operation, members)
        headers = self._headers("1.0", body, f"{_EVENTS}, application/a2a+json, application/json")
        async with self._probe.open(method, f"{self._base}{path}", headers=headers, body=body) as stream:
            if stream.content_type == _EVENTS and stream.status == 200:
                yield stream
            else:
                yield self._reply(await self._probe.read(stream))

    def unwrapped(self, frame: Any) -> Any:
        """Return the frame: it is the StreamResponse itself, unless it is an error."""
        return frame if isinstance(frame, dict) and "error" not in frame else None

    def _request(self, operation: str, members: Mapping[str, Any]) -> tuple[str, str, bytes | None]:
        method, path = _ROUTES[operation]
        rest = dict(members)
        for name in ("id", "taskId"):
            if f"{{{name}}}" in path:
                path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
        if method == "POST" and operation != "SubscribeToTask":
            return method, path, orjson.dumps(rest)
        return method, f"{path}?{urlencode(rest)}" if rest else path, None

    def _headers(self, version: str | None, body: bytes | None, accept: str) -> dict[str, str]:
        headers = {"accept": accept}
        if body is not None:
            headers["content-type"] = "application/json"
        return headers if version is None else {**headers, _VERSION: version}

    def _reply(self, answer: HttpAnswer) -> Reply:
        document = json_of(answer.body)
        if answer.status // 100 == 2 and (isinstance(document, dict) or not answer.body):
            return Reply(
                status=answer.status,
                result={} if document is None else document,
                oddities=() if _is_json(answer) or not answer.body else ("its content type is not JSON",),
            )
        error = document.get("error") if isinstance(document, dict) else None
        if not isinstance(error, dict):
            return Reply(status=answer.status, begins=_begins(answer))
        oddities = []
        if not _is_json(answer):
            oddities.append("its content type is not JSON")
        if error.get("code") != answer.status:
            oddities.append(f"its code is {error.get('code')!r}, and its HTTP status {answer.status}")
        if not isinstance(error.get("status"), str):
            oddities.append("it lacks the name of a status")
        message = error.get("message")
        return Reply(
            status=answer.status,
            code=answer.status,
            reason=_error_info(error.get("details")),
            message=message if isinstance(message, str) else "",
            oddities=tuple(oddities),
        )


def binding_of(probe: Probe, interface: AgentInterface) -> "JsonRpcBinding | RestBinding | None":
    """Return what speaks the interface's binding; None if nothing here does."""
    if interface.protocol_binding == "JSONRPC":
        return JsonRpcBinding(probe, interface)
    return RestBinding(probe, interface) if interface.protocol_binding == "HTTP+JSON" else None
