"""An agent as it is served: its card, its executor, and what it is served with."""

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, final

import attrs

from ..abc import AgentExecutor, Authenticator, TaskStateProvider, TaskStore, TaskStreamLifecycleHook
from ..agents import RequestContext, TaskUpdater
from ..errors import ErrorTable
from ..streams.hooks import HOOK_METHODS, require_coroutines
from ..streams.manager import PROVIDER_METHODS, STORE_METHODS
from ..types import AgentCapabilities, AgentCard, AgentSkill
from .limits import Limits

__all__ = ["Agent", "agent_card"]

AgentFunction = Callable[[RequestContext, TaskUpdater], Awaitable[None]]


def agent_card(
    name: str,
    description: str,
    *,
    version: str = "1.0.0",
    skills: Sequence[AgentSkill] = (),
    modes: Sequence[str] = ("text/plain",),
) -> AgentCard:
    """Return a card with the least that the protocol asks for.

    Interfaces and capabilities are filled in when it is served, from what is served. A card must list a skill; without
    one, a single skill stands for the agent.

    Args:
        name: The agent's name.
        description: What it does.
        version: The agent's own version.
        skills: Its skills.
        modes: Media types that it takes and gives.

    Raises:
        ValueError: The name or the version is empty, or there are no modes.
    """
    if not name or not version or not modes:
        raise ValueError("a card needs a name, a version and at least one media type")
    if not skills:
        id_ = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "agent"
        skills = (AgentSkill(id=id_, name=name, description=description, tags=("agent",)),)
    return AgentCard(
        name=name,
        description=description,
        supported_interfaces=(),
        version=version,
        capabilities=AgentCapabilities(),
        default_input_modes=tuple(modes),
        default_output_modes=tuple(modes),
        skills=tuple(skills),
    )


@final
class _Function(AgentExecutor):
    """An executor made of an async callable."""

    def __init__(self, function: AgentFunction) -> None:
        self._function = function

    def __repr__(self) -> str:
        return f"<executor {getattr(self._function, '__qualname__', self._function)}>"

    async def execute(self, context: RequestContext, updater: TaskUpdater) -> None:
        """Call the function."""
        await self._function(context, updater)


def _executor(agent: Any) -> AgentExecutor:
    if inspect.isclass(agent):
        raise TypeError(
            f"an agent is an object or a function, not the class {agent.__name__}; give {agent.__name__}(...)"
        )
    execute = getattr(agent, "execute", None)
    if execute is not None:
        for name in ("execute", "cancel", "resume"):
            method = getattr(agent, name, None)
            if method is not None and not inspect.iscoroutinefunction(method):
                raise TypeError(
                    f"executor: {type(agent).__name__}.{name} is no coroutine function; write it as `async def {name}`"
                )
        executor: AgentExecutor = agent
        return executor
    called = getattr(agent, "__call__", None)  # noqa: B004 - an instance with an async __call__ is fine
    if not inspect.iscoroutinefunction(agent) and not inspect.iscoroutinefunction(called):
        raise TypeError(
            f"an agent is an `async def agent(context, updater)`, or an object with such an `execute`; not {agent!r}"
        )
    return _Function(agent)


@final
class Agent:
    """An agent to serve.

    Args:
        card: Its card. Capabilities that are not set follow what is given here; a card without interfaces is filled
            with those that are served.
        executor: ``async def agent(context, updater)``, or an object with such an ``execute``.
        store: Where its tasks are kept; in memory by default.
        state_provider: Says whether a task is active or finalized; the store by default, if it can.
        hook: Sees subscribers come and go.
        authenticator: Finds out who is calling; without one everybody is the anonymous principal.
        limits: The bounds of its server.
        error_table: The version of the specification whose HTTP and gRPC statuses are used.

    Raises:
        TypeError: The executor is no coroutine function; or it, the store, the provider, the hook or the authenticator
            lacks a method, or has one that is none.
        ValueError: The error table is unknown, or the card declares what is not configured.
    """

    def __init__(
        self,
        card: AgentCard,
        executor: AgentExecutor | AgentFunction,
        *,
        store: TaskStore | None = None,
        state_provider: TaskStateProvider | None = None,
        hook: TaskStreamLifecycleHook | None = None,
        authenticator: Authenticator | None = None,
        limits: Limits | None = None,
        error_table: ErrorTable = "1.0.1",
    ) -> None:
        if error_table not in {"1.0.0", "1.0.1"}:
            raise ValueError(f'error_table is "1.0.0" or "1.0.1", not {error_table!r}')
        for role, given, methods in (
            ("store", store, STORE_METHODS),
            ("state_provider", state_provider, PROVIDER_METHODS),
            ("hook", hook, HOOK_METHODS),
            ("authenticator", authenticator, ("authenticate",)),
        ):
            if given is not None:
                require_coroutines(given, role, methods)
        self.card = _completed(card)
        self.executor = _executor(executor)
        self.store = store
        self.state_provider = state_provider
        self.hook = hook
        self.authenticator = authenticator
        self.limits = limits if limits is not None else Limits()
        self.error_table = error_table

    def __repr__(self) -> str:
        return f"<Agent {self.card.name!r}>"


def _completed(card: AgentCard) -> AgentCard:
    """Return the card with its capabilities as they are."""
    declared = card.capabilities
    if declared.push_notifications:
        raise ValueError("the card declares push_notifications, but the agent has none configured")
    if declared.extended_agent_card:
        raise ValueError("the card declares extended_agent_card, but the agent has none configured")
    if declared.streaming is None:
        card = attrs.evolve(card, capabilities=attrs.evolve(declared, streaming=True))
    return card
