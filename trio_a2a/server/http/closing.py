"""The last words of a connection: each within a bound, whatever the client does."""

from __future__ import annotations

import trio

from .head import BadRequestError
from .responses import HttpDate, refusal

# After a refusal the client may still be sending. Closing at once would make the kernel send a reset, which can
# destroy the refusal before the client reads it; so what comes is read and dropped, so much and so long. Many clients
# send their whole body before they read, and a body a little past the usual bound (16 MiB) should get its 413.
LINGER_TIMEOUT = 2.0
LINGER_SIZE = 64 * 1024 * 1024
_READ_SIZE = 64 * 1024
# For the close_notify of TLS; a plain socket closes at once.
CLOSE_TIMEOUT = 1.0


async def say_refusal(
    stream: trio.abc.Stream, error: BadRequestError, date: HttpDate, *, timeout: float, with_body: bool = True
) -> None:
    """Send a response of the server's own, and the end of file where the stream can do that."""
    data = refusal(error.status, error.detail, date.at(trio.current_time()), with_body=with_body)
    with trio.move_on_after(timeout):
        await stream.send_all(data)
        if isinstance(stream, trio.abc.HalfCloseableStream):
            await stream.send_eof()


async def linger(stream: trio.abc.Stream) -> None:
    """Read and drop what the client is still sending, within bounds."""
    left = LINGER_SIZE
    with trio.move_on_after(LINGER_TIMEOUT):
        while left > 0:
            data = await stream.receive_some(_READ_SIZE)
            if not data:
                return
            left -= len(data)


async def close(stream: trio.abc.Stream) -> None:
    """Close a stream properly, or else forcefully.

    Cancellation: a checkpoint; the stream is closed in any case.
    """
    with trio.move_on_after(CLOSE_TIMEOUT):
        await stream.aclose()
