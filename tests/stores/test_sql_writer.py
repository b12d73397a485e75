"""The writer: groups, cancellation, lost connections, locks, and the end. Threads are at work: no autojump clock."""

import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from sqlalchemy import text

from tests.deadline import within
from tests.stores.databases import connect_to
from tests.stores.test_sql_tasks import execute
from tests.stores.writers import TaskWriter
from trio_a2a.abc import TaskChange
from trio_a2a.errors import StoreError, TaskConflictError, TaskPersistenceError
from trio_a2a.stores import SqlTaskStore, open_sql_store
from trio_a2a.stores.sql import transactions, writer as writer_module
from trio_a2a.testing import artifact, message, status, task
from trio_a2a.types import ListTasksRequest, Role, Task, TaskState


@contextmanager
def locked(url: str) -> Iterator[Callable[[], None]]:
    """Hold SQLite's write lock, as another process would, until the function is called or the block is left."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def release() -> None:
            if other.in_transaction:
                other.execute("ROLLBACK")

        yield release
        release()


def beginning(store: SqlTaskStore) -> Callable[[], Awaitable[object]]:
    """Return a function that waits until the thread has taken its next group."""
    begun = threading.Event()
    worker = store._database.writer._transactions
    carry_out = worker.carry_out

    def noted(group: list[transactions.Pending]) -> None:
        begun.set()
        carry_out(group)

    worker.carry_out = noted  # type: ignore[method-assign]
    return partial(trio.to_thread.run_sync, begun.wait, 5)


def spy(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many commits each transaction tried to write."""
    sizes: list[int] = []
    write = transactions.write

    def noted(connection: Any, commits: Any, statements: Any) -> None:
        sizes.append(len(commits))
        write(connection, commits, statements)

    monkeypatch.setattr(transactions, "write", noted)
    return sizes


