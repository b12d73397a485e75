"""Errors: what may reach a caller, what a store reports, and the one table that maps them to the wire.

Three families, apart from each other on purpose:

- :exc:`A2AError` and its classes may reach the caller of an operation, so their messages are safe to send. Each class
  has one row in :data:`ERROR_TABLE`: its reason, its JSON-RPC code, its HTTP and its gRPC status. Nothing else in the
  package knows these numbers. A subclass that a program defines itself takes the row of its nearest ancestor.
- :exc:`StoreError` and its classes come from a task store. They never reach a caller: the stream core answers with an
  :exc:`InternalError` whose cause is the store's error.
- :exc:`TaskTerminalError` is local misuse: an agent goes on after it has ended its task.

Version 1.0.1 of the specification moved six statuses. Rows hold the current value and, where it differs, the one of
1.0.0; the parameter of :meth:`ErrorRow.http_status` and :meth:`ErrorRow.grpc_status` chooses.

This module is longer than others because it is one table and the classes that are its rows.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, Literal

import attrs

__all__ = [
    "ERROR_DOMAIN",
    "ERROR_TABLE",
    "A2AError",
    "AuthenticationError",
    "AuthorizationError",
    "ContentTypeNotSupportedError",
    "ErrorRow",
    "ErrorTable",
    "ExtendedAgentCardNotConfiguredError",
    "ExtensionSupportRequiredError",
    "FieldViolation",
    "GrpcStatus",
    "InternalError",
    "InvalidAgentResponseError",
    "InvalidParamsError",
    "InvalidRequestError",
    "JSONParseError",
    "MethodNotFoundError",
    "PushNotificationNotSupportedError",
    "RateLimitedError",
    "StoreError",
    "TaskConflictError",
    "TaskIdMismatchError",
    "TaskNotCancelableError",
    "TaskNotFoundError",
    "TaskPersistenceError",
    "TaskSerializationError",
    "TaskTakenOverError",
    "TaskTerminalError",
    "UnavailableError",
    "UnsupportedOperationError",
    "VersionNotSupportedError",
    "error_for_code",
    "error_for_http_status",
    "error_for_reason",
    "error_row",
]

ERROR_DOMAIN: Final = "a2a-protocol.org"
"""The ``domain`` of every ErrorInfo of the protocol."""

ErrorTable = Literal["1.0.0", "1.0.1"]
"""The version of the specification whose HTTP and gRPC statuses are used."""


class GrpcStatus(IntEnum):
    """The gRPC status codes that the protocol uses; the names are those of ``google.rpc.Code``."""

    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


@attrs.frozen
class FieldViolation:
    """One fault of a request, as it appears in a ``BadRequest`` detail.

    Attributes:
        field: The path of the member in wire spelling, such as ``message.parts[1].text``; empty for the whole object.
        description: What is wrong, for the caller to read.
    """

    field: str
    description: str


class A2AError(Exception):
    """An error that may reach the caller of an operation.

    Raise one of its classes. What is written in ``message`` and ``metadata`` goes over the wire.

    Attributes:
        message: The text for the caller.
        metadata: String to string; becomes the ``metadata`` of the ErrorInfo detail.
    """

    message: str
    metadata: dict[str, str]

    def __init__(self, message: str | None = None, *, metadata: Mapping[str, str] | None = None) -> None:
        """Make the error.

        Args:
            message: The text for the caller; by default the one of the class.
            metadata: String to string, for the ErrorInfo detail.

        Raises:
            TypeError: A key or value of ``metadata`` is no string.
        """
        self.message = error_row(type(self)).message if message is None else message
        entries: dict[Any, Any] = dict(metadata) if metadata else {}
        for key, value in entries.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError(f"error metadata maps strings to strings, got {key!r}: {value!r}")
        self.metadata = entries
        # The one positional argument: copy and pickle call the class with it and then restore the other attributes.
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


# --- Errors of the protocol -----------------------------------------------------------------------------------------


class TaskNotFoundError(A2AError):
    """A task or a push configuration is unknown, gone, or not visible to the caller."""


class TaskNotCancelableError(A2AError):
    """The task is terminal already, or its agent refused to be cancelled."""


class PushNotificationNotSupportedError(A2AError):
    """A push operation of an agent whose card does not declare push notifications."""


class UnsupportedOperationError(A2AError):
    """An aspect of the request that this agent does not support, such as a message to a terminal task."""


class ContentTypeNotSupportedError(A2AError):
    """A part has a media type that the agent or the skill does not accept."""


class InvalidAgentResponseError(A2AError):
    """The agent's code produced something that the operation does not allow."""


class ExtendedAgentCardNotConfiguredError(A2AError):
    """The card declares an extended card, but there is none."""


class ExtensionSupportRequiredError(A2AError):
    """The card marks an extension as required and the request did not list it."""


class VersionNotSupportedError(A2AError):
    """The protocol version of the request is not served here."""


# --- Errors of JSON-RPC ---------------------------------------------------------------------------------------------


class JSONParseError(A2AError):
    """The body is no JSON."""


class _ViolationsError(A2AError):
    """A refusal that lists what is wrong with the request."""

    violations: tuple[FieldViolation, ...]

    def __init__(
        self,
        message: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        violations: Iterable[FieldViolation] = (),
    ) -> None:
        """Make the error.

        Args:
            message: The text for the caller; by default the one of the class.
            metadata: String to string, for the ErrorInfo detail.
            violations: The faults, for the BadRequest detail.
        """
        super().__init__(message, metadata=metadata)
        self.violations = tuple(violations)

    def __str__(self) -> str:
        shown = [f"{v.field}: {v.description}" if v.field else v.description for v in self.violations[:3]]
        if len(self.violations) > len(shown):
            shown.append(f"and {len(self.violations) - len(shown)} more")
        return f"{self.message} ({'; '.join(shown)})" if shown else self.message


class InvalidRequestError(_ViolationsError):
    """The body is JSON but no valid request.

    Attributes:
        violations: Every fault that was found, each with its wire path.
    """


class MethodNotFoundError(A2AError):
    """An unknown method or route."""


class InvalidParamsError(_ViolationsError):
    """Missing or wrong parameters.

    Attributes:
        violations: Every fault that was found, each with its wire path.
    """


class InternalError(A2AError):
    """An unexpected failure of the server. Its detail belongs in the log, not in the message."""


# --- Errors of the transport ----------------------------------------------------------------------------------------


class AuthenticationError(A2AError):
    """Missing or bad credentials (HTTP 401)."""


class AuthorizationError(A2AError):
    """Known caller, but not allowed this operation (HTTP 403). Never for a hidden resource: that is not found."""


class _RetryableError(A2AError):
    """A refusal that may say when to come back."""

    retry_after: float | None

    def __init__(
        self,
        message: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, metadata=metadata)
        self.retry_after = retry_after


class RateLimitedError(_RetryableError):
    """Too many requests (HTTP 429).

    Attributes:
        retry_after: Seconds after which a new attempt makes sense, or None.
    """


class UnavailableError(_RetryableError):
    """A temporary failure (HTTP 503).

    Attributes:
        retry_after: Seconds after which a new attempt makes sense, or None.
    """


# --- The table ------------------------------------------------------------------------------------------------------


@attrs.frozen
class ErrorRow:
    """How one error class appears on each binding.

    Attributes:
        error: The class.
        message: Its default message.
        code: Its JSON-RPC code; None for an error that is answered at the HTTP level.
        http: Its HTTP status, by version 1.0.1.
        grpc: Its gRPC status, by version 1.0.1.
        reason: The ``reason`` of its ErrorInfo; None where neither the specification nor a convention has one.
        http_1_0_0: Its HTTP status by version 1.0.0, where that differs.
        grpc_1_0_0: Its gRPC status by version 1.0.0, where that differs.
    """

    error: type[A2AError]
    message: str
    code: int | None
    http: int
    grpc: GrpcStatus
    reason: str | None = None
    http_1_0_0: int | None = attrs.field(default=None, kw_only=True)
    grpc_1_0_0: GrpcStatus | None = attrs.field(default=None, kw_only=True)

    def http_status(self, table: ErrorTable = "1.0.1") -> int:
        """Return the HTTP status by that version of the specification."""
        return self.http_1_0_0 if table == "1.0.0" and self.http_1_0_0 is not None else self.http

    def grpc_status(self, table: ErrorTable = "1.0.1") -> GrpcStatus:
        """Return the gRPC status by that version of the specification."""
        return self.grpc_1_0_0 if table == "1.0.0" and self.grpc_1_0_0 is not None else self.grpc


_PRECONDITION = GrpcStatus.FAILED_PRECONDITION
_ARGUMENT = GrpcStatus.INVALID_ARGUMENT
_UNIMPLEMENTED = GrpcStatus.UNIMPLEMENTED

ERROR_TABLE: Final[tuple[ErrorRow, ...]] = (
    ErrorRow(TaskNotFoundError, "Task not found", -32001, 404, GrpcStatus.NOT_FOUND, "TASK_NOT_FOUND"),
    ErrorRow(
        TaskNotCancelableError,
        "Task cannot be canceled",
        -32002,
        400,
        _PRECONDITION,
        "TASK_NOT_CANCELABLE",
        http_1_0_0=409,
    ),
    ErrorRow(
        PushNotificationNotSupportedError,
        "Push notifications are not supported",
        -32003,
        400,
        _PRECONDITION,
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        grpc_1_0_0=_UNIMPLEMENTED,
    ),
    ErrorRow(
        UnsupportedOperationError,
        "This operation is not supported",
        -32004,
        400,
        _PRECONDITION,
        "UNSUPPORTED_OPERATION",
        grpc_1_0_0=_UNIMPLEMENTED,
    ),
    ErrorRow(
        ContentTypeNotSupportedError,
        "Content type not supported",
        -32005,
        400,
        _ARGUMENT,
        "CONTENT_TYPE_NOT_SUPPORTED",
        http_1_0_0=415,
    ),
    ErrorRow(
        InvalidAgentResponseError,
        "Invalid agent response",
        -32006,
        500,
        GrpcStatus.INTERNAL,
        "INVALID_AGENT_RESPONSE",
        http_1_0_0=502,
    ),
    ErrorRow(
        ExtendedAgentCardNotConfiguredError,
        "Extended agent card is not configured",
        -32007,
        400,
        _PRECONDITION,
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    ),
    ErrorRow(
        ExtensionSupportRequiredError,
        "Extension support required",
        -32008,
        400,
        _PRECONDITION,
        "EXTENSION_SUPPORT_REQUIRED",
    ),
    ErrorRow(
        VersionNotSupportedError,
        "Protocol version not supported",
        -32009,
        400,
        _PRECONDITION,
        "VERSION_NOT_SUPPORTED",
        grpc_1_0_0=_UNIMPLEMENTED,
    ),
    # The specification defines no reason for the next five. These are what peers' SDKs use, and both of them classify
    # REST and gRPC errors by reason, so they are sent.
    ErrorRow(JSONParseError, "Invalid JSON payload", -32700, 400, _ARGUMENT, "JSON_PARSE"),
    ErrorRow(InvalidRequestError, "Request payload validation error", -32600, 400, _ARGUMENT, "INVALID_REQUEST"),
    ErrorRow(MethodNotFoundError, "Method not found", -32601, 404, GrpcStatus.NOT_FOUND, "METHOD_NOT_FOUND"),
    ErrorRow(InvalidParamsError, "Invalid parameters", -32602, 400, _ARGUMENT, "INVALID_PARAMS"),
    ErrorRow(InternalError, "Internal error", -32603, 500, GrpcStatus.INTERNAL, "INTERNAL_ERROR"),
    # Answered at the HTTP level, for JSON-RPC too.
    ErrorRow(AuthenticationError, "Authentication required", None, 401, GrpcStatus.UNAUTHENTICATED),
    ErrorRow(AuthorizationError, "Permission denied", None, 403, GrpcStatus.PERMISSION_DENIED),
    ErrorRow(RateLimitedError, "Too many requests", None, 429, GrpcStatus.RESOURCE_EXHAUSTED),
    ErrorRow(UnavailableError, "Service unavailable", None, 503, GrpcStatus.UNAVAILABLE),
)
"""One row a class, in the order of the specification."""

