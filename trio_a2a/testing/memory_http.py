"""The client's HTTP library over a `MemoryNetwork`: the one module of the kit that knows that library.

Requests go through the library's own connection pool and HTTP/1.1, as they do over sockets; only the network below is
another. "https" is taken as it is, without TLS: there is nobody in between.
"""

import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self, cast, final

import trio

from .memory_streams import MemoryNetwork, MemoryStream

try:
    import httpcore2
    import httpx2
except ImportError as exc:  # pragma: no cover - shown by a test in a process of its own
    raise ImportError("serving in memory needs the extra 'client': pip install 'trio-a2a[client]'") from exc

__all__ = ["MemoryTransport"]

# What a program keeps for later; the same as over sockets.
_KEPT_CONNECTIONS = 20


@contextmanager
def _as_network_errors(reading_or_writing: type[Exception]) -> Iterator[None]:
    try:
        yield
    except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
        raise reading_or_writing(str(exc)) from exc


@final
class _Stream(httpcore2.AsyncNetworkStream):
    """A `MemoryStream` for the pool. Time-outs are not looked at: the client sets none, its scopes limit time."""

    def __init__(self, stream: MemoryStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _as_network_errors(httpcore2.ReadError):
            return await self._stream.receive_some(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _as_network_errors(httpcore2.WriteError):
            await self._stream.send_all(buffer)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    def get_extra_info(self, info: str) -> Any:
        # How the pool finds out that the server has closed a connection that it keeps.
        return self._stream.is_readable if info == "is_readable" else None


@final
class _Backend(httpcore2.AsyncNetworkBackend):
    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> _Stream:
        try:
            return _Stream(await self._network.connect(host))
        except OSError as exc:
            raise httpcore2.ConnectError(exc.strerror) from exc


@contextmanager
def _as_client_errors() -> Iterator[None]:
    """Raise the pool's errors as the library's own, which have the same names."""
    try:
        yield
    except Exception as exc:  # boundary of the pool: what is none of its errors goes on as it is
        if type(exc).__module__.partition(".")[0] != httpcore2.__name__:
            raise
        raise getattr(httpx2, type(exc).__name__)(str(exc)) from exc


@final
class _Body(httpx2.AsyncByteStream):
    """The body of an answer that is still to come."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._chunks: AsyncIterator[bytes] = aiter(stream)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        with _as_client_errors():
            return await anext(self._chunks)

    async def aclose(self) -> None:
        with _as_client_errors():
            await self._stream.aclose()


@final
class MemoryTransport(httpx2.AsyncBaseTransport):
    """Carries the library's requests over a network in memory.

    Args:
        network: The network.
    """

    def __init__(self, network: MemoryNetwork) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            # Never used, but one would be made, with the system's certificates, for each connection.
            ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            max_connections=None,
            max_keepalive_connections=_KEPT_CONNECTIONS,
            # The pool's expiry is on the wall's clock; the server closes idle connections on Trio's.
            keepalive_expiry=None,
            network_backend=_Backend(network),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return the head of its answer.

        Cancellation: a checkpoint; the request is given up.
        """
        url = request.url
        asked = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=cast("AsyncIterator[bytes]", request.stream),
            extensions=request.extensions,
        )
        with _as_client_errors():
            answer = await self._pool.handle_async_request(asked)
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer.stream),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close the connections.

        Cancellation: a checkpoint; those that are left are closed with the network.
        """
        with _as_client_errors():
            await self._pool.aclose()
