"""The types of an ASGI 3 application, and what its callables may raise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# Set in scope["extensions"]: this server cancels the handler when the client goes away, so an application
# needs no task of its own that waits for `http.disconnect`.
CANCELS_ON_DISCONNECT = "trio_a2a.cancels_on_disconnect"

# 2.4 is the first version in which `send` raises OSError once the client is gone.
ASGI_VERSIONS = {"version": "3.0", "spec_version": "2.4"}


class ClientDisconnectedError(OSError):
    """The client is gone: what `send` raises then (ASGI asks for an OSError).

    A handler that is being cancelled for that reason sees this only in shielded clean-up code. Letting it
    propagate is right: the server does not log it.
    """

    def __init__(self) -> None:
        super().__init__("the client has disconnected")


class ApplicationError(RuntimeError):
    """The application broke the ASGI protocol: a message out of order, a header that HTTP cannot carry, ..."""
