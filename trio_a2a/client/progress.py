"""What a reader knows of a stream, over however many connections it has come: pure, without any input or output.

Each event passes through `Progress.accept`, which says whether the consumer is to see it. It folds the task with the
server's own reducer, and keeps three promises: no event twice, none out of order, and a word (``gap``) where some may
be missing.

**Numbered events.** A server of this package numbers the stored events of a task 1, 2, 3 ... A reader that comes back
names the last one, and gets those that follow; or, where these are no longer held, a snapshot with a number. If that
number is the last one seen, nothing was missed. Other servers number what they send on each connection; such numbers
begin anew, and are recognised by it: a snapshot that is older than what was seen. A number that comes again with
another event says nothing either, so from then on none is believed: no event is dropped for a number that lies.

**Events without numbers.** After a reconnection comes a snapshot. If it says what is known already, it is dropped; else
it is shown in place of what was missed. A server that goes on without one leaves it open what was missed; the consumer
is told.

**The end.** A terminal state ends a stream, and so does a direct Message. A stream that answers a message also ends
with the agent's turn, which a subscription does not tell: there it is INPUT_REQUIRED, provided that it is not the state
from which the message has set out.
"""

from collections import OrderedDict
from typing import Final, final

from ..abc import StreamEvent
from ..streams.reducer import WorkingTask
from ..types import Message, Task, TaskState, TaskStatus
from .exceptions import InvalidResponseError
from .fold import TaskEvent, folded

__all__ = ["REMEMBERED", "Progress"]

REMEMBERED: Final = 32
"""Numbered events that are kept to recognise one that comes again: a server repeats the last ones, if any."""


@final
class Progress:
    """The state of a stream's reader.

    Args:
        message: The message that the stream answers; None for a subscription.
        task_id: The task, where it is known beforehand.
        after: The number of the last event that the consumer has seen by other means; 0: none.
    """

    def __init__(self, *, message: Message | None = None, task_id: str = "", after: int = 0) -> None:
        self.task_id = task_id
        self.message: Message | None = None
        """The direct reply."""
        self.last_sequence = after
        self.gap = False
        self._sent = message
        self._state: WorkingTask | None = None
        self._per_connection = False  # numbers begin anew with each connection, so they say nothing
        self._first = True  # nothing has come over this connection
        self._resumed = after > 0  # it is to go on where something ended
        self._seen: OrderedDict[int, StreamEvent] = OrderedDict()
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
    def needs_input(self) -> bool:
        """Whether the task waits for a message."""
        return self._state is not None and self._state.status.state is TaskState.INPUT_REQUIRED

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
        self._check_task(event)
        if self._resumed and isinstance(event, Task):
            if first:
                return self._accept_snapshot(event, sequence)
            if not self._is_numbered(sequence) and self._is_known(event):
                return False  # a server that says it twice
        if first and not self._resumed and not sequence and isinstance(event, Task):
            # Numbers that count from 0 are not those of stored events, which begin with 1. Without numbers it is the
            # same, since there is nothing to come back with.
            self._per_connection = True
        if self._is_numbered(sequence) and not self._accept_number(event, sequence, first=first):
            return False
        if first and self._resumed and not self._is_numbered(sequence):
            self.gap = True  # there is no snapshot to say what was missed
        self._fold(event)
        return True

    def _is_numbered(self, sequence: int) -> bool:
        return sequence > 0 and not self._per_connection

    def _accept_number(self, event: StreamEvent, sequence: int, *, first: bool) -> bool:
        """Take an event's number; tell whether the event is a new one."""
        if sequence <= self.last_sequence:
            seen = self._seen.get(sequence)
            if seen == event:
                return False
            if seen is None and self._resumed:
                # It is too long ago to be compared. Who was told where to go on has no reason to begin before that, so
                # this may also be a count of the connection's own.
                self.gap = self.gap or first
                return False
            self._per_connection = True
            return True
        if self.last_sequence and sequence > self.last_sequence + 1 and not isinstance(event, Task):
            self.gap = True
        self.last_sequence = sequence
        self._seen[sequence] = event
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True

    def _accept_snapshot(self, task: Task, sequence: int) -> bool:
        """Take what a new connection begins with."""
        known = self._is_known(task)
        missed = not known if self._state is not None else sequence != self.last_sequence
        if self._is_numbered(sequence):
            if sequence > self.last_sequence > 0 or self._state is None:
                known = False
            else:
                # Older than what was seen, or of the same number and yet another: they count something else.
                self._per_connection = sequence < self.last_sequence or not known
            if not self._per_connection:
                self.last_sequence = sequence  # that of the event before it, whose place it does not take
        self.gap = self.gap or missed
        self._fold(task)
        return not known

    def _is_known(self, task: Task) -> bool:
        return self._state is not None and _says_the_same(self._state.task(), task)

    def _check_task(self, event: TaskEvent) -> None:
        task_id = event.id if isinstance(event, Task) else event.task_id
        if not task_id or (self.task_id and task_id != self.task_id):
            raise InvalidResponseError(f"an event of the task {task_id!r} came on the stream of {self.task_id!r}")
        self.task_id = task_id

    def _fold(self, event: TaskEvent) -> None:
        state = self._state
        self._state = folded(state, event)
        if state is None and isinstance(event, Task) and self._is_from_before(event):
            self._before = event.status

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
