"""Which of a card's interfaces a client uses (protocol section 11.4). Pure: a card goes in, a list comes out."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urljoin, urlsplit

import attrs

from ..types import AgentCard, AgentInterface
from .exceptions import NoUsableInterfaceError, UnsupportedVersionError

__all__ = ["BINDINGS", "MAX_INTERFACES", "VERSION", "choose_interfaces"]

VERSION: Final = "1.0"
"""The version of the protocol that the client speaks."""

BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
"""The bindings that it speaks."""

MAX_INTERFACES: Final = 8
"""How many interfaces are tried: a card must not make a client knock at the doors of a thousand others."""

_MAJOR_MINOR = re.compile(r"(\d+\.\d+)(?:\.\d+)*", re.ASCII)


def choose_interfaces(
    card: AgentCard,
    transports: Sequence[str],
    *,
    in_order: bool = False,
    card_url: str | None = None,
    allow_http: bool = True,
) -> tuple[AgentInterface, ...]:
    """Return the interfaces that can be used, the preferred one first; at most `MAX_INTERFACES`.

    Args:
        card: The card.
        transports: The bindings that may be used.
        in_order: Whether their order is that of preference; else the card's is.
        card_url: Where the card came from; relative interface URLs are taken from there. A card that came over HTTPS
            leads to no interface without it: whoever can read the rest of the way could read the credentials.
        allow_http: Whether an interface may be without HTTPS.

    Raises:
        UnsupportedVersionError: All that could be used otherwise speak another version.
        NoUsableInterfaceError: None can be used; the text says why of each.
    """
    usable = []
    refused = []
    other_versions = 0
    for interface in card.supported_interfaces:
        if card_url is not None:
            interface = attrs.evolve(interface, url=_absolute(card_url, interface))
        reason = _refusal(interface, transports, card_url, allow_http=allow_http)
        if reason is None:
            usable.append(interface)
        else:
            refused.append(f"{interface.protocol_binding} {interface.protocol_version}: {reason}")
            other_versions += _version(interface) != VERSION
    if usable:
        if in_order:  # interfaces of the same binding stay in the card's order
            usable.sort(key=lambda interface: transports.index(interface.protocol_binding))
        return tuple(usable[:MAX_INTERFACES])
    listed = "; ".join(refused) or "it lists none"
    if refused and other_versions == len(refused):
        raise UnsupportedVersionError(f"the agent {card.name!r} does not speak A2A {VERSION} ({listed})")
    raise NoUsableInterfaceError(f"no interface of the agent {card.name!r} can be used ({listed})")


def _absolute(card_url: str, interface: AgentInterface) -> str:
    if interface.protocol_binding not in BINDINGS:
        return interface.url
    try:
        return urljoin(card_url, interface.url)
    except ValueError:
        return interface.url  # it is none, and passed over for that


def _version(interface: AgentInterface) -> str:
    match = _MAJOR_MINOR.fullmatch(interface.protocol_version.strip())
    return "" if match is None else match[1]


def _refusal(
    interface: AgentInterface, transports: Sequence[str], card_url: str | None, *, allow_http: bool
) -> str | None:
    """Say why an interface cannot be used; None if it can."""
    if interface.protocol_binding not in transports:
        return "not among the transports that were asked for"
    if _version(interface) != VERSION:
        return f"another version than {VERSION}"
    if interface.protocol_binding not in BINDINGS:
        return "a binding that this version of trio_a2a does not speak"
    try:
        parts = urlsplit(interface.url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "its URL is none"
    if parts.scheme not in {"http", "https"} or not host:
        return "its URL is no absolute http or https URL"
    if parts.username is not None or parts.password is not None:
        return "its URL has credentials in it"
    if parts.scheme == "http":
        if not allow_http:
            return "it has no HTTPS, and allow_http=False"
        if card_url is not None and card_url.lower().startswith("https:"):
            return "it has no HTTPS, while its card came over HTTPS"
    return None
