"""The JSON-RPC binding (protocol section 7): one POST endpoint.

Checks come in the order of protocol section 6.5. JSON-RPC results and errors have HTTP status 200; what concerns HTTP
itself (credentials, the content type, the size of the body) has a status of its own, and a JSON-RPC error in the body.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, final

from ..abc import Envelope, StreamEvent
from ..errors import (
    A2AError,
    ExtensionSupportRequiredError,
    InternalError,
    MethodNotFoundError,
)
from ..types import (
    CancelTaskRequest,
    GetTaskRequest,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
)
from ..wire import from_dict, to_json
from ..wire.headers import choose_version
from ..wire.jsonrpc import RequestId, RpcRequest, error_response, parse_request, result_response, salvage_id
from ..wire.sse import escaped, frame
from .agent import Agent
from .http import ClientDisconnectedError, Send
from .operations import Call, Operations
from .request import JSON_TYPE, Request, respond
from .sse import SseWriter

__all__ = ["JsonRpcBinding"]

_logger = logging.getLogger("trio_a2a.server")

SERVED_VERSIONS = ("1.0",)


def encode_event(event: StreamEvent) -> bytes:
    """Return the event's StreamResponse as JSON, without line breaks that a client might split at."""
    return escaped(to_json(StreamResponse.of(event)))


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
        self._unary: dict[str, Callable[[dict[str, Any], Call], Awaitable[bytes]]] = {
            "SendMessage": self._send_message,
            "GetTask": self._get_task,
            "CancelTask": self._cancel_task,
        }
        self._streaming: dict[str, Callable[[RpcRequest, Call, Request, Send], Awaitable[None]]] = {
            "SendStreamingMessage": self._send_streaming_message,
            "SubscribeToTask": self._subscribe,
        }

    async def handle(self, request: Request, body: bytes, call: Call, send: Send) -> None:
        """Answer a request whose caller is known and whose body has been read.

        Args:
            request: The HTTP request.
            body: Its body.
            call: Who is calling, and with which extensions.
            send: The response's ASGI ``send``.
        """
        id_: RequestId = None
        try:
            try:
                choose_version(request.parameter("A2A-Version"), SERVED_VERSIONS)
            except A2AError:
                id_ = salvage_id(body)
                raise
            try:
                rpc = parse_request(body)
            except A2AError:
                id_ = salvage_id(body)
                raise
            id_ = rpc.id
            if rpc.method in self._unary:
                self._require_extensions(call)
                result = await self._unary[rpc.method](rpc.params, call)
                response = result_response(id_, result)
            elif rpc.method in self._streaming:
                self._require_extensions(call)
                await self._streaming[rpc.method](rpc, call, request, send)
                return
            else:
                raise MethodNotFoundError
        except A2AError as exc:
            response = error_response(id_, exc)
        except ClientDisconnectedError:
            raise  # there is nobody to answer
        except Exception:  # boundary between the server and its callers: detail goes to the log alone
            _logger.exception("a JSON-RPC request failed")
            response = error_response(id_, InternalError())
        await respond(send, 200, response, JSON_TYPE, request.echoed(call))

    def _require_extensions(self, call: Call) -> None:
        for extension in self._agent.card.capabilities.extensions:
            if extension.required and extension.uri not in call.extensions:
                raise ExtensionSupportRequiredError(metadata={"uri": extension.uri})

    # --------------------------------------------------------------------------------------------------- operations

    async def _send_message(self, params: dict[str, Any], call: Call) -> bytes:
        outcome = await self._operations.send_message(from_dict(params, SendMessageRequest), call)
        return to_json(SendMessageResponse.of(outcome))

    async def _get_task(self, params: dict[str, Any], call: Call) -> bytes:
        return to_json(await self._operations.get_task(from_dict(params, GetTaskRequest), call))

    async def _cancel_task(self, params: dict[str, Any], call: Call) -> bytes:
        return to_json(await self._operations.cancel_task(from_dict(params, CancelTaskRequest), call))

    async def _send_streaming_message(self, rpc: RpcRequest, call: Call, request: Request, send: Send) -> None:
        self._operations.require_streaming()
        params = from_dict(rpc.params, SendMessageRequest)
        writer = self._writer(rpc.id, call, request, send)
        async with self._operations.send_streaming_message(params, call) as stream:
            await writer.run(stream)
        await writer.finish()

    async def _subscribe(self, rpc: RpcRequest, call: Call, request: Request, send: Send) -> None:
        self._operations.require_streaming()
        params = from_dict(rpc.params, SubscribeToTaskRequest)
        writer = self._writer(rpc.id, call, request, send)
        async with self._operations.subscribe(params, call, after=_last_event_id(request)) as stream:
            await writer.run(stream)
        await writer.finish()

    def _writer(self, id_: RequestId, call: Call, request: Request, send: Send) -> SseWriter:
        return SseWriter(
            send,
            frames=partial(_frame, id_),
            failure=lambda error: frame(escaped(error_response(id_, error))),
            limits=self._agent.limits,
            headers=request.echoed(call),
        )


def _frame(id_: RequestId, envelope: Envelope) -> bytes:
    """Return the frame of an event; the event itself is encoded once, whoever else reads it."""
    return frame(result_response(id_, envelope.encoded(encode_event)), id=envelope.sequence)


def _last_event_id(request: Request) -> int | None:
    """Return the number of the last event that a reader has seen; an unreadable one means none."""
    value = request.headers.get("last-event-id", "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) <= 18 else None
