"""Compares what clients saw with what is stored, row by row, without the store's own reading.

For each task: the log is gap-free from 1 to the number in the task's row; every event that a client saw is there under
its number, as it was; the snapshot is the fold of the events up to its number; the columns say what the fold says.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping

import attrs
from sqlalchemy import Connection, select

from tests.stores.databases import connect_to
from trio_a2a.abc import StreamEvent
from trio_a2a.reducer import WorkingTask, reduce
from trio_a2a.stores import open_sql_store
from trio_a2a.stores.sql.schema import events, snapshots, tasks
from trio_a2a.types import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from trio_a2a.wire import from_json

Seen = Mapping[str, Mapping[int, str]]
"""By task: the digest of each event by its number."""

_KINDS: dict[str, type[StreamEvent]] = {
    "task": Task,
    "status": TaskStatusUpdateEvent,
    "artifact": TaskArtifactUpdateEvent,
}
_AT_ONCE = 100


@attrs.define
class Findings:
    """What a check came to.

    Attributes:
        tasks: How many tasks were compared.
        events: How many events they have.
        seen: How many of them a client had seen.
        faults: What is wrong, a sentence each.
    """

    tasks: int = 0
    events: int = 0
    seen: int = 0
    faults: list[str] = attrs.Factory(list)


def digest_of(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=8).hexdigest()


def check(url: str, seen: Seen, only: Collection[str] | None = None) -> Findings:
    """Compare the tasks that are named, or all: those that are stored, and those that were seen."""
    findings = Findings()
    engine = connect_to(url)
    with engine.connect() as connection:
        names = set(only) if only is not None else {*connection.scalars(select(tasks.c.task_id)), *seen}
        ordered = sorted(names)
        for start in range(0, len(ordered), _AT_ONCE):
            _check_some(connection, ordered[start : start + _AT_ONCE], seen, findings)
    engine.dispose()
    return findings


def _check_some(connection: Connection, names: list[str], seen: Seen, findings: Findings) -> None:
    rows = {row.task_id: row for row in connection.execute(select(tasks).where(tasks.c.task_id.in_(names)))}
    shots = {row.task_id: row for row in connection.execute(select(snapshots).where(snapshots.c.task_id.in_(names)))}
    logs: dict[str, list] = {name: [] for name in names}
    query = select(events).where(events.c.task_id.in_(names)).order_by(events.c.task_id, events.c.sequence)
    for row in connection.execute(query):
        logs[row.task_id].append(row)
    for name in names:
        wanted = seen.get(name, {})
        findings.tasks += 1
        findings.events += len(logs[name])
        findings.seen += len(wanted)
        findings.faults += (
            f"task {name}: {text}" for text in _faults(rows.get(name), shots.get(name), logs[name], wanted)
        )


def _faults(row, shot, log, wanted: Mapping[int, str]) -> Iterator[str]:
    stored = {one.sequence: digest_of(bytes(one.body)) for one in log}
    for number, digest in wanted.items():
        if number not in stored:
            yield f"event {number} was seen and is not stored"
        elif stored[number] != digest:
            yield f"event {number} is another one than was seen"
    if row is None:
        if log or shot is not None:
            yield "there are events or a snapshot without a task"
        return
    if list(stored) != list(range(1, row.last_sequence + 1)):
        yield f"the log has the numbers {list(stored)}, and the task is at {row.last_sequence}"
        return
    state: WorkingTask | None = None
    for one in log:
        said = None if one.message is None else from_json(one.message, Message)
        state = reduce(state, from_json(one.body, _KINDS[one.kind]), said)
        if shot is not None and shot.sequence == one.sequence and from_json(shot.body, Task) != state.task():
            yield f"the snapshot at {shot.sequence} is not the fold of the events"
    if shot is not None and shot.sequence > row.last_sequence:
        yield f"the snapshot is at {shot.sequence}, and the task at {row.last_sequence}"
    if row.state != state.status.state.name:
        yield f"the row says {row.state}, and the events {state.status.state.name}"
    if state.status.state.is_final != (row.finalized_at is not None):
        yield f"the row says finalized_at = {row.finalized_at} in the state {row.state}"


async def check_reading(url: str, names: Collection[str]) -> list[str]:
    """Compare what the store's own reading makes of tasks with the fold of its log."""
    faults = []
    async with open_sql_store(url, create=False) as store:
        for name in names:
            stored = await store.get(name)
            log = await store.events(name, 0)
            if stored is None:
                if log:
                    faults.append(f"task {name}: there are events without a task")
            elif [envelope.sequence for envelope in log] != list(range(1, stored.sequence + 1)):
                faults.append(f"task {name}: is read at {stored.sequence}, with {len(log)} events")
            elif stored.task.id != name:
                faults.append(f"task {name}: is read as {stored.task.id}")
    return faults
