"""The connection to the database: cut in the midst of a commit, held, or lost again and again."""

import math
import random
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from sqlalchemy import Connection, text

from tests.deadline import within
from tests.stores.databases import connect_to
from tests.stores.line import PASSES, Fate, Line, open_line
from tests.stores.steps import Steps
from tests.stores.workload import SHORT, open_workload
from tests.stores.writers import TaskWriter
from trio_a2a.abc import CloseReason
from trio_a2a.errors import StoreError, TaskPersistenceError
from trio_a2a.stores import open_sql_push_config_store, open_sql_store
from trio_a2a.testing import task
from trio_a2a.types import ListTasksRequest, TaskPushNotificationConfig

servers = pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
# Times that are long enough for what the server is given to do late.
PATIENT = {"connect_timeout": 1, "statement_timeout": 4, "lock_timeout": 4}


# As the drivers send it; COMMITTED and AUTOCOMMIT are something else.
COMMIT = rb"[^O]COMMIT(\0|$)"


def at(words: bytes, fate: Fate) -> Callable[[bytes], Fate]:
    """Have the next request with the words, a pattern, meet its fate."""
    left = [fate]
    return lambda data: left.pop() if left and re.search(words, data) else PASSES


# ------------------------------------------------------------------------------------------------------ in the COMMIT


@pytest.mark.requirement("S1-NO-LOSS", "S4-CANCEL-COMMIT")
@pytest.mark.parametrize("reaches_after", [0, 0.4, math.inf], ids=["done", "done late", "never done"])
@servers
@within(30)
async def test_a_commit_that_the_connection_broke_in_is_stored_once(url: str, reaches_after: float) -> None:
    """Whether the server has done it, is at it still when the log is asked, or has never heard of it."""
    async with open_line(url) as line, open_workload(line.url, **PATIENT) as work:
        names = [f"t{number}" for number in range(5)]
        for name in names:
            await work.begin(name)
        await work.until(lambda: all(work.seen[name] for name in names))
        for _ in range(2):
            seen = len(work.seen[names[0]])
            line.on_request = at(COMMIT, Fate(cut=True, reaches_after=reaches_after))
            for name in names:
                await work.feed(name)
            await work.until(lambda seen=seen: all(len(work.seen[name]) > seen for name in names))
        # New tasks, whose first events the second try finds there.
        line.on_request = at(COMMIT, Fate(cut=True, reaches_after=reaches_after))
        await work.begin("new")
        await work.until(lambda: work.seen["new"])
        for name in [*names, "new"]:
            await work.finish(name)
        await work.until(lambda: all(work.reasons[name] for name in [*names, "new"]))
        assert all(reasons == [CloseReason.FINAL] for reasons in work.reasons.values()), "nobody noticed"
        assert line.connections > 3


@servers
@within(30)
async def test_a_connection_that_vanishes_in_a_transaction_locks_nothing_for_long(url: str) -> None:
    """Neither side hears of the other's end: the server has to give up by itself, or its locks stay for hours."""
    async with (
        open_line(url) as line,
        open_sql_store(line.url, **SHORT | {"statement_timeout": 1.5, "lock_timeout": 1.5}) as store,
    ):
        await store.commit([TaskWriter("t").change(task("t"))])
        line.on_request = at(COMMIT, Fate(vanishes=True))
        await store.delete("t")
        assert await store.get("t") is None


@servers
@within(60)
async def test_connections_that_are_lost_again_and_again_lose_and_double_nothing(url: str) -> None:
    """Some commits fail, since each is tried twice only; their streams say so."""
    dice = random.Random(1)
    lost = 0
    fates = [
        Fate(cut=True),
        Fate(cut=True, reaches_after=0.05),
        Fate(cut=True, reaches_after=math.inf),
    ]

    def any_fate(data: bytes) -> Fate:
        nonlocal lost
        is_statement = any(word in data for word in (b"INSERT", b"SELECT")) or re.search(COMMIT, data)
        if not is_statement or dice.random() < 0.7:
            return PASSES
        lost += 1
        return dice.choice(fates)

    async with open_line(url) as line, open_workload(line.url, **PATIENT) as work:
        names = [f"t{number}" for number in range(8)]
        for name in names:
            await work.begin(name)
        await work.until(lambda: all(work.seen[name] for name in names))
        line.on_request = any_fate
        while lost < 5:
            for name in names:
                if work.reasons[name] and not work.follows(name):
                    await work.follow(name)
                await work.feed(name)
            await trio.sleep(0.01)
        line.on_request = None
        for name in names:
            await work.finish(name)
        await work.until(lambda: not any(work.follows(name) for name in names))


