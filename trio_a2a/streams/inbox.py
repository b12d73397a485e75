"""What a task's processor has yet to take.

A memory channel with one reader, made for this place: every live task has one, and half of what a short task would pay
for a channel of Trio's is for making and closing its two ends. The bound is kept by the permits that producers take
before they put something in, so `put` never waits.
"""

from collections import deque
from typing import Generic, TypeVar, final

import trio

__all__ = ["Inbox"]

_T = TypeVar("_T")


@final
class Inbox(Generic[_T]):
    """Items in order, from any number of writers to one reader."""

    __slots__ = ("_items", "_reader", "closed")

    def __init__(self) -> None:
        self._items: deque[_T] = deque()
        self._reader = trio.lowlevel.ParkingLot()
        # Whether nothing more comes; what is there can still be taken.
        self.closed = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: _T) -> None:
        """Put an item behind the others, and wake the reader."""
        if self.closed:
            raise trio.ClosedResourceError
        self._items.append(item)
        if self._reader:
            self._reader.unpark()

    def close(self) -> None:
        """Take no more items. Idempotent."""
        self.closed = True
        if self._reader:
            self._reader.unpark()

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
            await self._reader.park()
        return bool(self._items)

    def clear(self) -> None:
        """Drop what is there, and take no more. Idempotent."""
        self.close()
        self._items.clear()
