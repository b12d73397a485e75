"""What an answer should be, and what is said where it is not."""

from typing import Any, TypeVar

from ...errors import A2AError, error_row
from ...wire import from_dict
from .bindings import Reply
from .report import Report

__all__ = ["expect_error", "expect_result", "read_value"]

T = TypeVar("T")


def expect_error(
    report: Report, area: str, check: str, reply: Reply, *accepted: type[A2AError], severe: bool = True
) -> bool:
    """Judge an answer that should be an error.

    Args:
        report: Where the finding goes.
        area: What is looked at.
        check: What is checked.
        reply: The answer.
        accepted: The errors that it may be; the first is what it should be.
        severe: Another answer is an error, rather than a warning.

    Returns:
        Whether it is one of them.
    """
    wanted = " or ".join(_named(error, area) for error in accepted)
    if not any(_is(reply, error, area) for error in accepted):
        (report.error if severe else report.warning)(area, check, f"expected {wanted}, got {reply}")
        return False
    oddities = list(reply.oddities)
    row = error_row(accepted[0])
    # The reasons of plain JSON-RPC errors are a custom; those of A2A's own errors are in the specification.
    if reply.reason is None and row.code is not None and row.code > -32100:
        oddities.append("it has no ErrorInfo with the reason")
    if not oddities:
        report.ok(area, check, _named(accepted[0], area))
    elif area.startswith("HTTP+JSON") and reply.reason is None:
        report.error(area, check, f"{reply}; {', '.join(oddities)}")
    else:
        report.warning(area, check, f"{reply}; {', '.join(oddities)}")
    return True


def _is(reply: Reply, error: type[A2AError], area: str) -> bool:
    row = error_row(error)
    if area.startswith("JSONRPC"):
        return reply.code == row.code and reply.reason in {None, row.reason}
    return reply.code in {row.http, row.http_1_0_0} and reply.reason in {None, row.reason}


def _named(error: type[A2AError], area: str) -> str:
    row = error_row(error)
    number = row.code if area.startswith("JSONRPC") else row.http
    return f"{error.__name__.removesuffix('Error')} ({number})"


def expect_result(report: Report, area: str, check: str, reply: Reply, cls: type[T]) -> T | None:
    """Judge an answer that should be a value, and return it; None if it is none."""
    if reply.result is None:
        report.error(area, check, f"expected a {cls.__name__}, got {reply}")
        return None
    value, faults = read_value(reply.result, cls)
    if value is None:
        report.error(area, check, f"the result is no {cls.__name__}: {faults}")
    elif faults or reply.oddities:
        report.warning(area, check, f"a {cls.__name__}; {', '.join(filter(None, [faults, *reply.oddities]))}")
    else:
        report.ok(area, check, f"a {cls.__name__}")
    return value


def read_value(members: Any, cls: type[T]) -> tuple[T | None, str]:
    """Read a value, strictly if possible; returns it, if it can be read at all, and what is wrong with it."""
    try:
        return from_dict(members, cls), ""
    except A2AError as exc:
        faults = str(exc)
    try:
        return from_dict(members, cls, strict=False), faults
    except A2AError as exc:
        return None, str(exc)
