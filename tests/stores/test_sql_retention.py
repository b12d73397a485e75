"""Retention: what is deleted and what is not, in which steps, by hand and by itself."""

import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from sqlalchemy import text
from trio.testing import MockClock

from tests.deadline import within
from tests.stores.databases import connect_to
from tests.stores.writers import TaskWriter
from trio_a2a.clock import Clock
from trio_a2a.errors import StoreError
from trio_a2a.stores import SqlTaskStore, open_sql_push_config_store, open_sql_store
from trio_a2a.stores.sql import Pruned, retention
from trio_a2a.stores.sql.database import Database
from trio_a2a.testing import artifact, status, task
from trio_a2a.types import TaskPushNotificationConfig, TaskState

TABLES = ("a2a_tasks", "a2a_snapshots", "a2a_events", "a2a_push_configs")


class Hands(Clock):
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.instant = datetime(2026, 1, 31, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.instant

    def advance(self, seconds: float) -> None:
        self.instant += timedelta(seconds=seconds)


async def finish(store: SqlTaskStore, task_id: str, *, events: int = 3) -> None:
    """A task with so many events, the last of which ends it."""
    writer = TaskWriter(task_id)
    changes = [writer.change(task(task_id, TaskState.WORKING))]
    changes += [writer.change(artifact(task_id, "x", append=number > 0)) for number in range(events - 2)]
    await store.commit([*changes, writer.change(status(task_id, TaskState.COMPLETED))])


def execute(url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = connect_to(url)
    try:
        with engine.begin() as connection:
            result = connection.execute(text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()


def ids(url: str, table: str = "a2a_tasks") -> set[str]:
    found = {row[0] for row in execute(url, f"SELECT task_id FROM {table}")}  # noqa: S608 - our own names
    return {one.decode() if isinstance(one, bytes) else one for one in found}


@within(30)
async def test_tasks_that_ended_longer_ago_are_deleted_with_all_that_belongs_to_them(url: str) -> None:
    """And no others: not those that ended later, nor those that have not ended."""
    clock = Hands()
    async with open_sql_store(url, clock=clock) as store, open_sql_push_config_store(url) as configs:
        await store.commit([TaskWriter("working").change(task("working", TaskState.WORKING))])
        await finish(store, "old")
        await finish(store, "older still", events=5)
        clock.advance(100)
        await finish(store, "new")
        clock.advance(50)
        for task_id in ("old", "new"):
            await configs.put(TaskPushNotificationConfig(task_id=task_id, id="c", url="https://example.com"), owner="")
        # Exactly as old is not older.
        assert await store.prune(150) == Pruned(tasks=0, events=0)
        clock.advance(0.000_001)
        assert await store.prune(150, dry_run=True) == Pruned(tasks=2, events=8)
        assert ids(url) == {"working", "old", "older still", "new"}
        assert await store.prune(150) == Pruned(tasks=2, events=8)
        assert await store.prune(150) == Pruned(tasks=0, events=0)
        assert await store.get("old") is None
        assert await store.get("new") is not None
    assert [ids(url, table) for table in TABLES] == [{"working", "new"}, {"new"}, {"working", "new"}, {"new"}]


@within(30)
async def test_a_deleted_id_can_be_used_again(url: str) -> None:
    clock = Hands()
    async with open_sql_store(url, clock=clock) as store:
        await finish(store, "t")
        clock.advance(1)
        await store.prune(0)
        await finish(store, "t", events=4)
        stored = await store.get("t")
        assert stored is not None
        assert stored.sequence == 4


class Watched:
    """Sees each transaction of pruning, and may act before it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[Any] = []
        self.before: Callable[[], Awaitable[None]] | None = None
        original = retention._rested

        async def rested(database: Database, work: Any, rest: float) -> Pruned:
            self.steps.append(work)
            if self.before is not None:
                await self.before()
            return await original(database, work, rest)

        monkeypatch.setattr(retention, "_rested", rested)


@within(30)
async def test_no_step_has_more_tasks_or_events_than_it_may(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a commit waits for is bounded, however much there is to delete."""
    watched = Watched(monkeypatch)
    monkeypatch.setattr(retention, "_STEP_EVENTS", 20)
    monkeypatch.setattr(retention, "_PAGE", 7)
    clock = Hands()
    async with open_sql_store(sqlite_url, clock=clock) as store:
        for number in range(25):
            await finish(store, f"t{number}", events=2 + number % 9)
            clock.advance(number % 2)
        clock.advance(1)
        pruned = await store.prune(0, batch=4, share=1)
    assert pruned.tasks == 25
    sizes = [[due.last_sequence for due in step.step] for step in watched.steps]
    assert all(len(size) <= 4 and sum(size) <= 20 for size in sizes)
    assert max(map(len, sizes)) == 4
    assert not ids(sqlite_url, "a2a_events")


@within(60)
async def test_a_long_task_is_deleted_in_steps_and_can_be_read_until_the_last(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million events in one transaction would hold up every commit; half a task must not be seen."""
    watched = Watched(monkeypatch)
    monkeypatch.setattr(retention, "_STEP_EVENTS", 20)
    clock = Hands()
    async with open_sql_store(url, clock=clock) as store:
        await finish(store, "long", events=90)
        await finish(store, "short")
        before = await store.get("long")
        clock.advance(1)
        left: list[int] = []

        async def look() -> None:
            found = await store.get("long")
            assert found == before or found is None
            left.append(execute(url, "SELECT COUNT(*) FROM a2a_events WHERE task_id = 'long'")[0][0])

        watched.before = look
        assert await store.prune(0, share=1) == Pruned(tasks=2, events=93)
    assert left[:5] == [90, 69, 49, 29, 9]
    assert not ids(url, "a2a_events")


@within(30)
async def test_a_task_that_was_made_anew_meanwhile_is_kept(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the step somebody else may delete it, and its id come again."""
    watched = Watched(monkeypatch)
    monkeypatch.setattr(retention, "_STEP_EVENTS", 20)
    clock = Hands()
    async with open_sql_store(url, clock=clock) as store:
        await finish(store, "short")
        await finish(store, "long", events=90)
        clock.advance(1)

        async def renew() -> None:
            watched.before = None
            for task_id in ("short", "long"):
                await store.delete(task_id)
                await finish(store, task_id, events=30)

        watched.before = renew
        assert await store.prune(0) == Pruned(tasks=0, events=0)
        assert len(await store.events("long", 0)) == len(await store.events("short", 0)) == 30


@within(30)
async def test_two_may_prune_at_once(url: str) -> None:
    clock = Hands()
    async with open_sql_store(url, clock=clock) as one, open_sql_store(url, clock=clock) as other:
        for number in range(40):
            await finish(one, f"t{number}")
        clock.advance(1)
        pruned: list[Pruned] = []

        async def prune(store: SqlTaskStore) -> None:
            pruned.append(await store.prune(0, batch=3, share=1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(prune, one)
            nursery.start_soon(prune, other)
    assert sum(each.tasks for each in pruned) == 40
    assert not ids(url)


@within(30)
async def test_a_database_that_cannot_tell_what_it_deletes_is_asked_before(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySQL has no RETURNING."""
    clock = Hands()
    async with open_sql_store(sqlite_url, clock=clock) as store:
        monkeypatch.setattr(store._database.writer._transactions.engine.dialect, "delete_returning", False)
        await finish(store, "t")
        clock.advance(1)
        await finish(store, "young")
        assert await store.prune(0.5) == Pruned(tasks=1, events=3)
        assert await store.prune(0.5) == Pruned(tasks=0, events=0)
    assert ids(sqlite_url) == {"young"}


@within(30)
async def test_pruning_rests_after_each_step_and_can_be_cancelled(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the share of the time that it may take; what is done by then is done."""
    rests: list[float] = []
    original = retention._rested

    async def rested(database: Database, work: Any, rest: float) -> Pruned:
        rests.append(rest)
        if len(rests) == 3:
            scope.cancel()
        return await original(database, work, rest)

    monkeypatch.setattr(retention, "_rested", rested)
    clock = Hands()
    async with open_sql_store(sqlite_url, clock=clock) as store:
        for number in range(10):
            await finish(store, f"t{number}")
        clock.advance(1)
        with trio.CancelScope() as scope:
            await store.prune(0, batch=1, share=0.25)
        assert scope.cancelled_caught
        assert len(ids(sqlite_url)) in {7, 8}
    assert set(rests) == {3.0}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"older_than": -1}, "older_than"),
        ({"older_than": float("nan")}, "older_than"),
        ({"older_than": 1, "batch": 0}, "batch"),
        ({"older_than": 1, "share": 0}, "share"),
        ({"older_than": 1, "share": 1.5}, "share"),
    ],
)
@within(30)
async def test_numbers_that_make_no_sense_are_refused(sqlite_url: str, arguments: dict[str, Any], named: str) -> None:
    async with open_sql_store(sqlite_url) as store:
        with pytest.raises(ValueError, match=named):
            await store.prune(**arguments)
        assert await store.prune(1e300) == Pruned(tasks=0, events=0)


@pytest.mark.parametrize("span", [-1, 0, 15, float("inf"), float("nan")])
@within(30)
async def test_a_retention_within_the_grace_period_is_refused(sqlite_url: str, span: float) -> None:
    """Tasks that count as active would be deleted."""
    with pytest.raises(ValueError, match="retention"):
        async with open_sql_store(sqlite_url, retention=span):
            pass


# ------------------------------------------------------------------------------------------------------- automatically


async def until(condition: Callable[[], bool]) -> None:
    """Threads work in real time, which the mock clock knows nothing of."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await trio.lowlevel.checkpoint()
    # What was waited for may not have gone to sleep yet, and a jump of the clock would be before it.
    await trio.testing.wait_all_tasks_blocked(0.1)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much each look of automatic retention has deleted; a look that failed counts -1."""
    seen: list[int] = []
    original = retention.prune

    async def prune(*arguments: Any, **options: Any) -> Pruned:
        try:
            pruned = await original(*arguments, **options)
        except StoreError:
            seen.append(-1)
            raise
        seen.append(pruned.tasks)
        return pruned

    monkeypatch.setattr(retention, "prune", prune)
    return seen


async def test_with_a_retention_tasks_go_when_their_time_has_come(
    url: str, mock_clock: MockClock, looks: list[int]
) -> None:
    """On Trio's clock, by a deadline: between two of them nothing looks."""
    async with open_sql_store(url, retention=1000) as store:
        await until(lambda: looks == [0])
        await finish(store, "first")
        mock_clock.jump(600)
        await finish(store, "second")
        assert looks == [0]
        mock_clock.jump(460)  # 1060 since the first one, 460 since the second
        await until(lambda: len(looks) == 2)
        assert looks[1] == 1
        assert ids(url) == {"second"}
        mock_clock.jump(500)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(looks) == 2
        mock_clock.jump(100)  # 1060 since the second one
        await until(lambda: len(looks) == 3)
        await until(lambda: not ids(url))


async def test_a_failure_does_not_end_retention(
    sqlite_url: str, mock_clock: MockClock, looks: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sql_store(sqlite_url, retention=1000) as store:
        await until(lambda: looks == [0])
        await finish(store, "t")
        execute(sqlite_url, "ALTER TABLE a2a_tasks RENAME TO away")
        with caplog.at_level(logging.WARNING, "trio_a2a.stores"):
            mock_clock.jump(1060)
            await until(lambda: looks == [0, -1])
            await until(lambda: "could not be deleted" in caplog.text)
        execute(sqlite_url, "ALTER TABLE away RENAME TO a2a_tasks")
        await trio.testing.wait_all_tasks_blocked(0.05)
        mock_clock.jump(60)
        await until(lambda: looks == [0, -1, 1])


@within(30)
async def test_what_the_block_raises_is_not_put_into_a_group(sqlite_url: str) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_sql_store(sqlite_url, retention=1000):
            raise KeyError("mine")
