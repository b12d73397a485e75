"""What happens when the store cannot write or read."""

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason, TaskChange
from trio_a2a.errors import (
    InternalError,
    StoreError,
    TaskConflictError,
    TaskPersistenceError,
    TaskSerializationError,
    TaskTakenOverError,
)
from trio_a2a.reducer import WorkingTask, reduce
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.streams import EventQueueClosedError, open_queue_manager
from trio_a2a.testing import FlakyStore, RecordingHook, artifact, status
from trio_a2a.types import TaskState


@pytest.mark.requirement("S4-STORE-FAILURE", "B9")
@pytest.mark.parametrize(
    "error",
    [TaskSerializationError("secret", task_id="t"), TaskPersistenceError("secret"), TaskConflictError("secret")],
    ids=lambda error: type(error).__name__,
)
@within(5)
async def test_in_place_of_the_event_readers_get_an_internal_error_with_a_safe_text_whose_cause_is_the_store_error(
    autojump_clock: object, error: StoreError
) -> None:
    hook = RecordingHook()
    store = FlakyStore(error=error)
    async with open_queue_manager(store, hook=hook) as manager:
        children = [await manager.create_or_tap("t") for _ in range(3)]
        before = artifact("t", "before")
        await manager.enqueue("t", before)
        await trio.testing.wait_all_tasks_blocked()
        store.refuse = lambda change: True
        await manager.enqueue("t", artifact("t", "lost"))
        for child in children:
            assert await child.receive() is before
            for receive in (child.receive, child.receive_batch):
                with pytest.raises(InternalError) as failure:
                    await receive()
                assert "secret" not in str(failure.value)
                assert "secret" not in failure.value.metadata.values()
                assert failure.value.__cause__ is error
            with pytest.raises(InternalError):
                child.receive_nowait()
            assert child.close_reason is CloseReason.STORE_FAILURE
        assert isinstance(hook.events[-1], InternalError)
        assert len(hook.of("on_unsubscribe")) == 3


@pytest.mark.requirement("S4-STORE-FAILURE", "B9")
@within(5)
async def test_what_is_no_store_error_is_treated_as_one(autojump_clock: object) -> None:
    store = FlakyStore(error=RuntimeError("secret"), refuse=lambda change: True)
    async with open_queue_manager(store) as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(artifact("t"))
        with pytest.raises(InternalError) as failure:
            await child.receive()
        cause = failure.value.__cause__
        assert isinstance(cause, TaskPersistenceError)
        assert cause.__cause__ is store.error
        assert cause.task_id == "t"


@pytest.mark.requirement("S4-STORE-FAILURE", "B9")
@within(5)
async def test_the_stored_task_is_unchanged_and_the_processor_goes_on_with_the_next_event(
    autojump_clock: object,
) -> None:
    store = FlakyStore()
    async with open_queue_manager(store) as manager:
        await manager.enqueue("t", status("t", text="working"))
        queue = manager.get("t")
        assert queue is not None
        await queue.flush()
        before = await store.get("t")
        store.refuse = lambda change: True
        await queue.enqueue(status("t", TaskState.COMPLETED))
        with pytest.raises(TaskPersistenceError):
            await queue.flush()
        assert await store.get("t") == before
        store.refuse = None
        async with manager.subscribe("t") as child:
            (snapshot,) = await child.receive_batch()
            assert snapshot.sequence == 1
            assert before is not None
            assert snapshot.event == before.task
            await queue.enqueue(artifact("t", "next"))
            (envelope,) = await child.receive_batch()
            assert envelope.sequence == 2


@pytest.mark.requirement("S4-STORE-FAILURE", "S4-CANCEL-COMMIT", "S1-NO-LOSS")
@within(5)
async def test_a_commit_that_failed_after_it_was_done_is_recognised_by_its_number(autojump_clock: object) -> None:
    store = FlakyStore()
    async with open_queue_manager(store) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        store.refuse = lambda change: True
        store.forgets_to_answer = True
        for number in range(5):
            queue.enqueue_nowait(artifact("t", str(number)))
        await queue.flush()
        assert not child.closed
        assert [envelope.sequence for envelope in await child.receive_batch()] == [1, 2, 3, 4, 5]
        assert store.commits == [(1, 2, 3, 4, 5)]


