"""An agent as an ASGI 3 application.

`A2AApp` is plain ASGI with a table of routes: it runs in the built-in server, in any other that runs its applications
in Trio, and mounted in another application. It works between the start and the end of its `running` block, which the
lifespan protocol opens, or a parent that owns the lifespan (frameworks do not pass it on to what they mount).
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import final
from urllib.parse import quote, unquote, urlsplit

import attrs
import trio

from ..abc import Principal
from ..agents.context import ANONYMOUS
from ..agents.updater import TaskUpdater
from ..clock import TrioClock
from ..errors import A2AError, InternalError, MethodNotFoundError, UnavailableError
from ..streams import QueueManager, open_queue_manager
from ..types import AgentInterface
from ..wire.jsonrpc import error_response
from ..wire.rest import error_body
from .agent import Agent
from .call import Call
from .card import CARD_PATH, ServedCard, with_interfaces
from .http import Receive, Scope, Send
from .jsonrpc import JsonRpcBinding
from .operations import Operations
from .recovery import recovering
from .request import JSON_TYPE, SERVED_VERSIONS, Request, error_headers, respond
from .rest import RestBinding

__all__ = ["A2AApp"]

_logger = logging.getLogger("trio_a2a.server")

# What a raw path may hold as it is; servers that give no raw path have decoded the rest already.
_PATH_CHARACTERS = "/%:@!$&'()*+,;=~-._"

_NOT_RUNNING = UnavailableError("The agent is not running", retry_after=1)


@attrs.frozen(kw_only=True)
class _Running:
    """What there is while the application runs."""

    manager: QueueManager
    operations: Operations
    jsonrpc: JsonRpcBinding
    rest: RestBinding
    started: datetime


@final
class A2AApp:
    """Serves one agent over HTTP, as an ASGI 3 application for servers that run on Trio.

    Args:
        agent: The agent.
        rpc_path: Where JSON-RPC requests are taken; with and without a slash at the end.
        rest_path: Under which the HTTP+JSON routes lie.
        url: The URL under which clients reach the application, without ``rpc_path``; by default it is taken from the
            server, or from each request.

    Raises:
        TypeError: The agent is no `Agent`.
        ValueError: A path does not begin with a slash, or the URL is not absolute.
    """

    def __init__(self, agent: Agent, *, rpc_path: str = "/", rest_path: str = "/", url: str | None = None) -> None:
        if not isinstance(agent, Agent):
            raise TypeError(f"an A2AApp is made of an Agent, not of {agent!r}; write A2AApp(Agent(card, ...))")
        if url is not None:
            require_public_url(url)
        for path in (rpc_path, rest_path):
            if not path.startswith("/"):
                raise ValueError(f"a path begins with a slash, {path!r} does not")
        self.agent = agent
        self._rpc_path = rpc_path.rstrip("/")
        self._rest_path = rest_path.rstrip("/")
        self._url = None if url is None else url.rstrip("/")
        # Set by `serve`, which knows where it listens; the one given by the user comes first.
        self._served_url: str | None = None
        self._running: _Running | None = None
        self._card: tuple[tuple[AgentInterface, ...], ServedCard] | None = None
        # One is kept of what is made of requests: an application is reached under one name nearly always.
        self._reached: tuple[tuple[str, str], tuple[AgentInterface, ...]] | None = None
        self._extensions = frozenset(extension.uri for extension in agent.card.capabilities.extensions)

    def __repr__(self) -> str:
        return f"<A2AApp {self.agent.card.name!r}: {'running' if self._running else 'not running'}>"

    # ------------------------------------------------------------------------------------------------------ lifetime

    @asynccontextmanager
    async def running(self) -> AsyncIterator["A2AApp"]:
        """Open the agent's queues for the length of a block; requests outside one are answered 503.

        For a parent that owns the lifespan. A server that speaks the lifespan protocol does this by itself. Tasks whose
        process died are taken care of meanwhile, if the store finds them (`abc.OrphanedTasks`).

        Raises:
            RuntimeError: The application is running already.

        Cancellation: as `open_queue_manager`.
        """
        if self._running is not None:
            raise RuntimeError("this A2AApp is running already; enter running() once")
        agent = self.agent
        async with (
            open_queue_manager(agent.store, state_provider=agent.state_provider, hook=agent.hook) as manager,
            recovering(manager, agent.executor),
        ):
            operations = Operations(agent, manager)
            self._running = _Running(
                manager=manager,
                operations=operations,
                jsonrpc=JsonRpcBinding(agent, operations),
                rest=RestBinding(agent, operations),
                started=TrioClock().now(),
            )
            self._card = None
            try:
                yield self
            finally:
                self._running = None

    def updater(self, task_id: str) -> TaskUpdater:
        """Return an updater for a task, for use outside a run.

        Its methods raise TaskNotFoundError if there is no such task.

        Raises:
            RuntimeError: The application is not running.
        """
        if self._running is None:
            raise RuntimeError("this A2AApp is not running; use it inside `async with app.running()` or a server")
        return self._running.operations.updater(task_id)

    # ---------------------------------------------------------------------------------------------------------- ASGI

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI scope.

        Raises:
            RuntimeError: The server does not run it in Trio, or it is no HTTP.
        """
        if not trio.lowlevel.in_trio_run():
            raise RuntimeError(
                "A2AApp runs in Trio: use trio_a2a.serve(), or an ASGI server that runs its applications in Trio, "
                "such as Hypercorn with its trio worker"
            )
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            raise RuntimeError(f"A2AApp does not speak {scope['type']!r}")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        if self._running is not None:  # a parent runs it
            await send({"type": "lifespan.startup.complete"})
            await receive()
        else:
            started = False
            try:
                async with self.running():
                    started = True
                    await send({"type": "lifespan.startup.complete"})
                    await receive()
            except Exception as exc:
                if started:
                    raise
                # Said, since a server takes a bare exception for an application without a lifespan, and goes on.
                _logger.exception("the application could not start")
                await send({"type": "lifespan.startup.failed", "message": str(exc)})
                return
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        path = _path_below_mount(scope)
        if path == CARD_PATH:
            await self._get_card(request, send)
        elif path.rstrip("/") == self._rpc_path:
            await self._call_jsonrpc(request, receive, send)
        elif path.startswith(f"{self._rest_path}/"):
            await self._call_rest(request, receive, send, path.removeprefix(self._rest_path))
        else:
            await respond(send, 404, error_body(MethodNotFoundError("There is nothing here")), JSON_TYPE)

    async def _get_card(self, request: Request, send: Send) -> None:
        if request.method not in {"GET", "HEAD"}:
            await _method_not_allowed(send, b"GET, HEAD")
            return
        if self._running is None:
            await _unavailable(send)
            return
        card = self._served_card(request, self._running.started)
        if card.is_current(request.headers.get("if-none-match"), request.headers.get("if-modified-since")):
            await send({"type": "http.response.start", "status": 304, "headers": card.headers()})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await respond(send, 200, card.body, JSON_TYPE, card.headers())

    def _served_card(self, request: Request, started: datetime) -> ServedCard:
        interfaces = self._interfaces(request)
        if self._card is None or self._card[0] != interfaces:
            card = self.agent.signed(with_interfaces(self.agent.card, interfaces))
            self._card = interfaces, ServedCard.of(card, started)
        return self._card[1]

    def _interfaces(self, request: Request) -> tuple[AgentInterface, ...]:
        """Return the interfaces under which the request's client reaches the application, JSON-RPC first."""
        scope = request.scope
        root_path = _mount_point(scope)
        base = self._url or self._served_url
        if base is None:
            host = request.headers.get("host") or "{}:{}".format(*scope.get("server") or ("localhost", 80))
            base = f"{scope.get('scheme', 'http')}://{host}{root_path}"
        if self._reached is not None and self._reached[0] == (base, root_path):
            return self._reached[1]
        # Where it is mounted the slash belongs to its address: without one a parent redirects, at best.
        urls = {"JSONRPC": base + (self._rpc_path or ("/" if root_path else "")), "HTTP+JSON": base + self._rest_path}
        interfaces = tuple(
            AgentInterface(url=url, protocol_binding=binding, protocol_version=SERVED_VERSIONS[0])
            for binding, url in urls.items()
        )
        self._reached = (base, root_path), interfaces
        return interfaces

    async def _call_jsonrpc(self, request: Request, receive: Receive, send: Send) -> None:
        if request.method != "POST":
            await _method_not_allowed(send, b"POST")
        elif self._running is None:
            await _unavailable(send)
        else:
            binding = self._running.jsonrpc
            call = await self._call(request, send, binding)
            if call is not None:
                await binding.handle(request, receive, send, call)

    async def _call_rest(self, request: Request, receive: Receive, send: Send, path: str) -> None:
        if self._running is None:
            await respond(send, 503, error_body(_NOT_RUNNING), JSON_TYPE, error_headers(_NOT_RUNNING))
        else:
            binding = self._running.rest
            call = await self._call(request, send, binding)
            if call is not None:
                await binding.handle(request, receive, send, call, path)

    async def _call(self, request: Request, send: Send, binding: JsonRpcBinding | RestBinding) -> Call | None:
        """Find out who is calling; None if the request has been refused."""
        try:
            principal = await self._authenticated(request)
        except A2AError as exc:
            await binding.refuse(request, send, exc)
            return None
        activated = tuple(uri for uri in request.requested_extensions() if uri in self._extensions)
        return Call(principal=principal, extensions=activated, interfaces=self._interfaces(request))

    async def _authenticated(self, request: Request) -> Principal:
        authenticator = self.agent.authenticator
        if authenticator is None:
            return ANONYMOUS
        try:
            return await authenticator.authenticate(request.for_authenticator())
        except A2AError as exc:
            _logger.info("refused a caller: %s", type(exc).__name__)
            raise
        except Exception:  # boundary around user code: a failing authenticator lets nobody in
            _logger.exception("the authenticator failed")
            raise InternalError from None


