"""Leases, and the tasks of processes that have none any more. Threads are at work: no autojump clock."""

from contextlib import ExitStack

import pytest
import trio
import trio.testing
from sqlalchemy import text
from trio.testing import MockClock

from tests.deadline import within
from tests.stores.processes import Wall, claim_all, inside, kill, lease_end, until, until_renewed, write
from tests.stores.test_sql_writer import beginning, locked
from trio_a2a.errors import TaskConflictError, TaskTakenOverError
from trio_a2a.stores import SqlTaskStore, open_sql_store
from trio_a2a.stores.sql.orphans import Candidate, claim, find_orphans
from trio_a2a.stores.sql.schema import to_micros
from trio_a2a.testing import artifact, status, task
from trio_a2a.types import TaskState

# Longer than any test: nothing is renewed, and the clock alone decides.
LONG = 1000.0


async def leave(url: str, *task_ids: str) -> None:
    """Be a process that ends with tasks in the works."""
    async with open_sql_store(url, create=True) as store:
        for task_id in task_ids:
            await write(store, task_id, task(task_id), status(task_id, TaskState.WORKING))


# ----------------------------------------------------------------------------------------------------- who is an orphan


@pytest.mark.requirement("S5-ORPHANS")
@within(30)
async def test_what_a_process_leaves_unfinished_is_an_orphan_at_once(url: str) -> None:
    async with open_sql_store(url) as store:
        for state in TaskState:
            if state is not TaskState.UNSPECIFIED:
                await write(store, state.name, task(state.name), status(state.name, state))
        # What comes behind a status without one leaves the task with whoever reported that.
        writer = await write(store, "appended", task("appended"))
        await store.commit([writer.change(artifact("appended"))])
    async with open_sql_store(url) as store:
        assert sorted(await claim_all(store)) == ["SUBMITTED", "WORKING", "appended"]
        assert await store.claim_orphans(10) == ()


@pytest.mark.requirement("S5-LEASE")
@within(30)
async def test_a_live_process_keeps_its_tasks_to_the_end_of_its_lease_and_not_longer(url: str) -> None:
    wall = Wall()
    async with (
        open_sql_store(url, clock=wall, lease=LONG) as worker,
        open_sql_store(url, clock=wall, lease=LONG) as other,
    ):
        await write(worker, "t", task("t"))
        assert await other.claim_orphans(10) == ()
        wall.advance(LONG - 0.000_001)
        assert await other.claim_orphans(10) == ()
        wall.advance(0.000_001)
        assert await other.claim_orphans(10) == ["t"]
        assert await other.claim_orphans(10) == ()
        # The claimer's own lease has expired as well: what it has claimed is not lost with it.
        async with open_sql_store(url, clock=wall, lease=LONG) as third:
            assert await third.claim_orphans(10) == ["t"]


@within(30)
async def test_a_process_never_claims_its_own_tasks(sqlite_url: str) -> None:
    wall = Wall()
    async with open_sql_store(sqlite_url, clock=wall, lease=LONG) as store:
        await write(store, "t", task("t"))
        wall.advance(2 * LONG)
        assert await store.claim_orphans(10) == ()


@pytest.mark.requirement("S5-ORPHANS")
@within(60)
async def test_of_several_processes_that_start_at_once_each_orphan_is_claimed_by_one(url: str) -> None:
    names = [f"t{number:02}" for number in range(40)]
    await leave(url, *names[:20])
    await leave(url, *names[20:])
    claimed: list[list[str]] = []

    async def start(limit: int) -> None:
        async with open_sql_store(url) as store:
            ready.append(store)
            if len(ready) == 3:
                all_ready.set()
            await all_ready.wait()
            claimed.append(await claim_all(store, limit))
            done.append(store)
            if len(done) == 3:
                all_done.set()
            # What a process that leaves has claimed is orphaned anew.
            await all_done.wait()

    ready: list[SqlTaskStore] = []
    done: list[SqlTaskStore] = []
    all_ready, all_done = trio.Event(), trio.Event()
    async with trio.open_nursery() as nursery:
        for limit in (3, 5, 7):
            nursery.start_soon(start, limit)
    assert sorted(task_id for each in claimed for task_id in each) == names
    assert len(claimed) == 3


