"""JSON-RPC 2.0 as A2A uses it (protocol section 7): requests to values, results and errors to bytes."""

from typing import Any

import attrs
import orjson

from ..errors import A2AError, FieldViolation, InvalidRequestError, JSONParseError
from .faults import jsonrpc_error

__all__ = [
    "MAX_DEPTH",
    "RequestId",
    "RpcRequest",
    "check_depth",
    "error_response",
    "parse_document",
    "parse_request",
    "result_head",
    "result_response",
    "salvage_id",
]

RequestId = str | int | None

MAX_DEPTH = 100
"""Levels of nesting that a request may have unless it is said otherwise: as many as a value of the protocol may have
(orjson itself stops at 1024)."""


@attrs.frozen(kw_only=True)
class RpcRequest:
    """A well-formed request.

    Attributes:
        id: As the caller chose it.
        method: The method's name, known or not.
        params: Its params; {} if there are none. Those by position are well-formed, but no method of A2A takes them.
    """

    id: str | int
    method: str
    params: dict[str, Any] | list[Any]


def parse_document(body: bytes | bytearray) -> Any:
    """Read JSON.

    Raises:
        JSONParseError: The body is no JSON.
        InvalidRequestError: It is nested more deeply than the parser goes.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        if exc.msg.startswith("depth limit"):
            raise InvalidRequestError("The request is nested too deeply") from None
        raise JSONParseError from None


def parse_request(body: bytes | bytearray, *, max_depth: int = MAX_DEPTH) -> RpcRequest:
    """Read a request.

    Args:
        body: Its JSON.
        max_depth: Levels of nesting that it may have.

    Raises:
        JSONParseError: The body is no JSON.
        InvalidRequestError: It is no JSON-RPC 2.0 request with an id, or a batch, or nested too deeply.
    """
    document = parse_document(body)
    # Nearly all bodies have so few brackets that they cannot be nested too deeply: then nothing need be walked.
    if body.count(b"{") + body.count(b"[") <= max_depth:
        return _request_of(document, None)
    return _request_of(document, max_depth)


def _request_of(document: Any, max_depth: int | None) -> RpcRequest:
    if isinstance(document, list):
        raise InvalidRequestError("Batch requests are not supported")
    if not isinstance(document, dict):
        raise InvalidRequestError("A request is a JSON object")
    id_: Any = document.get("id")
    method: Any = document.get("method")
    params: Any = document.get("params")
    violations = []
    if document.get("jsonrpc") != "2.0":
        violations.append(FieldViolation("jsonrpc", 'Must be "2.0"'))
    if not _is_id(id_):
        violations.append(FieldViolation("id", "Must be a string or an integer; notifications are not supported"))
    if not isinstance(method, str):
        violations.append(FieldViolation("method", "Must be a string"))
    if params is not None and not isinstance(params, dict | list):
        violations.append(FieldViolation("params", "Must be an object"))
    if not violations and max_depth is not None and _too_deep(document, max_depth):
        violations.append(FieldViolation("params", f"Nested more than {max_depth} levels deep"))
    if violations:
        raise InvalidRequestError(violations=violations)
    return RpcRequest(id=id_, method=method, params=params if params is not None else {})


def salvage_id(body: bytes | bytearray) -> RequestId:
    """Return the id of a request that is refused before it is looked at; None if there is no telling."""
    try:
        document = parse_document(body)
    except (JSONParseError, InvalidRequestError):
        return None
    id_ = document.get("id") if isinstance(document, dict) else None
    return id_ if _is_id(id_) else None


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def check_depth(document: Any, max_depth: int = MAX_DEPTH) -> None:
    """Refuse a document that is nested too deeply.

    Raises:
        InvalidRequestError: It is nested more than ``max_depth`` levels deep.
    """
    if _too_deep(document, max_depth):
        raise InvalidRequestError(f"The request is nested more than {max_depth} levels deep")


def _too_deep(document: Any, max_depth: int) -> bool:
    """Tell whether the document is nested too deeply; walks level by level, no recursion."""
    level = [document]
    for _ in range(max_depth):
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def result_response(id: RequestId, result: bytes) -> bytes:
    """Return a response with a result that is JSON already."""
    return b"%b%b}" % (result_head(id), result)


def result_head(id: RequestId) -> bytes:
    """Return what stands before the result, for responses that are put together from pieces; behind it comes ``}``."""
    return b'{"jsonrpc":"2.0","id":%b,"result":' % orjson.dumps(id)


def error_response(id: RequestId, error: A2AError) -> bytes:
    """Return a response with an error."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (orjson.dumps(id), jsonrpc_error(error))
