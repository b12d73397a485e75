"""HTTP for clients: the one module that knows the HTTP library, and lets none of its exceptions out.

Every read is bounded. Nothing here limits time: the callers' scopes do, on Trio's clock. Redirects are not followed,
and cookies that servers set are not kept: a call says all that it means.
"""

import logging
import re
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final, final
from urllib.parse import urlencode

import attrs
import trio

from .auth import Authorizer, Credentials
from .exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    InvalidResponseError,
    ResponseTooLargeError,
    TransportError,
)

try:
    import httpx2
except ImportError as exc:  # pragma: no cover - shown by a test in a process of its own
    raise ImportError("the client needs the extra 'client': pip install 'trio-a2a[client]'") from exc

__all__ = [
    "CLOSE_TIMEOUT",
    "KEPT_IDLE",
    "MAX_BODY",
    "HttpAnswer",
    "HttpRequest",
    "HttpSession",
    "HttpStream",
    "open_session",
]

MAX_BODY: Final = 64 * 1024 * 1024
"""Bytes of an answer: a task with a few files of the size that servers take (16 MiB)."""

KEPT_IDLE: Final = 3.0
"""Seconds for which an idle connection is kept. Common servers close theirs after five; a request that is sent at that
moment is lost, and one that is not safe to repeat is then an error."""

CLOSE_TIMEOUT: Final = 1.0
"""Seconds for saying goodbye to a peer that may be gone; after that its connection is dropped."""

_logger = logging.getLogger("trio_a2a.client")

_UNAUTHORIZED = 401

# None is asked for; a server that packs its answers all the same, in one of the usual ways, is understood.
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_PIECE = 64 * 1024  # bytes that are unpacked at a time, as many as are received at a time

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*", re.ASCII)


@final
@attrs.frozen(kw_only=True)
class HttpRequest:
    """A request.

    Attributes:
        method: The HTTP method.
        url: Where.
        headers: Its headers; not in its repr, since they may be secret.
        body: Its body; None: it has none.
    """

    method: str
    url: str
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    body: bytes | None = None


@final
@attrs.frozen
class HttpAnswer:
    """An answer that has been read.

    Attributes:
        status: The HTTP status.
        headers: Header names in lower case to values.
        body: The body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def retry_after(self) -> float | None:
        """The seconds that ``Retry-After`` asks for."""
        return _seconds(self.headers.get("retry-after"))


def _seconds(text: str | None) -> float | None:
    """Read seconds; the other form of the header, a date, is not worth its trouble with clocks that disagree."""
    text = (text or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


@final
class HttpStream:
    """An answer whose body is still to come."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._chunks = response.aiter_raw()
        self._closed = False
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._encoding = self.headers.get("content-encoding", "").strip().lower()
        self._unpacker = zlib.decompressobj(_GZIP_OR_ZLIB) if self._encoding in _PACKED else None

    @property
    def content_type(self) -> str:
        """The media type, without parameters; "" if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def receive(self) -> bytes:
        """Return the next bytes of the body; b"" at its end.

        Raises:
            ConnectionLostError: It broke off.
            InvalidResponseError: It is in an encoding that was not asked for, or a broken one.

        Cancellation: the body cannot be read on.
        """
        if self._unpacker is not None:
            return await self._unpacked(self._unpacker)
        if self._encoding not in {"", "identity"}:
            raise InvalidResponseError(f"the answer has the content encoding {self._encoding[:50]!r}")
        return await self._received()

    async def _received(self) -> bytes:
        with _mapped():
            return await anext(self._chunks, b"")

    async def _unpacked(self, unpacker: "zlib._Decompress") -> bytes:
        """Return the next bytes that were packed, piece by piece: a small answer can hold a very large one."""
        while True:
            packed = unpacker.unconsumed_tail or await self._received()
            try:
                unpacked = unpacker.decompress(packed, _PIECE)
            except zlib.error as exc:
                raise InvalidResponseError("the answer's content encoding is broken") from exc
            if unpacked or unpacker.eof:  # what stands behind the end is nothing
                return unpacked
            if not packed:
                raise ConnectionLostError("the answer's content encoding has no end")

    async def read(self, limit: int = MAX_BODY) -> HttpAnswer:
        """Read the rest, and close.

        Raises:
            ResponseTooLargeError: There is more than ``limit`` bytes.
            ConnectionLostError: It broke off.
        """
        try:
            body = bytearray()
            while chunk := await self.receive():
                body += chunk
                if len(body) > limit:
                    raise ResponseTooLargeError(f"the answer is larger than {limit} bytes")
            return HttpAnswer(self.status, self.headers, bytes(body))
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End the request; a body that was not read to its end costs its connection.

        Cancellation: shielded for `CLOSE_TIMEOUT`, since a connection that is not closed would be lost to its pool.
        """
        if self._closed:
            return
        self._closed = True
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True) as scope:
            # Anything may come of it when the peer is gone: what matters is that it is over.
            with suppress(httpx2.HTTPError):
                await self._response.aclose()
            # The library nests generators and does not close the inner ones with the outer one; they end by finding
            # that there is no connection. What it had received before is less than a buffer.
            with suppress(httpx2.HTTPError, httpx2.StreamError, StopAsyncIteration):
                while True:
                    await anext(self._chunks)
        if scope.cancelled_caught:
            _logger.debug("a connection took longer than %s seconds to close, and was dropped", CLOSE_TIMEOUT)


