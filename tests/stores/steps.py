"""How long Trio's thread was away from its loop."""

import time
from types import TracebackType
from typing import Self

import trio

__all__ = ["Steps"]


class Steps(trio.abc.Instrument):
    """Measures the longest step of a task in a block, in seconds: what blocks the thread makes one long."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest = max(self.longest, time.perf_counter() - self._began) if self._began else self.longest

    def __enter__(self) -> Self:
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        trio.lowlevel.remove_instrument(self)
