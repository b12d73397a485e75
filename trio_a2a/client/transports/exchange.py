"""What the two HTTP bindings have in common: headers, JSON, results, and the events of a stream."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, final
from urllib.parse import quote

import orjson
import trio

from ...errors import A2AError
from ...types import StreamResponse
from ...wire import UnknownMemberError, from_dict
from ...wire.headers import EXTENSIONS, VERSION as VERSION_HEADER
from ...wire.sse import MEDIA_TYPE, SseEvent, SseLimitError, SseParser
from ..exceptions import ConnectionLostError, InvalidResponseError, ResponseTooLargeError
from ..http import HttpAnswer, HttpStream
from ..interfaces import VERSION
from ..transport import EventSource, ReceivedEvent

__all__ = ["AnswerSource", "SseSource", "headers_of", "is_event_stream", "read_json", "read_result"]

_SEQUENCE_DIGITS = 18  # numbers of events fit into 64 bits; longer ids are somebody else's


def headers_of(extensions: tuple[str, ...], headers: Any, *, stream: bool, last_event_id: int | None = None) -> Any:
    """Return the headers of a request, without its content type."""
    found = {"accept": "application/a2a+json, application/json", VERSION_HEADER.lower(): VERSION}
    if stream:
        found["accept"] = f"text/event-stream, {found['accept']}"
    if extensions:
        # A comma separates URIs, so one within a URI is written as an escape.
        found[EXTENSIONS.lower()] = ", ".join(quote(uri, safe=":/?#[]@!$&'()*+;=%-._~") for uri in extensions)
    if last_event_id is not None:
        found["last-event-id"] = str(last_event_id)
    found.update({name.lower(): value for name, value in headers.items()})
    return found


def is_event_stream(stream: HttpStream) -> bool:
    """Tell whether an answer is a stream of events; that of a failing proxy is not, whatever it says."""
    return stream.status // 100 == 2 and stream.content_type == MEDIA_TYPE.decode()


def read_json(answer: HttpAnswer) -> Any:
    """Return the JSON of an answer; None if it is no JSON."""
    try:
        return orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return None


def read_result(members: Any, cls: type[Any] | None) -> Any:
    """Return a result as a value.

    Raises:
        InvalidResponseError: It is no such value.
    """
    if cls is None:
        return None
    try:
        return from_dict(members, cls, strict=False)
    except A2AError as exc:  # what is at fault is the answer, not a parameter of ours
        raise InvalidResponseError(f"the answer is no {cls.__name__}: {exc}") from exc


def _event_of(members: Any) -> Any:
    """Return the event that a StreamResponse holds; None for one of a later version of the protocol."""
    try:
        return from_dict(members, StreamResponse, strict=False).value
    except UnknownMemberError:
        return None
    except A2AError as exc:
        raise InvalidResponseError(f"an event of the stream is no StreamResponse: {exc}") from exc


@final
class AnswerSource(EventSource):
    """A stream that was answered with one plain result."""

    def __init__(self, members: Any) -> None:
        self._event = _event_of(members)

    async def receive(self) -> ReceivedEvent:
        """Return the next event, as the Protocol says."""
        await trio.lowlevel.checkpoint()
        event, self._event = self._event, None
        if event is None:
            raise trio.EndOfChannel
        return ReceivedEvent(event)

    async def aclose(self) -> None:
        """Close it."""
        self._event = None


@final
class SseSource(EventSource):
    """A stream of Server-Sent Events.

    Args:
        stream: The answer.
        unwrap: Takes the StreamResponse out of the JSON of a frame, or raises the error that it holds.
        silence: Seconds without a byte after which it counts as broken; a server's comments are bytes, too.
    """

    def __init__(self, stream: HttpStream, unwrap: Callable[[Any], Any], *, silence: float = math.inf) -> None:
        self._stream = stream
        self._unwrap = unwrap
        self._silence = silence
        self._parser = SseParser()
        self._frames: deque[SseEvent] = deque()

    async def receive(self) -> ReceivedEvent:
        """Return the next event, as the Protocol says."""
        while True:
            while self._frames:
                frame = self._frames.popleft()
                if not frame.data:
                    continue
                event = _event_of(self._unwrap(_json_of(frame)))
                if event is not None:
                    return ReceivedEvent(event, _sequence(frame))
            data = None
            with trio.move_on_after(self._silence):
                data = await self._stream.receive()
            if data is None:
                raise ConnectionLostError(f"the stream was silent for {self._silence:g} seconds")
            if not data:
                raise trio.EndOfChannel
            try:
                self._frames.extend(self._parser.feed(data))
            except SseLimitError as exc:
                raise ResponseTooLargeError(str(exc)) from exc

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()


def _json_of(frame: SseEvent) -> Any:
    try:
        return orjson.loads(frame.data)
    except orjson.JSONDecodeError as exc:
        raise InvalidResponseError("an event of the stream is no JSON") from exc


def _sequence(frame: SseEvent) -> int:
    id_ = frame.id or ""
    return int(id_) if id_.isascii() and id_.isdigit() and len(id_) <= _SEQUENCE_DIGITS else 0
