"""An HTTP request as the bindings see it, and how they answer one."""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, final
from urllib.parse import parse_qsl

import trio

from ..abc import AuthenticationRequest
from ..errors import (
    A2AError,
    AuthenticationError,
    ExtensionSupportRequiredError,
    InvalidRequestError,
    RateLimitedError,
    UnavailableError,
)
from ..types import AgentCard
from ..wire.headers import EXTENSIONS, parse_extensions
from .call import Call
from .http import CANCELS_ON_DISCONNECT, Receive, Scope, Send

__all__ = [
    "JSON_TYPE",
    "SERVED_VERSIONS",
    "BodyTooLargeError",
    "ClientGoneError",
    "Request",
    "error_headers",
    "require_extensions",
    "respond",
    "until_disconnected",
]

SERVED_VERSIONS = ("1.0",)
"""The protocol versions that both HTTP bindings serve."""

JSON_TYPE = b"application/json"


class BodyTooLargeError(InvalidRequestError):
    """The request's body is larger than ``Limits.max_body`` (HTTP 413)."""


class ClientGoneError(Exception):
    """The client went away before its request was complete."""


@final
class Request:
    """One HTTP request of an ASGI server.

    Attributes:
        scope: The ASGI scope.
        headers: Names in lower case to values; repeated ones are joined with ", ".
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        headers: dict[str, str] = {}
        for raw_name, raw_value in scope["headers"]:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self.headers: Mapping[str, str] = headers

    @cached_property
    def query(self) -> Mapping[str, str]:
        """Query parameters, the first value of each."""
        pairs = parse_qsl(self.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        first: dict[str, str] = {}
        for name, value in pairs:
            first.setdefault(name, value)
        return first

    @property
    def method(self) -> str:
        """The method, in upper case."""
        method: str = self.scope["method"]
        return method

    def parameter(self, name: str) -> str | None:
        """Return a service parameter: the header, or else the query parameter; the case of its name does not matter."""
        wanted = name.lower()
        value = self.headers.get(wanted)
        if value is not None or not self.scope.get("query_string"):
            return value
        return next((value for key, value in self.query.items() if key.lower() == wanted), None)

    def requested_extensions(self) -> tuple[str, ...]:
        """Return the URIs that the caller wants to activate."""
        header = self.headers.get(EXTENSIONS.lower())
        if header is not None:
            return parse_extensions((header,))
        # Unlike other parameters it may be repeated, as its header may.
        query = self.scope.get("query_string", b"")
        if not query:
            return ()
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        return parse_extensions(value for name, value in pairs if name.lower() == EXTENSIONS.lower())

    @property
    def media_type(self) -> str:
        """The media type that the body says it has, in lower case and without parameters; "" without one."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def last_event_id(self) -> int | None:
        """The number of the last event that a returning reader has seen; an unreadable one is none."""
        value = self.headers.get("last-event-id", "").strip()
        return int(value) if value.isascii() and value.isdigit() and len(value) <= 18 else None

    def for_authenticator(self) -> AuthenticationRequest:
        """Return what an authenticator may look at."""
        client = self.scope.get("client")
        return AuthenticationRequest(
            headers=self.headers, query=self.query, client=None if client is None else (client[0], client[1])
        )

    @staticmethod
    def echoed(call: Call) -> list[tuple[bytes, bytes]]:
        """Return the response header that names the activated extensions."""
        if not call.extensions:
            return []
        return [(EXTENSIONS.lower().encode(), ", ".join(call.extensions).encode("latin-1", "replace"))]

    async def body(self, receive: Receive, limit: int | None) -> bytes:
        """Read the body.

        Args:
            receive: The ASGI ``receive``.
            limit: Its size at most, in bytes; None: no bound.

        Raises:
            BodyTooLargeError: It is larger; the rest has not been read.
            ClientGoneError: The client went away.
        """
        length = self.headers.get("content-length", "")
        # What other servers let through is no number always; the body is measured in any case.
        if limit is not None and length.isdecimal() and (len(length) > 18 or int(length) > limit):
            raise BodyTooLargeError(f"The body is larger than {limit} bytes")
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            chunk = message.get("body", b"")
            chunks.append(chunk)
            size += len(chunk)
            if limit is not None and size > limit:
                raise BodyTooLargeError(f"The body is larger than {limit} bytes")
            if not message.get("more_body", False):
                return b"".join(chunks)


async def respond(
    send: Send, status: int, body: bytes, content_type: bytes, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Send a whole response."""
    start: dict[str, Any] = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body, "more_body": False})


def error_headers(error: A2AError) -> list[tuple[bytes, bytes]]:
    """Return the headers that belong to an error, whatever the binding."""
    if isinstance(error, AuthenticationError):
        return [(b"www-authenticate", b"Bearer")]
    if isinstance(error, RateLimitedError | UnavailableError) and error.retry_after is not None:
        return [(b"retry-after", b"%d" % math.ceil(error.retry_after))]
    if isinstance(error, BodyTooLargeError):
        return [(b"connection", b"close")]  # the rest of the body has not been read
    return []


def require_extensions(card: AgentCard, call: Call) -> None:
    """Refuse a call that has not activated what the card requires.

    Raises:
        ExtensionSupportRequiredError: It has not.
    """
    for extension in card.capabilities.extensions:
        if extension.required and extension.uri not in call.extensions:
            raise ExtensionSupportRequiredError(metadata={"uri": extension.uri})


async def until_disconnected(request: Request, receive: Receive, handle: Callable[[], Awaitable[None]]) -> None:
    """Run the handler, and cancel it when the client goes away, where the server does not do that itself.

    The request's body must have been read.
    """
    if CANCELS_ON_DISCONNECT in (request.scope.get("extensions") or {}):
        await handle()
        return

    async def watch(scope: trio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel(reason="the client went away")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery.cancel_scope)
        await handle()
        nursery.cancel_scope.cancel(reason="the request is answered")
