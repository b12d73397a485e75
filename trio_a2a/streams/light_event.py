"""An event that nearly nobody waits for.

Each live task and each run has several points that somebody may wait for, and that most are passed without anybody
doing so. Trio's `Event` keeps a set of tasks from the beginning; this one makes such an `Event` when the first task
waits, so that a short task does not pay for those that nobody asked for.
"""

from typing import final

import trio

__all__ = ["LightEvent"]


@final
class LightEvent:
    """A `trio.Event` that is made when somebody waits."""

    __slots__ = ("_event", "_flag")

    def __init__(self) -> None:
        self._flag = False
        self._event: trio.Event | None = None

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._flag

    def set(self) -> None:
        """Set it, and wake all who wait. Idempotent."""
        self._flag = True
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Wait until it is set.

        Cancellation: a checkpoint, also when it is set.
        """
        if self._flag:
            await trio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()
