"""The worker for `a2a-sdk`'s database store: runs in that package's own environment, and imports nothing but it.

The same agents as elsewhere in the SDK's server (see `sdk_worker`), with its `DatabaseTaskStore`, which saves the whole
task for every event. Its engine is asked for the same durability as the other contenders have.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.tasks import DatabaseTaskStore
from a2a.types import Task, TaskState, TaskStatus, TaskStatusUpdateEvent
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from .sdk_worker import artifact_event, open_server
from .store_workload import Stopwatch, appends, kind, status_seconds
from .workload import CONTEXT_ID, run_worker

Job = dict[str, Any]

_SECONDS = 120


class Store(DatabaseTaskStore):
    """Tells when so many tasks are stored as completed."""

    def __init__(self, engine: AsyncEngine, tasks: int) -> None:
        super().__init__(engine)
        self._left = tasks
        self.all_done = asyncio.Event()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Save the task."""
        await super().save(task, context)
        if task.status.state == TaskState.TASK_STATE_COMPLETED:
            self._left -= 1
            if not self._left:
                self.all_done.set()


@asynccontextmanager
async def open_engine(job: Job) -> AsyncIterator[AsyncEngine]:
    """Connect to the job's database."""
    url = urlsplit(job["url"])
    if job["database"] == "sqlite":
        engine = create_async_engine(f"sqlite+aiosqlite://{url.path}", connect_args={"timeout": 60})

        @event.listens_for(engine.sync_engine, "connect")
        def _(connection: Any, __: Any) -> None:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {job.get('synchronous', 'NORMAL')}")
    else:
        # asyncpg takes settings of the session in its own way.
        (options,) = parse_qs(url.query)["options"]
        schema = options.removeprefix("-csearch_path=")
        engine = create_async_engine(
            f"postgresql+asyncpg://{url.netloc}{url.path}", connect_args={"server_settings": {"search_path": schema}}
        )
    try:
        yield engine
    finally:
        await engine.dispose()


def status_event(task: str, number: int, state: TaskState) -> TaskStatusUpdateEvent:
    """Return a status with a time."""
    status = TaskStatus(state=state, timestamp=Timestamp(seconds=status_seconds(number)))
    return TaskStatusUpdateEvent(task_id=task, context_id=CONTEXT_ID, status=status)


async def stores(job: Job) -> dict[str, float]:
    """Write the streams of tasks at the same time, until all is stored."""
    count = job["events"]
    async with open_engine(job) as engine:
        store = Store(engine, job["tasks"])
        await store.initialize()
        async with open_server(store) as server:
            tasks = [await server.make_task(number) for number in range(job["tasks"])]
            events: dict[str, list[Any]] = {task: [] for task in tasks}
            for task in tasks:
                for number in range(1, count):  # the first one has made the task
                    match kind(number, count):
                        case "end":
                            made: Any = status_event(task, number, TaskState.TASK_STATE_COMPLETED)
                        case "status":
                            made = status_event(task, number, TaskState.TASK_STATE_WORKING)
                        case _:
                            made = artifact_event(task, number, append=appends(number))
                    events[task].append(made)

            async def send(task: str, queue: EventQueue) -> None:
                for made in events[task]:
                    await queue.enqueue_event(made)

            watch = Stopwatch()
            server.start(send)
            # An agent whose task has failed would never complete it.
            async with asyncio.timeout(_SECONDS):
                await store.all_done.wait()
            return {"events/s": watch.rate((count - 1) * job["tasks"])}


if __name__ == "__main__":
    run_worker({"stores": lambda job: asyncio.run(stores(job))})
