"""A finished task as bytes.

A store in memory keeps every task until somebody deletes it. As objects, a short finished task is two dozen that the
garbage collector looks at again and again, though they never change: with some ten thousand of them that takes as long
as all the rest that a server does. As bytes it is one that the collector need not look into, and a third of the size.
"""

import pickle
from datetime import datetime
from typing import final

from ..abc import StreamEvent
from ..types import Task

__all__ = ["PackedTask", "is_short"]

_FEW = 100
"""Up to how many events, messages and parts a task counts as short: packing it takes a millisecond."""


@final
class PackedTask:
    """A task that is over, and the last events of it.

    Attributes:
        sequence: As in `StoredTask`; so are the three that follow.
        owner: Its owner.
        tenant: Its tenant.
        finalized_at: When it ended.
        context_id: What it can be listed by; so are the two that follow.
        state: Its state.
        timestamp: When that was reported.
    """

    __slots__ = (
        "_data",
        "_has_events",
        "context_id",
        "finalized_at",
        "owner",
        "sequence",
        "state",
        "tenant",
        "timestamp",
    )

    def __init__(
        self, task: Task, events: list[StreamEvent], *, sequence: int, owner: str, tenant: str, finalized_at: datetime
    ) -> None:
        self.sequence = sequence
        self.owner = owner
        self.tenant = tenant
        self.finalized_at = finalized_at
        self.context_id = task.context_id
        self.state = task.status.state
        self.timestamp = task.status.timestamp
        # Pickled, since that is exact for whatever value an agent has made; JSON would refuse to read some of them.
        # Together, since the events hold much of what is in the task.
        self._data = pickle.dumps((task, events), pickle.HIGHEST_PROTOCOL)
        self._has_events = True

    def _unpacked(self) -> tuple[Task, list[StreamEvent]]:
        task, events = pickle.loads(self._data)  # noqa: S301 - what this process has written, for itself
        return task, events

    @property
    def task(self) -> Task:
        """The task, unpacked at each call."""
        return self._unpacked()[0]

    @property
    def events(self) -> list[StreamEvent]:
        """Its last events, unpacked at each call; none when they have been dropped."""
        return self._unpacked()[1] if self._has_events else []

    def drop_events(self) -> None:
        """Count the events as gone. Their few bytes stay: taking them out would be packing the task again."""
        self._has_events = False


def is_short(task: Task, events: list[StreamEvent]) -> bool:
    """Tell whether a task and its events are few enough objects to be packed in one go."""
    count = len(events) + len(task.history) + len(task.artifacts)
    return count <= _FEW and count + sum(len(artifact.parts) for artifact in task.artifacts) <= _FEW
