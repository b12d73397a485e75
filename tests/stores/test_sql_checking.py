"""Checking and counting what is stored: everything that the store writes is sound, and each kind of damage is found."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from sqlalchemy import text

from tests.deadline import within
from tests.stores.databases import connect_to
from tests.stores.writers import TaskWriter
from trio_a2a.errors import StoreError
from trio_a2a.stores import open_sql_push_config_store, open_sql_store
from trio_a2a.stores.sql import checking
from trio_a2a.stores.sql.checking import Finding, check
from trio_a2a.stores.sql.schema import to_micros
from trio_a2a.stores.sql.survey import survey
from trio_a2a.testing import artifact, message, status, task
from trio_a2a.types import Role, TaskPushNotificationConfig, TaskState
from trio_a2a.wire import to_json


def execute(url: str, *statements: str, **values: Any) -> None:
    engine = connect_to(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement), values)
    engine.dispose()


def findings(url: str) -> list[Finding]:
    found: list[Finding] = []
    checked = check(url, found.append)
    assert checked.findings == len(found)
    return found


async def fill(url: str) -> None:
    """Tasks of each kind: short, long, interrupted with a follow-up, begun by an artifact, with a late one."""
    async with open_sql_store(url) as store:
        writer = TaskWriter("long")
        await store.commit([writer.change(task("long", TaskState.WORKING, history=[message("go", role=Role.USER)]))])
        for number in range(100):
            await store.commit([writer.change(artifact("long", f"{number}", append=number > 0))])
        writer = TaskWriter("asked")
        await store.commit([writer.change(status("asked", TaskState.INPUT_REQUIRED, "which?"))])
        await store.commit([writer.change(artifact("asked", "that"), message("this", role=Role.USER))])
        writer = TaskWriter("done")
        changes = [writer.change(artifact("done", "first")), writer.change(artifact("done", "more", append=True))]
        changes += [writer.change(status("done", TaskState.COMPLETED, "done"))]
        changes += [writer.change(artifact("done", "late", artifact_id="other"))]
        await store.commit(changes)
        writer = TaskWriter("again")
        await store.commit([writer.change(task("again", TaskState.FAILED))])
        await store.commit([writer.change(status("again", TaskState.FAILED))])


@within(60)
async def test_what_the_store_writes_is_sound(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pages of any size."""
    await fill(url)
    for size in (2, 200):
        monkeypatch.setattr(checking, "_TASKS", size)
        monkeypatch.setattr(checking, "_EVENTS", size)
        assert findings(url) == []
    checked = check(url, print)
    assert (checked.tasks, checked.events) == (4, 101 + 2 + 4 + 2)


@pytest.mark.parametrize(
    ("damage", "task_id", "problem"),
    [
        ("DELETE FROM a2a_events WHERE task_id = 'long' AND sequence = 50", "long", "event 50 is missing"),
        ("DELETE FROM a2a_events WHERE task_id = 'long' AND sequence < 9", "long", "events 1 to 8 are missing"),
        (
            "DELETE FROM a2a_events WHERE task_id = 'long' AND sequence > 99",
            "long",
            "its log ends with event 99, its row says 101",
        ),
        (
            "UPDATE a2a_events SET sequence = 0 WHERE task_id = 'asked' AND sequence = 1",
            "asked",
            "there is an event with the number 0",
        ),
        ("UPDATE a2a_events SET body = 'x' WHERE task_id = 'long' AND sequence = 7", "long", "event 7 cannot be read"),
        ("UPDATE a2a_events SET kind = 'odd' WHERE task_id = 'asked' AND sequence = 2", "asked", "cannot be read"),
        ("UPDATE a2a_events SET message = '{' WHERE task_id = 'asked' AND sequence = 2", "asked", "cannot be read"),
        ("UPDATE a2a_snapshots SET body = '{}' WHERE task_id = 'done'", "done", "its snapshot cannot be read"),
        ("UPDATE a2a_snapshots SET sequence = 65 WHERE task_id = 'long'", "long", "what its events up to 65 make"),
        ("UPDATE a2a_snapshots SET sequence = 5 WHERE task_id = 'done'", "done", "snapshot is of event 5, behind"),
        ("UPDATE a2a_tasks SET finalized_at = NULL WHERE task_id = 'done'", "done", "no instant of its end"),
        ("UPDATE a2a_tasks SET finalized_at = 1 WHERE task_id = 'long'", "long", "WORKING is not final"),
        ("UPDATE a2a_tasks SET state = 'ODD' WHERE task_id = 'long'", "long", "'ODD', which is none"),
        ("UPDATE a2a_tasks SET state = 'CANCELED' WHERE task_id = 'done'", "done", "its events make it COMPLETED"),
        ("DELETE FROM a2a_tasks WHERE task_id = 'long'", "long", "there are events of it, and no such task"),
        ("DELETE FROM a2a_tasks WHERE task_id = 'done'", "done", "there is a snapshot of it, and no such task"),
    ],
)
@within(60)
async def test_damage_is_found_and_named(url: str, damage: str, task_id: str, problem: str) -> None:
    await fill(url)
    execute(url, damage)
    found = findings(url)
    assert {finding.task_id for finding in found} == {task_id}
    assert [finding for finding in found if problem in finding.problem]


