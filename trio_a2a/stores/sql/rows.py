"""Values to the contents of rows, and back.

What a row holds is JSON, as on the wire. Whatever cannot be written, or is read and is not what was written, is a
`TaskSerializationError`.
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from ...abc import StreamEvent
from ...errors import A2AError, TaskIdMismatchError, TaskSerializationError, TaskTerminalError
from ...reducer import WorkingTask, reduce
from ...types import Artifact, Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent
from ...wire import from_json, to_json
from .schema import KEY_BYTES, NO_POSITION, to_micros

__all__ = [
    "EventRow",
    "check_complete",
    "check_key",
    "context_key",
    "decode_event",
    "encode_value",
    "fold",
    "is_key",
    "kind_of",
    "position_of",
    "state_of",
]

_KINDS: Final[dict[str, type[StreamEvent]]] = {
    "task": Task,
    "status": TaskStatusUpdateEvent,
    "artifact": TaskArtifactUpdateEvent,
    "message": Message,
}
_KIND_OF: Final = {cls: kind for kind, cls in _KINDS.items()}
_DIGEST = "sha256:"
# What the driver of a damaged row may hand over in the place of bytes, and what the JSON layer says about it.
_UNREADABLE = (A2AError, TypeError, ValueError, LookupError)


class EventRow(NamedTuple):
    """What folding needs of an event's row."""

    sequence: int
    kind: str
    body: bytes
    message: bytes | None


# --------------------------------------------------------------------------------------------------------------- keys


def is_key(text: str) -> bool:
    """Tell whether the text can be an id in the database: at most `KEY_BYTES` of UTF-8, without NUL."""
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return False
    return size <= KEY_BYTES and "\0" not in text


def check_key(what: str, text: str, *, task_id: str | None = None) -> None:
    """Refuse an id that the database cannot hold.

    Raises:
        TaskSerializationError: It is too long, or holds NUL or half a surrogate pair.
    """
    if not is_key(text):
        raise TaskSerializationError(
            f"{what} cannot be stored: an id has at most {KEY_BYTES} bytes of UTF-8, and no NUL in it", task_id=task_id
        )


def context_key(context_id: str) -> str:
    """Return what a context is found by: its id, or a digest of one that cannot be indexed.

    Clients choose these ids, so one of any length has to work. Only equality is asked of the column; the id itself is
    in the task.
    """
    if is_key(context_id) and not context_id.startswith(_DIGEST):
        return context_id
    return _DIGEST + hashlib.sha256(context_id.encode(errors="surrogatepass")).hexdigest()


def position_of(timestamp: datetime | None) -> int:
    """Return a status time's place in the order of a listing."""
    return NO_POSITION if timestamp is None else -to_micros(timestamp)


def state_of(name: str, task_id: str) -> TaskState:
    """Return the state that a row names.

    Raises:
        TaskSerializationError: It names none.
    """
    try:
        return TaskState[name]
    except KeyError:
        raise TaskSerializationError("the stored state is none of the protocol's", task_id=task_id) from None


# ---------------------------------------------------------------------------------------------------------- contents


def encode_value(value: Any, task_id: str) -> bytes:
    """Return a value as JSON.

    Raises:
        TaskSerializationError: It holds what JSON cannot carry.
    """
    try:
        return to_json(value)
    except (TypeError, ValueError) as error:
        raise TaskSerializationError(f"a {type(value).__name__} cannot be stored: {error}", task_id=task_id) from error


def check_complete(event: StreamEvent, message: Message | None, task_id: str) -> None:
    """Refuse what lacks a member that the protocol requires: it could be written, but never be read again.

    Raises:
        TaskSerializationError: Such a member is empty.
    """
    if isinstance(event, TaskArtifactUpdateEvent):
        complete = bool(event.context_id) and _is_complete_artifact(event.artifact)
    elif isinstance(event, TaskStatusUpdateEvent):
        complete = bool(event.context_id) and _is_complete_status(event.status)
    elif isinstance(event, Task):
        complete = (
            _is_complete_status(event.status)
            and all(map(_is_complete_message, event.history))
            and all(map(_is_complete_artifact, event.artifacts))
        )
    else:
        complete = _is_complete_message(event)
    if not complete or (message is not None and not _is_complete_message(message)):
        text = f"a {type(event).__name__} lacks an id, a state, a role or parts, which the protocol requires"
        raise TaskSerializationError(text, task_id=task_id)


def _is_complete_artifact(artifact: Artifact) -> bool:
    return bool(artifact.artifact_id and artifact.parts)


def _is_complete_status(status: TaskStatus) -> bool:
    return status.state.number != 0 and (status.message is None or _is_complete_message(status.message))


def _is_complete_message(message: Message) -> bool:
    return bool(message.message_id and message.parts and message.role.number)


def kind_of(event: StreamEvent, task_id: str) -> str:
    """Return the name of an event's kind.

    Raises:
        TaskSerializationError: It is no event.
    """
    kind = _KIND_OF.get(event.__class__)
    if kind is None:
        kind = next((name for name, cls in _KINDS.items() if isinstance(event, cls)), None)
    if kind is None:
        raise TaskSerializationError(f"a {type(event).__name__} is no event", task_id=task_id)
    return kind


def decode_event(kind: str, body: bytes, task_id: str) -> StreamEvent:
    """Return the event of a row.

    Raises:
        TaskSerializationError: The row holds none.
    """
    try:
        return from_json(body, _KINDS[kind])
    except _UNREADABLE as error:
        raise TaskSerializationError("a stored event cannot be read", task_id=task_id) from error


def fold(task_id: str, snapshot: bytes | None, tail: Iterable[EventRow]) -> Task:
    """Return the task of a snapshot and the events behind it.

    Raises:
        TaskSerializationError: They make no task, or another one's.
    """
    state: WorkingTask | None = None
    try:
        if snapshot is not None:
            state = WorkingTask.of(from_json(snapshot, Task))
        for row in tail:
            message = None if row.message is None else from_json(row.message, Message)
            state = reduce(state, decode_event(row.kind, row.body, task_id), message)
    except (*_UNREADABLE, TaskTerminalError, TaskIdMismatchError) as error:
        raise TaskSerializationError("the stored task cannot be read", task_id=task_id) from error
    if state is None or state.id != task_id:
        raise TaskSerializationError("what is stored under the task's id is not that task", task_id=task_id)
    return state.task()
