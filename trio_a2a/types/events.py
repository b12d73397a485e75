"""Events: what travels on a stream."""

from typing import Any, ClassVar

import attrs

from .content import Artifact, Message
from .struct import copy_struct
from .task import Task, TaskStatus
from .value import OneOf, Value

__all__ = ["StreamResponse", "TaskArtifactUpdateEvent", "TaskStatusUpdateEvent"]


@attrs.frozen(kw_only=True)
class TaskStatusUpdateEvent(Value):
    """A task has a new status.

    Attributes:
        task_id: The task.
        context_id: The context of the task.
        status: The new status.
        metadata: Extension data.
    """

    task_id: str
    context_id: str
    status: TaskStatus
    metadata: dict[str, Any] | None = attrs.field(default=None, converter=copy_struct)


@attrs.frozen(kw_only=True)
class TaskArtifactUpdateEvent(Value):
    """A task has put out an artifact, or a chunk of one.

    Attributes:
        task_id: The task.
        context_id: The context of the task.
        artifact: The whole artifact, or the chunk to append.
        append: True: add these parts to the artifact with the same id. False: create or replace it.
        last_chunk: The artifact is complete.
        metadata: Extension data.
    """

    task_id: str
    context_id: str
    artifact: Artifact
    append: bool = False
    last_chunk: bool = False
    metadata: dict[str, Any] | None = attrs.field(default=None, converter=copy_struct)


@attrs.frozen(kw_only=True)
class StreamResponse(OneOf[Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent]):
    """One element of a stream, and the body of a webhook call: exactly one of its members.

    Attributes:
        task: A snapshot of the task.
        message: A direct reply.
        status_update: A change of status.
        artifact_update: An artifact, or a chunk of one.
    """

    _oneof: ClassVar[tuple[str, ...]] = ("task", "message", "status_update", "artifact_update")

    task: Task | None = None
    message: Message | None = None
    status_update: TaskStatusUpdateEvent | None = None
    artifact_update: TaskArtifactUpdateEvent | None = None