_BY_CLASS = {row.error: row for row in ERROR_TABLE}
_BY_CODE = {row.code: row.error for row in ERROR_TABLE if row.code is not None}
_BY_REASON = {row.reason: row.error for row in ERROR_TABLE if row.reason is not None}
_BY_REASON["INTERNAL"] = InternalError  # what the Java SDK sends
_BY_HTTP_STATUS = {row.http: row.error for row in ERROR_TABLE if row.code is None}


def error_row(error: A2AError | type[A2AError]) -> ErrorRow:
    """Return the row of an error or of its class.

    A class that is not in the table has the row of its nearest ancestor; :exc:`A2AError` itself that of
    :exc:`InternalError`.
    """
    for ancestor in (error if isinstance(error, type) else type(error)).__mro__:
        row = _BY_CLASS.get(ancestor)
        if row is not None:
            return row
    return _BY_CLASS[InternalError]


def error_for_code(code: int) -> type[A2AError] | None:
    """Return the class of a JSON-RPC code, None for an unknown one."""
    return _BY_CODE.get(code)


def error_for_reason(reason: str) -> type[A2AError] | None:
    """Return the class of an ErrorInfo reason of our domain, None for an unknown one."""
    return _BY_REASON.get(reason)


def error_for_http_status(status: int) -> type[A2AError] | None:
    """Return the class of an HTTP status that means one thing whatever the body says: 401, 403, 429 and 503.

    All others say too little: a bare 404 may be a task that is not there or a wrong URL.
    """
    return _BY_HTTP_STATUS.get(status)


# --- Errors that never reach a caller -------------------------------------------------------------------------------


class StoreError(Exception):
    """A task store failed. Callers of operations see an :exc:`InternalError` whose cause this is.

    Attributes:
        task_id: The task concerned, where one is.
    """

    task_id: str | None

    def __init__(self, message: str, *, task_id: str | None = None) -> None:
        """Make the error.

        Args:
            message: What failed, for the log.
            task_id: The task concerned.
        """
        super().__init__(message)
        self.task_id = task_id

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.task_id is None else f"{text} (task {self.task_id})"


class TaskSerializationError(StoreError):
    """A task cannot be turned into what the store keeps, or what it keeps is no task."""


class TaskPersistenceError(StoreError):
    """The store could not read or write."""


class TaskConflictError(StoreError):
    """The task was changed by another writer: the sequence number of the change is not the next one."""


class TaskTakenOverError(TaskConflictError):
    """The other writer is another process, which works on the task from now on, or has brought it to an end.

    What works on the task in this process is to end: the stream core cancels its runs.
    """


class TaskTerminalError(RuntimeError):
    """An event for a task that has already ended, from the agent that ended it.

    Attributes:
        task_id: The task concerned, where it is known.
    """

    task_id: str | None

    def __init__(self, message: str | None = None, *, task_id: str | None = None) -> None:
        """Make the error.

        Args:
            message: What was tried; by default a text that says what to do instead.
            task_id: The task concerned.
        """
        if message is None:
            which = "The task" if task_id is None else f"Task {task_id}"
            message = f"{which} is in a terminal state and takes no more events; go on in a new task of its context"
        super().__init__(message)
        self.task_id = task_id


class TaskIdMismatchError(ValueError):
    """An event names another task than the queue that it was put on.

    Attributes:
        expected: The queue's task.
        actual: The event's.
    """

    def __init__(self, expected: str, actual: str) -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(f"the event is of task {actual!r}, the queue of task {expected!r}; nothing was enqueued")
