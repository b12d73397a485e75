"""The worker for this library's stream core: `MainQueue.enqueue` to `ChildQueue`, with everything between.

The store is the in-memory one, the hook the one that does nothing: what a program gets that configures nothing.
"""

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import trio
import trio.testing

from trio_a2a.streams import ChildQueue, MainQueue, QueueManager, open_queue_manager
from trio_a2a.types import Artifact, Part, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus

from .workload import (
    ARTIFACT_ID,
    CHUNKS,
    CONTEXT_ID,
    Memory,
    Pace,
    chunk_text,
    paced,
    percentile,
    run_worker,
    settle,
    task_id,
)

Job = dict[str, Any]
Send = Callable[[MainQueue, Iterable[TaskArtifactUpdateEvent]], Awaitable[None]]
Read = Callable[[ChildQueue, Pace], Coroutine[Any, Any, None]]


def first_event(task: str) -> Task:
    """Return the event that makes a task."""
    return Task(id=task, context_id=CONTEXT_ID, status=TaskStatus(state=TaskState.WORKING))


def artifact_event(task: str, number: int, *, append: bool = False) -> TaskArtifactUpdateEvent:
    """Return an event: the artifact anew, or a chunk of it."""
    artifact = Artifact(artifact_id=ARTIFACT_ID, parts=(Part(text=chunk_text(number)),))
    return TaskArtifactUpdateEvent(task_id=task, context_id=CONTEXT_ID, artifact=artifact, append=append)


# ------------------------------------------------------------------------------------------------- one task, N readers


async def send_singly(queue: MainQueue, events: Iterable[TaskArtifactUpdateEvent]) -> None:
    """One `enqueue` an event."""
    for event in events:
        await queue.enqueue(event)


async def send_burst(queue: MainQueue, events: Iterable[TaskArtifactUpdateEvent]) -> None:
    """All at once, as an agent does that has a whole answer."""
    for event in events:
        queue.enqueue_nowait(event)
    await trio.lowlevel.checkpoint()


async def read_singly(child: ChildQueue, pace: Pace) -> None:
    """Take events one by one."""
    count, window = 0, pace.window
    async for _ in child:
        count += 1
        if count % window == 0:
            pace.reached()


async def read_batches(child: ChildQueue, pace: Pace) -> None:
    """Take all that is there, as a connection's writer does."""
    count, window = 0, pace.window
    while True:
        before = count
        count += len(await child.receive_batch())
        if count // window > before // window:
            pace.reached()


async def fan_out(job: Job, send: Send, read: Read) -> dict[str, float]:
    """Deliver artifact events of one task to N readers."""
    pace = Pace(job["readers"], job["window"], trio.Event)
    total = job["window"] * (job["warm_windows"] + job["windows"])
    task = task_id()
    events = [artifact_event(task, number, append=number % CHUNKS > 0) for number in range(total)]
    async with open_queue_manager() as manager, trio.open_nursery() as nursery:
        queue = await subscribe(manager, task, nursery, read, pace)

        async def send_window(first: int, last: int) -> None:
            await send(queue, events[first:last])

        spent = await paced(send_window, pace, warm_windows=job["warm_windows"], windows=job["windows"])
        nursery.cancel_scope.cancel()
    return {"delivered/s": job["readers"] * job["window"] * job["windows"] / spent}


async def subscribe(manager: QueueManager, task: str, nursery: trio.Nursery, read: Read, pace: Pace) -> MainQueue:
    """Make a task and its readers, who do not get the event that made it."""
    await manager.enqueue(task, first_event(task))
    queue = manager.get(task)
    assert queue is not None
    await queue.flush()
    for _ in range(pace.readers):
        nursery.start_soon(read, await queue.tap(), pace)
    await trio.testing.wait_all_tasks_blocked()
    return queue


# --------------------------------------------------------------------------------------------------------- other shapes


