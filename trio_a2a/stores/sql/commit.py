"""One commit of the store, made ready for the writer, and how commits are written.

Making ready happens on Trio's thread: the events are encoded there, so that one that cannot be is refused at once and
alone, and so that encoding one commit goes on while the writer waits for the database with another. Snapshots are
encoded by the writer: each may be as large as the task. When there is one is decided in `schedule`.

Columns that listings and the state provider look at come from the events, not from the snapshot, which would have to be
built: the SQL of `statements.Restate` follows the rules of the reducer.
"""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from sqlalchemy import Connection, select

from ...abc import TaskChange
from ...errors import TaskConflictError, TaskTakenOverError
from ...types import Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from .rows import check_complete, check_key, context_key, encode_value, is_key, kind_of, position_of
from .schedule import SnapshotSchedule
from .schema import NO_POSITION, events, tasks
from .statements import Advance, EventRow, NewSnapshot, NewTask, Restate, Statements

__all__ = ["PreparedCommit", "StaleError", "conflict_of", "prepare", "was_written", "write"]


class StaleError(Exception):
    """A task of the group was not at the expected number; nothing of the group may stay."""


@attrs.define(eq=False)
class _Part:
    """What a commit does to one task."""

    task_id: str
    # As the driver is to send it.
    key: Any
    owner: str
    tenant: str
    expected: int
    last: int
    # Of the last status that counts; None without one.
    state: TaskState | None = None
    position: int = NO_POSITION
    finalized_at: int | None = None
    context_key: str = ""
    replaces_context: bool = False
    # The change of whose state a snapshot is due.
    snapshot: TaskChange | None = None


@attrs.define(eq=False)
class PreparedCommit:
    """A commit, ready to be written.

    Attributes:
        parts: What it does to each task.
        rows: The events.
        now: When it was made ready, in microseconds.
        runner: The process that its tasks run in.
        size: Bytes of its events.
        last_task_id: The task of its last event.
    """

    parts: dict[str, _Part]
    rows: list[EventRow]
    now: int
    runner: str
    size: int
    last_task_id: str


def prepare(
    changes: Sequence[TaskChange], *, now: int, runner: str, statements: Statements, schedule: SnapshotSchedule
) -> PreparedCommit:
    """Encode a commit's events and add up what they do to each task.

    Args:
        changes: The changes, in order; at least one.
        now: The instant of the commit, in microseconds.
        runner: The process's id.
        statements: The database's dialect.
        schedule: Tells when a snapshot is due.

    Raises:
        TaskSerializationError: An event or an id cannot be stored.
        TaskConflictError: The numbers of a task do not follow each other, so they cannot all follow the stored one.
    """
    parts: dict[str, _Part] = {}
    rows: list[EventRow] = []
    size = 0
    key = statements.key
    part: _Part | None = None
    for change in changes:
        task_id, sequence, event, message = change.task_id, change.sequence, change.event, change.message
        if part is None or part.task_id != task_id:
            part = parts.get(task_id)
            if part is None:
                part = parts[task_id] = _part(change, key(task_id) if is_key(task_id) else None)
        if sequence != part.last + 1 or sequence < 1:
            raise TaskConflictError(f"event {sequence} cannot follow event {part.last}", task_id=task_id)
        part.last = sequence
        is_due = schedule.after_event(task_id, sequence)
        if event.__class__ is not TaskArtifactUpdateEvent and isinstance(event, (Task, TaskStatusUpdateEvent)):
            _report(part, event, now)
            is_due = schedule.after_status(task_id, sequence, event.status.state) or is_due
        if is_due or part.snapshot is not None:
            # From there on the last change of the commit: its snapshot is as near to the end of the log.
            part.snapshot = change
        check_complete(event, message, task_id)
        body = encode_value(event, task_id)
        size += len(body)
        kind = key(kind_of(event, task_id))
        rows.append((part.key, sequence, now, kind, body, None if message is None else encode_value(message, task_id)))
    return PreparedCommit(parts, rows, now, runner, size, changes[-1].task_id)


def _part(change: TaskChange, key: Any) -> _Part:
    """Return the beginning of what a commit does to a task.

    Raises:
        TaskSerializationError: The task's id, or the owner or tenant of a new task, cannot be stored.
    """
    task_id = change.task_id
    if key is None:
        check_key("the task's id", task_id)
    part = _Part(task_id, key, change.owner, change.tenant, change.sequence - 1, change.sequence - 1)
    if change.sequence == 1:
        check_key("the owner", change.owner, task_id=task_id)
        check_key("the tenant", change.tenant, task_id=task_id)
        # Later it is filled in with a status; one that only a later artifact names is in no index until then.
        part.context_key = context_key(getattr(change.event, "context_id", ""))
    return part


