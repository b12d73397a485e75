"""A deadline around a whole test."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec

import trio

__all__ = ["within"]

_P = ParamSpec("_P")


def within(seconds: float) -> Callable[[Callable[_P, Awaitable[None]]], Callable[_P, Awaitable[None]]]:
    """Fail a test that waits longer; with an autojump clock, one that waits for nothing fails at once."""

    def decorate(test: Callable[_P, Awaitable[None]]) -> Callable[_P, Awaitable[None]]:
        @wraps(test)
        async def limited(*args: _P.args, **kwargs: _P.kwargs) -> None:
            with trio.fail_after(seconds):
                await test(*args, **kwargs)

        return limited

    return decorate
