"""Fetching agent cards: where they lie, how large they may be, where they may lead, and how long they are good.

A card decides to whom credentials go, so its way is kept narrow. A redirect is followed only within the same host, and
never from HTTPS to HTTP, and takes credentials along only to the same origin or to the same host's usual HTTPS port; a
card is bounded in size; with trusted keys it must be signed.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, final
from urllib.parse import urljoin, urlsplit

import attrs
import orjson

from ..clock import Clock, TrioClock
from ..errors import A2AError, error_for_http_status
from ..types import AgentCard
from ..wire import from_dict
from .card_place import MAX_CARD, card_url
from .exceptions import CardError, HttpStatusError, ResponseTooLargeError, UnsupportedVersionError
from .http import HttpAnswer, HttpRequest, HttpSession
from .retry import with_retries

__all__ = ["DEFAULT_AGE", "MAX_REDIRECTS", "CardResolver", "read_card"]

MAX_REDIRECTS: Final = 3
"""A slash at the end, and a change of the path or two."""

DEFAULT_AGE: Final = 300.0
"""Seconds for which a card is good whose server says nothing of it."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_AGE = re.compile(r"max-age\s*=\s*\"?(\d{1,9})\b", re.ASCII)

Verify = Callable[[bytes], Awaitable[AgentCard]]


@final
@attrs.frozen
class _Cached:
    body: bytes
    card: AgentCard
    url: str
    etag: str | None
    last_modified: str | None
    fresh_until: datetime


