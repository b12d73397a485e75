"""Can a value be written as JSON? Asked before an event is stored, and when encoding has failed.

A value may hold what JSON cannot carry: NaN or infinity, an integer past 64 bits, a key that is no string, a string
with a lone surrogate. :func:`check_encodable` refuses such a value and names the place. It runs for every event that is
queued, so the usual answer, yes, comes from a test that is generated once a class and allocates nothing; only a no is
searched for its place.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any

from .schema import Kind, Shape, describe
from .struct import MAX_DEPTH, json_fault, string_fault
from .value import Value

__all__ = ["check_encodable"]

_tests: dict[type, Callable[[Any], bool]] = {}


def check_encodable(value: Value) -> None:
    """Refuse a value that JSON cannot carry.

    Raises:
        ValueError: It cannot be written as JSON; the text names the first place, in wire spelling.
    """
    cls = type(value)
    test = _tests.get(cls) or _make_test(cls)
    if not test(value):
        path, reason = _first_fault(value, "") or ("", "cannot be written as JSON")
        raise ValueError(f"{cls.__name__}{'.' if path else ''}{path} {reason}")


def _first_fault(value: Value, path: str) -> tuple[str, str] | None:
    for field in describe(type(value)):
        content = getattr(value, field.name)
        place = f"{path}.{field.json_name}" if path else field.json_name
        if field.shape is Shape.MAP:
            entries = [(f"{place}.{key}", entry) for key, entry in content.items()]
            reason = next(filter(None, map(string_fault, content)), None)
            if reason is not None:
                return place, f"has a key that {reason}"
        elif field.shape is Shape.REPEATED:
            entries = [(f"{place}[{index}]", entry) for index, entry in enumerate(content)]
        else:
            entries = [(place, content)] if content is not None and content is not field.default else []
        for where, entry in entries:
            if field.kind is Kind.MESSAGE:
                fault = _first_fault(entry, where)
            elif field.kind in {Kind.STRING, Kind.STRUCT, Kind.VALUE}:
                fault = json_fault(entry, where)
            else:
                fault = None
            if fault is not None:
                return fault
    return None


def _carries(value: Any, depth: int = 0) -> bool:
    """Tell whether JSON carries a Struct or Value: :func:`json_fault` without the place."""
    kind = value.__class__
    if kind is str:
        return string_fault(value) is None
    if value is None or kind is bool:
        return True
    if kind is int:
        return bool(-(2**63) <= value < 2**64)
    if kind is float:
        return isfinite(value)
    if depth >= MAX_DEPTH:
        return False
    if kind is dict:
        for key, item in value.items():
            if key.__class__ is not str or string_fault(key) is not None:
                return False
            if not _carries(item, depth + 1):
                return False
        return True
    if kind is list:
        return all(_carries(item, depth + 1) for item in value)
    return json_fault(value, "", depth) is None


def _make_test(cls: type[Value]) -> Callable[[Any], bool]:
    names: dict[str, Any] = {"carries": _carries}
    lines = ["def test(value):"]
    for field in describe(cls):
        name = field.name
        if field.kind is Kind.STRING:
            holds = "({0}.isascii() or carries({0}))"
        elif field.kind is Kind.MESSAGE:
            names[f"test_{name}"] = _tests.get(field.type) or _make_test(field.type)
            holds = f"test_{name}({{0}})"
        elif field.kind in {Kind.STRUCT, Kind.VALUE}:
            holds = "carries({0})"
        else:
            continue
        lines.append(f"    x = value.{name}")
        if field.shape is Shape.REPEATED:
            lines += ["    for y in x:", f"        if not {holds.format('y')}: return False"]
        elif field.shape is Shape.MAP:
            lines += [
                "    for k, y in x.items():",
                f"        if not carries(k) or not {holds.format('y')}: return False",
            ]
        else:
            names[f"unset_{name}"] = field.default
            guard = f"x is not unset_{name} and " if field.presence and not field.required else ""
            lines.append(f"    if {guard}not {holds.format('x')}: return False")
    lines.append("    return True")
    exec("\n".join(lines), names)  # noqa: S102 - the text is made of the package's own field names
    test: Callable[[Any], bool] = names["test"]
    _tests[cls] = test
    return test
