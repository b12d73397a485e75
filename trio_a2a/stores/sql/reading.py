"""What the readers' threads do: functions over a connection.

The connections are in autocommit, so two statements may see different states of a task. That is no harm: the log only
grows, and the tail is read up to the number that the row named.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, bindparam, or_, select
from sqlalchemy.sql import Select

from ...abc import Envelope, StoredTask
from ...errors import TaskSerializationError
from ...types import Task
from .rows import EventRow, decode_event, fold
from .schema import events, from_micros, snapshots, tasks

__all__ = ["read_events", "read_state", "read_task", "tasks_of", "whole_rows"]

# Tails that are read with one statement: more terms of an OR than this are slow to plan.
_TAILS = 100


class _Whole(NamedTuple):
    """A task's row beside its snapshot."""

    task_id: str
    owner: str
    tenant: str
    last_sequence: int
    finalized_at: int | None
    snapshot_sequence: int | None
    snapshot: bytes | None


def whole_rows() -> "Select[Any]":
    """Return the statement that reads tasks with their snapshots."""
    return select(
        tasks.c.task_id,
        tasks.c.owner,
        tasks.c.tenant,
        tasks.c.last_sequence,
        tasks.c.finalized_at,
        snapshots.c.sequence.label("snapshot_sequence"),
        snapshots.c.body.label("snapshot"),
    ).select_from(tasks.outerjoin(snapshots, snapshots.c.task_id == tasks.c.task_id))


_ONE_TASK = whole_rows().where(tasks.c.task_id == bindparam("task_id"))
_EVENTS = (
    select(events.c.sequence, events.c.kind, events.c.body, events.c.message)
    .where(events.c.task_id == bindparam("task_id"), events.c.sequence > bindparam("after"))
    .order_by(events.c.sequence)
)
_TAIL = _EVENTS.where(events.c.sequence <= bindparam("last"))
_NEWEST = (
    select(events.c.sequence, events.c.kind, events.c.body)
    .where(events.c.task_id == bindparam("task_id"))
    .order_by(events.c.sequence.desc())
    .limit(1)
)
_STATE = select(tasks.c.state, tasks.c.finalized_at, tasks.c.last_sequence).where(
    tasks.c.task_id == bindparam("task_id")
)


def read_task(connection: Connection, task_id: str) -> StoredTask | None:
    """Return a task; None if there is none.

    Raises:
        TaskSerializationError: What is stored cannot be read.
    """
    for _ in range(2):
        found = connection.execute(_ONE_TASK, {"task_id": task_id}).first()
        if found is None:
            return None
        row = _Whole._make(found)
        start, last = row.snapshot_sequence or 0, row.last_sequence
        tail: list[EventRow] = []
        if start != last:
            values = {"task_id": task_id, "after": start, "last": last}
            tail = [EventRow._make(event) for event in connection.execute(_TAIL, values)]
        if _is_whole(tail, start, last):
            return StoredTask(
                task=fold(task_id, row.snapshot, tail),
                sequence=last,
                owner=row.owner,
                tenant=row.tenant,
                finalized_at=_instant(row.finalized_at, task_id),
            )
        # It was deleted between the two statements, and perhaps made anew; or else the log is damaged.
    raise TaskSerializationError("events are missing in the stored log", task_id=task_id)


def read_events(connection: Connection, task_id: str, after: int) -> Sequence[Envelope]:
    """Return the events with numbers above ``after``.

    Raises:
        TaskSerializationError: One cannot be read, or is missing: a reader would not notice the gap.
    """
    rows = connection.execute(_EVENTS, {"task_id": task_id, "after": after}).all()
    if [row.sequence for row in rows] != list(range(after + 1, after + 1 + len(rows))):
        raise TaskSerializationError("events are missing in the stored log", task_id=task_id)
    return tuple(Envelope(row.sequence, decode_event(row.kind, row.body, task_id)) for row in rows)


def read_state(connection: Connection, task_id: str) -> tuple[str, Any] | None:
    """Return the name of a task's state and when it ended, as they are stored; None if there is no such task.

    Of a task that is over everything is read, which is a snapshot and rarely asked for. Of one that is not only the
    newest event is: each reader that leaves asks, and must not cost as much as the task is long.

    Raises:
        TaskSerializationError: What was read makes no task.
    """
    row = connection.execute(_STATE, {"task_id": task_id}).first()
    if row is None:
        return None
    if row.finalized_at is not None:
        return None if read_task(connection, task_id) is None else (row.state, row.finalized_at)
    newest = connection.execute(_NEWEST, {"task_id": task_id}).first()
    if newest is None or newest.sequence < row.last_sequence:
        if connection.execute(_STATE, {"task_id": task_id}).first() is None:
            return None  # it was deleted between the statements
        raise TaskSerializationError("events are missing in the stored log", task_id=task_id)
    decode_event(newest.kind, newest.body, task_id)
    return row.state, row.finalized_at


def tasks_of(connection: Connection, rows: Sequence[Row[Any]]) -> list[Task]:
    """Return the tasks of rows that `whole_rows` has read; one that was deleted since is left out.

    Raises:
        TaskSerializationError: What is stored cannot be read.
    """
    whole = [_Whole._make(row) for row in rows]
    tails: dict[str, list[EventRow]] = {row.task_id: [] for row in whole}
    unfinished = [row for row in whole if (row.snapshot_sequence or 0) != row.last_sequence]
    for start in range(0, len(unfinished), _TAILS):
        wanted = or_(
            *(
                and_(
                    events.c.task_id == row.task_id,
                    events.c.sequence > (row.snapshot_sequence or 0),
                    events.c.sequence <= row.last_sequence,
                )
                for row in unfinished[start : start + _TAILS]
            )
        )
        columns = (events.c.task_id, events.c.sequence, events.c.kind, events.c.body, events.c.message)
        found = connection.execute(select(*columns).where(wanted).order_by(events.c.task_id, events.c.sequence))
        for task_id, *event in found:
            tails[task_id].append(EventRow._make(event))
    made: list[Task] = []
    for row in whole:
        if _is_whole(tails[row.task_id], row.snapshot_sequence or 0, row.last_sequence):
            made.append(fold(row.task_id, row.snapshot, tails[row.task_id]))
        else:
            again = read_task(connection, row.task_id)
            if again is not None:
                made.append(again.task)
    return made


def _is_whole(tail: Sequence[EventRow], start: int, last: int) -> bool:
    return last > 0 and start <= last and [event.sequence for event in tail] == list(range(start + 1, last + 1))


def _instant(micros: Any, task_id: str) -> Any:
    try:
        return None if micros is None else from_micros(micros)
    except (TypeError, OverflowError) as error:
        raise TaskSerializationError("the stored instant of the end is none", task_id=task_id) from error
