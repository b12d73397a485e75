"""Server-Sent Events: writing them as a server, and reading whatever a server may write (protocol section 9).

Writing. Each event is one ``data:`` line that holds one JSON document. JSON text never holds a raw line feed, but it
may hold U+0085, U+2028 and U+2029, where clients exist that split lines; inside JSON they can only stand in strings, so
they are written as escapes.

Reading. `SseParser` knows the whole grammar: lines that end with LF, CRLF or CR (and with nothing else), comments, data
over several lines, a byte order mark, names, ids and reconnection times. A block that the stream's end cuts off is no
event. Data stay bytes: they are JSON, which a parser of JSON reads from bytes.
"""

from typing import Final, final

import attrs

__all__ = [
    "KEEP_ALIVE",
    "MAX_DATA",
    "MAX_LINE",
    "MAX_LINES",
    "MEDIA_TYPE",
    "SseEvent",
    "SseLimitError",
    "SseParser",
    "escaped",
    "frame",
]

MEDIA_TYPE = b"text/event-stream"
KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, which clients skip: it shows proxies and clients that a silent stream is alive."""

_LINE_BREAKS = (
    ("\u0085".encode(), b"\\u0085"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def escaped(json: bytes) -> bytes:
    """Return JSON text without the line breaks that are not line feeds."""
    if not json.isascii():
        for raw, escape in _LINE_BREAKS:
            if raw in json:
                json = json.replace(raw, escape)
    return json


def frame(data: bytes, *, id: int = 0, event: bytes | None = None) -> bytes:
    """Return one event.

    Args:
        data: An `escaped` JSON document.
        id: The event's number; 0 for one that has none.
        event: The event's name; by default it has none.
    """
    head = b"id: %d\n" % id if id else b""
    if event is not None:
        head += b"event: %b\n" % event
    return b"%bdata: %b\n\n" % (head, data)


# --- Reading --------------------------------------------------------------------------------------------------------

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes of one line. A snapshot of a task is one line, and a task may hold files; servers refuse requests of 16 MiB,
and a task may have a few such."""

MAX_DATA: Final = 64 * 1024 * 1024
"""Bytes of all data lines of one event together: what may come in one line may also come in several."""

MAX_LINES: Final = 100_000
"""Lines of one block, comments included. JSON that is printed prettily has some thousands; without a bound, empty data
lines would grow an event for ever without an end of it."""

_BOM = "\ufeff".encode()
_MAX_RETRY_DIGITS = 9  # eleven days in milliseconds; longer numbers are not even converted


class SseLimitError(Exception):
    """An event is larger than its reader takes. The stream cannot be read on."""


@final
@attrs.frozen(kw_only=True)
class SseEvent:
    """One event.

    Attributes:
        data: Its data lines, joined by line feeds.
        id: The id that came with it; None if it has none of its own.
        event: Its name; "" without one.
    """

    data: bytes
    id: str | None = None
    event: str = ""


@final
class SseParser:
    """Makes events of bytes, in whatever pieces these come.

    Args:
        max_line: Bytes that a line may have.
        max_data: Bytes that the data of an event may have.
        max_lines: Lines that a block may have.
    """

    def __init__(self, *, max_line: int = MAX_LINE, max_data: int = MAX_DATA, max_lines: int = MAX_LINES) -> None:
        self._max_line = max_line
        self._max_data = max_data
        self._max_lines = max_lines
        self._line = bytearray()  # what has come of a line
        self._start: bytes | None = b""  # what has come of a stream that may begin with a byte order mark
        self._after_cr = False
        self._lines = 0
        self._data: list[bytes] = []
        self._size = 0
        self._id: str | None = None
        self._event = ""
        self.retry: int | None = None
        """Milliseconds that the server wants readers to wait before they come back; None if it has not said."""

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take the next bytes, and return the events that they complete.

        Raises:
            SseLimitError: A line, a block or its data is too large.
        """
        if self._start is not None:
            data = self._start + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._start = data
                return []
            self._start = None
            data = data.removeprefix(_BOM)
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            # A CR at the end may be half of a CRLF: it ends the line now, and the LF is dropped when it comes.
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *complete, rest = data.split(b"\n")
        events: list[SseEvent] = []
        for line in complete:
            if self._line:
                self._line += line
                line = bytes(self._line)
                self._line.clear()
            if len(line) > self._max_line:
                raise SseLimitError(f"a line of the stream is longer than {self._max_line} bytes")
            if line:
                self._take(line)
            else:
                self._end_block(events)
        self._line += rest
        if len(self._line) > self._max_line:
            raise SseLimitError(f"a line of the stream is longer than {self._max_line} bytes")
        return events

    def _take(self, line: bytes) -> None:
        self._lines += 1
        if self._lines > self._max_lines:
            raise SseLimitError(f"an event of the stream has more than {self._max_lines} lines")
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            if self._size > self._max_data:
                raise SseLimitError(f"an event of the stream has more than {self._max_data} bytes")
            self._data.append(value)
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode(errors="replace")
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self.retry = int(value)
        # A line without a name is a comment, and other names mean nothing.

    def _end_block(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append(SseEvent(data=b"\n".join(self._data), id=self._id, event=self._event))
        self._data = []
        self._size = self._lines = 0
        self._id = None
        self._event = ""
