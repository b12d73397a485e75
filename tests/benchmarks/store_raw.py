"""The worker for the stores' yardstick: a plain program that inserts rows which it has, and nothing else.

They are the rows of the log that this library's store has just written, the same bytes in the same columns of the same
table, and in the same transactions: so many rows as a group of commits had are one `executemany`, which is how these
drivers take many rows, and one commit. There is no task whose number must fit, no row of a task that moves with it, no
snapshot, nothing to encode, no event loop and no second thread. The disk is waited for when the store waits for it.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import create_engine, make_url

from trio_a2a.stores.sql.schema import events

from .store_workload import BATCHES_FILE, Stopwatch
from .workload import run_worker

Job = dict[str, Any]

_COLUMNS = [column.name for column in events.columns]


def read_batches(folder: str) -> list[list[tuple[Any, ...]]]:
    """Read what the store has written, with text as the bytes that it was."""
    written = json.loads((Path(folder) / BATCHES_FILE).read_text(encoding="utf-8"))
    return [[(*row[:4], row[4].encode(), row[5] and row[5].encode()) for row in batch] for batch in written]


@contextmanager
def connected(job: Job) -> Iterator[tuple[Any, str]]:
    """Connect to the job's database, and make the table; with what stands for a value in a statement."""
    url = make_url(job["url"])
    if job["database"] == "sqlite":
        assert url.database is not None
        make_table("sqlite+pysqlite", job["url"])
        with closing(sqlite3.connect(url.database)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {job.get('synchronous', 'NORMAL')}")
            yield connection, "?"
    else:
        make_table("postgresql+psycopg", job["url"])
        with psycopg.connect(job["url"]) as connection:
            yield connection, "%s"


def make_table(driver: str, url: str) -> None:
    """Make the table of the log as the store makes it."""
    engine = create_engine(make_url(url).set(drivername=driver))
    events.create(engine)
    engine.dispose()


def insert(job: Job) -> dict[str, float]:
    """Insert the rows."""
    batches = read_batches(job["folder"])
    with connected(job) as (connection, place):
        cursor = connection.cursor()
        places = ", ".join([place] * len(_COLUMNS))
        text = f"INSERT INTO {events.name} ({', '.join(_COLUMNS)}) VALUES ({places})"  # noqa: S608 - our own names
        watch = Stopwatch()
        for batch in batches:
            cursor.executemany(text, batch)
            connection.commit()
        return {"events/s": watch.rate(sum(map(len, batches)))}


if __name__ == "__main__":
    run_worker({"stores": insert})
