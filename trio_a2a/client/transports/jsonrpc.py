"""The JSON-RPC binding (protocol section 7), as a client."""

import itertools
from typing import Any, final

import attrs

from ...types import AgentInterface
from ...wire import to_json
from ...wire.faults import read_jsonrpc_error
from ..exceptions import HttpStatusError, InvalidResponseError
from ..http import HttpAnswer, HttpRequest, HttpSession
from ..transport import OPERATIONS, ClientCall, ClientTransport, EventSource
from .exchange import AnswerSource, SseSource, headers_of, is_event_stream, read_json, read_result

__all__ = ["JsonRpcTransport"]


@final
class JsonRpcTransport(ClientTransport):
    """Calls one JSON-RPC endpoint.

    Args:
        interface: The endpoint.
        session: Its connections.
    """

    def __init__(self, interface: AgentInterface, session: HttpSession) -> None:
        self._url = interface.url
        self._tenant = interface.tenant
        self._session = session
        self._ids = itertools.count(1)

    @property
    def binding(self) -> str:
        """The binding of the interface."""
        return "JSONRPC"

    async def call(self, call: ClientCall) -> Any:
        """Carry out a call, as the Protocol says."""
        id_ = next(self._ids)
        stream = await self._session.open(self._request(call, id_))
        if is_event_stream(stream):
            await stream.aclose()
            raise InvalidResponseError(f"{call.operation} was answered with a stream")
        result = _result(await stream.read(), id_)
        return read_result(result, OPERATIONS[call.operation].result)

    async def open(self, call: ClientCall, *, last_event_id: int | None = None) -> EventSource:
        """Begin a stream, as the Protocol says."""
        id_ = next(self._ids)
        stream = await self._session.open(self._request(call, id_, stream=True, last_event_id=last_event_id))
        if is_event_stream(stream):
            return SseSource(stream, lambda document: _unwrapped(document, id_), silence=call.silence)
        return AnswerSource(_result(await stream.read(), id_))

    def _request(
        self, call: ClientCall, id_: int, *, stream: bool = False, last_event_id: int | None = None
    ) -> HttpRequest:
        params = attrs.evolve(call.request, tenant=self._tenant)
        body = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (id_, call.operation.encode(), to_json(params))
        headers = headers_of(call.extensions, call.headers, stream=stream, last_event_id=last_event_id)
        headers["content-type"] = "application/json"
        return HttpRequest(method="POST", url=self._url, headers=headers, body=body)


def _result(answer: HttpAnswer, id_: int) -> Any:
    """Return the result of a response, or raise its error."""
    document = read_json(answer)
    if answer.status // 100 == 2:
        if not isinstance(document, dict):
            raise InvalidResponseError("the answer is no JSON-RPC response")
        return _unwrapped(document, id_)
    error = document.get("error") if isinstance(document, dict) else None
    # A body without an error object still leaves the statuses that mean one thing.
    found = read_jsonrpc_error(
        error if isinstance(error, dict) else {}, http_status=answer.status, retry_after=answer.retry_after
    )
    if found is not None and (isinstance(error, dict) or type(found).__name__ != "A2AError"):
        raise found
    raise HttpStatusError(answer.status, answer.body)


def _unwrapped(document: Any, id_: int) -> Any:
    if not isinstance(document, dict):
        raise InvalidResponseError("the answer is no JSON-RPC response")
    error = document.get("error")
    answered = document.get("id")
    # An error may be of a request whose id could not be read. To Python, true is 1.
    if (answered != id_ or isinstance(answered, bool)) and not (error is not None and answered is None):
        raise InvalidResponseError("the answer is for another request: its id is not that of ours")
    if error is not None:
        found = read_jsonrpc_error(error)
        if found is None:
            raise InvalidResponseError("the answer's error is no error object")
        raise found
    if "result" not in document:
        raise InvalidResponseError("the answer has neither a result nor an error")
    return document["result"]
