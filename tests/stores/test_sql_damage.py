"""Rows that something else has damaged: reads are errors that name the task, and others are not harmed."""

import logging
from collections.abc import Sequence

import pytest
import trio

from tests.deadline import within
from tests.stores.databases import connect_to
from tests.stores.writers import TaskWriter
from trio_a2a.errors import StoreError, TaskSerializationError
from trio_a2a.stores import SqlTaskStore, open_sql_push_config_store, open_sql_store
from trio_a2a.streams import open_queue_manager
from trio_a2a.testing import artifact, status, task
from trio_a2a.types import ListTasksRequest, TaskPushNotificationConfig, TaskState

GARBAGE = "X'7B226E6F'"  # the beginning of some JSON
OF_EVENTS = "UPDATE a2a_events SET {} WHERE task_id = 'hurt'"
OF_TASK = "UPDATE a2a_tasks SET {} WHERE task_id = 'hurt'"
OF_SNAPSHOT = "UPDATE a2a_snapshots SET {} WHERE task_id = 'hurt'"

# By name: whether it is done to a task that is over, and what is done.
DAMAGES = {
    "a garbled event": (False, OF_EVENTS.format("body = GARBAGE")),
    "a garbled last event": (False, OF_EVENTS.format("body = GARBAGE") + " AND sequence = 4"),
    "an empty event": (False, OF_EVENTS.format("body = NOTHING")),
    "an event of no kind": (False, OF_EVENTS.format("kind = 'other'")),
    "an event of another kind": (False, OF_EVENTS.format("kind = 'task'")),
    "no events": (False, "DELETE FROM a2a_events WHERE task_id = 'hurt'"),
    "no last event": (False, "DELETE FROM a2a_events WHERE task_id = 'hurt' AND sequence = 4"),
    "a number past the log": (False, OF_TASK.format("last_sequence = 9")),
    "a garbled snapshot": (True, OF_SNAPSHOT.format("body = GARBAGE")),
    "a snapshot of the future": (True, OF_SNAPSHOT.format("sequence = 9")),
    "a number of nothing": (True, OF_TASK.format("last_sequence = 0")),
    "a negative number": (True, OF_TASK.format("last_sequence = -1")),
}
# Those that only a reader of the whole task meets.
INNER = {
    "a garbled first event": OF_EVENTS.format("body = GARBAGE") + " AND sequence = 1",
    "no event in the middle": "DELETE FROM a2a_events WHERE task_id = 'hurt' AND sequence = 2",
}


def execute(url: str, statement: str) -> None:
    engine = connect_to(url)
    if engine.dialect.name == "postgresql":
        statement = statement.replace("GARBAGE", r"'\x7B226E6F'").replace("NOTHING", "''")
    with engine.begin() as connection:
        done = connection.exec_driver_sql(statement.replace("GARBAGE", GARBAGE).replace("NOTHING", "X''"))
        assert done.rowcount
    engine.dispose()


async def make(store: SqlTaskStore, task_id: str, *, over: bool = False) -> TaskWriter:
    writer = TaskWriter(task_id)
    events = [task(task_id), artifact(task_id, "a"), artifact(task_id, "b", artifact_id="b"), status(task_id)]
    if over:
        events.append(status(task_id, TaskState.COMPLETED))
    await store.commit([writer.change(event) for event in events])
    return writer


async def read_all(store: SqlTaskStore) -> Sequence[str]:
    found, _ = await store.list(ListTasksRequest(), owner="")
    return [one.id for one in found]


