"""Writing a task's stream as Server-Sent Events.

The headers go out with the first event of the call, or after a second of silence: what fails before that is a plain
error. Every batch is one write, so a slow client makes its own backlog, and is cut off by the core when that is full.
"""

import logging
import math
from collections.abc import Callable
from typing import final

import trio

from ..abc import Envelope, StreamEvent
from ..errors import A2AError, InternalError
from ..types import StreamResponse
from ..types.schema import describe
from ..wire import to_json
from ..wire.sse import KEEP_ALIVE, MEDIA_TYPE, escaped
from .http import ClientDisconnectedError, Send
from .limits import Limits
from .task_stream import TaskStream

__all__ = ["SseWriter", "encode_event"]

_logger = logging.getLogger("trio_a2a.server")

_MEMBERS = [(field.type, field.json_name.encode()) for field in describe(StreamResponse)]


def encode_event(event: StreamEvent) -> bytes:
    """Return the event's StreamResponse as JSON, without line breaks that a client might split at.

    Both HTTP bindings put the same bytes into their frames, so an event is encoded once whoever reads it.
    """
    # What `StreamResponse.of(event)` is as JSON, without the detour over a value.
    member = next(name for kind, name in _MEMBERS if isinstance(event, kind))
    return escaped(b'{"%b":%b}' % (member, to_json(event)))


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
        self._begun = False
        self._writing = False

    async def run(self, stream: TaskStream) -> None:
        """Send the stream; `finish` then ends the response, outside of the subscription's scope.

        Raises:
            A2AError: It failed before its headers were sent; nothing was.

        Cancellation: the response is left unfinished: its client is gone, the server ends, or a hook has aborted the
        stream.
        """
        held, ended = await self._until_begun(stream)
        data = b"".join(map(self._frames, held))
        headers = [
            (b"content-type", MEDIA_TYPE),
            (b"cache-control", b"no-cache"),
            (b"x-accel-buffering", b"no"),  # nginx would otherwise collect the events
            *self._headers,
        ]
        self._begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._write(data)
        with trio.move_on_after(math.inf if self._limits.stream_age is None else self._limits.stream_age):
            while not ended:
                data, ended = await self._next(stream)
                if data:
                    await self._write(data)

    async def finish(self) -> None:
        """End the response, when the stream has come to its end or was aborted.

        Raises:
            InternalError: It was aborted before the headers were sent; nothing was.
            ClientDisconnectedError: It was aborted within a frame, so that the connection can only be closed.
        """
        if not self._begun:
            raise InternalError("The stream was aborted", metadata={"retry": "subscribe"})
        if self._writing:
            raise ClientDisconnectedError
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

    async def _next(self, stream: TaskStream) -> tuple[bytes, bool]:
        """Return the frames that come next, or a comment after a silence, and whether the stream is over."""
        try:
            with trio.move_on_after(self._limits.keep_alive):
                try:
                    batch = await stream.receive_batch()
                except trio.EndOfChannel:
                    return b"", True
                return b"".join(map(self._frames, batch)), False
        except A2AError as exc:
            return self._failure(exc), True
        except Exception:  # boundary between the server and its callers: detail goes to the log alone
            _logger.exception("a stream failed")
            return self._failure(InternalError()), True
        return KEEP_ALIVE, False

    async def _write(self, data: bytes) -> None:
        self._writing = True
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self._writing = False
