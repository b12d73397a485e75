"""Where an agent's card lies, and how large it may be."""

from typing import Final
from urllib.parse import urlsplit

__all__ = ["CARD_PATH", "MAX_CARD", "card_url"]

CARD_PATH: Final = "/.well-known/agent-card.json"

MAX_CARD: Final = 1024 * 1024
"""Bytes of a card: a hundred skills with long descriptions are a tenth of it."""


def card_url(url: str) -> str:
    """Return where the card of an agent lies: below the agent's URL, unless the URL is that of a JSON document.

    Raises:
        ValueError: It is no http or https URL.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - read for the error that it is where it is no port
    except ValueError as exc:
        # It is not repeated: what it takes for a port may be a password.
        raise ValueError(
            "an agent's URL is absolute, https://host or https://host/path; the host of this is none"
        ) from exc
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"an agent's URL is absolute, https://host or https://host/path; {url!r} is not")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an agent's URL has no credentials in it: use connect(auth=...)")
    if parts.path.endswith(".json"):
        return url
    return parts._replace(path=parts.path.rstrip("/") + CARD_PATH, fragment="").geturl()