class RacedStore(InMemoryTaskStore):
    """Loses a commit with its connection; before the task is read again somebody else has written to it."""

    theirs = 0

    async def commit(self, changes: Sequence[TaskChange]) -> None:
        theirs, self.theirs = self.theirs, 0
        if not theirs:
            await super().commit(changes)
            return
        for number in range(theirs):
            stored = await self.get("t")
            assert stored is not None
            event = artifact("t", "theirs", artifact_id=f"their {number}")
            state = reduce(WorkingTask.of(stored.task), event)
            assert state is not None
            change = TaskChange(task_id="t", sequence=stored.sequence + 1, event=event, snapshot=state.task)
            await super().commit([change])
        raise TaskPersistenceError("the connection broke")


@pytest.mark.requirement("S4-STORE-FAILURE", "S1-NO-LOSS")
@pytest.mark.parametrize("ours", [1, 2])
@pytest.mark.parametrize("theirs", [1, 2])
@within(5)
async def test_another_writers_event_with_the_number_of_a_failed_commit_is_not_taken_for_ours(
    autojump_clock: object, ours: int, theirs: int
) -> None:
    store = RacedStore()
    async with open_queue_manager(store) as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        await queue.enqueue(status("t"))
        await queue.flush()
        assert len(await child.receive_batch()) == 1
        store.theirs = theirs
        for number in range(ours):
            queue.enqueue_nowait(artifact("t", "ours", artifact_id=f"our {number}"))
        with pytest.raises(InternalError) as failure:
            await child.receive()
        assert isinstance(failure.value.__cause__, TaskConflictError)
        with pytest.raises(TaskConflictError):
            await queue.flush()
        stored = await store.get("t")
        assert stored is not None
        ids = [entry.artifact_id for entry in stored.task.artifacts]
        assert ids == [f"their {number}" for number in range(theirs)] + [f"our {number}" for number in range(1, ours)]


@pytest.mark.requirement("S4-STORE-FAILURE", "S1-NO-LOSS")
@pytest.mark.parametrize("count", [1, 3])
@within(5)
async def test_a_conflict_ends_the_streams_because_another_writers_events_are_missing_in_them(
    autojump_clock: object, count: int
) -> None:
    store = InMemoryTaskStore()
    async with open_queue_manager(store) as here, open_queue_manager(store) as there:
        await here.enqueue("t", status("t"))
        await trio.testing.wait_all_tasks_blocked()
        child = await here.create_or_tap("t")
        queue = here.get("t")
        assert queue is not None
        await there.enqueue("t", artifact("t", "of the other process", artifact_id="other"))
        await trio.testing.wait_all_tasks_blocked()
        for number in range(count):
            queue.enqueue_nowait(artifact("t", str(number), artifact_id=str(number)))
        with pytest.raises(InternalError) as failure:
            await child.receive()
        assert isinstance(failure.value.__cause__, TaskConflictError)
        with pytest.raises(TaskConflictError):
            await queue.flush()
        async with here.subscribe("t") as fresh:
            (snapshot,) = await fresh.receive_batch()
            assert snapshot.sequence == 1 + count, "the other's event, and ours but the one that failed"
            await queue.enqueue(artifact("t", "more", artifact_id="more"))
            (envelope,) = await fresh.receive_batch()
            assert envelope.sequence == 2 + count, "it goes on from what is stored"
        stored = await store.get("t")
        assert stored is not None
        ids = [entry.artifact_id for entry in stored.task.artifacts]
        assert ids == ["other", *[str(number) for number in range(1, count)], "more"]


