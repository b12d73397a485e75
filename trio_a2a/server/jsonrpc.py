"""The JSON-RPC binding (protocol section 7): one POST endpoint.

Checks come in the order of protocol section 6.5. JSON-RPC results and errors have HTTP status 200; what concerns HTTP
itself (credentials, the content type, the size of the body, a rate limit) has a status of its own, and a JSON-RPC error
in the body.
"""

import logging
from collections.abc import Awaitable
from functools import partial
from typing import final

from ..abc import Envelope
from ..errors import A2AError, ContentTypeNotSupportedError, InternalError, MethodNotFoundError, error_row
from ..wire import from_dict, to_json
from ..wire.headers import VERSION, choose_version
from ..wire.jsonrpc import (
    RequestId,
    RpcRequest,
    error_response,
    parse_request,
    result_head,
    result_response,
    salvage_id,
)
from ..wire.sse import escaped, frame
from .agent import Agent
from .call import Call, require_streaming
from .http import ClientDisconnectedError, Receive, Send
from .operations import METHODS, STREAMS, Operations
from .request import (
    JSON_TYPE,
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

__all__ = ["JsonRpcBinding"]

_logger = logging.getLogger("trio_a2a.server")


@final
class JsonRpcBinding:
    """Answers JSON-RPC requests.

    Args:
        agent: The agent.
        operations: What it can be asked to do.
    """

    def __init__(self, agent: Agent, operations: Operations) -> None:
        self._agent = agent
        self._operations = operations

    async def refuse(self, request: Request, send: Send, error: A2AError) -> None:
        """Answer a request that is refused before its body is read: with an HTTP status, and without an id."""
        status = _HTTP_ONLY.get(type(error), error_row(error).http_status(self._agent.error_table))
        await respond(send, status, error_response(None, error), JSON_TYPE, error_headers(error))

    async def handle(self, request: Request, receive: Receive, send: Send, call: Call) -> None:
        """Answer a request whose caller is known.

        Args:
            request: The HTTP request.
            receive: Its ASGI ``receive``; nothing of the body has been read.
            send: The response's ASGI ``send``.
            call: Who is calling, and with which extensions.
        """
        try:
            if request.media_type != "application/json":
                raise _WrongContentTypeError("A JSON-RPC request is application/json")
            body = await request.body(receive, self._agent.limits.max_body)
        except ClientGoneError:
            return
        except A2AError as exc:
            await self.refuse(request, send, exc)
            return
        await until_disconnected(request, receive, partial(self._respond, request, body, send, call))

    async def _respond(self, request: Request, body: bytes, send: Send, call: Call) -> None:
        id_: RequestId = None
        try:
            rpc = self._parsed(request, body)
        except A2AError as exc:
            await self._answer_error(request, send, salvage_id(body), exc, call)
            return
        id_ = rpc.id
        try:
            if rpc.method in STREAMS:
                await self._stream(rpc, request, send, call)
                return
            result = await self._result(rpc, call)
        except A2AError as exc:
            await self._answer_error(request, send, id_, exc, call)
        except ClientDisconnectedError:
            raise  # there is nobody to answer
        except Exception:  # boundary between the server and its callers: detail goes to the log alone
            _logger.exception("a JSON-RPC request failed")
            await self._answer_error(request, send, id_, InternalError(), call)
        else:
            headers = [*METHODS[rpc.method].headers, *request.echoed(call)]
            await respond(send, 200, result_response(id_, result), JSON_TYPE, headers)

    def _parsed(self, request: Request, body: bytes) -> RpcRequest:
        choose_version(request.parameter(VERSION), SERVED_VERSIONS)
        rpc = parse_request(body, max_depth=self._agent.limits.max_json_depth)
        if rpc.method not in METHODS and rpc.method not in STREAMS:
            raise MethodNotFoundError
        return rpc

    async def _result(self, rpc: RpcRequest, call: Call) -> bytes:
        method = METHODS[rpc.method]
        require_extensions(self._agent.card, call)
        method.require(self._operations)
        result = await method.run(self._operations, from_dict(rpc.params, method.request), call)
        return b"{}" if result is None else to_json(result)

    async def _stream(self, rpc: RpcRequest, request: Request, send: Send, call: Call) -> None:
        method = STREAMS[rpc.method]
        require_extensions(self._agent.card, call)
        require_streaming(self._agent.card)
        params = from_dict(rpc.params, method.request)
        writer = SseWriter(
            send,
            frames=partial(_frame, escaped(result_head(rpc.id))),
            failure=lambda error: frame(escaped(error_response(rpc.id, error))),
            limits=self._agent.limits,
            headers=request.echoed(call),
        )
        async with method.open(self._operations, params, call, request.last_event_id) as stream:
            await writer.run(stream)
        await writer.finish()

    def _answer_error(
        self, request: Request, send: Send, id_: RequestId, error: A2AError, call: Call
    ) -> Awaitable[None]:
        row = error_row(error)
        status = 200 if row.code is not None else row.http_status(self._agent.error_table)
        headers = error_headers(error) + request.echoed(call)
        return respond(send, status, error_response(id_, error), JSON_TYPE, headers)


class _WrongContentTypeError(ContentTypeNotSupportedError):
    """The request itself is of another type than JSON, not a part of its message."""


_HTTP_ONLY = {BodyTooLargeError: 413, _WrongContentTypeError: 415}


def _frame(head: bytes, envelope: Envelope) -> bytes:
    """Return the frame of an event; the event itself is encoded once, whoever else reads it."""
    return frame(b"%b%b}" % (head, envelope.encoded(encode_event)), id=envelope.sequence)