@within(60)
async def test_a_damaged_task_is_an_error_for_readers_and_neither_active_nor_finalized(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The list fails too, and names the task: a page that silently lacks one would be worse."""
    async with open_sql_store(url) as store:
        await make(store, "whole")
        for name, (over, statement) in DAMAGES.items():
            await make(store, "hurt", over=over)
            assert await store.is_task_active("hurt")
            execute(url, statement)
            await check_unreadable(store, name)
            with caplog.at_level(logging.ERROR, "trio_a2a.stores"):
                assert not await store.is_task_active("hurt"), name
                assert not await store.is_task_finalized("hurt"), name
            assert "hurt" in caplog.text, name
            caplog.clear()
            assert await store.get("whole") is not None
            assert await store.is_task_active("whole")
            await store.delete("hurt")
            assert await read_all(store) == ["whole"]


async def check_unreadable(store: SqlTaskStore, name: str) -> None:
    for read in (lambda: store.get("hurt"), lambda: read_all(store)):
        with pytest.raises(TaskSerializationError) as refusal:
            await read()
            pytest.fail(f"{name}: it can be read")
        assert refusal.value.task_id == "hurt", name


@within(30)
async def test_what_is_damaged_deep_in_an_unfinished_task_is_an_error_for_readers(url: str) -> None:
    async with open_sql_store(url) as store:
        for name, statement in INNER.items():
            await make(store, "hurt")
            execute(url, statement)
            await check_unreadable(store, name)
            with pytest.raises(TaskSerializationError, match="hurt"):
                await store.events("hurt", 0)
            # Behind the damage the log can be read.
            assert [envelope.sequence for envelope in await store.events("hurt", 2)] == [3, 4]
            await store.delete("hurt")


@pytest.mark.parametrize("statement", ["state = 'LOST'", "state = 'FAILED'", "finalized_at = 253402300799999999"])
@within(30)
async def test_columns_that_make_no_sense_are_neither_active_nor_finalized(
    sqlite_url: str, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sql_store(sqlite_url) as store:
        await make(store, "hurt")
        execute(sqlite_url, OF_TASK.format(statement))
        with caplog.at_level(logging.ERROR, "trio_a2a.stores"):
            assert not await store.is_task_active("hurt")
            assert not await store.is_task_finalized("hurt")
        assert "hurt" in caplog.text


@within(30)
async def test_an_end_in_the_last_second_there_is_does_not_overflow(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url) as store:
        await make(store, "hurt", over=True)
        execute(sqlite_url, OF_TASK.format("finalized_at = 253402300799999999"))
        assert await store.is_task_active("hurt")
        assert await store.is_task_finalized("hurt")


@within(30)
async def test_a_damaged_task_ends_its_own_streams_and_no_others(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url) as store, open_queue_manager(store) as manager:
        await make(store, "hurt")
        await make(store, "whole")
        execute(sqlite_url, DAMAGES["a garbled event"][1])
        with pytest.raises(StoreError, match="hurt"):
            async with manager.subscribe("hurt"):
                pass
        async with manager.subscribe("whole") as child:
            await manager.enqueue("whole", status("whole", TaskState.COMPLETED))
            with trio.fail_after(5):
                assert [type(event).__name__ async for event in child] == ["Task", "TaskStatusUpdateEvent"]


@within(30)
async def test_a_damaged_page_of_a_list_is_an_error_and_the_pages_beside_it_are_not(sqlite_url: str) -> None:
    """Who pages past it, behind the last task before it, sees the rest."""
    async with open_sql_store(sqlite_url) as store:
        for task_id in ("a", "b", "hurt", "x", "y"):
            await make(store, task_id)
        execute(sqlite_url, DAMAGES["a garbled event"][1])

        async def page(after: str | None) -> list[str]:
            query = ListTasksRequest(page_size=2)
            found, total = await store.list(query, owner="", after=None if after is None else (None, after))
            assert total == 5
            return [one.id for one in found]

        assert await page(None) == ["a", "b"]
        with pytest.raises(TaskSerializationError, match="hurt"):
            await page("b")
        assert await page("hurt") == ["x", "y"]


@pytest.mark.parametrize("change", ["body = GARBAGE", "body = NOTHING", "sealed = 1"])
@within(30)
async def test_a_damaged_push_configuration_is_an_error_and_can_be_deleted(sqlite_url: str, change: str) -> None:
    async with open_sql_push_config_store(sqlite_url) as store:
        for task_id in ("hurt", "whole"):
            await store.put(TaskPushNotificationConfig(task_id=task_id, id="c", url="https://example.com"), owner="")
        execute(sqlite_url, f"UPDATE a2a_push_configs SET {change} WHERE task_id = 'hurt'")  # noqa: S608
        for call in (lambda: store.get("hurt", "c"), lambda: store.list("hurt")):
            with pytest.raises(TaskSerializationError, match="hurt"):
                await call()
        assert len(await store.list("whole")) == 1
        await store.delete("hurt")
        assert not await store.list("hurt")
