"""A2A (Agent2Agent) for Trio: be an agent, and use agents.

The names of daily use are here; each sub-package has the rest of its own: `trio_a2a.types` every value,
`trio_a2a.errors` every error, `trio_a2a.abc` what a program may implement, `trio_a2a.streams` the stream core,
`trio_a2a.server` serving, `trio_a2a.client` calling.

Nothing of it is imported before it is used: a program that calls agents does not pay for serving them, and the command
line answers before either is there. ``import trio_a2a`` is enough to use every name below it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import (
        abc as abc,
        agents as agents,
        cli as cli,
        client as client,
        clock as clock,
        errors as errors,
        server as server,
        stores as stores,
        streams as streams,
        testing as testing,
        types as types,
        wire as wire,
    )
    from .abc import AgentExecutor as AgentExecutor
    from .agents import RequestContext as RequestContext, TaskUpdater as TaskUpdater
    from .client import connect as connect
    from .errors import A2AError as A2AError
    from .server import A2AApp as A2AApp, Agent as Agent, agent_card as agent_card, serve as serve
    from .stores import InMemoryTaskStore as InMemoryTaskStore
    from .streams import open_queue_manager as open_queue_manager
    from .types import (
        AgentCard as AgentCard,
        Artifact as Artifact,
        Message as Message,
        Part as Part,
        Role as Role,
        Task as Task,
        TaskArtifactUpdateEvent as TaskArtifactUpdateEvent,
        TaskState as TaskState,
        TaskStatus as TaskStatus,
        TaskStatusUpdateEvent as TaskStatusUpdateEvent,
    )

__all__ = [
    "A2AApp",
    "A2AError",
    "Agent",
    "AgentCard",
    "AgentExecutor",
    "Artifact",
    "InMemoryTaskStore",
    "Message",
    "Part",
    "RequestContext",
    "Role",
    "Task",
    "TaskArtifactUpdateEvent",
    "TaskState",
    "TaskStatus",
    "TaskStatusUpdateEvent",
    "TaskUpdater",
    "agent_card",
    "connect",
    "open_queue_manager",
    "serve",
]

_SUB_PACKAGES = (
    "abc",
    "agents",
    "cli",
    "client",
    "clock",
    "errors",
    "server",
    "stores",
    "streams",
    "testing",
    "types",
    "wire",
)

# Where each name comes from; a sub-package comes from itself.
_HOMES = {
    "A2AApp": "server",
    "A2AError": "errors",
    "Agent": "server",
    "AgentCard": "types",
    "AgentExecutor": "abc",
    "Artifact": "types",
    "InMemoryTaskStore": "stores",
    "Message": "types",
    "Part": "types",
    "RequestContext": "agents",
    "Role": "types",
    "Task": "types",
    "TaskArtifactUpdateEvent": "types",
    "TaskState": "types",
    "TaskStatus": "types",
    "TaskStatusUpdateEvent": "types",
    "TaskUpdater": "agents",
    "agent_card": "server",
    "connect": "client",
    "open_queue_manager": "streams",
    "serve": "server",
    **{name: name for name in _SUB_PACKAGES},
}

# A type checker reads the imports above, so that a name that is not there is an error.
if not TYPE_CHECKING:  # pragma: no branch

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{home}")
        found = module if home == name else getattr(module, name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
