"""Whom a client believes that a card is genuine: keys that it has, and keys that it fetches.

A signature may say where its key lies (``jku``), which is the signer's word. Such a set of keys is fetched only from
hosts that the program allows, over HTTPS, without credentials and without following redirects.
"""

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import orjson

from ..clock import TrioClock
from ..types import AgentCard
from ..wire.jws import AllowJku
from ..wire.signing import CARD_ALGORITHMS, CardKeys, InvalidCardSignatureError, key_requests, verify_card
from .exceptions import ClientError

if TYPE_CHECKING:
    from .http import HttpSession

__all__ = ["MAX_KEY_SET", "MAX_KEY_SETS", "CardTrust", "verified"]

MAX_KEY_SET: Final = 256 * 1024
"""Bytes of a set of keys: some hundred of them."""

MAX_KEY_SETS: Final = 4
"""How many sets are fetched for one card: rotation and a second signer need three."""

_OK = 200

_logger = logging.getLogger("trio_a2a.client")


@final
@attrs.frozen(kw_only=True)
class CardTrust:
    """Whose signatures make a card good, where keys alone do not say it: ``connect(verify_card=CardTrust(...))``.

    Attributes:
        keys: The keys that are trusted, as for :func:`trio_a2a.wire.signing.verify_card`; None: only those fetched.
        allow_jku: Hosts (``keys.example.com``, ``keys.example.com:8443``) from which keys are fetched that a signature
            names (``jku``), or a function that tells it of an https URL. Whoever can publish there can sign.
        algorithms: Those that are accepted.
        loose: Accept what other SDKs sign, too. It protects less: security requirements without scopes may have been
            added or removed.
    """

    keys: "CardKeys | None" = None
    allow_jku: AllowJku = ()
    algorithms: Collection[str] = CARD_ALGORITHMS
    loose: bool = False


async def verified(raw: bytes | AgentCard, trust: "CardKeys | CardTrust", session: "HttpSession") -> AgentCard:
    """Return the card that is signed.

    Args:
        raw: The card as it came.
        trust: Whose signatures count.
        session: For fetching keys; it has no credentials.

    Raises:
        CardSignatureError: It has no valid signature.

    Cancellation: fetching keys is given up.
    """
    if not isinstance(trust, CardTrust):
        trust = CardTrust(keys=trust)
    # Keys that are here come first: with them nothing is fetched.
    requests = key_requests(raw, allow_jku=trust.allow_jku, algorithms=trust.algorithms)
    places = list(dict.fromkeys(request.jku for request in requests if request.jku is not None))
    refused: tuple[str, ...] = ()
    if trust.keys is not None:
        try:
            return _verify(raw, trust.keys, trust)
        except InvalidCardSignatureError as exc:
            if not places:
                raise
            refused = exc.reasons
    sets: dict[str, Mapping[str, Any]] = {}
    for place in places[:MAX_KEY_SETS]:
        found = await _fetch(place, session)
        if isinstance(found, str):
            refused += (found,)
        else:
            sets[place] = found
    try:
        return _verify(raw, lambda _, jku: None if jku is None else sets.get(jku), trust)
    except InvalidCardSignatureError as exc:
        raise InvalidCardSignatureError(*refused, *exc.reasons) from None


def _verify(raw: bytes | AgentCard, keys: CardKeys, trust: CardTrust) -> AgentCard:
    return verify_card(
        raw,
        keys,
        allow_jku=trust.allow_jku,
        algorithms=trust.algorithms,
        loose=trust.loose,
        now=TrioClock().now(),
    ).card


async def _fetch(url: str, session: "HttpSession") -> Mapping[str, Any] | str:
    """Return a JWK Set, or why there is none."""
    from .http import HttpRequest  # noqa: PLC0415 - the library behind it is an extra

    request = HttpRequest(method="GET", url=url, headers={"accept": "application/jwk-set+json, application/json"})
    try:
        answer = await session.exchange(request, limit=MAX_KEY_SET)
    except ClientError as exc:
        return f"its keys could not be fetched from {url}: {exc}"
    try:
        found = orjson.loads(answer.body) if answer.status == _OK else None
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("keys"), list):
        return f"there is no set of keys at {url} (HTTP status {answer.status})"
    _logger.debug("fetched %s keys for the signature of a card", len(found["keys"]))
    return found
