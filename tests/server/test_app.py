"""The application: its lifetime, its routes, and other servers and applications around it."""

import asyncio
import contextlib
import json
import logging
from functools import partial

import hypercorn.config
import hypercorn.trio
import pytest
import starlette.applications
import starlette.routing
import trio
import trio.testing

from tests.deadline import within
from tests.server.peer import JSON, VERSION, EventStream, Peer, Wire, make_app, message, open_peer, request_bytes
from trio_a2a.errors import TaskNotFoundError
from trio_a2a.server import A2AApp
from trio_a2a.server.http import serve_http
from trio_a2a.server.http.listeners import open_listeners
from trio_a2a.testing import FlakyStore
from trio_a2a.types import TaskState

WELL_KNOWN = "/.well-known/agent-card.json"


async def echo(context, updater):
    await updater.start_work()
    await updater.complete(context.text())


async def work(_context, updater):
    await updater.start_work()
    await trio.sleep_forever()


# ------------------------------------------------------------------------------------------------------------- lifetime


@pytest.mark.requirement("S5-ASGI")
@within(5)
async def test_outside_running_every_request_is_answered_503(autojump_clock):
    app = make_app(echo)
    async with trio.open_nursery() as nursery:
        peer = Peer(app, nursery)
        for _ in range(2):
            for reply in [await peer.send(), await peer.http("GET", WELL_KNOWN)]:
                assert reply.status == 503
                assert reply.headers["retry-after"] == "1"
                assert reply.json["id"] is None
                assert reply.error["message"]
            async with app.running() as running:
                assert running is app
                assert (await peer.send()).result["task"]
                assert (await peer.http("GET", WELL_KNOWN)).status == 200
        nursery.cancel_scope.cancel()


@pytest.mark.requirement("S5-ASGI")
@within(5)
async def test_an_application_runs_once_at_a_time(autojump_clock):
    app = make_app(echo)
    async with app.running():
        with pytest.raises(RuntimeError, match="running already"):
            async with app.running():
                pass
        assert "running" in repr(app)
    async with app.running():
        pass
    assert "not running" in repr(app)


@pytest.mark.requirement("S5-ASGI")
@within(5)
async def test_tasks_in_a_store_of_the_user_s_survive_the_application(autojump_clock):
    store = FlakyStore()
    app = make_app(work, store=store)
    async with trio.open_nursery() as nursery:
        peer = Peer(app, nursery)
        async with app.running():
            task = (await peer.send(configuration={"returnImmediately": True})).result["task"]
        async with app.running():
            assert (await peer.get(task["id"]))["status"]["state"] == "TASK_STATE_WORKING"
        nursery.cancel_scope.cancel()


@pytest.mark.requirement("S5-APP-UPDATER")
@within(5)
async def test_a_task_is_reported_on_from_outside_a_run_while_the_application_runs(autojump_clock):
    async def begin(_context, updater):
        await updater.start_work()

    async with open_peer(begin) as peer:
        app = peer.app
        task = (await peer.send()).result["task"]
        async with peer.stream("SubscribeToTask", {"id": task["id"]}) as stream:
            await stream.frame()
            updater = app.updater(task["id"])
            await updater.add_artifact("the result")
            await updater.complete("by somebody else")
            assert [frame.says for frame in await stream.frames()] == ["artifactUpdate", "COMPLETED"]
        with pytest.raises(TaskNotFoundError):
            await app.updater("no-such-task").complete()
    with pytest.raises(RuntimeError, match="not running"):
        app.updater(task["id"])


def test_a_path_that_does_not_begin_with_a_slash_is_refused():
    for options in ({"rpc_path": "rpc"}, {"rest_path": "rest"}):
        with pytest.raises(ValueError, match="slash"):
            make_app(echo, app_options=options)


# --------------------------------------------------------------------------------------------------------- the lifespan


async def lifespan(app):
    """Be a server's lifespan; returns what the application sent, with whether it was running."""
    sent = []
    to_app, from_us = trio.open_memory_channel(2)
    to_app.send_nowait({"type": "lifespan.startup"})
    to_app.send_nowait({"type": "lifespan.shutdown"})

    async def send(event):
        await trio.lowlevel.checkpoint()
        sent.append((event["type"], app._running is not None))
        sent.append(event.get("message"))

    await app({"type": "lifespan", "asgi": {}}, from_us.receive, send)
    return sent


@pytest.mark.requirement("S5-ASGI")
@within(5)
async def test_the_lifespan_runs_the_application(autojump_clock):
    app = make_app(echo)
    assert await lifespan(app) == [
        ("lifespan.startup.complete", True),
        None,
        ("lifespan.shutdown.complete", False),
        None,
    ]


