"""Two processes on one task, clocks that jump, and cancellation at every await."""

import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
import trio.abc
import trio.testing

from tests.deadline import within
from tests.stores.checker import check
from tests.stores.databases import connect_to
from tests.stores.writers import TaskWriter
from trio_a2a.abc import CloseReason
from trio_a2a.clock import Clock
from trio_a2a.errors import InternalError, TaskConflictError
from trio_a2a.stores import SqlTaskStore, open_sql_store
from trio_a2a.streams import open_queue_manager
from trio_a2a.testing import artifact, status, task
from trio_a2a.types import ListTasksRequest, TaskState

ROOT = Path(__file__).parents[2]

# ------------------------------------------------------------------------------------------------------- two processes


@pytest.mark.requirement("S4-STORE")
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
@within(60)
async def test_processes_that_race_for_a_task_win_each_number_once(url: str) -> None:
    """Two processes write as fast as they can, each behind what it finds; losers are told so, and by nothing else."""
    async with open_sql_store(url) as store:
        await store.commit([TaskWriter("t").change(task("t"))])
    command = [sys.executable, "-m", "tests.stores.racer", url, "40"]
    found: list[Counter[str]] = []

    async def race() -> None:
        done = await trio.run_process(command, cwd=ROOT, capture_stdout=True)
        found.append(Counter(done.stdout.decode().split()))

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(race)
    assert [one["won"] for one in found] == [40, 40]
    # A typed conflict either way: the task belonged to the process that made it.
    assert all(set(one) <= {"won", "TaskConflictError", "TaskTakenOverError"} for one in found), found
    findings = await trio.to_thread.run_sync(check, url, {"t": {}})
    assert not findings.faults
    assert findings.events == 81


@within(30)
async def test_the_loser_of_a_race_ends_its_streams_and_goes_on_behind_the_winner(url: str) -> None:
    """Two servers have the task live; the one whose state is old is told by its next event."""
    async with (
        open_sql_store(url) as store,
        open_sql_store(url) as other_store,
        open_queue_manager(store) as manager,
        open_queue_manager(other_store) as other,
    ):
        await store.commit([TaskWriter("t").change(task("t"))])
        async with manager.subscribe("t", snapshot=False) as child, other.subscribe("t", snapshot=False) as late:
            await manager.enqueue("t", artifact("t", "theirs"))
            assert (await child.receive_batch())[0].sequence == 2
            await other.enqueue("t", artifact("t", "ours"))
            with pytest.raises(InternalError) as failure:
                await late.receive()
            assert isinstance(failure.value.__cause__, TaskConflictError)
            assert late.close_reason is CloseReason.STORE_FAILURE
        async with other.subscribe("t", after=1) as again:
            await other.enqueue("t", artifact("t", "ours", artifact_id="other"))
            numbers: list[int] = []
            while len(numbers) < 2:
                numbers += [envelope.sequence for envelope in await again.receive_batch()]
            assert numbers == [2, 3]


# -------------------------------------------------------------------------------------------------------------- clocks


class Jumping(Clock):
    """A clock that is set as wanted."""

    def __init__(self) -> None:
        self.at = datetime(2024, 6, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


@pytest.mark.requirement("S4-FINALIZED-ONCE", "S4-PROVIDER")
@within(30)
async def test_a_clock_that_jumps_changes_neither_an_end_nor_an_order(url: str) -> None:
    """Back, forward, and to the ends of time: events keep their numbers, and the end its first instant."""
    clock, writer = Jumping(), TaskWriter("t")
    async with open_sql_store(url, grace_period=10, clock=clock) as store:
        jumps = [timedelta(days=-365 * 50), timedelta(days=365 * 90), timedelta(seconds=-1), timedelta(days=-365 * 30)]
        await store.commit([writer.change(task("t"))])
        for jump in jumps:
            clock.at += jump
            await store.commit([writer.change(artifact("t", artifact_id=f"{writer.sequence}"))])
        ended = clock.at
        await store.commit([writer.change(status("t", TaskState.COMPLETED))])
        for jump in jumps:
            clock.at += jump
            await store.commit([writer.change(status("t", TaskState.COMPLETED))])
            stored = await store.get("t")
            assert stored is not None
            assert stored.finalized_at == ended
            assert await store.is_task_finalized("t")
            assert await store.is_task_active("t") == (clock.at < ended + timedelta(seconds=10))
        for at, active in (
            (ended + timedelta(seconds=10), False),
            (ended + timedelta(seconds=10, microseconds=-1), True),
            (datetime.min.replace(tzinfo=UTC), True),
            (datetime.max.replace(tzinfo=UTC), False),
        ):
            clock.at = at
            assert await store.is_task_active("t") is active
        assert [one.sequence for one in await store.events("t", 0)] == list(range(1, writer.sequence + 1))
        assert (await store.list(ListTasksRequest(), owner=""))[1] == 1


@within(30)
async def test_a_task_that_ends_in_one_process_keeps_its_end_in_another_with_an_earlier_clock(sqlite_url: str) -> None:
    ahead, behind = Jumping(), Jumping()
    behind.at -= timedelta(hours=1)
    writer = TaskWriter("t")
    async with open_sql_store(sqlite_url, clock=ahead) as one, open_sql_store(sqlite_url, clock=behind) as two:
        await one.commit([writer.change(task("t", TaskState.FAILED))])
        await two.commit([writer.change(status("t", TaskState.FAILED))])
        for store in (one, two):
            stored = await store.get("t")
            assert stored is not None
            assert stored.finalized_at == ahead.at
            assert await store.is_task_active("t")


# -------------------------------------------------------------------------------------------------------- cancellation


class CancelAt(trio.abc.Instrument):
    """Cancels a scope at the n-th step of Trio's scheduler."""

    def __init__(self, step: int, scope: trio.CancelScope) -> None:
        self.left = step
        self._scope = scope

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self._scope.cancel()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("trio-a2a")]


