"""Whose process is gone: statements over ``a2a_processes`` and the ``runner`` of tasks.

A process is alive while its row says that its lease has not expired. One that is found to be gone loses its row in the
transaction that claims its tasks, so that its own next renewal tells it. Of two claimers one changes a task's
``runner``; the other finds that it is no longer the dead process.

`find_orphans` reads the runners before it reads the processes. A process writes its row before its first task, so one
that starts between the two statements is never taken for gone.
"""

from collections.abc import Sequence

import attrs
from sqlalchemy import Connection, delete, func, insert, select, update

from ...types import TaskState
from .schema import processes, tasks

__all__ = ["Candidate", "Outlook", "claim", "find_orphans", "look_out", "register", "remove", "renew"]

_UNATTENDED = (TaskState.SUBMITTED.name, TaskState.WORKING.name)


@attrs.frozen
class Candidate:
    """A task that was found with a runner that is gone."""

    task_id: str
    runner: str


@attrs.frozen
class Outlook:
    """What there is to be done now, and when there may be more.

    Attributes:
        has_orphans: Whether the runner of a task is gone.
        next_expiry: When the first lease of another process expires, in microseconds, unless it is renewed; None if
            there is no other process.
    """

    has_orphans: bool
    next_expiry: int | None


def register(connection: Connection, process_id: str, *, now: int, expires: int) -> None:
    """Write a process's row, and drop the rows of processes that are gone: their tasks are orphans without it, too."""
    connection.execute(delete(processes).where(processes.c.expires_at <= now))
    connection.execute(insert(processes).values(process_id=process_id, started_at=now, expires_at=expires))


def renew(connection: Connection, process_id: str, *, now: int, expires: int) -> bool:
    """Extend a process's lease; tell whether it still had one. If it had none, it has one again."""
    own = processes.c.process_id == process_id
    if connection.execute(update(processes).where(own).values(expires_at=expires)).rowcount:
        return True
    connection.execute(insert(processes).values(process_id=process_id, started_at=now, expires_at=expires))
    return False


def remove(connection: Connection, process_id: str) -> None:
    """Remove a process's row: what it leaves unfinished is an orphan at once."""
    connection.execute(delete(processes).where(processes.c.process_id == process_id))


def look_out(connection: Connection, process_id: str, now: int) -> Outlook:
    """Tell what there is for a process to claim, now and later."""
    has_orphans = bool(_gone(connection, process_id, now))
    others = select(func.min(processes.c.expires_at)).where(
        processes.c.expires_at > now, processes.c.process_id != process_id
    )
    return Outlook(has_orphans, connection.scalar(others))


def find_orphans(connection: Connection, process_id: str, now: int, limit: int) -> list[Candidate]:
    """Return tasks, at most so many, whose process is gone."""
    found: list[Candidate] = []
    for runner in _gone(connection, process_id, now):
        rows = connection.execute(
            select(tasks.c.task_id)
            .where(tasks.c.runner == runner, tasks.c.state.in_(_UNATTENDED))
            .order_by(tasks.c.task_id)
            .limit(limit - len(found))
        )
        found += [Candidate(task_id, runner) for (task_id,) in rows]
        if len(found) == limit:
            break
    return found


def claim(connection: Connection, candidates: Sequence[Candidate], process_id: str, now: int) -> list[str]:
    """Make a process the runner of those candidates whose runner is still the one that is gone; return their ids.

    It may be repeated: none of the candidates was the process's when it was found, so those that are have been claimed.
    """
    claimed: list[str] = []
    for runner in sorted({candidate.runner for candidate in candidates}):
        ids = [candidate.task_id for candidate in candidates if candidate.runner == runner]
        if _is_gone_for_good(connection, runner, now):
            changed = update(tasks).where(
                tasks.c.task_id.in_(ids), tasks.c.runner == runner, tasks.c.state.in_(_UNATTENDED)
            )
            connection.execute(changed.values(runner=process_id))
        ours = select(tasks.c.task_id).where(tasks.c.task_id.in_(ids), tasks.c.runner == process_id)
        claimed += connection.scalars(ours)
    return claimed


def _is_gone_for_good(connection: Connection, runner: str, now: int) -> bool:
    """Take a process's row away if its lease has expired; tell whether it has none."""
    row = processes.c.process_id == runner
    connection.execute(delete(processes).where(row, processes.c.expires_at <= now))
    return connection.scalar(select(processes.c.process_id).where(row)) is None


def _gone(connection: Connection, process_id: str, now: int) -> list[str]:
    """Return the runners of tasks that have no live lease, apart from the process itself."""
    # From one runner to the next: a few steps in the index, however many tasks each has.
    runners: list[str] = []
    last = ""
    while (last := connection.scalar(select(func.min(tasks.c.runner)).where(tasks.c.runner > last))) is not None:
        runners.append(last)
    alive = set(connection.scalars(select(processes.c.process_id).where(processes.c.expires_at > now)))
    return [runner for runner in runners if runner != process_id and runner not in alive]
