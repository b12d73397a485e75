"""Recorded time."""

import time
from datetime import UTC, datetime, timedelta

import pytest
import trio
import trio.testing

from trio_a2a.clock import Clock, TrioClock


@pytest.mark.requirement("S4-TIME")
async def test_the_clock_begins_at_the_walls_date_and_moves_with_trios_clock(
    mock_clock: trio.testing.MockClock,
) -> None:
    first = TrioClock().now()
    assert first.tzinfo is UTC
    assert abs(first - datetime.now(UTC)) < timedelta(seconds=5)
    mock_clock.jump(3600)
    assert TrioClock().now() - first == timedelta(hours=1)


@pytest.mark.requirement("S4-TIME")
async def test_all_clocks_of_one_run_agree(mock_clock: trio.testing.MockClock) -> None:
    one, two = TrioClock(), TrioClock()
    first = one.now()
    mock_clock.jump(0.25)
    assert two.now() - first == timedelta(seconds=0.25)


@pytest.mark.requirement("S4-TIME", "S1-DETERMINISTIC")
async def test_dates_differ_by_exactly_as_much_as_the_readings_of_trios_clock(
    mock_clock: trio.testing.MockClock,
) -> None:
    """To the microsecond, whatever the wall said: so a grace period ends exactly at its end."""
    clock = TrioClock()
    origin = clock.now() - timedelta(microseconds=round(trio.current_time() * 1_000_000))
    for step in (0.1, 0.2, 0.000001, 0.3333, 15.0, 0.7, 1e5, 0.123456):
        mock_clock.jump(step)
        assert clock.now() - origin == timedelta(microseconds=round(trio.current_time() * 1_000_000))


@pytest.mark.requirement("S4-TIME")
def test_each_run_reads_the_wall_anew() -> None:
    async def now() -> datetime:
        return TrioClock().now()

    async def long_run() -> datetime:
        TrioClock().now()
        await trio.sleep(86_000)
        return TrioClock().now()

    later = trio.run(long_run, clock=trio.testing.MockClock(autojump_threshold=0))
    fresh = trio.run(now, clock=trio.testing.MockClock())
    assert later - fresh > timedelta(hours=23)
    assert abs(fresh.timestamp() - time.time()) < 5


@pytest.mark.requirement("S4-TIME")
def test_outside_a_trio_run_there_is_no_time() -> None:
    with pytest.raises(RuntimeError):
        TrioClock().now()
    assert isinstance(TrioClock(), Clock)
