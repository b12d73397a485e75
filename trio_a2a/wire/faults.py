"""Errors as they appear on the wire (protocol section 14).

Only `A2AError` comes here: what else goes wrong in a server becomes an InternalError without detail before it does.
"""

from typing import Any

import orjson

from ..errors import ERROR_DOMAIN, A2AError, InvalidParamsError, InvalidRequestError, error_row

__all__ = ["error_details", "jsonrpc_error"]

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
