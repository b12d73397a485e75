"""What a program gives the client, checked before anything is done with it.

A text is a sequence of texts to Python, so one in place of several would go out letter by letter; and what is used only
later would fail far from where it was given.
"""

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .auth import Auth
from .interceptors import Interceptor

__all__ = ["auths_of", "headers_of", "interceptors_of", "seconds_of", "texts_of", "transports_of"]


def texts_of(given: Any, name: str) -> tuple[str, ...]:
    """Return several texts.

    Raises:
        TypeError: They are not, or it is one text.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is a sequence of texts, such as [{given!r}], not {given!r}")
    found = tuple(given)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{name} is a sequence of texts, not {one!r} among them")
    return found


def transports_of(given: Any) -> Sequence[str]:
    """Return the names of bindings, which stay the object that was given.

    Raises:
        TypeError: They are no sequence of texts.
        ValueError: There is none.
    """
    if not isinstance(given, Sequence):
        raise TypeError(f"transports is a sequence of names, such as ('JSONRPC',), not {given!r}")
    if not texts_of(given, "transports"):
        raise ValueError("transports names no binding; leave it out for all that the client speaks")
    found: Sequence[str] = given
    return found


def seconds_of(given: Any, name: str, *, positive: bool = False) -> float:
    """Return seconds; None is infinity.

    Args:
        given: The number.
        name: Its name.
        positive: It cannot be 0.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative, or not a number of seconds at all.
    """
    if given is None:
        return math.inf
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise TypeError(f"{name} is a number of seconds, not {given!r}")
    if not (given > 0 if positive else given >= 0):
        least = "more than 0" if positive else "0 or more"
        raise ValueError(f"{name} is {least} seconds, not {given!r}")
    return float(given)


def headers_of(given: Any) -> dict[str, str]:
    """Return headers, their names in lower case.

    Raises:
        TypeError: It is no mapping of texts; the values, which may be secrets, are not shown.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"headers is a mapping of names to values, not a {type(given).__name__}")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"headers is a mapping of texts to texts; {name!r} is a {type(value).__name__}")
    return {name.lower(): value for name, value in given.items()}


def auths_of(given: Any) -> tuple[Auth, ...]:
    """Return all credentials, whichever way they were given.

    Raises:
        TypeError: There is something else among them; it may be a secret, and is not shown.
    """
    if given is None:
        return ()
    several = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    found = tuple(given.values()) if isinstance(given, Mapping) else tuple(given) if several else (given,)
    for one in found:
        if inspect.isclass(one) or not isinstance(one, Auth):
            what = f"the class {one.__name__}" if inspect.isclass(one) else f"a {type(one).__name__}"
            raise TypeError(f"auth is an Auth such as BearerAuth(token), several, or a mapping to them; not {what}")
    return found


def interceptors_of(given: Any) -> tuple[Interceptor, ...]:
    """Return interceptors.

    Raises:
        TypeError: There is something else among them.
    """
    if not isinstance(given, Iterable):
        raise TypeError(f"interceptors is a sequence of them, such as [{given!r}]")
    found = tuple(given)
    for one in found:
        methods = (getattr(one, "before", None), getattr(one, "after", None))
        if inspect.isclass(one) or not all(map(callable, methods)):
            raise TypeError(f"an interceptor is an object with async methods before and after, not {one!r}")
    return found
