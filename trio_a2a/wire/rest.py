"""HTTP+JSON as A2A uses it (protocol section 8): paths and query strings to operations, errors to bodies."""

import re
from collections.abc import Mapping
from typing import Any, Final, final
from urllib.parse import unquote

import attrs
import orjson

from ..errors import A2AError, ErrorTable, error_row
from ..types.schema import Kind, describe
from ..types.value import Value
from .faults import error_details

__all__ = [
    "A2A_JSON",
    "JSON",
    "STATUS_NAMES",
    "Match",
    "answer_type",
    "error_body",
    "is_json_type",
    "match",
    "query_members",
]

JSON: Final = "application/json"
A2A_JSON: Final = "application/a2a+json"
_JSON_SUFFIX = re.compile(r"application/[\w.+-]+\+json", re.ASCII)
# A media range with the weight 0 is "not acceptable" (RFC 9110, section 12.4.2).
_REFUSAL = re.compile(r";\s*q\s*=\s*0(?:\.0*)?\s*(?:;|$)", re.ASCII | re.IGNORECASE)

STATUS_NAMES: Final[Mapping[int, str]] = {
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
}
"""google.rpc status names of HTTP statuses that belong to no error of the protocol."""

_PUSH_CONFIGS = "pushNotificationConfigs"
# Longer tenants are refused as unknown routes; both SDKs stop at the same length.
_MAX_TENANT = 256


@final
@attrs.frozen(kw_only=True)
class Match:
    """What a path means.

    Attributes:
        operations: HTTP method to the operation's name. A request with another method is answered 405.
        members: Members of the operation's request that the path carries, by JSON name.
        tenant: The tenant prefix; "" without one.
    """

    operations: Mapping[str, str]
    members: Mapping[str, str] = attrs.field(factory=dict)
    tenant: str = ""


def match(path: str) -> Match | None:
    """Find the route of a raw, percent-encoded path below the binding's base; None if there is none.

    A path without a tenant wins: ``/tasks/x`` is GetTask, not a list of the tenant ``tasks``. The verb of
    ``/tasks/{id}:cancel`` stands behind the last colon of the segment; an id that holds colons writes them as ``%3A``.
    """
    segments = path.removeprefix("/").split("/")
    found = _route(segments)
    if found is None and len(segments) > 1 and segments[0]:
        tenant = unquote(segments[0], errors="replace")
        found = _route(segments[1:]) if len(tenant) <= _MAX_TENANT else None
        found = None if found is None else attrs.evolve(found, tenant=tenant)
    return found


def _route(segments: list[str]) -> Match | None:
    if segments == ["message:send"]:
        return Match(operations={"POST": "SendMessage"})
    if segments == ["message:stream"]:
        return Match(operations={"POST": "SendStreamingMessage"})
    if segments == ["extendedAgentCard"]:
        return Match(operations={"GET": "GetExtendedAgentCard"})
    if not segments or segments[0] != "tasks" or not all(segments):
        return None
    if len(segments) == 1:
        return Match(operations={"GET": "ListTasks"})
    if len(segments) == 2:
        return _task_route(segments[1])
    if segments[2] != _PUSH_CONFIGS or len(segments) > 4:
        return None
    members = {"taskId": unquote(segments[1], errors="replace")}
    if len(segments) == 3:
        operations = {"POST": "CreateTaskPushNotificationConfig", "GET": "ListTaskPushNotificationConfigs"}
    else:
        operations = {"GET": "GetTaskPushNotificationConfig", "DELETE": "DeleteTaskPushNotificationConfig"}
        members["id"] = unquote(segments[3], errors="replace")
    return Match(operations=operations, members=members)


def _task_route(segment: str) -> Match | None:
    id_, colon, verb = segment.rpartition(":")
    if not colon:
        return Match(operations={"GET": "GetTask"}, members={"id": unquote(segment, errors="replace")})
    members = {"id": unquote(id_, errors="replace")}
    if not id_:
        return None
    if verb == "cancel":
        return Match(operations={"POST": "CancelTask"}, members=members)
    if verb == "subscribe":
        # The specification says both, in different places (ambiguity A-01).
        return Match(operations={"POST": "SubscribeToTask", "GET": "SubscribeToTask"}, members=members)
    return None


def query_members(query: Mapping[str, str], cls: type[Value]) -> dict[str, Any]:
    """Return the members that a query string gives, for ``from_dict``; parameters that the class lacks are left out.

    Query values are text, so booleans and numbers are read here. What is no such thing stays text, which the decoder
    refuses with its path.
    """
    members: dict[str, Any] = {}
    fields = {field.json_name: field for field in describe(cls)}
    for name, text in query.items():  # in the caller's order, in which faults are listed
        field = fields.get(name)
        if field is None:
            continue
        if field.kind is Kind.BOOL:
            members[field.json_name] = {"true": True, "false": False}.get(text, text)
        else:
            members[field.json_name] = text
    return members


def is_json_type(content_type: str | None) -> bool:
    """Tell whether a media type is JSON: ``application/json``, or one with the suffix ``+json``."""
    media_type = _bare(content_type)
    return media_type == JSON or _JSON_SUFFIX.fullmatch(media_type) is not None


def answer_type(content_type: str | None, accept: str | None) -> str:
    """Return the media type of an answer: that of the specification if the request used or names it (A-03)."""
    accepted = {_bare(one) for one in (accept or "").split(",") if not _REFUSAL.search(one)}
    return A2A_JSON if A2A_JSON in {_bare(content_type), *accepted} else JSON


def _bare(media_type: str | None) -> str:
    return (media_type or "").partition(";")[0].strip().lower()


def error_body(error: A2AError, table: ErrorTable = "1.0.1", *, http_status: int | None = None) -> bytes:
    """Return the JSON body of an error (google.rpc.Status as AIP-193 has it).

    Args:
        error: The error.
        table: Whose statuses are used.
        http_status: The HTTP status, where it is not the error's own.
    """
    row = error_row(error)
    status = row.http_status(table) if http_status is None else http_status
    name = row.grpc_status(table).name if http_status is None else STATUS_NAMES[http_status]
    members: dict[str, Any] = {"code": status, "status": name, "message": error.message}
    details = error_details(error)
    if details:
        members["details"] = details
    return orjson.dumps({"error": members})
