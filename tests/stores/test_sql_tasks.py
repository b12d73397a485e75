"""The task store on each database: what it keeps, how it is read back, and who wins."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import attrs
import pytest
import trio
from sqlalchemy import text

from tests.deadline import within
from tests.stores.databases import connect_to
from tests.stores.writers import TaskWriter
from trio_a2a.abc import StreamEvent, TaskChange
from trio_a2a.clock import Clock
from trio_a2a.errors import TaskConflictError, TaskSerializationError
from trio_a2a.stores import SqlTaskStore, open_sql_store
from trio_a2a.streams import open_queue_manager
from trio_a2a.testing import artifact, message, status, task
from trio_a2a.types import ListTasksRequest, Role, TaskState, TaskStatus, TaskStatusUpdateEvent


def execute(url: str, statement: str, **values: object) -> list[tuple[object, ...]]:
    engine = connect_to(url)
    try:
        with engine.begin() as connection:
            result = connection.execute(text(statement), values)
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()


@asynccontextmanager
async def open_two(url: str) -> AsyncIterator[tuple[SqlTaskStore, SqlTaskStore]]:
    async with open_sql_store(url) as one, open_sql_store(url) as two:
        yield one, two


# -------------------------------------------------------------------------------------------- what is read is as it was


@within(30)
async def test_a_task_is_as_it_was_after_a_restart(url: str) -> None:
    """With the user's message of a follow-up, which is in no event."""
    writer = TaskWriter("t", owner="alice", tenant="acme")
    async with open_sql_store(url) as store:
        await store.commit([writer.change(task("t", TaskState.WORKING, history=[message("one", role=Role.USER)]))])
        await store.commit([writer.change(status("t", TaskState.INPUT_REQUIRED, "which?"))])
        answer = message("this", role=Role.USER)
        await store.commit([writer.change(artifact("t", "made"), answer)])
        from_events = await store.get("t")
        assert from_events is not None
        assert from_events.task == writer.task
        await store.commit([writer.change(status("t", TaskState.COMPLETED, "done"))])
        await store.commit([writer.change(artifact("t", "late", artifact_id="other"))])
        before = await store.get("t")
    async with open_sql_store(url) as store:
        stored = await store.get("t")
        events = await store.events("t", 0)
    assert stored == before
    assert stored is not None
    assert stored.task == writer.task
    assert answer in stored.task.history
    assert (stored.sequence, stored.owner, stored.tenant) == (5, "alice", "acme")
    assert [envelope.sequence for envelope in events] == [1, 2, 3, 4, 5]


@within(60)
async def test_a_long_task_is_its_snapshot_and_the_events_behind_it(url: str) -> None:
    """At each length: none, a snapshot alone, and a snapshot with a tail; and few snapshots in all."""
    writer = TaskWriter("t")
    async with open_sql_store(url) as store:
        for number in range(1, 301):
            await store.commit([writer.change(artifact("t", f"{number}", append=number > 1))])
            if number in {1, 63, 64, 65, 255, 256, 257, 300}:
                stored = await store.get("t")
                assert stored is not None
                assert (stored.task, stored.sequence) == (writer.task, number)
                found = execute(url, "SELECT sequence FROM a2a_snapshots")
                assert found == ([] if number < 64 else [(64,)] if number < 256 else [(256,)])
        await store.commit([writer.change(status("t", TaskState.COMPLETED)), writer.change(artifact("t", "late"))])
        stored = await store.get("t")
        assert stored is not None
        assert stored.task == writer.task
    assert execute(url, "SELECT sequence FROM a2a_snapshots") == [(302,)]


@within(30)
async def test_a_commit_of_artifacts_asks_for_no_snapshot(sqlite_url: str) -> None:
    """It would cost as much as the task is long."""

    def never() -> None:
        raise AssertionError("a snapshot was asked for")

    writer = TaskWriter("t")
    async with open_sql_store(sqlite_url) as store:
        await store.commit([writer.change(artifact("t", "x"), snapshot=never)])
        await store.commit([writer.change(artifact("t", "x", append=True), snapshot=never) for _ in range(50)])
        await store.commit([writer.change(status("t", TaskState.INPUT_REQUIRED), snapshot=never)])


