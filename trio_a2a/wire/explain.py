"""JSON objects to values, the thorough way: every form that is allowed, and every fault with its path.

This is the reference for what input means; :mod:`~trio_a2a.wire.decode` reads the usual forms faster. It is a plain
recursive walk over the description of the classes (:mod:`trio_a2a.types.schema`). It goes on after a fault, so that one
answer lists them all; a value is only made where its whole object was right.

Reading is *strict* for a server, which answers every fault with InvalidParams, and *tolerant* for a client, which must
get along with agents of a later minor version and of other SDKs. Tolerant means:

- An unknown enum name or number is UNSPECIFIED.
- A oneof without a known member is skipped: the element of an array or map that it is, or is in, is left out. Where
  there is no such element, it is the whole document, and :exc:`UnknownMemberError` says so.
- A REQUIRED member that may be empty may also be missing: protobuf's JSON leaves out what is empty.
- ``AgentExtension`` entries without ``uri`` are left out; nothing could be done with them.
- ``security`` is read for ``securityRequirements`` on cards and skills, in its form of protocol version 0.3.

More than one member of a oneof, a missing id or a value of the wrong type stay faults.
"""

import re
from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from ..errors import FieldViolation, InvalidParamsError
from ..types import AgentCard, AgentExtension, AgentSkill
from ..types.schema import Field, Kind, Shape, describe
from ..types.struct import MAX_DEPTH
from ..types.value import ProtoEnum, Value
from .rules import INT32_MAX, RANGES, may_be_empty
from .scalars import read_base64, read_timestamp

__all__ = ["MAX_VIOLATIONS", "UnknownMemberError", "explain"]

MAX_VIOLATIONS: Final = 1000
"""How many faults are listed. Without an end, a small body of many wrong elements would make a huge answer."""

_WRONG: Final = object()  # stands for a value that could not be made
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_INT32_DIGITS: Final = 20  # longer numeric strings are not even converted: int() is quadratic
_JSON_TYPES: Final = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


class UnknownMemberError(InvalidParamsError):
    """A tolerant reading met a whole document that is a oneof without a known member.

    A later minor version of the protocol may add such members. A client that reads a stream skips the element.
    """


class _SkippedError(Exception):
    """There is a oneof without a known member: what is around it is left out, up to the next array or map."""


def explain(members: Any, cls: type[Any], *, strict: bool) -> Any:
    """Read a JSON object as a value of the class.

    Raises:
        InvalidParamsError: With every fault.
        UnknownMemberError: In a tolerant reading, the object is a oneof without a known member.
    """
    reader = _Reader(strict=strict)
    try:
        value = reader.root(members, cls)
    except _SkippedError:
        raise UnknownMemberError(
            violations=[FieldViolation("", f"Has none of the known members of {cls.__name__}")]
        ) from None
    if reader.violations:
        raise InvalidParamsError(violations=_in_given_order(reader.violations, members))
    return value


def _in_given_order(violations: list[FieldViolation], members: Any) -> list[FieldViolation]:
    """Return the faults in the order of the document's members, and behind them those of what is missing."""
    if not isinstance(members, dict):
        return violations
    places = {re.sub("_([a-z])", lambda found: found[1].upper(), key): at for at, key in enumerate(members)}
    return sorted(violations, key=lambda fault: places.get(re.split(r"[.\[]", fault.field)[0], len(places)))