async def latency(job: Job) -> dict[str, float]:
    """Time from `enqueue` to each reader, for events that come one at a time."""
    pace = Pace(job["readers"], job["events"], trio.Event)
    samples: list[float] = []
    sent = [0.0]
    task = task_id()
    events = [artifact_event(task, number, append=number % CHUNKS > 0) for number in range(job["events"])]

    async def read(child: ChildQueue, _: Pace) -> None:
        async for _event in child:
            samples.append(time.perf_counter() - sent[0])

    async with open_queue_manager() as manager, trio.open_nursery() as nursery:
        queue = await subscribe(manager, task, nursery, read, pace)
        settle()
        for event in events:
            await trio.sleep(job["interval"])
            sent[0] = time.perf_counter()
            await queue.enqueue(event)
        await trio.sleep(job["interval"])
        nursery.cancel_scope.cancel()
    samples = samples[len(samples) // 10 :]  # the first events warm up
    return {"p50": percentile(samples, 0.5), "p99": percentile(samples, 0.99)}


async def live_tasks(job: Job) -> dict[str, float]:
    """Many live tasks of few events each, with one reader each: how fast they go, or what memory they hold."""
    memory = job["measure"] == "memory"
    names = [task_id(number) for number in range(job["tasks"])]
    pace = Pace(job["tasks"], job["events"], trio.Event)
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(open_queue_manager())
        nursery = await stack.enter_async_context(trio.open_nursery())
        grown = Memory(traced=job["traced"]) if memory else None
        queues = [await subscribe_one(manager, name, nursery, pace) for name in names]

        def chunks(queue: MainQueue) -> Iterator[TaskArtifactUpdateEvent]:
            return (artifact_event(queue.task_id, number, append=number > 0) for number in range(job["events"]))

        # What the events take is part of the memory, what making them takes is not part of the time.
        ready = {} if memory else {queue: tuple(chunks(queue)) for queue in queues}

        async def agent(queue: MainQueue) -> None:
            await send_singly(queue, ready.get(queue) or chunks(queue))

        async with trio.open_nursery() as agents:
            settle()
            started = time.process_time()
            for queue in queues:
                agents.start_soon(agent, queue)
            await pace.wait(1)
            spent = time.process_time() - started
        result = {"delivered/s": job["tasks"] * job["events"] / spent}
        if grown is not None:
            result = grown.per(job["tasks"])
        nursery.cancel_scope.cancel()
    return result


async def subscribe_one(manager: QueueManager, name: str, nursery: trio.Nursery, pace: Pace) -> MainQueue:
    """Make a task and its reader."""
    child = await manager.create_or_tap(name)
    await child.enqueue(first_event(name))
    await child.receive()
    nursery.start_soon(read_singly, child, pace)
    queue = manager.get(name)
    assert queue is not None
    return queue


async def flat(job: Job) -> dict[str, float]:
    """One artifact that grows chunk by chunk: what an event costs at the end, by what it cost at the start."""
    size, windows = job["window"], job["windows"]
    pace = Pace(job["readers"], size, trio.Event)
    task = task_id()
    spent: list[float] = []
    async with open_queue_manager() as manager, trio.open_nursery() as nursery:
        # A task of the same kind warms everything up first.
        warm_pace = Pace(job["readers"], size, trio.Event)
        for name, its_pace, its_windows in ((task_id(1), warm_pace, windows // 8), (task, pace, windows)):
            events = [artifact_event(name, number, append=number > 0) for number in range(its_windows * size)]
            queue = await subscribe(manager, name, nursery, read_singly, its_pace)
            settle()
            spent.clear()
            for window in range(its_windows):
                started = time.process_time()
                await send_singly(queue, events[window * size : (window + 1) * size])
                await its_pace.wait(window + 1)
                spent.append(time.process_time() - started)
        nursery.cancel_scope.cancel()
    part = windows // 5
    return {
        "start": percentile(spent[:part], 0.5) / size,
        "end": percentile(spent[-part:], 0.5) / size,
        "first half": sum(spent[: windows // 2]) / (windows // 2 * size),
        "second half": sum(spent[windows // 2 :]) / (windows // 2 * size),
    }


def _in_trio(measurement: Callable[[Job], Coroutine[Any, Any, dict[str, float]]]) -> Callable[[Job], dict[str, float]]:
    return lambda job: trio.run(measurement, job)


if __name__ == "__main__":
    run_worker(
        {
            "fan_out": _in_trio(partial(fan_out, send=send_singly, read=read_singly)),
            "burst": _in_trio(partial(fan_out, send=send_burst, read=read_batches)),
            "latency": _in_trio(latency),
            "tasks": _in_trio(live_tasks),
            "memory": _in_trio(live_tasks),
            "flat": _in_trio(flat),
        }
    )
