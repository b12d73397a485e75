"""The worker for this library's stores: alone, and behind the stream core.

Alone, 32 tasks commit so many changes at a time. Behind the core agents await `enqueue`, nobody reads, and the core
decides what is one commit.
"""

import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import trio

from tests.stores.writers import TaskWriter
from trio_a2a.abc import StreamEvent, TaskChange, TaskStore
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


def record_groups(store: SqlTaskStore) -> list[list[tuple[str, int]]]:
    """Have it noted what is written together, and return where: a group's tasks, with how many events of each."""
    groups: list[list[tuple[str, int]]] = []
    transactions = store._database.writer._transactions
    carry_out = transactions.carry_out

    def noted(group: list[Any]) -> None:
        # Nothing of the group is kept: memory that is used again is warm.
        groups.append(
            [(part.task_id, part.last - part.expected) for pending in group for part in pending.work.parts.values()]
        )
        carry_out(group)

    transactions.carry_out = noted  # type: ignore[method-assign]
    return groups


async def stores(job: Job) -> dict[str, float]:
    """Store the streams of tasks at the same time, until all is stored."""
    count = job["events"]
    run = partial(run_commits, size=job["commit"]) if job["commit"] else run_agents
    async with open_store(job) as store:
        groups = record_groups(store) if isinstance(store, SqlTaskStore) else []
        await run(store, range(4), count)
        groups.clear()
        rate = await run(store, range(4, 4 + job["tasks"]), count)
    if groups:
        (Path(job["folder"]) / BATCHES_FILE).write_text(json.dumps(groups), encoding="utf-8")
    return {"events/s": rate}


async def run_commits(store: TaskStore, numbers: range, count: int, *, size: int) -> float:
    """Have the tasks' changes committed so many at a time, as the stream core commits them."""
    work = []
    for number in numbers:
        writer = TaskWriter(task_id(number))
        changes = [writer.change(event) for event in stream(task_id(number), count)]
        work.append([changes[first : first + size] for first in range(0, count, size)])

    async def commit_all(commits: list[list[TaskChange]]) -> None:
        for changes in commits:
            await store.commit(changes)

    watch = Stopwatch()
    async with trio.open_nursery() as nursery:
        for commits in work:
            nursery.start_soon(commit_all, commits)
    return watch.rate(len(numbers) * count)


async def run_agents(store: TaskStore, numbers: range, count: int) -> float:
    """Have agents send the tasks' events through the stream core."""
    streams = {task_id(number): stream(task_id(number), count) for number in numbers}

    async def agent(manager: QueueManager, task: str, events: list[StreamEvent]) -> None:
        await manager.enqueue(task, events[0])
        queue = manager.get(task)
        assert queue is not None
        for event in events[1:]:
            await queue.enqueue(event)
        await queue.flush()

    async with open_queue_manager(store) as manager:
        watch = Stopwatch()
        async with trio.open_nursery() as agents:
            for task, events in streams.items():
                agents.start_soon(agent, manager, task, events)
        return watch.rate(len(numbers) * count)


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