async def everything(store: SqlTaskStore, told: list[int]) -> None:
    """Each call of a store; what was committed is told."""
    writer = TaskWriter("t")
    for event in (task("t"), artifact("t"), status("t", TaskState.COMPLETED)):
        await store.commit([writer.change(event)])
        told.append(writer.sequence)
        await store.get("t")
        await store.events("t", 0)
    await store.list(ListTasksRequest(), owner="")
    await store.is_task_active("t")
    await store.delete("t")
    told.clear()


@pytest.mark.requirement("S4-CANCEL-COMMIT")
@within(120)
async def test_cancelled_at_any_step_a_store_is_decided_usable_and_in_no_transaction(url: str) -> None:
    """In run n the cancellation comes at the n-th step, until one comes through: the next call always works."""
    async with open_sql_store(url, lock_timeout=2) as store, open_sql_store(url, lock_timeout=2) as other:
        step, finished = 0, False
        while not finished:
            step += 1
            told: list[int] = []
            with trio.CancelScope() as scope:
                canceller = CancelAt(step, scope)
                trio.lowlevel.add_instrument(canceller)
                try:
                    await everything(store, told)
                finally:
                    trio.lowlevel.remove_instrument(canceller)
            finished = not scope.cancelled_caught
            # The other store would wait for a transaction that was left open.
            stored = await other.get("t")
            at = stored.sequence if stored is not None else 0
            if told:
                assert at in {0, told[-1], told[-1] + 1}, "one more at most, or all deleted"
            await other.commit([TaskWriter(f"free{step}").change(task(f"free{step}"))])
            await store.delete("t")
        assert step > 5
    assert not threads()


@within(60)
async def test_opening_and_leaving_can_be_cancelled_at_any_step_and_leave_no_thread(sqlite_url: str) -> None:
    step, finished = 0, False
    while not finished:
        step += 1
        with trio.CancelScope() as scope:
            canceller = CancelAt(step, scope)
            trio.lowlevel.add_instrument(canceller)
            try:
                async with open_sql_store(sqlite_url) as store:
                    await store.commit([TaskWriter(f"t{step}").change(task(f"t{step}"))])
            finally:
                trio.lowlevel.remove_instrument(canceller)
        finished = not scope.cancelled_caught
        assert not threads()
    assert step > 3


@within(30)
async def test_many_that_are_cancelled_together_are_all_decided_and_leave_no_half_commit(url: str) -> None:
    """Each commit is two events of two tasks: both are there, or none."""
    async with open_sql_store(url) as store:

        async def commit(number: int) -> None:
            names = (f"left{number}", f"right{number}")
            await store.commit([TaskWriter(name).change(task(name)) for name in names])

        for wave in range(10):
            with trio.move_on_after(0.002 * wave):
                async with trio.open_nursery() as nursery:
                    for number in range(50):
                        nursery.start_soon(commit, wave * 50 + number)
        found, _ = await store.list(ListTasksRequest(page_size=2000), owner="")
        names = {one.id for one in found}
        assert {name.removeprefix("left") for name in names if name.startswith("left")} == {
            name.removeprefix("right") for name in names if name.startswith("right")
        }


# -------------------------------------------------------------------------------------------------------- large batches


@within(60)
async def test_batches_beyond_a_drivers_limits_are_one_commit(url: str) -> None:
    """More rows than a statement has places for parameters, and more bytes than a packet of a server."""
    async with open_sql_store(url) as store:
        names = [f"t{number:05}" for number in range(3500)]
        await store.commit([TaskWriter(name).change(task(name)) for name in names])
        assert (await store.list(ListTasksRequest(page_size=1), owner=""))[1] == len(names)
        writer = TaskWriter("large")
        large = [artifact("large", "x" * 3_000_000, artifact_id=f"{number}") for number in range(6)]
        await store.commit([writer.change(task("large")), *(writer.change(event) for event in large)])
        assert [envelope.sequence for envelope in await store.events("large", 4)] == [5, 6, 7]
        # All or none, however many statements it takes.
        fresh = [TaskWriter(f"u{name}").change(task(f"u{name}")) for name in names[:1500]]
        with pytest.raises(TaskConflictError, match="t03499"):
            await store.commit([*fresh, TaskWriter("t03499").change(task("t03499"))])
        assert await store.get("ut00000") is None


@within(30)
async def test_the_writers_queue_is_bounded_and_those_beyond_it_wait_their_turn(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trio_a2a.stores.sql import writer as writer_module

    monkeypatch.setattr(writer_module, "_MAX_WAITING", 3)
    engine = connect_to(sqlite_url)
    async with open_sql_store(sqlite_url) as store:
        with engine.connect() as lock:
            lock.exec_driver_sql("BEGIN IMMEDIATE")
            async with trio.open_nursery() as nursery:
                for number in range(10):
                    nursery.start_soon(store.commit, [TaskWriter(f"t{number}").change(task(f"t{number}"))])
                await trio.testing.wait_all_tasks_blocked()
                room = store._database.writer._room.statistics()
                assert room.tasks_waiting == 7
                # One of those that wait for a place goes without having taken one.
                with trio.move_on_after(0.01) as scope:
                    await store.commit([TaskWriter("late").change(task("late"))])
                assert scope.cancelled_caught
                lock.exec_driver_sql("ROLLBACK")
        assert (await store.list(ListTasksRequest(), owner=""))[1] == 10
    engine.dispose()
