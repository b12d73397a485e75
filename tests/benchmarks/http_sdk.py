"""The server of `a2a-sdk`: the agent of these rows in its Starlette routes, on uvicorn.

As its documentation has it: both bindings in one application, `DefaultRequestHandler`, `InMemoryTaskStore`. The job may
name uvicorn's event loop and HTTP parser. By default they are what `pip install uvicorn` comes with, and so what most
have: asyncio's own loop and h11. `pip install uvicorn[standard]` brings uvloop and httptools.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from starlette.applications import Starlette

from .workload import ARTIFACT_ID, CHUNKS, chunk_text, run_server


class Echo(AgentExecutor):
    """Does what its message says: a word, and maybe numbers."""

    def __init__(self) -> None:
        self._go = asyncio.Event()
        self._chunks = 0
        self._pause = 0.0

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Be the agent."""
        text = context.get_user_input()
        match text.split():
            case ["reply", *_]:
                await event_queue.enqueue_event(_message(context, text))
            case ["complete", *_]:
                await event_queue.enqueue_event(_task(context, TaskState.TASK_STATE_SUBMITTED))
                await event_queue.enqueue_event(_status(context, TaskState.TASK_STATE_COMPLETED, text))
            case ["stream", number, pause]:
                await event_queue.enqueue_event(_task(context, TaskState.TASK_STATE_SUBMITTED))
                await event_queue.enqueue_event(_status(context, TaskState.TASK_STATE_WORKING))
                await self._stream(context, event_queue, 0, int(number), float(pause))
                await event_queue.enqueue_event(_status(context, TaskState.TASK_STATE_COMPLETED))
            case ["broadcast"]:
                await event_queue.enqueue_event(_task(context, TaskState.TASK_STATE_WORKING))
                sent = 0
                while True:
                    await self._go.wait()
                    await self._stream(context, event_queue, sent, sent + self._chunks, self._pause)
                    sent += self._chunks
            case ["go", number, pause]:
                self._chunks, self._pause = int(number), float(pause)
                go, self._go = self._go, asyncio.Event()
                go.set()
                await event_queue.enqueue_event(_message(context, text))
            case ["encodings"]:
                await event_queue.enqueue_event(_message(context, "0"))  # it cannot be told

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing is cancelled here."""

    @staticmethod
    async def _stream(context: RequestContext, queue: EventQueue, first: int, last: int, pause: float) -> None:
        for chunk in range(first, last):
            if pause:
                await asyncio.sleep(pause)
            await queue.enqueue_event(
                TaskArtifactUpdateEvent(
                    task_id=context.task_id,
                    context_id=context.context_id,
                    artifact=Artifact(artifact_id=ARTIFACT_ID, parts=[Part(text=chunk_text(chunk))]),
                    append=chunk % CHUNKS > 0,
                )
            )


def _message(context: RequestContext, text: str) -> Message:
    return Message(
        message_id=f"answer to {context.message.message_id}",
        context_id=context.context_id,
        role=Role.ROLE_AGENT,
        parts=[Part(text=text)],
    )


def _task(context: RequestContext, state: TaskState) -> Task:
    return Task(id=context.task_id, context_id=context.context_id, status=_stamped(state), history=[context.message])


def _status(context: RequestContext, state: TaskState, text: str | None = None) -> TaskStatusUpdateEvent:
    status = _stamped(state)
    if text is not None:
        status.message.CopyFrom(_message(context, text))
    return TaskStatusUpdateEvent(task_id=context.task_id, context_id=context.context_id, status=status)


def _stamped(state: TaskState) -> TaskStatus:
    status = TaskStatus(state=state)
    status.timestamp.GetCurrentTime()
    return status


def make_app() -> Starlette:
    """Return the application."""
    card = AgentCard(
        name="Echo",
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[
            AgentInterface(url="http://127.0.0.1/", protocol_binding=binding, protocol_version="1.0")
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
    )
    handler = DefaultRequestHandler(Echo(), InMemoryTaskStore(), card)
    return Starlette(routes=[*create_jsonrpc_routes(handler, "/"), *create_rest_routes(handler)])


class Server(uvicorn.Server):
    """Says on which port it is when it takes connections."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[int], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._announce(self.servers[0].sockets[0].getsockname()[1])


async def main(job: dict[str, Any], announce: Callable[[int], None]) -> None:
    """Serve until standard input ends."""
    server = Server(
        uvicorn.Config(
            make_app(),
            port=0,
            loop=job.get("loop", "asyncio"),
            http=job.get("http", "h11"),
            access_log=False,
            log_level="warning",
            timeout_graceful_shutdown=1,
        ),
        announce,
    )

    def stop() -> None:
        asyncio.get_running_loop().remove_reader(0)
        server.should_exit = True

    asyncio.get_running_loop().add_reader(0, stop)
    await server.serve()


def _run(job: dict[str, Any], announce: Callable[[int], None]) -> None:
    with asyncio.Runner(loop_factory=uvicorn.Config("", loop=job.get("loop", "asyncio")).get_loop_factory()) as runner:
        runner.run(main(job, announce))


if __name__ == "__main__":
    run_server(_run)
