"""An agent for other SDKs to call: it says back whatever it is sent, and fails in each way on demand.

    python tests/interop/peer_agent.py

It serves three agents and prints one line of JSON with their URLs: "full" has every capability, "bare" has none, and
"strict" asks for an extension and has an extended card for nobody. The first part of a message is what to do, followed
by what it is to be done with; the other parts are what is said back. It ends at SIGINT or SIGTERM.
"""

import json
import signal
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import attrs
import trio

from trio_a2a import (
    Agent,
    InMemoryTaskStore,
    Message,
    RequestContext,
    Task,
    TaskState,
    TaskUpdater,
    agent_card,
    errors,
    serve,
)
from trio_a2a.abc import Envelope, EventLog, StoredTask, TaskChange, TaskStateProvider, TaskStore
from trio_a2a.errors import TaskPersistenceError
from trio_a2a.server import Limits
from trio_a2a.stores import InMemoryPushConfigStore
from trio_a2a.types import AgentCapabilities, AgentExtension, AgentSkill, ListTasksRequest, TaskArtifactUpdateEvent

EXTENSION = "urn:example:strict"
MODES = ["text/plain", "application/json", "application/octet-stream"]
UNSTORABLE = "unstorable"


class FailingStore(TaskStore, EventLog, TaskStateProvider):
    """Keeps everything but artifacts with one name."""

    def __init__(self) -> None:
        self._store = InMemoryTaskStore()
        self.grace_period = 15.0

    async def get(self, task_id: str) -> StoredTask | None:
        return await self._store.get(task_id)

    async def commit(self, changes: Sequence[TaskChange]) -> None:
        for change in changes:
            if isinstance(change.event, TaskArtifactUpdateEvent) and change.event.artifact.name == UNSTORABLE:
                raise TaskPersistenceError("a secret of the store")
        await self._store.commit(changes)

    async def delete(self, task_id: str) -> None:
        await self._store.delete(task_id)

    async def list(
        self, query: ListTasksRequest, *, owner: str, after: tuple[datetime | None, str] | None = None
    ) -> tuple[Sequence[Task], int]:
        return await self._store.list(query, owner=owner, after=after)

    async def events(self, task_id: str, after: int) -> Sequence[Envelope]:
        return await self._store.events(task_id, after)

    async def is_task_active(self, task_id: str) -> bool:
        return await self._store.is_task_active(task_id)

    async def is_task_finalized(self, task_id: str) -> bool:
        return await self._store.is_task_finalized(task_id)


class Obliging:
    """Does what the first part of a message says."""

    def __init__(self) -> None:
        # Tasks on hold, by context; a message "release" in the context lets them go on.
        self._released: defaultdict[str, trio.Event] = defaultdict(trio.Event)

    async def execute(self, context: RequestContext, updater: TaskUpdater) -> None:
        assert context.message is not None
        first, *rest = context.message.parts
        order, _, argument = (first.text or "").partition(" ")
        match order:
            case "echo":
                await self._echo(context.message, rest, updater, context)
            case "reply":
                await updater.reply(rest or "A direct reply.")
            case "ask":
                await updater.require_input("And then?")
            case "hold":
                await updater.start_work()
                await self._released[context.context_id].wait()
                await updater.complete("Released.")
            case "release":
                self._released[context.context_id].set()
                await updater.reply("They are released.")
            case "refuse":
                raise getattr(errors, argument)
            case "fail":
                raise RuntimeError("a secret of the agent")
            case "lose":
                await updater.start_work()
                await updater.add_artifact("Nobody sees this.", name=UNSTORABLE)
            case "nothing":
                pass

    async def _echo(
        self, message: Message, parts: Sequence[object], updater: TaskUpdater, context: RequestContext
    ) -> None:
        said = parts or ["Nothing."]
        await updater.start_work(said)
        await updater.add_artifact(said, name="echo", metadata=message.metadata)
        tenant = {"tenant": context.tenant} if context.tenant else {}
        metadata = {**(message.metadata or {}), **tenant}
        await updater.update_status(TaskState.COMPLETED, said, metadata=metadata or None)


def make_agents() -> dict[str, Agent]:
    """Return the agents by name."""
    card = agent_card("Peer", "Says back what it is told.", modes=MODES)
    extended = attrs.evolve(
        card, skills=(*card.skills, AgentSkill(id="more", name="More", description="-", tags=("more",)))
    )
    extension = AgentExtension(uri=EXTENSION, required=True)
    # Comments come soon, so that a test need not wait for them.
    limits = Limits(keep_alive=0.05, header_delay=0.05)
    return {
        "full": Agent(
            card,
            Obliging(),
            store=FailingStore(),
            push=InMemoryPushConfigStore(),
            extended_card=extended,
            limits=limits,
        ),
        "bare": Agent(attrs.evolve(card, capabilities=AgentCapabilities(streaming=False)), Obliging()),
        "strict": Agent(
            attrs.evolve(card, capabilities=AgentCapabilities(extensions=(extension,))),
            Obliging(),
            extended_card=lambda _principal: None,
        ),
    }


async def main() -> None:
    """Serve the agents until told to end."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            served = {
                name: await nursery.start(partial(serve, agent, grace=1)) for name, agent in make_agents().items()
            }
            sys.stdout.write(json.dumps({name: one.url for name, one in served.items()}) + "\n")
            sys.stdout.flush()
            await anext(signals)
            for one in served.values():
                one.shutdown()


if __name__ == "__main__":
    trio.run(main)
