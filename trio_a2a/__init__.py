"""A2A (Agent2Agent) for Trio: be an agent, and use agents.

The names of daily use are here; each sub-package has the rest of its own: `trio_a2a.types` every value,
`trio_a2a.errors` every error, `trio_a2a.abc` what a program may implement, `trio_a2a.streams` the stream core,
`trio_a2a.server` serving, `trio_a2a.client` calling. `connect` is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

from .abc import AgentExecutor as AgentExecutor
from .agents import RequestContext as RequestContext, TaskUpdater as TaskUpdater
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

if TYPE_CHECKING:
    from .client import connect as connect

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


def __getattr__(name: str) -> Any:
    if name == "connect":
        from .client import connect  # noqa: PLC0415 - who only serves does not pay for the client

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
