"""What the card declares, against what the agent does; still without a message."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...client.http import HttpStream
from ...errors import (
    ExtendedAgentCardNotConfiguredError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from ...types import AgentCard
from .binding_checks import NO_TASK, Check
from .expectations import expect_error, expect_result
from .report import Report

__all__ = ["capability_checks"]


def capability_checks(card: AgentCard) -> Mapping[str, Check]:
    """Return the checks of an interface that depend on the card, by name."""
    able = card.capabilities
    return {
        "streaming": partial(_streaming, declared=bool(able.streaming)),
        "push notifications": partial(_push, declared=bool(able.push_notifications)),
        "extended card": partial(_extended, declared=bool(able.extended_agent_card)),
    }


async def _streaming(binding: Any, report: Report, area: str, *, declared: bool) -> None:
    check = "streaming" if declared else "streaming, not declared"
    async with binding.open("SubscribeToTask", {"id": NO_TASK}) as answer:
        if isinstance(answer, HttpStream):
            report.warning(
                area, check, "a subscription to an unknown task begins a stream: an error should be a plain answer"
            )
            return
    if declared:
        expect_error(report, area, check, answer, TaskNotFoundError)
    else:
        expect_error(report, area, check, answer, UnsupportedOperationError, TaskNotFoundError)


async def _push(binding: Any, report: Report, area: str, *, declared: bool) -> None:
    reply = await binding.ask("ListTaskPushNotificationConfigs", {"taskId": NO_TASK})
    if not declared:
        check = "push notifications, not declared"
        expect_error(report, area, check, reply, PushNotificationNotSupportedError)
    elif reply.result is not None:
        report.warning(area, "push notifications", "an unknown task has a list of webhooks, rather than an error")
    else:
        expect_error(report, area, "push notifications", reply, TaskNotFoundError)


async def _extended(binding: Any, report: Report, area: str, *, declared: bool) -> None:
    reply = await binding.ask("GetExtendedAgentCard", {})
    check = "extended card" if declared else "extended card, not declared"
    if not declared:
        expect_error(report, area, check, reply, UnsupportedOperationError, ExtendedAgentCardNotConfiguredError)
    elif reply.status in {401, 403}:
        report.info(area, check, f"for known callers only (HTTP status {reply.status})")
    elif reply.is_error:
        report.warning(area, check, f"it is declared, but: {reply}")
    else:
        expect_result(report, area, check, reply, AgentCard)
