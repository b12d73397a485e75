"""The worker for `a2a-sdk`: runs in that package's own environment, and imports nothing but it.

What is measured is the path of an agent's events in a server of that SDK, without its HTTP part: the agent awaits
`event_queue.enqueue_event`; the events go through the queue and its dispatcher, the consumer, the `TaskManager` and the
`InMemoryTaskStore`, the subscribers' queue and its dispatcher, to the streams that subscribers have got from
`DefaultRequestHandler.on_subscribe_to_task`.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    Artifact,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
)
from google.protobuf.json_format import MessageToDict, ParseDict

from .workload import (
    ARTIFACT_ID,
    CHUNKS,
    CONTEXT_ID,
    Memory,
    Pace,
    chunk_text,
    cost,
    paced,
    percentile,
    run_worker,
    settle,
    task_bytes,
)

Job = dict[str, Any]


def artifact_event(task: str, number: int, *, append: bool = False) -> TaskArtifactUpdateEvent:
    """Return an event: the artifact anew, or a chunk of it."""
    return TaskArtifactUpdateEvent(
        task_id=task,
        context_id=CONTEXT_ID,
        artifact=Artifact(artifact_id=ARTIFACT_ID, parts=[Part(text=chunk_text(number))]),
        append=append,
    )


class Agent(AgentExecutor):
    """Makes its task, waits until it may go on, and sends what it is given to send. Its tasks stay live."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.send: Callable[[str, EventQueue], Coroutine[Any, Any, None]] | None = None

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Be the agent."""
        await event_queue.enqueue_event(
            Task(
                id=context.task_id,
                context_id=context.context_id,
                status=TaskStatus(state=TaskState.TASK_STATE_WORKING),
            )
        )
        await self.go.wait()
        assert self.send is not None
        await self.send(context.task_id, event_queue)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing is cancelled here."""


class Server:
    """A request handler with its agent, store and call context."""

    def __init__(self, store: TaskStore | None = None) -> None:
        self.agent = Agent()
        card = AgentCard(name="agent", version="1", capabilities=AgentCapabilities(streaming=True))
        self.handler = DefaultRequestHandler(self.agent, store if store is not None else InMemoryTaskStore(), card)
        self.context = ServerCallContext()

    async def make_task(self, number: int = 0) -> str:
        """Have a message sent, whose run makes a task that stays live."""
        message = Message(
            message_id=f"message-{number:06d}", context_id=CONTEXT_ID, role=Role.ROLE_USER, parts=[Part(text="Go")]
        )
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(return_immediately=True))
        task = await self.handler.on_message_send(request, self.context)
        return task.id

    def start(self, send: Callable[[str, EventQueue], Coroutine[Any, Any, None]]) -> None:
        """Let the agents send."""
        self.agent.send = send
        self.agent.go.set()

    async def subscribe(self, task: str) -> AsyncIterator[Any]:
        """Return a new subscriber of the task, whose snapshot has been taken."""
        events = self.handler.on_subscribe_to_task(SubscribeToTaskRequest(id=task), self.context)
        await anext(events)
        return events


@asynccontextmanager
async def open_server(store: TaskStore | None = None) -> AsyncIterator[Server]:
    """Open a server, and end all that it started; its tasks are in memory if no store is given."""
    server = Server(store)
    try:
        yield server
    finally:
        await server.handler.aclose()


async def read_singly(events: AsyncIterator[Any], pace: Pace) -> None:
    """Take events one by one."""
    count, window = 0, pace.window
    async for _ in events:
        count += 1
        if count % window == 0:
            pace.reached()
    if count % window:
        raise RuntimeError(f"a subscriber was cut off after {count} events")


