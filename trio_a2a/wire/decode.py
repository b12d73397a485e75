"""JSON objects to values, the fast way: one generated function a class, for input in its usual form.

A document is read at most twice. First by the functions of this module. They are optimistic: every member under its
JSON name, in its usual form, nothing null; they check all that the rules ask for, but at the first thing that is
unusual or wrong they raise, without saying what it was. Only then :mod:`~trio_a2a.wire.explain` reads the document
again, knows every form that is allowed, and collects every fault with its path. So that module says what is right, and
this one is an optimisation of it: where both give a value, it is the same value.

Why not cattrs' generated functions: constructors alone cost more than all of this. A frozen attrs class sets each of
its slots through ``object.__setattr__``. Here an instance is built as a *draft*, of a plain class with the same slots,
whose attributes are set by the interpreter's specialised store; then the draft's ``__class__`` becomes the value class,
which Python allows between classes of the same layout. From that moment it is frozen. The constructor's checks are not
missed: the generated function has just made them.

Members are looked up by name and counted. What is left over is either unknown, and ignored, or a known member under its
proto name, or a second member of a oneof: the last two are the other decoder's.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any

from ..types import UNSET
from ..types.schema import Field, Kind, Shape, describe
from ..types.struct import MAX_DEPTH
from .rules import INT32_MAX, RANGES, may_be_empty
from .scalars import read_base64, read_timestamp

__all__ = ["UNUSUAL", "decoder"]

Decoder = Callable[[Any], Any]


class _UnusualError(Exception):
    """The document is to be read by the other decoder."""


UNUSUAL = (_UnusualError, KeyError, TypeError, ValueError)
"""What a function of :func:`decoder` raises on input that is not in its usual form."""

_decoders: dict[type, Decoder] = {}


def decoder(cls: type[Any]) -> Decoder:
    """Return the function that reads the JSON object of a value of this class."""
    found = _decoders.get(cls)
    return _generate(cls) if found is None else found


def _json(value: Any, depth: int = 0) -> Any:
    """Return a copy of a JSON value, checked."""
    kind = value.__class__
    if kind is str or value is None or kind is bool:
        return value
    if kind is int:
        if -(2**63) <= value < 2**64:
            return value
    elif kind is float:
        if isfinite(value):
            return value
    elif depth < MAX_DEPTH:
        inner = depth + 1
        if kind is dict:
            for key in value:
                if key.__class__ is not str:
                    raise _UnusualError
            return {key: item if item.__class__ is str else _json(item, inner) for key, item in value.items()}
        if kind is list:
            return [item if item.__class__ is str else _json(item, inner) for item in value]
    raise _UnusualError


def _generate(cls: type[Any]) -> Decoder:
    fields = describe(cls)
    oneof: tuple[str, ...] = cls._oneof
    names: dict[str, Any] = {
        "cls": cls,
        "UNSET": UNSET,
        "UnusualError": _UnusualError,
        "read_json": _json,
        "read_base64": read_base64,
        "read_timestamp": read_timestamp,
        # The layout of a class is decided by its bases and slots, so the draft has the same.
        "Draft": type(f"{cls.__name__}Draft", cls.__bases__, {"__slots__": cls.__slots__}),
    }
    required = [field for field in fields if field.required]
    lines = [
        "def decode(members):",
        "    if members.__class__ is not dict: raise UnusualError",
        f"    left = len(members) - {len(required)}",
        "    value = Draft()",
    ]
    for field in required:
        lines += [f'    x = members["{field.json_name}"]', *_take(cls, field, names, "    ")]
    if oneof:
        choice = {field.name: field for field in fields if field.name in oneof}
        for position, name in enumerate(oneof):
            lines.append(f'    {"elif" if position else "if"} "{choice[name].json_name}" in members:')
            lines.append(f'        x = members["{choice[name].json_name}"]; left -= 1')
            lines += _take(cls, choice[name], names, "        ")
            lines += [f"        value.{other} = {_default(choice[other])}" for other in oneof if other != name]
        lines.append("    else: raise UnusualError")
    optional = [field for field in fields if not field.required and field.name not in oneof]
    # Identifiers are nearly always there, the rest seldom: so it is asked once whether any of the rest is there.
    always = 0
    while always < len(optional) and optional[always].kind is Kind.STRING and not oneof:
        always += 1
    for field in optional[:always]:
        lines += _take_optional(cls, field, names, "    ")
    if optional[always:]:
        lines.append("    if left:")
        for field in optional[always:]:
            lines += _take_optional(cls, field, names, "        ")
        lines.append("    else:")
        lines += [f"        value.{field.name} = {_default(field)}" for field in optional[always:]]
    # What is left must be unknown: no proto name of ours, and no second member of the oneof.
    suspects = {field.name for field in fields if field.name != field.json_name}
    if oneof:
        suspects |= {field.json_name for field in fields if field.name in oneof}
    names["suspects"] = frozenset(suspects)
    lines += [
        f"    if left and sum([key in suspects for key in members]) != {1 if oneof else 0}: raise UnusualError",
        "    value.__class__ = cls",
        "    return value",
    ]
    exec("\n".join(lines), names)  # noqa: S102 - the text is made of the package's own field names
    function: Decoder = names["decode"]
    _decoders[cls] = function
    return function


def _default(field: Field) -> str:
    """Return the text of a field's default."""
    if field.kind is Kind.VALUE:
        return "UNSET"
    return f"default_{field.name}" if field.kind is Kind.ENUM else repr(field.default)


