"""A TCP proxy on loopback that treats connections as bad networks do: it cuts, resets, stalls and truncates them."""

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

__all__ = ["Proxy", "open_proxy"]


@attrs.define(eq=False)
class Proxy:
    """Passes bytes between a client and a server.

    Attributes:
        url: Where clients reach it.
        limits: For the connections to come, one each: how many bytes of an answer pass. Where it is used up, all pass.
        manner: What happens then: ``drop`` (an orderly end), ``reset``, or ``stall``.
        connections: How many there were.
        refused: Connections are closed as soon as they are made.
    """

    url: str
    limits: Any = ()
    manner: str = "drop"
    connections: int = 0
    refused: bool = False

    def next_limit(self) -> int | None:
        self.connections += 1
        return next(self.limits, None)


def _reset(stream: trio.SocketStream) -> None:
    """Close with RST: nothing that is on its way arrives."""
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


@asynccontextmanager
async def open_proxy(target: str, *, limits: Any = (), manner: str = "drop") -> AsyncIterator[Proxy]:
    """Run a proxy in front of ``http://host:port``."""
    host, _, port = target.removeprefix("http://").partition(":")

    async def pump(source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope) -> None:
        async for data in source:
            await sink.send_all(data)
        scope.cancel()

    async def handle(client: trio.SocketStream) -> None:
        limit = proxy.next_limit()
        if proxy.refused:
            await trio.aclose_forcefully(client)
            return
        async with await trio.open_tcp_stream(host, int(port)) as server, client:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(pump, client, server, nursery.cancel_scope)
                    async for data in server:
                        if limit is None:
                            await client.send_all(data)
                            continue
                        await client.send_all(data[:limit])
                        limit -= len(data)
                        if limit <= 0:
                            if proxy.manner == "stall":
                                await trio.sleep_forever()
                            if proxy.manner == "reset":
                                _reset(client)
                            break
                    nursery.cancel_scope.cancel()
            except* (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port_there = listeners[0].socket.getsockname()[1]
        proxy = Proxy(url=f"http://127.0.0.1:{port_there}", limits=iter(limits), manner=manner)
        nursery.start_soon(trio.serve_listeners, handle, listeners)
        yield proxy
        nursery.cancel_scope.cancel()