@pytest.mark.requirement("S5-ASGI")
@within(5)
async def test_the_lifespan_of_an_application_that_a_parent_runs_changes_nothing(autojump_clock):
    app = make_app(echo)
    async with app.running():
        assert [event for event in await lifespan(app) if event] == [
            ("lifespan.startup.complete", True),
            ("lifespan.shutdown.complete", True),
        ]
        assert app._running is not None


@pytest.mark.requirement("S5-ASGI")
@within(5)
async def test_an_application_that_cannot_start_says_so(autojump_clock, caplog):
    """A bare exception would be taken for an application without a lifespan, and served with 503 for ever."""
    app = make_app(echo)
    app.agent.store = object()
    event, text = await lifespan(app)
    assert event == ("lifespan.startup.failed", False)
    assert "get" in text


@pytest.mark.requirement("S5-ASGI")
@within(5)
async def test_what_goes_wrong_after_the_start_is_not_taken_for_a_failed_start(autojump_clock):
    async def receive():
        await trio.lowlevel.checkpoint()
        return {"type": "lifespan.startup"}

    async def send(_event):
        await trio.lowlevel.checkpoint()
        raise OSError("the server is gone")

    with pytest.raises(OSError, match="the server is gone"):
        await make_app(echo)({"type": "lifespan"}, receive, send)


@pytest.mark.requirement("S5-ASGI")
def test_outside_of_trio_it_raises_and_says_what_to_use():
    async def never():
        raise AssertionError

    app = make_app(echo)
    for kind in ("http", "lifespan"):
        with pytest.raises(RuntimeError, match=r"runs in Trio.*serve\(\).*Hypercorn"):
            asyncio.run(app({"type": kind, "headers": []}, never, never))


@pytest.mark.requirement("S5-ASGI")
@within(5)
async def test_what_is_no_http_is_refused():
    async def never():
        raise AssertionError

    with pytest.raises(RuntimeError, match="websocket"):
        await make_app(echo)({"type": "websocket"}, never, never)


# --------------------------------------------------------------------------------------------------------------- routes


@pytest.mark.parametrize(
    ("rpc_path", "found", "not_found"),
    [
        ("/", ["/"], ["/rpc", "//x", "/x/"]),
        ("/rpc", ["/rpc", "/rpc/"], ["/", "/rpcx", "/rpc/x", "/RPC"]),
        ("/a/b/", ["/a/b", "/a/b/"], ["/a", "/a/"]),
    ],
)
@within(5)
async def test_json_rpc_is_taken_at_its_path_with_and_without_a_slash(autojump_clock, rpc_path, found, not_found):
    async with open_peer(echo, app_options={"rpc_path": rpc_path}) as peer:
        for path in found:
            peer.path = path
            assert (await peer.send()).result["task"]
        for path in not_found:
            peer.path = path
            assert (await peer.send()).status == 404


# ------------------------------------------------------------------------------------------ an application around it


@contextlib.asynccontextmanager
async def mounted(prefix="/agents/echo"):
    app = make_app(echo)

    @contextlib.asynccontextmanager
    async def run(_parent):
        async with app.running():
            yield

    parent = starlette.applications.Starlette(routes=[starlette.routing.Mount(prefix, app=app)], lifespan=run)
    async with trio.open_nursery() as nursery:
        listeners = await open_listeners("127.0.0.1", 0)
        server = await nursery.start(partial(serve_http, parent, listeners))
        yield app, server
        server.shutdown()


def json_post(path, method, params, host):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return request_bytes("POST", path, {"host": host, **JSON, **VERSION}, body)


@pytest.mark.requirement("S5-ASGI")
@within(5)
async def test_mounted_in_an_application_that_owns_the_lifespan_it_answers_at_the_url_of_its_card():
    async with mounted() as (app, server):
        host, port = server.addresses[0]
        async with await trio.open_tcp_stream(host, port) as stream:
            wire = Wire(stream)
            await stream.send_all(request_bytes("GET", f"/agents/echo{WELL_KNOWN}", {"host": f"{host}:{port}"}, b""))
            status, headers = await wire.head()
            card = json.loads(await wire.body(headers))
            assert status == 200
            url = card["supportedInterfaces"][0]["url"]
            assert url.startswith(f"http://{host}:{port}/agents/echo")

            path = url.removeprefix(f"http://{host}:{port}")
            await stream.send_all(json_post(path, "SendMessage", message("through a mount"), host))
            status, headers = await wire.head()
            answer = json.loads(await wire.body(headers))
            assert status == 200, "it is not to be redirected: clients do not follow"
            assert answer["result"]["task"]["status"]["message"]["parts"] == [{"text": "through a mount"}]

            await stream.send_all(json_post(path, "SendStreamingMessage", message("streamed"), host))
            events = EventStream(wire, *await wire.head())
            assert [frame.says for frame in await events.frames()] == ["SUBMITTED", "WORKING", "COMPLETED"]

            await stream.send_all(request_bytes("GET", "/elsewhere", {"host": host}, b""))
            assert (await wire.head())[0] == 404
    assert "not running" in repr(app)


