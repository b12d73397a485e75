"""Requests out of bytes, without I/O: llhttp in lock-step with our own idea of where things end.

llhttp (through httptools) checks the grammar. It is strict about line ends, header names and values, chunk
sizes, and about Content-Length next to Transfer-Encoding. It leaves four things to us:

- *It cannot be paused.* Given a read with several pipelined requests it reports them all. So it is never
  given more than the current request: this module finds the end of the header block, counts the bytes of a
  body and the bytes of each chunk, and feeds exactly those. Every boundary is thereby decided twice, by
  llhttp and by us, and a disagreement is an error: that is the defence against request smuggling.
- *It has no limits.* All sizes of `HttpLimits` are enforced here, while bytes arrive.
- *It is liberal in places*: no Host or several, `gzip, chunked`, chunked in HTTP/1.0, HTTP/0.9 and 2.0, RTSP,
  runs of blanks in the request line. `check_head` looks at the raw block and at the fields again.
- *It stops at CONNECT and Upgrade*, taking what follows for another protocol. We refuse CONNECT and ignore
  Upgrade, as RFC 9110 section 7.8 allows; see `_after_upgrade`.

States, and what leads on:

    HEAD --blank line--> DONE | LENGTH | CHUNK_LINE
    LENGTH --all bytes there--> DONE
    CHUNK_LINE --size > 0--> CHUNK_DATA --data and CRLF there--> CHUNK_LINE
    CHUNK_LINE --size = 0--> TRAILERS --blank line--> DONE
    DONE --next_request()--> HEAD

Bytes that arrive in DONE are kept, unparsed, for the next request; the caller stops reading when `full`.
"""

from __future__ import annotations

import enum

import httptools

from .head import BadRequestError, RequestHead, check_head, explain_refused_head
from .limits import HttpLimits

# What is held at most of a body that the application has not taken yet, and of requests behind the current
# one, before the server stops reading: one read. A read that was under way may double it.
BUFFER_SIZE = 64 * 1024


class _Mode(enum.Enum):
    HEAD = enum.auto()
    LENGTH = enum.auto()
    CHUNK_LINE = enum.auto()
    CHUNK_DATA = enum.auto()
    TRAILERS = enum.auto()
    DONE = enum.auto()


class _Events:
    """What llhttp has reported of the current request.

    An object of its own, so that no reference leads from here back to the llhttp parser: connections come and
    go too often to leave their reference cycles to the garbage collector.
    """

    __slots__ = ("begun", "body", "complete", "head_complete", "headers", "max_headers", "too_many")

    def __init__(self, max_headers: int) -> None:
        self.max_headers = max_headers
        self.body: bytes | bytearray = b""
        self.reset()

    def reset(self) -> None:
        self.begun = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.head_complete = False
        self.complete = False
        self.too_many = False

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head_complete:
            return  # A trailer. What could be trusted in it? Nothing here needs one.
        if len(self.headers) == self.max_headers:
            self.too_many = True
            raise ValueError  # llhttp turns this into an error of its own; the flag tells ours
        # llhttp has cut the blanks in front of the value, not those behind.
        self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self.head_complete = True

    def on_body(self, data: bytes) -> None:
        # One bytearray, not a list of pieces: a body in chunks of one byte must not cost 40 bytes a byte.
        if not self.body:
            self.body = data
        else:
            if isinstance(self.body, bytes):
                self.body = bytearray(self.body)
            self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


