"""The few statements of the writer's hot path, each over many rows at once, in the dialect of each database.

They are text for the driver's own cursor: a statement through SQLAlchemy costs some 50 us, and a group of commits has
four of them. Each is one call of the driver for all rows, for a second reason: around every step of a statement the
driver lets go of the interpreter lock, and while Trio's thread is busy it takes up to 5 ms to get it back. (A COPY is a
call for each row, but those wait for nothing.)

Compare-and-set is in the UPDATE's condition; the number of rows that it has changed tells whether all were as expected.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Final, NamedTuple, cast, final

from .schema import events, snapshots, tasks

__all__ = ["Advance", "EventRow", "NewSnapshot", "NewTask", "Restate", "Statements", "statements_for"]


class NewTask(NamedTuple):
    """A row of the tasks; the fields are its columns."""

    task_id: Any
    owner: Any
    tenant: Any
    context_key: Any
    state: Any
    position: int
    last_sequence: int
    created_at: int
    finalized_at: int | None
    runner: Any


class Advance(NamedTuple):
    """A task that got events but no status."""

    task_id: Any
    expected: int
    last_sequence: int


class Restate(NamedTuple):
    """A task that got a status, which counts if the task was not over already."""

    task_id: Any
    expected: int
    last_sequence: int
    context_key: Any
    # 1: the context is the one of a whole Task and replaces what there is; 0: it only fills a gap.
    replaces_context: int
    state: Any
    position: int
    finalized_at: int | None
    runner: Any


EventRow = tuple[Any, int, int, Any, bytes, bytes | None]
"""A row of the log. There is one for each event, so it is a plain tuple, which is made in a fifth of the time."""

_EVENT_COLUMNS: Final = ("task_id", "sequence", "recorded_at", "kind", "body", "message")


class NewSnapshot(NamedTuple):
    """A snapshot, in the place of the task's last one."""

    task_id: Any
    sequence: int
    body: bytes


# What `Restate` does, with `t` for the row and `v` for the new values. A task that is over stays as it is: the same
# state again is a replay.
_RESTATED: Final = {
    "context_key": "CASE WHEN v.context_key <> '' AND t.finalized_at IS NULL"
    " AND (v.replaces_context = 1 OR t.context_key = '') THEN v.context_key ELSE t.context_key END",
    "state": "CASE WHEN t.finalized_at IS NULL THEN v.state ELSE t.state END",
    "position": "CASE WHEN t.finalized_at IS NULL THEN v.position ELSE t.position END",
    "runner": "CASE WHEN t.finalized_at IS NULL THEN v.runner ELSE t.runner END",
    "finalized_at": "COALESCE(t.finalized_at, v.finalized_at)",
    "last_sequence": "v.last_sequence",
}
# One for each field, in PostgreSQL's names.
_TYPES: Final = {
    "expected": "bigint",
    "last_sequence": "bigint",
    "sequence": "bigint",
    "position": "bigint",
    "created_at": "bigint",
    "recorded_at": "bigint",
    "finalized_at": "bigint",
    "replaces_context": "smallint",
    "body": "bytea",
    "message": "bytea",
}


