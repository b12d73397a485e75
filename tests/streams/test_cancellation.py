"""Cancelling at every await of the core: nothing is left, nothing is half done.

A scenario that uses the whole core is run again and again; in run n a cancellation, or an error, comes at its n-th
scheduler step. Afterwards no task lives, no channel is open, every `on_subscribe` has had its `on_unsubscribe`, and
the store holds a gapless log.
"""

import gc
import warnings
from collections.abc import Awaitable, Callable, Iterable

import pytest
import trio
import trio.abc
import trio.testing

from tests.deadline import within
from trio_a2a.abc import CloseReason, StreamCloseHandle, StreamEvent
from trio_a2a.errors import A2AError
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.streams import (
    ChildQueue,
    EventQueueClosedError,
    MainQueue,
    QueueManager,
    SubscriberLaggedError,
    open_queue_manager,
)
from trio_a2a.streams.hooks import CallbackHook
from trio_a2a.testing import RecordingHook, SlowStore, artifact, status
from trio_a2a.types import TaskState


class AtStep(trio.abc.Instrument):
    """Does something at the n-th scheduler step."""

    def __init__(self, step: int, act: Callable[[], object]) -> None:
        self.left = step
        self.act = act

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()


class Watch:
    """Knows every queue and child that there ever was."""

    def __init__(self) -> None:
        self.hook = RecordingHook(CallbackHook(on_subscribe=self._seen, on_unsubscribe=_busy, on_event=_busy_event))
        self.queues: set[MainQueue] = set()
        self.children: set[ChildQueue] = set()
        self.live: set[int] = set()

    async def _seen(self, task_id: str, handle: StreamCloseHandle) -> None:
        queue = handle._queue  # type: ignore[attr-defined]
        self.queues.add(queue)
        self.children.update(queue._children.values())
        await trio.sleep(0.1)

    def check(self, manager: QueueManager) -> None:
        subscribed = [call.subscriber.id for call in self.hook.of("on_subscribe") if call.subscriber]
        unsubscribed = [call.subscriber.id for call in self.hook.of("on_unsubscribe") if call.subscriber]
        assert sorted(subscribed) == sorted(unsubscribed), "one on_unsubscribe for each on_subscribe"
        assert manager._queues == {}
        assert manager._ending == set()
        assert manager._leaving == {}
        assert manager._idle == {}
        seen = manager.statistics()
        assert (seen.queues, seen.subscribers, seen.hook_errors) == (0, 0, 0)
        for queue in self.queues:
            assert queue._inbox.closed
            assert not queue._inbox
            assert queue._nursery is None
            assert queue._gone.is_set()
            assert not queue._marks
            assert not queue._runs
            assert not queue._scheduled
        for child in self.children:
            assert child.closed
            assert child._send.statistics().open_send_channels == 0


async def _busy(task_id: str, handle: StreamCloseHandle) -> None:
    await trio.sleep(0.1)


