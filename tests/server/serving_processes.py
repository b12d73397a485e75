"""Processes that serve from one database, in one: an application and a store each."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs

from tests.stores.writers import TaskWriter
from trio_a2a.abc import StreamEvent
from trio_a2a.agents import RequestContext, TaskUpdater
from trio_a2a.server import A2AApp, Agent, agent_card
from trio_a2a.server.call import Call
from trio_a2a.server.operations import Operations
from trio_a2a.stores import SqlTaskStore, open_sql_store
from trio_a2a.streams import QueueManager
from trio_a2a.testing import artifact, message, task
from trio_a2a.types import (
    Message,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatusUpdateEvent,
)

LONG = 1000.0
Step = Callable[[RequestContext, TaskUpdater], Awaitable[None]]


async def never(_context: RequestContext, _updater: TaskUpdater) -> None:
    raise AssertionError("the agent is not to be asked")


@attrs.frozen
class Plain:
    """Cannot resume."""

    run: Step = never

    async def execute(self, context: RequestContext, updater: TaskUpdater) -> None:
        await self.run(context, updater)


@attrs.frozen
class Resumable:
    """Can."""

    go_on: Step
    run: Step = never

    async def execute(self, context: RequestContext, updater: TaskUpdater) -> None:
        await self.run(context, updater)

    async def resume(self, context: RequestContext, updater: TaskUpdater) -> None:
        await self.go_on(context, updater)


@attrs.frozen
class Process:
    """One that serves."""

    store: SqlTaskStore
    manager: QueueManager
    operations: Operations

    async def ended(self, task_id: str) -> Task:
        """Return the task when it has ended."""
        return await self.reached(task_id, TaskState.FAILED, TaskState.COMPLETED, TaskState.CANCELED)

    async def reached(self, task_id: str, *states: TaskState) -> Task:
        """Return the task when it is in one of the states."""
        async with self.manager.subscribe(task_id, after=0) as child:
            async for event in child:
                if isinstance(event, TaskStatusUpdateEvent) and event.status.state in states:
                    break
        return await self.get(task_id)

    async def at(self, task_id: str, number: int) -> None:
        """Wait until the task is at an event."""
        async with self.manager.subscribe(task_id, after=0) as child:
            while (await child.receive_batch())[-1].sequence < number:
                pass

    async def get(self, task_id: str) -> Task:
        stored = await self.store.get(task_id)
        assert stored is not None
        return stored.task

    async def log(self, task_id: str) -> list[str]:
        """What has happened to a task: its states, and the texts of its artifacts."""
        return [said(envelope.event) for envelope in await self.store.events(task_id, 0)]

    async def send(self, text: str, task_id: str = "", *, immediately: bool = True) -> Task:
        sent = attrs.evolve(Message.user(text), task_id=task_id)
        configuration = SendMessageConfiguration(return_immediately=immediately)
        request = SendMessageRequest(message=sent, configuration=configuration)
        outcome = await self.operations.send_message(request, Call())
        assert isinstance(outcome, Task)
        return outcome


def said(event: StreamEvent) -> str:
    if isinstance(event, Task | TaskStatusUpdateEvent):
        return event.status.state.name
    return event.artifact.text() if not isinstance(event, Message) else event.text()


@asynccontextmanager
async def open_process(url: str, executor: Any, *, hook: Any = None, **options: Any) -> AsyncIterator[Process]:
    async with open_sql_store(url, **options) as store:
        app = A2AApp(Agent(agent_card("Worker", "Works."), executor, store=store, hook=hook))
        async with app.running():
            assert app._running is not None
            yield Process(store, app._running.manager, app._running.operations)


async def leave(url: str, *task_ids: str, **members: str) -> None:
    """Be a process that ends with tasks in the works."""
    async with open_sql_store(url) as store:
        for task_id in task_ids:
            writer = TaskWriter(task_id, **members)
            asked = message("do it", role=Role.USER, task_id=task_id)
            events = (task(task_id, TaskState.SUBMITTED, history=[asked]), artifact(task_id, "half"))
            await store.commit([writer.change(event) for event in events])
