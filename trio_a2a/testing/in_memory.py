"""An agent and its client in one process, with everything between them but sockets.

    async with serve_in_memory(agent) as client:
        task = await client.send("hello")

The server is the built-in one, with its HTTP parser, its limits and its lifespan; the client is what `connect` gives.
Only the network is another: bounded streams in memory (`memory_streams`). So a test sees what a program sees, but
nothing waits for an operating system: under a `trio.testing.MockClock` a grace period of fifteen seconds takes no time.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, final
from urllib.parse import urlsplit

import trio

from ..beside import block_outcome
from ..client import Auth, Client, Interceptor, connect
from ..server import A2AApp, Agent
from ..server.agent import AgentFunction, agent_of
from ..server.http import HttpServer, HttpStatistics, serve_http
from ..streams import QueueManager
from .memory_streams import MemoryNetwork

if TYPE_CHECKING:
    from ..abc import AgentExecutor
    from ..wire.signing import CardKeys

__all__ = ["IN_MEMORY_URL", "InMemoryServer", "open_in_memory", "serve_in_memory"]

IN_MEMORY_URL: Final = "http://agent.test"
"""Where the agent is, unless its application has a URL of its own. The domain is one that exists nowhere."""

# Those of HTTP: nothing else goes over a network in memory.
_TRANSPORTS = ("JSONRPC", "HTTP+JSON")

_DRAIN_SECONDS = 1.0
"""What connections have when the block is left: their clients are gone by then, so only a handler that shields itself
from its cancellation takes any of it."""


@final
class InMemoryServer:
    """A running server without sockets, and the way to it. `open_in_memory` makes it.

    Attributes:
        app: The application that is served.
        url: Where clients reach it.
    """

    def __init__(self, app: A2AApp, url: str, http: HttpServer, network: MemoryNetwork) -> None:
        self.app = app
        self.url = url
        self._http = http
        self._network = network

    def __repr__(self) -> str:
        return f"<InMemoryServer of {self.app.agent.card.name!r} at {self.url}>"

    @property
    def manager(self) -> QueueManager:
        """The stream core of the application: subscriber counts, statistics, queues.

        Raises:
            RuntimeError: The server has ended.
        """
        running = self.app._running
        if running is None:
            raise RuntimeError("the server has ended; use its manager inside the block")
        return running.manager

    def statistics(self) -> HttpStatistics:
        """Return what the HTTP server has done so far."""
        return self._http.statistics()

    def break_connections(self) -> int:
        """Break every connection, as a network that fails; return how many there were.

        What was under way is lost, and both sides notice. Clients can connect again.
        """
        return self._network.break_connections()

    def connect(
        self,
        *,
        transports: Sequence[str] = _TRANSPORTS,
        auth: Auth | Sequence[Auth] | Mapping[str, Auth] | None = None,
        headers: Mapping[str, str] | None = None,
        verify_card: "CardKeys | None" = None,
        timeout: float | None = 60.0,
        silence: float | None = 60.0,
        extensions: Iterable[str] = (),
        interceptors: Sequence[Interceptor] = (),
        check_capabilities: bool = True,
    ) -> AbstractAsyncContextManager[Client]:
        """Connect a client, for the length of a block; there may be several at a time.

        Args:
            transports: The bindings that may be used, the preferred one first.
            auth: Its credentials, as for `connect`.
            headers: Headers of every call and of fetching the card, beside those that the client makes itself.
            verify_card: The keys that are trusted to sign cards, as for `connect`.
            timeout: Seconds on Trio's clock that a call may take; None: any time.
            silence: Seconds without a byte after which a stream counts as broken; None: never.
            extensions: URIs of extensions that every call activates.
            interceptors: Code around each call.
            check_capabilities: Refuse at once what the card says that the agent cannot do. False: ask the agent.

        Raises:
            ClientError: As `connect`; a TransportError if the server has ended.
            A2AError: The server refuses to show the card.
            ImportError: The extra ``client`` is not installed.
        """
        from .memory_http import MemoryTransport  # noqa: PLC0415 - the library behind it is an extra

        return connect(
            self.url,
            auth=auth,
            transports=transports,
            verify_card=verify_card,
            timeout=timeout,
            silence=silence,
            extensions=extensions,
            headers=headers,
            interceptors=interceptors,
            check_capabilities=check_capabilities,
            http_transport=partial(MemoryTransport, self._network),
        )


@asynccontextmanager
async def open_in_memory(
    agent_or_app: "Agent | A2AApp | AgentExecutor | AgentFunction", *, url: str | None = None
) -> AsyncIterator[InMemoryServer]:
    """Run an agent's server without sockets, for the length of a block.

    For several clients, for a network that breaks, and for a look into the server; where one client is enough,
    `serve_in_memory` is shorter. Leaving the block ends the server in order: what it has accepted is stored, runs are
    cancelled, nothing is left running. What the block raises leaves as it is, not in a group.

    Args:
        agent_or_app: An `Agent`; an `A2AApp`, whose methods can then be used beside the client; or an executor or async
            callable, for which a card is made of its name and docstring.
        url: The URL of the agent, by default that of the application, or `IN_MEMORY_URL`. It may be of "https", which
            is taken as it is, without TLS; a path in it is where the application is mounted.

    Raises:
        TypeError: It is no agent.
        ValueError: The URL is not absolute.
        LifespanError: The application could not start.
        BaseExceptionGroup: The server failed while the block ran, which is a bug in it.

    Cancellation: everything is cancelled at once.
    """
    app = agent_or_app if isinstance(agent_or_app, A2AApp) else A2AApp(agent_of(agent_or_app), url=url)
    base = (url or app._url or IN_MEMORY_URL).rstrip("/")
    parts = urlsplit(base)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"url is absolute, http://agent.test, not {url!r}")
    # The application, and a card that lists its interfaces itself, may give names of their own to clients.
    named = (app._url or base, *(interface.url for interface in app.agent.card.supported_interfaces))
    network = MemoryNetwork({parts.hostname, *filter(None, (urlsplit(name).hostname for name in named))})
    own: BaseException | None = None
    hidden: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            serving = partial(
                serve_http,
                app,
                [network],
                limits=app.agent.limits.http(),
                grace=_DRAIN_SECONDS,
                scheme=parts.scheme,
                root_path=parts.path,
            )
            http: HttpServer = await nursery.start(serving)
            try:
                yield InMemoryServer(app, base, http, network)
            except BaseException as exc:
                # It does not go through the nursery, which would put it into a group; it is raised below.
                own = exc
                nursery.cancel_scope.cancel(reason="an exception left the block")
            else:
                network.close_connections()
                http.shutdown()
    except BaseException as exc:
        hidden = exc
    outcome = block_outcome(own, hidden, "the block failed, and so did the server")
    if outcome is not None:
        try:
            raise outcome
        finally:
            del own, hidden, outcome  # they hold this frame, which holds them


@asynccontextmanager
async def serve_in_memory(
    agent_or_app: "Agent | A2AApp | AgentExecutor | AgentFunction",
    *,
    url: str | None = None,
    transports: Sequence[str] = _TRANSPORTS,
    auth: Auth | Sequence[Auth] | Mapping[str, Auth] | None = None,
    headers: Mapping[str, str] | None = None,
    verify_card: "CardKeys | None" = None,
    timeout: float | None = 60.0,
    silence: float | None = 60.0,
    extensions: Iterable[str] = (),
    interceptors: Sequence[Interceptor] = (),
    check_capabilities: bool = True,
) -> AsyncIterator[Client]:
    """Serve an agent without sockets, and connect a client to it, for the length of a block.

    ``async with serve_in_memory(agent) as client: task = await client.send("hello")``. Give it an `A2AApp` to use that
    application's methods, such as `A2AApp.updater`, beside the client. Leaving the block ends the client, then the
    server, as `open_in_memory` says.

    Args:
        agent_or_app: As for `open_in_memory`.
        url: As for `open_in_memory`.
        transports: As for `InMemoryServer.connect`, like the others below.
        auth: Credentials.
        headers: Headers of every call and of fetching the card.
        verify_card: The keys that are trusted to sign cards.
        timeout: Seconds that a call may take.
        silence: Seconds without a byte after which a stream counts as broken.
        extensions: URIs of extensions that every call activates.
        interceptors: Code around each call.
        check_capabilities: Refuse at once what the card says that the agent cannot do.

    Raises:
        TypeError: It is no agent.
        ValueError: The URL is not absolute.
        LifespanError: The application could not start.
        ClientError: As `connect`.
        A2AError: The server refuses to show the card.
        ImportError: The extra ``client`` is not installed.
        BaseExceptionGroup: The server failed while the block ran, which is a bug in it.

    Cancellation: everything is cancelled at once.
    """
    async with (
        open_in_memory(agent_or_app, url=url) as server,
        server.connect(
            transports=transports,
            auth=auth,
            headers=headers,
            verify_card=verify_card,
            timeout=timeout,
            silence=silence,
            extensions=extensions,
            interceptors=interceptors,
            check_capabilities=check_capabilities,
        ) as client,
    ):
        yield client
