"""One connection, on any Trio stream: read, run the application, write, and end.

There is one nursery with two tasks. The *reader* owns the receiving side: it feeds the parser, also while a handler
runs, which is how a client that goes away is noticed. The *handler task* (the one that opened the nursery) takes one
request after the other and calls the application. Neither waits for the other in a busy way: whoever changes
something wakes the parked ones, who look again.

How it ends. Everything that ends a connection early cancels the one scope of the nursery, with a reason, and is
remembered in a field; what is then still to be said to the client is said after the nursery has closed, when no task
is left that could write in between:

    client gone (EOF after a whole request, reset, a failed write)   `gone`; nothing more is said
    no request, or one past a limit; header or body time-out        `_refusal`; said unless a response has begun
    exception in the application                                    logged; 500 unless a response has begun
    write time-out, shutdown deadline                               nothing more is said

A response that has begun and cannot be finished is cut off: a chunked body without its last chunk, a body shorter
than its Content-Length. That tells the client that it is not whole.

Time-outs. A scope around each read and write would cost more than the read. So the reader works under one scope
whose deadline is only ever moved *closer* when something begins that has a time-out (`_arm`); a deadline that has
become too early is found out when it fires, and the scope is renewed (`_read`). A request that is answered quickly
touches no timer at all.

Backpressure. The reader stops while the parser is `full`. With a body that the application does not take this is what
holds the client back. With more than 64 KiB of pipelined requests it has a price: until the handler is done, a
client that goes away is noticed only by a failing write.

A little over 400 lines: the two tasks, their ends and their time-outs share all of the state.
"""

from __future__ import annotations

import contextlib
import logging
import math
from typing import Any

import trio

from .asgi import ApplicationError, ASGIApp, ClientDisconnectedError
from .closing import close, linger, say_refusal
from .exchange import Exchange, make_scope
from .head import BadRequestError, RequestHead
from .limits import HttpLimits
from .parser import RequestParser
from .responses import HttpDate

logger = logging.getLogger("trio_a2a.server.http")

# Small enough that a read full of the smallest chunks or requests does not hold the event loop for long (7 ms).
READ_SIZE = 16 * 1024
# The time that a client has for taking anything of a response is measured for this much of it.
WRITE_SIZE = 16 * 1024


