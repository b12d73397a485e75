"""The agent card as it is served: completed with the interfaces, and cacheable (protocol section 11)."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from email.utils import format_datetime
from typing import final

import attrs

from ..types import AgentCard, AgentInterface
from ..wire import to_json

__all__ = ["CARD_PATH", "ServedCard", "with_interfaces"]

CARD_PATH = "/.well-known/agent-card.json"
_MAX_AGE = 3600  # protocol section 16


@final
@attrs.frozen
class ServedCard:
    """A card's bytes, and the headers that let clients keep them.

    Attributes:
        body: The JSON.
        etag: A strong entity tag: a digest of the body.
        last_modified: When the application was started, as an HTTP date.
    """

    body: bytes
    etag: str
    last_modified: str

    @classmethod
    def of(cls, card: AgentCard, started: datetime) -> "ServedCard":
        """Make it.

        Args:
            card: The card, with its interfaces and signatures.
            started: When the application was started, aware UTC.
        """
        body = to_json(card)
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        return cls(body, etag, format_datetime(started.replace(microsecond=0), usegmt=True))

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of an answer with the card, or of a 304."""
        return [
            (b"cache-control", b"public, max-age=%d" % _MAX_AGE),
            (b"etag", self.etag.encode()),
            (b"last-modified", self.last_modified.encode()),
        ]

    def is_current(self, if_none_match: str | None, if_modified_since: str | None) -> bool:
        """Tell whether the client has this card already (RFC 9110 section 13.1; entity tags are compared weakly)."""
        if if_none_match is not None:
            tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
            return "*" in tags or self.etag in tags
        return if_modified_since is not None and if_modified_since.strip() == self.last_modified


def with_interfaces(card: AgentCard, interfaces: Sequence[AgentInterface]) -> AgentCard:
    """Return the card with these interfaces, unless it lists some itself."""
    return card if card.supported_interfaces else attrs.evolve(card, supported_interfaces=tuple(interfaces))