@servers
@within(30)
async def test_who_commits_alone_is_told_that_the_database_cannot_be_reached(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no bug of the store's own, and is not logged as one."""
    async with open_line(url) as line, open_sql_store(line.url, **SHORT) as store:
        change = TaskWriter("t").change(task("t"))
        line.refused = True
        line.cut()
        for _ in range(2):
            with pytest.raises(TaskPersistenceError, match="cannot be reached"):
                await store.commit([change])
        assert "own code" not in caplog.text
        line.refused = False
        await store.commit([change])


# ---------------------------------------------------------------------------------------------------------- other work


@contextmanager
def counting_table(url: str) -> Iterator[Callable[[int], Awaitable[None]]]:
    engine = connect_to(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE counted (n INTEGER)"))

    def count() -> int:
        with engine.connect() as connection:
            return connection.scalar(text("SELECT count(*) FROM counted")) or 0

    async def becomes(number: int) -> None:
        """Wait for it: what the server gets after its client is gone is done some time."""
        while await trio.to_thread.run_sync(count) != number:
            await trio.lowlevel.checkpoint()

    yield becomes
    engine.dispose()


@pytest.mark.parametrize("repeatable", [True, False])
@servers
@within(30)
async def test_only_work_that_may_be_repeated_is_repeated_when_its_end_was_not_heard_of(
    url: str, repeatable: bool
) -> None:
    calls = 0

    def work(connection: Connection) -> str:
        nonlocal calls
        calls += 1
        connection.execute(text("INSERT INTO counted VALUES (1)"))
        return "done"

    with counting_table(url) as count_becomes:
        async with open_line(url) as line, open_sql_store(line.url, **PATIENT) as store:
            writer = store._database.writer
            # Before the COMMIT nothing can have been done.
            line.on_request = at(b"INSERT", Fate(cut=True, reaches_after=math.inf))
            assert await writer.do(work, repeatable=repeatable) == "done"
            assert calls == 2
            await count_becomes(1)
            line.on_request = at(COMMIT, Fate(cut=True))
            if repeatable:
                assert await writer.do(work, repeatable=True) == "done"
                assert calls == 4
                await count_becomes(3)
            else:
                with pytest.raises(TaskPersistenceError, match="connection to the database was lost"):
                    await writer.do(work, repeatable=False)
                assert calls == 3
                await count_becomes(2)


# -------------------------------------------------------------------------------------------------------- Trio's thread


async def every_call(store: Any, configs: Any, url: str) -> list[StoreError]:
    """Make every call there is at once, and return what went wrong."""
    errors: list[StoreError] = []

    async def opening() -> None:
        async with open_sql_store(url, **SHORT):
            pass

    config = TaskPushNotificationConfig(task_id="t", id="c", url="https://example.com")
    calls: list[Callable[[], Any]] = [
        lambda: store.get("t"),
        lambda: store.list(ListTasksRequest(), owner=""),
        lambda: store.events("t", 0),
        lambda: store.is_task_active("t"),
        lambda: store.is_task_finalized("t"),
        lambda: store.commit([TaskWriter("other").change(task("other"))]),
        lambda: store.delete("t"),
        lambda: configs.put(config, owner=""),
        lambda: configs.get("t", "c"),
        lambda: configs.list("t"),
        lambda: configs.delete("t"),
        opening,
    ]

    async def call(one: Callable[[], Any]) -> None:
        try:
            await one()
        except StoreError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        for one in calls:
            nursery.start_soon(call, one)
    assert len(calls) == 12
    return errors


@servers
@within(60)
async def test_trios_thread_never_waits_for_a_database_that_says_nothing(url: str) -> None:
    """A call that blocked would take as long as the database is silent. A busy machine takes some time, too."""
    async with (
        open_line(url) as line,
        open_sql_store(line.url, **SHORT, close_timeout=0.2) as store,
        open_sql_push_config_store(line.url, **SHORT, close_timeout=0.2) as configs,
    ):
        await store.commit([TaskWriter("t").change(task("t"))])
        line.stall()
        with Steps() as steps:
            errors = await every_call(store, configs, line.url)
        assert len(errors) == 12
        assert steps.longest < 0.25, steps.longest
        line.flow()
        assert await every_call(store, configs, line.url) == []


@servers
@within(60)
async def test_a_silent_database_holds_up_neither_a_cancelled_reader_nor_who_leaves(url: str) -> None:
    """And the threads end when the drivers have given up."""
    line: Line
    async with open_line(url) as line:
        before = set(threading.enumerate())
        with Steps() as steps:
            async with open_sql_store(line.url, **SHORT, close_timeout=0.2) as store:
                await store.commit([TaskWriter("t").change(task("t"))])
                await store.get("t")
                line.stall()
                with trio.move_on_after(0.05) as scope:
                    await store.get("t")
                assert scope.cancelled_caught
                with trio.move_on_after(0.05) as scope:
                    await store.commit([TaskWriter("other").change(task("other"))])
                assert scope.cancelled_caught
        assert steps.longest < 0.25, steps.longest
        for thread in set(threading.enumerate()) - before:
            if thread.name.startswith("trio-a2a"):
                await trio.to_thread.run_sync(thread.join, 20)
                assert not thread.is_alive()