async def cancel_when_blocked(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()


async def commit_all(store: SqlTaskStore, changes: list[TaskChange]) -> dict[str, StoreError | None]:
    outcomes: dict[str, StoreError | None] = {}

    async def commit(change: TaskChange) -> None:
        try:
            await store.commit([change])
        except StoreError as error:
            outcomes[change.task_id] = error
        else:
            outcomes[change.task_id] = None

    async with trio.open_nursery() as nursery:
        for change in changes:
            nursery.start_soon(commit, change)
    return outcomes


# -------------------------------------------------------------------------------------------------------------- groups


@pytest.mark.requirement("S3-GROUP-COMMITS")
@within(30)
async def test_commits_that_wait_are_one_transaction(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = spy(monkeypatch)
    async with open_sql_store(sqlite_url) as store:
        begun = beginning(store)
        with locked(sqlite_url) as release:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, [TaskWriter("first").change(task("first"))])
                await begun()
                for number in range(40):
                    nursery.start_soon(store.commit, [TaskWriter(f"t{number}").change(task(f"t{number}"))])
                await trio.testing.wait_all_tasks_blocked()
                release()
        assert (await store.list(ListTasksRequest(), owner=""))[1] == 41
    assert sizes == [1, 40]


@pytest.mark.requirement("S3-GROUP-COMMITS")
@within(30)
async def test_a_commit_that_fails_in_a_group_fails_alone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each for its own reason, on every database; the others of its group are stored."""
    sizes = spy(monkeypatch)

    def broken() -> Task:
        raise LookupError("no snapshot today")

    async with open_sql_store(url) as store:
        await store.commit([TaskWriter("there").change(task("there"))])
        stale = TaskWriter("there")
        stale.sequence = 4
        changes = [TaskWriter(f"t{number}").change(task(f"t{number}")) for number in range(10)]
        changes.insert(2, TaskWriter("there").change(task("there")))
        changes.insert(5, TaskWriter("broken").change(task("broken", TaskState.FAILED), snapshot=broken))
        ahead = TaskWriter("ahead")
        ahead.sequence = 2
        changes.insert(7, ahead.change(status("ahead")))
        outcomes = await commit_all(store, changes)
        assert isinstance(outcomes.pop("there"), TaskConflictError)
        assert isinstance(outcomes.pop("ahead"), TaskConflictError)
        assert isinstance(outcomes.pop("broken"), TaskPersistenceError)
        assert set(outcomes.values()) == {None}
        assert (await store.list(ListTasksRequest(), owner=""))[1] == 11
        assert await store.get("broken") is None
    assert max(sizes) > 1, "the commits were grouped"


@within(30)
async def test_a_second_commit_of_a_task_is_in_the_next_group(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = spy(monkeypatch)
    async with open_sql_store(sqlite_url) as store:
        writer, begun = TaskWriter("t"), beginning(store)
        with locked(sqlite_url) as release:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, [TaskWriter("first").change(task("first"))])
                await begun()
                for event in (task("t"), artifact("t", "x")):
                    nursery.start_soon(store.commit, [writer.change(event)])
                    await trio.testing.wait_all_tasks_blocked()
                release()
        stored = await store.get("t")
        assert stored is not None
        assert stored.sequence == 2
    assert sizes == [1, 1, 1]


# -------------------------------------------------------------------------------------------------------- cancellation


@within(30)
async def test_a_cancelled_commit_that_was_not_begun_is_withdrawn(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url) as store:
        begun = beginning(store)
        with locked(sqlite_url) as release:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, [TaskWriter("first").change(task("first"))])
                await begun()
                with trio.CancelScope() as scope:
                    nursery.start_soon(cancel_when_blocked, scope)
                    await store.commit([TaskWriter("t").change(task("t"))])
                assert scope.cancelled_caught
                release()
        await store.commit([TaskWriter("after").change(task("after"))])
        assert await store.get("first") is not None
        assert await store.get("t") is None


@within(30)
async def test_a_cancelled_commit_that_was_begun_is_decided_before_its_caller_goes_on(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url) as store:
        begun, scope = beginning(store), trio.CancelScope()

        async def commit_and_read() -> None:
            with scope:
                await store.commit([TaskWriter("t").change(task("t"))])
            assert scope.cancelled_caught
            assert await store.get("t") is not None

        with locked(sqlite_url) as release:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(commit_and_read)
                await begun()
                scope.cancel()
                await trio.testing.wait_all_tasks_blocked()
                release()


@within(30)
async def test_a_cancelled_caller_waits_for_the_decision_only_so_long(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And Trio's thread is never held up: its clock is what ends the wait."""
    monkeypatch.setattr(writer_module, "_DECISION_SECONDS", 0.05)
    async with open_sql_store(sqlite_url) as store:
        begun, writer = beginning(store), TaskWriter("t")
        first = writer.change(task("t"))
        with locked(sqlite_url):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, [first])
                await begun()
                nursery.cancel_scope.cancel()
            assert "its sequence number will tell" in caplog.text
        # Here it was done all the same, and whoever tries it again is told.
        with pytest.raises(TaskConflictError):
            await store.commit([first])
        await store.commit([writer.change(status("t"))])


@within(30)
async def test_readers_do_not_wait_for_the_writer(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url) as store:
        await store.commit([TaskWriter("t").change(task("t"))])
        begun = beginning(store)
        with locked(sqlite_url) as release:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.commit, [TaskWriter("waits").change(task("waits"))])
                await begun()
                assert await store.get("t") is not None
                assert await store.is_task_active("t")
                assert await store.get("waits") is None
                release()


# ------------------------------------------------------------------------------------------------------------ failures


@within(30)
async def test_a_lock_that_is_not_given_is_a_store_error_and_the_store_goes_on(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url, lock_timeout=0.05) as store:
        change = TaskWriter("t").change(task("t"))
        with locked(sqlite_url), pytest.raises(TaskPersistenceError, match="locked"):
            await store.commit([change])
        assert await store.get("t") is None
        await store.commit([change])
        assert await store.get("t") is not None


