"""A process that was cut off for longer than its lease, and whose tasks were taken over. Threads: no autojump clock."""

import pytest
import trio
import trio.testing

from tests.deadline import within
from tests.server.serving_processes import LONG, Plain, Resumable, never, open_process
from tests.stores.processes import Wall, inside, kill
from trio_a2a.abc import CloseReason
from trio_a2a.agents import RequestContext, TaskUpdater
from trio_a2a.errors import InternalError, TaskTakenOverError
from trio_a2a.types import Task, TaskState


class Worker:
    """Reports what it is told to, and notes how its run ends."""

    def __init__(self) -> None:
        self.tell, self.told = trio.open_memory_channel[str](100)
        self.ended = trio.Event()

    async def __call__(self, _context: RequestContext, updater: TaskUpdater) -> None:
        try:
            await updater.start_work()
            async for text in self.told:
                await updater.add_artifact(text)
        finally:
            self.ended.set()


@pytest.mark.requirement("S5-TAKEN-OVER")
@pytest.mark.parametrize("policy", ["fail", "resume"])
@within(30)
async def test_its_next_event_is_not_stored_its_streams_end_and_so_does_its_run(url: str, policy: str) -> None:
    wall, worker, may_go_on = Wall(), Worker(), trio.Event()

    async def go_on(_context: RequestContext, updater: TaskUpdater) -> None:
        await may_go_on.wait()
        await updater.complete()

    async with open_process(url, Plain(worker), clock=wall, lease=LONG) as cut_off:
        id_ = (await cut_off.send("work")).id
        await cut_off.reached(id_, TaskState.WORKING)
        wall.advance(LONG)
        async with (
            open_process(url, Resumable(go_on), clock=wall, lease=LONG, on_orphan=policy) as other,
            cut_off.manager.subscribe(id_) as child,
        ):
            await other.at(id_, 3)
            assert isinstance(await child.receive(), Task)
            worker.tell.send_nowait("lost")
            with pytest.raises(InternalError) as failure:
                await child.receive()
            assert isinstance(failure.value.__cause__, TaskTakenOverError)
            assert child.close_reason is CloseReason.STORE_FAILURE
            await worker.ended.wait()
            await trio.testing.wait_all_tasks_blocked()
            # Who comes back here finds the task as it is now.
            assert cut_off.manager.get(id_) is None
            may_go_on.set()
            await other.ended(id_)
            assert await cut_off.log(id_) == await other.log(id_)
            assert (await other.log(id_))[:2] == ["SUBMITTED", "WORKING"]
            assert (await other.log(id_))[2:] == (["FAILED"] if policy == "fail" else ["WORKING", "COMPLETED"])


@within(30)
async def test_what_it_has_in_flight_is_dropped_with_the_rest(sqlite_url: str) -> None:
    """None of it may follow what the other process has written."""
    wall, worker = Wall(), Worker()
    async with open_process(sqlite_url, Plain(worker), clock=wall, lease=LONG) as cut_off:
        id_ = (await cut_off.send("work")).id
        await cut_off.reached(id_, TaskState.WORKING)
        wall.advance(LONG)
        async with open_process(sqlite_url, Resumable(never), clock=wall, lease=LONG, on_orphan="keep") as other:
            assert await other.store.claim_orphans(10) == [id_]
            await other.operations.updater(id_).start_work()
            await other.manager.get(id_).flush()  # type: ignore[union-attr]
            for number in range(20):
                worker.tell.send_nowait(str(number))
            await worker.ended.wait()
            await trio.testing.wait_all_tasks_blocked()
            assert await other.log(id_) == ["SUBMITTED", "WORKING", "WORKING"]


@within(30)
async def test_who_reads_a_task_elsewhere_than_where_it_ran_is_told_to_come_back_and_misses_nothing(
    sqlite_url: str,
) -> None:
    """A queue that was opened for a reader does not know what the dead process has stored since."""
    worker = Worker()
    async with (
        open_process(sqlite_url, Plain(), lease=0.3) as other,
        open_process(sqlite_url, Plain(worker), lease=LONG) as process,
    ):
        id_ = (await process.send("work")).id
        await process.reached(id_, TaskState.WORKING)
        async with other.manager.subscribe(id_) as reader:
            assert isinstance(await reader.receive(), Task)
            worker.tell.send_nowait("unseen")
            while len(await process.log(id_)) < 3:
                await trio.lowlevel.checkpoint()
            kill(sqlite_url, process.store)
            with inside(sqlite_url) as connection:
                connection.exec_driver_sql("UPDATE a2a_processes SET expires_at = 0 WHERE process_id = 'dead'")
            with pytest.raises(trio.EndOfChannel):
                await reader.receive()
            assert reader.close_reason is CloseReason.SHUTDOWN
        await other.ended(id_)
        assert await other.log(id_) == ["SUBMITTED", "WORKING", "unseen", "FAILED"]
