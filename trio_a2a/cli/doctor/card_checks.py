"""The agent card: where it lies, what it says, how long it may be kept, and whether it is signed."""

from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import attrs

from ...client import MAX_CARD
from ...client.http import HttpAnswer
from ...errors import A2AError
from ...types import AgentCard, AgentInterface
from ...wire import from_dict
from .expectations import read_value
from .probe import Probe, json_of
from .report import Report

__all__ = ["AREA", "check_card", "usable_interfaces"]

AREA: Final = "card"

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LISTS = ("skills", "defaultInputModes", "defaultOutputModes")
_KNOWN = frozenset({"JSONRPC", "HTTP+JSON", "GRPC"})


async def check_card(probe: Probe, report: Report, place: str) -> tuple[AgentCard, str] | None:
    """Check the card; returns it and where it lies, or None if there is none to go on with.

    Args:
        probe: Fetches it.
        report: Where findings go.
        place: Where it should lie.

    Raises:
        ClientError: There is no answer.
    """
    answer = await _fetch(probe, place)
    if answer.status in _REDIRECTS:
        target = _joined(place, answer.headers.get("location", ""))
        if target is None or urlsplit(target)[:2] != urlsplit(place)[:2]:
            report.error(AREA, "place", f"{place} leads away from its host, to {target}: clients do not follow")
            return None
        report.warning(AREA, "place", f"{place} leads to {target}; not all clients follow")
        place = target
        answer = await _fetch(probe, place)
    if answer.status != 200:
        report.error(AREA, "place", f"{place} answers with HTTP status {answer.status}")
        return None
    report.ok(AREA, "place", place)
    card = _check_content(report, answer)
    await _check_caching(probe, report, place, answer)
    if card is None:
        return None
    if card.signatures:
        report.info(AREA, "signature", "signed; `trio-a2a card --verify KEY` tells by whom")
    else:
        report.info(AREA, "signature", "not signed")
    return card, place


async def _fetch(probe: Probe, place: str, etag: str | None = None) -> HttpAnswer:
    """Fetch the card as clients do: it is told who is asking only if it wants to know."""
    headers = {"accept": "application/json"}
    if etag is not None:
        headers["if-none-match"] = etag
    answer = await probe.exchange("GET", place, headers=headers, anonymous=True)
    if answer.status in {401, 403}:
        answer = await probe.exchange("GET", place, headers=headers)
    return answer


def _check_content(report: Report, answer: HttpAnswer) -> AgentCard | None:
    if len(answer.body) > MAX_CARD:
        report.warning(AREA, "size", f"{len(answer.body)} bytes: clients refuse cards past {MAX_CARD}")
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        report.warning(AREA, "content type", f"{media_type or 'none'}, not application/json")
    members = json_of(answer.body)
    if not isinstance(members, dict):
        report.error(AREA, "content", "it is no JSON object")
        return None
    card, faults = read_value(members, AgentCard)
    if faults and card is not None and _only_lacks_lists(members):
        # The protocol's own form for a list without elements is to leave it out: readers of cards know that.
        report.warning(AREA, "content", f"{faults}; not all clients take that for an empty list")
        return card
    if "supportedInterfaces" not in members and ("url" in members or "protocolVersion" in members):
        spoken = str(members.get("protocolVersion", "0.3"))
        report.error(
            AREA, "content", f"it is a card of A2A {spoken}, without supportedInterfaces: version 1.0 is checked"
        )
        return None
    if card is None:
        report.error(AREA, "content", f"it is no agent card: {faults}")
    elif faults:
        report.error(AREA, "content", faults)
    else:
        report.ok(AREA, "content", f"{card.name} {card.version}, {len(card.skills)} skills")
    return card


def _only_lacks_lists(members: dict[str, Any]) -> bool:
    completed = {**{name: [] for name in _LISTS}, **members}
    try:
        from_dict(completed, AgentCard)
    except A2AError:
        return False
    return True


async def _check_caching(probe: Probe, report: Report, place: str, answer: HttpAnswer) -> None:
    control = answer.headers.get("cache-control")
    etag = answer.headers.get("etag")
    missing = [name for name, value in (("Cache-Control", control), ("ETag", etag)) if not value]
    if missing:
        report.warning(AREA, "caching", f"no {' and no '.join(missing)}: clients guess how long it is good")
    if etag:
        again = await _fetch(probe, place, etag)
        if again.status == 304:
            report.ok(AREA, "caching", f"{control or 'no Cache-Control'}; an unchanged card is answered 304")
        else:
            report.info(AREA, "caching", f"an unchanged card is sent again (HTTP status {again.status}, not 304)")


def usable_interfaces(report: Report, card: AgentCard, place: str) -> list[AgentInterface]:
    """Check the declared interfaces; returns those that can be looked at."""
    usable = []
    seen = set()
    for interface in card.supported_interfaces:
        binding, url = interface.protocol_binding, interface.url
        name = f"interface {binding}"
        if binding not in _KNOWN:
            report.info(AREA, name, f"not checked: {url} has a binding of its own")
            continue
        if interface.protocol_version.strip().split(".")[:2] != ["1", "0"]:
            report.info(AREA, name, f"not checked: {url} speaks version {interface.protocol_version!r}")
            continue
        if binding == "GRPC":
            report.info(AREA, name, f"not checked: {url}")
            continue
        url = _joined(place, url) or ""
        if not _check_url(report, name, interface.url, url, place):
            continue
        if (binding, url, interface.tenant) in seen:
            report.warning(AREA, name, f"{url} is listed twice")
            continue
        seen.add((binding, url, interface.tenant))
        usable.append(attrs.evolve(interface, url=url))
    return usable


def _joined(place: str, url: str) -> str | None:
    """Complete a URL; None if it is none."""
    try:
        joined = urljoin(place, url)
        urlsplit(joined).port  # noqa: B018 - read for the error that it is where it is no port
    except ValueError:
        return None
    return joined


def _check_url(report: Report, name: str, given: str, url: str, place: str) -> bool:
    scheme, host = urlsplit(url).scheme, urlsplit(url).hostname
    if not host or scheme not in {"http", "https"}:
        report.error(AREA, name, f"{given!r} is no URL of a server")
        return False
    if given != url:
        report.warning(AREA, name, f"{given!r} is not absolute: not all clients complete it")
    if scheme == "https":
        report.ok(AREA, name, url)
    elif place.startswith("https:"):
        report.error(AREA, name, f"{url} has no HTTPS, while the card has: clients do not go there")
        return False
    elif host in _LOOPBACK:
        report.ok(AREA, name, f"{url} (this machine, so without HTTPS)")
    else:
        report.warning(AREA, name, f"{url} has no HTTPS")
    return True