def require_public_url(url: str) -> None:
    """Refuse what clients could not use as the agent's URL.

    Raises:
        TypeError: It is no text.
        ValueError: It is not absolute, or has credentials in it, which everybody could read in the card.
    """
    given: object = url
    if not isinstance(given, str):
        raise TypeError(f"url is a str, not {url!r}")
    try:
        parts = urlsplit(given)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        named = "@" not in parts.netloc
    except ValueError:
        usable = named = False
    if not usable:
        raise ValueError(f"url is absolute, https://host/path, since the card gives it to clients; {url!r} is not")
    if not named:
        raise ValueError("url has credentials in it, and the card would show them to everybody")


def _path_below_mount(scope: Scope) -> str:
    """Return the raw path below the mount point: percent-encoded, so that a slash in an id is none of the path."""
    raw: bytes | None = scope.get("raw_path")
    path = quote(scope["path"] if raw is None else raw.partition(b"?")[0], safe=_PATH_CHARACTERS)
    if not scope.get("root_path"):
        return path
    # ASGI servers pass the mount point in root_path, decoded, and differ in whether the path still has it. Clients
    # differ in what they encode, so both are compared as what they mean.
    root: str = scope.get("root_path", "").rstrip("/")
    mount = "/".join(path.split("/")[: root.count("/") + 1])
    return path[len(mount) :] if unquote(mount) == unquote(root) else path


def _mount_point(scope: Scope) -> str:
    """Return the path of the mount point, percent-encoded; servers give it decoded."""
    return quote(scope.get("root_path", ""), safe=_PATH_CHARACTERS)


async def _unavailable(send: Send) -> None:
    await respond(send, 503, error_response(None, _NOT_RUNNING), JSON_TYPE, error_headers(_NOT_RUNNING))


async def _method_not_allowed(send: Send, allowed: bytes) -> None:
    body = error_body(MethodNotFoundError("Method not allowed"), http_status=405)
    await respond(send, 405, body, JSON_TYPE, [(b"allow", allowed)])
