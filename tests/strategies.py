"""Hypothesis strategies for every value of the protocol, made from the description of its class.

``values(Task)`` gives tasks that a well-behaved program could send: their JSON form is valid by the emit schema.
``values(Task, rich=False)`` keeps JSON content small, for tests of something else.
"""

from datetime import UTC, datetime
from functools import cache
from typing import Any

from hypothesis import strategies as st

from trio_a2a import types
from trio_a2a.types.schema import Field, Kind, Shape, describe
from trio_a2a.types.value import OneOf, Value

VALUE_CLASSES: tuple[type[Value], ...] = tuple(
    sorted(
        (
            cls
            for cls in vars(types).values()
            if isinstance(cls, type) and issubclass(cls, Value) and cls not in (Value, OneOf)
        ),
        key=lambda cls: cls.__name__,
    )
)

# A lone surrogate is no text (tests of their own), and NUL is text.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
timestamps = st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
json_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
structs = st.dictionaries(texts, json_values, max_size=3)
small_structs = st.dictionaries(texts, json_scalars, max_size=2)

# What the emit schema asks for beyond the types.
_SPECIAL: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("AgentInterface", "protocol_version"): st.sampled_from(["0.3", "1.0", "1.1"]),
    ("APIKeySecurityScheme", "location"): st.sampled_from(["query", "header", "cookie"]),
    ("ListTasksRequest", "page_size"): st.none() | st.integers(1, 100),
}


def _one(field: Field, rich: bool) -> st.SearchStrategy[Any]:
    if field.kind is Kind.MESSAGE:
        return values(field.type, rich=rich)
    if field.kind is Kind.ENUM:
        members: Any = field.type
        return st.sampled_from([member for member in members if member.number or not field.required])
    return {
        Kind.STRING: texts.filter(bool) if field.required and field.shape is Shape.SINGULAR else texts,
        Kind.BOOL: st.booleans(),
        Kind.INT32: st.integers(0, 2**31 - 1),
        Kind.BYTES: st.binary(max_size=8),
        Kind.TIMESTAMP: timestamps,
        Kind.STRUCT: structs if rich else small_structs,
        Kind.VALUE: json_values if rich else json_scalars,
    }[field.kind]


def _field(cls: type[Value], field: Field, rich: bool) -> st.SearchStrategy[Any]:
    special = _SPECIAL.get((cls.__name__, field.name))
    if special is not None:
        return special
    one = _one(field, rich)
    if field.shape is Shape.REPEATED:
        empty = not field.required or field.name == "tasks"
        return st.lists(one, min_size=0 if empty else 1, max_size=2).map(tuple)
    if field.shape is Shape.MAP:
        return st.dictionaries(texts, one, max_size=2)
    if field.default is None:
        return st.none() | one
    return one if field.required else st.just(field.default) | one


@cache
def values(cls: type[Value], *, rich: bool = True) -> st.SearchStrategy[Any]:
    """Values of a class."""
    members = {field.name: _field(cls, field, rich) for field in describe(cls) if field.name not in cls._oneof}
    if not cls._oneof:
        return st.builds(cls, **members)
    chosen = {field.name: _one(field, rich) for field in describe(cls) if field.name in cls._oneof}
    return st.one_of([st.builds(cls, **members, **{name: choice}) for name, choice in chosen.items()])


an_instant = datetime(2026, 3, 14, 9, 2, 1, 900_000, tzinfo=UTC)
