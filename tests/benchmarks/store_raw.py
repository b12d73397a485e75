"""The worker for the stores' yardstick: a plain program that inserts rows which it has, and nothing else.

They are the rows that this library's store has just written, the same bytes in the same columns of the same tables, and
in the same transactions: what a group of commits wrote is one `executemany` for each table, which is how these drivers
take many rows, and one commit. There is no task whose number must fit, nothing to encode, no event loop and no second
thread. The disk is waited for when the store waits for it.

Two rates come out of it: of the log's rows alone, and of all rows: there the row of each task of a group moves on with
its events, and snapshots are put in their places, as in the store.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import create_engine, make_url

from tests.stores.writers import TaskWriter
from trio_a2a.stores.sql.commit import prepare, write
from trio_a2a.stores.sql.schedule import SnapshotSchedule
from trio_a2a.stores.sql.schema import events, metadata, snapshots, tasks

from .store_ours import stream
from .store_workload import BATCHES_FILE, Stopwatch
from .workload import run_worker, task_id

Job = dict[str, Any]
Many = tuple[str, list[tuple[Any, ...]]]
"""A statement with "?" for each value, and its rows."""


def _insert(table: Any, suffix: str = "") -> str:
    names = [column.name for column in table.columns]
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}){suffix}"  # noqa: S608


def _update(*names: str) -> str:
    return f"UPDATE {tasks.name} SET {', '.join(f'{name} = ?' for name in names)} WHERE task_id = ?"  # noqa: S608


LOG = _insert(events)
NEW_TASK = _insert(tasks)
ADVANCE = _update("last_sequence")
RESTATE = _update("last_sequence", "context_key", "state", "position", "finalized_at", "runner")
SNAPSHOT = _insert(snapshots, " ON CONFLICT (task_id) DO UPDATE SET sequence = excluded.sequence, body = excluded.body")


class Recorder:
    """Stands for the store's statements, and keeps the rows that they would write."""

    def __init__(self) -> None:
        self.rows: list[Many] = []

    def key(self, text: str) -> str:
        """Return the id as it is."""
        return text

    def together(self, _: Any) -> AbstractContextManager[None]:
        """Return a block that does nothing."""
        return nullcontext()

    def are_many(self, _: Any) -> bool:
        """Nothing is written in a way of its own."""
        return False

    def insert_tasks(self, _: Any, rows: Sequence[Any]) -> None:
        """New tasks."""
        self.rows.append((NEW_TASK, [tuple(row) for row in rows]))

    def insert_events(self, _: Any, rows: Sequence[Any]) -> None:
        """New events."""
        self.rows.append((LOG, list(rows)))

    def put_snapshots(self, _: Any, rows: Sequence[Any]) -> None:
        """New snapshots."""
        self.rows.append((SNAPSHOT, [tuple(row) for row in rows]))

    def advance(self, _: Any, rows: Sequence[Any]) -> Callable[[], int]:
        """Tasks that got events."""
        self.rows.append((ADVANCE, [(row.last_sequence, row.task_id) for row in rows]))
        return lambda: len(rows)

    def restate(self, _: Any, rows: Sequence[Any]) -> Callable[[], int]:
        """Tasks that got a status."""
        values = [
            (row.last_sequence, row.context_key, row.state, row.position, row.finalized_at, row.runner, row.task_id)
            for row in rows
        ]
        self.rows.append((RESTATE, values))
        return lambda: len(rows)


def transactions(job: Job) -> list[list[Many]]:
    """Return what the store has written in each transaction."""
    groups = json.loads((Path(job["folder"]) / BATCHES_FILE).read_text(encoding="utf-8"))
    left = {task_id(number): iter(stream(task_id(number), job["events"])) for number in range(4, 4 + job["tasks"])}
    writers = {task: TaskWriter(task) for task in left}
    schedule = SnapshotSchedule()
    made: list[list[Many]] = []
    for number, group in enumerate(groups):
        recorder: Any = Recorder()
        commits = []
        for task, count in group:
            changes = [writers[task].change(next(left[task])) for _ in range(count)]
            now = 1_760_000_000_000_000 + number
            commits.append(prepare(changes, now=now, runner="runner", statements=recorder, schedule=schedule))
        write(None, commits, recorder)
        made.append(recorder.rows)
    assert not any(True for events in left.values() for _ in events)
    return made


@contextmanager
def connected(job: Job) -> Iterator[tuple[Any, str]]:
    """Connect to the job's database; with what stands for a value in a statement."""
    url = make_url(job["url"])
    if job["database"] == "sqlite":
        assert url.database is not None
        with closing(sqlite3.connect(url.database)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {job.get('synchronous', 'NORMAL')}")
            yield connection, "?"
    else:
        with psycopg.connect(job["url"]) as connection:
            yield connection, "%s"


def make_tables(job: Job) -> None:
    """Make the tables as the store makes them, with nothing in them."""
    driver = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg"}[job["database"]]
    engine = create_engine(make_url(job["url"]).set(drivername=driver))
    metadata.drop_all(engine)
    metadata.create_all(engine)
    engine.dispose()


def write_rows(job: Job, written: list[list[Many]]) -> float:
    """Write the rows; return how many of the log's they were in a second."""
    make_tables(job)
    with connected(job) as (connection, place):
        work = [[(text.replace("?", place), rows) for text, rows in statements] for statements in written]
        cursor = connection.cursor()
        watch = Stopwatch()
        for statements in work:
            for text, rows in statements:
                cursor.executemany(text, rows)
            connection.commit()
        return watch.rate(job["tasks"] * job["events"])


def stores(job: Job) -> dict[str, float]:
    """Write the log alone, and then everything."""
    written = transactions(job)
    log = [[many for many in statements if many[0] == LOG] for statements in written]
    return {"log events/s": write_rows(job, log), "events/s": write_rows(job, written)}


if __name__ == "__main__":
    run_worker({"stores": stores})
