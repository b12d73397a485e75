"""The database in trouble: down, refusing, silent, full, read-only, locked. The store heals without being opened anew.

Tasks that are hit end their streams with STORE_FAILURE and go on afterwards; others do not notice; nothing that was
seen is lost, and nothing is stored twice. Sockets and threads are at work: no autojump clock.
"""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Any

import pytest
import trio
from sqlalchemy import Connection, event

from tests.deadline import within
from tests.stores.line import open_line
from tests.stores.servers import Server, server
from tests.stores.workload import open_workload, outlive
from trio_a2a.errors import TaskPersistenceError
from trio_a2a.stores import SqlTaskStore, open_sql_store
from trio_a2a.types import ListTasksRequest


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def own(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of this module's own."""
    with server(request.param) as made:
        yield made


@pytest.fixture
def own_url(own: Server) -> Iterator[str]:
    """A new database on it."""
    own.execute("CREATE DATABASE hit")
    yield own.url.rpartition("/")[0] + "/hit"
    own.execute("DROP DATABASE hit WITH (FORCE)" if own.kind == "postgresql" else "DROP DATABASE hit")


in_thread = trio.to_thread.run_sync


@asynccontextmanager
async def statements(
    own: Server, before: list[str], after: list[str], database: str | None = None
) -> AsyncIterator[None]:
    await in_thread(partial(own.execute, *before, database=database))
    try:
        yield
    finally:
        await in_thread(partial(own.execute, *after, database=database))


# --------------------------------------------------------------------------------------------------- servers of our own


@pytest.mark.requirement("S4-STORE-FAILURE", "S1-ISOLATION")
@within(60)
async def test_a_server_that_crashes_and_comes_back(own: Server, own_url: str) -> None:
    """Also: what was seen survives the crash of the server."""

    @asynccontextmanager
    async def down() -> AsyncIterator[None]:
        await in_thread(own.stop)
        yield
        await in_thread(own.start)

    async with open_workload(own_url) as work:
        await outlive(work, down())


def _until_told(value: str, connection: Connection) -> None:
    """Wait until PostgreSQL's process for a connection knows of a setting: it is told, and looks between statements."""
    while connection.exec_driver_sql("SHOW default_transaction_read_only").scalar() != value:
        connection.exec_driver_sql("SELECT pg_sleep(0.01)")


@within(60)
async def test_a_server_that_is_read_only_for_a_while(own: Server, own_url: str) -> None:
    """Reading goes on. As after a failover: the connection is there, and of no use for writing."""
    if own.kind == "postgresql":
        reload = "SELECT pg_reload_conf()"
        before = ["ALTER SYSTEM SET default_transaction_read_only = on", reload]
        after = ["ALTER SYSTEM RESET default_transaction_read_only", reload]
        url = own_url
    else:
        # Its administrator may write all the same.
        user = "'writer'@'127.0.0.1'"
        await in_thread(own.execute, f"CREATE USER IF NOT EXISTS {user}", f"GRANT ALL ON hit.* TO {user}")
        before, after = ["SET GLOBAL read_only = 1"], ["SET GLOBAL read_only = 0"]
        url = own_url.replace("root@", "writer@")

    @asynccontextmanager
    async def read_only() -> AsyncIterator[None]:
        async with statements(own, before, after):
            await noticed("on")
            yield
            assert (await work.store.get("hit0")) is not None
            assert (await work.store.list(ListTasksRequest(), owner=""))[1] == 7
            with pytest.raises(TaskPersistenceError, match=r"(?i)read.only"):
                async with open_sql_store(url):
                    raise AssertionError("nothing can be written, not even that this process is alive")
            with pytest.raises(TaskPersistenceError, match=r"(?i)read.only"):
                await work.store.delete("hit0")
        await noticed("off")

    async def noticed(value: str) -> None:
        if own.kind == "postgresql":
            await work.store._database.writer.do(partial(_until_told, value))

    async with open_workload(url) as work:
        await outlive(work, read_only())


@within(60)
async def test_a_server_whose_disk_is_full_for_a_while(own: Server, own_url: str) -> None:
    """The server's own error for it, raised where a row is written."""
    if own.kind == "postgresql":
        fail = "BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END"
        before = [
            f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ {fail} $$",
            "CREATE TRIGGER no_room BEFORE INSERT ON a2a_events FOR EACH ROW EXECUTE FUNCTION fail()",
        ]
        after = ["DROP TRIGGER no_room ON a2a_events"]
    else:
        fail = "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'"
        before = [f"CREATE TRIGGER no_room BEFORE INSERT ON a2a_events FOR EACH ROW {fail}"]
        after = ["DROP TRIGGER no_room"]
    async with open_workload(own_url) as work:
        await outlive(work, statements(own, before, after, "hit"))


# --------------------------------------------------------------------------------------------------------- on the line


@within(60)
async def test_a_server_that_refuses_connections_for_a_while(own: Server, own_url: str) -> None:
    @asynccontextmanager
    async def refusing() -> AsyncIterator[None]:
        line.refused = True
        line.cut()
        yield
        line.refused = False

    async with open_line(own_url) as line, open_workload(line.url) as work:
        await outlive(work, refusing())


@within(60)
async def test_a_server_that_says_nothing_for_a_while(own: Server, own_url: str) -> None:
    """Its connections stay, and it never answers: the store gives up by itself."""

    @asynccontextmanager
    async def silent() -> AsyncIterator[None]:
        line.stall()
        yield
        line.flow()

    async with open_line(own_url) as line, open_workload(line.url) as work:
        await outlive(work, silent())


@within(60)
async def test_a_slow_server_slows_and_harms_nobody(own: Server, own_url: str) -> None:
    async with open_line(own_url) as line, open_workload(line.url, statement_timeout=10) as work:
        names = [f"t{number}" for number in range(10)]
        for name in names:
            await work.begin(name)
        line.delay = 0.05
        for _ in range(5):
            for name in names:
                await work.feed(name)
        for name in names:
            await work.finish(name)
        await work.until(lambda: all(work.reasons[name] for name in names))
        line.delay = 0
        assert all(list(work.seen[name]) == [1, 2, 3, 4, 5, 6, 7] for name in names)


# --------------------------------------------------------------------------------------------------------------- SQLite


@asynccontextmanager
async def with_pragma(store: SqlTaskStore, before: str, after: str) -> AsyncIterator[None]:
    """Set the writer's connection, and those that it makes meanwhile, to what a full or protected disk is to it."""
    writer = store._database.writer
    set_so = partial(_execute, before)
    event.listen(writer._transactions.engine, "connect", set_so)
    await writer.do(lambda connection: connection.exec_driver_sql(before) and None)
    yield
    event.remove(writer._transactions.engine, "connect", set_so)
    await writer.do(lambda connection: connection.exec_driver_sql(after) and None)


def _execute(statement: str, connection: Any, _: Any) -> None:
    connection.execute(statement)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000"),
        ("PRAGMA query_only = 1", "PRAGMA query_only = 0"),
    ],
    ids=["full", "read-only"],
)
@within(30)
async def test_a_file_that_is_full_or_read_only_for_a_while(sqlite_url: str, before: str, after: str) -> None:
    async with open_workload(sqlite_url) as work:
        await outlive(work, with_pragma(work.store, before, after))


@within(30)
async def test_a_file_that_another_program_has_locked_for_a_while(sqlite_url: str) -> None:
    @asynccontextmanager
    async def locked() -> AsyncIterator[None]:
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    async with open_workload(sqlite_url) as work:
        await outlive(work, locked())
