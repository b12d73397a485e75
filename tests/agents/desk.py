"""The operations of one agent, without a transport: short calls for tests."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import attrs
import trio

from trio_a2a.abc import Principal
from trio_a2a.agents.context import ANONYMOUS
from trio_a2a.server import Agent, agent_card
from trio_a2a.server.call import Call
from trio_a2a.server.operations import Operations
from trio_a2a.server.task_stream import TaskStream
from trio_a2a.streams import QueueManager, open_queue_manager
from trio_a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
)


@attrs.frozen
class Desk:
    agent: Agent
    manager: QueueManager
    operations: Operations

    async def send(
        self,
        content: str | Message = "hello",
        *,
        task_id: str = "",
        context_id: str = "",
        principal: Principal = ANONYMOUS,
        immediately: bool = False,
        history_length: int | None = None,
        tenant: str = "",
        metadata: dict[str, Any] | None = None,
        extensions: tuple[str, ...] = (),
    ) -> Any:
        request = SendMessageRequest(
            message=_message(content, task_id, context_id),
            configuration=SendMessageConfiguration(return_immediately=immediately, history_length=history_length),
            tenant=tenant,
            metadata=metadata,
        )
        return await self.operations.send_message(request, Call(principal=principal, extensions=extensions))

    def stream(
        self, content: str | Message = "hello", *, task_id: str = "", principal: Principal = ANONYMOUS
    ) -> AbstractAsyncContextManager[TaskStream]:
        request = SendMessageRequest(message=_message(content, task_id, ""))
        return self.operations.send_streaming_message(request, Call(principal=principal))

    async def streamed(self, content: str | Message = "hello", *, task_id: str = "") -> list[Any]:
        """Send a message, and return the events of its stream."""
        async with self.stream(content, task_id=task_id) as stream:
            return await rest(stream)

    def subscribe(
        self, task_id: str, *, after: int | None = None, principal: Principal = ANONYMOUS
    ) -> AbstractAsyncContextManager[TaskStream]:
        return self.operations.subscribe(SubscribeToTaskRequest(id=task_id), Call(principal=principal), after=after)

    async def get(self, task_id: str, *, principal: Principal = ANONYMOUS, history_length: int | None = None) -> Task:
        request = GetTaskRequest(id=task_id, history_length=history_length)
        return await self.operations.get_task(request, Call(principal=principal))

    async def cancel(
        self, task_id: str, *, principal: Principal = ANONYMOUS, metadata: dict[str, Any] | None = None
    ) -> Task:
        return await self.operations.cancel_task(
            CancelTaskRequest(id=task_id, metadata=metadata), Call(principal=principal)
        )


def _message(content: str | Message, task_id: str, context_id: str) -> Message:
    if isinstance(content, Message):
        return content
    return Message.user(content, task_id=task_id, context_id=context_id)


@asynccontextmanager
async def open_desk(executor: Any, **options: Any) -> AsyncIterator[Desk]:
    agent = Agent(agent_card("Tested", "Is tested."), executor, **options)
    async with open_queue_manager(agent.store, state_provider=agent.state_provider, hook=agent.hook) as manager:
        yield Desk(agent, manager, Operations(agent, manager))


async def rest(stream: TaskStream) -> list[Any]:
    """Return the events up to the end of the stream."""
    events: list[Any] = []
    while True:
        try:
            events.extend(envelope.event for envelope in await stream.receive_batch())
        except trio.EndOfChannel:
            return events


class Stream:
    """Takes the events of a stream one by one."""

    def __init__(self, stream: TaskStream) -> None:
        self._stream = stream
        self._held: list[Any] = []

    async def next(self) -> Any:
        while not self._held:
            self._held.extend(envelope.event for envelope in await self._stream.receive_batch())
        return self._held.pop(0)


@attrs.define(eq=False)
class Outcome:
    """What became of a call in another task: a value or an exception."""

    value: Any = None
    error: BaseException | None = None
    done: trio.Event = attrs.Factory(trio.Event)

    async def result(self) -> Any:
        await self.done.wait()
        if self.error is not None:
            raise self.error
        return self.value


def start(nursery: trio.Nursery, call: Any, *args: Any, **options: Any) -> Outcome:
    """Run a call in the nursery."""
    outcome = Outcome()

    async def run() -> None:
        try:
            outcome.value = await call(*args, **options)
        except Exception as exc:
            outcome.error = exc
        finally:
            outcome.done.set()

    nursery.start_soon(run)
    return outcome


def state_of(event: Any) -> str:
    """Name what an event says, in a word: the state of a status or a task, or the kind of another."""
    status = getattr(event, "status", None)
    return status.state.name if status is not None else type(event).__name__


def states(events: list[Any]) -> list[str]:
    return [state_of(event) for event in events]


def texts(messages: Any) -> list[str]:
    return [message.text() for message in messages]
