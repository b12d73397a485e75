"""Canonical bytes: JSON by RFC 8785 (JCS), and the form of an agent card that signatures cover (protocol 11.6).

The canonical card is the card without ``signatures`` and without defaults, in JCS. What a default is, only the schema
can say: an empty ``description`` is REQUIRED and stays, an empty ``examples`` goes. Members that the schema does not
know are part of what the signer signed, so they stay, too, unless they are asked to be dropped.

Other SDKs remove every empty string, list and object instead, and some escape what is not ASCII. Their form is here as
the *loose* one. It is weaker, because cards that differ in meaning have the same loose form: a requirement
``{"schemes": {"bearer": {}}}`` is empty in it and vanishes. It is for verification on request, never for signing.
"""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

import orjson

from ..types import AgentCard
from ..types.schema import Field, Kind, Shape, describe
from .json import to_dict

__all__ = ["MAX_DEPTH", "canonical_card", "canonical_json", "loose_card", "reduced_card"]

MAX_DEPTH: Final = 128
"""Levels of nesting that have a canonical form: a card with a Struct of the greatest depth has fewer."""

_EXACT_INTEGER: Final = 2**53  # up to here every integer is a double


# --- RFC 8785 -------------------------------------------------------------------------------------------------------


def canonical_json(value: Any) -> bytes:
    """Write a JSON value in the one form of RFC 8785.

    Args:
        value: Mappings, lists, tuples, strings, numbers, booleans and None.

    Raises:
        TypeError: JSON has no form for an object in it, or a key is no string.
        ValueError: It has no canonical form: NaN, infinity, an integer that no double expresses, a lone surrogate,
            nesting deeper than :data:`MAX_DEPTH` levels.
    """
    pieces: list[bytes] = []
    _write(value, pieces, MAX_DEPTH)
    return b"".join(pieces)


def _write(value: Any, pieces: list[bytes], levels: int) -> None:
    if isinstance(value, str):
        pieces.append(_string(value))
    elif value is None:
        pieces.append(b"null")
    elif isinstance(value, bool):
        pieces.append(b"true" if value else b"false")
    elif isinstance(value, int):
        pieces.append(_integer(int(value)).encode())
    elif isinstance(value, float):
        pieces.append(_double(value).encode())
    elif not isinstance(value, (Mapping, list, tuple)):
        raise TypeError(f"JSON has no form for an object of type {type(value).__name__}")
    elif levels == 0:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels, which has no canonical form here")
    elif isinstance(value, Mapping):
        before = b"{"
        for key in sorted(value, key=_code_units):
            pieces += (before, _string(key), b":")
            _write(value[key], pieces, levels - 1)
            before = b","
        pieces.append(b"}" if value else b"{}")
    else:
        before = b"["
        for item in value:
            pieces.append(before)
            _write(item, pieces, levels - 1)
            before = b","
        pieces.append(b"]" if value else b"[]")


def _code_units(key: Any) -> bytes:
    """Return what keys are ordered by. UTF-16 puts characters past U+FFFF before U+E000, unlike Python's own order."""
    if not isinstance(key, str):
        raise TypeError(f"the keys of a JSON object are strings, got {key!r}")
    return key.encode("utf-16-be", "surrogatepass")


def _string(text: str) -> bytes:
    # orjson escapes what RFC 8785 escapes, in the same way, and nothing else; the tests go through every character.
    try:
        return orjson.dumps(str.__str__(text))
    except orjson.JSONEncodeError:
        raise ValueError("a string contains a lone surrogate, which UTF-8 cannot carry") from None


def _integer(number: int) -> str:
    """Write an integer, which to JCS is a double as all numbers are.

    Past 2**53 most integers are none. Rounding would let one signature stand for several cards, so an integer is taken
    only if it is a double's exact value or the shortest text of one, which is how peers write large doubles.
    """
    if abs(number) <= _EXACT_INTEGER:
        return str(number)
    try:
        double = float(number)
    except OverflowError:
        raise ValueError("an integer is past the range of a double") from None
    text = _double(double)
    if double != number and text != str(number):
        raise ValueError(f"the integer {number} is no double: write it as a string")
    return text