def _report(part: _Part, event: Task | TaskStatusUpdateEvent, now: int) -> None:
    """Apply a status to what the commit does to its task's row."""
    if part.finalized_at is None:
        part.state = event.status.state
        part.position = position_of(event.status.timestamp)
        if event.context_id and (isinstance(event, Task) or not part.context_key):
            part.context_key = context_key(event.context_id)
            part.replaces_context = part.replaces_context or isinstance(event, Task)
    if event.status.state.is_final:
        part.finalized_at = part.finalized_at or now


def write(connection: Any, commits: Sequence[PreparedCommit], statements: Statements) -> None:
    """Write commits of different tasks in the transaction that is open on a connection of the driver.

    Raises:
        StaleError: A task was not at the expected number.
        TaskSerializationError: A snapshot cannot be encoded.
        Exception: What the driver raises; an integrity error, if a new task is there already.
    """
    new: list[NewTask] = []
    advances: list[Advance] = []
    restates: list[Restate] = []
    shots: list[NewSnapshot] = []
    key = statements.key
    for commit in commits:
        for part in commit.parts.values():
            id_ = part.key
            if part.expected == 0:
                state = part.state if part.state is not None else TaskState.SUBMITTED
                new.append(
                    NewTask(
                        id_,
                        key(part.owner),
                        key(part.tenant),
                        key(part.context_key),
                        key(state.name),
                        part.position,
                        part.last,
                        commit.now,
                        part.finalized_at,
                        key(_runner(state, commit.runner)),
                    )
                )
            elif part.state is None:
                advances.append(Advance(id_, part.expected, part.last))
            else:
                restates.append(
                    Restate(
                        id_,
                        part.expected,
                        part.last,
                        key(part.context_key),
                        int(part.replaces_context),
                        key(part.state.name),
                        part.position,
                        part.finalized_at,
                        key(_runner(part.state, commit.runner)),
                    )
                )
            if part.snapshot is not None:
                body = encode_value(part.snapshot.snapshot(), part.task_id)
                shots.append(NewSnapshot(id_, part.snapshot.sequence, body))
    # In the order of their ids, so that two processes take their locks in the same one.
    advances.sort()
    restates.sort(key=_id_of)
    updates: list[tuple[Callable[[Any, Any], Callable[[], int]], list[Any]]] = [
        (statements.advance, advances),
        (statements.restate, restates),
    ]
    rows = [row for commit in commits for row in commit.rows]
    apart = statements.are_many(rows)
    with statements.together(connection):
        if new:
            statements.insert_tasks(connection, new)
        counts = [(update(connection, changed), len(changed)) for update, changed in updates if changed]
        if not apart:
            statements.insert_events(connection, rows)
        if shots:
            statements.put_snapshots(connection, shots)
    if any(changed() != wanted for changed, wanted in counts):
        raise StaleError
    if apart:
        statements.insert_events(connection, rows)


def _id_of(row: Restate) -> Any:
    return row.task_id


def _runner(state: TaskState, process: str) -> str:
    """Who works on a task in the state: nobody, when it is over or waits for its user."""
    return "" if state.is_final or state.is_interrupted else process


# ------------------------------------------------------------------------------------------------ after a failed commit


def conflict_of(connection: Connection, commit: PreparedCommit) -> TaskConflictError | None:
    """Return the conflict that kept a commit from being written; None if every task is as it expects."""
    for part in commit.parts.values():
        columns = select(tasks.c.last_sequence, tasks.c.runner).where(tasks.c.task_id == part.task_id)
        found = connection.execute(columns).first()
        at, runner = (0, "") if found is None else found
        if at != part.expected:
            # A run of this process would have committed last. With an event from outside a run, which only appends
            # something, the runner is still the same.
            is_ours = found is None or part.expected == 0 or runner == commit.runner
            error = TaskConflictError if is_ours else TaskTakenOverError
            return error(f"the task is at event {at}, so event {part.expected + 1} cannot follow", task_id=part.task_id)
    return None


def was_written(connection: Connection, commit: PreparedCommit) -> bool:
    """Tell whether a commit whose end was not heard of has happened: its last event is in the log, as it was."""
    _, sequence, now, _, body, _ = commit.rows[-1]
    found = connection.scalar(
        select(events.c.body)
        .where(events.c.task_id == commit.last_task_id)
        .where(events.c.sequence == sequence, events.c.recorded_at == now)
    )
    return found is not None and bytes(found) == body
