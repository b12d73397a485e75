"""The bases of all values: enums, what constructors check, and how oneofs answer.

A value is made in two ways. Programs call the constructor, which is checked here: sequences become tuples, mappings
are copied, and a value of the wrong type is refused at once, with the name of the field. The JSON decoder has checked
everything already and fills the slots directly (see ``wire/decode.py``).

The check of scalar fields is generated once a class, as attrs generates ``__init__``: a value is made for every event
of every task, and a chain of class tests on local names costs a fifth of what attrs validators cost. Sequences and
mappings are normalised by attrs converters instead, because type checkers take the type of a constructor's parameter
from the converter: so lists are welcome to them, too.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from operator import attrgetter
from typing import Any, ClassVar, Generic, Self, TypeVar

from .schema import Field, Kind, Shape, describe

__all__ = ["OneOf", "ProtoEnum", "Value", "mapping_of", "sequence_of"]

T = TypeVar("T")
Member = TypeVar("Member")

_INT32_MIN = -(2**31)
_INT32_MAX = 2**31 - 1

_WANTED = {
    Kind.STRING: "a str",
    Kind.BOOL: "a bool",
    Kind.INT32: "an int of 32 bits",
    Kind.BYTES: "bytes",
}


class ProtoEnum(StrEnum):
    """An enum of the protocol. A member is its proto name: ``Role.USER.value == "ROLE_USER"``.

    Attributes:
        number: The proto number.
    """

    number: int

    def __new__(cls, value: str, number: int) -> Self:
        """Make a member from its proto name and number."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.number = number
        return member


class Value:
    """A protocol value: frozen, compared by content, changed through :func:`attrs.evolve`."""

    __slots__ = ("__weakref__",)

    # The names of which exactly one is set; empty where the class has no oneof.
    _oneof: ClassVar[tuple[str, ...]] = ()

    # Gives the fields' values, in their order.
    _values: "ClassVar[attrgetter[tuple[Any, ...]]]"

    @classmethod
    def __attrs_init_subclass__(cls) -> None:
        cls.__attrs_post_init__ = _constructor_check(cls)  # type: ignore[method-assign]
        cls._values = attrgetter(*(field.name for field in describe(cls)), "__class__")

    def __attrs_post_init__(self) -> None:
        """Replaced for each class by its own check; attrs calls it because it is here when the class is made."""

    def __reduce__(self) -> tuple[Any, ...]:
        # What attrs would do for a class with slots is a dict of its names and values, which takes twice as long.
        return _restored, self._values(self)


def _restored(*values: Any) -> Any:
    cls = values[-1]
    return cls(**{field.name: value for field, value in zip(describe(cls), values, strict=False)})


class OneOf(Value, Generic[Member]):
    """A value with exactly one of its members set."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The name of the member that is set."""
        return next(name for name in self._oneof if getattr(self, name) is not None)

    @property
    def value(self) -> Member:
        """The member that is set."""
        member: Member = getattr(self, self.kind)
        return member

    @classmethod
    def of(cls, member: Member) -> Self:
        """Wrap a member, which is put where its type belongs.

        Raises:
            TypeError: The oneof has no member of that type.
        """
        for field in describe(cls):
            if isinstance(member, field.type):
                return cls(**{field.name: member})
        raise TypeError(f"{cls.__name__} has no member of type {type(member).__name__}")


def sequence_of(kind: type[T], values: Any) -> tuple[T, ...]:
    """Return the values as a tuple.

    Raises:
        TypeError: It is no sequence (a str is not taken for one), or an element is of another type.
    """
    if values.__class__ is not tuple:
        if isinstance(values, (str, bytes, bytearray, Mapping)) or not isinstance(values, Iterable):
            raise TypeError(
                f"expected a sequence of {kind.__name__}, got {type(values).__name__}: put it in a list or tuple"
            )
        values = tuple(values)
    # One pass in C finds the usual case; the loop below is for subclasses and for naming the culprit.
    if values and set(map(type, values)) != {kind}:
        for index, value in enumerate(values):
            if not isinstance(value, kind):
                raise TypeError(f"element {index} is to be {kind.__name__}, got {type(value).__name__}")
        if kind is str:
            values = tuple(str.__str__(value) for value in values)
    result: tuple[T, ...] = values
    return result


