"""Values to JSON objects: one generated function a class.

Such a function makes the dict that orjson then writes, in the way one would write it by hand: the REQUIRED members in
one dict display, then one test for each other member, in the three kinds of omission. A field without presence is left
out when it is empty, one with presence when it is None (:data:`~trio_a2a.types.UNSET` for ``Part.data``).

cattrs' own generated functions know the same rules (``omit_if_default``) but dispatch through a hook for every member;
that is nearly twice the time. An event is written once, however many read it, but it is written for every event.

The dicts share the containers of the value's metadata and data. They are for writing and then dropping: to give one
away, :func:`trio_a2a.wire.to_dict` copies.
"""

from collections.abc import Callable
from typing import Any

from ..types import UNSET
from ..types.schema import Field, Kind, Shape, describe
from .scalars import write_base64, write_timestamp

__all__ = ["encoder"]

Encoder = Callable[[Any], dict[str, Any]]

_encoders: dict[type, Encoder] = {}


def encoder(cls: type[Any]) -> Encoder:
    """Return the function that makes the JSON object of a value of this class."""
    found = _encoders.get(cls)
    return _generate(cls) if found is None else found


def _generate(cls: type[Any]) -> Encoder:
    names: dict[str, Any] = {"UNSET": UNSET, "write_base64": write_base64, "write_timestamp": write_timestamp}
    fields = describe(cls)
    lines = ["def encode(value):"]
    if cls._oneof:
        # Exactly one is set, so the first that is found is all. None of these classes has REQUIRED fields.
        for position, field in enumerate(field for field in fields if field.name in cls._oneof):
            lines += [
                f"    {'elif' if position else 'if'} (x := value.{field.name}) is not {_unset(field)}:",
                f'        members = {{"{field.json_name}": {_expression(field, "x", names)}}}',
            ]
    else:
        required = [field for field in fields if field.required]
        display = ", ".join(
            f'"{field.json_name}": {_expression(field, f"value.{field.name}", names)}' for field in required
        )
        lines.append(f"    members = {{{display}}}")
    for field in fields:
        if field.required or field.name in cls._oneof:
            continue
        test = f"x is not {_unset(field)}" if field.presence else "x.number" if field.kind is Kind.ENUM else "x"
        lines += [
            f"    x = value.{field.name}",
            f"    if {test}:",
            f'        members["{field.json_name}"] = {_expression(field, "x", names)}',
        ]
    lines.append("    return members")
    exec("\n".join(lines), names)  # noqa: S102 - the text is made of the package's own field names
    function: Encoder = names["encode"]
    _encoders[cls] = function
    return function


def _unset(field: Field) -> str:
    return "UNSET" if field.kind is Kind.VALUE else "None"


def _expression(field: Field, name: str, names: dict[str, Any]) -> str:
    """Return the text of the expression that makes the JSON form of a member."""
    if field.kind is Kind.MESSAGE:
        write = f"write_{field.name}"
        names[write] = encoder(field.type)
        if field.shape is Shape.REPEATED:
            return f"[{write}(item) for item in {name}]"
        if field.shape is Shape.MAP:
            return f"{{key: {write}(item) for key, item in {name}.items()}}"
        return f"{write}({name})"
    if field.kind is Kind.ENUM:
        return f"{name}._value_"  # without the descriptor of `.value`
    if field.kind is Kind.BYTES:
        return f"write_base64({name})"
    if field.kind is Kind.TIMESTAMP:
        return f"write_timestamp({name})"
    return name
