"""What the stream core raises. Each one says what happened and, where the caller can do something, what."""

import trio

from ..abc import CloseReason
from ..errors import TaskIdMismatchError

__all__ = [
    "EventQueueClosedError",
    "ManagerEndedError",
    "NoTaskQueueError",
    "SubscriberLaggedError",
    "TaskIdMismatchError",
]


class EventQueueClosedError(trio.EndOfChannel):
    """The queue is closed, and what was in it has been received.

    Attributes:
        task_id: The task of the queue.
        reason: Why the subscriber's channel was closed; None for a main queue.
    """

    def __init__(self, task_id: str, reason: CloseReason | None = None) -> None:
        self.task_id = task_id
        self.reason = reason
        because = f" ({reason.name})" if reason is not None else ""
        super().__init__(f"the event queue of task {task_id!r} is closed{because}")


class ManagerEndedError(EventQueueClosedError, RuntimeError):
    """The queue is closed because its manager's block has been left; using it afterwards is misuse."""

    def __init__(self, task_id: str) -> None:
        super().__init__(task_id)
        what_to_do = "use it inside the `async with open_queue_manager()` block"
        self.args = (f"the queue of task {task_id!r} ended with its manager; {what_to_do}",)


class SubscriberLaggedError(trio.BrokenResourceError):
    """This reader fell a whole buffer behind, and events were lost to it; subscribe again for a fresh snapshot.

    Attributes:
        task_id: The task of the queue.
    """

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"reader of task {task_id!r} fell too far behind and was cut off; subscribe again")


class NoTaskQueueError(LookupError):
    """There is no live queue for the task.

    Attributes:
        task_id: The task that was asked for.
    """

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        super().__init__(f"no live queue for task {task_id!r}")
