"""Values to JSON and back: ProtoJSON over the A2A 1.0 schema.

The four functions here are what the rest of the package uses. Writing is :mod:`~trio_a2a.wire.encode` and orjson;
reading is orjson, then :mod:`~trio_a2a.wire.decode` (fast, usual forms) and, where that gives up,
:mod:`~trio_a2a.wire.explain` (every form, every fault). These hooks sit on two cattrs converters, one strict and one
tolerant. Through :data:`converter`, the strict one, a program can also structure attrs classes of its own that hold
values of ours.

The rules, in short: members are written in camelCase and read in both spellings; unknown ones are ignored; null is
unset, save in ``Part.data`` and inside Structs; of equal keys the last wins. What is empty is left out, unless it is
REQUIRED or has presence. NaN, infinity, integers past 64 bits and lone surrogates are refused in both directions.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

import orjson
from cattrs import Converter

from ..errors import JSONParseError
from ..types.encodable import check_encodable
from ..types.value import ProtoEnum, Value
from .decode import UNUSUAL, decoder
from .encode import encoder
from .explain import explain
from .rules import READS_DIFFERENTLY

__all__ = ["converter", "from_dict", "from_json", "to_dict", "to_json"]

T = TypeVar("T")


def _is_value(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, Value)


def _is_enum(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, ProtoEnum)


def _value_hook(cls: type[Any], *, strict: bool) -> Any:
    """Make the hook that reads a value class: the fast way first, then the thorough one."""
    fast = decoder(cls)
    thorough_only = not strict and cls in READS_DIFFERENTLY

    def structure(members: Any, _: Any) -> Any:
        if not thorough_only:
            try:
                return fast(members)
            except UNUSUAL:
                pass
        return explain(members, cls, strict=strict)

    return structure


def _converter(*, strict: bool) -> Converter:
    made = Converter()
    made.register_structure_hook_factory(_is_value, lambda cls: _value_hook(cls, strict=strict))
    made.register_unstructure_hook_factory(_is_value, encoder)
    # By class, and more specific than cattrs' own hook for Enum, which it would prefer to one for a predicate.
    made.register_structure_hook(ProtoEnum, lambda name, cls: explain(name, cls, strict=strict))
    made.register_unstructure_hook(ProtoEnum, lambda member: member.value)
    return made


converter: Final = _converter(strict=True)
"""The strict cattrs converter. Its unstructured values share containers with the values they were made from."""

_tolerant: Final = _converter(strict=False)


@cache
def _writer(cls: type[Any]) -> Callable[[Any], Any]:
    """Return the converter's function for a class; found once, because every event is written."""
    if not (_is_value(cls) or _is_enum(cls)):
        raise TypeError(f"to_json writes the values of trio_a2a.types, got {cls.__name__}")
    return converter.get_unstructure_hook(cls)


def to_json(value: Any) -> bytes:
    """Write a value as JSON.

    Args:
        value: An instance of a class of :mod:`trio_a2a.types`.

    Raises:
        TypeError: It is no such instance.
        ValueError: It holds what JSON cannot carry: NaN, infinity, an integer past 64 bits, a key that is no string, a
            lone surrogate. The text names the place.
    """
    cls = value.__class__
    write = _writer(cls)
    try:
        text = orjson.dumps(write(value))
    except orjson.JSONEncodeError:
        text = None
    # orjson writes NaN and infinity as null. A null is rare (a value's own unset members are left out), so only a
    # document that has one, if only in a string, is searched for them.
    if text is None or b"null" in text:
        check_encodable(value)
    if text is None:
        raise ValueError(f"{cls.__name__} cannot be written as JSON")
    return text


def from_json(data: bytes | bytearray | memoryview | str, cls: type[T], *, strict: bool = True) -> T:
    """Read a value from JSON.

    Args:
        data: The JSON text.
        cls: The class of the value, from :mod:`trio_a2a.types`.
        strict: Read as a server does. False: read as a client does, tolerant of what later versions and other SDKs
            write (see :mod:`trio_a2a.wire.explain`).

    Raises:
        JSONParseError: The data is no JSON, or nested too deeply to be read.
        TypeError: The data is neither bytes nor a str, or the class is none of :mod:`trio_a2a.types`.
        InvalidParamsError: It is JSON but no such value; ``violations`` lists every fault.
        UnknownMemberError: Not strict, and the document is a oneof, such as a StreamResponse, without a known member.
    """
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError:
        if not isinstance(data, (bytes, bytearray, memoryview, str)):
            raise TypeError(f"JSON text is bytes or str, got {type(data).__name__}") from None
        raise JSONParseError from None
    return from_dict(content, cls, strict=strict)


def to_dict(value: Any) -> dict[str, Any]:
    """Return a value as a JSON object that shares nothing with it.

    Raises:
        TypeError: It is no instance of a class of :mod:`trio_a2a.types`.
        ValueError: It holds what JSON cannot carry, as for :func:`to_json`.
    """
    # By way of the text: that checks and copies at C speed.
    members: dict[str, Any] = orjson.loads(to_json(value))
    return members


def from_dict(obj: Any, cls: type[T], *, strict: bool = True) -> T:
    """Read a value from a JSON object, which is not kept: later changes to it do not show in the value.

    Args:
        obj: What a JSON parser has made of a JSON object.
        cls: The class of the value, from :mod:`trio_a2a.types`.
        strict: As for :func:`from_json`.

    Raises:
        InvalidParamsError: It is no such value; ``violations`` lists every fault.
        UnknownMemberError: Not strict, and the object is a oneof without a known member.
        TypeError: The class is none of :mod:`trio_a2a.types`.
    """
    if not (_is_value(cls) or _is_enum(cls)):
        raise TypeError(f"the class of a value is one of trio_a2a.types, got {cls!r}")
    return (converter if strict else _tolerant).structure(obj, cls)
