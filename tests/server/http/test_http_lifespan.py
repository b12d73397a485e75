"""The ASGI lifespan around a server."""

import logging

import pytest
import trio
import trio.testing

from trio_a2a.server.http import LifespanError, open_listeners, serve_http

from .http_peer import GET, dial

OK = {"type": "http.response.start", "status": 200, "headers": []}


class Living:
    """An application that notes what happens to it, and fails where it is told to."""

    def __init__(self, **behaviour):
        self.behaviour = behaviour
        self.log = []
        self.crash = trio.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            self.log.append("request")
            self.state = scope["state"]
            await send(OK)
            await send({"type": "http.response.body"})
            return
        assert scope["asgi"]["version"] == "3.0"
        assert (await receive())["type"] == "lifespan.startup"
        self.log.append("startup")
        scope["state"]["made by"] = "the lifespan"
        if "startup" in self.behaviour:
            raise self.behaviour["startup"]
        if "failed" in self.behaviour:
            with trio.CancelScope(shield=True):
                await send({"type": "lifespan.startup.failed", "message": self.behaviour["failed"]})
            raise KeyError("as Starlette does")
        await send({"type": "lifespan.startup.complete"})
        if "running" in self.behaviour:
            await self.crash.wait()
            raise self.behaviour["running"]
        try:
            assert (await receive())["type"] == "lifespan.shutdown"
        except trio.Cancelled:
            self.log.append("cancelled")
            raise
        self.log.append("shutdown")
        if "shutdown" in self.behaviour:
            raise self.behaviour["shutdown"]
        if "shutdown_failed" in self.behaviour:
            await send({"type": "lifespan.shutdown.failed", "message": self.behaviour["shutdown_failed"]})
            return
        if "slow" in self.behaviour:
            await trio.sleep_forever()
        await send({"type": "lifespan.shutdown.complete"})
        self.log.append("end")


async def run(app, *, requests=1, **options):
    listeners = await open_listeners()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(
                lambda task_status: serve_http(app, listeners, task_status=task_status, **options)
            )
            for _ in range(requests):
                peer = await dial(server)
                assert (await peer.ask(GET)).status == 200
                await peer.stream.aclose()
            server.shutdown()


async def test_the_application_starts_before_the_first_request_and_stops_after_the_last():
    app = Living()
    await run(app)
    assert app.log == ["startup", "request", "shutdown", "end"]
    assert app.state == {"made by": "the lifespan"}


async def test_a_failed_start_is_one_error_with_the_reason():
    app = Living(failed="no database")
    with pytest.raises(LifespanError, match="the application failed to start: no database") as caught:
        await serve_http(app, await open_listeners())
    assert caught.value.message == "no database"


async def test_an_application_without_a_lifespan_is_served(caplog):
    caplog.set_level(logging.INFO, "trio_a2a.server.http")
    app = Living(startup=NotImplementedError())
    await run(app)
    assert app.log == ["startup", "request"]
    assert "no ASGI lifespan (NotImplementedError)" in caplog.text
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_an_application_whose_lifespan_returns_at_once_is_served():
    async def app(scope, _receive, send):
        if scope["type"] == "http":
            await send(OK)
            await send({"type": "http.response.body"})

    await run(app)


async def test_a_lifespan_that_fails_while_serving_ends_the_server():
    app = Living(running=KeyError("gone"))
    with trio.fail_after(5), pytest.RaisesGroup(KeyError, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_http, app, await open_listeners())
            app.crash.set()


@pytest.mark.parametrize("behaviour", [{"shutdown": KeyError("late")}, {"shutdown_failed": "late"}])
async def test_a_failed_shutdown_is_logged(behaviour, caplog):
    await run(Living(**behaviour))
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "failed to shut down" in record.message


async def test_a_shutdown_that_does_not_end_is_cancelled(caplog):
    await run(Living(slow=True), lifespan_timeout=0.05)
    assert "has not shut down within 0.05 s" in caplog.text


async def test_an_unknown_lifespan_message_is_an_error(caplog):
    caught = []

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            try:
                await send({"type": "lifespan.startup.maybe"})
            except RuntimeError as error:
                caught.append(error)
            await send({"type": "lifespan.startup.complete"})
            await receive()

    await run(app, requests=0)
    assert len(caught) == 1


async def test_cancelling_the_server_cancels_the_lifespan_without_a_shutdown_message():
    app = Living()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_http, app, await open_listeners())
            nursery.cancel_scope.cancel()
    assert app.log == ["startup", "cancelled"]


async def test_cancelling_during_the_start_leaves_nothing_open():
    async def app(_scope, receive, _send):
        await receive()
        await trio.sleep_forever()

    listeners = await open_listeners()
    with trio.move_on_after(0.01):
        await serve_http(app, listeners)
    with pytest.raises(trio.ClosedResourceError):
        await listeners[0].accept()
