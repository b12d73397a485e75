"""State after an event: a pure function over a working state that makes an append cost the same however long the task.

Theory of operation
-------------------
A frozen ``Task`` cannot be appended to without copying it, so the processor folds its events into a `WorkingTask`. That
is a value like any other: `reduce` never changes the one it is given, and the older one stays what it was, which is
what makes "the commit failed, go on from the state before" one assignment.

What makes it cheap is how its two growing parts share memory. `Grown` is a view of the first *n* items of a list that
only ever gets longer: appending to the newest view extends the list in place; appending to an older view, which happens
after a failed commit, copies its part first. `ArtifactLog` holds the updates that came since the artifacts were last
put together, and puts them together when somebody asks, or when there are more of them than there is to put together,
so that the work is spread evenly over the events.

It is a layer of its own, below the stores: the stream core folds events with it as they happen, a store that keeps a
log folds what came after its last snapshot, and both have to agree. Nothing here waits, and Trio is not imported.

What may follow what is the table `MAY_FOLLOW`. Errors and direct messages are no state: the processor turns an error
into a FAILED update (`failure_update`) before it comes here, and a Message passes through unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Generic, TypeVar, final

import attrs

from .abc import StreamEvent
from .errors import InvalidAgentResponseError, TaskIdMismatchError, TaskTerminalError
from .types import (
    Artifact,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

__all__ = ["MAY_FOLLOW", "ArtifactLog", "Grown", "WorkingTask", "failure_update", "reduce"]

_REPORTABLE = frozenset(TaskState) - {TaskState.UNSPECIFIED}

MAY_FOLLOW: Mapping[TaskState, frozenset[TaskState]] = {
    # The protocol gives no transition table (ambiguity A-63); the one hard rule is that a terminal state is for ever.
    # The same terminal state again is a replay.
    state: frozenset({state}) if state.is_final else _REPORTABLE
    for state in TaskState
}

_T = TypeVar("_T")
# Updates that are always kept before they are put together, so that a small task is not folded at every event.
_FEW_UPDATES = 256


@final
class Grown(Generic[_T]):
    """An immutable sequence that is cheap to append to: a view of the head of a shared, growing list."""

    __slots__ = ("_length", "_shared")

    def __init__(self, items: Iterable[_T] = ()) -> None:
        self._shared = list(items)
        self._length = len(self._shared)

    def appended(self, *items: _T) -> "Grown[_T]":
        """Return the sequence with ``items`` behind it."""
        shared = self._shared
        if len(shared) != self._length:
            shared = shared[: self._length]
        shared.extend(items)
        longer: Grown[_T] = Grown.__new__(Grown)
        longer._shared = shared
        longer._length = len(shared)
        return longer

    def __iter__(self) -> Iterator[_T]:
        return islice(self._shared, self._length)

    def __len__(self) -> int:
        return self._length


@final
class ArtifactLog:
    """The artifacts of a task: some put together, and the updates that came since."""

    __slots__ = ("_added", "_base", "_folded", "_updates", "_weight")

    def __init__(self, base: Mapping[str, Artifact]) -> None:
        self._base = base
        self._weight = sum(len(artifact.parts) for artifact in base.values())
        self._updates: Grown[TaskArtifactUpdateEvent] = Grown()
        # Where in the updates each artifact that is not in the base first came; shared like the list of a `Grown`.
        self._added: dict[str, int] = {}
        self._folded: Mapping[str, Artifact] | None = base

    def __contains__(self, artifact_id: str) -> bool:
        return artifact_id in self._base or self._added.get(artifact_id, len(self._updates)) < len(self._updates)

    def appended(self, update: TaskArtifactUpdateEvent) -> "ArtifactLog":
        """Return the log with one more update."""
        position = len(self._updates)
        if position and (self._folded is not None or position > _FEW_UPDATES + self._weight):
            return ArtifactLog(self.folded()).appended(update)
        longer = ArtifactLog.__new__(ArtifactLog)
        longer._base, longer._weight = self._base, self._weight
        longer._updates = self._updates.appended(update)
        longer._added = self._added
        if longer._updates._shared is not self._updates._shared:
            longer._added = {id_: at for id_, at in self._added.items() if at < position}
        if update.artifact.artifact_id not in self._base:
            longer._added.setdefault(update.artifact.artifact_id, position)
        longer._folded = None
        return longer

    def folded(self) -> Mapping[str, Artifact]:
        """Return the artifacts by id, in the order in which they first came."""
        if self._folded is None:
            artifacts = dict(self._base)
            chunks: dict[str, list[Artifact]] = {}
            for update in self._updates:
                artifact = update.artifact
                if update.append:
                    if not _only_closes(update):
                        chunks.setdefault(artifact.artifact_id, []).append(artifact)
                else:
                    chunks.pop(artifact.artifact_id, None)
                    artifacts[artifact.artifact_id] = artifact
            for artifact_id, more in chunks.items():
                artifacts[artifact_id] = _extended(artifacts[artifact_id], more)
            self._folded = artifacts
        return self._folded


def _only_closes(update: TaskArtifactUpdateEvent) -> bool:
    """Tell whether the chunk says nothing but that it is the last: a part it must have, so it has one of no text."""
    artifact = update.artifact
    return (
        update.last_chunk
        and len(artifact.parts) == 1
        and artifact.parts[0].text == ""
        and artifact.parts[0].metadata is None
        and artifact.metadata is None
    )


def _extended(artifact: Artifact, chunks: Iterable[Artifact]) -> Artifact:
    """Return the artifact with the chunks' parts behind its own and their metadata merged key by key."""
    parts = list(artifact.parts)
    metadata = artifact.metadata
    extensions = dict.fromkeys(artifact.extensions)
    name, description = artifact.name, artifact.description
    for chunk in chunks:
        parts.extend(chunk.parts)
        metadata = _merged(metadata, chunk.metadata)
        extensions.update(dict.fromkeys(chunk.extensions))
        name, description = name or chunk.name, description or chunk.description
    return attrs.evolve(
        artifact,
        name=name,
        description=description,
        parts=tuple(parts),
        metadata=metadata,
        extensions=tuple(extensions),
    )