@pytest.mark.requirement("S4-STORE-FAILURE")
@within(5)
async def test_a_store_that_cannot_even_be_read_after_a_failed_commit_costs_the_event_only(
    autojump_clock: object,
) -> None:
    store = FlakyStore()
    async with open_queue_manager(store) as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(status("t"))
        await child.receive()
        store.refuse = lambda change: True
        store.unreadable = True
        await child.enqueue(artifact("t", "lost"))
        with pytest.raises(InternalError):
            await child.receive()
        store.refuse = None
        store.unreadable = False
        again = await manager.create_or_tap("t")
        await again.enqueue(artifact("t", "kept"))
        (envelope,) = await again.receive_batch()
        assert envelope.sequence == 2


@pytest.mark.requirement("S4-STORE-FAILURE", "D32", "S4-FINAL")
@within(5)
async def test_a_terminal_event_that_could_not_be_stored_ends_no_task(autojump_clock: object) -> None:
    store = FlakyStore(refuse=lambda change: True)
    async with open_queue_manager(store) as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(status("t", TaskState.COMPLETED))
        with pytest.raises(InternalError):
            await child.receive()
        store.refuse = None
        again = await manager.create_or_tap("t")
        assert not again.closed
        last = status("t", TaskState.COMPLETED)
        await again.enqueue(last)
        assert [event async for event in again] == [last]


@pytest.mark.requirement("S4-STORE-FAILURE")
@within(5)
async def test_a_failure_without_subscribers_is_kept_for_flush(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    store = FlakyStore(refuse=lambda change: True)
    async with open_queue_manager(store) as manager:
        await manager.enqueue("t", artifact("t"))
        queue = manager.get("t")
        assert queue is not None
        await trio.testing.wait_all_tasks_blocked()
        store.refuse = None
        await queue.enqueue(artifact("t"))
        with pytest.raises(TaskPersistenceError):
            await queue.flush()
        await queue.flush()
        assert queue.statistics().sequence == 1
    assert "could not be stored" in caplog.text


@pytest.mark.requirement("S4-STORE-FAILURE")
@within(5)
async def test_a_reader_with_a_full_backlog_gets_it_before_the_error(autojump_clock: object) -> None:
    store = FlakyStore(refuse=lambda change: change.sequence > 3)
    async with open_queue_manager(store, queue_size=3, lag_grace=2) as manager:
        child = await manager.create_or_tap("t")
        for number in range(4):
            await manager.enqueue("t", artifact("t", str(number)))
        await trio.testing.wait_all_tasks_blocked()
        assert child.close_reason is CloseReason.STORE_FAILURE
        for _ in range(3):
            await child.receive()
        with pytest.raises(InternalError):
            await child.receive()


@pytest.mark.requirement("S5-TAKEN-OVER")
@pytest.mark.parametrize("count", [1, 3])
@within(5)
async def test_a_task_that_another_process_has_taken_over_loses_its_queue_and_what_is_in_it(
    autojump_clock: object, count: int
) -> None:
    store = FlakyStore(error=TaskTakenOverError("by another process", task_id="t"))
    async with open_queue_manager(store) as manager:
        await manager.enqueue("t", status("t"))
        await trio.testing.wait_all_tasks_blocked()
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        # Only the first commit is refused: what comes behind it could be stored, and must not be.
        refusals = [True]
        store.refuse = lambda _change: bool(refusals and refusals.pop())
        for number in range(count):
            queue.enqueue_nowait(artifact("t", str(number), artifact_id=str(number)))
        with pytest.raises(InternalError) as failure:
            await child.receive()
        assert isinstance(failure.value.__cause__, TaskTakenOverError)
        assert child.close_reason is CloseReason.STORE_FAILURE
        with pytest.raises(TaskTakenOverError):
            await queue.flush()
        with pytest.raises(EventQueueClosedError):
            await queue.enqueue(artifact("t", "more"))
        assert manager.get("t") is None
        async with manager.subscribe("t") as fresh:
            (snapshot,) = await fresh.receive_batch()
            assert snapshot.sequence == 1
    stored = await store.get("t")
    assert stored is not None
    assert stored.sequence == 1