@within(30)
async def test_a_reader_goes_on_behind_what_it_has_seen_across_a_restart(url: str) -> None:
    async with open_sql_store(url) as store, open_queue_manager(store) as manager:
        await manager.enqueue("t", status("t", TaskState.WORKING))
        for number in range(4):
            await manager.enqueue("t", artifact("t", f"{number}", append=number > 0))
        live = manager.get("t")
        assert live is not None
        await live.flush()
    async with (
        open_sql_store(url) as store,
        open_queue_manager(store) as manager,
        manager.subscribe("t", after=2) as child,
    ):
        await manager.enqueue("t", artifact("t", "live", append=True))
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        numbers = []
        while not numbers or numbers[-1] < 7:
            numbers += [envelope.sequence for envelope in await child.receive_batch()]
    assert numbers == [3, 4, 5, 6, 7]


@within(30)
async def test_instants_are_the_clocks_own_to_the_microsecond(url: str) -> None:
    class Settable(Clock):
        at = datetime(2020, 2, 2, microsecond=123_456, tzinfo=UTC)

        def now(self) -> datetime:
            return self.at

    clock, writer = Settable(), TaskWriter("t")
    async with open_sql_store(url, grace_period=10, clock=clock) as store:
        await store.commit([writer.change(task("t", TaskState.FAILED))])
        ended = clock.at
        clock.at += timedelta(seconds=9, microseconds=999_999)
        await store.commit([writer.change(status("t", TaskState.FAILED))])
        stored = await store.get("t")
        assert stored is not None
        assert stored.finalized_at == ended
        assert await store.is_task_active("t")
        clock.at += timedelta(microseconds=1)
        assert not await store.is_task_active("t")
        # A clock that is set back changes nothing of what was recorded.
        clock.at -= timedelta(days=1)
        assert await store.is_task_active("t")
        assert await store.is_task_finalized("t")


# ------------------------------------------------------------------------------------------------------- who may write


@within(30)
async def test_of_two_processes_that_write_one_event_one_wins_and_the_other_is_told(url: str) -> None:
    async with open_two(url) as stores:
        for number in range(1, 11):
            outcomes: list[str] = []

            async def write(store: SqlTaskStore, text: str, number: int = number, to: list[str] = outcomes) -> None:
                writer = TaskWriter("t")
                writer.sequence = number - 1
                event = task("t") if number == 1 else status("t", text=text)
                try:
                    await store.commit([writer.change(event)])
                except TaskConflictError:
                    to.append("lost")
                else:
                    to.append("won")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(write, stores[0], "one")
                nursery.start_soon(write, stores[1], "two")
            assert sorted(outcomes) == ["lost", "won"], number
        assert [envelope.sequence for envelope in await stores[0].events("t", 0)] == list(range(1, 11))