@final
class CardResolver:
    """Fetches cards, and keeps them as long as their servers say (RFC 9111).

    Args:
        session: For the requests.
        headers: Headers of each request; like credentials, they follow no redirect to another place.
        verify: Returns the card that signed bytes stand for, or raises.
        allow_http: Whether a card may come without HTTPS.
        clock: The time.
    """

    def __init__(
        self,
        session: HttpSession,
        *,
        headers: Mapping[str, str] | None = None,
        verify: Verify | None = None,
        allow_http: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._session = session
        self._headers = {} if headers is None else dict(headers)
        self._verify = verify
        self._allow_http = allow_http
        self._clock = TrioClock() if clock is None else clock
        self._cache: dict[str, _Cached] = {}

    async def resolve(self, url: str) -> tuple[AgentCard, str]:
        """Return the card of an agent, and where it was found.

        Args:
            url: The agent's URL, or that of its card.

        Raises:
            ValueError: It is no URL of one.
            CardError: What is there is no card, or may not be fetched.
            UnsupportedVersionError: It is one of version 0.3.
            CardSignatureError: It has no valid signature.
            A2AError: Its server wants to know who is asking, or is busy.
            TransportError: It could not be fetched.
        """
        url = card_url(url)
        self._require_https(url)
        cached = self._cache.get(url)
        if cached is not None and self._clock.now() < cached.fresh_until:
            return cached.card, cached.url
        answer, found_at = await with_retries(lambda: self._fetch(url, cached), safe=True)
        if answer.status == 304 and cached is not None:
            body, card = cached.body, cached.card
        else:
            body, card = answer.body, await self._read(answer.body)
        self._keep(url, _Cached(body, card, found_at, *self._validators(answer, cached)), answer)
        return card, found_at

    async def _fetch(self, url: str, cached: _Cached | None) -> tuple[HttpAnswer, str]:
        headers = {"accept": "application/json"}
        if cached is not None and cached.etag:
            headers["if-none-match"] = cached.etag
        if cached is not None and cached.last_modified:
            headers["if-modified-since"] = cached.last_modified
        session, own = self._session, self._headers
        for _ in range(MAX_REDIRECTS + 1):
            request = HttpRequest(method="GET", url=url, headers={**headers, **own})
            try:
                answer = await session.exchange(request, limit=MAX_CARD)
            except ResponseTooLargeError as exc:
                raise CardError(f"the agent card at {url} is larger than {MAX_CARD} bytes") from exc
            if answer.status in {200, 304}:
                return answer, url
            if answer.status not in _REDIRECTS:
                raise _failure(answer)
            target = self._redirected(url, answer.headers.get("location", ""))
            if not _may_have_credentials(url, target):
                session, own = session.anonymous(), {}
            url = target
        raise CardError(f"the agent card is redirected more than {MAX_REDIRECTS} times")

    def _redirected(self, url: str, location: str) -> str:
        try:
            target = urljoin(url, location)
            old, new = urlsplit(url), urlsplit(target)
            new.port  # noqa: B018 - read for the error that it is where it is no port
        except ValueError as exc:
            raise CardError(f"the agent card is redirected to what is no URL: {location[:200]!r}") from exc
        same_host = bool(location) and new.hostname == old.hostname
        # To HTTPS, on whichever port; else only within the origin.
        upgraded = old.scheme == "http" and new.scheme == "https"
        if not same_host or not (upgraded or (new.scheme, new.netloc) == (old.scheme, old.netloc)):
            raise CardError(f"the agent card is redirected away from its host, to {target[:200]!r}: not followed")
        return target

    def _require_https(self, url: str) -> None:
        if not self._allow_http and not url.startswith("https:"):
            raise CardError("the agent's URL has no HTTPS, and allow_http=False")

    async def _read(self, body: bytes) -> AgentCard:
        card = read_card(body)  # says what it is, if it is no card of this version
        return card if self._verify is None else await self._verify(body)

    def _validators(self, answer: HttpAnswer, cached: _Cached | None) -> tuple[str | None, str | None, datetime]:
        control = answer.headers.get("cache-control", "").lower()
        age = _MAX_AGE.search(control)
        seconds = DEFAULT_AGE if age is None else float(age[1])
        if "no-cache" in control:
            seconds = 0.0
        etag = answer.headers.get("etag") or (cached.etag if cached else None)
        modified = answer.headers.get("last-modified") or (cached.last_modified if cached else None)
        # A card that is good for a year is asked for every day: agents change.
        return etag, modified, self._clock.now() + timedelta(seconds=min(seconds, 86400.0))

    def _keep(self, url: str, entry: _Cached, answer: HttpAnswer) -> None:
        if "no-store" in answer.headers.get("cache-control", "").lower():
            self._cache.pop(url, None)
        else:
            self._cache[url] = entry

    def revalidate(self, url: str) -> None:
        """Ask the server the next time, whatever the card's age."""
        url = card_url(url)
        if url in self._cache:
            self._cache[url] = attrs.evolve(self._cache[url], fresh_until=self._clock.now())


def _may_have_credentials(url: str, target: str) -> bool:
    """Tell whether what was shown to one place may be shown to another: the same, or its own HTTPS."""
    old, new = urlsplit(url), urlsplit(target)
    upgraded = (old.scheme, old.port or 80, new.scheme, new.port or 443) == ("http", 80, "https", 443)
    return upgraded or (old.scheme, old.netloc) == (new.scheme, new.netloc)


def _failure(answer: HttpAnswer) -> Exception:
    cls = error_for_http_status(answer.status)
    if cls is not None:
        return cls("The agent card could not be fetched")
    return HttpStatusError(answer.status, answer.body)


def read_card(body: bytes) -> AgentCard:
    """Read a card as it came.

    Raises:
        CardError: It is none.
        UnsupportedVersionError: It is one of version 0.3.
    """
    try:
        members: Any = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise CardError("what lies in the place of the agent card is no JSON") from exc
    if not isinstance(members, dict):
        raise CardError("what lies in the place of the agent card is no JSON object")
    if not members.get("supportedInterfaces") and not members.get("supported_interfaces"):
        spoken = members.get("protocolVersion")
        if isinstance(spoken, str) or isinstance(members.get("url"), str):
            version = spoken[:20] if isinstance(spoken, str) else "0.3"
            raise UnsupportedVersionError(f"the agent speaks A2A {version} only; this version of trio_a2a speaks 1.0")
    try:
        return from_dict(members, AgentCard, strict=False)
    except A2AError as exc:
        raise CardError(f"the agent card is broken: {exc}") from exc