@within(60)
async def test_an_event_of_another_task_is_found(url: str) -> None:
    await fill(url)
    move = "UPDATE a2a_events SET task_id = 'again' WHERE task_id = 'asked' AND sequence = {}"
    execute(url, "DELETE FROM a2a_events WHERE task_id = 'again'", move.format(1), move.format(2))
    problems = {finding.problem for finding in findings(url) if finding.task_id == "again"}
    assert "its events do not make that task" in problems


@within(60)
async def test_an_event_that_cannot_follow_the_ones_before_is_found(url: str) -> None:
    """What was final cannot become something else."""
    await fill(url)
    body = to_json(status("again", TaskState.WORKING))
    execute(url, "UPDATE a2a_events SET body = :body WHERE task_id = 'again' AND sequence = 2", body=body)
    (found,) = findings(url)
    assert found == Finding(task_id="again", problem="event 2 cannot follow those before it: TaskTerminalError")


@within(60)
async def test_what_no_column_should_hold_is_a_finding_too(sqlite_url: str) -> None:
    """SQLite keeps text in a column of numbers."""
    await fill(sqlite_url)
    execute(sqlite_url, "UPDATE a2a_events SET sequence = 'x' WHERE task_id = 'asked' AND sequence = 2")
    assert any("its rows cannot be read" in finding.problem for finding in findings(sqlite_url))


@within(60)
async def test_no_finding_repeats_what_users_wrote(url: str) -> None:
    await fill(url)
    execute(url, """UPDATE a2a_events SET body = '{"s3cret": "s3cret"}', kind = 'status'""")
    assert "s3cret" not in repr(findings(url))


@within(60)
async def test_many_strays_are_found_page_by_page(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "_TASKS", 2)
    await fill(url)
    execute(url, "DELETE FROM a2a_tasks")
    assert {finding.task_id for finding in findings(url)} == {"long", "asked", "done", "again"}
    assert len(findings(url)) == 4 + 3


@within(60)
async def test_a_database_in_use_looks_sound(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that grows while it is looked at: each look sees one instant."""
    rows = checking._Log._rows
    writer = TaskWriter("t")
    async with open_sql_store(url) as store:
        await store.commit([writer.change(task("t", TaskState.WORKING))])

        def while_looking(log: Any) -> Any:
            trio.from_thread.run(store.commit, [writer.change(artifact("t", "x", append=writer.sequence > 1))])
            return rows(log)

        monkeypatch.setattr(checking._Log, "_rows", while_looking)
        for _ in range(3):
            assert await trio.to_thread.run_sync(findings, url) == []
        stored = await store.get("t")
        assert stored is not None
        assert stored.sequence == 4


@within(60)
async def test_everything_is_counted(url: str) -> None:
    now = datetime.now(UTC)
    await fill(url)
    async with open_sql_push_config_store(url) as configs:
        await configs.put(TaskPushNotificationConfig(task_id="done", id="c", url="https://example.com"), owner="")
    lease = "INSERT INTO a2a_processes (process_id, started_at, expires_at) VALUES (:id, 0, :until)"
    soon = now + timedelta(hours=1)
    execute(url, lease, id="live", until=to_micros(soon))
    execute(url, lease, id="dead", until=to_micros(now - timedelta(hours=1)))
    execute(url, "UPDATE a2a_tasks SET runner = 'live' WHERE task_id = 'long'")
    found = survey(url, now)
    assert found.tasks == {"COMPLETED": 1, "FAILED": 1, "INPUT_REQUIRED": 1, "WORKING": 1}
    assert (found.version, found.events, found.push_configs) == ("0001", 109, 1)
    assert (found.live_processes, found.dead_processes, found.orphans) == (1, 1, 0)
    assert found.bytes > 1000
    assert found.oldest is not None
    assert found.newest is not None
    assert found.first_end is not None
    assert now - timedelta(minutes=1) < found.oldest < found.first_end < found.newest < soon
    for runner in ("dead", "unknown"):
        execute(url, "UPDATE a2a_tasks SET runner = :runner WHERE task_id = 'long'", runner=runner)
        assert survey(url, now).orphans == 1


@within(60)
async def test_an_empty_database_is_counted_and_one_without_tables_is_an_error(url: str) -> None:
    now = datetime.now(UTC)
    for look in (lambda: survey(url, now), lambda: check(url, print)):
        with pytest.raises(StoreError, match="trio-a2a db migrate"):
            look()
    async with open_sql_store(url):
        pass
    found = survey(url, now)
    assert (dict(found.tasks), found.events, found.oldest, found.first_end) == ({}, 0, None, None)
    assert check(url, print).tasks == 0
