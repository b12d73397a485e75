"""Signatures of agent cards: detached JWS (RFC 7515) over the canonical card (protocol 11.6).

No input or output happens here. A signature names its key (``kid``) and may name where keys lie (``jku``), but this is
the signer's word: who verifies says which keys are trusted. Keys that must be fetched first are listed by
:func:`key_requests`; a ``jku`` is shown only if its host is allowed.

What is verified is refused for any doubt: ``alg`` and ``kid`` count only in the protected header, the algorithm is on a
list of asymmetric ones and fits the key, ``crit`` names extensions and none is known here. Keys that have expired or
were revoked must not be used: most keys do not tell, so they must not be among the trusted ones.

Signing and verifying need the extra ``signing``; canonical forms do not.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, final

import attrs
import orjson

from ..errors import FieldViolation, InvalidParamsError, JSONParseError
from ..types import AgentCard, AgentCardSignature
from .canonical import canonical_card, canonical_json, loose_card, reduced_card
from .json import from_dict, to_dict
from .jws import MAX_SIGNATURE, AllowJku, KeyRequest, RefusedError, decode, encode, is_jku, read_header, signing_input
from .signing_keys import (
    ALGORITHMS,
    CardKey,
    CardKeys,
    UnusableKeyError,
    candidates,
    make_signature,
    require_joserfc,
    verify_signature,
)

__all__ = [
    "CARD_ALGORITHMS",
    "MAX_SIGNATURES",
    "CardKey",
    "CardKeys",
    "CardSignatureError",
    "InvalidCardSignatureError",
    "KeyRequest",
    "UnsignedCardError",
    "VerifiedCard",
    "canonical_card",
    "canonical_json",
    "key_requests",
    "sign_card",
    "verify_card",
]

CARD_ALGORITHMS: Final = tuple(ALGORITHMS)
"""The algorithms of card signatures: ES256, ES384, EdDSA, RS256 and PS256."""

MAX_SIGNATURES: Final = 32
"""How many signatures a card may have: rotation needs two or three, and each one costs a verification."""

FormName: TypeAlias = Literal["exact", "known", "loose"]


# --- Errors ---------------------------------------------------------------------------------------------------------


class CardSignatureError(Exception):
    """An agent card cannot be trusted by its signatures."""


class UnsignedCardError(CardSignatureError):
    """The card has no signatures."""

    def __init__(self) -> None:
        """Make the error."""
        super().__init__("The agent card has no signatures")


class InvalidCardSignatureError(CardSignatureError):
    """None of the card's signatures is valid by the keys that are trusted.

    Attributes:
        reasons: Why not, for each signature in order. For the log: the texts may hold what the signer wrote.
    """

    reasons: tuple[str, ...]

    def __init__(self, *reasons: str) -> None:
        """Make the error.

        Args:
            reasons: Why not, for each signature in order.
        """
        super().__init__(*reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        return f"No valid signature on the agent card ({'; '.join(self.reasons)})"


# --- Results --------------------------------------------------------------------------------------------------------


@final
@attrs.frozen(kw_only=True)
class VerifiedCard:
    """A card with a valid signature.

    Attributes:
        card: The card, read from what was signed: members that the signature does not cover are not in it.
        signature: The signature that was valid.
        kid: The id of the key that it was verified with.
        algorithm: The algorithm.
        form: What it covers. ``exact``: the card as it was received. ``known``: its known members only, so nothing else
            of the received text may be trusted. ``loose``: what other SDKs sign; anybody may have added or removed
            empty strings, lists and objects, such as security requirements without scopes.
    """

    card: AgentCard
    signature: AgentCardSignature
    kid: str
    algorithm: str
    form: FormName


@attrs.frozen
class _Form:
    """A payload that a signature may cover, and what a card with such a signature says."""

    name: FormName
    content: dict[str, Any]
    payload: bytes


# --- Signing --------------------------------------------------------------------------------------------------------


def sign_card(
    card: AgentCard,
    key: CardKey,
    *,
    kid: str,
    algorithm: str = "ES256",
    jku: str | None = None,
    header: Mapping[str, Any] | None = None,
) -> AgentCard:
    """Return the card with one more signature.

    Args:
        card: The card. Signatures that it has stay, and are not covered.
        key: The private key: joserfc's, a JWK or unencrypted PEM.
        kid: The id under which verifiers know the key.
        algorithm: One of :data:`CARD_ALGORITHMS`.
        jku: An https URL of the JWK Set that has the public key.
        header: The unprotected header. Nobody can trust what is in it.

    Raises:
        TypeError: The card or the key is none.
        ValueError: The key is no private key for the algorithm, the algorithm is unknown, ``kid`` is empty, ``jku`` is
            no https URL, or the card cannot be written as JSON.
        ImportError: The extra ``signing`` is not installed.
    """
    if not isinstance(card, AgentCard):
        raise TypeError(f"sign_card signs an AgentCard, got {type(card).__name__}")
    _check_algorithms((algorithm,))
    if not kid:
        raise ValueError("a signature names its key: kid must not be empty")
    if jku is not None and not is_jku(jku):
        raise ValueError(f"jku is an https URL, not {jku!r}")
    require_joserfc()
    protected = {"alg": algorithm, "typ": "JOSE", "kid": kid}
    if jku is not None:
        protected["jku"] = jku
    segment = encode(orjson.dumps(protected))
    signature = make_signature(signing_input(segment, canonical_card(card)), key, algorithm)
    signed = AgentCardSignature(
        protected=segment, signature=encode(signature), header=None if header is None else dict(header)
    )
    return attrs.evolve(card, signatures=(*card.signatures, signed))


# --- Verifying ------------------------------------------------------------------------------------------------------


def verify_card(
    raw: bytes | str | Mapping[str, Any] | AgentCard,
    keys: CardKeys,
    *,
    allow_jku: AllowJku = (),
    algorithms: Collection[str] = CARD_ALGORITHMS,
    loose: bool = False,
    now: datetime | None = None,
) -> VerifiedCard:
    """Verify that one of a card's signatures is by a trusted key.

    Args:
        raw: The card as it was received, or its JSON object. An :class:`AgentCard` does, too, but members that its
            signer knew and this version does not are lost from it, and a signature over them with them.
        keys: The trusted keys. One key (joserfc's, a JWK, PEM text) is good for each signature, unless it has an id of
            its own. A mapping from ``kid`` to key, a JWK Set or a joserfc ``KeySet`` is looked up by ``kid``. A
            function is called with ``kid`` and ``jku`` and returns a key or a set; None or a LookupError means that
            it knows none. PEM certificates are not taken: nobody would look at their dates.
        allow_jku: Hosts (``keys.example.com``, ``keys.example.com:8443``) whose ``jku`` a function of keys is told, or
            a function that tells it of an https URL. By default none.
        algorithms: Those that are accepted, of :data:`CARD_ALGORITHMS`.
        loose: Accept what other SDKs sign, too, where the specification's form does not verify. It protects less: see
            :attr:`VerifiedCard.form`.
        now: The time, with a zone. Keys whose JWK has dates (``exp``, ``nbf``) are used only if it is within them, and
            not without it; keys that are marked as ``revoked`` never.

    Raises:
        UnsignedCardError: There is no signature.
        InvalidCardSignatureError: None is valid; one that is suffices.
        JSONParseError: The text is no JSON.
        InvalidParamsError: It is no agent card, signed or not.
        TypeError: The arguments are none of these.
        ValueError: An algorithm is unknown, ``now`` has no zone, or an :class:`AgentCard` holds what JSON cannot carry.
        ImportError: The extra ``signing`` is not installed.
    """
    require_joserfc()
    _check_options(allow_jku, algorithms)
    if now is not None and now.utcoffset() is None:
        raise ValueError("now needs a time zone, such as datetime.UTC")
    members = _members(raw)
    entries = _entries(members)
    forms = tuple(_forms(members, loose=loose))
    refused: list[str] = []
    for signature, request in _requests(entries, allow_jku, algorithms, refused):
        try:
            form = _verified_form(signature, request, keys, forms, now)
        except RefusedError as error:
            refused.append(str(error))
        else:
            return VerifiedCard(
                card=_card_of(form.content, members),
                signature=signature,
                kid=request.kid,
                algorithm=request.algorithm,
                form=form.name,
            )
    raise InvalidCardSignatureError(*refused)


def key_requests(
    raw: bytes | str | Mapping[str, Any] | AgentCard,
    *,
    allow_jku: AllowJku = (),
    algorithms: Collection[str] = CARD_ALGORITHMS,
) -> tuple[KeyRequest, ...]:
    """Return the keys that the signatures of a card ask for, so that they can be fetched before :func:`verify_card`.

    Nothing is verified here, and signatures that could not be are left out.

    Args:
        raw: The card, as for :func:`verify_card`.
        allow_jku: As for :func:`verify_card`.
        algorithms: As for :func:`verify_card`.

    Raises:
        UnsignedCardError: There is no signature.
        InvalidCardSignatureError: There are too many, or they are no array.
        JSONParseError: The text is no JSON.
        InvalidParamsError: It is no JSON object.
        TypeError: The arguments are none of these.
        ValueError: An algorithm is unknown.
    """
    _check_options(allow_jku, algorithms)
    requests = _requests(_entries(_members(raw)), allow_jku, algorithms, [])
    return tuple(dict.fromkeys(request for _, request in requests))


def _members(raw: bytes | str | Mapping[str, Any] | AgentCard) -> dict[str, Any]:
    if isinstance(raw, AgentCard):
        return to_dict(raw)
    content: Any = raw
    if isinstance(raw, (bytes, bytearray, memoryview, str)):
        try:
            content = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise JSONParseError from None
        if not isinstance(content, dict):
            raise InvalidParamsError(violations=[FieldViolation("", "Must be an object")])
    if not isinstance(content, Mapping):
        raise TypeError(f"expected a card as bytes, str, mapping or AgentCard, got {type(raw).__name__}")
    return dict(content)


def _verified_form(
    signature: AgentCardSignature, request: KeyRequest, keys: CardKeys, forms: tuple[_Form, ...], now: datetime | None
) -> _Form:
    """Return the form of the card that a signature is valid for."""
    code = decode(signature.signature, MAX_SIGNATURE, "signature")
    reason = f"no key {request.kid!r} is trusted"
    for key in candidates(keys, request.kid, request.jku):
        reason = f"it is not by the key {request.kid!r} over this card"
        try:
            for form in forms:
                message = signing_input(signature.protected, form.payload)
                if verify_signature(message, code, key, request.algorithm, now):
                    return form
        except UnusableKeyError as error:
            reason = str(error)
    raise RefusedError(reason)


def _forms(members: dict[str, Any], *, loose: bool) -> Iterator[_Form]:
    """Yield the payloads that a signature may cover, the strictest first, each once."""
    exact = reduced_card(members)
    known = reduced_card(members, drop_unknown=True)
    ways: list[tuple[FormName, dict[str, Any], dict[str, Any], Callable[[Any], bytes]]] = [
        ("exact", exact, exact, canonical_json),
        ("known", known, known, canonical_json),
    ]
    if loose:
        # A loose payload lacks what it takes to read the card, so the card is read from its known members.
        ways += [("loose", tree, known, write) for write in (loose_card, _escaped_card) for tree in (exact, known)]
    seen: set[bytes] = set()
    for name, signed, content, write in ways:
        try:
            payload = write(signed)
        except ValueError:  # an unknown member, say, is nested too deeply: the form without it may still do
            continue
        if payload not in seen:
            seen.add(payload)
            yield _Form(name, content, payload)
    if not seen:
        raise InvalidCardSignatureError("the card has no canonical form")


def _escaped_card(reduced: Mapping[str, Any]) -> bytes:
    return loose_card(reduced, escaped=True)


def _card_of(content: dict[str, Any], members: dict[str, Any]) -> AgentCard:
    """Read the card from what was signed. Unsigned members are not in it, whatever a tolerant reading makes of them."""
    signatures = [s for s in map(_signature_of, members["signatures"]) if s is not None]
    return attrs.evolve(from_dict(content, AgentCard, strict=False), signatures=signatures)


def _signature_of(entry: Any) -> AgentCardSignature | None:
    try:
        return from_dict(entry, AgentCardSignature)
    except InvalidParamsError:
        return None


def _requests(
    entries: list[Any], allow_jku: AllowJku, algorithms: Collection[str], refused: list[str]
) -> Iterator[tuple[AgentCardSignature, KeyRequest]]:
    """Yield the signatures that can be verified, each with the key it asks for; say of the others why not."""
    for entry in entries:
        signature = _signature_of(entry)
        try:
            if signature is None:
                raise RefusedError("it is no signature in JSON form")
            request = read_header(signature, allow_jku, algorithms)
        except RefusedError as error:
            refused.append(str(error))
        else:
            yield signature, request


def _entries(members: dict[str, Any]) -> list[Any]:
    entries = members.get("signatures")
    if entries is None or entries in ([], ()):
        raise UnsignedCardError
    if not isinstance(entries, (list, tuple)):
        raise InvalidCardSignatureError("the signatures are no array")
    if len(entries) > MAX_SIGNATURES:
        raise InvalidCardSignatureError(f"there are {len(entries)} signatures, more than {MAX_SIGNATURES}")
    return list(entries)


def _check_options(allow_jku: AllowJku, algorithms: Collection[str]) -> None:
    if isinstance(allow_jku, str):
        # `in` would look for a part of it.
        raise TypeError("allow_jku is a collection of hosts, not one host: put it in a list or tuple")
    _check_algorithms(algorithms)


def _check_algorithms(algorithms: Collection[str]) -> None:
    if isinstance(algorithms, str):
        raise TypeError("algorithms is a collection of names, not one name: put it in a list or tuple")
    unknown = [name for name in algorithms if name not in ALGORITHMS]
    if unknown:
        raise ValueError(f"card signatures use {', '.join(CARD_ALGORITHMS)}; not {', '.join(map(str, unknown))}")