def cut_connections(url: str) -> None:
    """Have the server end every connection to the database but the one that asks for it."""
    engine = connect_to(url)
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            # Other tests are in the same database; the URL gives the connections of each a name.
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid()"
                )
            )
        else:
            rows = connection.execute(
                text("SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()")
            )
            for (id_,) in rows.all():
                connection.execute(text(f"KILL {id_}"))
    engine.dispose()


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
@within(30)
async def test_connections_that_were_cut_are_replaced_without_a_failure(url: str) -> None:
    """What was not committed is tried once more; readers too."""
    async with open_sql_store(url) as store:
        writer = TaskWriter("t")
        await store.commit([writer.change(task("t"))])
        assert await store.get("t") is not None
        for _ in range(3):
            cut_connections(url)
            await store.commit([writer.change(status("t"))])
            cut_connections(url)
            stored = await store.get("t")
            assert stored is not None
            assert stored.sequence == writer.sequence
        cut_connections(url)
        outcomes = await commit_all(store, [TaskWriter(f"t{n}").change(task(f"t{n}")) for n in range(20)])
        assert set(outcomes.values()) == {None}


@within(30)
async def test_large_commits_fail_and_are_repeated_as_small_ones_are(url: str) -> None:
    """PostgreSQL takes many events in another way, with the user's message or without."""

    def large(writer: TaskWriter, count: int = 100) -> list[TaskChange]:
        first = writer.sequence + 1
        answer = message("this", role=Role.USER)
        return [
            writer.change(artifact(writer.task_id, f"{number}"), answer if number == first + 50 else None)
            for number in range(first, first + count)
        ]

    async def outcomes(commits: list[list[TaskChange]]) -> dict[str, StoreError | None]:
        found: dict[str, StoreError | None] = {}

        async def commit(changes: list[TaskChange]) -> None:
            found[changes[0].task_id] = None
            try:
                await store.commit(changes)
            except StoreError as error:
                found[changes[0].task_id] = error

        async with trio.open_nursery() as nursery:
            for changes in commits:
                nursery.start_soon(commit, changes)
        return found

    writers = [TaskWriter(f"t{number}") for number in range(6)]
    async with open_sql_store(url) as store:
        assert set((await outcomes([large(writer) for writer in writers])).values()) == {None}
        # One is behind, and one finds a row in the log that nobody knows of.
        writers[2].sequence -= 1
        execute(
            url,
            "INSERT INTO a2a_events (task_id, sequence, recorded_at, kind, body)"
            " SELECT task_id, 150, recorded_at, kind, body FROM a2a_events WHERE task_id = 't4' AND sequence = 1",
        )
        if not url.startswith("sqlite"):
            cut_connections(url)
        failed = {task: error for task, error in (await outcomes([large(w) for w in writers])).items() if error}
        assert {task: type(error) for task, error in failed.items()} == dict.fromkeys(("t2", "t4"), TaskConflictError)
        for number in (0, 1, 3, 5):
            stored = await store.get(f"t{number}")
            assert stored is not None
            assert (stored.task, stored.sequence) == (writers[number].task, 200)
        assert (await store.get("t4")).sequence == 100  # type: ignore[union-attr]


@pytest.mark.parametrize("was_committed", [True, False])
@within(30)
async def test_a_commit_whose_end_was_not_heard_of_is_looked_up(
    url: str, monkeypatch: pytest.MonkeyPatch, was_committed: bool
) -> None:
    """The connection breaks in the COMMIT of a group: before the server has done it, or behind that."""
    async with open_sql_store(url) as store:
        await store.commit([TaskWriter("first").change(task("first"))])
        transaction = transactions.Transaction
        commit = transaction.commit
        broken = threading.Event()

        def break_once(self: Any) -> None:
            if not broken.is_set():
                broken.set()
                if was_committed:
                    commit(self)
                self.connection.connection.driver_connection.close()
                raise ConnectionResetError("cut")
            commit(self)

        monkeypatch.setattr(transaction, "commit", break_once)
        writers = [TaskWriter(f"t{number}") for number in range(5)]
        outcomes = await commit_all(store, [writer.change(task(writer.task_id)) for writer in writers])
        assert broken.is_set()
        assert outcomes == dict.fromkeys((writer.task_id for writer in writers), None)
        for writer in writers:
            await store.commit([writer.change(artifact(writer.task_id))])
            assert [one.sequence for one in await store.events(writer.task_id, 0)] == [1, 2]