class Statements(ABC):
    """Writes many rows through a connection of the driver. What goes wrong is the driver's own exception."""

    def key(self, text: str) -> Any:
        """Return an id as the driver is to send it."""
        return text

    def together(self, connection: Any) -> AbstractContextManager[Any]:
        """Return a block whose statements may be sent without waiting for each one's answer."""
        return nullcontext()

    def are_many(self, rows: Sequence[EventRow]) -> bool:
        """Tell whether so many events are written in a way of their own, which has to be outside of `together`."""
        return False

    def insert_tasks(self, connection: Any, rows: Sequence[NewTask]) -> None:
        """Make tasks; one that is there already is an integrity error."""
        self._insert(connection, tasks.name, NewTask._fields, rows)

    def insert_events(self, connection: Any, rows: Sequence[EventRow]) -> None:
        """Append to the logs."""
        self._insert(connection, events.name, _EVENT_COLUMNS, rows)

    def put_snapshots(self, connection: Any, rows: Sequence[NewSnapshot]) -> None:
        """Put snapshots in the places of the ones before."""
        self._insert(connection, snapshots.name, NewSnapshot._fields, rows, self._replace)

    def advance(self, connection: Any, rows: Sequence[Advance]) -> Callable[[], int]:
        """Move tasks on; behind the block, the function tells how many were at the sequence that was expected."""
        return self._update(connection, Advance._fields, rows, {"last_sequence": "v.last_sequence"})

    def restate(self, connection: Any, rows: Sequence[Restate]) -> Callable[[], int]:
        """Move tasks on with their status; as `advance`."""
        return self._update(connection, Restate._fields, rows, _RESTATED)

    _replace = "ON CONFLICT (task_id) DO UPDATE SET sequence = excluded.sequence, body = excluded.body"

    @abstractmethod
    def _insert(
        self, connection: Any, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], suffix: str = ""
    ) -> None: ...

    @abstractmethod
    def _update(
        self, connection: Any, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], changes: dict[str, str]
    ) -> Callable[[], int]: ...


def _flat(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [value for row in rows for value in row]


@final
class _Sqlite(Statements):
    """Statements for some numbers of rows, so that few are to be prepared: the rows that are too few are all NULL.

    Such a number has three binary digits and then zeros; there are 36 of them up to the largest. A row of NULLs is not
    inserted, and is equal to no task.
    """

    # Ten columns of as many rows are below the 32766 parameters that a statement can have.
    _ROWS = 1024

    def _insert(
        self, connection: Any, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], suffix: str = ""
    ) -> None:
        for values, count in self._pieces(rows, len(columns)):
            connection.execute(_sqlite_insert(table, tuple(columns), suffix, count), values)

    def _update(
        self, connection: Any, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], changes: dict[str, str]
    ) -> Callable[[], int]:
        changed = 0
        for values, count in self._pieces(rows, len(columns)):
            text = _sqlite_update(tuple(columns), tuple(changes.items()), count)
            changed += connection.execute(text, values).rowcount
        return lambda: changed

    def _pieces(self, rows: Sequence[tuple[Any, ...]], width: int) -> Iterator[tuple[list[Any], int]]:
        """Cut rows into pieces, each a flat list for a statement of so many rows."""
        for start in range(0, len(rows), self._ROWS):
            values = _flat(rows[start : start + self._ROWS])
            present = len(values) // width
            zeros = max(0, present.bit_length() - 3)
            count = -(-present >> zeros) << zeros
            values += [None] * ((count - present) * width)
            yield values, count


@cache
def _sqlite_insert(table: str, columns: tuple[str, ...], suffix: str, count: int) -> str:
    return (
        f"INSERT INTO {table} ({', '.join(columns)})"  # noqa: S608 - our own names
        f" SELECT * FROM (VALUES {_places('?', len(columns), count)}) WHERE column1 IS NOT NULL {suffix}"
    )


@cache
def _sqlite_update(columns: tuple[str, ...], changes: tuple[tuple[str, str], ...], count: int) -> str:
    changed = ", ".join(f"{column} = {value}" for column, value in changes)
    # Not as a WITH before the UPDATE: the driver counts rows only for what begins with a changing keyword.
    named = ", ".join(f"column{number} AS {column}" for number, column in enumerate(columns, 1))
    return (
        f"UPDATE {tasks.name} AS t SET {changed}"  # noqa: S608 - our own names, here and below
        f" FROM (SELECT {named} FROM (VALUES {_places('?', len(columns), count)})) AS v"
        " WHERE t.task_id = v.task_id AND t.last_sequence = v.expected"
    )


def _places(place: str, columns: int, rows: int) -> str:
    row = f"({', '.join([place] * columns)})"
    return ", ".join([row] * rows)


