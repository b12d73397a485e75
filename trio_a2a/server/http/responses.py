"""Responses as bytes, without I/O: the order of ASGI messages, the framing, and the fields that are ours.

One `ResponseEncoder` makes one response. The header block is held back until the first body message, so that a
short response is one write, and so that its length is known before its header block goes out:

    start --> (nothing to send) --> body, more_body=False --> header block with Content-Length, body
                                --> body, more_body=True  --> header block, then as the table says

    HTTP/1.1                          chunked, unless the application gave a Content-Length
    HTTP/1.0                          up to the end of the connection, unless it gave a Content-Length
    HEAD, 204, 304                    no body; what the application sends of it is dropped
"""

from __future__ import annotations

import http
import re
from collections.abc import Iterable
from email.utils import formatdate

import attrs

from .asgi import ApplicationError, Message

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# RFC 9110 section 5.5: no CR, LF or NUL; other controls but the tab are as useless in a field.
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode("ascii")) for status in http.HTTPStatus
}
# The server frames messages and manages the connection (RFC 9110 section 7.6.1); of these only `close` is heeded.
_HOP_BY_HOP = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"proxy-connection"))


class HttpDate:
    """The value of the Date field, made once a second.

    It is the one thing here that needs the wall clock; how long a value is used is measured on Trio's clock.
    """

    __slots__ = ("_until", "_value")

    def __init__(self) -> None:
        self._value = b""
        self._until = float("-inf")

    def at(self, now: float) -> bytes:
        """The current value; `now` is `trio.current_time()`."""
        if now >= self._until:
            self._value = formatdate(usegmt=True).encode("ascii")
            self._until = now + 1.0
        return self._value


def status_line(status: int) -> bytes:
    """The first line of a response."""
    line = _STATUS_LINES.get(status)
    return line if line is not None else b"HTTP/1.1 %d \r\n" % status


def refusal(status: int, detail: str, date: bytes, *, with_body: bool = True) -> bytes:
    """A whole response of the server's own, after which the connection ends.

    `detail` is one of the server's fixed texts. Nothing that a client sent, and no exception text, gets in here.
    """
    body = detail.encode("ascii") + b"\n"
    return (
        b"%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\ndate: %b\r\nconnection: close\r\n\r\n%b"
        % (
            status_line(status),
            len(body),
            date,
            body if with_body else b"",
        )
    )


@attrs.define(eq=False, kw_only=True)
class ResponseEncoder:
    """Turns the `http.response.*` messages of one request into bytes.

    Attributes:
        keep_alive: Whether the connection can take another request after this response. May be cleared from
            outside until the header block is made.
        on_wire: Whether a byte of the response has been given out.
        complete: Whether the last one has.
    """

    is_head: bool
    is_1_1: bool
    keep_alive: bool
    on_wire: bool = False
    complete: bool = False
    _head: Message | None = None
    _chunked: bool = False
    _drop_body: bool = False
    _missing: int | None = None  # what is left to come of the announced Content-Length

    def start(self, message: Message) -> None:
        """Take an `http.response.start` message.

        Raises:
            ApplicationError: There has been one already, or the status is none of a final response.
        """
        if self._head is not None:
            raise ApplicationError("http.response.start was sent twice")
        status = message["status"]
        if not isinstance(status, int) or not 200 <= status <= 999:
            raise ApplicationError("the status of a response must be an integer from 200 to 999")
        self._head = message

    def body(self, message: Message, date: bytes) -> bytes:
        """Take an `http.response.body` message and give what to send for it, which may be nothing.

        Raises:
            ApplicationError: It is out of order, does not fit the announced Content-Length, or the header fields
                cannot be sent. Nothing is to be sent then.
        """
        if self._head is None:
            raise ApplicationError("http.response.body was sent before http.response.start")
        if self.complete:
            raise ApplicationError("http.response.body was sent after the end of the response")
        data: bytes = message.get("body", b"")
        size = len(data)
        more = message.get("more_body", False)
        head = b"" if self.on_wire else self._make_head(self._head, None if more else size, date)
        if self._drop_body:
            data = b""
        elif self._missing is not None:
            missing = self._missing - size
            if missing < 0 or (missing and not more):
                raise ApplicationError("the body does not have the length that Content-Length announces")
            self._missing = missing
        elif self._chunked:
            if size:
                data = b"%x\r\n%b\r\n" % (size, data)
            if not more:
                data += b"0\r\n\r\n"
        self.on_wire = True
        self.complete = not more
        return head + data if head else bytes(data)

    def _make_head(self, message: Message, length: int | None, date: bytes) -> bytes:
        """Make the header block; `length` is that of the body where the first message holds all of it."""
        status: int = message["status"]
        parts = [status_line(status)]
        announced: bytes | None = None
        has_date = False
        fields: Iterable[tuple[bytes, bytes]] = message.get("headers", ())
        for name, value in fields:
            if _NAME.fullmatch(name) is None or _BAD_VALUE.search(value) is not None:
                # Neither is shown: the one thing known about them is that they are not fit to be shown.
                raise ApplicationError("a response header has a name or value that HTTP cannot carry")
            lowered = name.lower()
            if lowered == b"content-length":
                if announced is not None or not value.isdigit():
                    raise ApplicationError("the Content-Length of a response must be one number")
                announced = value
                continue
            if lowered in _HOP_BY_HOP:
                if lowered == b"connection" and b"close" in value.lower():
                    self.keep_alive = False
                continue
            if lowered == b"date":
                has_date = True
            parts.append(b"%b: %b\r\n" % (name, value))
        # Without a body in any case; a Content-Length has a meaning with HEAD and 304 only.
        bodiless = status in {204, 304}
        self._drop_body = self.is_head or bodiless
        if status == 204:
            pass
        elif announced is not None:
            if not self._drop_body:
                self._missing = int(announced)
            parts.append(b"content-length: %b\r\n" % announced)
        elif length is not None:
            if not bodiless:
                parts.append(b"content-length: %d\r\n" % length)
        elif bodiless:
            pass
        elif self.is_1_1:
            self._chunked = True
            parts.append(b"transfer-encoding: chunked\r\n")
        else:
            self.keep_alive = False
        if not has_date:
            parts.append(b"date: %b\r\n" % date)
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        elif not self.is_1_1:
            parts.append(b"connection: keep-alive\r\n")
        parts.append(b"\r\n")
        return b"".join(parts)
