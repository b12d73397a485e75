"""Values in one line, for tests that are about something else."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ..types import (
    Artifact,
    Message,
    PartsLike,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    as_parts,
)

__all__ = ["artifact", "message", "status", "task"]

_CONTEXT = "context"


def message(
    content: PartsLike = "hello",
    *,
    role: Role = Role.AGENT,
    message_id: str | None = None,
    task_id: str = "",
    context_id: str = _CONTEXT,
    metadata: Mapping[str, Any] | None = None,
) -> Message:
    """Make a message of the agent; its id is a new UUID unless given."""
    make = Message.user if role is Role.USER else Message.agent
    return make(content, message_id=message_id, task_id=task_id, context_id=context_id, metadata=metadata)


def status(
    task_id: str,
    state: TaskState = TaskState.WORKING,
    text: str | None = None,
    *,
    context_id: str = _CONTEXT,
    timestamp: datetime | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> TaskStatusUpdateEvent:
    """Make a status update: ``status("t", TaskState.WORKING, "on it")``.

    Args:
        task_id: The task.
        state: Its new state.
        text: What the agent says; None for no message.
        context_id: The context of the task.
        timestamp: When, aware UTC.
        metadata: The event's metadata.
    """
    said = None if text is None else message(text, task_id=task_id, context_id=context_id)
    return TaskStatusUpdateEvent(
        task_id=task_id,
        context_id=context_id,
        status=TaskStatus(state=state, message=said, timestamp=timestamp),
        metadata=dict(metadata) if metadata is not None else None,
    )


def artifact(
    task_id: str,
    content: PartsLike = "text",
    *,
    artifact_id: str = "artifact",
    name: str = "",
    append: bool = False,
    last_chunk: bool = False,
    context_id: str = _CONTEXT,
    metadata: Mapping[str, Any] | None = None,
) -> TaskArtifactUpdateEvent:
    """Make an artifact update: ``artifact("t", "some text")``.

    Args:
        task_id: The task.
        content: The artifact's parts, or those to append.
        artifact_id: The artifact.
        name: Its name.
        append: Add the parts to the artifact with the same id.
        last_chunk: The artifact is complete.
        context_id: The context of the task.
        metadata: The artifact's metadata.
    """
    return TaskArtifactUpdateEvent(
        task_id=task_id,
        context_id=context_id,
        artifact=Artifact(
            artifact_id=artifact_id,
            name=name,
            parts=as_parts(content),
            metadata=dict(metadata) if metadata is not None else None,
        ),
        append=append,
        last_chunk=last_chunk,
    )


def task(
    task_id: str,
    state: TaskState = TaskState.SUBMITTED,
    text: str | None = None,
    *,
    context_id: str = _CONTEXT,
    timestamp: datetime | None = None,
    history: Iterable[Message] = (),
    artifacts: Iterable[Artifact] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Task:
    """Make a task: ``task("t", TaskState.COMPLETED)``.

    Args:
        task_id: Its id.
        state: Its state.
        text: What the agent says in its status; None for no message.
        context_id: Its context.
        timestamp: When its status was recorded, aware UTC.
        history: Its messages, oldest first.
        artifacts: Its artifacts.
        metadata: Its metadata.
    """
    said = None if text is None else message(text, task_id=task_id, context_id=context_id)
    return Task(
        id=task_id,
        context_id=context_id,
        status=TaskStatus(state=state, message=said, timestamp=timestamp),
        history=history,
        artifacts=artifacts,
        metadata=dict(metadata) if metadata is not None else None,
    )
