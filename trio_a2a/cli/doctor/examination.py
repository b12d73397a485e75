"""The examination: which checks are made, in which order, and what each of them may do."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import trio

from ...client import ClientError, card_url
from ...errors import A2AError
from ...types import AgentCard
from ..failures import CommandError, described
from ..program import FAILED, USAGE
from ..session import Session
from .binding_checks import binding_checks, check_reachable
from .bindings import JsonRpcBinding, RestBinding, binding_of
from .capability_checks import capability_checks
from .card_checks import AREA as CARD, check_card, usable_interfaces
from .message_checks import TEXT, Sent, check_cancel, check_push, check_stream, check_task, send_test
from .probe import Probe, open_probe
from .report import Report, Severity

__all__ = ["examine"]

_CHECK_TIMEOUT: Final = 60.0
"""Seconds for one check, apart from watching a stream: a few answers, each of which may take its ten."""

Binding = JsonRpcBinding | RestBinding


async def examine(session: Session, *, url: str, send: bool, strict: bool, wait: float) -> int:
    """Examine an agent, show the findings, and return the exit status.

    Args:
        session: The run of the command.
        url: The agent.
        send: Send the test message.
        strict: Let warnings count.
        wait: How long to watch what comes of the message, in seconds.

    Raises:
        CommandError: The URL is none.
    """
    report = Report(session.output)
    async with open_probe(session.connection) as probe:
        doctor = _Doctor(probe, report, session, wait)
        # What was found before an interruption is told all the same.
        with session.interrupts.scope():
            await doctor.examine(url, send=send)
    report.close()
    failed = report.has(Severity.ERROR) or (strict and report.has(Severity.WARNING))
    return FAILED if failed else 0


class _Doctor:
    """Makes the checks, one after the other."""

    def __init__(self, probe: Probe, report: Report, session: Session, wait: float) -> None:
        self._probe = probe
        self._report = report
        self._session = session
        self._wait = wait
        self._area = ""

    async def examine(self, url: str, *, send: bool) -> None:
        try:
            place = card_url(url)
        except ValueError as exc:
            raise CommandError(str(exc), status=USAGE) from exc
        found: list[tuple[AgentCard, str]] = []

        async def card() -> None:
            result = await check_card(self._probe, self._report, place)
            if result is not None:
                found.append(result)

        await self._attempt(CARD, "card", card)
        if not found:
            return
        the_card, place = found[0]
        bindings = await self._examine_interfaces(the_card, place)
        if not send:
            self._report.info("message", "message", "not sent: --no-send")
        elif bindings:
            await self._examine_message(the_card, bindings)
        else:
            self._report.info("message", "message", "not sent: there is no interface to send it to")

    async def _examine_interfaces(self, card: AgentCard, place: str) -> list[tuple[str, Binding]]:
        """Check each interface; returns those that answer."""
        answering: list[tuple[str, Binding]] = []
        wanted = self._session.connection.transports
        for interface in usable_interfaces(self._report, card, place):
            binding = binding_of(self._probe, interface)
            if binding is None or (wanted and binding.name not in wanted):
                continue
            area = binding.name
            if any(area == other for other, _ in answering):
                area = f"{area} {interface.url}"
            reached: list[bool] = []

            async def reach(binding: Binding = binding, area: str = area, reached: list[bool] = reached) -> None:
                reached.append(await check_reachable(binding, self._report, area))

            await self._attempt(area, "reachable", reach)
            if reached != [True]:
                continue
            answering.append((area, binding))
            for name, check in {**binding_checks(binding), **capability_checks(card)}.items():
                await self._attempt(area, name, partial(check, binding, self._report, area))
        return answering

    async def _examine_message(self, card: AgentCard, bindings: list[tuple[str, Binding]]) -> None:
        area, binding = bindings[0]
        self._report.info(area, "message", f"one is sent: {TEXT!r}")
        outcome: list[Sent] = []

        async def sent_once() -> None:
            outcome.append(await send_test(binding, self._report, area, card, seconds=self._wait))

        await self._attempt(area, "message", sent_once, seconds=_CHECK_TIMEOUT + self._wait)
        if not outcome or outcome[0].task_id is None:
            return
        sent = outcome[0]
        for each_area, each in bindings:
            await self._attempt(each_area, "the task", partial(check_task, each, self._report, each_area, sent))
            if card.capabilities.streaming:
                subscribe = partial(check_stream, each, self._report, each_area, sent, seconds=self._wait)
                await self._attempt(each_area, "subscription", subscribe)
            if card.capabilities.push_notifications:
                await self._attempt(each_area, "webhook", partial(check_push, each, self._report, each_area, sent))
        await self._attempt(area, "cancel", partial(check_cancel, binding, self._report, area, sent))

    async def _attempt(
        self, area: str, name: str, check: Callable[[], Awaitable[Any]], *, seconds: float = _CHECK_TIMEOUT
    ) -> None:
        """Make a check: whatever the agent answers, the others are made, too."""
        if self._session.output.is_live and area != self._area:
            self._session.output.aside(f"checking {area}")
        self._area = area
        scope = trio.CancelScope(relative_deadline=seconds)
        try:
            with scope:
                await check()
        except (A2AError, ClientError) as exc:
            self._report.error(area, name, described(exc))
        except Exception as exc:  # boundary around each check: what an agent answers may be anything
            self._report.error(area, name, f"the answer cannot be examined: {type(exc).__name__}: {exc}")
        if scope.cancelled_caught:
            self._report.error(area, name, f"not done in {seconds:g} seconds")
