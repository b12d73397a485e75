"""Opening the sockets that a server listens on."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import trio

HttpListener: TypeAlias = trio.abc.Listener[trio.abc.Stream]
"""What hands out the streams of clients: those of `open_listeners`, or one of another kind."""

# With port 0 and a host name of several addresses, the port that the first got may be taken on another.
_PORT_ATTEMPTS = 10


async def open_listeners(
    host: str | None = "127.0.0.1", port: int = 0, *, ssl_context: ssl.SSLContext | None = None
) -> list[HttpListener]:
    """Listen on every address of `host`, all on the same port.

    Give them to `serve_http`, which closes them, or close them.

    Args:
        host: A name or address; `None` for all interfaces.
        port: 0 for a free one; `listener_addresses` tells which it is.
        ssl_context: Serve HTTPS with this context.

    Raises:
        OSError: The address is taken, not ours, or not known. Its text names the address; `errno` is kept.
        ValueError: `port` is out of range.

    Cancellation: a checkpoint; nothing is left open.
    """
    if not 0 <= port <= 65535:
        raise ValueError(f"a port is a number from 0 to 65535, not {port}")
    try:
        sockets = await _open_sockets(host, port)
    except OSError as error:
        where = f"[{host}]:{port}" if host is not None and ":" in host else f"{host or '*'}:{port}"
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"cannot listen on {where}: {reason}") from error
    if ssl_context is None:
        return list(sockets)
    # Not `https_compatible`: the end of a response is then signed by our close_notify. Trio does not wait for that of
    # the client, and a client that ends without one looks like one that has reset the connection.
    return [trio.SSLListener(listener, ssl_context) for listener in sockets]


def listener_addresses(listeners: Iterable[HttpListener]) -> list[tuple[str, int]]:
    """The host and port of each listener."""
    addresses = []
    for listener in listeners:
        transport = listener.transport_listener if isinstance(listener, trio.SSLListener) else listener
        if isinstance(transport, trio.SocketListener):
            name = transport.socket.getsockname()
            addresses.append((name[0], name[1]))
    return addresses


async def _open_sockets(host: str | None, port: int) -> Sequence[trio.SocketListener]:
    attempts = _PORT_ATTEMPTS
    while True:
        first = await trio.open_tcp_listeners(port, host=host)
        if port != 0 or len(first) == 1:
            return first
        attempts -= 1
        try:
            return await _move_to_one_port(first)
        except OSError:
            if not attempts:
                raise


async def _move_to_one_port(listeners: Sequence[trio.SocketListener]) -> Sequence[trio.SocketListener]:
    """Open again, on the port of the first, the listeners that got other free ports."""
    addresses = listener_addresses(listeners)
    chosen = addresses[0][1]
    opened = [listeners[0]]
    async with contextlib.AsyncExitStack() as stack:
        for listener in listeners:
            stack.push_async_callback(trio.aclose_forcefully, listener)
        for (host, _), listener in zip(addresses[1:], listeners[1:], strict=True):
            await listener.aclose()
            again = await trio.open_tcp_listeners(chosen, host=host)
            for each in again:
                stack.push_async_callback(trio.aclose_forcefully, each)
            opened += again
        stack.pop_all()
    return opened