@within(30)
async def test_a_claim_whose_caller_went_away_is_given_to_the_next_one(sqlite_url: str) -> None:
    """Else the tasks would be this live process's, and nobody would ever see to them."""
    await leave(sqlite_url, "t")
    async with open_sql_store(sqlite_url, lease=LONG) as store:
        begun, scope = beginning(store), trio.CancelScope()

        async def claim() -> None:
            with scope:
                await store.claim_orphans(10)

        with locked(sqlite_url) as release:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(claim)
                await begun()
                scope.cancel()
                await trio.testing.wait_all_tasks_blocked()
                release()
        assert scope.cancelled_caught
        assert await store.claim_orphans(10) == ["t"]


@within(30)
async def test_a_process_that_renews_its_lease_between_look_and_claim_keeps_its_tasks(sqlite_url: str) -> None:
    wall = Wall()
    async with (
        open_sql_store(sqlite_url, clock=wall, lease=LONG) as worker,
        open_sql_store(sqlite_url, clock=wall, lease=LONG) as other,
    ):
        await write(worker, "t", task("t"))
        wall.advance(LONG)
        now, database = to_micros(wall.now()), other._database
        seen = await database.read(find_orphans, other.process_id, now, 10)
        assert seen == [Candidate("t", worker.process_id)]
        await worker._lease._renew()
        assert await database.writer.do(lambda connection: claim(connection, seen, other.process_id, now)) == []


# ------------------------------------------------------------------------------------------------------------ the lease


async def jump(clock: MockClock, seconds: float) -> None:
    clock.jump(seconds)
    await trio.lowlevel.checkpoint()


@pytest.mark.requirement("S5-LEASE")
async def test_a_lease_is_renewed_each_third_of_its_length_and_given_up_at_the_end(
    url: str, mock_clock: MockClock
) -> None:
    async with open_sql_store(url, lease=30) as store:
        end = lease_end(url, store.process_id)
        for _ in range(4):
            await jump(mock_clock, 9)
            assert lease_end(url, store.process_id) == end
            await jump(mock_clock, 1)
            was, end = end, await until_renewed(url, store.process_id, end)
            assert was is not None
            assert end == was + 10_000_000
    assert lease_end(url, store.process_id) is None