class _Reader:
    """One reading of one document. Its methods return the value, or ``_WRONG`` after they have noted why not."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.violations: list[FieldViolation] = []

    def fault(self, path: str, description: str) -> Any:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(FieldViolation(path, description))
        return _WRONG

    def root(self, content: Any, cls: type[Any]) -> Any:
        if issubclass(cls, ProtoEnum):
            return self.enum(content, cls, "")
        return self.message(content, cls, "")

    # --- Objects ----------------------------------------------------------------------------------------------------

    def message(self, content: Any, cls: type[Value], path: str) -> Any:
        if not isinstance(content, dict):
            return self.fault(path, f"Must be an object, got {_type_of(content)}")
        fields = describe(cls)
        known = {field.json_name: field for field in fields} | {field.name: field for field in fields}
        given: dict[str, Any] = {}
        for key, item in content.items():  # of two spellings of one member the last wins, as with equal keys
            field = known.get(key)
            if field is None:
                continue
            if item is None and field.kind is not Kind.VALUE:
                given.pop(field.name, None)
            else:
                given[field.name] = item
        if cls._oneof:
            self.check_oneof(given, cls, path)
        if not self.strict and cls in {AgentCard, AgentSkill} and not given.get("security_requirements"):
            older = content.get("security")
            if isinstance(older, list):
                given["security_requirements"] = [_modern_requirement(entry) for entry in older]
        values: dict[str, Any] = {}
        for field in fields:
            place = f"{path}.{field.json_name}" if path else field.json_name
            if field.name in given:
                values[field.name] = self.member(given[field.name], cls, field, place)
            elif field.required:
                values[field.name] = self.missing(cls, field, place)
        if any(value is _WRONG for value in values.values()) or (cls._oneof and len(given.keys() & {*cls._oneof}) != 1):
            return _WRONG
        return cls(**values)

    def check_oneof(self, given: dict[str, Any], cls: type[Value], path: str) -> None:
        chosen = [field.json_name for field in describe(cls) if field.name in cls._oneof and field.name in given]
        if len(chosen) == 1:
            return
        if not chosen and not self.strict:
            raise _SkippedError
        names = ", ".join(field.json_name for field in describe(cls) if field.name in cls._oneof)
        got = " and ".join(chosen) if chosen else "none"
        self.fault(path, f"Must have exactly one of {names}; got {got}")

    def missing(self, cls: type[Value], field: Field, path: str) -> Any:
        if not self.strict and may_be_empty(cls, field):
            if field.shape is Shape.MAP:
                return {}
            if field.shape is Shape.REPEATED:
                return ()
            return field.type()  # "" or 0
        return self.fault(path, "Is required")

    # --- Members ----------------------------------------------------------------------------------------------------

    def member(self, content: Any, cls: type[Value], field: Field, path: str) -> Any:
        if field.shape is Shape.REPEATED:
            return self.array(content, cls, field, path)
        if field.shape is Shape.MAP:
            return self.map(content, cls, field, path)
        value = self.element(content, cls, field, path)
        if field.required and value is not _WRONG:
            if value == "" and not may_be_empty(cls, field):
                return self.fault(path, "Must not be empty")
            if self.strict and isinstance(value, ProtoEnum) and value.number == 0:
                return self.fault(path, "Must not be unspecified")
        return value

    def array(self, content: Any, cls: type[Value], field: Field, path: str) -> Any:
        if not isinstance(content, list):
            return self.fault(path, f"Must be an array, got {_type_of(content)}")
        if not content and field.required and not may_be_empty(cls, field):
            noun = field.name.rsplit("_", 1)[-1].removesuffix("s")
            return self.fault(path, f"At least one {noun} is required")
        values = []
        for index, item in enumerate(content):
            place = f"{path}[{index}]"
            if item is None:
                values.append(self.fault(place, "Must not be null"))
                continue
            try:
                value = self.element(item, cls, field, place)
            except _SkippedError:
                continue
            if not self.strict and isinstance(value, AgentExtension) and not value.uri:
                continue
            values.append(value)
        return _WRONG if any(value is _WRONG for value in values) else tuple(values)

    def map(self, content: Any, cls: type[Value], field: Field, path: str) -> Any:
        if not isinstance(content, dict):
            return self.fault(path, f"Must be an object, got {_type_of(content)}")
        values = {}
        for key, item in content.items():
            place = f"{path}.{key}"
            if not isinstance(key, str):
                values[key] = self.fault(path, "Must have strings as keys")
            elif item is None:
                values[key] = self.fault(place, "Must not be null")
            else:
                try:
                    values[key] = self.element(item, cls, field, place)
                except _SkippedError:
                    continue
        return _WRONG if any(value is _WRONG for value in values.values()) else values

    def element(self, content: Any, cls: type[Value], field: Field, path: str) -> Any:
        kind = field.kind
        if kind is Kind.MESSAGE:
            return self.message(content, field.type, path)
        if kind is Kind.STRING:
            return content if isinstance(content, str) else self.wrong_type(content, "a string", path)
        if kind is Kind.BOOL:
            return content if isinstance(content, bool) else self.wrong_type(content, "true or false", path)
        if kind is Kind.INT32:
            return self.int32(content, path, RANGES.get((cls, field.name)))
        if kind is Kind.ENUM:
            return self.enum(content, field.type, path)
        if kind is Kind.BYTES:
            return self.scalar(content, read_base64, path)
        if kind is Kind.TIMESTAMP:
            return self.scalar(content, read_timestamp, path)
        if kind is Kind.STRUCT and not isinstance(content, dict):
            return self.wrong_type(content, "an object", path)
        return self.json(content, path, 0)

    # --- Scalars ----------------------------------------------------------------------------------------------------

    def wrong_type(self, content: Any, wanted: str, path: str) -> Any:
        return self.fault(path, f"Must be {wanted}, got {_type_of(content)}")

    def scalar(self, content: Any, read: Callable[[Any], Any], path: str) -> Any:
        try:
            return read(content)
        except ValueError as error:
            return self.fault(path, str(error))

    def int32(self, content: Any, path: str, limits: tuple[int, int] | None) -> Any:
        number = _integer(content)
        if number is None:
            return self.fault(path, "Must be a whole number")
        if not -(2**31) <= number < 2**31:
            return self.fault(path, "Must be a number of 32 bits")
        if limits is None or limits[0] <= number <= limits[1]:
            return number
        low, high = limits
        return self.fault(path, "Must not be negative" if high == INT32_MAX else f"Must be between {low} and {high}")

    def enum(self, content: Any, cls: type[Any], path: str) -> Any:
        number = None if isinstance(content, str) else _integer(content)
        for member in cls:
            if content == member.value or (number is not None and number == member.number):
                return member
        if not isinstance(content, str) and number is None:
            return self.wrong_type(content, f"the name of a {cls.__name__}", path)
        if not self.strict:
            return cls.UNSPECIFIED
        names = ", ".join(member.value for member in cls if member.number)
        noun = re.sub("(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()
        return self.fault(path, f"Unknown {noun}; must be one of {names}")

    def json(self, content: Any, path: str, depth: int) -> Any:
        if content is None or isinstance(content, (str, bool)):
            return content
        if isinstance(content, int):
            return content if -(2**63) <= content < 2**64 else self.fault(path, "Must be a number of 64 bits")
        if isinstance(content, float):
            return content if isfinite(content) else self.fault(path, "Must be a finite number")
        if depth >= MAX_DEPTH:
            return self.fault(path, f"Must not be nested deeper than {MAX_DEPTH} levels")
        if isinstance(content, dict):
            if not all(isinstance(key, str) for key in content):
                return self.fault(path, "Must have strings as keys")
            members = {key: self.json(item, f"{path}.{key}", depth + 1) for key, item in content.items()}
            return _WRONG if any(item is _WRONG for item in members.values()) else members
        if isinstance(content, list):
            items = [self.json(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(content)]
            return _WRONG if any(item is _WRONG for item in items) else items
        return self.fault(path, "Must be a JSON value")


def _type_of(content: Any) -> str:
    if isinstance(content, (int, float)) and not isinstance(content, bool):
        return "a number"
    return _JSON_TYPES.get(type(content), "something that is no JSON value")


def _integer(content: Any) -> int | None:
    """Return a whole number in one of its JSON forms (5, 5.0, "5"); None for everything else."""
    if isinstance(content, str):
        if len(content) > _INT32_DIGITS or not _NUMBER.fullmatch(content):
            return None
        try:
            content = int(content)
        except ValueError:
            content = float(content)
    if isinstance(content, bool):
        return None
    if isinstance(content, int):
        return content
    return int(content) if isinstance(content, float) and content.is_integer() else None


def _modern_requirement(entry: Any) -> Any:
    """Turn ``{"bearer": ["scope"]}`` of version 0.3 into ``{"schemes": {"bearer": {"list": ["scope"]}}}``."""
    if not isinstance(entry, dict) or isinstance(entry.get("schemes"), dict):
        return entry
    return {"schemes": {name: {"list": scopes} for name, scopes in entry.items()}}
