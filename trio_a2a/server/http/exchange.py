"""One request and its response, as an ASGI application sees them.

An `Exchange` makes the connection scope and is behind the `receive` and `send` of one call. It is an object for
each request, not a part of the connection: an application may leak the two callables into a task that outlives
the call, and what that task does must not reach the next request of the same connection.

Neither callable touches the stream's receiving side. The reader task of the connection does that, and wakes who
waits here.
"""

from __future__ import annotations

import contextlib
from typing import Any, Protocol
from urllib.parse import unquote

import trio

from .asgi import (
    ASGI_VERSIONS,
    CANCELS_ON_DISCONNECT,
    ApplicationError,
    ClientDisconnectedError,
    Message,
    Scope,
)
from .head import RequestHead
from .parser import RequestParser
from .responses import HttpDate, ResponseEncoder


class Transport(Protocol):
    """What an exchange needs of its connection."""

    parser: RequestParser
    gone: bool
    draining: bool

    async def write(self, data: bytes) -> None:
        """Send all of `data`, or raise `ClientDisconnectedError`."""
        ...

    async def wait_for_change(self) -> None:
        """Wait until something has arrived, the client is gone, or `changed` was called."""
        ...

    def changed(self) -> None:
        """Wake all who wait."""
        ...

    def body_invited(self) -> None:
        """Note that the client has been told to send the body: its time for that begins."""
        ...


class Exchange:
    """The `receive` and `send` of one call of the application."""

    __slots__ = ("_awaits_continue", "_body_ended", "_closed", "_connection", "_date", "response", "told")

    def __init__(self, connection: Transport, head: RequestHead, date: HttpDate) -> None:
        self._connection = connection
        self._date = date
        self._awaits_continue = head.expects_continue and not connection.parser.complete
        self._body_ended = False
        self._closed = False
        self.told = False  # that the client is gone
        self.response = ResponseEncoder(
            is_head=head.method == "HEAD", is_1_1=head.http_version == "1.1", keep_alive=head.keep_alive
        )

    @property
    def awaits_continue(self) -> bool:
        """Whether the client may be holding its body back until it is told to go on."""
        return self._awaits_continue

    def close(self) -> None:
        """Cut the two callables off from the connection."""
        self._closed = True
        self._connection.changed()

    async def receive(self) -> Message:
        """Give the next `http.request` message, then wait for the end and give `http.disconnect`.

        Cancellation: a checkpoint only where it has to wait. Cancelled there, nothing of the body is lost.
        """
        connection = self._connection
        parser = connection.parser
        # A body that has come in whole is given even when its client is gone by now: what it asks for is not less
        # asked for by one who sends it and hangs up.
        while not (self._closed or self.response.complete) and (
            not connection.gone or (parser.complete and parser.body_ready)
        ):
            if not self._body_ended and (parser.complete or parser.body_ready):
                body = parser.take_body()
                self._body_ended = parser.complete
                connection.changed()
                return {"type": "http.request", "body": body, "more_body": not self._body_ended}
            if self._awaits_continue and not self.response.on_wire:
                # The application wants the body, so the client is told to send it (RFC 9110 section 10.1.1).
                self._awaits_continue = False
                with contextlib.suppress(ClientDisconnectedError):  # it is found out by the loop
                    await connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    connection.body_invited()
                continue
            await connection.wait_for_change()
        self.told = True
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take an `http.response.start` or `http.response.body` message.

        The start is kept and goes out with the first body message, an empty one included.

        Raises:
            ClientDisconnectedError: The client is gone.
            ApplicationError: The message is out of order, or is not to be sent over HTTP.

        Cancellation: a checkpoint for body messages. Cancelled there, a part of it may have been sent, and the
        connection cannot be used any more.
        """
        connection = self._connection
        if connection.gone:
            # Where the handler can be cancelled it has been: only shielded code gets past this line.
            await trio.lowlevel.checkpoint()
            self.told = True
            raise ClientDisconnectedError
        if self._closed:
            raise ApplicationError("the call that this send belongs to is over")
        response = self.response
        kind = message["type"]
        if kind == "http.response.start":
            response.start(message)
        elif kind == "http.response.body":
            if not response.on_wire and (connection.draining or not connection.parser.complete):
                # A body that has not come in full may never do so: nobody is made to read it to its end.
                response.keep_alive = False
            data = response.body(message, self._date.at(trio.current_time()))
            if response.complete:
                connection.changed()
            if data:
                try:
                    await connection.write(data)
                except ClientDisconnectedError:
                    self.told = True
                    raise
            else:
                await trio.lowlevel.checkpoint()
        else:
            raise ApplicationError("send takes http.response.start and http.response.body messages")


def make_scope(
    head: RequestHead,
    *,
    scheme: str,
    client: tuple[str, int] | None,
    server: tuple[str, int | None] | None,
    root_path: str,
    state: dict[str, Any],
) -> Scope:
    """The ASGI connection scope of a request."""
    raw_path, _, query = head.target.partition(b"?")
    path = raw_path.decode("ascii")
    return {
        "type": "http",
        "asgi": ASGI_VERSIONS.copy(),
        "http_version": head.http_version,
        "method": head.method,
        "scheme": scheme,
        # Bytes that are no UTF-8 become U+FFFD, which no route matches; `raw_path` has them.
        "path": unquote(path) if "%" in path else path,
        "raw_path": raw_path,
        "query_string": query,
        "root_path": root_path,
        "headers": head.headers,
        "client": client,
        "server": server,
        "state": state.copy(),
        "extensions": {CANCELS_ON_DISCONNECT: {}},
    }
