"""The server: accepting connections, counting them, and ending.

    serve_http
      nursery: the application's lifespan call
        nursery: connections, one task each (`connection.py`)
          nursery: one accepting task for each listener

`HttpServer.shutdown` cancels the innermost, which closes the listeners, tells every connection to take no further
request, and puts a deadline on the middle one. When its last connection is done, or the deadline has passed, the
application's lifespan is shut down, and `serve_http` returns. There is no shield anywhere: cancelling the task that
runs `serve_http` ends all of it at once.

An exception in a connection ends that connection. In an application's call it is handled in `connection.py`; what
gets past that is a bug of ours and is logged in `_serve_stream`. It never leaves the task of its connection.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
from collections.abc import Sequence
from typing import Any

import attrs
import trio

from .asgi import ASGIApp
from .closing import say_refusal
from .connection import Connection
from .head import BadRequestError
from .lifespan import Lifespan
from .limits import HttpLimits
from .listeners import HttpListener, listener_addresses
from .responses import HttpDate

logger = logging.getLogger("trio_a2a.server.http")

# What `accept` says when the process or the machine has no room for another connection.
_NO_ROOM = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
# Nothing tells when there is room again; a tenth of a second is no burden and no delay worth mentioning.
_NO_ROOM_PAUSE = 0.1
# The courtesy of a 503 is paid to so many at a time, each for so long; the next are closed without one.
_MAX_REFUSING = 100
_REFUSING_TIMEOUT = 2.0


@attrs.frozen(kw_only=True)
class HttpStatistics:
    """Counters of a server.

    Attributes:
        connections: Open now.
        accepted: Accepted since the start, including those refused.
        refused: Answered with 503 or closed because `HttpLimits.max_connections` were open.
        requests: Handed to the application since the start.
    """

    connections: int
    accepted: int
    refused: int
    requests: int


class HttpServer:
    """A running server: what `serve_http` hands out through `task_status`. Not to be constructed."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: HttpLimits,
        scheme: str | None,
        root_path: str,
        grace: float,
        state: dict[str, Any],
        addresses: Sequence[tuple[str, int]],
    ) -> None:
        self._app = app
        self._limits = limits
        self._scheme = scheme
        self._root_path = root_path
        self._grace = grace
        self._state = state
        self._addresses = tuple(addresses)
        self._date = HttpDate()
        self._connections: set[Connection] = set()
        self._accepted = 0
        self._refused = 0
        self._refusing = 0
        self._requests = 0  # of connections that are closed
        self._draining = False
        self._accept_scope: trio.CancelScope | None = None
        self._connection_scope: trio.CancelScope | None = None

    def __repr__(self) -> str:
        state = "draining" if self._draining else "serving"
        return f"<HttpServer {state} on {list(self._addresses)}, {len(self._connections)} connections>"

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The host and port of each listener."""
        return self._addresses

    def statistics(self) -> HttpStatistics:
        """What the server has done so far."""
        return HttpStatistics(
            connections=len(self._connections),
            accepted=self._accepted,
            refused=self._refused,
            requests=self._requests + sum(connection.requests for connection in self._connections),
        )

    def shutdown(self, grace: float | None = None) -> None:
        """Refuse new connections, close idle ones, let requests finish, and cancel what is left after `grace`.

        Returns at once; `serve_http` returns when it is done. May be called again, with a shorter grace: 0 ends
        it now. Not to be called from a signal handler or another thread, only from within Trio.

        Args:
            grace: Seconds; by default the `grace` that `serve_http` was given.
        """
        self._draining = True
        deadline = trio.current_time() + (self._grace if grace is None else grace)
        if self._connection_scope is not None:
            self._connection_scope.deadline = min(self._connection_scope.deadline, deadline)
        if self._accept_scope is not None:
            self._accept_scope.cancel(reason="the server is shutting down")
        for connection in tuple(self._connections):
            connection.drain()

    async def _serve(self, listeners: Sequence[HttpListener], task_status: trio.TaskStatus[HttpServer]) -> None:
        """Accept and serve until `shutdown`; returns when the last connection is gone."""
        async with trio.open_nursery() as connections:
            self._connection_scope = connections.cancel_scope
            async with trio.open_nursery() as acceptors:
                self._accept_scope = acceptors.cancel_scope
                for listener in listeners:
                    acceptors.start_soon(self._accept, listener, connections)
                task_status.started(self)
            for listener in listeners:
                await trio.aclose_forcefully(listener)
        if connections.cancel_scope.cancelled_caught:
            logger.warning("connections were still busy at the end of the grace period and have been cancelled")

    async def _accept(self, listener: HttpListener, connections: trio.Nursery) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                logger.error("cannot accept connections: %s", error.strerror)
                await trio.sleep(_NO_ROOM_PAUSE)
                continue
            self._accepted += 1
            if len(self._connections) < self._limits.max_connections:
                # Made here, so that it counts before its task has run for the first time.
                connections.start_soon(self._serve_stream, self._open_connection(stream))
            else:
                self._refused += 1
                if self._refusing < _MAX_REFUSING:
                    self._refusing += 1
                    connections.start_soon(self._refuse_stream, stream)
                else:
                    await trio.aclose_forcefully(stream)

    def _open_connection(self, stream: trio.abc.Stream) -> Connection:
        connection = Connection(
            stream,
            self._app,
            limits=self._limits,
            scheme=self._scheme,
            root_path=self._root_path,
            state=self._state,
            date=self._date,
        )
        connection.draining = self._draining
        self._connections.add(connection)
        return connection

    async def _serve_stream(self, connection: Connection) -> None:
        try:
            await connection.run()
        except Exception:  # the boundary of one connection
            logger.exception("bug in the HTTP server: a connection failed")
        except BaseExceptionGroup as group:
            failures, rest = group.split(Exception)
            if failures is not None:
                logger.error("bug in the HTTP server: a connection failed", exc_info=failures)
            if rest is not None:
                raise rest from None
        finally:
            self._connections.discard(connection)
            self._requests += connection.requests

    async def _refuse_stream(self, stream: trio.abc.Stream) -> None:
        try:
            with trio.move_on_after(_REFUSING_TIMEOUT):
                error = BadRequestError(503, "too many connections")
                await say_refusal(stream, error, self._date, timeout=math.inf)
                # Until the client closes: closing first may destroy the answer on its way.
                while await stream.receive_some():
                    pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            logger.debug("connection lost while it was being refused", exc_info=True)
        finally:
            self._refusing -= 1
            await trio.aclose_forcefully(stream)


async def serve_http(
    app: ASGIApp,
    listeners: Sequence[HttpListener],
    *,
    limits: HttpLimits | None = None,
    grace: float = 10.0,
    lifespan_timeout: float = 10.0,
    scheme: str | None = None,
    root_path: str = "",
    task_status: trio.TaskStatus[HttpServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an ASGI 3 application over HTTP/1.1 until `HttpServer.shutdown` or cancellation.

    The server is handed out by `task_status` once the application has started and connections are accepted.

    Args:
        app: The application. Its lifespan runs around everything, where it has one.
        listeners: Open listeners, as `open_listeners` gives them, or any that hand out streams. They are closed here in
            any case.
        limits: By default `HttpLimits()`.
        grace: How many seconds running requests have after `shutdown`; then they are cancelled.
        lifespan_timeout: How many seconds the application has for its lifespan's shutdown.
        scheme: For the scopes: "https" behind a proxy that ends TLS. By default what the listener speaks.
        root_path: For the scopes: the path under which a proxy serves this application.
        task_status: Gets the `HttpServer`.

    Raises:
        LifespanError: The application said that it cannot start.
        ValueError: A time is negative.
        BaseExceptionGroup: An accepting task failed (OSError), or the application's lifespan raised after it
            had started. Nothing that happens in a connection gets here, except KeyboardInterrupt and its like.

    Cancellation: ends everything at once: handlers are cancelled, connections and listeners closed, and the
    application's lifespan is cancelled without `lifespan.shutdown`.
    """
    lifespan = Lifespan(app)
    async with contextlib.AsyncExitStack() as stack:
        for listener in listeners:
            stack.push_async_callback(trio.aclose_forcefully, listener)
        if grace < 0 or lifespan_timeout < 0:
            raise ValueError("grace and lifespan_timeout must not be negative")
        async with trio.open_nursery() as nursery:
            await nursery.start(lifespan.run)
            if lifespan.failure is None:
                server = HttpServer(
                    app,
                    limits=limits or HttpLimits(),
                    scheme=scheme,
                    root_path=root_path,
                    grace=grace,
                    state=lifespan.state,
                    addresses=listener_addresses(listeners),
                )
                await server._serve(listeners, task_status)
                await lifespan.shut_down(lifespan_timeout)
            nursery.cancel_scope.cancel(reason="the server has shut down")
    if lifespan.failure is not None:
        raise lifespan.failure


async def serve_stream(
    app: ASGIApp,
    stream: trio.abc.Stream,
    *,
    limits: HttpLimits | None = None,
    scheme: str | None = None,
    root_path: str = "",
    state: dict[str, Any] | None = None,
) -> None:
    """Serve an ASGI 3 application to the client at the other end of one stream, and close the stream.

    For streams that come from elsewhere than a listener, and for tests without sockets. No lifespan is run.

    Args:
        app: The application.
        stream: Any Trio stream; an `SSLStream` is led through its handshake.
        limits: By default `HttpLimits()`.
        scheme: For the scopes; by default what the stream speaks.
        root_path: For the scopes.
        state: For the scopes: what a lifespan would have put there.

    Cancellation: the handler is cancelled and the stream closed.
    """
    await Connection(
        stream,
        app,
        limits=limits or HttpLimits(),
        scheme=scheme,
        root_path=root_path,
        state=state or {},
        date=HttpDate(),
    ).run()