# -------------------------------------------------------------------------------------------------- another ASGI server


@contextlib.asynccontextmanager
async def in_hypercorn(app):
    config = hypercorn.config.Config()
    config.bind = ["127.0.0.1:0"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 1.0
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(hypercorn.trio.serve, app, config, shutdown_trigger=stop.wait))
        yield int(url.rpartition(":")[2])
        stop.set()


@pytest.mark.requirement("S5-ASGI")
@within(10)
async def test_under_hypercorn_s_trio_worker_it_answers_and_streams():
    app = make_app(echo)
    async with in_hypercorn(app) as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        wire = Wire(stream)
        await stream.send_all(request_bytes("GET", WELL_KNOWN, {"host": f"127.0.0.1:{port}"}, b""))
        _, headers = await wire.head()
        card = json.loads(await wire.body(headers))
        assert card["supportedInterfaces"][0]["url"] == f"http://127.0.0.1:{port}"

        await stream.send_all(json_post("/", "SendMessage", message("hi"), "x"))
        _, headers = await wire.head()
        assert json.loads(await wire.body(headers))["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"

        await stream.send_all(json_post("/", "SendStreamingMessage", message("hi"), "x"))
        events = EventStream(wire, *await wire.head())
        assert events.headers["content-type"] == "text/event-stream"
        assert [frame.says for frame in await events.frames()] == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert "not running" in repr(app)


@pytest.mark.requirement("S5-ASGI", "S5-RUN-OWN-SCOPE")
@within(10)
async def test_under_hypercorn_a_client_that_goes_away_ends_its_stream_and_not_the_agent(caplog):
    go_on = trio.Event()

    async def agent(_context, updater):
        await updater.start_work()
        await go_on.wait()
        await updater.complete("all the same")

    app = make_app(agent)
    async with in_hypercorn(app) as port:
        manager = app._running.manager
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        wire = Wire(stream)
        await stream.send_all(json_post("/", "SendStreamingMessage", message("hi"), "x"))
        events = EventStream(wire, *await wire.head())
        id_ = (await events.frame()).result["task"]["id"]
        assert manager.active_subscriber_count(id_) == 1
        await stream.aclose()
        while manager.active_subscriber_count(id_) > 0:
            await trio.testing.wait_all_tasks_blocked(0.001)
        go_on.set()
        while manager.get(id_) is not None:
            await trio.testing.wait_all_tasks_blocked(0.001)
        stored = await manager.store.get(id_)
    assert stored.task.status.state is TaskState.COMPLETED
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.requirement("S5-ASGI")
@within(5)
async def test_where_the_server_does_not_cancel_it_watches_for_the_disconnect_itself(autojump_clock):
    app = make_app(work)
    sent = []
    gone = trio.Event()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in {**JSON, **VERSION}.items()],
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message()}).encode()
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        await trio.lowlevel.checkpoint()
        if messages:
            return messages.pop(0)
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(event):
        await trio.lowlevel.checkpoint()
        sent.append(event)

    async with app.running(), trio.open_nursery() as nursery:
        nursery.start_soon(app, scope, receive, send)
        await trio.testing.wait_all_tasks_blocked()
        gone.set()
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks, "the handler is still waiting for the agent"
        assert app._running.manager.statistics().queues == 1
    assert sent == []

    # A client that stays does not hold the handler when its request is answered.
    gone = trio.Event()
    messages.extend([{"type": "http.request", "body": body.replace(b"SendMessage", b"GetTask"), "more_body": False}])
    messages.append({"type": "http.request", "body": b"", "more_body": False})
    async with app.running():
        await app(scope, receive, send)
    assert [event["type"] for event in sent] == ["http.response.start", "http.response.body"]


def test_an_application_shows_its_agent():
    assert repr(make_app(echo)) == "<A2AApp 'Tested': not running>"
    assert isinstance(make_app(echo), A2AApp)