def mapping_of(kind: type[T], values: Any) -> dict[str, T]:
    """Return a copy of a mapping as a dict.

    Raises:
        TypeError: It is no mapping, a key is no string, or a value is of another type.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"expected a mapping of str to {kind.__name__}, got {type(values).__name__}")
    for key, value in values.items():
        if not isinstance(key, str):
            raise TypeError(f"a key is to be a str, got {type(key).__name__}")
        if not isinstance(value, kind):
            raise TypeError(f"the value of {key!r} is to be {kind.__name__}, got {type(value).__name__}")
    return dict(values)


def _constructor_check(cls: type[Value]) -> Any:
    """Generate the ``__attrs_post_init__`` of a class: a class test a scalar field, and the count of its oneof."""
    lines = ["def __attrs_post_init__(self):"]
    names: dict[str, Any] = {"repair": _repair, "refuse": _refuse_oneof, "int": int, "str": str, "bytes": bytes}
    for position, field in enumerate(describe(cls)):
        # Sequences, mappings, timestamps and JSON values have been through their converters.
        if field.shape is not Shape.SINGULAR or field.kind in {Kind.STRUCT, Kind.VALUE, Kind.TIMESTAMP}:
            continue
        names[f"field_{position}"] = field
        names[f"type_{position}"] = field.type
        lines.append(f"    value = self.{field.name}")
        if field.kind is Kind.BOOL:
            test = "value is not False and value is not True"
        elif field.kind is Kind.INT32:
            test = f"(value.__class__ is not int or not {_INT32_MIN} <= value <= {_INT32_MAX})"
        else:
            test = f"value.__class__ is not type_{position}"
        if field.default is None:
            test = f"value is not None and {test}"
        lines += [f"    if {test}:", f"        repair(self, field_{position}, value)"]
    if cls._oneof:
        unset = {field.name: field.default for field in describe(cls)}
        names["unset"] = unset.get("data")
        tests = [
            f"(self.{name} is not {'None' if unset[name] is None else 'unset'})"  # Part.data: None is JSON null
            for name in cls._oneof
        ]
        lines += [f"    if {' + '.join(tests)} != 1:", "        refuse(self)"]
    if len(lines) == 1:
        lines.append("    pass")
    exec("\n".join(lines), names)  # noqa: S102 - the text is made of the package's own field names
    check = names["__attrs_post_init__"]
    check.__qualname__ = f"{cls.__qualname__}.__attrs_post_init__"
    check.__module__ = cls.__module__
    return check


def _repair(value: Value, field: Field, given: Any) -> None:
    """Accept a subclass of the right type, as a plain value where it is a scalar; refuse everything else."""
    if field.kind is Kind.STRING and isinstance(given, str):
        object.__setattr__(value, field.name, str.__str__(given))
    elif field.kind is Kind.INT32 and isinstance(given, int) and not isinstance(given, bool):
        if not _INT32_MIN <= given <= _INT32_MAX:
            raise ValueError(f"{type(value).__name__}.{field.name} is to be an int of 32 bits, got {given}")
        object.__setattr__(value, field.name, int(given))
    elif field.kind is Kind.BYTES and isinstance(given, (bytes, bytearray, memoryview)):
        object.__setattr__(value, field.name, bytes(given))
    elif field.kind is Kind.MESSAGE and isinstance(given, field.type):
        pass
    else:
        wanted = _WANTED.get(field.kind, field.type.__name__)
        raise TypeError(f"{type(value).__name__}.{field.name} is to be {wanted}, got {type(given).__name__}")


def _refuse_oneof(value: Value) -> None:
    names = value._oneof
    unset = {field.name: field.default for field in describe(type(value))}
    given = [name for name in names if getattr(value, name) is not unset[name]]
    got = " and ".join(given) if given else "none"
    raise ValueError(f"{type(value).__name__} takes exactly one of {', '.join(names)}; got {got}")