def _merged(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not new:
        return dict(old) if old is not None else (dict(new) if new is not None else None)
    return {**old, **new} if old else dict(new)


@final
class WorkingTask:
    """A task in the making. Immutable; see the module's text.

    Attributes:
        id: The task's id.
        context_id: Its context.
        status: Its status.
        history: Its messages, oldest first.
        artifacts: Its artifacts.
        metadata: Its metadata.
    """

    __slots__ = ("_task", "artifacts", "context_id", "history", "id", "metadata", "status")

    def __init__(
        self,
        id: str,
        context_id: str,
        status: TaskStatus,
        history: Grown[Message],
        artifacts: ArtifactLog,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        self.id = id
        self.context_id = context_id
        self.status = status
        self.history = history
        self.artifacts = artifacts
        self.metadata = metadata
        self._task: Task | None = None

    @classmethod
    def of(cls, task: Task) -> "WorkingTask":
        """Return the working state of a task."""
        artifacts = {artifact.artifact_id: artifact for artifact in task.artifacts}
        state = cls(task.id, task.context_id, task.status, Grown(task.history), ArtifactLog(artifacts), task.metadata)
        state._task = task
        return state

    @property
    def is_final(self) -> bool:
        """Whether the task is over."""
        return self.status.state.is_final

    def task(self) -> Task:
        """Return the task as it is; built at the first call."""
        if self._task is None:
            self._task = Task(
                id=self.id,
                context_id=self.context_id,
                status=self.status,
                artifacts=tuple(self.artifacts.folded().values()),
                history=tuple(self.history),
                metadata=self.metadata,
            )
        return self._task


def reduce(state: WorkingTask | None, event: StreamEvent, message: Message | None = None) -> WorkingTask | None:
    """Return the state after an event.

    Args:
        state: The state before; None where there is no task yet. An update makes one then, as if it had been SUBMITTED.
        event: The event. A direct Message changes nothing.
        message: The user's message that began the run whose first event this is; it goes into the history.

    Raises:
        TaskIdMismatchError: The event is of another task.
        TaskTerminalError: The task is over, and the event would change its state.
        InvalidAgentResponseError: The event itself is at fault: no state, no parts, or a chunk of an artifact that
            there is not.
    """
    if isinstance(event, Message):
        return state
    if isinstance(event, Task):
        return _replaced(state, event, message)
    if state is not None and event.task_id != state.id:
        raise TaskIdMismatchError(state.id, event.task_id)
    if isinstance(event, TaskArtifactUpdateEvent):
        return _with_artifact(state, event, message)
    return _with_status(state, event, message)


def _replaced(state: WorkingTask | None, task: Task, message: Message | None) -> WorkingTask:
    if state is not None and state.id != task.id:
        raise TaskIdMismatchError(state.id, task.id)
    _check_state(state, task.status.state)
    if state is not None and state.is_final:
        return state  # a replay
    new = WorkingTask.of(task if task.context_id or state is None else attrs.evolve(task, context_id=state.context_id))
    return new if message is None or message in task.history else _with_message(new, message)


def _with_status(state: WorkingTask | None, event: TaskStatusUpdateEvent, message: Message | None) -> WorkingTask:
    _check_state(state, event.status.state)
    if state is None:
        state = _submitted(event.task_id, event.context_id)
    elif state.is_final:
        return state
    history = state.history
    if state.status.message is not None:
        history = history.appended(state.status.message)
    if message is not None:
        history = history.appended(message)
    return WorkingTask(
        state.id,
        state.context_id or event.context_id,
        event.status,
        history,
        state.artifacts,
        _merged(state.metadata, event.metadata) if event.metadata else state.metadata,
    )


def _with_artifact(state: WorkingTask | None, event: TaskArtifactUpdateEvent, message: Message | None) -> WorkingTask:
    artifact = event.artifact
    if not artifact.parts:
        raise InvalidAgentResponseError("The agent sent an artifact without parts")
    if event.append and (state is None or artifact.artifact_id not in state.artifacts):
        raise InvalidAgentResponseError("The agent extended an artifact that does not exist")
    if state is None:
        state = _submitted(event.task_id, event.context_id)
    if message is not None:
        state = _with_message(state, message)
    return WorkingTask(
        state.id,
        state.context_id or event.context_id,
        state.status,
        state.history,
        state.artifacts.appended(event),
        state.metadata,
    )


def _with_message(state: WorkingTask, message: Message) -> WorkingTask:
    """The user's message joins the history, behind the status message that it answers."""
    status, history = state.status, state.history
    if status.message is not None:
        history = history.appended(status.message)
        status = attrs.evolve(status, message=None)
    return WorkingTask(state.id, state.context_id, status, history.appended(message), state.artifacts, state.metadata)


def _submitted(task_id: str, context_id: str) -> WorkingTask:
    return WorkingTask(task_id, context_id, TaskStatus(state=TaskState.SUBMITTED), Grown(), ArtifactLog({}), None)


def _check_state(state: WorkingTask | None, new: TaskState) -> None:
    if new is TaskState.UNSPECIFIED:
        raise InvalidAgentResponseError("The agent reported no task state")
    if state is not None and new not in MAY_FOLLOW[state.status.state]:
        raise TaskTerminalError(f"task {state.id!r} is {state.status.state.name}, which is final; not {new.name}")


def failure_update(state: WorkingTask, text: str, *, timestamp: datetime, message_id: str) -> TaskStatusUpdateEvent:
    """Return the FAILED update that stands for an error.

    Args:
        state: The task that failed.
        text: What the client may read.
        timestamp: When, aware UTC.
        message_id: The id of the status message that carries the text.
    """
    message = Message.agent(text, message_id=message_id, task_id=state.id, context_id=state.context_id)
    return TaskStatusUpdateEvent(
        task_id=state.id,
        context_id=state.context_id,
        status=TaskStatus(state=TaskState.FAILED, message=message, timestamp=timestamp),
    )
