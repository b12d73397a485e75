"""Tasks: the unit of work that an agent carries through its states."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import attrs

from .content import Artifact, Message
from .struct import copy_struct
from .timestamp import utc_milliseconds
from .value import ProtoEnum, Value, sequence_of

__all__ = ["Task", "TaskState", "TaskStatus"]


class TaskState(ProtoEnum):
    """The state of a task.

    SUBMITTED and WORKING are active. UNSPECIFIED is what an unknown state of a peer becomes; no agent reports it.
    """

    UNSPECIFIED = "TASK_STATE_UNSPECIFIED", 0
    SUBMITTED = "TASK_STATE_SUBMITTED", 1
    WORKING = "TASK_STATE_WORKING", 2
    COMPLETED = "TASK_STATE_COMPLETED", 3
    FAILED = "TASK_STATE_FAILED", 4
    CANCELED = "TASK_STATE_CANCELED", 5
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED", 6
    REJECTED = "TASK_STATE_REJECTED", 7
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED", 8

    @property
    def is_final(self) -> bool:
        """A terminal state: nothing follows it."""
        return self.number in _FINAL

    @property
    def is_interrupted(self) -> bool:
        """The agent waits for the user: for input, or for an authorization."""
        return self.number in _INTERRUPTED


# By number: the hash of an enum member is a call into Python, and every event of every task is asked.
_FINAL = frozenset(
    state.number for state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED)
)
_INTERRUPTED = frozenset(state.number for state in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED))


@attrs.frozen(kw_only=True)
class TaskStatus(Value):
    """The state of a task, with what the agent says about it.

    Attributes:
        state: The state.
        message: What the agent says: progress, a question, why it failed.
        timestamp: When the status was recorded; aware, in UTC, cut to milliseconds.
    """

    state: TaskState
    message: Message | None = None
    timestamp: datetime | None = attrs.field(default=None, converter=utc_milliseconds)


def _artifacts(values: Iterable[Artifact]) -> tuple[Artifact, ...]:
    return sequence_of(Artifact, values)


def _messages(values: Iterable[Message]) -> tuple[Message, ...]:
    return sequence_of(Message, values)


@attrs.frozen(kw_only=True)
class Task(Value):
    """A unit of work, owned by the server.

    Attributes:
        id: Given by the server, unique.
        context_id: The conversation that it belongs to.
        status: Where it stands.
        artifacts: What it has put out so far.
        history: The messages that were kept, oldest first.
        metadata: Extension data.
    """

    id: str
    context_id: str = ""
    status: TaskStatus
    artifacts: tuple[Artifact, ...] = attrs.field(default=(), converter=_artifacts)
    history: tuple[Message, ...] = attrs.field(default=(), converter=_messages)
    metadata: dict[str, Any] | None = attrs.field(default=None, converter=copy_struct)