def _double(number: float) -> str:
    """Write a double as ECMAScript's ``Number::toString`` does.

    Both languages write the shortest digits that read back as the same double, so Python's are taken; where the point
    stands, and when there is an exponent, differs.
    """
    if not isfinite(number):
        raise ValueError(f"{number} is no JSON number")
    if number == 0:
        return "0"  # minus zero, too
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = float.__repr__(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    significant = (whole + fraction).lstrip("0")
    # The number is 0.DIGITS times ten to the power of `point`.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(significant))
    digits = significant.rstrip("0")
    if len(digits) <= point <= 21:
        text = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        text = f"{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1:+d}"
    return sign + text


# --- Cards ----------------------------------------------------------------------------------------------------------


def canonical_card(card: AgentCard | Mapping[str, Any], *, drop_unknown: bool = False) -> bytes:
    """Return the bytes that a signature of an agent card covers.

    Args:
        card: A card, or one as a JSON parser has read it. The second is better where a card was received: members of
            later versions are still in it.
        drop_unknown: Leave members out that protocol version 1.0 does not have.

    Raises:
        TypeError: It is neither, or holds what JSON has no form for.
        ValueError: It has no canonical form, as for :func:`canonical_json`.
    """
    return canonical_json(reduced_card(card, drop_unknown=drop_unknown))


def reduced_card(card: AgentCard | Mapping[str, Any], *, drop_unknown: bool = False) -> dict[str, Any]:
    """Return the JSON object that :func:`canonical_card` writes: no signatures, no defaults.

    Raises:
        TypeError: It is neither a card nor a mapping.
        ValueError: The card holds what JSON cannot carry.
    """
    if isinstance(card, AgentCard):
        card = to_dict(card)
    elif not isinstance(card, Mapping):
        raise TypeError(f"expected an AgentCard or its JSON object, got {type(card).__name__}")
    members = _reduced(card, AgentCard, drop_unknown=drop_unknown)
    members.pop("signatures", None)
    return members


def _reduced(members: Mapping[str, Any], cls: type[Any], *, drop_unknown: bool) -> dict[str, Any]:
    """Drop the defaults of a JSON object of this class. What is not of its field's type is left as it is."""
    fields = {field.json_name: field for field in describe(cls)}
    kept: dict[str, Any] = {}
    for name, content in members.items():
        field = fields.get(name)
        if field is None:
            if not drop_unknown:
                kept[name] = content
        # null is unset, as everywhere in ProtoJSON.
        elif content is not None and (field.required or field.presence or not _is_default(content, field)):
            kept[name] = _reduced_member(content, field, drop_unknown=drop_unknown)
    return kept


def _is_default(content: Any, field: Field) -> bool:
    if field.shape is Shape.REPEATED:
        return isinstance(content, (list, tuple)) and not content
    if field.shape is Shape.MAP:
        return isinstance(content, Mapping) and not content
    return type(content) is type(field.default) and bool(content == field.default)


def _reduced_member(content: Any, field: Field, *, drop_unknown: bool) -> Any:
    if field.kind is not Kind.MESSAGE:
        return content  # scalars, and Structs: whatever is in them was put there on purpose

    def reduced(item: Any) -> Any:
        return _reduced(item, field.type, drop_unknown=drop_unknown) if isinstance(item, Mapping) else item

    if field.shape is Shape.REPEATED and isinstance(content, (list, tuple)):
        return [reduced(item) for item in content]
    if field.shape is Shape.MAP and isinstance(content, Mapping):
        return {key: reduced(item) for key, item in content.items()}
    return reduced(content) if field.shape is Shape.SINGULAR else content


def loose_card(reduced: Mapping[str, Any], *, escaped: bool = False) -> bytes:
    """Return what other SDKs sign in place of the canonical card.

    Args:
        reduced: A card from :func:`reduced_card`.
        escaped: Write as the Python SDK did until its version 1.1, with Python's numbers and order of keys and nothing
            but ASCII; else by RFC 8785, as the JavaScript SDK and later Python ones.

    Raises:
        TypeError: It holds what JSON has no form for.
        ValueError: It has no canonical form, as for :func:`canonical_json`.
    """
    # The first pass over the whole finds what has no form at all, and bounds the recursion of the next.
    canonical_json(reduced)
    content = _without_empties(reduced) or {}
    if not escaped:
        return canonical_json(content)
    return json.dumps(_integral(content), separators=(",", ":"), sort_keys=True).encode("ascii")


def _without_empties(value: Any) -> Any:
    """Drop every empty string, list and object, and null; None where nothing is left."""
    if isinstance(value, Mapping):
        members = {key: _without_empties(item) for key, item in value.items()}
        return {key: item for key, item in members.items() if item is not None} or None
    if isinstance(value, (list, tuple)):
        return [item for item in map(_without_empties, value) if item is not None] or None
    return None if isinstance(value, str) and not value else value


def _integral(value: Any) -> Any:
    """Turn whole doubles into integers, as protobuf's JSON writes the numbers of a Struct in Python."""
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_integral(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
