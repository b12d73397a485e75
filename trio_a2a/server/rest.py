"""The HTTP+JSON binding (protocol section 8): a path for each operation.

Checks come in the order of protocol section 6.5. An answer is the bare result, an error google.rpc.Status in JSON with
the matching HTTP status.
"""

import logging
from functools import partial
from typing import Any, final

from ..abc import Envelope
from ..errors import (
    A2AError,
    ContentTypeNotSupportedError,
    FieldViolation,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    error_row,
)
from ..types.value import Value
from ..wire import from_dict, to_json
from ..wire.headers import VERSION, choose_version
from ..wire.jsonrpc import check_depth, parse_document
from ..wire.rest import Match, answer_type, error_body, is_json_type, match, query_members
from ..wire.sse import escaped, frame
from .agent import Agent
from .call import Call, require_streaming
from .http import ClientDisconnectedError, Receive, Send
from .operations import METHODS, STREAMS, Operations
from .request import (
    SERVED_VERSIONS,
    BodyTooLargeError,
    ClientGoneError,
    Request,
    error_headers,
    require_extensions,
    respond,
    until_disconnected,
)
from .sse import SseWriter, encode_event

__all__ = ["RestBinding"]

_logger = logging.getLogger("trio_a2a.server")

# The other spelling of a member that a path carries.
_SNAKE = {"taskId": "task_id"}


@final
class _MethodNotAllowedError(MethodNotFoundError):
    """The path is known, but not with this HTTP method (405).

    Attributes:
        allowed: The methods that there are.
    """

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__("Method not allowed")
        self.allowed = allowed


@final
class RestBinding:
    """Answers HTTP+JSON requests.

    Args:
        agent: The agent.
        operations: What it can be asked to do.
    """

    def __init__(self, agent: Agent, operations: Operations) -> None:
        self._agent = agent
        self._operations = operations

    async def refuse(self, request: Request, send: Send, error: A2AError, call: Call | None = None) -> None:
        """Answer a request with an error."""
        table = self._agent.error_table
        special = _special_status(error)
        status = error_row(error).http_status(table) if special is None else special
        headers = error_headers(error) + (request.echoed(call) if call is not None else [])
        if isinstance(error, _MethodNotAllowedError):
            headers.append((b"allow", ", ".join(error.allowed).encode()))
        body = error_body(error, table, http_status=special)
        await respond(send, status, body, self._content_type(request), headers)

    async def handle(self, request: Request, receive: Receive, send: Send, call: Call, path: str) -> None:
        """Answer a request whose caller is known.

        Args:
            request: The HTTP request.
            receive: Its ASGI ``receive``; nothing of the body has been read.
            send: The response's ASGI ``send``.
            call: Who is calling, and with which extensions.
            path: The raw path below the binding's base.
        """
        try:
            choose_version(request.parameter(VERSION), SERVED_VERSIONS)
            route = match(path)
            if route is None:
                raise MethodNotFoundError("There is nothing here")
            if request.method not in route.operations:
                raise _MethodNotAllowedError(tuple(route.operations))
            operation = route.operations[request.method]
            body = await request.body(receive, self._agent.limits.max_body)
        except ClientGoneError:
            return
        except A2AError as exc:
            await self.refuse(request, send, exc, call)
            return
        work = partial(self._respond, request, body, send, call, route, operation)
        await until_disconnected(request, receive, work)

    async def _respond(
        self, request: Request, body: bytes, send: Send, call: Call, route: Match, operation: str
    ) -> None:
        try:
            # Subscribing has no body; what is sent as one is not looked at.
            document = {} if operation == "SubscribeToTask" else self._document(request, body)
            require_extensions(self._agent.card, call)
            if operation in STREAMS:
                await self._stream(request, document, send, call, route, operation)
                return
            method = METHODS[operation]
            method.require(self._operations)
            params = from_dict(_members(request, document, route, method.request), method.request)
            result = await method.run(self._operations, params, call)
        except A2AError as exc:
            await self.refuse(request, send, exc, call)
        except ClientDisconnectedError:
            raise  # there is nobody to answer
        except Exception:  # boundary between the server and its callers: detail goes to the log alone
            _logger.exception("an HTTP+JSON request failed")
            await self.refuse(request, send, InternalError(), call)
        else:
            answer = b"{}" if result is None else to_json(result)
            headers = [*method.headers, *request.echoed(call)]
            await respond(send, 200, answer, self._content_type(request), headers)

    async def _stream(
        self, request: Request, document: dict[str, Any], send: Send, call: Call, route: Match, operation: str
    ) -> None:
        method = STREAMS[operation]
        require_streaming(self._agent.card)
        params = from_dict(_members(request, document, route, method.request), method.request)
        writer = SseWriter(
            send,
            frames=_frame,
            failure=lambda error: frame(escaped(error_body(error, self._agent.error_table)), event=b"error"),
            limits=self._agent.limits,
            headers=request.echoed(call),
        )
        async with method.open(self._operations, params, call, request.last_event_id) as stream:
            await writer.run(stream)
        await writer.finish()

    def _document(self, request: Request, body: bytes) -> dict[str, Any]:
        """Return the body's JSON object; {} where it is empty, or there can be none."""
        if request.method != "POST" or not body:
            return {}
        if not is_json_type(request.headers.get("content-type")):
            raise ContentTypeNotSupportedError("A request is application/json or application/a2a+json")
        document = parse_document(body)
        if not isinstance(document, dict):
            raise InvalidRequestError("A request is a JSON object")
        check_depth(document, self._agent.limits.max_json_depth)
        members: dict[str, Any] = document
        return members

    @staticmethod
    def _content_type(request: Request) -> bytes:
        return answer_type(request.headers.get("content-type"), request.headers.get("accept")).encode()


def _members(request: Request, document: dict[str, Any], route: Match, cls: type[Value]) -> dict[str, Any]:
    """Return the members of an operation's request, from the body or the query, and from the path.

    Raises:
        InvalidParamsError: Two of them contradict each other (ambiguities A-16 and A-17).
    """
    members = query_members(request.query, cls) if request.method != "POST" else dict(document)
    carried = dict(route.members)
    tenant = route.tenant or members.get("tenant") or request.query.get("tenant", "")
    if tenant:
        carried["tenant"] = tenant
        _require_same("tenant", tenant, request.query.get("tenant"))
    for name, value in carried.items():
        for spelling in (name, _SNAKE.get(name, name)):
            _require_same(name, value, members.pop(spelling, None))
        members[name] = value
    return members


def _require_same(name: str, value: str, other: object) -> None:
    if not (other is None or other == "" or other == value):  # noqa: PLR1714 - it may be any JSON value
        raise InvalidParamsError(violations=(FieldViolation(name, "Differs from the path"),))


def _special_status(error: A2AError) -> int | None:
    """Return the HTTP status of an error that has one of its own in this binding."""
    if isinstance(error, BodyTooLargeError):
        return 413
    return 405 if isinstance(error, _MethodNotAllowedError) else None


def _frame(envelope: Envelope) -> bytes:
    """Return the frame of an event; the event itself is encoded once, whoever else reads it."""
    return frame(envelope.encoded(encode_event), id=envelope.sequence)