def _take_optional(cls: type[Any], field: Field, names: dict[str, Any], indent: str) -> list[str]:
    names[f"default_{field.name}"] = field.default
    return [
        f'{indent}if "{field.json_name}" in members:',
        f'{indent}    x = members["{field.json_name}"]; left -= 1',
        *_take(cls, field, names, indent + "    "),
        f"{indent}else: value.{field.name} = {_default(field)}",
    ]


def _take(cls: type[Any], field: Field, names: dict[str, Any], indent: str) -> list[str]:
    """Return the lines that check the member ``x`` and store it."""
    store = f"{indent}value.{field.name} = "
    refuse = "raise UnusualError"
    read = f"read_{field.name}"
    if field.kind is Kind.MESSAGE:
        names[read] = decoder(field.type)
    if field.shape is Shape.REPEATED:
        empty = " or not x" if field.required and not may_be_empty(cls, field) else ""
        lines = [f"{indent}if x.__class__ is not list{empty}: {refuse}"]
        if field.kind is Kind.MESSAGE:
            return [*lines, f"{store}tuple([{read}(item) for item in x])"]
        return [
            *lines,
            f"{indent}for item in x:",
            f"{indent}    if item.__class__ is not str: {refuse}",
            f"{store}tuple(x)",
        ]
    if field.shape is Shape.MAP:
        is_message = field.kind is Kind.MESSAGE
        wrong = "key.__class__ is not str" + ("" if is_message else " or item.__class__ is not str")
        return [
            f"{indent}if x.__class__ is not dict: {refuse}",
            f"{indent}for key, item in x.items():",
            f"{indent}    if {wrong}: {refuse}",
            store + (f"{{key: {read}(item) for key, item in x.items()}}" if is_message else "x.copy()"),
        ]
    if field.kind is Kind.MESSAGE:
        return [f"{store}{read}(x)"]
    if field.kind is Kind.ENUM:
        members: Any = field.type
        names[f"members_{field.name}"] = {
            member.value: member for member in members if member.number or not field.required
        }
        return [f"{store}members_{field.name}[x]"]
    if field.kind is Kind.STRUCT:
        return [f"{indent}if x.__class__ is not dict: {refuse}", f"{store}read_json(x)"]
    if field.kind is Kind.VALUE:
        return [f"{store}read_json(x)"]
    if field.kind in {Kind.BYTES, Kind.TIMESTAMP}:
        return [f"{store}read_{'base64' if field.kind is Kind.BYTES else 'timestamp'}(x)"]
    if field.kind is Kind.BOOL:
        test = "x is not True and x is not False"
    elif field.kind is Kind.INT32:
        low, high = RANGES.get((cls, field.name), (-(2**31), INT32_MAX))
        test = f"x.__class__ is not int or not {low} <= x <= {high}"
    else:
        empty = " or not x" if field.required and not may_be_empty(cls, field) else ""
        test = f"x.__class__ is not str{empty}"
    return [f"{indent}if {test}: {refuse}", f"{store}x"]
