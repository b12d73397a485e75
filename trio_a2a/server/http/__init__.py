"""An ASGI 3 server for HTTP/1.1 on Trio.

It knows nothing of A2A. Each connection has one nursery; a client that goes away cancels its handler at once;
nothing that one connection does is noticed by another.

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve_http, app, await open_listeners("127.0.0.1", 8000))
        ...
        server.shutdown()
"""

from .asgi import (
    CANCELS_ON_DISCONNECT as CANCELS_ON_DISCONNECT,
    ApplicationError as ApplicationError,
    ASGIApp as ASGIApp,
    ClientDisconnectedError as ClientDisconnectedError,
    Message as Message,
    Receive as Receive,
    Scope as Scope,
    Send as Send,
)
from .lifespan import LifespanError as LifespanError
from .limits import HttpLimits as HttpLimits
from .listeners import (
    HttpListener as HttpListener,
    listener_addresses as listener_addresses,
    open_listeners as open_listeners,
)
from .server import (
    HttpServer as HttpServer,
    HttpStatistics as HttpStatistics,
    serve_http as serve_http,
    serve_stream as serve_stream,
)

__all__ = [
    "CANCELS_ON_DISCONNECT",
    "ASGIApp",
    "ApplicationError",
    "ClientDisconnectedError",
    "HttpLimits",
    "HttpListener",
    "HttpServer",
    "HttpStatistics",
    "LifespanError",
    "Message",
    "Receive",
    "Scope",
    "Send",
    "listener_addresses",
    "open_listeners",
    "serve_http",
    "serve_stream",
]
