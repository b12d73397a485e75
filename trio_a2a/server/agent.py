"""An agent as it is served: its card, its executor, and what it is served with."""

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, final

import attrs

from ..abc import (
    AgentExecutor,
    Authenticator,
    Principal,
    PushConfigStore,
    TaskStateProvider,
    TaskStore,
    TaskStreamLifecycleHook,
)
from ..agents import RequestContext, TaskUpdater
from ..errors import ErrorTable, InvalidParamsError
from ..streams.hooks import HOOK_METHODS, require_coroutines
from ..streams.manager import PROVIDER_METHODS, STORE_METHODS
from ..types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from ..wire import from_dict, to_dict
from .card import with_interfaces
from .limits import Limits
from .page_tokens import PageTokens

__all__ = ["Agent", "agent_card", "agent_of"]

AgentFunction = Callable[[RequestContext, TaskUpdater], Awaitable[None]]
ExtendedCard = Callable[[Principal], AgentCard | Awaitable[AgentCard | None] | None]
PUSH_METHODS = ("put", "get", "list", "delete")


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
        extended_card: The card for callers that are known, or a function (it may be async) of the principal that
            returns one, or None where there is none for this caller.
        authenticator: Finds out who is calling; without one everybody is the anonymous principal.
        push: Where push configurations are kept; without one the agent does not push.
        limits: The bounds of its server.
        error_table: The version of the specification whose HTTP and gRPC statuses are used.
        page_token_key: A secret of at least 16 bytes that all processes of a server share, so that a page token of one
            is good at the others; by default tokens are good within the process.
        echo_push_secrets: Whether reading a push configuration shows its token and credentials.
        check_input_modes: Whether a part with a media type that neither the card nor a skill lists is refused.
        card_signer: Signs each card that is served, such as ``partial(sign_card, key=..., kid=...)``.

    Raises:
        TypeError: The executor is no coroutine function; or it, the store, the provider, the hook or the authenticator
            lacks a method, or has one that is none.
        ValueError: The error table is unknown; or the card declares what is not configured, has one skill id twice, or
            requires a security scheme that it does not describe.
    """

    def __init__(
        self,
        card: AgentCard,
        executor: AgentExecutor | AgentFunction,
        *,
        store: TaskStore | None = None,
        state_provider: TaskStateProvider | None = None,
        hook: TaskStreamLifecycleHook | None = None,
        extended_card: AgentCard | ExtendedCard | None = None,
        authenticator: Authenticator | None = None,
        push: PushConfigStore | None = None,
        limits: Limits | None = None,
        error_table: ErrorTable = "1.0.1",
        page_token_key: bytes | None = None,
        echo_push_secrets: bool = False,
        check_input_modes: bool = True,
        card_signer: Callable[[AgentCard], AgentCard] | None = None,
    ) -> None:
        if error_table not in {"1.0.0", "1.0.1"}:
            raise ValueError(f'error_table is "1.0.0" or "1.0.1", not {error_table!r}')
        if not isinstance(card, AgentCard):
            raise TypeError(f"card is an AgentCard, such as agent_card(...) makes, not {card!r}")
        if limits is not None and not isinstance(limits, Limits):
            raise TypeError(f"limits is a Limits, not {limits!r}")
        for role, given, methods in (
            ("store", store, STORE_METHODS),
            ("state_provider", state_provider, PROVIDER_METHODS),
            ("hook", hook, HOOK_METHODS),
            ("authenticator", authenticator, ("authenticate",)),
            ("push", push, PUSH_METHODS),
        ):
            if given is not None:
                require_coroutines(given, role, methods)
        self.push = push
        self.extended_card = extended_card
        self.card = self.completed(card)
        if isinstance(extended_card, AgentCard):
            self.completed(extended_card)  # what it declares wrongly is told now, and not to its first caller
        elif extended_card is not None and not callable(extended_card):
            raise TypeError(f"extended_card is an AgentCard, or a function that returns one; not {extended_card!r}")
        if card_signer is not None and not callable(card_signer):
            raise TypeError(f"card_signer is a function of a card, not {card_signer!r}")
        self.executor = _executor(executor)
        self.store = store
        self.state_provider = state_provider
        self.hook = hook
        self.authenticator = authenticator
        self.limits = limits if limits is not None else Limits()
        self.error_table = error_table
        self.page_token_key = PageTokens(page_token_key).key
        self.echo_push_secrets = echo_push_secrets
        self.check_input_modes = check_input_modes
        self._card_signer = card_signer

    def __repr__(self) -> str:
        return f"<Agent {self.card.name!r}>"

    def completed(self, card: AgentCard) -> AgentCard:
        """Return a card of this agent with its capabilities: what it leaves open follows what is configured.

        Raises:
            ValueError: It lacks what a card must have, declares what is not configured, two skills have one id, or it
                requires a security scheme that it does not describe.
        """
        _check_content(card)
        skill_ids = [skill.id for skill in card.skills]
        if len(set(skill_ids)) < len(skill_ids):
            raise ValueError(f"each skill of a card has an id of its own, these have not: {skill_ids}")
        requirements = (*card.security_requirements, *(r for skill in card.skills for r in skill.security_requirements))
        unknown = {name for requirement in requirements for name in requirement.schemes} - set(card.security_schemes)
        if unknown:
            raise ValueError(f"the card requires security schemes that its security_schemes lack: {sorted(unknown)}")
        push, extended_card = self.push is not None, self.extended_card is not None
        declared = card.capabilities
        for name, configured, argument in (
            ("push_notifications", push, "push"),
            ("extended_agent_card", extended_card, "extended_card"),
        ):
            if getattr(declared, name) and not configured:
                raise ValueError(f"the card declares {name}, but the agent has none: give Agent({argument}=...)")
        capabilities = attrs.evolve(
            declared,
            streaming=_given(declared.streaming, default=True),
            push_notifications=_given(declared.push_notifications, default=push or None),
            extended_agent_card=_given(declared.extended_agent_card, default=extended_card or None),
        )
        return attrs.evolve(card, capabilities=capabilities)

    def signed(self, card: AgentCard) -> AgentCard:
        """Return a card as it is served: signed, if the agent signs its cards."""
        return card if self._card_signer is None else self._card_signer(card)


def _check_content(card: AgentCard) -> None:
    """Read the card as a client would, so that what it must have and has not is known before it is served."""
    interface = AgentInterface(url="http://localhost", protocol_binding="JSONRPC", protocol_version="1.0")
    try:
        from_dict(to_dict(with_interfaces(card, (interface,))), AgentCard)
    except InvalidParamsError as exc:
        raise ValueError(f"the card cannot be served: {exc}") from None
    uris = [extension.uri for extension in card.capabilities.extensions]
    if not all(uris) or len(set(uris)) < len(uris):
        raise ValueError(f"each extension of a card has a uri of its own, these have not: {uris}")


def _given(declared: bool | None, *, default: bool | None) -> bool | None:
    return default if declared is None else declared


def agent_of(given: "Agent | AgentExecutor | AgentFunction") -> Agent:
    """Return the agent, or make one with a card of the name and docstring of what is given.

    Args:
        given: An agent, an executor, or an async callable; also a `functools.partial` of one.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(given, Agent):
        return given
    named: Any = given
    while isinstance(named, partial):
        named = named.func
    name = getattr(named, "__name__", type(named).__name__)
    return Agent(agent_card(name, (inspect.getdoc(named) or f"The agent {name}.").strip()), given)
