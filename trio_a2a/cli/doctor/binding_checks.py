"""One interface: is it there, does it know its version, and has it the errors of the protocol?

None of these checks changes anything: they ask for a task that nobody has.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ...errors import (
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
    MethodNotFoundError,
    TaskNotFoundError,
    VersionNotSupportedError,
)
from ...types import ListTasksResponse
from .bindings import JsonRpcBinding, RestBinding
from .expectations import expect_error, expect_result
from .report import Report

__all__ = ["NO_TASK", "Check", "binding_checks", "check_reachable"]

Check = Callable[[Any, Report, str], Awaitable[None]]
"""Makes one check: of a binding, into a report, under the name of an area."""

NO_TASK: Final = "trio-a2a-doctor-no-such-task"
"""The id of a task that nobody has."""

_UNAUTHORIZED = frozenset({401, 403})


async def check_reachable(binding: JsonRpcBinding | RestBinding, report: Report, area: str) -> bool:
    """Check that the interface answers, and to us; what else would be said of it makes no sense otherwise.

    Raises:
        ClientError: There is no answer.
    """
    reply = await binding.ask("GetTask", {"id": NO_TASK})
    if reply.status in _UNAUTHORIZED:
        report.error(
            area, "reachable", f"it answers with HTTP status {reply.status}: show who you are (--bearer, --header)"
        )
        return False
    if not reply.is_error and reply.result is None:
        report.error(area, "reachable", f"it does not speak the binding: {reply}")
        return False
    report.ok(area, "reachable", "it answers")
    expect_error(report, area, "unknown task: get", reply, TaskNotFoundError)
    return True


async def _unknown_task_canceled(binding: Any, report: Report, area: str) -> None:
    reply = await binding.ask("CancelTask", {"id": NO_TASK})
    expect_error(report, area, "unknown task: cancel", reply, TaskNotFoundError)


async def _unknown_version(binding: Any, report: Report, area: str) -> None:
    reply = await binding.ask("GetTask", {"id": NO_TASK}, version="99.0")
    expect_error(report, area, "unknown version", reply, VersionNotSupportedError)


async def _missing_version(binding: Any, report: Report, area: str) -> None:
    reply = await binding.ask("GetTask", {"id": NO_TASK}, version=None)
    check = "missing version"
    if reply.code in {-32009, 400} and reply.reason in {None, "VERSION_NOT_SUPPORTED"}:
        report.ok(area, check, "taken for 0.3, and refused")
    elif reply.is_error:
        # It may also speak 0.3 there, whose error for an unknown task looks the same.
        report.info(area, check, f"served, as version 0.3 or as 1.0 ({reply})")
    else:
        report.warning(area, check, f"expected an error, got {reply}")


async def _list(binding: Any, report: Report, area: str) -> None:
    reply = await binding.ask("ListTasks", {"pageSize": 1})
    page = expect_result(report, area, "list of tasks", reply, ListTasksResponse)
    if page is not None and len(page.tasks) > 1:
        report.error(area, "size of a page", f"{len(page.tasks)} tasks, where 1 was asked for")


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------


async def _unknown_method(binding: JsonRpcBinding, report: Report, area: str) -> None:
    expect_error(report, area, "unknown method", await binding.ask("NoSuchMethod", {}), MethodNotFoundError)


async def _no_json(binding: JsonRpcBinding, report: Report, area: str) -> None:
    reply = await binding.post(b'{"jsonrpc": "2.0", "id": 1, "method":', id_=None)
    expect_error(report, area, "broken JSON", reply, JSONParseError)


async def _no_request(binding: JsonRpcBinding, report: Report, area: str) -> None:
    reply = await binding.post(b'{"jsonrpc": "2.0", "id": "doctor-1"}')
    expect_error(report, area, "no request", reply, InvalidRequestError, severe=False)


async def _no_params(binding: JsonRpcBinding, report: Report, area: str) -> None:
    reply = await binding.ask("GetTask", {})
    expect_error(report, area, "missing parameter", reply, InvalidParamsError, severe=False)


# --- HTTP+JSON --------------------------------------------------------------------------------------------------------


async def _unknown_route(binding: RestBinding, report: Report, area: str) -> None:
    reply = await binding.request("GET", "/no/such/route/at/all")
    check = "unknown route"
    if reply.status != 404:
        report.error(area, check, f"expected HTTP status 404, got {reply.status}")
    elif not reply.is_error:
        report.warning(area, check, f"404 without an error object: {reply}")
    elif reply.reason == "TASK_NOT_FOUND":
        report.error(area, check, "it is taken for a task that is not there")
    else:
        report.ok(area, check, "404, with an error object")


async def _no_json_body(binding: RestBinding, report: Report, area: str) -> None:
    reply = await binding.request("POST", "/message:send", body=b'{"message":')
    check = "broken JSON"
    if reply.status != 400:
        report.error(area, check, f"expected HTTP status 400, got {reply}")
    elif not reply.is_error:
        report.warning(area, check, f"400 without an error object: {reply}")
    else:
        report.ok(area, check, str(reply))


_BOTH: Final[Mapping[str, Check]] = {
    "unknown task: cancel": _unknown_task_canceled,
    "unknown version": _unknown_version,
    "missing version": _missing_version,
    "list of tasks": _list,
}
_JSONRPC: Final[Mapping[str, Check]] = {
    "unknown method": _unknown_method,
    "broken JSON": _no_json,
    "no request": _no_request,
    "missing parameter": _no_params,
}
_REST: Final[Mapping[str, Check]] = {
    "unknown route": _unknown_route,
    "broken JSON": _no_json_body,
}


def binding_checks(binding: JsonRpcBinding | RestBinding) -> Mapping[str, Check]:
    """Return the checks of an interface, by name."""
    return {**_BOTH, **(_JSONRPC if isinstance(binding, JsonRpcBinding) else _REST)}
