"""Many tasks, readers and accidents at once, drawn from a seed; what every reader saw is checked event by event."""

import random
from contextlib import suppress

import pytest
import trio
import trio.testing

from trio_a2a.abc import StreamCloseHandle, StreamEvent, TaskChange
from trio_a2a.errors import A2AError, InternalError, StoreError
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.streams import (
    EventQueueClosedError,
    NoTaskQueueError,
    QueueManager,
    SubscriberLaggedError,
    open_queue_manager,
)
from trio_a2a.streams.hooks import NoOpHook
from trio_a2a.testing import FlakyStore, RecordingHook, artifact, status
from trio_a2a.types import Task, TaskState

TASKS = ("a", "b", "c")
EVENTS = 200


class Accidents(NoOpHook):
    """Raises, hangs, closes and aborts now and then."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    async def _maybe(self, handle: StreamCloseHandle, *, closing: bool) -> None:
        chance = self._rng.random()
        if chance < 0.02:
            raise ValueError("an accident")
        if chance < 0.03:
            await trio.sleep_forever()
        if chance < 0.08:
            await trio.sleep(self._rng.random())
        elif chance < 0.1 and closing:
            await handle.close_streams()
        elif chance < 0.11 and closing:
            await handle.abort_streams()
        elif chance < 0.12:
            handle.start_soon(handle.close_streams)

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        await self._maybe(handle, closing=True)

    async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        await self._maybe(handle, closing=True)

    async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        await self._maybe(handle, closing=False)


class Reader:
    """Comes back whenever its stream ends, and checks that it has missed nothing and got nothing twice."""

    def __init__(self, manager: QueueManager, task_id: str, rng: random.Random) -> None:
        self.manager = manager
        self.task_id = task_id
        self.rng = rng
        self.last = 0

    async def run(self) -> None:
        while True:
            with (
                trio.move_on_after(self.rng.expovariate(0.5)),
                suppress(EventQueueClosedError, SubscriberLaggedError, InternalError, StoreError),
            ):
                await self.read_once()
            stored = await self.manager.store.get(self.task_id)
            if stored is not None and stored.task.status.state.is_final and self.last >= stored.sequence:
                return
            await trio.sleep(self.rng.random())

    async def read_once(self) -> None:
        resume = self.rng.random() < 0.5
        async with self.manager.subscribe(self.task_id, after=self.last if resume else None) as child:
            first = True
            while True:
                stored = await self.manager.store.get(self.task_id)
                if stored is not None and stored.task.status.state.is_final and self.last >= stored.sequence:
                    return  # nothing more will come
                for envelope in await child.receive_batch(self.rng.choice([1, 3, 256])):
                    if isinstance(envelope.event, Task):
                        assert first, "a snapshot is the first of a stream"
                        assert envelope.sequence >= self.last
                        assert _count(envelope.event) == envelope.sequence, "the snapshot is the task after that event"
                    elif first and not resume:
                        assert envelope.sequence == 1, "without a snapshot the task was not stored"
                    else:
                        assert envelope.sequence == self.last + 1, "no event is lost, none comes twice"
                    self.last = envelope.sequence
                    first = False
                if self.rng.random() < 0.3:
                    await trio.sleep(self.rng.random() / 4)


def _count(task: Task) -> int:
    """How many events a task of this test has had: each adds an artifact or a key of the metadata."""
    return len(task.metadata or {}) + len(task.artifacts)


async def produce(manager: QueueManager, task_id: str, rng: random.Random) -> None:
    for number in range(EVENTS):
        if rng.random() < 0.3:
            await manager.enqueue(task_id, status(task_id, text="step", metadata={f"step {number}": number}))
        else:
            await manager.enqueue(task_id, artifact(task_id, artifact_id=str(number)))
        if rng.random() < 0.3:
            await trio.sleep(rng.random() / 5)
    # A store failure, or a queue that is closed, may lose the end as well: it is reported until it is stored.
    for number in range(EVENTS):
        await manager.enqueue(task_id, status(task_id, TaskState.COMPLETED, metadata={f"end {number}": number}))
        await trio.sleep(5)
        stored = await manager.store.get(task_id)
        if stored is not None and stored.task.status.state.is_final:
            return


@pytest.mark.requirement("S1-NO-LOSS", "S1-ISOLATION", "S4-UNSUBSCRIBE", "I2-ONCE", "S4-AFTER", "S4-FRESH")
@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_every_reader_sees_every_event_once(seed: int) -> None:
    rng = random.Random(seed)
    hook = RecordingHook(Accidents(rng))
    store = FlakyStore(InMemoryTaskStore(), refuse=lambda change: _refused(change, rng))

    async def accidents(manager: QueueManager) -> None:
        while True:
            await trio.sleep(rng.expovariate(0.3))
            with suppress(NoTaskQueueError):
                await manager.close(rng.choice(TASKS))

    async def main() -> None:
        before = trio.lowlevel.current_statistics().tasks_living
        async with (
            open_queue_manager(
                store, hook=hook, queue_size=8, lag_grace=0.5, hook_timeout=1, idle_timeout=3
            ) as manager,
            trio.open_nursery() as around,
        ):
            around.start_soon(accidents, manager)
            async with trio.open_nursery() as nursery:
                for task_id in TASKS:
                    nursery.start_soon(produce, manager, task_id, rng)
                    for _ in range(8):
                        nursery.start_soon(Reader(manager, task_id, rng).run)
            around.cancel_scope.cancel()
        assert trio.lowlevel.current_statistics().tasks_living == before
        for task_id in TASKS:
            stored = await store.get(task_id)
            assert stored is not None
            assert [e.sequence for e in await store.events(task_id, 0)] == list(range(1, stored.sequence + 1))
            assert _count(stored.task) == stored.sequence
        subscribed = sorted(call.subscriber.id for call in hook.of("on_subscribe") if call.subscriber)
        unsubscribed = sorted(call.subscriber.id for call in hook.of("on_unsubscribe") if call.subscriber)
        assert subscribed == unsubscribed
        assert len(subscribed) > 100

    async def with_deadline() -> None:
        with trio.fail_after(10_000):
            await main()

    trio.run(with_deadline, clock=trio.testing.MockClock(autojump_threshold=0))


def _refused(change: TaskChange, rng: random.Random) -> bool:
    return rng.random() < 0.05
