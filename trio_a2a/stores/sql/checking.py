"""Whether what is stored is whole: each task's row, its log and its snapshot say the same.

It may be run on a database that is in use. Some tasks at a time are looked at in one transaction, which sees the
database as it was at one instant; an event that comes meanwhile is not in it. In memory is one task at a time, and a
page of its events.

Push configurations are not looked at: without the key they are secret.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, final

import attrs
from sqlalchemy import Connection, Row, Table, exists, select

from ...errors import A2AError, StoreError, TaskIdMismatchError, TaskTerminalError
from ...reducer import WorkingTask, reduce
from ...types import Message, Task
from ...wire import from_json, to_json
from .maintenance import looking
from .rows import decode_event, state_of
from .schema import events, snapshots, tasks

__all__ = ["Checked", "Finding", "check"]

_TASKS: Final = 200
"""Tasks that are looked at in one transaction: an open one keeps the database from cleaning up behind it."""
_EVENTS: Final = 250
"""Events that are read at once."""
_UNREADABLE = (A2AError, StoreError, TypeError, ValueError, LookupError)


@attrs.frozen(kw_only=True)
class Finding:
    """Something that is wrong.

    Attributes:
        task_id: With which task.
        problem: What it is, in words.
    """

    task_id: str
    problem: str


@attrs.frozen(kw_only=True)
class Checked:
    """What was looked at.

    Attributes:
        tasks: Tasks.
        events: Events.
        findings: What was wrong.
    """

    tasks: int
    events: int
    findings: int


def check(url: str, report: Callable[[Finding], object]) -> Checked:
    """Look at every task of a database. Blocks; Trio is not needed.

    Args:
        url: As for `open_sql_store`.
        report: Called with each finding, as soon as there is one.

    Raises:
        ValueError: As `open_sql_store`.
        ImportError: As `open_sql_store`.
        StoreError: The database cannot be read, or its tables are missing or of another version.
    """

    def work(connection: Connection) -> Checked:
        return _Check(connection, report).run()

    return looking(url, work)


@final
class _Check:
    """One look at everything."""

    def __init__(self, connection: Connection, report: Callable[[Finding], object]) -> None:
        self._connection = connection
        self._report = report
        self._tasks = self._events = self._findings = 0

    def run(self) -> Checked:
        """Look at everything."""
        connection = self._connection
        connection.commit()  # what was asked before is not to be part of the first instant
        if connection.dialect.name != "sqlite":
            connection.execution_options(isolation_level="REPEATABLE READ")
        after, more = "", True
        while more:
            with self._instant():
                rows = connection.execute(
                    select(tasks).where(tasks.c.task_id > after).order_by(tasks.c.task_id).limit(_TASKS)
                ).all()
                for row in rows:
                    self._check_task(row)
            more = len(rows) == _TASKS
            after = rows[-1].task_id if rows else after
        for table, what in ((events, "there are events"), (snapshots, "there is a snapshot")):
            self._check_strays(table, what)
        return Checked(tasks=self._tasks, events=self._events, findings=self._findings)

    @contextmanager
    def _instant(self) -> Iterator[None]:
        """See the database as it is at one instant."""
        if self._connection.dialect.name != "sqlite":
            with self._connection.begin():
                yield
            return
        self._connection.exec_driver_sql("BEGIN")
        try:
            yield
        finally:
            self._connection.exec_driver_sql("COMMIT")

    def _find(self, task_id: str, problem: str) -> None:
        self._findings += 1
        self._report(Finding(task_id=task_id, problem=problem))

    def _check_task(self, row: Row[Any]) -> None:
        self._tasks += 1
        log = _Log(self._connection, row, lambda problem: self._find(row.task_id, problem))
        try:
            log.check()
        except _UNREADABLE as error:  # SQLite columns hold what they are given: text may be where a number belongs
            self._find(row.task_id, f"its rows cannot be read: {_said(error)}")
        self._events += log.count

    def _check_strays(self, table: Table, what: str) -> None:
        """Look for what belongs to no task, some of them at a time."""
        after, more = "", True
        while more:
            ids = self._connection.scalars(
                select(table.c.task_id)
                .distinct()
                .where(table.c.task_id > after, ~exists().where(tasks.c.task_id == table.c.task_id))
                .order_by(table.c.task_id)
                .limit(_TASKS)
            ).all()
            for task_id in ids:
                self._find(task_id, f"{what} of it, and no such task")
            more = len(ids) == _TASKS
            after = ids[-1] if ids else after


@final
class _Log:
    """One task's log, held against its row and its snapshot."""

    def __init__(self, connection: Connection, row: Row[Any], find: Callable[[str], None]) -> None:
        self._connection = connection
        self._row = row
        self._find = find
        self._state: WorkingTask | None = None
        # Whether the events so far can be folded: behind a gap nothing is known of the state.
        self._is_whole = True
        self.count = 0

    def check(self) -> None:
        """Look at everything of the task, and count its events."""
        row = self._row
        self._check_end()
        at, shot = self._snapshot()
        last = 0
        for event in self._rows():
            self.count += 1
            self._check_event(event, last)
            last = event.sequence
            if last == at and shot is not None and self._is_whole:
                self._compare(last, shot)
        if last != row.last_sequence:
            self._find(f"its log ends with event {last}, its row says {row.last_sequence}")
        elif self._is_whole:
            self._check_outcome()
        if at is not None and at > last:
            self._find(f"its snapshot is of event {at}, behind the end of its log")

    def _check_end(self) -> None:
        """Hold the state against the instant of the end."""
        row = self._row
        try:
            is_final = state_of(row.state, row.task_id).is_final
        except StoreError:
            self._find(f"its state is {row.state!r}, which is none")
            return
        if is_final and row.finalized_at is None:
            self._find(f"its state {row.state} is final, and there is no instant of its end")
        elif row.finalized_at is not None and not is_final:
            self._find(f"its state {row.state} is not final, and there is an instant of its end")

    def _snapshot(self) -> tuple[int | None, bytes | None]:
        """Return the number and the body of the snapshot, if there is one; no body if it cannot be read."""
        found = self._connection.execute(
            select(snapshots.c.sequence, snapshots.c.body).where(snapshots.c.task_id == self._row.task_id)
        ).first()
        if found is None:
            return None, None
        try:
            # Encoded anew: an older version of this library may have written the same task in other words.
            return found.sequence, to_json(from_json(found.body, Task))
        except _UNREADABLE as error:
            self._find(f"its snapshot cannot be read: {_said(error)}")
            return found.sequence, None

    def _rows(self) -> Iterator[Any]:
        columns = (events.c.sequence, events.c.kind, events.c.body, events.c.message)
        query = select(*columns).where(events.c.task_id == self._row.task_id).order_by(events.c.sequence)
        page = self._connection.execute(query.limit(_EVENTS)).all()
        while page:
            yield from page
            if len(page) < _EVENTS:
                return
            page = self._connection.execute(query.where(events.c.sequence > page[-1].sequence).limit(_EVENTS)).all()

    def _check_event(self, event: Row[Any], last: int) -> None:
        number = event.sequence
        if number != last + 1:
            missing = f"event {last + 1} is" if number == last + 2 else f"events {last + 1} to {number - 1} are"
            self._find(f"{missing} missing" if number > last + 1 else f"there is an event with the number {number}")
            self._is_whole = False
        try:
            value = decode_event(event.kind, event.body, self._row.task_id)
            message = None if event.message is None else from_json(event.message, Message)
        except _UNREADABLE as error:
            self._find(f"event {number} cannot be read: {_said(error)}")
            self._is_whole = False
            return
        if self._is_whole:
            try:
                self._state = reduce(self._state, value, message)
            except (*_UNREADABLE, TaskTerminalError, TaskIdMismatchError) as error:
                self._find(f"event {number} cannot follow those before it: {_said(error)}")
                self._is_whole = False

    def _compare(self, at: int, shot: bytes) -> None:
        if self._state is None or to_json(self._state.task()) != shot:
            self._find(f"its snapshot is not what its events up to {at} make")

    def _check_outcome(self) -> None:
        """Hold what the whole log makes against the row."""
        state = self._state
        if state is None or state.id != self._row.task_id:
            self._find("its events do not make that task")
        elif state.status.state.name != self._row.state:
            self._find(f"its state is {self._row.state}, its events make it {state.status.state.name}")


def _said(error: BaseException) -> str:
    """Return what is wrong with a row: its kind only, since the text may repeat what users wrote."""
    cause = error.__cause__ if isinstance(error, StoreError) and error.__cause__ is not None else error
    return type(cause).__name__
