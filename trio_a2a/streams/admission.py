"""What a queue refuses before it accepts: events of another task, and events that no store and no wire could carry."""

from ..abc import StreamEvent
from ..errors import A2AError
from ..types import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from ..types.encodable import check_encodable
from ..types.struct import string_fault
from .exceptions import TaskIdMismatchError

__all__ = ["admit"]


def admit(task_id: str, event: StreamEvent | A2AError) -> None:
    """Check that the event may go on the queue of ``task_id``.

    A direct Message and an error are not compared with the task: they may be of none.

    Raises:
        TypeError: It is no stream event.
        TaskIdMismatchError: It is of another task.
        ValueError: JSON cannot carry a value in it; the text names the place.
    """
    if isinstance(event, TaskArtifactUpdateEvent | TaskStatusUpdateEvent):
        if event.task_id != task_id:
            raise TaskIdMismatchError(task_id, event.task_id)
    elif isinstance(event, Task):
        if event.id != task_id:
            raise TaskIdMismatchError(task_id, event.id)
    elif isinstance(event, A2AError):
        # Its text becomes the message of a FAILED status.
        reason = string_fault(event.message)
        if reason is not None:
            raise ValueError(f"{type(event).__name__}.message {reason}")
        return
    elif not isinstance(event, Message):
        raise TypeError(f"a task's queue takes Task, Message, update events and A2AError, not {type(event).__name__}")
    check_encodable(event)