@final
class _Postgresql(Statements):
    """One array a column: the text is the same for any number of rows, so the server prepares it once.

    Many events are copied: for driver and server together that is a third of the work. It takes two more round trips,
    so few events go with the other statements of their group.
    """

    _COPIED = 64

    def __init__(self) -> None:
        import psycopg  # noqa: PLC0415 - the driver of this database only

        self._has_pipelines = psycopg.Pipeline.is_supported()  # libpq from 14 on

    def together(self, connection: Any) -> AbstractContextManager[Any]:
        return cast("AbstractContextManager[Any]", connection.pipeline()) if self._has_pipelines else nullcontext()

    def are_many(self, rows: Sequence[EventRow]) -> bool:
        return len(rows) >= self._COPIED

    def insert_events(self, connection: Any, rows: Sequence[EventRow]) -> None:
        if not self.are_many(rows):
            super().insert_events(connection, rows)
            return
        columns = ", ".join(_EVENT_COLUMNS)
        with connection.cursor().copy(f"COPY {events.name} ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types([_TYPES.get(column, "text") for column in _EVENT_COLUMNS])
            for row in rows:
                copy.write_row(row)

    def _insert(
        self, connection: Any, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], suffix: str = ""
    ) -> None:
        names = ", ".join(columns)
        arrays = _arrays(columns)
        text = f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays}) {suffix}"  # noqa: S608 - our own names
        connection.execute(text, _columns(rows))

    def _update(
        self, connection: Any, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], changes: dict[str, str]
    ) -> Callable[[], int]:
        changed = ", ".join(f"{column} = {value}" for column, value in changes.items())
        cursor = connection.execute(
            f"UPDATE {tasks.name} AS t SET {changed}"  # noqa: S608
            f" FROM unnest({_arrays(columns)}) AS v ({', '.join(columns)})"
            ' WHERE t.task_id = v.task_id COLLATE "C" AND t.last_sequence = v.expected',
            _columns(rows),
        )
        return lambda: cast("int", cursor.rowcount)


def _arrays(columns: Sequence[str]) -> str:
    return ", ".join(f"%s::{_TYPES.get(column, 'text')}[]" for column in columns)


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


@final
class _Mysql(Statements):
    # The driver writes the values into the statement, which has to fit into the server's packet: 16 MiB by default on
    # MariaDB, 64 MiB on MySQL, and some providers have 4.
    _BYTES = 1 << 20
    _ROWS = 1000
    _replace = "ON DUPLICATE KEY UPDATE sequence = VALUES(sequence), body = VALUES(body)"

    def key(self, text: str) -> Any:
        return text.encode()

    def _insert(
        self, connection: Any, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], suffix: str = ""
    ) -> None:
        head = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "  # noqa: S608 - our own names
        cursor = connection.cursor()
        for piece in self._pieces(rows):
            cursor.execute(f"{head}{_places('%s', len(columns), len(piece))} {suffix}", _flat(piece))

    def _update(
        self, connection: Any, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], changes: dict[str, str]
    ) -> Callable[[], int]:
        # `v.context_key <> ''` and the like compare bytes with bytes, because the values are bytes.
        changed = ", ".join(f"t.{column} = {value}" for column, value in changes.items())
        first = f"SELECT {', '.join(f'%s AS {column}' for column in columns)}"
        more = f" UNION ALL SELECT {', '.join(['%s'] * len(columns))}"
        count = 0
        cursor = connection.cursor()
        for piece in self._pieces(rows):
            # From the values to the tasks, never the other way round: that would read the whole table.
            cursor.execute(
                f"UPDATE ({first}{more * (len(piece) - 1)}) AS v STRAIGHT_JOIN {tasks.name} AS t"  # noqa: S608
                f" ON t.task_id = v.task_id AND t.last_sequence = v.expected SET {changed}",
                _flat(piece),
            )
            count += cursor.rowcount
        return lambda: count

    def _pieces(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
        start = size = 0
        for index, row in enumerate(rows):
            length = sum(len(value) for value in row if isinstance(value, bytes))
            if index > start and (size + length > self._BYTES or index - start == self._ROWS):
                yield rows[start:index]
                start, size = index, 0
            size += length
        yield rows[start:]


def statements_for(backend: str) -> Statements:
    """Return the statements in the dialect of a database.

    Args:
        backend: SQLAlchemy's name for the kind of database.
    """
    if backend == "sqlite":
        return _Sqlite()
    return _Postgresql() if backend == "postgresql" else _Mysql()
