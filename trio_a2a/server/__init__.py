"""Serving agents: the operations of the protocol, their bindings, and the built-in server."""

from .agent import Agent as Agent, agent_card as agent_card
from .app import A2AApp as A2AApp
from .auth import BearerTokenAuthenticator as BearerTokenAuthenticator, NamedPrincipal as NamedPrincipal
from .limits import Limits as Limits
from .serve import Served as Served, serve as serve

__all__ = [
    "A2AApp",
    "Agent",
    "BearerTokenAuthenticator",
    "Limits",
    "NamedPrincipal",
    "Served",
    "agent_card",
    "serve",
]
