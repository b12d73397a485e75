"""JSON inside a value: the content of ``google.protobuf.Struct`` (metadata, params) and ``Value`` (``Part.data``).

Such content is held as plain dicts, lists, strings, numbers, booleans and None. It is copied when a value is made, so
that the caller's later changes do not show in it; from then on it is read-only by contract. Copying also gives one
wire value one Python value: a tuple becomes a list, a member of a str enum its string.

What JSON cannot carry (NaN, an integer past 64 bits, a key that is no string, a lone surrogate) is found by
:func:`json_fault` when the value is encoded, not when it is copied: looking at every number of every copy would cost
more than all the rest of a constructor.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

__all__ = ["MAX_DEPTH", "copy_struct", "copy_value", "json_fault", "string_fault"]

MAX_DEPTH: Final = 100
"""How deep containers may be nested in a Struct or a Value. Protobuf's own parsers stop at the same depth."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_SIGNED_MIN = -(2**63)
_UNSIGNED_MAX = 2**64 - 1


def copy_value(value: Any, depth: int = 0) -> Any:
    """Return a copy of a JSON value that shares no container with it.

    Args:
        value: Dicts, lists, tuples, strings, numbers, booleans and None.
        depth: How many containers are around it.

    Raises:
        TypeError: JSON has no form for an object in it.
        ValueError: It is nested deeper than :data:`MAX_DEPTH`, or contains itself.
    """
    kind = value.__class__
    if kind in _SCALARS:
        return value
    if depth >= MAX_DEPTH:
        raise ValueError(f"a JSON value is nested deeper than {MAX_DEPTH} levels")
    inner = depth + 1
    if kind is dict:
        return {k: v if v.__class__ in _SCALARS else copy_value(v, inner) for k, v in value.items()}
    if kind is list or kind is tuple:
        return [v if v.__class__ in _SCALARS else copy_value(v, inner) for v in value]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return copy_value(dict(value), depth)
    if isinstance(value, (list, tuple)):
        return copy_value(list(value), depth)
    raise TypeError(f"JSON has no form for an object of type {kind.__name__}: turn it into strings, numbers or lists")


def copy_struct(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a copy of a JSON object that shares no container with it; None stays None.

    Raises:
        TypeError: It is no mapping, or JSON has no form for an object in it.
        ValueError: It is nested deeper than :data:`MAX_DEPTH`, or contains itself.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a mapping of strings to JSON values, got {type(value).__name__}")
    copy: dict[str, Any] = copy_value(value)
    return copy


def string_fault(text: str) -> str | None:
    """Return why JSON cannot carry a string, None when it can."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "contains a lone surrogate, which UTF-8 cannot carry"
    return None


def json_fault(value: Any, path: str, depth: int = 0) -> tuple[str, str] | None:
    """Return the path and the description of the first thing in a JSON value that JSON cannot carry.

    Args:
        value: The JSON value.
        path: Where it stands.
        depth: How many containers are around it.
    """
    if value is None or value is True or value is False:
        return None
    if isinstance(value, str):
        reason = string_fault(value)
    elif isinstance(value, int):
        reason = None if _SIGNED_MIN <= value <= _UNSIGNED_MAX else "is an integer past 64 bits"
    elif isinstance(value, float):
        reason = None if isfinite(value) else f"is {value}, which JSON cannot carry"
    elif depth >= MAX_DEPTH:
        reason = f"is nested deeper than {MAX_DEPTH} levels"
    elif isinstance(value, dict):
        return _object_fault(value, path, depth)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            fault = json_fault(item, f"{path}[{index}]", depth + 1)
            if fault is not None:
                return fault
        return None
    else:
        reason = f"is of type {type(value).__name__}, for which JSON has no form"
    return None if reason is None else (path, reason)


def _object_fault(value: dict[Any, Any], path: str, depth: int) -> tuple[str, str] | None:
    for key, item in value.items():
        if key.__class__ is not str:  # orjson writes no subclass as a key
            return path, f"has the key {key!r}, which is no plain string"
        reason = string_fault(key)
        if reason is not None:
            return path, f"has a key that {reason}"
        fault = json_fault(item, f"{path}.{key}" if path else key, depth + 1)
        if fault is not None:
            return fault
    return None
