"""The store in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import EventLog, TaskChange, TaskStateProvider, TaskStore
from trio_a2a.clock import Clock
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.streams import open_queue_manager
from trio_a2a.testing import (
    artifact,
    check_event_log,
    check_task_state_provider,
    check_task_store,
    status,
    task,
)
from trio_a2a.types import Task, TaskState


@asynccontextmanager
async def open_store() -> AsyncIterator[InMemoryTaskStore]:
    yield InMemoryTaskStore()


async def report(store: InMemoryTaskStore, task_id: str, state: TaskState) -> None:
    """Commit the state as the task's next event."""
    stored = await store.get(task_id)
    number = stored.sequence + 1 if stored is not None else 1
    await store.commit([change(task_id, number, status(task_id, state), task(task_id, state))])


def change(task_id: str, sequence: int, event: object, after: Task) -> TaskChange:
    return TaskChange(task_id=task_id, sequence=sequence, event=event, snapshot=lambda: after)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------- suites


@pytest.mark.requirement("S4-MEMORY-STORE", "S7-CONFORMANCE", "S4-STORE")
@within(60)
async def test_it_passes_the_suite_for_task_stores(autojump_clock: object) -> None:
    await check_task_store(open_store)


@pytest.mark.requirement("S4-MEMORY-STORE", "S7-CONFORMANCE", "S4-EVENT-LOG")
@within(60)
async def test_it_passes_the_suite_for_event_logs(autojump_clock: object) -> None:
    await check_event_log(open_store)


@pytest.mark.requirement("S4-MEMORY-STORE", "S7-CONFORMANCE", "S4-PROVIDER", "B20", "B21")
@pytest.mark.parametrize("grace_period", [0, 0.002, 15.0, 86400.0])
@within(10_000_000)
async def test_it_passes_the_suite_for_state_providers(autojump_clock: object, grace_period: float) -> None:
    @asynccontextmanager
    async def open_provider() -> AsyncIterator[InMemoryTaskStore]:
        yield InMemoryTaskStore(grace_period)

    await check_task_state_provider(open_provider, report=report, grace_period=grace_period)


# ---------------------------------------------------------------------------------------------------------- its own


@pytest.mark.requirement("S4-MEMORY-STORE")
def test_it_is_a_store_a_log_and_a_provider_with_a_grace_period_of_fifteen_seconds() -> None:
    store = InMemoryTaskStore()
    assert isinstance(store, TaskStore)
    assert isinstance(store, EventLog)
    assert isinstance(store, TaskStateProvider)
    assert store._grace == timedelta(seconds=15)


@pytest.mark.requirement("S4-MEMORY-STORE", "B21")
@pytest.mark.parametrize("grace", [-1, -0.001, float("nan")])
def test_a_negative_grace_period_is_refused(grace: float) -> None:
    with pytest.raises(ValueError, match="grace_period"):
        InMemoryTaskStore(grace)


@pytest.mark.requirement("S4-MEMORY-STORE", "S4-TIME")
@within(5)
async def test_it_takes_its_dates_from_the_clock_that_it_is_given(autojump_clock: object) -> None:
    class Settable(Clock):
        at = datetime(2020, 2, 2, tzinfo=UTC)

        def now(self) -> datetime:
            return self.at

    clock = Settable()
    store = InMemoryTaskStore(grace_period=10, clock=clock)
    await store.commit([change("t", 1, status("t", TaskState.FAILED), task("t", TaskState.FAILED))])
    stored = await store.get("t")
    assert stored is not None
    assert stored.finalized_at == clock.at
    clock.at += timedelta(seconds=9, microseconds=999_999)
    assert await store.is_task_active("t")
    clock.at += timedelta(microseconds=1)
    assert not await store.is_task_active("t")
    assert await store.is_task_finalized("t")


@pytest.mark.requirement("S4-MEMORY-STORE", "S4-EVENT-LOG")
@within(5)
async def test_it_keeps_the_last_thousand_events_of_a_task(autojump_clock: object) -> None:
    store = InMemoryTaskStore()
    for number in range(1, 1106):
        await store.commit([change("t", number, status("t"), task("t"))])
    events = await store.events("t", 0)
    assert [envelope.sequence for envelope in events] == list(range(106, 1106))


@pytest.mark.requirement("S4-MEMORY-STORE")
@within(5)
async def test_a_commit_that_is_cancelled_has_stored_nothing(autojump_clock: object) -> None:
    store = InMemoryTaskStore()
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.commit([change("t", 1, task("t"), task("t"))])
    assert scope.cancelled_caught
    assert await store.get("t") is None


@pytest.mark.requirement("S1-FLAT-COST", "S4-TASK-CHANGE")
@within(5)
async def test_a_commit_asks_for_no_snapshot(autojump_clock: object) -> None:
    def never() -> Task:
        raise AssertionError("a snapshot was asked for")

    store = InMemoryTaskStore()
    for number in range(1, 20):
        await store.commit([TaskChange(task_id="t", sequence=number, event=artifact("t"), snapshot=never)])
    assert await store.is_task_active("t")
    assert len(await store.events("t", 0)) == 19


@pytest.mark.requirement("S4-MEMORY-STORE", "B15")
@within(5)
async def test_what_the_core_stores_comes_back_whole(autojump_clock: object) -> None:
    store = InMemoryTaskStore()
    async with open_queue_manager(store) as manager:
        await manager.enqueue("t", status("t", text="one", metadata={"a": 1}))
        await manager.enqueue("t", artifact("t", "x", name="doc"))
        await manager.enqueue("t", artifact("t", "y", append=True))
        await manager.enqueue("t", status("t", TaskState.COMPLETED, "two"))
    stored = await store.get("t")
    assert stored is not None
    assert stored.sequence == 4
    assert stored.owner == stored.tenant == ""
    assert stored.finalized_at is not None
    assert [m.text() for m in stored.task.history] == ["one"]
    assert stored.task.artifacts[0].text("|") == "x|y"
    assert stored.task.metadata == {"a": 1}


@pytest.mark.requirement("S4-MEMORY-STORE")
def test_it_says_how_much_it_holds() -> None:
    assert repr(InMemoryTaskStore()) == "<InMemoryTaskStore: 0 tasks>"


@within(60)
async def test_the_log_of_a_finished_task_goes_with_its_grace_period_and_the_task_stays(autojump_clock: object) -> None:
    store = InMemoryTaskStore(grace_period=15)
    async with open_queue_manager(store) as manager:
        for id_ in ("a", "b"):
            await manager.enqueue(id_, status(id_, TaskState.WORKING))
        await manager.enqueue("a", artifact("a", "kept"))
        await manager.enqueue("a", status("a", TaskState.COMPLETED))
        await trio.sleep(14)
        await manager.enqueue("b", artifact("b", "x"))
        await trio.testing.wait_all_tasks_blocked()
        assert [e.sequence for e in await store.events("a", 0)] == [1, 2, 3]
        await trio.sleep(1)
        await manager.enqueue("b", artifact("b", "y"))
        await trio.testing.wait_all_tasks_blocked()
        assert not await store.events("a", 0)
        assert [e.sequence for e in await store.events("b", 0)] == [1, 2, 3]
        stored = await store.get("a")
    assert stored is not None
    assert (stored.sequence, stored.task.status.state) == (3, TaskState.COMPLETED)
    assert [entry.text() for entry in stored.task.artifacts] == ["kept"]
