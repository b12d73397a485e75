"""The manager: which queues live, and who gets a subscriber."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.abc import TaskStateProvider
from trio_a2a.errors import StoreError
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.streams import (
    EventQueueClosedError,
    NoTaskQueueError,
    SubscriberLaggedError,
    TaskIdMismatchError,
    open_queue_manager,
)
from trio_a2a.streams.hooks import NoOpHook
from trio_a2a.testing import FlakyStore, RecordingHook, SlowStore, artifact, message, status
from trio_a2a.types import TaskState

# ------------------------------------------------------------------------------------------------------------ opening


@pytest.mark.requirement("S4-OPEN")
@within(5)
async def test_the_defaults_are_those_of_the_design(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        assert isinstance(manager.store, InMemoryTaskStore)
        assert manager._provider is manager.store
        assert type(manager._hook) is NoOpHook
        assert manager._queue_size == 1000
        assert manager._lag_grace == 1.0
        assert manager._hook_timeout == 5.0
        assert manager._idle_timeout == 300.0


@pytest.mark.requirement("S4-OPEN", "B2")
@pytest.mark.parametrize(
    "options",
    [
        {"queue_size": 0},
        {"queue_size": -1},
        {"queue_size": 2.5},
        {"queue_size": True},
        {"lag_grace": -0.1},
        {"lag_grace": float("nan")},
        {"hook_timeout": 0},
        {"hook_timeout": -1},
        {"hook_timeout": float("nan")},
        {"idle_timeout": 0},
        {"idle_timeout": -5},
    ],
    ids=repr,
)
@within(5)
async def test_a_size_or_time_out_that_is_not_positive_is_a_value_error_that_names_it(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        async with open_queue_manager(**options):
            raise AssertionError("it was opened")


class SyncHook(NoOpHook):
    def on_event(self, *args: object) -> None:  # type: ignore[override]
        pass


class Lacking:
    async def is_task_active(self, task_id: str) -> bool:
        return True


class SyncProvider(Lacking):
    def is_task_finalized(self, task_id: str) -> bool:
        return True


class NoStore:
    async def get(self, task_id: str) -> None: ...

    async def commit(self, changes: object) -> None: ...

    async def delete(self, task_id: str) -> None: ...


@pytest.mark.requirement("S4-HOOK-TYPES")
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"hook": SyncHook()}, "on_event"),
        ({"hook": object()}, "on_subscribe"),
        ({"state_provider": Lacking()}, "is_task_finalized"),
        ({"state_provider": SyncProvider()}, "is_task_finalized"),
        ({"store": NoStore()}, "list"),
    ],
)
@within(5)
async def test_what_lacks_a_coroutine_function_is_a_type_error_that_names_the_method(
    options: dict[str, Any], names: str
) -> None:
    with pytest.raises(TypeError, match=names):
        async with open_queue_manager(**options):
            raise AssertionError("it was opened")


@pytest.mark.requirement("S4-OPEN", "B20")
@within(5)
async def test_a_store_that_is_no_provider_leaves_the_manager_without_one(autojump_clock: object) -> None:
    inner = InMemoryTaskStore()

    class PlainStore:
        get = staticmethod(inner.get)
        commit = staticmethod(inner.commit)
        delete = staticmethod(inner.delete)
        list = staticmethod(inner.list)

    store = PlainStore()
    assert not isinstance(store, TaskStateProvider)
    async with open_queue_manager(store) as manager:
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.testing.wait_all_tasks_blocked()
        assert manager.get("t") is None, "the queue of a finished task closes, provider or not"
        await manager.enqueue("t", artifact("t", "late"))
        await trio.testing.wait_all_tasks_blocked()
        assert manager.statistics().late_events_dropped == 1


@pytest.mark.requirement("S4-EXCEPTIONS")
def test_the_exceptions_are_of_the_families_that_callers_catch() -> None:
    assert issubclass(EventQueueClosedError, trio.EndOfChannel)
    assert issubclass(SubscriberLaggedError, trio.BrokenResourceError)
    assert issubclass(NoTaskQueueError, LookupError)
    assert issubclass(TaskIdMismatchError, ValueError)


# ----------------------------------------------------------------------------------------------------- create or tap


@pytest.mark.requirement("S4-CREATE-OR-TAP", "B42", "B45")
@within(5)
async def test_create_or_tap_opens_one_queue_and_always_returns_a_new_child_without_a_snapshot(
    autojump_clock: object,
) -> None:
    async with open_queue_manager() as manager:
        first = await manager.create_or_tap("t")
        queue = manager.get("t")
        await manager.enqueue("t", artifact("t", "one"))
        assert queue is not None
        await queue.flush()
        second = await manager.create_or_tap("t")
        assert second is not first
        assert manager.get("t") is queue
        assert manager.statistics().queues == 1
        assert first.statistics().backlog == 1
        assert second.statistics().backlog == 0


@pytest.mark.requirement("S4-CREATE-OR-TAP", "B42")
@within(60)
async def test_concurrent_callers_share_one_queue_that_is_loaded_once(autojump_clock: object) -> None:
    store = SlowStore(get_seconds={"t": 1})
    async with open_queue_manager(store) as manager:
        children = []

        async def tap() -> None:
            children.append(await manager.create_or_tap("t"))

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(tap)
        assert trio.current_time() == 1
        assert len(set(children)) == 20
        assert manager.active_subscriber_count("t") == 20


@pytest.mark.requirement("S4-TAP", "B41")
@within(5)
async def test_tap_returns_none_for_a_task_that_is_neither_live_nor_stored_as_unfinished(
    autojump_clock: object,
) -> None:
    async with open_queue_manager() as manager:
        assert await manager.tap("unknown") is None
        assert manager.get("unknown") is None, "asking makes no queue"
        await manager.enqueue("done", status("done", TaskState.COMPLETED))
        await trio.testing.wait_all_tasks_blocked()
        assert await manager.tap("done") is None
        live = await manager.create_or_tap("live")
        other = await manager.tap("live")
        assert other is not None
        assert other is not live


@pytest.mark.requirement("S4-TAP", "S4-IDLE")
@within(5)
async def test_tap_brings_a_stored_unfinished_task_back(autojump_clock: object) -> None:
    store = InMemoryTaskStore()
    async with open_queue_manager(store) as manager:
        await manager.enqueue("t", status("t", TaskState.INPUT_REQUIRED))
    async with open_queue_manager(store) as manager:
        assert manager.get("t") is None
        child = await manager.tap("t")
        assert child is not None
        queue = manager.get("t")
        assert queue is not None
        assert queue.statistics().sequence == 1
        update = artifact("t", "more")
        await child.enqueue(update)
        assert await child.receive() is update


@pytest.mark.requirement("S4-CREATE-OR-TAP")
@within(60)
async def test_a_store_that_cannot_be_read_is_told_to_every_caller_and_the_next_one_tries_again(
    autojump_clock: object,
) -> None:
    store = FlakyStore()
    async with open_queue_manager(store) as manager:
        store.unreadable = True
        for opening in (manager.create_or_tap, manager.tap):
            with pytest.raises(StoreError):
                await opening("t")
        with pytest.raises(StoreError):
            await manager.enqueue("t", artifact("t"))
        with pytest.raises(StoreError):
            async with manager.subscribe("t"):
                raise AssertionError("it was entered")
        assert manager.statistics().queues == 0
        store.unreadable = False
        await manager.create_or_tap("t")


# -------------------------------------------------------------------------------------------------------- other calls


@pytest.mark.requirement("S4-GET", "B41")
@within(5)
async def test_get_returns_the_live_queue_only(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        assert manager.get("t") is None
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None
        assert queue.task_id == "t"
        await manager.close("t")
        assert manager.get("t") is None
        assert child.closed


@pytest.mark.requirement("S4-CLOSE", "B41")
@within(5)
async def test_closing_a_task_without_a_queue_is_an_error_that_names_it(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        with pytest.raises(NoTaskQueueError, match="'t'"):
            await manager.close("t")
        await manager.create_or_tap("t")
        await manager.close("t")
        with pytest.raises(NoTaskQueueError):
            await manager.close("t")


@pytest.mark.requirement("S4-COUNT", "B39", "B44")
@within(5)
async def test_the_subscriber_count_is_minus_one_without_a_live_queue(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        assert manager.active_subscriber_count("t") == -1
        child = await manager.create_or_tap("t")
        assert manager.active_subscriber_count("t") == 1
        await manager.create_or_tap("t")
        assert manager.active_subscriber_count("t") == 2
        await child.aclose()
        assert manager.active_subscriber_count("t") == 1
        await manager.close("t")
        assert manager.active_subscriber_count("t") == -1


@pytest.mark.requirement("S4-MANAGER-ENQUEUE", "S4-LATE-UNKNOWN")
@within(5)
async def test_an_event_from_outside_opens_the_queue_at_need_and_makes_the_task(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        await manager.enqueue("t", artifact("t", "one"))
        queue = manager.get("t")
        assert queue is not None
        await queue.flush()
        stored = await manager.store.get("t")
        assert stored is not None
        assert stored.sequence == 1
        assert stored.task.status.state is TaskState.SUBMITTED
        assert stored.task.artifacts[0].text() == "one"


@pytest.mark.requirement("S4-MANAGER-ENQUEUE", "S4-FRESH")
@within(60)
async def test_an_event_from_outside_that_waits_for_room_in_a_queue_that_closes_goes_to_a_fresh_one(
    autojump_clock: object,
) -> None:
    async with open_queue_manager(SlowStore(commit_seconds={"t": 1}), queue_size=1) as manager:
        await manager.create_or_tap("t")
        await manager.enqueue("t", artifact("t", "one", artifact_id="1"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(manager.enqueue, "t", artifact("t", "two", artifact_id="2"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(manager.close, "t")
        queue = manager.get("t")
        assert queue is not None
        await queue.flush()
        stored = await manager.store.get("t")
        assert stored is not None
        assert [entry.text() for entry in stored.task.artifacts] == ["one", "two"]
        assert stored.sequence == 2


@pytest.mark.requirement("S4-STATISTICS")
@within(60)
async def test_the_managers_statistics_include_queues_that_are_gone(autojump_clock: object) -> None:
    class Raising(NoOpHook):
        async def on_subscribe(self, *args: object) -> None:
            raise ValueError("on purpose")

    async with open_queue_manager(hook=Raising()) as manager:
        for task_id in "abc":
            await manager.create_or_tap(task_id)
        seen = manager.statistics()
        assert (seen.queues, seen.subscribers, seen.hook_errors) == (3, 3, 3)
        assert "3 queues" in repr(manager)
        for task_id in "abc":
            await manager.close(task_id)
        seen = manager.statistics()
        assert (seen.queues, seen.subscribers, seen.hook_errors, seen.hook_timeouts) == (0, 0, 3, 0)


@pytest.mark.requirement("S7-CHECKPOINTS")
@within(5)
async def test_every_async_method_of_the_manager_is_a_checkpoint(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        for _ in range(2):
            with trio.testing.assert_checkpoints():
                await manager.create_or_tap("t")
            with trio.testing.assert_checkpoints():
                await manager.tap("t")
            with trio.testing.assert_checkpoints():
                await manager.enqueue("t", artifact("t"))
            with trio.testing.assert_checkpoints():
                async with manager.subscribe("t"):
                    pass
        with trio.testing.assert_checkpoints():
            await manager.tap("unknown")
        with trio.testing.assert_checkpoints():
            await manager.close("t")


# ------------------------------------------------------------------------------------------------- lives of the queues


@pytest.mark.requirement("S4-LAST-CHILD", "B25", "B38")
@within(5)
async def test_the_queue_of_an_unfinished_task_stays_when_its_last_child_is_gone(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(status("t"))
        queue = manager.get("t")
        for immediate in (False, True):
            await child.aclose(immediate=immediate)
            await trio.testing.wait_all_tasks_blocked()
            assert manager.get("t") is queue
            child = await manager.create_or_tap("t")


@pytest.mark.requirement("S4-LAST-CHILD", "B25", "B43", "D6")
@within(5)
async def test_the_queue_of_a_finished_task_closes_with_its_last_child(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        await manager.enqueue("t", status("t", TaskState.COMPLETED))
        await trio.testing.wait_all_tasks_blocked()
        one, two = await manager.create_or_tap("t"), await manager.create_or_tap("t")
        await one.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert manager.active_subscriber_count("t") == 1
        await two.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert manager.get("t") is None


@pytest.mark.requirement("S4-LAST-CHILD", "D6")
@within(5)
async def test_the_queue_of_a_finished_task_without_subscribers_closes_when_its_events_are_through(
    autojump_clock: object,
) -> None:
    async with open_queue_manager() as manager:
        before = trio.lowlevel.current_statistics().tasks_living
        for number in range(50):
            await manager.enqueue(str(number), status(str(number)))
            await manager.enqueue(str(number), status(str(number), TaskState.COMPLETED))
        await trio.testing.wait_all_tasks_blocked()
        assert manager.statistics().queues == 0
        assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.requirement("S4-LAST-CHILD", "B20", "B25")
@within(5)
async def test_a_state_provider_of_ones_own_decides_whether_the_queue_closes(autojump_clock: object) -> None:
    class Provider(TaskStateProvider):
        finalized = False

        async def is_task_active(self, task_id: str) -> bool:
            await trio.lowlevel.checkpoint()
            return True

        async def is_task_finalized(self, task_id: str) -> bool:
            await trio.lowlevel.checkpoint()
            return self.finalized

    provider = Provider()
    async with open_queue_manager(state_provider=provider) as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(status("t", TaskState.COMPLETED))
        await child.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert manager.get("t") is not None, "the provider says that it is not final"
        provider.finalized = True
        child = await manager.create_or_tap("t")
        await child.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert manager.get("t") is None


@pytest.mark.requirement("S4-LAST-CHILD")
@within(600)
async def test_a_provider_that_fails_or_is_slow_costs_only_its_own_task(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Provider(TaskStateProvider):
        async def is_task_active(self, task_id: str) -> bool:
            raise RuntimeError("no answer")

        async def is_task_finalized(self, task_id: str) -> bool:
            if task_id == "slow":
                await trio.sleep(3)
                return True
            raise RuntimeError("no answer")

    async with open_queue_manager(state_provider=Provider()) as manager:
        for task_id in ("slow", "failing"):
            child = await manager.create_or_tap(task_id)
            await child.enqueue(status(task_id, TaskState.COMPLETED))
            await child.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == 0
        assert manager.get("failing") is not None, "a provider that fails keeps the queue open"
        await manager.enqueue("failing", artifact("failing", "late"))
        await trio.testing.wait_all_tasks_blocked()
        assert manager.statistics().late_events_dropped == 1
        await trio.sleep(4)
        assert manager.get("slow") is None
    assert "could not say" in caplog.text


@pytest.mark.requirement("S4-LAST-CHILD")
@within(60)
async def test_what_a_slow_provider_says_counts_only_if_nobody_came_meanwhile(autojump_clock: object) -> None:
    class Provider(TaskStateProvider):
        async def is_task_active(self, task_id: str) -> bool:
            return True

        async def is_task_finalized(self, task_id: str) -> bool:
            await trio.sleep(3)
            return True

    async with open_queue_manager(state_provider=Provider()) as manager:
        child = await manager.create_or_tap("t")
        await child.enqueue(status("t", TaskState.COMPLETED))
        await child.aclose()
        await trio.sleep(1)
        queue = manager.get("t")
        other = await manager.create_or_tap("t")
        await trio.sleep(5)
        assert manager.get("t") is queue
        assert not other.closed
        await other.aclose()
        await trio.sleep(4)
        assert manager.get("t") is None


@pytest.mark.requirement("S4-LAST-CHILD", "D6")
@within(5)
async def test_the_queue_of_a_direct_reply_closes_when_its_run_and_its_reader_are_gone(autojump_clock: object) -> None:
    """There is no task that anybody could come back to."""
    async with open_queue_manager() as manager:
        child = await manager.create_or_tap("t")
        queue = manager.get("t")
        assert queue is not None

        async def agent() -> None:
            await queue.enqueue(message("hello"))

        queue._start_run(agent)
        await child.receive()
        await trio.testing.wait_all_tasks_blocked()
        assert manager.get("t") is queue
        await child.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert manager.get("t") is None


@pytest.mark.requirement("S4-FRESH", "B42")
@within(5)
async def test_a_closed_queue_leaves_the_map_at_once_and_a_fresh_one_binds_the_hook_anew(
    autojump_clock: object,
) -> None:
    hook = RecordingHook()
    async with open_queue_manager(hook=hook) as manager:
        old = await manager.create_or_tap("t")
        queue = manager.get("t")
        await old.enqueue(status("t"))
        await manager.close("t")
        for opening in (manager.create_or_tap, manager.tap):
            child = await opening("t")
            assert child is not None
            assert not child.closed
            fresh = manager.get("t")
            assert fresh is not None
            assert fresh is not queue
            assert fresh.statistics().sequence == 1
            await manager.close("t")
        assert len(hook.of("on_subscribe")) == len(hook.of("on_unsubscribe")) == 3


@within(5)
async def test_what_is_no_task_id_is_refused(autojump_clock: object) -> None:
    async with open_queue_manager() as manager:
        for wrong in (None, 5, b"t"):
            with pytest.raises(TypeError, match="a task id is a str"):
                await manager.create_or_tap(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="not empty"):
            await manager.tap("")
        for after in (True, 1.5, "x"):
            with pytest.raises(TypeError, match="number of an event"):
                manager.subscribe("t", after=after)  # type: ignore[arg-type]


def test_a_class_in_place_of_an_object_is_refused_when_it_is_given() -> None:
    with pytest.raises(TypeError, match=r"NoOpHook is a class; give an object, NoOpHook\(\.\.\.\)"):
        open_queue_manager(hook=NoOpHook)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="InMemoryTaskStore is a class"):
        open_queue_manager(InMemoryTaskStore)  # type: ignore[arg-type]


@within(5)
async def test_whatever_a_store_raises_when_it_is_read_is_a_store_error(autojump_clock: object) -> None:
    store = FlakyStore(error=OSError("secret"))
    store.unreadable = True
    async with open_queue_manager(store) as manager:
        for call in (manager.create_or_tap, manager.tap):
            with pytest.raises(StoreError) as caught:
                await call("t")
            assert isinstance(caught.value.__cause__, OSError)
            assert "secret" not in str(caught.value)
