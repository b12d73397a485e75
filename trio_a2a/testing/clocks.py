"""The suite for clocks."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import trio

from ..clock import Clock

__all__ = ["check_clock"]

_READINGS = 100


async def check_clock(clock: Clock, *, advance: Callable[[float], Awaitable[object]] = trio.sleep) -> None:
    """Check that a clock meets the obligations of `Clock`.

    Args:
        clock: What is checked.
        advance: ``await advance(seconds)`` moves the clock by that much, or lets so much time pass.

    Raises:
        AssertionError: The clock breaks an obligation; the text says which.
    """
    first = clock.now()
    assert isinstance(first, datetime), "now() returns a datetime"
    assert first.utcoffset() == timedelta(0), "now() returns an aware datetime in UTC"
    last = first
    for _ in range(_READINGS):
        reading = clock.now()
        assert reading >= last, "the clock does not run backwards"
        last = reading
    await advance(0.01)
    assert clock.now() > first, "the clock moves on"
