"""What a task's processor has yet to take, and the permits that bound it.

A memory channel with one reader, made for this place: every live task has one, and half of what a short task would pay
for a channel of Trio's is for making and closing its two ends. A producer takes a permit for each item before it puts
it in, so `put` never waits; the permit comes back when the item is distributed, which may be long after it was taken
out, so that a permit stands for an event in flight wherever it is. Who waits for a permit is served in the order of
coming.
"""

from collections import deque
from typing import Generic, TypeVar, final

import trio

__all__ = ["Inbox"]

_T = TypeVar("_T")


@final
class Inbox(Generic[_T]):
    """Items in order, from any number of writers to one reader.

    Args:
        permits: How many items may be in flight.

    Attributes:
        closed: Whether nothing more comes; what is there can still be taken.
    """

    __slots__ = ("_free", "_items", "_reader", "_waiting", "closed")

    def __init__(self, permits: int) -> None:
        self._items: deque[_T] = deque()
        self._free = permits
        # Made when somebody has to wait, which most tasks never see.
        self._waiting: trio.lowlevel.ParkingLot | None = None
        self._reader: trio.lowlevel.Task | None = None
        self.closed = False

    def __len__(self) -> int:
        return len(self._items)

    # --------------------------------------------------------------------------------------------------- for writers

    def take_permits(self, count: int = 1) -> bool:
        """Take permits if there are as many that nobody waits for; tell whether they were taken."""
        if self._free >= count and not self._waiting:
            self._free -= count
            return True
        return False

    async def wait_for_permit(self) -> None:
        """Take a permit when it is this caller's turn. When the inbox is closed all who wait are let go without one.

        Cancellation: a checkpoint; when it is cancelled, none was taken.
        """
        if self._waiting is None:
            self._waiting = trio.lowlevel.ParkingLot()
        await self._waiting.park()

    def give_back(self, count: int) -> None:
        """Give permits back; those who wait take them over."""
        if self._waiting:
            count -= len(self._waiting.unpark(count=count))
        self._free += count

    def put(self, item: _T) -> None:
        """Put an item behind the others, and wake the reader."""
        if self.closed:
            raise trio.ClosedResourceError
        self._items.append(item)
        self._wake()

    def close(self) -> None:
        """Take no more items, and let all go who wait for a permit. Idempotent."""
        self.closed = True
        if self._waiting:
            self._waiting.unpark_all()
        self._wake()

    # ------------------------------------------------------------------------------------------------ for the reader

    def take(self) -> _T:
        """Return the first item; there must be one."""
        return self._items.popleft()

    async def wait(self) -> bool:
        """Wait until there is an item; False if there is none and none can come.

        Cancellation: a checkpoint.
        """
        if self._items or self.closed:
            await trio.lowlevel.checkpoint()
        while not (self._items or self.closed):
            self._reader = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._forget_reader)
        return bool(self._items)

    def clear(self) -> None:
        """Drop what is there, and take no more. Idempotent."""
        self.close()
        self._items.clear()

    def _wake(self) -> None:
        reader = self._reader
        if reader is not None:
            self._reader = None
            trio.lowlevel.reschedule(reader)

    def _forget_reader(self, _: object) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED
