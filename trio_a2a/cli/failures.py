"""What went wrong, for a person in one line, and for a program as a JSON object."""

from typing import Any, final

from ..client import CallTimeoutError, HttpStatusError, StreamInterruptedError
from ..errors import A2AError, AuthenticationError, InvalidParamsError, InvalidRequestError, error_row
from .program import FAILED
from .text import one_line

__all__ = ["CommandError", "described", "members_of"]


@final
class CommandError(Exception):
    """The command cannot go on for a reason of its own, such as a file that cannot be written.

    Attributes:
        status: The exit status.
    """

    def __init__(self, reason: str, *, status: int = FAILED) -> None:
        self.status = status
        super().__init__(reason)


def described(exc: BaseException) -> str:
    """Return an error as one line for a person."""
    text = one_line(str(exc)) or type(exc).__name__
    if isinstance(exc, AuthenticationError):
        return f"{text}: show who you are with --bearer or --header"
    if isinstance(exc, CallTimeoutError):
        return f"{text}: --timeout gives it more"
    return text


def members_of(exc: BaseException) -> dict[str, Any]:
    """Return an error as the members of a JSON object."""
    members: dict[str, Any] = {"type": type(exc).__name__, "message": str(exc)}
    if isinstance(exc, A2AError):
        members["message"] = exc.message
        row = error_row(exc)
        known = row.error is type(exc)
        if known and row.code is not None:
            members["code"] = row.code
        elif (code := exc.metadata.get("code", "")).lstrip("-").isdigit():
            members["code"] = int(code)
        if known and row.reason is not None:
            members["reason"] = row.reason
        if exc.metadata:
            members["metadata"] = exc.metadata
    if isinstance(exc, InvalidParamsError | InvalidRequestError) and exc.violations:
        members["violations"] = [{"field": v.field, "description": v.description} for v in exc.violations]
    if isinstance(exc, HttpStatusError):
        members["status"] = exc.status
    if isinstance(exc, StreamInterruptedError) and exc.task_id is not None:
        members["taskId"] = exc.task_id
        members["lastSequence"] = exc.last_sequence
    return members
