"""What a value class says about its wire form, read from its annotations and defaults.

The classes are written so that nothing has to be said twice:

==============================  ==============================================================
annotation                      proto type
==============================  ==============================================================
``str bool int bytes``          string, bool, int32, bytes
an enum, a value class          that enum, that message
``datetime``                    google.protobuf.Timestamp
``dict[str, Any]``              google.protobuf.Struct
``Any``                         google.protobuf.Value
``tuple[X, ...]``               repeated X
``dict[str, X]``                map<string, X>
==============================  ==============================================================

A field without a default is REQUIRED; one whose default is None (or :data:`~trio_a2a.types.UNSET`) has explicit
presence; any other default is the proto default of a field without presence. :func:`describe` reads this once a class.
The constructors' checks, the check before encoding and the JSON codec are made from it.
"""

from datetime import datetime
from enum import Enum, auto
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import attrs

__all__ = ["Field", "Kind", "Shape", "describe", "json_name"]


class Kind(Enum):
    """The proto type of a field, or of the elements of a repeated field or map."""

    STRING = auto()
    BOOL = auto()
    INT32 = auto()
    BYTES = auto()
    ENUM = auto()
    MESSAGE = auto()
    TIMESTAMP = auto()
    STRUCT = auto()
    VALUE = auto()


class Shape(Enum):
    """How many there are."""

    SINGULAR = auto()
    REPEATED = auto()
    MAP = auto()


_SCALARS = {str: Kind.STRING, bool: Kind.BOOL, int: Kind.INT32, bytes: Kind.BYTES, datetime: Kind.TIMESTAMP}
_ALWAYS_PRESENCE = frozenset({Kind.MESSAGE, Kind.TIMESTAMP, Kind.STRUCT, Kind.VALUE})


@attrs.frozen(kw_only=True)
class Field:
    """One field of a value class.

    Attributes:
        name: The proto name, which is the attribute's name.
        json_name: The name of the JSON member.
        kind: The proto type (of an element, where the shape is not singular).
        type: The Python class of that type: the enum, the value class, ``str`` and so on.
        shape: Singular, repeated or map.
        required: It is REQUIRED, so it has no default.
        presence: Set and unset differ, also where the value is the type's default.
        default: The default; ``attrs.NOTHING`` for a required field.
    """

    name: str
    json_name: str
    kind: Kind
    type: type
    shape: Shape
    required: bool
    presence: bool
    default: Any


def json_name(name: str) -> str:
    """Return the JSON name of a proto name: ``message_id`` becomes ``messageId``."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def _element(annotation: Any) -> tuple[Kind, type]:
    if annotation is Any:
        return Kind.VALUE, object
    if annotation in _SCALARS:
        return _SCALARS[annotation], annotation
    if issubclass(annotation, Enum):
        return Kind.ENUM, annotation
    return Kind.MESSAGE, annotation


def _field(attribute: "attrs.Attribute[Any]") -> Field:
    annotation: Any = attribute.type
    if get_origin(annotation) is UnionType:
        (annotation,) = (arm for arm in get_args(annotation) if arm is not NoneType)
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    shape = Shape.SINGULAR
    if origin is tuple:
        shape = Shape.REPEATED
        kind, cls = _element(arguments[0])
    elif origin is dict and arguments[1] is Any:
        kind, cls = Kind.STRUCT, dict
    elif origin is dict:
        shape = Shape.MAP
        kind, cls = _element(arguments[1])
    else:
        kind, cls = _element(annotation)
    default = attribute.default
    if shape is Shape.MAP and default is not attrs.NOTHING:
        default = {}  # attrs holds the factory
    return Field(
        name=attribute.name,
        json_name=json_name(attribute.name),
        kind=kind,
        type=cls,
        shape=shape,
        required=default is attrs.NOTHING,
        presence=shape is Shape.SINGULAR and (kind in _ALWAYS_PRESENCE or default is None),
        default=default,
    )


_described: dict[type, tuple[Field, ...]] = {}


def describe(cls: type[Any]) -> tuple[Field, ...]:
    """Return the fields of a value class, in their order."""
    fields = _described.get(cls)
    if fields is None:
        fields = _described[cls] = tuple(_field(attribute) for attribute in attrs.fields(cls))
    return fields
