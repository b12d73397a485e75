"""Finished tasks as bytes."""

import gc
from datetime import UTC, datetime

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.stores.packed import PackedTask, is_short
from trio_a2a.streams import open_queue_manager
from trio_a2a.testing import artifact, message, status, task
from trio_a2a.types import Artifact, Message, Part, Role, TaskState

AT = datetime(2026, 3, 14, tzinfo=UTC)


def packed(of, events=()):
    return PackedTask(of, list(events), sequence=7, owner="alice", tenant="acme", finalized_at=AT)


@pytest.mark.parametrize(
    "odd",
    [
        task("t", TaskState.COMPLETED, "said", history=[message("asked")], timestamp=AT),
        task("t", TaskState.FAILED, history=[Message(message_id="", role=Role.USER, parts=())]),
        task("t", TaskState.REJECTED, artifacts=[Artifact(artifact_id="", parts=(Part(raw=b"\0"), Part(data=None)))]),
        task("t", TaskState.CANCELED, metadata={}),
    ],
)
def test_a_task_comes_out_as_it_went_in_even_one_that_no_client_would_accept(odd):
    pack = packed(odd, [odd, status("t", TaskState.FAILED)])
    assert pack.task == odd
    assert pack.events == [odd, status("t", TaskState.FAILED)]
    assert (pack.context_id, pack.state, pack.timestamp) == (odd.context_id, odd.status.state, odd.status.timestamp)
    assert (pack.sequence, pack.owner, pack.tenant, pack.finalized_at) == (7, "alice", "acme", AT)
    pack.drop_events()
    assert pack.events == []
    assert pack.task == odd


def test_only_what_is_packed_in_a_moment_is_packed():
    few, many = [status("t")] * 50, [status("t")] * 101
    assert is_short(task("t"), few)
    assert not is_short(task("t"), many)
    assert not is_short(task("t", artifacts=[artifact("t", ["part"] * 101).artifact]), few)
    assert not is_short(task("t", history=[message("asked")] * 101), [])


@within(30)
async def test_the_garbage_collector_has_little_to_do_for_a_finished_task(autojump_clock):
    store = InMemoryTaskStore()
    async with open_queue_manager(store) as manager:

        async def work(number):
            id_ = f"task {number}"
            await manager.enqueue(id_, task(id_, history=[message("asked")]))
            await manager.enqueue(id_, artifact(id_, "answer"))
            await manager.enqueue(id_, status(id_, TaskState.COMPLETED, "done"))

        await work(0)
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        before = len(gc.get_objects())
        for number in range(1, 101):
            await work(number)
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        assert len(gc.get_objects()) - before < 300


@within(30)
async def test_a_long_task_is_kept_as_it_is(autojump_clock):
    store = InMemoryTaskStore()
    async with open_queue_manager(store) as manager:
        for number in range(200):
            await manager.enqueue("t", artifact("t", str(number), artifact_id=str(number)))
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
    stored = await store.get("t")
    assert len(stored.task.artifacts) == 200
    assert stored.task is (await store.get("t")).task


@within(30)
async def test_a_late_event_joins_a_packed_task_and_its_log(autojump_clock):
    store = InMemoryTaskStore()
    async with open_queue_manager(store) as manager:
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.testing.wait_all_tasks_blocked()
        ended = (await store.get("t")).finalized_at
        await trio.sleep(1)
        await manager.enqueue("t", artifact("t", "late"))
        await trio.testing.wait_all_tasks_blocked()
        stored = await store.get("t")
        assert (stored.sequence, stored.finalized_at) == (2, ended)
        assert [entry.text() for entry in stored.task.artifacts] == ["late"]
        assert [envelope.sequence for envelope in await store.events("t", 0)] == [1, 2]
