"""The agent card: what an agent says about itself."""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from .security import SecurityRequirement, SecurityScheme
from .struct import copy_struct
from .value import Value, mapping_of, sequence_of

__all__ = [
    "AgentCapabilities",
    "AgentCard",
    "AgentCardSignature",
    "AgentExtension",
    "AgentInterface",
    "AgentProvider",
    "AgentSkill",
]


def _strings(values: Iterable[str]) -> tuple[str, ...]:
    return sequence_of(str, values)


def _requirements(values: Iterable[SecurityRequirement]) -> tuple[SecurityRequirement, ...]:
    return sequence_of(SecurityRequirement, values)


@attrs.frozen(kw_only=True)
class AgentInterface(Value):
    """One endpoint where the agent is reachable.

    Attributes:
        url: An absolute URL for HTTP bindings, ``host:port`` for gRPC.
        protocol_binding: ``JSONRPC``, ``GRPC``, ``HTTP+JSON``, or the URI of a custom binding.
        tenant: A routing key. Where it is set, clients repeat it in every request to this interface.
        protocol_version: Major and minor version of the protocol that is served here, such as ``1.0``.
    """

    url: str
    protocol_binding: str
    tenant: str = ""
    protocol_version: str


@attrs.frozen(kw_only=True)
class AgentProvider(Value):
    """Who operates the agent.

    Attributes:
        url: The provider's web site.
        organization: The provider's name.
    """

    url: str
    organization: str


@attrs.frozen(kw_only=True)
class AgentExtension(Value):
    """The declaration of an extension.

    Attributes:
        uri: Its identifier, with a version in it. Nothing works without one, though the protocol does not require it.
        description: How this agent uses it.
        required: Clients must activate it or are refused.
        params: Its configuration.
    """

    uri: str = ""
    description: str = ""
    required: bool = False
    params: dict[str, Any] | None = attrs.field(default=None, converter=copy_struct)


def _extensions(values: Iterable[AgentExtension]) -> tuple[AgentExtension, ...]:
    return sequence_of(AgentExtension, values)


@attrs.frozen(kw_only=True)
class AgentCapabilities(Value):
    """Optional features of the protocol. None and False mean the same to a client, but differ in a signed card.

    Attributes:
        streaming: Messages can be answered with a stream, and tasks subscribed to.
        push_notifications: Webhooks can be registered.
        extensions: The extensions that the agent knows.
        extended_agent_card: Authenticated clients can ask for a fuller card.
    """

    streaming: bool | None = None
    push_notifications: bool | None = None
    extensions: tuple[AgentExtension, ...] = attrs.field(default=(), converter=_extensions)
    extended_agent_card: bool | None = None


@attrs.frozen(kw_only=True)
class AgentSkill(Value):
    """One ability of the agent.

    Attributes:
        id: Unique in the card.
        name: For people.
        description: For people, and for programs that choose an agent.
        tags: Keywords.
        examples: Sample prompts.
        input_modes: Media types that it accepts, where they differ from the card's.
        output_modes: Media types that it produces, where they differ from the card's.
        security_requirements: What it requires beyond the card's requirements.
    """

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = attrs.field(converter=_strings)
    examples: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    input_modes: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    output_modes: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    security_requirements: tuple[SecurityRequirement, ...] = attrs.field(default=(), converter=_requirements)


@attrs.frozen(kw_only=True)
class AgentCardSignature(Value):
    """A detached signature over the canonical card (JWS, RFC 7515).

    Attributes:
        protected: The protected header, JSON in base64url.
        signature: The bytes of the signature in base64url.
        header: The unprotected header.
    """

    protected: str
    signature: str
    header: dict[str, Any] | None = attrs.field(default=None, converter=copy_struct)


def _interfaces(values: Iterable[AgentInterface]) -> tuple[AgentInterface, ...]:
    return sequence_of(AgentInterface, values)


def _schemes(values: Mapping[str, SecurityScheme]) -> dict[str, SecurityScheme]:
    return mapping_of(SecurityScheme, values)


def _skills(values: Iterable[AgentSkill]) -> tuple[AgentSkill, ...]:
    return sequence_of(AgentSkill, values)


def _signatures(values: Iterable[AgentCardSignature]) -> tuple[AgentCardSignature, ...]:
    return sequence_of(AgentCardSignature, values)


@attrs.frozen(kw_only=True)
class AgentCard(Value):
    """What an agent says about itself.

    Attributes:
        name: For people.
        description: What the agent does.
        supported_interfaces: Where it is reachable, the preferred endpoint first.
        provider: Who operates it.
        version: The agent's own version, not the protocol's.
        documentation_url: Where its documentation lies.
        capabilities: The optional features that it has.
        security_schemes: Ways to authenticate, by name.
        security_requirements: Alternatives, of which a caller satisfies one; none: no requirement.
        default_input_modes: Media types that it accepts.
        default_output_modes: Media types that it produces.
        skills: Its abilities.
        signatures: Signatures over the card.
        icon_url: Where an icon lies.
    """

    name: str
    description: str
    supported_interfaces: tuple[AgentInterface, ...] = attrs.field(converter=_interfaces)
    provider: AgentProvider | None = None
    version: str
    documentation_url: str | None = None
    capabilities: AgentCapabilities
    security_schemes: dict[str, SecurityScheme] = attrs.field(factory=dict, converter=_schemes)
    security_requirements: tuple[SecurityRequirement, ...] = attrs.field(default=(), converter=_requirements)
    default_input_modes: tuple[str, ...] = attrs.field(converter=_strings)
    default_output_modes: tuple[str, ...] = attrs.field(converter=_strings)
    skills: tuple[AgentSkill, ...] = attrs.field(converter=_skills)
    signatures: tuple[AgentCardSignature, ...] = attrs.field(default=(), converter=_signatures)
    icon_url: str | None = None
