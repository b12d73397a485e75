"""This process's lease: a row that says until when it is known to be alive.

It is renewed each third of its length, so two renewals may fail before it expires. The instants in rows are those of
the store's clock; the waiting is done on Trio's. Two clocks that differ by more than the lease make live processes look
dead; that costs them their tasks, and nothing else, since every commit is compared with what is stored.

The same task looks out for processes whose lease has expired: when the first of the others would, and at each renewal.
"""

import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, final

import trio

from ...beside import running_beside
from ...clock import Clock
from ...errors import StoreError
from .database import Database
from .orphans import look_out, register, remove, renew
from .schema import from_micros, to_micros

__all__ = ["Lease", "holding_lease"]

_logger = logging.getLogger("trio_a2a.stores")

_RENEWALS: Final = 3
"""Renewals in the length of a lease."""
_TRIES: Final = 4
"""After a renewal that has failed the next one comes so many times sooner."""
_SHORTEST_WAIT: Final = 0.01
"""Seconds before a look-out is repeated, should the store's clock be a little behind Trio's."""


@final
class Lease:
    """Keeps a process's row. Made by `holding_lease`.

    Args:
        database: Where the row is.
        process_id: The process.
        clock: Where the instants come from.
        seconds: The length of the lease.
        looks_out: Whether it looks for processes that are gone.
    """

    def __init__(self, database: Database, process_id: str, clock: Clock, seconds: float, *, looks_out: bool) -> None:
        self._database = database
        self._process_id = process_id
        self._clock = clock
        self._length = timedelta(seconds=seconds)
        self._interval = seconds / _RENEWALS
        self._looks_out = looks_out
        self._renew_at = math.inf
        self._orphans = trio.Event()
        # What was left behind before this process began has still to be looked for.
        self._orphans.set()

    @property
    def now(self) -> int:
        """The store's time, in microseconds."""
        return to_micros(self._clock.now())

    async def wait_for_orphans(self) -> None:
        """Return when there may be orphans that were not there the last time.

        Cancellation: a checkpoint; nothing is lost when it is cancelled.
        """
        await self._orphans.wait()
        self._orphans = trio.Event()

    async def begin(self) -> None:
        """Write the row. Before it is there, nothing of this process may be written.

        Raises:
            StoreError: It could not be written.

        Cancellation: a checkpoint; the row may then be there or not.
        """
        self._renew_at = trio.current_time() + self._interval
        instants = self._instants()
        await self._database.writer.do(lambda connection: register(connection, self._process_id, **instants))

    async def keep(self) -> None:
        """Renew the lease until cancelled."""
        while True:
            await trio.sleep_until(min(self._renew_at, await self._next_look()))
            if trio.current_time() >= self._renew_at:
                self._renew_at = await self._renew()

    async def end(self, timeout: float) -> None:
        """Remove the row; otherwise it expires.

        Args:
            timeout: Seconds that it may take.

        Cancellation: a checkpoint; shielded for the time-out.
        """
        with trio.move_on_after(timeout, shield=True) as budget:
            try:
                await self._database.writer.do(lambda connection: remove(connection, self._process_id))
            except StoreError as error:
                _logger.warning("the lease of this process could not be given up, and will expire: %s", error)
        if budget.cancelled_caught:
            _logger.warning("the lease of this process was not given up within %s s", timeout)

    def _instants(self) -> dict[str, int]:
        now = self._clock.now()
        return {"now": to_micros(now), "expires": to_micros(now + self._length)}

    async def _renew(self) -> float:
        """Renew the lease; return when to do it again, on Trio's clock."""
        started = trio.current_time()
        instants = self._instants()
        try:
            had_one = await self._database.writer.do(lambda connection: renew(connection, self._process_id, **instants))
        except StoreError as error:
            _logger.warning("the lease of this process could not be renewed, and is tried again: %s", error)
            return trio.current_time() + self._interval / _TRIES
        if not had_one:
            _logger.warning(
                "this process was taken for dead: it could not renew its lease of %s s in time, and tasks that it "
                "worked on may have been taken over by others",
                self._length.total_seconds(),
            )
        return started + self._interval

    async def _next_look(self) -> float:
        """Look for orphans; return when there may be more, on Trio's clock, if that is before the next renewal."""
        if not self._looks_out:
            return math.inf
        looked_at, now = trio.current_time(), self._clock.now()
        try:
            outlook = await self._database.read(look_out, self._process_id, to_micros(now))
        except StoreError as error:
            _logger.warning("tasks of dead processes could not be looked for: %s", error)
            return math.inf
        if outlook.has_orphans:
            self._orphans.set()
        if outlook.next_expiry is None:
            return math.inf
        left = (from_micros(outlook.next_expiry) - now).total_seconds()
        return looked_at + max(left, _SHORTEST_WAIT)


@asynccontextmanager
async def holding_lease(
    database: Database, process_id: str, clock: Clock, seconds: float, *, looks_out: bool, close_timeout: float
) -> AsyncIterator[Lease]:
    """Hold a lease for the length of a block.

    Args:
        database: Where it is written.
        process_id: The process that holds it.
        clock: Where its instants come from.
        seconds: Its length.
        looks_out: Whether processes that are gone are looked for.
        close_timeout: Seconds for giving it up when the block is left.

    Raises:
        StoreError: The row could not be written at the beginning.

    Cancellation: entering is a checkpoint. Leaving is shielded for ``close_timeout``.
    """
    lease = Lease(database, process_id, clock, seconds, looks_out=looks_out)
    try:
        await lease.begin()
        async with running_beside(lease.keep, name="lease of the SQL store"):
            yield lease
    finally:
        await lease.end(close_timeout)
