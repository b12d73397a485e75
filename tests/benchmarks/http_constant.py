"""The yardstick for `send`: the built-in HTTP server with an application that answers every request alike."""

from collections.abc import Callable
from typing import Any

import trio

from trio_a2a.server.http import Receive, Scope, Send, listener_addresses, open_listeners, serve_http

from .workload import run_server

# What an echo agent's answer looks like, in either binding and with either text.
_ANSWER = (
    b'{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"6d1c1d0c-3b52-4a3b-9a53-0b0e8c1e7d11","contextId":'
    b'"0b8d7a5e-95d5-4f2c-8f10-6f3c2f4c2a77","role":"ROLE_AGENT","parts":[{"text":"reply hello"}]}}}'
)
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))],
}
_BODY = {"type": "http.response.body", "body": _ANSWER, "more_body": False}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer."""
    assert scope["type"] == "http"  # so it has no lifespan
    while (await receive())["more_body"]:
        pass
    await send(_START)
    await send(_BODY)


async def main(job: dict[str, Any], announce: Callable[[int], None]) -> None:
    """Serve until standard input ends."""
    async with trio.open_nursery() as nursery:
        listeners = await open_listeners("127.0.0.1", 0)
        await nursery.start(serve_http, app, listeners)
        announce(listener_addresses(listeners)[0][1])
        await trio.lowlevel.wait_readable(0)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    run_server(lambda job, announce: trio.run(main, job, announce))
