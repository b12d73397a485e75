"""What the contenders of the rows `stores` and `stores-flat` write: the streams of tasks that run at the same time.

Only the standard library is imported here, because one of the contenders runs in an environment of its own.

Rates are taken from the clock on the wall, other than in `workload`: a database is another process, or a disk, and
waiting for it is what a group of commits is there to shorten. For the same reason nothing is pinned to one processor.
"""

import time

from .workload import CHUNKS, settle

STATUS_EVERY = 25
"""One event of so many is a status with a time of its own, the others are chunks of an artifact."""

_START = 1_760_000_000


def kind(number: int, count: int) -> str:
    """Return what the event with that number is, of a task of so many events."""
    if number == 0:
        return "task"
    if number == count - 1:
        return "end"
    return "status" if number % STATUS_EVERY == STATUS_EVERY - 1 else "chunk"


def appends(number: int) -> bool:
    """Tell whether the chunk with that number goes on with the artifact, or begins it anew (see `workload.CHUNKS`)."""
    return number % CHUNKS != 1


def status_seconds(number: int) -> int:
    """Return the instant of a status, in seconds since 1970."""
    return _START + number


class Stopwatch:
    """Takes the time from its making; the garbage is collected first."""

    def __init__(self) -> None:
        settle()
        self._started = time.perf_counter()

    def rate(self, count: int) -> float:
        """Return how many things a second ``count`` of them were."""
        return count / (time.perf_counter() - self._started)


BATCHES_FILE = "batches.json"
"""Where the worker of this library leaves, in the folder of their turn, what the plain program is to write in the same
transactions: for each of them the tasks, with how many events of each there were."""
