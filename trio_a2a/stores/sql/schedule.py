"""When snapshots are taken.

A snapshot is as large as its task, so one every so many events would make an event cost the more, the longer its task
is. One is taken

- when a task ends: from then on it is read from its snapshot alone;
- when its state changes, which is when it may be left alone for long: if at least as many events have come since the
  last snapshot as that one holds, and at least 16. A status that repeats the state is no change;
- when it has 64, 256, 1024 ... events, each time four times as many as before, for tasks that only grow.

A snapshot for a change of state is at least twice as long as any before it, so these together are no longer than twice
the task; those for the number of events are no longer than four thirds of it. So what snapshots add to an event does
not grow with the task, however often its state changes. Reading folds at most three times as many events as the
snapshot holds.

The state and the last snapshot of the tasks at work are remembered here, for the store's own process: asking the
database would be a round trip for every status. Of a task that is not known, because another process has begun it or
because there are too many, the first status counts as if a snapshot had just been taken. What is remembered may be
wrong, after a commit that failed or when another process writes the same task. Then a snapshot is taken a little early
or late, which changes nothing of what is read.
"""

from typing import Final, final

from ...types import TaskState

__all__ = ["SnapshotSchedule"]

# Below it a task without a change of its state is read from its events alone.
_FIRST_COUNT: Final = 64
# Enough for any task; each is four times the one before.
_COUNTS: Final = frozenset(_FIRST_COUNT << (2 * step) for step in range(28))
# A change of state is no reason to write a snapshot in place of reading so few events.
_FEW_EVENTS: Final = 16
# Tasks that are remembered, some 200 bytes each; beyond it those that were begun first are forgotten.
_MAX_TASKS: Final = 10_000


@final
class SnapshotSchedule:
    """Decides behind which events a snapshot is taken. It belongs to Trio's thread."""

    def __init__(self) -> None:
        # Of each task the state, and the number of the event behind which the last snapshot was due; 0: none yet.
        self._tasks: dict[str, tuple[TaskState, int]] = {}

    def after_event(self, task_id: str, sequence: int) -> bool:
        """Tell whether a snapshot is due because of the number of events."""
        if sequence not in _COUNTS:
            return False
        known = self._tasks.get(task_id)
        if known is not None:
            self._tasks[task_id] = (known[0], sequence)
        return True

    def after_status(self, task_id: str, sequence: int, state: TaskState) -> bool:
        """Tell whether a snapshot is due because of a status."""
        if state.is_final:
            self._tasks.pop(task_id, None)
            return True
        known = self._tasks.get(task_id)
        if known is None or sequence == 1:
            self._remember(task_id, state, 0 if sequence == 1 else sequence)
            return False
        before, last = known
        is_due = state is not before and sequence - last >= max(last, _FEW_EVENTS)
        self._tasks[task_id] = (state, sequence if is_due else last)
        return is_due

    def _remember(self, task_id: str, state: TaskState, last: int) -> None:
        self._tasks[task_id] = (state, last)
        if len(self._tasks) > _MAX_TASKS:
            del self._tasks[next(iter(self._tasks))]