@contextmanager
def _mapped() -> Iterator[None]:
    """Say in our terms what the HTTP library says."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol, httpx2.ProxyError) as exc:
        raise ConnectionFailedError(_text(exc, "no connection could be made")) from exc
    except httpx2.RequestError as exc:
        raise ConnectionLostError(_text(exc, "the connection broke")) from exc
    except (httpx2.InvalidURL, UnicodeError) as exc:  # the latter of a host name that cannot be one
        raise ConnectionFailedError(f"there is no such URL: {exc}") from exc
    except httpx2.HTTPError as exc:
        raise TransportError(_text(exc, "the HTTP exchange failed")) from exc


def _text(exc: Exception, otherwise: str) -> str:
    return f"{otherwise}: {exc}" if str(exc) else otherwise


@final
class HttpSession:
    """Requests to one target, over connections that are kept.

    Args:
        client: The HTTP library's client.
        authorizer: Puts credentials into each request; None: there are none.
    """

    def __init__(self, client: httpx2.AsyncClient, authorizer: Authorizer | None = None) -> None:
        self._client = client
        self._authorizer = authorizer

    def authorized(self, authorizer: Authorizer) -> "HttpSession":
        """Return a session over the same connections, with credentials."""
        return HttpSession(self._client, authorizer)

    def anonymous(self) -> "HttpSession":
        """Return a session over the same connections, without credentials."""
        return HttpSession(self._client)

    async def open(self, request: HttpRequest) -> HttpStream:
        """Send a request and wait for the head of its answer; who calls closes it.

        An answer 401 is tried once more where credentials can be renewed: the server has done nothing then.

        Raises:
            ConnectionFailedError: Nothing was sent.
            ConnectionLostError: The connection broke.
            CredentialsError: A token could not be had.
            ValueError: A header cannot be sent.
            trio.ClosedResourceError: The session is closed.

        Cancellation: the request is given up; the server may have got it.
        """
        if self._authorizer is None:
            return await self._send(request, None)
        credentials = await self._authorizer.credentials()
        stream = await self._send(request, credentials)
        if stream.status == _UNAUTHORIZED and self._authorizer.forget(credentials):
            await stream.aclose()
            stream = await self._send(request, await self._authorizer.credentials())
        return stream

    async def exchange(self, request: HttpRequest, *, limit: int = MAX_BODY) -> HttpAnswer:
        """Send a request and read its answer.

        Raises:
            ResponseTooLargeError: The body has more than ``limit`` bytes.
            TransportError: It failed, as for `open`.
        """
        return await (await self.open(request)).read(limit)

    async def _send(self, request: HttpRequest, credentials: Credentials | None) -> HttpStream:
        if self._client.is_closed:
            raise trio.ClosedResourceError("the client is closed: call it within the block of its connect()")
        headers = dict(request.headers)
        url = request.url
        if credentials is not None:
            headers.update(credentials.headers)
            if credentials.cookies:
                headers["cookie"] = "; ".join(f"{name}={value}" for name, value in credentials.cookies.items())
            if credentials.query:
                url += ("&" if "?" in url else "?") + urlencode(credentials.query)
        for name, value in headers.items():
            if not _HEADER.fullmatch(f"{name}:{value}"):  # the value may be a secret
                raise ValueError(f"the header {name[:50]!r} cannot be sent: names are tokens, values printable ASCII")
        with _mapped():
            built = self._client.build_request(request.method, url, headers=headers, content=request.body)
            return HttpStream(await self._client.send(built, stream=True))


@asynccontextmanager
async def open_session(
    *,
    authorizer: Authorizer | None = None,
    ssl_context: ssl.SSLContext | None = None,
    http_transport: Callable[[], httpx2.AsyncBaseTransport] | None = None,
    reuses_connections: bool = True,
) -> AsyncIterator[HttpSession]:
    """Open a session for the length of a block; leaving it closes its connections.

    Args:
        authorizer: Puts credentials into each request.
        ssl_context: For HTTPS; by default certificates are verified against the system's.
        http_transport: Makes what carries the requests, in place of connections over sockets; the session closes it.
        reuses_connections: Whether a connection serves more than one request. One that does may break: the server may
            close it at the moment at which it is used again.
    """
    client = httpx2.AsyncClient(
        timeout=None,
        # Streams hold a connection each, as many as the program opens.
        limits=httpx2.Limits(
            max_connections=None,
            max_keepalive_connections=20 if reuses_connections else 0,
            keepalive_expiry=KEPT_IDLE,
        ),
        verify=True if ssl_context is None else ssl_context,
        follow_redirects=False,
        transport=None if http_transport is None else http_transport(),
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        # Events are to come as they are sent, and a bound on bytes is to mean what it says.
        headers={"accept-encoding": "identity", "user-agent": "trio-a2a"},
    )
    async with client:
        yield HttpSession(client, authorizer)
