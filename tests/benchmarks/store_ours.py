"""The worker for this library's stores behind its stream core: agents that await `enqueue`, and nobody who reads."""

import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import trio

from trio_a2a.abc import StreamEvent, TaskStore
from trio_a2a.stores import InMemoryTaskStore, SqlTaskStore, open_sql_store
from trio_a2a.streams import MainQueue, QueueManager, open_queue_manager
from trio_a2a.types import TaskState, TaskStatus, TaskStatusUpdateEvent

from .ours import artifact_event, first_event
from .store_workload import BATCHES_FILE, Stopwatch, appends, kind, status_seconds
from .workload import CONTEXT_ID, run_worker, task_id

Job = dict[str, Any]


def status_event(task: str, number: int, state: TaskState) -> TaskStatusUpdateEvent:
    """Return a status with a time."""
    at = datetime.fromtimestamp(status_seconds(number), UTC)
    return TaskStatusUpdateEvent(task_id=task, context_id=CONTEXT_ID, status=TaskStatus(state=state, timestamp=at))


def stream(task: str, count: int) -> list[StreamEvent]:
    """Return all events of a task."""
    events: list[StreamEvent] = []
    for number in range(count):
        match kind(number, count):
            case "task":
                events.append(first_event(task))
            case "end":
                events.append(status_event(task, number, TaskState.COMPLETED))
            case "status":
                events.append(status_event(task, number, TaskState.WORKING))
            case _:
                events.append(artifact_event(task, number, append=appends(number)))
    return events


@asynccontextmanager
async def open_store(job: Job) -> AsyncIterator[TaskStore]:
    """Open the store of the job's database."""
    if job["database"] == "memory":
        yield InMemoryTaskStore()
    else:
        async with open_sql_store(job["url"], synchronous=job.get("synchronous", "NORMAL")) as store:
            yield store


def record_groups(store: SqlTaskStore) -> list[list[Any]]:
    """Have the store's groups noted as they are written, and return where."""
    groups: list[list[Any]] = []
    transactions = store._database.writer._transactions
    carry_out = transactions.carry_out

    def noted(group: list[Any]) -> None:
        groups.append(group)
        carry_out(group)

    transactions.carry_out = noted  # type: ignore[method-assign]
    return groups


def write_batches(groups: list[list[Any]], folder: str) -> None:
    """Leave the rows of the log for the plain program."""
    batches = [
        [[*row[:4], row[4].decode(), row[5] and row[5].decode()] for pending in group for row in pending.work.rows]
        for group in groups
    ]
    with (Path(folder) / BATCHES_FILE).open("w", encoding="utf-8") as file:
        json.dump(batches, file)


async def stores(job: Job) -> dict[str, float]:
    """Write the streams of tasks at the same time, each by an agent that awaits its queue; until all is stored."""
    count = job["events"]
    async with open_store(job) as store:
        groups = record_groups(store) if isinstance(store, SqlTaskStore) else []
        async with open_queue_manager(store) as manager:
            await run_agents(manager, [stream(task_id(number), count) for number in range(4)])
            groups.clear()
            streams = [stream(task_id(number), count) for number in range(4, 4 + job["tasks"])]
            watch = Stopwatch()
            await run_agents(manager, streams)
            rate = watch.rate(count * job["tasks"])
        if groups:
            write_batches(groups, job["folder"])
            return {"events/s": rate, "events/transaction": count * job["tasks"] / len(groups)}
    return {"events/s": rate}


async def run_agents(manager: QueueManager, streams: list[list[StreamEvent]]) -> None:
    """Run an agent for each stream, to its end."""

    async def agent(events: list[StreamEvent]) -> None:
        task = events[0].task_id if isinstance(events[0], TaskStatusUpdateEvent) else events[0].id  # type: ignore[union-attr]
        await manager.enqueue(task, events[0])
        queue = manager.get(task)
        assert queue is not None
        for event in events[1:]:
            await queue.enqueue(event)
        await queue.flush()

    async with trio.open_nursery() as agents:
        for events in streams:
            agents.start_soon(agent, events)


# ------------------------------------------------------------------------------------------------------- flat or not


async def flat(job: Job) -> dict[str, float]:
    """What an event costs, in turns: of tasks that have many events, and of ones that have few.

    Both kinds are in the same database, and take turns in it: nothing but the length of the task differs. The artifact
    grows with each chunk.
    """
    size, at_once = job["window"], job["tasks"]
    costs: dict[str, list[float]] = {"short": [], "long": []}
    async with open_store(job) as store, open_queue_manager(store) as manager:
        long = [await made(manager, task_id(number)) for number in range(at_once)]
        await grow(long, 1, job["length"])
        for turn in range(job["windows"] + 1):
            first = (turn + 1) * at_once
            short = [await made(manager, task_id(number)) for number in range(first, first + at_once)]
            await grow(short, 1, job["start"])
            for name, queues, start in (
                ("short", short, job["start"]),
                ("long", long, job["length"] + turn * size),
            ):
                gc.collect()
                started = perf_counter()
                await grow(queues, start, start + size)
                costs[name].append((perf_counter() - started) / (size * at_once))
    # The first turn warms up.
    return {name: median(values[1:]) for name, values in costs.items()}


async def made(manager: QueueManager, task: str) -> MainQueue:
    """Make a task; return its queue."""
    await manager.enqueue(task, first_event(task))
    queue = manager.get(task)
    assert queue is not None
    await queue.flush()
    return queue


async def grow(queues: list[MainQueue], first: int, last: int) -> None:
    """Send the chunks with these numbers to each task; until they are stored."""

    async def agent(queue: MainQueue) -> None:
        for number in range(first, last):
            await queue.enqueue(artifact_event(queue.task_id, number, append=number > 1))
        await queue.flush()

    async with trio.open_nursery() as agents:
        for queue in queues:
            agents.start_soon(agent, queue)


if __name__ == "__main__":
    run_worker({"stores": lambda job: trio.run(stores, job), "flat": lambda job: trio.run(flat, job)})