class RequestParser:
    """One client's requests, one at a time.

    `feed` takes what arrived. Then `head` is the current request once its header block is complete, `take_body`
    gives what has arrived of its body, and `complete` says that there is no more of it. `next_request` goes on to
    the one behind it. After a `BadRequestError` the parser is of no further use.
    """

    __slots__ = ("_events", "_limits", "_line", "_llhttp", "_mode", "_rest", "_todo", "_total", "head")

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._events = _Events(limits.max_headers)
        self._llhttp = httptools.HttpRequestParser(self._events)
        self._mode = _Mode.HEAD
        self._line = bytearray()  # a header block, chunk line or trailer section that is not complete yet
        self._todo = 0  # bytes missing of the body (LENGTH) or of this chunk with its CRLF (CHUNK_DATA)
        self._total = 0  # bytes announced by all chunks of this body
        self._rest = b""  # bytes behind the current request
        self.head: RequestHead | None = None

    @property
    def complete(self) -> bool:
        """Whether the current request has arrived as a whole."""
        return self._mode is _Mode.DONE

    @property
    def partial(self) -> bool:
        """Whether a part of a header block is there, and the rest of it is missing.

        Blank lines alone do not count: some clients send one behind a body (RFC 9112 section 2.2).
        """
        return self.head is None and bool(self._line) and bool(self._line.strip(b"\r\n"))

    @property
    def body_ready(self) -> bool:
        """Whether `take_body` has something to give."""
        return bool(self._events.body)

    @property
    def full(self) -> bool:
        """Whether the caller should stop reading until something is taken."""
        return len(self._events.body) >= BUFFER_SIZE or len(self._rest) >= BUFFER_SIZE

    def take_body(self) -> bytes:
        """Give and forget the part of the body that has arrived."""
        body, self._events.body = self._events.body, b""
        return body if isinstance(body, bytes) else bytes(body)

    def feed(self, data: bytes | bytearray) -> None:
        """Take bytes that arrived, in any portions.

        Raises:
            BadRequestError: They are no request, or one past a limit.
        """
        if not isinstance(data, bytes):
            data = bytes(data)  # slices of it get into scopes
        if self._mode is _Mode.DONE:
            self._rest += data
        else:
            self._parse(data)

    def next_request(self) -> None:
        """Leave the current, complete request and begin with the bytes behind it.

        Raises:
            BadRequestError: They are no request, or one past a limit.
        """
        self._events.reset()
        self._events.body = b""
        self.head = None
        self._mode = _Mode.HEAD
        if self._rest:
            data, self._rest = self._rest, b""
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        position, size = 0, len(data)
        while position < size:
            mode = self._mode
            if mode is _Mode.HEAD:
                position = self._parse_head(data, position)
            elif mode is _Mode.DONE:
                self._rest = data[position:]
                return
            elif mode is _Mode.LENGTH or mode is _Mode.CHUNK_DATA:
                end = min(size, position + self._todo)
                self._feed(data[position:end])
                self._todo -= end - position
                position = end
                if not self._todo:
                    self._mode = _Mode.DONE if mode is _Mode.LENGTH else _Mode.CHUNK_LINE
            else:
                position = self._parse_line(data, position)
            if self._events.complete is not (self._mode is _Mode.DONE):
                raise BadRequestError(400, "malformed body")

    def _feed(self, data: bytes) -> None:
        try:
            self._llhttp.feed_data(data)
        except httptools.HttpParserError:
            raise BadRequestError(400, "malformed body") from None

    # --- header block ---

    def _parse_head(self, data: bytes, position: int) -> int:
        seen = self._line
        if seen:
            # The blank line may have begun in what came before.
            overlap = bytes(seen[-3:])
            found = (overlap + data[position:]).find(b"\r\n\r\n")
            end = len(data) if found < 0 else position + found + 4 - len(overlap)
        else:
            found = data.find(b"\r\n\r\n", position)
            end = len(data) if found < 0 else found + 4
        piece = data[position:end]
        self._check_head_size(piece)
        upgrade = False
        try:
            self._llhttp.feed_data(piece)
        except httptools.HttpParserUpgrade:
            upgrade = True
        except (httptools.HttpParserInvalidMethodError, httptools.HttpParserInvalidURLError):
            raise BadRequestError(400, "malformed request") from None
        except httptools.HttpParserError:
            raise self._head_error(piece) from None
        if self._events.head_complete:
            raw = bytes(seen) + piece if seen else piece
            seen.clear()
            self._finish_head(raw)
            if upgrade:
                self._after_upgrade()
        else:
            seen += piece
        return end

    def _check_head_size(self, piece: bytes) -> None:
        limits = self._limits
        size = len(self._line) + len(piece)
        # Blanks, method and version are of no interest here; the exact length is checked on the whole line.
        if size > limits.max_target + 64 and b"\n" not in self._line and b"\n" not in piece[: limits.max_target + 64]:
            raise BadRequestError(414, "request target too long")
        if size > limits.max_head:
            raise BadRequestError(431, "header block too large")

    def _head_error(self, piece: bytes) -> BadRequestError:
        if self._events.too_many:
            return BadRequestError(431, "too many header fields")
        return explain_refused_head(bytes(self._line) + piece)

    def _finish_head(self, raw: bytes) -> None:
        if self._events.begun != 1:
            raise BadRequestError(400, "malformed request line")
        head = check_head(raw, self._events.headers, max_target=self._limits.max_target)
        self._total = 0
        if head.chunked:
            self._mode = _Mode.CHUNK_LINE
        else:
            self._todo = head.content_length
            self._check_body_size(self._todo)
            self._mode = _Mode.LENGTH if self._todo else _Mode.DONE
        self.head = head

    # --- body ---

    def _check_body_size(self, size: int) -> None:
        if self._limits.max_body is not None and size > self._limits.max_body:
            raise BadRequestError(413, "request body too large")

    def _parse_line(self, data: bytes, position: int) -> int:
        """Feed up to the end of one line of chunk framing, or of the trailers."""
        found = data.find(b"\n", position)
        end = len(data) if found < 0 else found + 1
        piece = data[position:end]
        in_trailers = self._mode is _Mode.TRAILERS
        if len(self._line) + len(piece) > (self._limits.max_trailers if in_trailers else self._limits.max_chunk_line):
            raise BadRequestError(400, "trailers too large" if in_trailers else "chunk extension too large")
        self._line += piece
        self._feed(piece)
        if in_trailers:
            if self._events.complete:
                self._line.clear()
                self._mode = _Mode.DONE
        elif found >= 0:
            # llhttp has checked the line: a number in hexadecimal, then its end or an extension.
            size = int(self._line.split(b";", 1)[0], 16)
            self._line.clear()
            self._total += size
            self._check_body_size(self._total)
            self._todo = size + 2
            self._mode = _Mode.CHUNK_DATA if size else _Mode.TRAILERS
        return end

    def _after_upgrade(self) -> None:
        """Bring llhttp back to HTTP after a request that asked for another protocol.

        llhttp took the request for complete whatever its framing fields said. A fresh parser is led to the
        beginning of the same body by a header block with the same framing.
        """
        self._llhttp = httptools.HttpRequestParser(self._events)
        if self._mode is _Mode.DONE:
            return
        framing = (
            b"Transfer-Encoding: chunked" if self._mode is _Mode.CHUNK_LINE else b"Content-Length: %d" % self._todo
        )
        self._events.reset()
        self._feed(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % framing)