@within(30)
async def test_a_status_counts_as_the_reducer_says_it_does(url: str) -> None:
    """The columns that listings use follow from the events, without the task."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    writer = TaskWriter("t")
    async with open_sql_store(url) as store:
        await store.commit([writer.change(task("t", context_id=""))])
        assert await listed(store, state=TaskState.SUBMITTED) == ["t"]
        await store.commit([writer.change(status("t", context_id="c", timestamp=start))])
        assert await listed(store, state=TaskState.WORKING, context="c", since=start) == ["t"]
        await store.commit([writer.change(status("t", context_id="other"))])
        assert await listed(store, context="other") == []
        assert await listed(store, context="c", since=start) == []
        end = start + timedelta(hours=1)
        await store.commit(
            [
                writer.change(status("t", TaskState.COMPLETED, timestamp=end)),
                writer.change(status("t", TaskState.COMPLETED, timestamp=end + timedelta(hours=1))),
            ]
        )
        await store.commit([writer.change(status("t", TaskState.COMPLETED, timestamp=end + timedelta(hours=2)))])
        await store.commit([writer.change(task("t", TaskState.COMPLETED, context_id="other"))])
        assert await listed(store, context="other") == []
        assert await listed(store, state=TaskState.COMPLETED, since=end, context="c") == ["t"]
        assert await listed(store, since=end + timedelta(seconds=1)) == []


async def listed(
    store: SqlTaskStore, *, state: TaskState = TaskState.UNSPECIFIED, context: str = "", since: datetime | None = None
) -> list[str]:
    query = ListTasksRequest(status=state, context_id=context, status_timestamp_after=since)
    found, total = await store.list(query, owner="")
    assert total == len(found)
    return [entry.id for entry in found]


# ------------------------------------------------------------------------------------------------- ids and broken rows


@within(30)
async def test_contexts_of_any_length_and_content_are_found(url: str) -> None:
    """Clients choose them."""
    contexts = ["short", "x" * 5000, "a\0b", "sha256:0", "ünï", "blank ", "blank"]
    async with open_sql_store(url) as store:
        for number, context in enumerate(contexts):
            await store.commit([TaskWriter(f"t{number}").change(task(f"t{number}", context_id=context))])
        for number, context in enumerate(contexts):
            assert await listed(store, context=context) == [f"t{number}"], context


@pytest.mark.parametrize("task_id", ["x" * 513, "ü" * 257, "nul\0", "\ud800"])
@within(30)
async def test_an_id_that_cannot_be_stored_is_refused_and_unknown(sqlite_url: str, task_id: str) -> None:
    async with open_sql_store(sqlite_url) as store:
        with pytest.raises(TaskSerializationError, match="512 bytes"):
            await store.commit([TaskWriter(task_id).change(task(task_id))])
        for members in ({"owner": task_id}, {"tenant": task_id}):
            with pytest.raises(TaskSerializationError, match="512 bytes"):
                await store.commit([TaskWriter("t", **members).change(task("t"))])
        assert await store.get(task_id) is None
        assert not await store.events(task_id, 0)
        assert not await store.is_task_active(task_id)
        await store.delete(task_id)
        assert await store.list(ListTasksRequest(), owner=task_id) == ((), 0)


@within(30)
async def test_the_longest_ids_are_stored_and_listed(url: str) -> None:
    longest = "x" * 512
    async with open_sql_store(url) as store:
        writer = TaskWriter(longest, owner=longest, tenant=longest)
        await store.commit([writer.change(task(longest, context_id=longest))])
        query = ListTasksRequest(context_id=longest, tenant=longest)
        assert (await store.list(query, owner=longest))[1] == 1


@within(30)
async def test_a_row_that_cannot_be_read_is_an_error_and_neither_active_nor_finalized(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sql_store(url) as store:
        for id_ in ("body", "gap", "state", "end"):
            writer = TaskWriter(id_)
            await store.commit([writer.change(task(id_)), writer.change(artifact(id_, "x"))])
        execute(url, "UPDATE a2a_events SET body = :body WHERE task_id = 'body'", body=b'{"no')
        execute(url, "DELETE FROM a2a_events WHERE task_id = 'gap' AND sequence = 1")
        execute(url, "UPDATE a2a_tasks SET state = 'LOST' WHERE task_id = 'state'")
        execute(url, "UPDATE a2a_tasks SET finalized_at = 9223372036854775807 WHERE task_id = 'end'")
        for id_ in ("body", "gap", "end"):
            with pytest.raises(TaskSerializationError, match=id_):
                await store.get(id_)
        with pytest.raises(TaskSerializationError):
            await store.events("body", 0)
        with pytest.raises(TaskSerializationError):
            await store.list(ListTasksRequest(), owner="")
        with caplog.at_level(logging.ERROR, "trio_a2a.stores"):
            for id_ in ("state", "end"):
                assert not await store.is_task_active(id_)
                assert not await store.is_task_finalized(id_)
                assert id_ in caplog.text


@within(30)
async def test_what_json_cannot_carry_is_refused_and_harms_nobody_else(sqlite_url: str) -> None:
    writer, other = TaskWriter("t"), TaskWriter("other")
    async with open_sql_store(sqlite_url) as store:
        with pytest.raises(TaskSerializationError):
            await store.commit([writer.change(artifact("t", "x", metadata={"n": float("nan")}))])
        await store.commit([other.change(task("other"))])
        assert await store.get("t") is None


@pytest.mark.parametrize(
    "event",
    [
        status("t", context_id=""),
        artifact("t", context_id=""),
        artifact("t", artifact_id=""),
        artifact("t", []),
        status("t", TaskState.UNSPECIFIED),
        task("t", history=[attrs.evolve(message(), role=Role.UNSPECIFIED)]),
        task("t", artifacts=[attrs.evolve(artifact("t").artifact, parts=())]),
        TaskStatusUpdateEvent(
            task_id="t", context_id="c", status=TaskStatus(state=TaskState.WORKING, message=message([]))
        ),
    ],
)
@within(30)
async def test_what_could_not_be_read_again_is_not_written(sqlite_url: str, event: StreamEvent) -> None:
    """The protocol requires what these lack, and so does whoever reads JSON."""
    async with open_sql_store(sqlite_url) as store:
        with pytest.raises(TaskSerializationError, match="requires"):
            await store.commit([TaskChange(task_id="t", sequence=1, event=event, snapshot=lambda: task("t"))])


@within(30)
async def test_no_changes_are_no_commit(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url) as store:
        await store.commit([])
        assert (await store.list(ListTasksRequest(), owner=""))[1] == 0
