"""Writing a task's stream as Server-Sent Events.

The headers go out with the first event of the call, or after a second of silence: what fails before that is a plain
error. Every batch is one write, so a slow client makes its own backlog, and is cut off by the core when that is full.
"""

from collections.abc import Awaitable, Callable
from typing import final

import trio

from ..abc import Envelope
from ..errors import A2AError
from ..wire.sse import KEEP_ALIVE, MEDIA_TYPE
from .http import Send
from .limits import Limits
from .operations import TaskStream

__all__ = ["SseWriter"]


@final
class SseWriter:
    """Sends one stream over one ASGI response.

    Args:
        send: The response's ASGI ``send``.
        frames: Makes the bytes of an event's frame.
        failure: Makes the bytes of the frame of an error that ends the stream.
        limits: Its times.
        headers: More headers of the response.
    """

    def __init__(
        self,
        send: Send,
        *,
        frames: Callable[[Envelope], bytes],
        failure: Callable[[A2AError], bytes],
        limits: Limits,
        headers: list[tuple[bytes, bytes]],
    ) -> None:
        self._send = send
        self._frames = frames
        self._failure = failure
        self._limits = limits
        self._headers = headers

    async def run(self, stream: TaskStream) -> None:
        """Send the stream to its end.

        Raises:
            A2AError: It failed before its headers were sent; nothing was.

        Cancellation: the response is left unfinished, as its client is gone or the server ends.
        """
        held, ended = await self._until_begun(stream)
        headers = [
            (b"content-type", MEDIA_TYPE),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),  # nginx would otherwise collect the events
            *self._headers,
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(b"".join(map(self._frames, held)))
        while not ended:
            try:
                ended = await self._step(stream)
            except A2AError as exc:
                await self._write(self._failure(exc))
                ended = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _until_begun(self, stream: TaskStream) -> tuple[list[Envelope], bool]:
        """Collect the first events; a snapshot alone is held, since the message that follows may yet be refused."""
        held: list[Envelope] = []
        with trio.move_on_after(self._limits.header_delay):
            while not stream.begun:
                try:
                    held.extend(await stream.receive_batch())
                except trio.EndOfChannel:
                    return held, True
        return held, False

    async def _step(self, stream: TaskStream) -> bool:
        """Send what comes next, or a comment after a silence; tell whether the stream is over."""
        with trio.move_on_after(self._limits.keep_alive) as silence:
            try:
                batch = await stream.receive_batch()
            except trio.EndOfChannel:
                return True
        await self._write(KEEP_ALIVE if silence.cancelled_caught else b"".join(map(self._frames, batch)))
        return False

    def _write(self, data: bytes) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": data, "more_body": True})
