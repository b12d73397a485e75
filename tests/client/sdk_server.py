"""The asyncio SDK's own server, as a program: it prints its URL, and serves until its input ends.

python sdk_server.py
"""

import asyncio
import socket

from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
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
from a2a.utils import errors
from hypercorn.asyncio import serve
from hypercorn.config import Config
from starlette.applications import Starlette


class Agent(AgentExecutor):
    async def execute(self, context, queue):
        order, _, rest = context.get_user_input().partition(" ")
        ids = {"task_id": context.task_id, "context_id": context.context_id}

        if order == "refuse":
            raise getattr(errors, rest)("Refused.")

        async def state(value):
            await queue.enqueue_event(TaskStatusUpdateEvent(**ids, status=TaskStatus(state=value)))

        if order == "reply":
            message = Message(
                message_id="m", role=Role.ROLE_AGENT, parts=[Part(text=rest)], context_id=context.context_id
            )
            await queue.enqueue_event(message)
            return
        if context.current_task is None:
            status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            await queue.enqueue_event(Task(id=ids["task_id"], context_id=ids["context_id"], status=status))
        await state(TaskState.TASK_STATE_WORKING)
        if order == "count":
            for number in range(int(rest)):
                artifact = Artifact(artifact_id="numbers", parts=[Part(text=f"{number}\u2028\u0085,")])
                await queue.enqueue_event(TaskArtifactUpdateEvent(**ids, artifact=artifact, append=number > 0))
                await asyncio.sleep(0.005)
        if order == "hold":
            await asyncio.sleep(3600)
        await state(TaskState.TASK_STATE_INPUT_REQUIRED if order == "ask" else TaskState.TASK_STATE_COMPLETED)

    async def cancel(self, context, queue):
        ids = {"task_id": context.task_id, "context_id": context.context_id}
        status = TaskStatus(state=TaskState.TASK_STATE_CANCELED)
        await queue.enqueue_event(TaskStatusUpdateEvent(**ids, status=status))


def _fields(card):
    return {field.name: value for field, value in card.ListFields()}


async def main():
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    bindings = ("JSONRPC", "HTTP+JSON")
    card = AgentCard(
        name="Theirs",
        description="Is of the asyncio SDK.",
        version="1",
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        supported_interfaces=[
            AgentInterface(url=f"{url}/", protocol_binding=b, protocol_version="1.0") for b in bindings
        ],
    )
    handler = DefaultRequestHandler(
        Agent(),
        InMemoryTaskStore(),
        card,
        push_config_store=InMemoryPushNotificationConfigStore(),
        extended_agent_card=AgentCard(**{**_fields(card), "name": "Theirs, extended"}),
    )
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/"), *create_rest_routes(handler)]
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.graceful_timeout = config.shutdown_timeout = 0.5
    config.errorlog = None
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, ended.set)
    print(url, flush=True)  # noqa: T201 - it is a program
    await serve(Starlette(routes=routes), config, shutdown_trigger=ended.wait)


if __name__ == "__main__":
    asyncio.run(main())
