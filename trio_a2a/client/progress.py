"""What a reader knows of a stream, over however many connections it has come: pure, without any input or output.

Each event passes through `Progress.accept`, which says whether the consumer is to see it. It folds the task with the
server's own reducer, and keeps three promises: no event twice, none out of order, and a word (``gap``) where some may
be missing.

**Numbered events.** A server of this package numbers the stored events of a task 1, 2, 3 ... A reader that comes back
names the last one, and gets those that follow; or, where these are no longer held, a snapshot with a number. If that
number is the last one seen, nothing was missed. Other servers number what they send on each connection; such numbers
begin anew, and are recognised by it: a snapshot that is older than what was seen.

**Events without numbers.** After a reconnection comes a snapshot. If it says what is known already, it is dropped; else
it is shown in place of what was missed.

**The end.** A terminal state ends a stream, and so does a direct Message. A stream that answers a message also ends
with the agent's turn, which a subscription does not tell: there it is INPUT_REQUIRED, provided that it is not the state
from which the message has set out.
"""

from typing import final

import attrs

from ..abc import StreamEvent
from ..errors import A2AError, TaskTerminalError
from ..streams.reducer import WorkingTask, reduce
from ..types import Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent
from .exceptions import InvalidResponseError

__all__ = ["Progress"]


@final
class Progress:
    """The state of a stream's reader.

    Args:
        message: The message that the stream answers; None for a subscription.
        task_id: The task, where it is known beforehand.
    """

    def __init__(self, *, message: Message | None = None, task_id: str = "") -> None:
        self.task_id = task_id
        self.message: Message | None = None
        """The direct reply."""
        self.last_sequence = 0
        self.gap = False
        self._sent = message
        self._state: WorkingTask | None = None
        self._per_connection = False  # numbers begin anew with each connection, so they say nothing
        self._first = True  # nothing has come over this connection
        self._resumed = False
        # The status of a task before the message that the stream answers: the end of the turn before is no end.
        self._before: TaskStatus | None = None

    @property
    def task(self) -> Task | None:
        """The task as it is known; None before the first event of one."""
        return None if self._state is None else self._state.task()

    @property
    def last_event_id(self) -> int | None:
        """The number to come back with; None where events are not numbered."""
        return None if self._per_connection or not self.last_sequence else self.last_sequence

    @property
    def answers_message(self) -> bool:
        """Whether the stream answers a message, rather than being a subscription."""
        return self._sent is not None

    @property
    def begun(self) -> bool:
        """Whether anything has come."""
        return self._state is not None or self.message is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing can follow: the task has ended, or there was a direct reply in place of one."""
        return self.message is not None if self._state is None else self._state.is_final

    @property
    def turn_is_over(self) -> bool:
        """Whether the agent, having been sent a message, now waits for the next one."""
        if self._sent is None or self._state is None:
            return False
        status = self._state.status
        return status.state is TaskState.INPUT_REQUIRED and status != self._before

    @property
    def is_interrupted(self) -> bool:
        """Whether the task waits for the user."""
        return self._state is not None and self._state.status.state.is_interrupted

    def reconnected(self) -> None:
        """Expect the events of a new connection, a subscription."""
        self._first = self._resumed = True

    def accept(self, event: StreamEvent, sequence: int = 0) -> bool:
        """Take an event; tell whether the consumer is to see it.

        Raises:
            InvalidResponseError: It is of another task.
        """
        first, self._first = self._first, False
        if isinstance(event, Message):
            if self._state is None:
                self.message = event
            return True
        if first and self._resumed and isinstance(event, Task):
            return self._accept_snapshot(event, sequence)
        if first and not self._resumed and not sequence and isinstance(event, Task):
            # Numbers that count from 0 are not those of stored events, which begin with 1. Without numbers it is the
            # same, since there is nothing to come back with.
            self._per_connection = True
        numbered = sequence > 0 and not self._per_connection
        if numbered:
            if sequence <= self.last_sequence:
                return False  # seen already
            if self.last_sequence and sequence > self.last_sequence + 1 and not isinstance(event, Task):
                self.gap = True
            self.last_sequence = sequence
        self._fold(event)
        return True

    def _accept_snapshot(self, task: Task, sequence: int) -> bool:
        """Take what a new connection begins with."""
        known = self._state is not None and _says_the_same(self._state.task(), task)
        if not self._per_connection and sequence > 0:
            if sequence > self.last_sequence > 0 or self._state is None:
                known = False
            else:
                # Older than what was seen, or of the same number and yet another: they count something else.
                self._per_connection = sequence < self.last_sequence or not known
            if not self._per_connection:
                self.last_sequence = sequence
        missed = not known and self._state is not None
        self.gap = self.gap or missed
        self._fold(task)
        return not known

    def _fold(self, event: Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        task_id = event.id if isinstance(event, Task) else event.task_id
        if self.task_id and task_id != self.task_id:
            raise InvalidResponseError(f"an event of the task {task_id!r} came on the stream of {self.task_id!r}")
        self.task_id = task_id
        state = self._state
        if isinstance(event, Task):
            self._state = WorkingTask.of(event)
            if state is None and self._is_from_before(event):
                self._before = event.status
            return
        if isinstance(event, TaskArtifactUpdateEvent):
            if event.append and (state is None or event.artifact.artifact_id not in state.artifacts):
                event = attrs.evolve(event, append=False)  # a chunk of what was never begun begins it
        elif event.status.state is TaskState.UNSPECIFIED:
            # A state of a later version of the protocol: nothing can be told of it, but it is not an old one.
            if state is not None:
                self._state = WorkingTask(
                    state.id, state.context_id, event.status, state.history, state.artifacts, state.metadata
                )
            return
        try:
            self._state = reduce(state, event)
        except (A2AError, TaskTerminalError) as exc:
            raise InvalidResponseError(f"an event of the stream does not fit its task: {exc}") from exc

    def _is_from_before(self, task: Task) -> bool:
        """Tell whether a first snapshot shows the task as it was before the message reached it."""
        if self._sent is None or not self._sent.task_id:
            return False
        return all(message.message_id != self._sent.message_id for message in task.history)


def _says_the_same(known: Task, snapshot: Task) -> bool:
    """Tell whether a snapshot shows nothing that is not known.

    History is not compared: servers differ in what they keep of it, and show as much as they like.
    """
    if known.status != snapshot.status or len(known.artifacts) != len(snapshot.artifacts):
        return False
    theirs = {artifact.artifact_id: artifact.parts for artifact in snapshot.artifacts}
    return all(theirs.get(artifact.artifact_id) == artifact.parts for artifact in known.artifacts)
