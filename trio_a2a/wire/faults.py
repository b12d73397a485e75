"""Errors as they appear on the wire (protocol section 14): written by a server, and recognised by a client.

Writing. Only `A2AError` comes here: what else goes wrong in a server becomes an InternalError without detail before it
does.

Reading. The class is that of the ErrorInfo's reason where there is one of the protocol's domain; else that of an HTTP
status that means one thing whatever the body says (JSON-RPC has no codes for these, so their bodies carry another's);
else that of the JSON-RPC code; else that of the ``status`` which the body names. A 404 that says no more may be a wrong
URL: it is nothing that the protocol knows. What peers put in the wrong form is passed over, never fatal.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from ..errors import (
    ERROR_DOMAIN,
    A2AError,
    AuthenticationError,
    AuthorizationError,
    FieldViolation,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    RateLimitedError,
    UnavailableError,
    UnsupportedOperationError,
    error_for_code,
    error_for_http_status,
    error_for_reason,
    error_row,
)

__all__ = ["error_details", "jsonrpc_error", "read_jsonrpc_error", "read_status_error"]

_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


def error_details(error: A2AError) -> list[dict[str, Any]]:
    """Return the error's detail objects: an ErrorInfo where it has a reason, a BadRequest where it has violations."""
    details: list[dict[str, Any]] = []
    reason = error_row(error).reason
    if reason is not None:
        info: dict[str, Any] = {"@type": _ERROR_INFO, "reason": reason, "domain": ERROR_DOMAIN}
        if error.metadata:
            info["metadata"] = error.metadata
        details.append(info)
    if isinstance(error, InvalidParamsError | InvalidRequestError) and error.violations:
        faults = [{"field": v.field, "description": v.description} for v in error.violations]
        details.append({"@type": _BAD_REQUEST, "fieldViolations": faults})
    return details


def jsonrpc_error(error: A2AError) -> bytes:
    """Return the JSON of the ``error`` member of a JSON-RPC response.

    An error that has no JSON-RPC code is answered at the HTTP level; where one must stand in a body all the same, it
    has the code of an invalid request, which is what it is to JSON-RPC.
    """
    code = error_row(error).code
    members: dict[str, Any] = {"code": -32600 if code is None else code, "message": error.message}
    details = error_details(error)
    if details:
        members["data"] = details
    return orjson.dumps(members)


# --- Reading --------------------------------------------------------------------------------------------------------

# By the name of the google.rpc status alone. NOT_FOUND is missing on purpose: it may be a task, a config or a route.
_BY_STATUS: Final[Mapping[str, type[A2AError]]] = {
    "UNAUTHENTICATED": AuthenticationError,
    "PERMISSION_DENIED": AuthorizationError,
    "RESOURCE_EXHAUSTED": RateLimitedError,
    "UNAVAILABLE": UnavailableError,
    "INVALID_ARGUMENT": InvalidParamsError,
    "FAILED_PRECONDITION": UnsupportedOperationError,
    "INTERNAL": InternalError,
}

_MAX_VIOLATIONS = 1000  # as many as are written


def read_jsonrpc_error(
    error: Any, *, http_status: int | None = None, retry_after: float | None = None
) -> A2AError | None:
    """Return the error that the ``error`` member of a JSON-RPC response stands for.

    Args:
        error: What the member holds.
        http_status: The HTTP status that it came with.
        retry_after: Seconds that the answer's ``Retry-After`` says.

    Returns:
        The error; a plain `A2AError`, with ``code`` in its metadata, for a code that the protocol does not know. None
        if the member is no error object at all.
    """
    if not isinstance(error, dict):
        return None
    details = list(_details(error.get("data")))
    code = error.get("code")
    known = error_for_code(code) if isinstance(code, int) else None
    cls = _by_reason(details) or _by_http_status(http_status) or known
    metadata = _metadata(details)
    if cls is None:
        cls = A2AError
        if isinstance(code, int):
            metadata.setdefault("code", str(code))
    return _made(cls, error, details, metadata, retry_after)


def read_status_error(
    body: Any, *, http_status: int | None = None, retry_after: float | None = None
) -> A2AError | None:
    """Return the error that the body of an HTTP+JSON answer, or an event of a stream, stands for.

    Args:
        body: What the JSON parser has made of it; None if it is no JSON.
        http_status: The HTTP status that it came with.
        retry_after: Seconds that the answer's ``Retry-After`` says.

    Returns:
        The error; None if neither the body nor the status says which.
    """
    error = body.get("error") if isinstance(body, dict) else None
    members: dict[str, Any] = error if isinstance(error, dict) else {}
    details = list(_details(members.get("details")))
    status = members.get("status")
    named = _BY_STATUS.get(status) if isinstance(status, str) else None
    cls = _by_reason(details) or _by_http_status(http_status) or named
    return None if cls is None else _made(cls, members, details, _metadata(details), retry_after)


def _details(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the detail objects; peers send one bare, or a text in their place."""
    for detail in data if isinstance(data, list) else [data]:
        if isinstance(detail, dict):
            yield detail


def _error_info(details: list[dict[str, Any]]) -> dict[str, Any]:
    return next((d for d in details if d.get("domain") == ERROR_DOMAIN and isinstance(d.get("reason"), str)), {})


def _by_reason(details: list[dict[str, Any]]) -> type[A2AError] | None:
    reason = _error_info(details).get("reason")
    return None if reason is None else error_for_reason(reason)


def _by_http_status(status: int | None) -> type[A2AError] | None:
    return None if status is None else error_for_http_status(status)


def _metadata(details: list[dict[str, Any]]) -> dict[str, str]:
    metadata = _error_info(details).get("metadata")
    return {key: _text(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {}


def _text(value: Any) -> str:
    """Return a value as text; of a list, which some write for a text, its elements."""
    return ", ".join(map(_plain, value)) if isinstance(value, list) else _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # it reads what is nested more deeply than it writes
        return ""


def _violations(details: list[dict[str, Any]]) -> Iterator[FieldViolation]:
    for detail in details:
        listed = detail.get("fieldViolations")
        for fault in listed[:_MAX_VIOLATIONS] if isinstance(listed, list) else ():
            if isinstance(fault, dict):
                yield FieldViolation(_text(fault.get("field", "")), _text(fault.get("description", "")))


def _made(
    cls: type[A2AError],
    members: dict[str, Any],
    details: list[dict[str, Any]],
    metadata: dict[str, str],
    retry_after: float | None,
) -> A2AError:
    said = members.get("message")
    message = said if isinstance(said, str) and said else None
    if issubclass(cls, InvalidParamsError | InvalidRequestError):
        return cls(message, metadata=metadata, violations=_violations(details))
    if issubclass(cls, RateLimitedError | UnavailableError):
        return cls(message, metadata=metadata, retry_after=retry_after)
    return cls(message, metadata=metadata)
