"""Recorded time.

The library knows two kinds of time. *Waiting* (grace periods, idle limits, time-outs, retries) is done on Trio's
clock, through ``trio.current_time()`` and scope deadlines. *Recording* (``TaskStatus.timestamp``, ``finalized_at``)
needs a date, and takes it from a `Clock`. `TrioClock` joins the two: it reads the wall once in each Trio run and then
moves with ``trio.current_time()``, so that a ``MockClock`` drives recorded dates as well as deadlines, and an
adjustment of the system's clock never makes a stored time run backwards within a run.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

import trio

__all__ = ["Clock", "TrioClock"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Wall-clock time at Trio time zero. A run variable: two Trio runs in one process have clocks that share no origin.
# In whole microseconds, so that dates differ by exactly as much as the readings of Trio's clock that they come from.
_wall_at_zero: trio.lowlevel.RunVar[int] = trio.lowlevel.RunVar("trio_a2a.clock.wall_at_zero")


@runtime_checkable
class Clock(Protocol):
    """A source of the dates that are recorded in tasks."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime in UTC."""
        ...


class TrioClock(Clock):
    """The default clock: the wall's date, moved by Trio's clock.

    It is anchored to the wall clock at its first use in each Trio run, by whichever instance asks first, so all
    instances of one run agree. Outside a Trio run ``now()`` raises RuntimeError, as ``trio.current_time()`` does.
    """

    __slots__ = ()

    def now(self) -> datetime:
        """Return the current time as an aware datetime in UTC, with microseconds."""
        elapsed = round(trio.current_time() * 1_000_000)
        try:
            anchor = _wall_at_zero.get()
        except LookupError:
            anchor = time.time_ns() // 1000 - elapsed
            _wall_at_zero.set(anchor)
        return _EPOCH + timedelta(microseconds=anchor + elapsed)