async def _busy_event(task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
    if isinstance(event, type(status("t"))):
        handle.start_soon(trio.sleep, 0.3)
    await trio.lowlevel.checkpoint()


async def scenario(manager: QueueManager) -> None:
    """Everything that the core can do, several things at a time."""

    async def produce() -> None:
        await manager.enqueue("t", status("t", text="working"))
        queue = manager.get("t")
        if queue is None:
            return  # everything has just been cancelled, and this task has not come to a checkpoint since
        for number in range(12):
            await queue.enqueue(artifact("t", str(number), append=number > 0))
        await queue.flush()
        await trio.sleep(0.5)
        await queue.enqueue(status("t", TaskState.COMPLETED))
        await queue.flush()

    async def read(*, snapshot: bool = True, after: int | None = None, pause: float = 0.0) -> None:
        async with manager.subscribe("t", snapshot=snapshot, after=after) as child:
            try:
                while True:
                    await child.receive_batch()
                    await trio.sleep(pause)
            except (EventQueueClosedError, SubscriberLaggedError):
                pass

    async def come_and_go() -> None:
        async with await manager.create_or_tap("other") as child:
            await child.enqueue(artifact("other"))
            await child.receive()
        found = await manager.tap("other")
        if found is not None:
            await found.aclose(immediate=True)
        await manager.close("other")
        async with manager.subscribe("other"):
            pass

    async def run_an_agent() -> None:
        child = await manager.create_or_tap("run")
        queue = child._main

        async def agent() -> None:
            try:
                await queue.enqueue(status("run"))
                await trio.sleep(0.4)
                await queue.enqueue(status("run", TaskState.COMPLETED))
            except EventQueueClosedError:
                pass

        queue._start_run(agent)
        async for _ in child:
            pass
        await child.aclose()

    async with trio.open_nursery() as nursery:
        for work in (
            produce,
            read,
            lambda: read(after=0, pause=0.2),
            lambda: read(snapshot=False, pause=3),
            come_and_go,
            run_an_agent,
        ):
            nursery.start_soon(work)


def _new_store() -> SlowStore:
    return SlowStore(commit_seconds={"t": 0.2, "other": 0.1}, get_seconds={"t": 0.1, "run": 0.1})


async def _whole(step: int, act: Callable[[trio.CancelScope], object]) -> bool:
    """Run the scenario with something at a step; tell whether it came to that."""
    watch, store = Watch(), _new_store()
    before = trio.lowlevel.current_statistics().tasks_living
    scope = trio.CancelScope()
    instrument = AtStep(step, lambda: act(scope))
    with trio.fail_after(100):
        trio.lowlevel.add_instrument(instrument)
        with scope:
            async with open_queue_manager(
                store, hook=watch.hook, queue_size=4, lag_grace=1, hook_timeout=2, idle_timeout=1
            ) as manager:
                await scenario(manager)
                # Something to do for the shutdown, which is cancelled at each of its steps, too.
                watch.children.add(await manager.create_or_tap("other"))
                await manager.enqueue("other", artifact("other", "last"))
        trio.lowlevel.remove_instrument(instrument)
        assert trio.lowlevel.current_statistics().tasks_living == before
        watch.check(manager)
        await _check_logs(store.inner, ("t", "other", "run"))
    return instrument.left <= 0


async def _check_logs(store: InMemoryTaskStore, task_ids: Iterable[str]) -> None:
    for task_id in task_ids:
        stored = await store.get(task_id)
        numbers = [envelope.sequence for envelope in await store.events(task_id, 0)]
        assert numbers == list(range(1, (stored.sequence if stored is not None else 0) + 1))


def _every_step(act: Callable[[trio.CancelScope], object]) -> int:
    step = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while True:
            step += 1
            clock = trio.testing.MockClock(autojump_threshold=0)
            if not trio.run(_whole, step, act, clock=clock):
                return step
            if step % 100 == 0:
                gc.collect()


@pytest.mark.requirement("I2-CANCEL-EVERYWHERE", "S4-CANCEL-MANAGER", "S1-SCOPE", "S4-UNSUBSCRIBE", "D7")
def test_cancelling_the_manager_at_each_step_leaves_no_task_and_no_open_channel() -> None:
    steps = _every_step(lambda scope: scope.cancel())
    assert steps > 150, "the scenario is long enough to mean something"


@pytest.mark.requirement("I2-CANCEL-EVERYWHERE", "S4-CANCEL-READER", "S4-SUBSCRIBE-CANCELLED", "S1-SCOPE")
def test_cancelling_all_callers_at_each_step_leaves_a_manager_that_goes_on() -> None:
    async def one(step: int) -> bool:
        watch, store = Watch(), _new_store()
        scope = trio.CancelScope()
        instrument = AtStep(step, scope.cancel)
        with trio.fail_after(100):
            async with open_queue_manager(
                store, hook=watch.hook, queue_size=4, lag_grace=1, hook_timeout=2, idle_timeout=1
            ) as manager:
                before = trio.lowlevel.current_statistics().tasks_living
                trio.lowlevel.add_instrument(instrument)
                with scope:
                    await scenario(manager)
                trio.lowlevel.remove_instrument(instrument)
                assert manager.statistics().subscribers <= 1, "of those that own their child themselves"
                for child in watch.children:
                    await child.aclose()
                async with manager.subscribe("new") as child:
                    event = artifact("new")
                    await child.enqueue(event)
                    assert await child.receive() is event
                await trio.sleep(10)
                assert manager.statistics().queues == 0, "all are finished, or retired"
                assert trio.lowlevel.current_statistics().tasks_living == before
            watch.check(manager)
            await _check_logs(store.inner, ("t", "other", "run"))
        return instrument.left <= 0

    step = 0
    while True:
        step += 1
        if not trio.run(one, step, clock=trio.testing.MockClock(autojump_threshold=0)):
            break
    assert step > 150


@pytest.mark.requirement("I2-CANCEL-EVERYWHERE", "S4-CANCEL-MANAGER", "S4-SHUTDOWN")
@pytest.mark.parametrize("seconds", [tenth / 20 for tenth in range(0, 90, 3)])
@within(100)
async def test_cancelling_the_manager_at_any_time_leaves_nothing(autojump_clock: object, seconds: float) -> None:
    watch, store = Watch(), _new_store()
    before = trio.lowlevel.current_statistics().tasks_living
    with trio.move_on_after(seconds) as scope:
        async with open_queue_manager(
            store, hook=watch.hook, queue_size=4, lag_grace=1, hook_timeout=2, idle_timeout=1
        ) as manager:
            await scenario(manager)
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() <= seconds + 5 + 2, "five seconds for the store, one hook_timeout for the closing"
    assert trio.lowlevel.current_statistics().tasks_living == before
    watch.check(manager)
    await _check_logs(store.inner, ("t", "other", "run"))


@pytest.mark.requirement("S4-CANCEL-READER", "S1-ISOLATION", "B48", "B59", "D7", "I2-ONCE")
def test_cancelling_a_reader_at_each_step_touches_neither_the_agent_nor_another_reader() -> None:
    async def one(step: int) -> bool:
        watch = Watch()
        store = SlowStore(commit_seconds={"t": 0.1})
        victim = trio.CancelScope()
        got: list[int] = []
        finished = trio.Event()

        async def agent() -> None:
            for number in range(6):
                await queue.enqueue(artifact("t", str(number), append=number > 0))
                await trio.sleep(0.05)
            await queue.enqueue(status("t", TaskState.COMPLETED))
            finished.set()

        async def read(scope: trio.CancelScope, numbers: list[int], *, record: bool) -> None:
            with scope:
                async with manager.subscribe("t") as child:
                    try:
                        while True:
                            batch = await child.receive_batch()
                            if record:
                                numbers += [envelope.sequence for envelope in batch]
                    except EventQueueClosedError:
                        pass

        async with open_queue_manager(store, hook=watch.hook) as manager, trio.open_nursery() as nursery:
            keeper = await manager.create_or_tap("t")
            queue = keeper._main
            queue._start_run(agent)
            instrument = AtStep(step, victim.cancel)
            trio.lowlevel.add_instrument(instrument)
            nursery.start_soon(lambda: read(victim, [], record=False))
            nursery.start_soon(lambda: read(trio.CancelScope(), got, record=True))
            await finished.wait()
            await queue.flush()
            trio.lowlevel.remove_instrument(instrument)
            assert len([event async for event in keeper]) == 7
        assert got == sorted(set(got))
        assert got[-1] == 7
        stored = await store.get("t")
        assert stored is not None
        assert stored.sequence == 7
        watch.check(manager)
        return instrument.left <= 0

    step = 0
    while True:
        step += 1
        if not trio.run(one, step, clock=trio.testing.MockClock(autojump_threshold=0)):
            break
    assert step > 50


@pytest.mark.requirement("S4-CANCEL-COMMIT", "S4-CANCEL-MANAGER")
@within(60)
async def test_a_commit_that_has_begun_is_finished_when_the_manager_is_cancelled(autojump_clock: object) -> None:
    store = SlowStore(commit_seconds={"t": 3})
    with trio.CancelScope() as scope:
        async with open_queue_manager(store) as manager:
            child = await manager.create_or_tap("t")
            await child.enqueue(artifact("t"))
            await trio.sleep(1)
            scope.cancel()
            await trio.sleep_forever()
    assert trio.current_time() == 3
    stored = await store.inner.get("t")
    assert stored is not None
    assert stored.sequence == 1
    assert child.close_reason is CloseReason.SHUTDOWN


@pytest.mark.requirement("S4-CANCEL-COMMIT", "S4-CANCEL-MANAGER")
@within(60)
async def test_a_commit_that_takes_too_long_is_given_up_five_seconds_after_the_cancellation(
    autojump_clock: object,
) -> None:
    store = SlowStore(commit_seconds={"t": 100})
    with trio.CancelScope() as scope:
        async with open_queue_manager(store) as manager:
            child = await manager.create_or_tap("t")
            await child.enqueue(artifact("t"))
            await trio.sleep(1)
            scope.cancel()
            await trio.sleep_forever()
    assert trio.current_time() == 6
    assert await store.inner.get("t") is None
    assert child.closed


@pytest.mark.requirement("S4-CANCEL-MANAGER", "S4-SHUTDOWN-MISUSE")
@within(60)
async def test_whoever_shields_itself_in_a_cancelled_manager_is_told_that_nothing_can_be_opened_any_more(
    autojump_clock: object,
) -> None:
    told = []
    with trio.CancelScope() as scope:
        async with open_queue_manager() as manager:
            child = await manager.create_or_tap("t")
            scope.cancel()
            with trio.move_on_after(10, shield=True):
                await trio.sleep(1)
                for opening in (manager.create_or_tap, manager.tap, manager.close):
                    with pytest.raises(RuntimeError, match="being cancelled"):
                        await opening("other")
                    told.append(opening)
                with pytest.raises(EventQueueClosedError):
                    await child.enqueue(artifact("t"))
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert len(told) == 3
    assert trio.current_time() == 1


@pytest.mark.requirement("S4-MAIN-ENQUEUE", "S4-CANCEL-READER")
def test_cancelling_a_producer_at_each_step_enqueues_an_event_whole_or_not_at_all() -> None:
    async def one(step: int) -> bool:
        store = SlowStore(commit_seconds={"t": 0.1})
        scope = trio.CancelScope()
        accepted = 0
        async with open_queue_manager(store, queue_size=2, lag_grace=50) as manager:
            child = await manager.create_or_tap("t")
            queue = child._main
            instrument = AtStep(step, scope.cancel)
            trio.lowlevel.add_instrument(instrument)
            with scope:
                for number in range(8):
                    await queue.enqueue(artifact("t", str(number), append=number > 0))
                    accepted += 1
                    if child.statistics().backlog:
                        await child.receive_batch()
            trio.lowlevel.remove_instrument(instrument)
            await child.aclose()
            await queue.flush()
            stored = await store.get("t")
            assert (stored.sequence if stored is not None else 0) in {accepted, accepted + 1} - {9}
            # A put that was cancelled after it was accepted would show here as a count that does not go back to 0.
            assert queue.statistics().in_flight == 0
            for number in range(2):
                queue.enqueue_nowait(status("t", text=str(number)))
        return instrument.left <= 0

    step = 0
    while True:
        step += 1
        if not trio.run(one, step, clock=trio.testing.MockClock(autojump_threshold=0)):
            break
    assert step > 20


@pytest.mark.requirement("S4-UNSUBSCRIBE", "I2-ONCE")
def test_closing_while_being_cancelled_at_each_step_unsubscribes_once() -> None:
    async def one(step: int, close: Callable[[QueueManager, ChildQueue], Awaitable[None]]) -> bool:
        watch = Watch()
        scope = trio.CancelScope()
        async with open_queue_manager(hook=watch.hook) as manager:
            child = await manager.create_or_tap("t")
            instrument = AtStep(step, scope.cancel)
            trio.lowlevel.add_instrument(instrument)
            with scope:
                await close(manager, child)
            trio.lowlevel.remove_instrument(instrument)
            assert child.closed
            assert manager.statistics().subscribers == 0
        watch.check(manager)
        return instrument.left <= 0

    async def aclose(manager: QueueManager, child: ChildQueue) -> None:
        await child.aclose()

    async def close(manager: QueueManager, child: ChildQueue) -> None:
        await manager.close("t")
        assert child.closed

    for way in (aclose,):
        step = 0
        while True:
            step += 1
            if not trio.run(one, step, way, clock=trio.testing.MockClock(autojump_threshold=0)):
                break