class Connection:
    """Serves the requests that come over one stream.

    Single-shot: `run` once. `drain` may be called at any time, from any task.
    """

    __slots__ = (
        "_app",
        "_client",
        "_date",
        "_exchange",
        "_limits",
        "_parked",
        "_read_due",
        "_refusal",
        "_root_path",
        "_scheme",
        "_scope",
        "_server",
        "_state",
        "_stream",
        "_timer",
        "_waits_for_request",
        "_write_due",
        "_writing",
        "draining",
        "gone",
        "parser",
        "requests",
    )

    def __init__(
        self,
        stream: trio.abc.Stream,
        app: ASGIApp,
        *,
        limits: HttpLimits,
        scheme: str | None,
        root_path: str,
        state: dict[str, Any],
        date: HttpDate,
    ) -> None:
        self._stream = stream
        self._app = app
        self._limits = limits
        self._scheme = scheme or ("https" if isinstance(stream, trio.SSLStream) else "http")
        self._root_path = root_path
        self._state = state
        self._date = date
        self.parser = RequestParser(limits)
        self.gone = False
        self.draining = False
        self.requests = 0  # handed to the application so far
        self._client: tuple[str, int] | None = None
        self._server: tuple[str, int] | None = None
        self._exchange: Exchange | None = None  # the request being answered
        self._waits_for_request = True
        self._refusal: BadRequestError | None = None
        self._parked = trio.lowlevel.ParkingLot()
        self._scope: trio.CancelScope | None = None
        self._timer = trio.CancelScope()
        self._read_due = math.inf
        self._write_due = math.inf
        self._writing = False

    async def run(self) -> None:
        """Serve until the client or the server ends the connection, then close the stream.

        Exceptions of the application are logged and answered here. What leaves this method is a
        `BaseException` such as KeyboardInterrupt, or a bug.

        Cancellation: ends at once, and closes the stream without a word.
        """
        try:
            if isinstance(self._stream, trio.SSLStream) and not await self._handshake(self._stream):
                return
            self._client, self._server = _address(self._stream, "getpeername"), _address(self._stream, "getsockname")
            self._await_head(self._limits.header_timeout)
            whole = False
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                if not self.draining:
                    nursery.start_soon(self._read)
                    whole = await self._serve()
                nursery.cancel_scope.cancel(reason="the connection has served its last request")
            await self._finish(whole=whole)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            logger.debug("connection lost", exc_info=True)
        finally:
            await trio.aclose_forcefully(self._stream)

    def drain(self) -> None:
        """Take no further request: close at once when idle, else after the current response."""
        self.draining = True
        idle = self._waits_for_request and self.parser.head is None and not self.parser.partial
        if idle and self._scope is not None:
            self._scope.cancel(reason="the server is shutting down")

    # --- beginning and end ---

    async def _handshake(self, stream: trio.SSLStream[trio.abc.Stream]) -> bool:
        with trio.move_on_after(self._limits.handshake_timeout) as self._scope:
            if self.draining:
                return False
            try:
                await stream.do_handshake()
            except trio.BrokenResourceError as error:
                # Port scanners, health checks and clients that do not trust the certificate: no news.
                logger.debug("TLS handshake failed: %s", error.__cause__ or error)
                return False
            return True
        logger.debug("TLS handshake not finished in time")
        return False

    async def _finish(self, *, whole: bool) -> None:
        """Say what is still to be said; `whole` if the last response went out in full."""
        stream, exchange = self._stream, self._exchange
        if self._refusal is not None:
            if self._writing or (exchange is not None and exchange.response.on_wire):
                return
            with_body = exchange is None or not exchange.response.is_head
            await say_refusal(
                stream, self._refusal, self._date, timeout=self._limits.write_timeout, with_body=with_body
            )
            if not self.parser.complete:
                await linger(stream)
        elif whole:
            if not self.parser.complete:
                await linger(stream)
            await close(stream)

    # --- handler task ---

    async def _serve(self) -> bool:
        """Answer requests; say whether the last response went out in full."""
        parser = self.parser
        while True:
            while parser.head is None:
                await self._parked.park()
            self._waits_for_request = False
            self.requests += 1
            exchange = self._exchange = Exchange(self, parser.head, self._date)
            await self._call(exchange, parser.head)
            if self.gone or self._writing:
                return False
            if not exchange.response.keep_alive or self.draining:
                return True
            self._exchange = None
            try:
                parser.next_request()
            except BadRequestError as error:
                self._refuse(error)
                return False
            self.changed()
            self._await_head(self._limits.header_timeout if parser.partial else self._limits.keep_alive_timeout)

    async def _call(self, exchange: Exchange, head: RequestHead) -> None:
        """Run the application for one request."""
        if not self.parser.complete:
            self._body_progress()
        scope = make_scope(
            head,
            scheme=self._scheme,
            client=self._client,
            server=self._server,
            root_path=self._root_path,
            state=self._state,
        )
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception as error:  # the boundary of one call of the application
            self._fail(exchange, error)
        except BaseExceptionGroup as group:
            # Nurseries of the application group what it raised with the cancellation that we caused.
            failures, rest = group.split(Exception)
            if failures is not None:
                self._fail(exchange, failures)
            if rest is not None:
                raise rest from None
        else:
            if not exchange.response.complete and not self.gone:
                self._fail(exchange, ApplicationError("the application returned without a whole response"))
        finally:
            exchange.close()

    def _fail(self, exchange: Exchange, error: Exception) -> None:
        """Log an exception that left the application, and refuse the request if that is still possible."""
        rest: Exception | None = error
        if isinstance(error, ExceptionGroup):
            rest = error.split(ClientDisconnectedError)[1]
        elif isinstance(error, ClientDisconnectedError):
            rest = None
        if rest is not None and self.gone and exchange.told:
            # Frameworks make an exception of their own from `http.disconnect`. Clients come and go: no error.
            logger.info("exception in the application after its client had gone", exc_info=rest)
        elif rest is not None:
            logger.error("exception in the application", exc_info=rest)
        if not self.gone:
            self._refuse(BadRequestError(500, "internal server error"))

    # --- reader task ---

    async def _read(self) -> None:
        while True:
            with trio.CancelScope(deadline=self._due()) as self._timer:
                await self._read_to_end()
                return
            # Only its deadline ends that scope, and what the deadline was for may be over.
            if self._expired():
                return

    async def _read_to_end(self) -> None:
        parser, stream = self.parser, self._stream
        while True:
            if parser.full:
                await self._parked.park()
                if parser.head is not None and not parser.complete:
                    self._body_progress()
                continue
            try:
                data = await stream.receive_some(READ_SIZE)
            except trio.BrokenResourceError:
                self._client_gone("client disconnected")
                return
            if not data:
                self._end_of_file()
                return
            was_partial = parser.partial
            try:
                parser.feed(data)
            except BadRequestError as error:
                self._refuse(error)
                return
            if parser.head is None:
                # The time for the first request runs since the accept, for a later one from its first byte.
                if self.requests and parser.partial and not was_partial:
                    self._await_head(self._limits.header_timeout)
                continue
            if not parser.complete:
                self._body_progress()
            self.changed()

    def _end_of_file(self) -> None:
        """A client that has closed its sending side counts as gone once its request is whole."""
        parser = self.parser
        if parser.complete or (parser.head is None and not parser.partial):
            self._client_gone("client disconnected")
        else:
            self._refuse(BadRequestError(400, "incomplete request"))

    # --- ends that come early ---

    def _client_gone(self, reason: str) -> None:
        self.gone = True
        # First those who wait in `receive`: they are to see the disconnect, then the cancellation.
        self.changed()
        if self._scope is not None:
            self._scope.cancel(reason=reason)

    def _refuse(self, refusal: BadRequestError) -> None:
        if self._refusal is None and not self.gone:
            self._refusal = refusal
            self._client_gone(f"request refused with status {refusal.status}")

    # --- time ---

    def _arm(self, due: float) -> None:
        # Not min(): setting a deadline costs, even to the same value, and this is on the path of every request.
        if due < self._timer.deadline:  # noqa: PLR1730
            self._timer.deadline = due

    def _body_progress(self) -> None:
        self._read_due = trio.current_time() + self._limits.body_timeout
        self._arm(self._read_due)

    def _await_head(self, timeout: float) -> None:
        self._waits_for_request = True
        self._read_due = trio.current_time() + timeout
        self._arm(self._read_due)

    def _awaits_body(self) -> bool:
        parser, exchange = self.parser, self._exchange
        if parser.head is None or parser.complete or parser.full:
            return False
        return exchange is None or not exchange.awaits_continue

    def _due(self) -> float:
        """When the next time-out is, seen from now."""
        if (self._waits_for_request and self.parser.head is None) or self._awaits_body():
            return min(self._read_due, self._write_due)
        return self._write_due

    def _expired(self) -> bool:
        """Act on a time-out that has passed; say whether there was one."""
        now = trio.current_time()
        if now < self._due():
            return False
        if now >= self._write_due:
            logger.debug("the client has taken nothing of a response for %s s", self._limits.write_timeout)
            self._client_gone("write time-out")
        elif self.parser.head is None and self.requests and not self.parser.partial:
            self._client_gone("keep-alive time-out")
        else:
            self._refuse(BadRequestError(408, "request not received in time"))
        return True

    # --- what an exchange needs ---

    async def write(self, data: bytes) -> None:
        """Send all of `data`.

        Raises:
            ApplicationError: Another write is under way, or was cancelled part-way.
            ClientDisconnectedError: The client is gone.
        """
        if self._writing:
            raise ApplicationError("another send of this response is under way, or was cancelled half-way")
        self._writing = True
        try:
            if len(data) <= WRITE_SIZE:
                await self._write_piece(data)
            else:
                with memoryview(data) as view:
                    for position in range(0, len(data), WRITE_SIZE):
                        with view[position : position + WRITE_SIZE] as piece:
                            await self._write_piece(piece)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._client_gone("client disconnected")
            # Where the handler can be cancelled this ends it: only shielded code sees the exception.
            await trio.lowlevel.checkpoint()
            raise ClientDisconnectedError from None
        finally:
            self._write_due = math.inf
        self._writing = False

    async def _write_piece(self, piece: bytes | memoryview) -> None:
        self._write_due = trio.current_time() + self._limits.write_timeout
        self._arm(self._write_due)
        await self._stream.send_all(piece)

    async def wait_for_change(self) -> None:
        """Wait until something has arrived, the client is gone, or `changed` was called."""
        await self._parked.park()

    def changed(self) -> None:
        """Wake all who wait."""
        if self._parked:
            self._parked.unpark_all()

    def body_invited(self) -> None:
        """Note that the client has been told to send the body: its time for that begins."""
        self._body_progress()


def _address(stream: trio.abc.Stream, which: str) -> tuple[str, int] | None:
    """One end of the connection, where it is an internet address."""
    transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    if isinstance(transport, trio.SocketStream):
        # A client that has reset the connection already has no name any more.
        with contextlib.suppress(OSError):
            name = getattr(transport.socket, which)()
            if isinstance(name, tuple):
                return name[0], name[1]
    return None
