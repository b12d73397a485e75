"""What llhttp lets through: the checks of a complete header block, as one pure function.

llhttp has accepted the block by then. `check_head` looks at it again, at the raw bytes and at the fields, and decides
how the body is framed. It refuses whatever two servers in a row could understand in two ways (RFC 9112 section 11.2).
"""

from __future__ import annotations

import re

import attrs

# RFC 9112 section 3.2 with RFC 3986 section 3.2.2: a name or address, an IPv6 address, and maybe a port.
_HOST = re.compile(rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=%]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_ABSOLUTE_FORM = re.compile(rb"https?://([^/?#@]+)((?:[/?][^#]*)?)", re.IGNORECASE)
_VERSION = re.compile(rb"[\r\n]*\S+ +\S+ +HTTP/(\d+(?:\.\d+)?)")
_VERSIONS = {b"HTTP/1.1": True, b"HTTP/1.0": False}
# The fields that decide about framing, routing and the connection itself.
_SPECIAL = frozenset((b"host", b"content-length", b"transfer-encoding", b"connection", b"expect"))

_WRONG_VERSION = "only HTTP/1.0 and HTTP/1.1 are spoken here"

Headers = list[tuple[bytes, bytes]]


class BadRequestError(Exception):
    """What arrived is not a request that this server answers: the status to refuse it with.

    `detail` is sent to the client. It is a fixed text, with nothing in it that the client has sent.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail


@attrs.frozen(kw_only=True)
class RequestHead:
    """A request line and header fields that passed all checks."""

    method: str
    target: bytes  # origin form (path and query), or b"*"
    http_version: str  # "1.0" or "1.1"
    headers: Headers  # names in lower case; ASGI asks for a list
    chunked: bool
    content_length: int  # 0 without a body and with a chunked one
    keep_alive: bool
    expects_continue: bool


def explain_refused_head(raw: bytes) -> BadRequestError:
    """The refusal of a block, or the beginning of one, that llhttp has refused behind its target."""
    version = _VERSION.match(raw)
    if version is not None and version[1] not in {b"1.0", b"1.1"}:
        return BadRequestError(505, _WRONG_VERSION)
    return BadRequestError(400, "malformed request")


def check_head(raw: bytes, headers: Headers, *, max_target: int) -> RequestHead:
    """Check a header block.

    Args:
        raw: The whole block with its blank line, and with what empty lines were in front of it.
        headers: Its fields as llhttp reported them, names in lower case, values without blanks around them.
        max_target: How long the request target may be.

    Raises:
        BadRequestError: It is refused.
    """
    method, target, is_1_1 = _check_request_line(raw, max_target)
    host: bytes | None = None
    length: bytes | None = None
    coding: bytes | None = None
    expect = b""
    connection: list[bytes] = []
    for name, value in headers:
        if name not in _SPECIAL:
            continue
        if name == b"host":
            if host is not None:
                raise BadRequestError(400, "more than one Host")
            host = value
        elif name == b"content-length":
            if length is not None or not value.isdigit():
                raise BadRequestError(400, "malformed Content-Length")
            length = value
        elif name == b"transfer-encoding":
            if coding is not None:
                raise BadRequestError(400, "more than one Transfer-Encoding")
            coding = value.lower()
        elif name == b"connection":
            connection += (token.strip(b" \t") for token in value.lower().split(b","))
        else:
            expect = value.lower()
    if host is None:
        if is_1_1:
            raise BadRequestError(400, "no Host")
    elif _HOST.fullmatch(host) is None:
        raise BadRequestError(400, "malformed Host")
    if expect and expect != b"100-continue":
        raise BadRequestError(417, "only Expect: 100-continue is understood")
    if coding is not None:
        if length is not None:
            raise BadRequestError(400, "Content-Length next to Transfer-Encoding")
        if not is_1_1:
            raise BadRequestError(400, "Transfer-Encoding in HTTP/1.0")
        if coding != b"chunked":
            raise BadRequestError(501, "only the transfer coding chunked is understood")
    if not target.startswith(b"/"):
        target, headers = _route(method, target, headers)
    return RequestHead(
        method=method.decode("ascii"),
        target=target,
        http_version="1.1" if is_1_1 else "1.0",
        headers=headers,
        chunked=coding is not None,
        content_length=0 if length is None else int(length),  # llhttp has refused numbers past 64 bits
        keep_alive=b"close" not in connection and (is_1_1 or b"keep-alive" in connection),
        # RFC 9110 section 10.1.1: an HTTP/1.0 client cannot mean it.
        expects_continue=bool(expect) and is_1_1,
    )


def _check_request_line(raw: bytes, max_target: int) -> tuple[bytes, bytes, bool]:
    """Give the method, the target, and whether the version is 1.1."""
    lines = raw.count(b"\r\n")
    # llhttp lets a bare LF pass in front of the request line.
    if raw.count(b"\n") != lines or raw.count(b"\r") != lines:
        raise BadRequestError(400, "malformed line end")
    if raw.startswith(b"\r\n"):
        raw = raw.lstrip(b"\r\n")
    words = raw[: raw.index(b"\r\n")].split(b" ")
    is_1_1 = _VERSIONS.get(words[-1])
    if is_1_1 is None:
        raise BadRequestError(505, _WRONG_VERSION)
    # HTTP/0.9, which llhttp ends without a blank line, has been refused by now: this is for surprises.
    if len(words) != 3 or not raw.endswith(b"\r\n\r\n"):
        raise BadRequestError(400, "malformed request line")
    method, target, _ = words
    if method == b"CONNECT":
        raise BadRequestError(501, "CONNECT is not supported")
    if len(target) > max_target:
        raise BadRequestError(414, "request target too long")
    # A build of llhttp may let other bytes pass. A fragment may never be sent (RFC 9112 section 3.2).
    if not target.isascii() or b"#" in target:
        raise BadRequestError(400, "malformed request target")
    return method, target, is_1_1


def _route(method: bytes, target: bytes, headers: Headers) -> tuple[bytes, Headers]:
    """Bring a target in absolute form, or the asterisk, to what applications expect."""
    if target == b"*" and method == b"OPTIONS":
        return target, headers
    absolute = _ABSOLUTE_FORM.fullmatch(target)
    if absolute is None or _HOST.fullmatch(absolute[1]) is None:
        raise BadRequestError(400, "malformed request target")
    authority, rest = absolute[1], absolute[2]
    # RFC 9112 section 3.2.2: the authority in the target replaces the Host field.
    headers = [(name, authority if name == b"host" else value) for name, value in headers]
    return (rest if rest.startswith(b"/") else b"/" + rest), headers