@within(30)
async def test_a_server_that_is_not_there_fails_all_at_once_and_heals(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No commit waits for the connection time-out of the one before."""
    async with open_sql_store(sqlite_url) as store:
        store._database.writer._transactions.close()
        attempts = 0

        def refuse(self: object) -> None:
            nonlocal attempts
            attempts += 1
            raise ConnectionRefusedError("nobody listens")

        with monkeypatch.context() as patch:
            patch.setattr(type(store._database.writer._transactions.engine), "connect", refuse)
            outcomes = await commit_all(store, [TaskWriter(f"t{n}").change(task(f"t{n}")) for n in range(30)])
        assert all(isinstance(error, TaskPersistenceError) for error in outcomes.values())
        assert attempts <= 3
        await store.commit([TaskWriter("t1").change(task("t1"))])


# ----------------------------------------------------------------------------------------------------------------- end


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("trio-a2a")]


@within(30)
async def test_leaving_writes_what_is_waiting_and_ends_the_thread(url: str) -> None:
    async with trio.open_nursery() as nursery:
        async with open_sql_store(url) as store:
            assert len(threads()) == 1
            for number in range(50):
                nursery.start_soon(store.commit, [TaskWriter(f"t{number}").change(task(f"t{number}"))])
            await trio.testing.wait_all_tasks_blocked()
        assert not threads()
    async with open_sql_store(url) as store:
        assert (await store.list(ListTasksRequest(), owner=""))[1] == 50


@within(30)
async def test_leaving_gives_up_what_cannot_be_written_in_time(sqlite_url: str) -> None:
    outcomes: dict[str, StoreError | None] = {}

    async def commit(store: SqlTaskStore, id_: str) -> None:
        try:
            await store.commit([TaskWriter(id_).change(task(id_))])
        except StoreError as error:
            outcomes[id_] = error

    async with trio.open_nursery() as nursery, AsyncExitStack() as left_first:
        store = await left_first.enter_async_context(open_sql_store(sqlite_url, lock_timeout=0.5, close_timeout=0.1))
        begun = beginning(store)
        with locked(sqlite_url):
            nursery.start_soon(commit, store, "begun")
            await begun()
            nursery.start_soon(commit, store, "waiting")
            await trio.testing.wait_all_tasks_blocked()
            await left_first.aclose()
    assert set(outcomes) == {"begun", "waiting"}
    assert "closed" in str(outcomes["waiting"])
    assert not threads()


@within(30)
async def test_leaving_while_being_cancelled_ends_the_thread_too(sqlite_url: str) -> None:
    with trio.CancelScope() as scope:
        async with open_sql_store(sqlite_url) as store:
            await store.commit([TaskWriter("t").change(task("t"))])
            scope.cancel()
            await trio.sleep_forever()
    assert not threads()


@within(30)
async def test_what_the_body_raises_comes_out_as_it_is(sqlite_url: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_sql_store(sqlite_url):
            raise ZeroDivisionError


@within(30)
async def test_a_closed_store_refuses(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url) as store:
        pass
    for call in (
        lambda: store.get("t"),
        lambda: store.commit([TaskWriter("t").change(task("t"))]),
        lambda: store.delete("t"),
        lambda: store.list(ListTasksRequest(), owner=""),
        lambda: store.events("t", 0),
        lambda: store.is_task_active("t"),
    ):
        with pytest.raises(TaskPersistenceError, match="closed"):
            await call()
