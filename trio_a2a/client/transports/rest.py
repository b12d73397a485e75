"""The HTTP+JSON binding (protocol section 8), as a client."""

from collections.abc import Mapping
from typing import Any, Final, final
from urllib.parse import quote, urlencode, urlsplit

import attrs
import orjson

from ...errors import A2AError, FieldViolation, InvalidParamsError, MethodNotFoundError
from ...types import AgentInterface
from ...wire import to_dict
from ...wire.faults import read_status_error
from ..exceptions import HttpStatusError, InvalidResponseError
from ..http import HttpAnswer, HttpRequest, HttpSession
from ..transport import OPERATIONS, ClientCall, ClientTransport, EventSource
from .exchange import AnswerSource, SseSource, headers_of, is_event_stream, read_json, read_result

__all__ = ["RestTransport"]

# Method, path, and the members that the path carries. "{}" is one of these, percent-encoded.
_ROUTES: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "SendMessage": ("POST", "/message:send", ()),
    "SendStreamingMessage": ("POST", "/message:stream", ()),
    "GetTask": ("GET", "/tasks/{}", ("id",)),
    "ListTasks": ("GET", "/tasks", ()),
    "CancelTask": ("POST", "/tasks/{}:cancel", ("id",)),
    "SubscribeToTask": ("POST", "/tasks/{}:subscribe", ("id",)),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{}/pushNotificationConfigs", ("taskId",)),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{}/pushNotificationConfigs/{}", ("taskId", "id")),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{}/pushNotificationConfigs", ("taskId",)),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{}/pushNotificationConfigs/{}", ("taskId", "id")),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard", ()),
}


@final
class RestTransport(ClientTransport):
    """Calls the routes below one base URL.

    Args:
        interface: The base.
        session: Its connections.
    """

    def __init__(self, interface: AgentInterface, session: HttpSession) -> None:
        parts = urlsplit(interface.url)
        self._base = parts._replace(path=parts.path.rstrip("/"), query="", fragment="").geturl()
        self._query = parts.query
        self._tenant = interface.tenant
        self._session = session
        # The specification says both, in different places (ambiguity A-01); a server that refuses one is asked the
        # other way, and then always.
        self._subscribe_method = "POST"

    @property
    def binding(self) -> str:
        """The binding of the interface."""
        return "HTTP+JSON"

    async def call(self, call: ClientCall) -> Any:
        """Carry out a call, as the Protocol says."""
        stream = await self._session.open(self._request(call))
        if is_event_stream(stream):
            await stream.aclose()
            raise InvalidResponseError(f"{call.operation} was answered with a stream")
        return read_result(_result(await stream.read()), OPERATIONS[call.operation].result)

    async def open(self, call: ClientCall, *, last_event_id: int | None = None) -> EventSource:
        """Begin a stream, as the Protocol says."""
        stream = await self._session.open(self._request(call, stream=True, last_event_id=last_event_id))
        if is_event_stream(stream):
            return SseSource(stream, _unwrapped, silence=call.silence)
        answer = await stream.read()
        if call.operation == "SubscribeToTask" and self._subscribe_method == "POST" and _knows_no_such_route(answer):
            self._subscribe_method = "GET"
            return await self.open(call, last_event_id=last_event_id)
        return AnswerSource(_result(answer))

    def _request(self, call: ClientCall, *, stream: bool = False, last_event_id: int | None = None) -> HttpRequest:
        method, path, carried = _ROUTES[call.operation]
        members = to_dict(attrs.evolve(call.request, tenant=self._tenant))
        path = path.format(*(_segment(name, members.pop(name, "")) for name in carried))
        tenant = "/" + _segment("tenant", self._tenant) if self._tenant else ""
        url = f"{self._base}{tenant}{path}"
        query = [self._query] if self._query else []
        headers = headers_of(call.extensions, call.headers, stream=stream, last_event_id=last_event_id)
        body = None
        if call.operation == "SubscribeToTask":
            method = self._subscribe_method
        elif method == "POST":
            headers["content-type"] = "application/json"
            body = orjson.dumps(members)
        else:
            members.pop("tenant", None)  # the path has it
            if members:
                query.append(urlencode({name: _in_query(value) for name, value in members.items()}))
        if query:
            url += "?" + "&".join(query)
        return HttpRequest(method=method, url=url, headers=headers, body=body)


def _segment(name: str, value: str) -> str:
    """Return a value as a segment of a path.

    Raises:
        InvalidParamsError: It would lead to another route: these vanish from a path, however they are escaped.
    """
    if value in {"", ".", ".."}:
        raise InvalidParamsError(violations=[FieldViolation(name, "Cannot be empty, '.' or '..' in a URL")])
    return quote(value, safe="")


def _knows_no_such_route(answer: HttpAnswer) -> bool:
    """Tell whether it is the route that is not there, rather than the task."""
    if answer.status == 405:
        return True
    if answer.status != 404:
        return False
    error = read_status_error(read_json(answer), http_status=404)
    return error is None or isinstance(error, MethodNotFoundError)


def _in_query(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _result(answer: HttpAnswer) -> Any:
    """Return the result of an answer, or raise its error."""
    document = read_json(answer)
    if answer.status // 100 == 2:
        if answer.body.strip() in {b"", b"null"}:
            return {}  # some answer a deletion so
        if document is None:
            raise InvalidResponseError("the answer is no JSON")
        return document
    found = read_status_error(document, http_status=answer.status, retry_after=answer.retry_after)
    raise HttpStatusError(answer.status, answer.body) if found is None else found


def _unwrapped(document: Any) -> Any:
    """Return the StreamResponse of a frame; a payload with an error is a failure, whatever the frame's name."""
    if isinstance(document, dict) and document.get("error") is not None:
        found = read_status_error(document)
        raise A2AError("The stream ended with an error") if found is None else found
    return document
