"""Serving an agent with the built-in server."""

import logging
import ssl
from collections.abc import Callable

import attrs
import trio

from .agent import Agent
from .app import A2AApp, require_public_url
from .http import HttpServer, listener_addresses, open_listeners, serve_http

__all__ = ["Served", "serve"]

_logger = logging.getLogger("trio_a2a.server")


@attrs.frozen(kw_only=True)
class Served:
    """A running server, as `serve` hands it out when it is ready.

    Attributes:
        url: Where clients reach it.
        grpc_target: Where gRPC clients reach it, as host:port; None if it does not serve gRPC.
        shutdown: Begins to end it: new connections are refused, running requests have ``grace`` seconds. Returns at
            once; `serve` returns when it is done.
    """

    url: str
    grpc_target: str | None
    shutdown: Callable[[], None]


async def serve(
    agent_or_app: Agent | A2AApp,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    grpc_port: int | None = None,
    url: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
    grace: float = 10.0,
    task_status: trio.TaskStatus[Served] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an agent until `Served.shutdown` is called.

    ``served = await nursery.start(serve, agent)`` gives the `Served` when connections are taken.

    Args:
        agent_or_app: The agent, or the application that was made for it.
        host: The address to listen on.
        port: The port; 0 for a free one.
        grpc_port: The port for gRPC.
        url: The URL that the card gives; by default that of the listener.
        ssl_context: For HTTPS.
        grace: Seconds that running requests have when it is shut down.
        task_status: Gets the `Served`.

    Raises:
        OSError: The address cannot be listened on.
        TypeError: It is neither an agent nor an application.
        ValueError: ``grpc_port`` was given: this version serves JSON-RPC and HTTP+JSON only; or the URL is none that
            clients can use, or the grace is negative.

    Cancellation: everything ends at once.
    """
    if grpc_port is not None:
        raise ValueError("grpc_port: this version of trio_a2a does not serve gRPC; leave it out")
    app = agent_or_app if isinstance(agent_or_app, A2AApp) else A2AApp(agent_or_app)
    if url is not None:
        require_public_url(url)
    if not grace >= 0:
        raise ValueError(f"grace is a number of seconds, 0 or more, not {grace!r}")
    listeners = await open_listeners(host, port, ssl_context=ssl_context)
    if url is None:
        bound_host, bound_port = listener_addresses(listeners)[0]
        scheme = "http" if ssl_context is None else "https"
        # An address that means "all" is no address to connect to.
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bound_host, bound_host)  # noqa: S104
        url = f"{scheme}://{f'[{shown}]' if ':' in shown else shown}:{bound_port}"
    app._served_url = url.rstrip("/")
    await serve_http(
        app,
        listeners,
        limits=app.agent.limits.http(),
        grace=grace,
        task_status=_Started(app.agent.card.name, url, task_status),
    )


@attrs.frozen
class _Started(trio.TaskStatus[HttpServer]):
    """Says that the HTTP server is ready, in the terms of `serve`."""

    name: str
    url: str
    task_status: trio.TaskStatus[Served]

    def started(self, value: HttpServer) -> None:
        _logger.info("serving %s at %s", self.name, self.url)
        self.task_status.started(Served(url=self.url, grpc_target=None, shutdown=value.shutdown))