async def test_a_clock_that_stands_still_is_no_loss_of_the_lease(
    url: str, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Some databases count the rows that an UPDATE has changed, some those that it has found."""
    async with open_sql_store(url, lease=30, clock=Wall()) as store:
        for _ in range(3):
            await store._lease._renew()
    assert "taken for dead" not in caplog.text


@pytest.mark.requirement("S5-LEASE")
async def test_a_renewal_that_fails_is_logged_and_tried_again_sooner(
    sqlite_url: str, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sql_store(sqlite_url, lease=30, lock_timeout=0.01) as store:
        end = lease_end(sqlite_url, store.process_id)
        with locked(sqlite_url):
            await jump(mock_clock, 10)
            await until(lambda: "could not be renewed" in caplog.text)
        # A quarter of the usual wait, from when the failure was seen.
        await jump(mock_clock, 2.5)
        assert await until_renewed(sqlite_url, store.process_id, end) == (end or 0) + 12_500_000


async def test_a_process_that_was_taken_for_dead_is_told_and_has_a_lease_again(
    sqlite_url: str, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sql_store(sqlite_url, lease=30) as store:
        await write(store, "t", task("t"))
        with inside(sqlite_url) as connection:
            connection.execute(text("DELETE FROM a2a_processes"))
        await jump(mock_clock, 10)
        await until_renewed(sqlite_url, store.process_id, None)
        await until(lambda: "taken for dead" in caplog.text)
        async with open_sql_store(sqlite_url) as other:
            assert await other.claim_orphans(10) == ()  # it was not claimed in time, and goes on


@within(30)
async def test_rows_of_dead_processes_do_not_pile_up(sqlite_url: str) -> None:
    wall = Wall()
    for number in range(3):
        async with open_sql_store(sqlite_url, clock=wall, lease=LONG) as store:
            kill(sqlite_url, store, f"dead {number}")
    wall.advance(LONG)
    async with open_sql_store(sqlite_url, clock=wall, lease=LONG) as store:
        with inside(sqlite_url) as connection:
            left = connection.execute(text("SELECT process_id FROM a2a_processes")).scalars().all()
    assert left == [store.process_id]


# ------------------------------------------------------------------------------------------------------------- the wait


async def test_one_waits_for_the_end_of_the_first_foreign_lease(sqlite_url: str, mock_clock: MockClock) -> None:
    """No sooner, though the own lease is renewed much later."""
    async with open_sql_store(sqlite_url, lease=20) as worker:
        await write(worker, "t", task("t"))
        kill(sqlite_url, worker)
        async with open_sql_store(sqlite_url, lease=LONG) as store, trio.open_nursery() as nursery:
            await store.wait_for_orphans()  # at the start there is always a first look
            assert await store.claim_orphans(10) == ()
            over = trio.Event()

            async def wait() -> None:
                await store.wait_for_orphans()
                over.set()

            nursery.start_soon(wait)
            await jump(mock_clock, 19)
            await trio.testing.wait_all_tasks_blocked()
            assert not over.is_set()
            await jump(mock_clock, 1.5)
            await over.wait()
            assert await store.claim_orphans(10) == ["t"]


async def test_what_a_process_gives_up_is_found_at_the_next_renewal(sqlite_url: str, mock_clock: MockClock) -> None:
    async with open_sql_store(sqlite_url, lease=30) as store:
        await store.wait_for_orphans()
        assert await store.claim_orphans(10) == ()
        await leave(sqlite_url, "t")
        await jump(mock_clock, 10)
        await store.wait_for_orphans()
        assert await store.claim_orphans(10) == ["t"]


async def test_a_look_that_fails_is_logged_and_repeated_after_the_next_renewal(
    sqlite_url: str, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sql_store(sqlite_url, lease=30) as store:
        await store.wait_for_orphans()
        with inside(sqlite_url) as connection:
            connection.execute(text("ALTER TABLE a2a_tasks RENAME TO elsewhere"))
        await jump(mock_clock, 10)
        await until(lambda: "could not be looked for" in caplog.text)
        with inside(sqlite_url) as connection:
            connection.execute(text("ALTER TABLE elsewhere RENAME TO a2a_tasks"))
        await leave(sqlite_url, "t")
        await jump(mock_clock, 10)
        await store.wait_for_orphans()
        assert await store.claim_orphans(10) == ["t"]


async def test_who_keeps_orphans_does_not_look_for_them(sqlite_url: str, mock_clock: MockClock) -> None:
    async with open_sql_store(sqlite_url, lease=30, on_orphan="keep") as store:
        assert store.on_orphan == "keep"
        await store.wait_for_orphans()
        await leave(sqlite_url, "t")
        end = lease_end(sqlite_url, store.process_id)
        await jump(mock_clock, 10)
        await until_renewed(sqlite_url, store.process_id, end)
        await trio.to_thread.run_sync(int)
        assert not store._lease._orphans.is_set()


# --------------------------------------------------------------------------------------------- after it was taken over


@pytest.mark.requirement("S5-TAKEN-OVER")
@within(30)
async def test_the_next_commit_of_a_process_whose_task_was_taken_over_is_a_conflict_that_says_so(url: str) -> None:
    wall = Wall()
    async with (
        open_sql_store(url, clock=wall, lease=LONG) as worker,
        open_sql_store(url, clock=wall, lease=LONG) as other,
    ):
        writer = await write(worker, "t", task("t"))
        wall.advance(LONG)
        assert await other.claim_orphans(10) == ["t"]
        change = writer.change(status("t", TaskState.WORKING))
        await other.commit([change])
        with pytest.raises(TaskTakenOverError, match="at event 2"):
            await worker.commit([change])


@within(30)
async def test_an_event_from_outside_the_run_leaves_the_task_with_its_process(url: str) -> None:
    """Where another process only appends something, it is a conflict like any other."""
    async with open_sql_store(url) as worker, open_sql_store(url) as other:
        writer = await write(worker, "t", task("t"))
        change = writer.change(artifact("t"))
        await other.commit([change])
        with pytest.raises(TaskConflictError) as conflict:
            await worker.commit([change])
        assert not isinstance(conflict.value, TaskTakenOverError)


# -------------------------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize(("close_timeout", "lock_timeout"), [(0.05, 0.3), (1.0, 0.01)])
@within(30)
async def test_a_lease_that_cannot_be_given_up_is_logged_and_holds_nobody_up(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, close_timeout: float, lock_timeout: float
) -> None:
    """Whether the time for closing is over first, or the database says no."""
    with ExitStack() as lock:
        async with open_sql_store(sqlite_url, close_timeout=close_timeout, lock_timeout=lock_timeout) as store:
            lock.enter_context(locked(sqlite_url))
    assert "the lease of this process" in caplog.text
    assert lease_end(sqlite_url, store.process_id) is not None
