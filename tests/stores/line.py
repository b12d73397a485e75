"""The line between a store and its database's server: a TCP proxy that can be refused, cut, slow, or silent."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import attrs
import trio
from sqlalchemy import make_url

_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError)


@attrs.define(eq=False)
class Line:
    """What a test does to the connections.

    Attributes:
        url: The database, through this line.
        refused: New connections are closed as soon as they are made.
        delay: Seconds by which every answer of the server is late.
        on_request: Called with what a client sends; what it returns is done with the connection.
        connections: How many there were.
    """

    url: str
    refused: bool = False
    delay: float = 0.0
    on_request: Callable[[bytes], "Fate"] | None = None
    connections: int = 0
    _scopes: set[trio.CancelScope] = attrs.Factory(set)
    _flowing: trio.Event = attrs.Factory(trio.Event)

    def cut(self) -> None:
        """End all connections."""
        for scope in self._scopes:
            scope.cancel()

    def stall(self) -> None:
        """Pass nothing on any more; connections can be made, and are not answered."""
        self._flowing = trio.Event()

    def flow(self) -> None:
        """Pass on what was held back, and what comes."""
        self._flowing.set()


@attrs.frozen
class Fate:
    """What becomes of a connection at what a client has just sent.

    Attributes:
        cut: The client's side ends now.
        reaches_after: After so many seconds the server gets what was sent, and does it; infinite: never.
        vanishes: From now on nothing passes any more, in either direction, not even the end of either side.
    """

    cut: bool = False
    reaches_after: float = 0.0
    vanishes: bool = False


PASSES = Fate()


@asynccontextmanager
async def open_line(url: str) -> AsyncIterator[Line]:
    """Run a line to the server of a URL."""
    there = make_url(url)
    host, port = there.host, there.port
    # Set when the server has answered what it got from a client that was cut off.
    answered: dict[trio.SocketStream, trio.Event] = {}

    async def requests(client: trio.SocketStream, server: trio.SocketStream, scope: trio.CancelScope) -> None:
        async for data in client:
            await line._flowing.wait()
            fate = PASSES if line.on_request is None else line.on_request(data)
            if fate.vanishes:
                await trio.sleep_forever()
            if fate.cut:
                await trio.aclose_forcefully(client)
                if math.isfinite(fate.reaches_after):
                    await trio.sleep(fate.reaches_after)
                    answered[server] = trio.Event()
                    await server.send_all(data)
                    # What was cut off in the midst of a request has no answer.
                    with trio.move_on_after(0.5):
                        await answered[server].wait()
                break
            await server.send_all(data)
        scope.cancel()

    async def answers(client: trio.SocketStream, server: trio.SocketStream, scope: trio.CancelScope) -> None:
        async for data in server:
            if server in answered:
                answered[server].set()
            await line._flowing.wait()
            await trio.sleep(line.delay)
            # A client that was cut off gets no answer.
            with suppress(*_BROKEN):
                await client.send_all(data)
        scope.cancel()

    async def handle(client: trio.SocketStream) -> None:
        line.connections += 1
        if line.refused:
            await trio.aclose_forcefully(client)
            return
        with trio.CancelScope() as scope:
            line._scopes.add(scope)
            try:
                async with await trio.open_tcp_stream(host, port) as server, client, trio.open_nursery() as nursery:
                    nursery.start_soon(answers, client, server, scope)
                    nursery.start_soon(requests, client, server, scope)
            except* (OSError, *_BROKEN):
                pass
            finally:
                line._scopes.discard(scope)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        here = listeners[0].socket.getsockname()[1]
        line = Line(there.set(host="127.0.0.1", port=here).render_as_string(hide_password=False))
        line.flow()
        nursery.start_soon(trio.serve_listeners, handle, listeners)
        yield line
        nursery.cancel_scope.cancel()
