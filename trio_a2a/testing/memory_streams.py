"""A network within the process: bounded byte streams, and a listener that hands them out.

A stream keeps what was sent and not yet read in a buffer of bounded size, as the kernel does for a socket. So a writer
that is faster than its reader waits, and a server that answers before it has read the whole request is heard.
"""

import errno
import operator
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import final

import trio

__all__ = ["BUFFER_SIZE", "MemoryNetwork", "MemoryStream", "memory_stream_pair"]

BUFFER_SIZE = 64 * 1024
"""Bytes that one direction of a stream holds; about what a socket over loopback takes before it blocks."""


class _Pipe:
    """One direction."""

    __slots__ = ("broken", "data", "receiver_closed", "sender_closed", "size", "waiting")

    def __init__(self, size: int) -> None:
        self.size = size
        self.data = bytearray()
        self.sender_closed = False
        self.receiver_closed = False
        self.broken = False
        self.waiting = trio.lowlevel.ParkingLot()

    def changed(self) -> None:
        """Let both ends look again."""
        self.waiting.unpark_all()

    def break_off(self) -> None:
        self.broken = True
        self.data.clear()
        self.changed()


@final
class MemoryStream(trio.abc.HalfCloseableStream):
    """One end of a stream; `memory_stream_pair` makes two."""

    def __init__(self, outgoing: _Pipe, incoming: _Pipe) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._closed = False
        self._busy: set[str] = set()

    def __repr__(self) -> str:
        held = f"{len(self._incoming.data)} bytes in, {len(self._outgoing.data)} out"
        return f"<MemoryStream {'closed' if self._closed else held}>"

    @property
    def is_readable(self) -> bool:
        """Whether reading would return at once: there are bytes, or there is an end."""
        pipe = self._incoming
        return bool(pipe.data) or pipe.sender_closed or pipe.broken

    @property
    def is_closed(self) -> bool:
        """Whether this end is closed."""
        return self._closed

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        if what in self._busy:
            raise trio.BusyResourceError(f"another task is {what} on this stream")
        self._busy.add(what)
        try:
            yield
        finally:
            self._busy.remove(what)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; waits while the buffer is full.

        Raises:
            trio.BrokenResourceError: The other end is closed, or the connection was broken off.
            trio.ClosedResourceError: This end is closed, or has sent its end of file.
            trio.BusyResourceError: Another task is sending.

        Cancellation: a checkpoint; some of the bytes may have been sent.
        """
        with self._alone("sending"):
            self._require_sender()
            await trio.lowlevel.checkpoint()
            rest = bytes(data)
            while True:
                self._require_sender()
                room = self._room()
                if room and rest:
                    self._outgoing.data += rest[:room]
                    rest = rest[room:]
                    self._outgoing.changed()
                if not rest:
                    return
                await self._outgoing.waiting.park()

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room in the buffer; raises as `send_all`.

        Cancellation: a checkpoint.
        """
        with self._alone("sending"):
            await trio.lowlevel.checkpoint()
            self._require_sender()
            while not self._room():
                await self._outgoing.waiting.park()
                self._require_sender()

    def _require_sender(self) -> None:
        if self._outgoing.sender_closed:
            raise trio.ClosedResourceError("this end is closed")
        if self._outgoing.receiver_closed or self._outgoing.broken:
            raise trio.BrokenResourceError("the other end is gone")

    def _room(self) -> int:
        return self._outgoing.size - len(self._outgoing.data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return some bytes, at least one; b"" when the other end has sent its last.

        Raises:
            trio.BrokenResourceError: The connection was broken off.
            trio.ClosedResourceError: This end is closed.
            trio.BusyResourceError: Another task is receiving.

        Cancellation: a checkpoint; nothing was received.
        """
        limit = BUFFER_SIZE if max_bytes is None else operator.index(max_bytes)
        if limit < 1:
            raise ValueError("max_bytes must be 1 or more")
        with self._alone("receiving"):
            await trio.lowlevel.checkpoint()
            pipe = self._incoming
            while True:
                if self._closed:
                    raise trio.ClosedResourceError("this end is closed")
                if pipe.broken:
                    raise trio.BrokenResourceError("the connection was broken off")
                if pipe.data:
                    data = bytes(pipe.data[:limit])
                    del pipe.data[:limit]
                    pipe.changed()
                    return data
                if pipe.sender_closed:
                    return b""
                await pipe.waiting.park()

    async def send_eof(self) -> None:
        """End the sending side; the other end reads b"" when it has read the rest.

        Raises:
            trio.ClosedResourceError: This end is closed.
            trio.BusyResourceError: Another task is sending.

        Cancellation: a checkpoint; the end was sent.
        """
        with self._alone("sending"):
            if self._closed:
                raise trio.ClosedResourceError("this end is closed")
            self._outgoing.sender_closed = True
            self._outgoing.changed()
            await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close this end; a second time nothing happens.

        Cancellation: a checkpoint; it is closed all the same.
        """
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close this end."""
        self._closed = True
        self._outgoing.sender_closed = True
        self._outgoing.changed()
        self._incoming.receiver_closed = True
        self._incoming.data.clear()
        self._incoming.changed()

    def break_off(self) -> None:
        """Break the connection, as a network that fails: what is under way is lost, and both ends get errors."""
        self._outgoing.break_off()
        self._incoming.break_off()


def memory_stream_pair(size: int = BUFFER_SIZE) -> tuple[MemoryStream, MemoryStream]:
    """Return the two ends of a stream.

    Args:
        size: Bytes that each direction holds.
    """
    one, other = _Pipe(size), _Pipe(size)
    return MemoryStream(one, other), MemoryStream(other, one)


@final
class MemoryNetwork(trio.abc.Listener[MemoryStream]):
    """A network with one server: the listener that it accepts from, and the way to it.

    Args:
        hosts: The names that lead to the server; no other can be reached.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        # No backlog: who connects waits until the server accepts, and is refused at once when it has stopped.
        self._arriving, self._accepted = trio.open_memory_channel[MemoryStream](0)
        self._streams: weakref.WeakSet[MemoryStream] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"<MemoryNetwork to {', '.join(sorted(self._hosts))}>"

    async def connect(self, host: str) -> MemoryStream:
        """Return the client's end of a new connection.

        Raises:
            OSError: There is no such host, or its server has stopped.

        Cancellation: a checkpoint; there is no connection.
        """
        if host.lower() not in self._hosts:
            await trio.lowlevel.checkpoint()
            raise OSError(errno.EHOSTUNREACH, f"{host!r} cannot be reached from within the process: {self!r}")
        near, far = memory_stream_pair()
        try:
            await self._arriving.send(far)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise OSError(errno.ECONNREFUSED, f"the server of {host!r} has stopped") from None
        self._streams.add(near)
        return near

    async def accept(self) -> MemoryStream:
        """Return the server's end of the next connection.

        Raises:
            trio.ClosedResourceError: The listener is closed.

        Cancellation: a checkpoint; nothing was accepted.
        """
        return await self._accepted.receive()

    async def aclose(self) -> None:
        """Stop listening: who connects now is refused. Connections stay. A second time nothing happens.

        Cancellation: a checkpoint; it is closed all the same.
        """
        self._accepted.close()
        await trio.lowlevel.checkpoint()

    def break_connections(self) -> int:
        """Break every connection, as a network that fails; return how many there were. New ones can be made."""
        streams = [stream for stream in self._streams if not stream.is_closed]
        for stream in streams:
            stream.break_off()
        self._streams.clear()
        return len(streams)

    def close_connections(self) -> None:
        """Close the clients' ends, as a client does that goes away."""
        for stream in tuple(self._streams):
            stream.close()