@asynccontextmanager
async def running(coroutines: list[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run coroutines for the length of the block; fail if one of them does."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def fan_out(job: Job) -> dict[str, float]:
    """Deliver artifact events of one task to N readers."""
    pace = Pace(job["readers"], job["window"], asyncio.Event)
    async with open_server() as server:
        task = await server.make_task()
        total = job["window"] * (job["warm_windows"] + job["windows"])
        events = [artifact_event(task, number, append=number % CHUNKS > 0) for number in range(total)]
        streams = [await server.subscribe(task) for _ in range(job["readers"])]
        spent = asyncio.get_running_loop().create_future()

        async def send(_task: str, queue: EventQueue) -> None:
            async def send_window(first: int, last: int) -> None:
                for event in events[first:last]:
                    await queue.enqueue_event(event)

            spent.set_result(await paced(send_window, pace, warm_windows=job["warm_windows"], windows=job["windows"]))

        async with running([read_singly(stream, pace) for stream in streams]):
            server.start(send)
            seconds = await spent
    return {"delivered/s": job["readers"] * job["window"] * job["windows"] / seconds}


async def latency(job: Job) -> dict[str, float]:
    """Time from `enqueue_event` to each reader, for events that come one at a time."""
    samples: list[float] = []
    sent = [0.0]

    async def read(stream: AsyncIterator[Any]) -> None:
        async for _ in stream:
            samples.append(time.perf_counter() - sent[0])

    async with open_server() as server:
        task = await server.make_task()
        events = [artifact_event(task, number, append=number % CHUNKS > 0) for number in range(job["events"])]
        streams = [await server.subscribe(task) for _ in range(job["readers"])]
        done = asyncio.Event()

        async def send(_task: str, queue: EventQueue) -> None:
            settle()
            for event in events:
                await asyncio.sleep(job["interval"])
                sent[0] = time.perf_counter()
                await queue.enqueue_event(event)
            await asyncio.sleep(job["interval"])
            done.set()

        async with running([read(stream) for stream in streams]):
            server.start(send)
            await done.wait()
    samples = samples[len(samples) // 10 :]
    return {"p50": percentile(samples, 0.5), "p99": percentile(samples, 0.99)}


async def live_tasks(job: Job) -> dict[str, float]:
    """Many live tasks of few events each, with one reader each: how fast they go, or what memory they hold."""
    memory = job["measure"] == "memory"
    pace = Pace(job["tasks"], job["events"], asyncio.Event)
    async with open_server() as server:
        grown = Memory(traced=job["traced"]) if memory else None
        tasks = [await server.make_task(number) for number in range(job["tasks"])]
        streams = [await server.subscribe(task) for task in tasks]

        def chunks(task: str) -> Iterator[TaskArtifactUpdateEvent]:
            return (artifact_event(task, number, append=number > 0) for number in range(job["events"]))

        # What the events take is part of the memory, what making them takes is not part of the time.
        ready = {} if memory else {task: tuple(chunks(task)) for task in tasks}

        async def send(task: str, queue: EventQueue) -> None:
            for event in ready.get(task) or chunks(task):
                await queue.enqueue_event(event)

        async with running([read_singly(stream, pace) for stream in streams]):
            await asyncio.sleep(0)  # the readers begin to wait
            settle()
            started = time.process_time()
            server.start(send)
            await pace.wait(1)
            spent = time.process_time() - started
            result = {"delivered/s": job["tasks"] * job["events"] / spent}
            if grown is not None:
                result = grown.per(job["tasks"])
    return result


def codec(job: Job) -> dict[str, float]:
    """Parse a task, and dump it, as the SDK's JSON-RPC route does with a request's params and a response's result."""
    data = task_bytes()
    task = ParseDict(json.loads(data), Task(), ignore_unknown_fields=True)

    def decode() -> Task:
        return ParseDict(json.loads(data), Task(), ignore_unknown_fields=True)

    def encode() -> bytes:
        members = MessageToDict(task, preserving_proto_field_name=False)
        # As Starlette's JSONResponse does.
        return json.dumps(members, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    return {"decode": cost(decode, job["seconds"]), "encode": cost(encode, job["seconds"])}


def _in_asyncio(
    measurement: Callable[[Job], Coroutine[Any, Any, dict[str, float]]],
) -> Callable[[Job], dict[str, float]]:
    return lambda job: asyncio.run(measurement(job))


if __name__ == "__main__":
    run_worker(
        {
            "fan_out": _in_asyncio(fan_out),
            "burst": _in_asyncio(fan_out),  # it has no way to put in several events at once
            "latency": _in_asyncio(latency),
            "tasks": _in_asyncio(live_tasks),
            "memory": _in_asyncio(live_tasks),
            "codec": codec,
        }
    )
