"""Folding: the task that events make, by the server's own reducer."""

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from ..abc import StreamEvent
from ..errors import A2AError, TaskTerminalError
from ..streams.reducer import WorkingTask, reduce
from ..types import Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from .exceptions import InvalidResponseError

__all__ = ["TaskEvent", "fold", "folded"]

TaskEvent: TypeAlias = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent


def fold(events: Iterable[StreamEvent], task: Task | None = None) -> Task | None:
    """Return the task as events have left it; `EventStream.task` is this for a stream.

    Args:
        events: The events, in order: of a stream, or those that a webhook got. A `Task` among them takes the place of
            all before it; a direct `Message` belongs to no task, and is passed over.
        task: The task before them.

    Returns:
        The task; None if there is none.

    Raises:
        InvalidResponseError: An event is of another task, or cannot follow what was before it.
    """
    state = None if task is None else WorkingTask.of(task)
    for event in events:
        if isinstance(event, Message):
            continue
        task_id = event.id if isinstance(event, Task) else event.task_id
        if state is not None and task_id != state.id:
            raise InvalidResponseError(f"an event of the task {task_id!r} is among those of {state.id!r}")
        state = folded(state, event)
    return None if state is None else state.task()


def folded(state: WorkingTask | None, event: TaskEvent) -> WorkingTask | None:
    """Return the state after an event, which may be the first that is known.

    Raises:
        InvalidResponseError: It cannot follow what was before it.
    """
    if isinstance(event, Task):
        return WorkingTask.of(event)
    if isinstance(event, TaskArtifactUpdateEvent):
        if event.append and (state is None or event.artifact.artifact_id not in state.artifacts):
            event = attrs.evolve(event, append=False)  # a chunk of what was never begun begins it
    elif event.status.state is TaskState.UNSPECIFIED:
        # A state of a later version of the protocol: nothing can be told of it, but it is not an old one.
        if state is None:
            return None
        return WorkingTask(state.id, state.context_id, event.status, state.history, state.artifacts, state.metadata)
    try:
        return reduce(state, event)
    except (A2AError, TaskTerminalError) as exc:
        raise InvalidResponseError(f"an event of the stream does not fit its task: {exc}") from exc
