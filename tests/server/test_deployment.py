"""The application as it is deployed: mounted, under another server, over TLS, and as a process that is told to end.

All over real sockets and on the real clock. Nothing waits for a time: each step waits for what the one before brings.
"""

import contextlib
import json
import logging
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import hypercorn.config
import hypercorn.trio
import pytest
import starlette.applications
import starlette.routing
import trio
import trio.testing
import trustme

from tests.deadline import within
from tests.server.bindings import BINDINGS, JSONRPC, ROUTES, Answer, Events, both_bindings
from tests.server.peer import JSON, VERSION, CutOffError, EventStream, Reply, Wire, make_app, request_bytes
from trio_a2a.server import serve
from trio_a2a.server.http import serve_http
from trio_a2a.server.http.listeners import open_listeners
from trio_a2a.stores import InMemoryPushConfigStore
from trio_a2a.types import TaskState

ROOT = Path(__file__).parents[2]
ECHO = ROOT / "docs" / "examples" / "echo_agent.py"
CARD = "/.well-known/agent-card.json"
SEND, STREAM, SUBSCRIBE = "SendMessage", "SendStreamingMessage", "SubscribeToTask"


async def echo(context, updater):
    if context.text() == "ask":
        await updater.require_input("what?")
        return
    await updater.start_work()
    await updater.complete(context.text())


def params(text="hello", **members):
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **members}}


# ------------------------------------------------------------------------------------------------------- a plain client


@attrs.frozen
class Remote:
    """A client of one interface of a card, over a connection for each call."""

    url: str
    binding: str
    ssl_context: ssl.SSLContext | None = None

    @contextlib.asynccontextmanager
    async def dial(self) -> AsyncIterator[Wire]:
        parts = urlsplit(self.url)
        if parts.scheme == "https":
            stream = await trio.open_ssl_over_tcp_stream(parts.hostname, parts.port, ssl_context=self.ssl_context)
        else:
            stream = await trio.open_tcp_stream(parts.hostname, parts.port)
        try:
            yield Wire(stream)
        finally:
            await trio.aclose_forcefully(stream)

    def request(self, operation: str, members: dict | None = None) -> bytes:
        members = dict(members or {})
        base = urlsplit(self.url)
        headers = {"host": base.netloc, **JSON, **VERSION}
        if self.binding == JSONRPC:
            document = {"jsonrpc": "2.0", "id": 1, "method": operation, "params": members}
            return request_bytes("POST", base.path or "/", headers, json.dumps(document).encode())
        method, route = ROUTES[operation]
        for name in ("taskId", "id"):
            if f"{{{name}}}" in route:
                route = route.replace(f"{{{name}}}", members.pop(name))
        body = json.dumps(members).encode() if method == "POST" else b""
        return request_bytes(method, base.path.rstrip("/") + route, headers, body)

    async def call(self, operation: str, members: dict | None = None) -> Answer:
        async with self.dial() as wire:
            await wire.stream.send_all(self.request(operation, members))
            status, headers = await wire.head()
            return Answer(Reply(status, headers, await wire.body(headers)))

    @contextlib.asynccontextmanager
    async def stream(self, operation: str, members: dict) -> AsyncIterator[Events]:
        async with self.dial() as wire:
            await wire.stream.send_all(self.request(operation, members))
            yield Events(EventStream(wire, *await wire.head()))


async def remote(url: str, binding: str, ssl_context: ssl.SSLContext | None = None) -> Remote:
    """Find the interface of the binding in the card that lies below the URL."""
    async with Remote(url, binding, ssl_context).dial() as wire:
        parts = urlsplit(url)
        await wire.stream.send_all(request_bytes("GET", parts.path.rstrip("/") + CARD, {"host": parts.netloc}, b""))
        status, headers = await wire.head()
        assert status == 200
        card = json.loads(await wire.body(headers))
    (interface,) = (one for one in card["supportedInterfaces"] if one["protocolBinding"] == binding)
    assert interface["url"].startswith(url)
    return Remote(interface["url"], binding, ssl_context)


async def use_everything(client: Remote) -> None:
    """Call each operation, as the card of the agent says where."""
    assert (await client.call(SEND, params("hi"))).result["task"]["status"]["message"]["parts"] == [{"text": "hi"}]
    async with client.stream(STREAM, params("streamed")) as events:
        assert [event.says for event in await events.rest()] == ["SUBMITTED", "WORKING", "COMPLETED"]
    task_id = (await client.call(SEND, params("ask"))).result["task"]["id"]
    assert (await client.call("GetTask", {"id": task_id})).result["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (await client.call("ListTasks")).result["totalSize"] == 3
    config = {"taskId": task_id, "id": "c", "url": "https://example.com"}
    assert (await client.call("CreateTaskPushNotificationConfig", config)).result == config
    assert (await client.call("GetTaskPushNotificationConfig", {"taskId": task_id, "id": "c"})).result == config
    assert (await client.call("ListTaskPushNotificationConfigs", {"taskId": task_id})).result == {"configs": [config]}
    assert (await client.call("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "c"})).result == {}
    assert (await client.call("GetExtendedAgentCard")).reason == "UNSUPPORTED_OPERATION"
    async with client.stream(SUBSCRIBE, {"id": task_id}) as events:
        assert (await events.next()).says == "INPUT_REQUIRED"
        canceled = (await client.call("CancelTask", {"id": task_id})).result
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
        assert [event.says for event in await events.rest()] == ["CANCELED"]
    async with client.stream(SUBSCRIBE, {"id": task_id}) as events:
        assert (await events.answer()).reason == "UNSUPPORTED_OPERATION"
    assert (await client.call("GetTask", {"id": "none"})).reason == "TASK_NOT_FOUND"


# -------------------------------------------------------------------------------------------------------------- mounted


@contextlib.asynccontextmanager
async def mounted(prefix: str, **options) -> AsyncIterator[str]:
    """An application in another one, which owns the lifespan; yields the URL of the mount point."""
    app = make_app(echo, push=InMemoryPushConfigStore(), **options)

    @contextlib.asynccontextmanager
    async def run(_parent):
        async with app.running():
            yield

    parent = starlette.applications.Starlette(routes=[starlette.routing.Mount(prefix, app=app)], lifespan=run)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve_http, parent, await open_listeners("127.0.0.1", 0)))
        host, port = server.addresses[0]
        yield f"http://{host}:{port}"
        server.shutdown()


@pytest.mark.requirement("S5-ASGI")
@both_bindings
@pytest.mark.parametrize(
    ("prefix", "path", "options"),
    [
        ("/agents/echo", "/agents/echo", {}),
        ("/a", "/a", {"rpc_path": "/rpc", "rest_path": "/rest"}),
        ("/my agents/ünï", "/my%20agents/%C3%BCn%C3%AF", {}),
    ],
    ids=["at-its-root", "below", "encoded"],
)
@within(10)
async def test_mounted_in_starlette_every_operation_works_at_the_url_of_the_card(binding, prefix, path, options):
    async with mounted(prefix, app_options=options) as origin:
        client = await remote(origin + path, binding)
        below = options.get("rpc_path", "/") if binding == JSONRPC else options.get("rest_path", "")
        assert client.url == f"{origin}{path}{below}"
        await use_everything(client)


@pytest.mark.requirement("S5-ASGI")
@pytest.mark.parametrize("path", ["/%6dy%20agents/%c3%bcn%C3%af/tasks", "/my%20agents/%C3%BCn%C3%AF/%74asks/x%2Fy"])
@within(10)
async def test_mounted_a_path_may_be_encoded_in_any_way(path):
    async with mounted("/my agents/ünï") as origin, Remote(origin, "").dial() as wire:
        await wire.stream.send_all(request_bytes("GET", path, VERSION, b""))
        status, headers = await wire.head()
        answer = Answer(Reply(status, headers, await wire.body(headers)))
        assert answer.status == 200 or answer.reason == "METHOD_NOT_FOUND", "it is our answer, not the parent's"


@pytest.mark.requirement("S5-ASGI")
@within(10)
async def test_mounted_what_lies_beside_the_mount_point_is_the_parent_s():
    async with mounted("/agents/echo") as origin:
        for path in ("/tasks", "/agents/tasks", "/agents/echoes/tasks", CARD):
            async with Remote(origin, "").dial() as wire:
                await wire.stream.send_all(request_bytes("GET", path, VERSION, b""))
                status, headers = await wire.head()
                assert (status, await wire.body(headers)) == (404, b"Not Found")


@pytest.mark.requirement("S5-ASGI")
@both_bindings
@within(10)
async def test_mounted_an_id_with_a_slash_is_still_one_segment(binding):
    async with mounted("/agents/echo") as origin:
        client = await remote(f"{origin}/agents/echo", binding)
        task_id = "a%2Fb" if binding != JSONRPC else "a/b"
        answer = await client.call("GetTask", {"id": task_id})
        assert answer.metadata == {"taskId": "a/b"}


# ------------------------------------------------------------------------------------------------------ under Hypercorn


@contextlib.asynccontextmanager
async def in_hypercorn(app, **options) -> AsyncIterator[str]:
    config = hypercorn.config.Config()
    config.bind = ["127.0.0.1:0"]
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 1.0
    for name, value in options.items():
        setattr(config, name, value)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(hypercorn.trio.serve, app, config, shutdown_trigger=stop.wait))
        scheme = "https" if options else "http"
        yield f"{scheme}://127.0.0.1:{url.rpartition(':')[2]}"
        stop.set()


@pytest.mark.requirement("S5-ASGI")
@both_bindings
@within(20)
async def test_under_hypercorn_s_trio_worker_every_operation_works(binding, caplog):
    app = make_app(echo, push=InMemoryPushConfigStore())
    async with in_hypercorn(app) as url:
        await use_everything(await remote(url, binding))
    assert "not running" in repr(app)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.requirement("S5-ASGI", "S5-RUN-OWN-SCOPE")
@both_bindings
@within(20)
async def test_under_hypercorn_a_client_that_goes_away_ends_its_stream_and_not_the_agent(binding, caplog):
    go_on = trio.Event()

    async def agent(_context, updater):
        await updater.start_work()
        await go_on.wait()
        await updater.complete("all the same")

    app = make_app(agent)
    async with in_hypercorn(app) as url:
        manager = app._running.manager
        client = await remote(url, binding)
        async with client.stream(STREAM, params()) as events:
            task_id = (await events.next()).value["task"]["id"]
            assert manager.active_subscriber_count(task_id) == 1
        while manager.active_subscriber_count(task_id) > 0:
            await trio.testing.wait_all_tasks_blocked(0.001)
        go_on.set()
        while manager.get(task_id) is not None:
            await trio.testing.wait_all_tasks_blocked(0.001)
        stored = await manager.store.get(task_id)
    assert stored.task.status.state is TaskState.COMPLETED
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# ------------------------------------------------------------------------------------------------------------------ TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.requirement("S5-SERVE")
@both_bindings
@within(20)
async def test_over_tls_every_operation_works_and_the_card_says_https(binding, authority):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    app = make_app(echo, push=InMemoryPushConfigStore())
    async with trio.open_nursery() as nursery:
        served = await nursery.start(partial(serve, app, ssl_context=context))
        assert served.url.startswith("https://")
        await use_everything(await remote(served.url, binding, trusting(authority)))
        served.shutdown()


@pytest.mark.requirement("S5-SERVE")
@within(20)
async def test_over_tls_a_client_that_trusts_somebody_else_does_not_get_in_and_nobody_is_disturbed(authority, caplog):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    app = make_app(echo)
    async with trio.open_nursery() as nursery:
        served = await nursery.start(partial(serve, app, ssl_context=context))
        with pytest.raises(trio.BrokenResourceError):
            await remote(served.url, JSONRPC, trusting(trustme.CA()))
        client = await remote(served.url, JSONRPC, trusting(authority))
        assert (await client.call(SEND, params())).result["task"]
        served.shutdown()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.requirement("S5-ASGI")
@both_bindings
@within(20)
async def test_under_hypercorn_over_tls_every_operation_works(binding, authority, tmp_path):
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(tmp_path / "cert.pem", append=True)
    files = {"keyfile": str(tmp_path / "key.pem"), "certfile": str(tmp_path / "cert.pem")}
    app = make_app(echo, push=InMemoryPushConfigStore())
    async with in_hypercorn(app, **files) as url:
        await use_everything(await remote(url, binding, trusting(authority)))


# ---------------------------------------------------------------------------------------- a process that is told to end

MODULE = """
import os
import trio

MUCH = "x" * 50_000


async def agent(context, updater):
    await updater.start_work()
    text = context.text()
    if text == "until told":
        # What the test writes to the process; a thread of its own, which the end of the process does not wait for.
        await trio.to_thread.run_sync(os.read, 0, 1, abandon_on_cancel=True)
    elif text == "for ever":
        await trio.sleep_forever()
    while text == "flood":
        await updater.add_artifact(MUCH, artifact_id="one")
    await updater.complete("done")
"""


@attrs.frozen
class Program:
    """A server that runs as a process of its own."""

    process: trio.Process
    url: str

    async def ends(self) -> int:
        return await self.process.wait()

    async def refuses_connections(self) -> None:
        """Wait until it takes no new connections."""
        while True:
            try:
                async with Remote(self.url, "").dial():
                    await trio.lowlevel.checkpoint()
            except OSError:
                return

    async def log(self) -> str:
        """What it has written, at its end."""
        text = b""
        while data := await self.process.stderr.receive_some():
            text += data
        return text.decode()


@contextlib.asynccontextmanager
async def program(*command: str, cwd: Path) -> AsyncIterator[Program]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = await trio.lowlevel.open_process([sys.executable, *command], cwd=cwd, env=environment, **pipes)
    try:
        said = b""
        while not (match := re.search(rb"http://\S+(?=[\s(])", said)):
            data = await process.stdout.receive_some()
            assert data, f"the program has ended: {said!r}"
            said += data
        yield Program(process, match[0].decode())
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True), trio.move_on_after(10):
            await process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            await trio.aclose_forcefully(pipe)


@contextlib.asynccontextmanager
async def served(tmp_path: Path, *, grace: float) -> AsyncIterator[Program]:
    (tmp_path / "deployed.py").write_text(MODULE, encoding="utf-8")
    command = ["-c", "from trio_a2a.cli import main; main()", "serve", "deployed:agent", "--port", "0"]
    async with program(*command, "--grace", str(grace), cwd=tmp_path) as running:
        yield running


def is_quiet(log: str) -> bool:
    return not any(word in log for word in ("Traceback", "ERROR", "CRITICAL", "Warning"))


@pytest.mark.requirement("S5-SERVE")
@both_bindings
@within(60)
async def test_told_to_terminate_it_refuses_new_connections_finishes_what_is_running_and_exits_0(tmp_path, binding):
    async with served(tmp_path, grace=50) as running, trio.open_nursery() as nursery:
        client = await remote(running.url, binding)
        answers = []

        async def send():
            answers.append(await client.call(SEND, params("until told")))

        async with client.dial() as idle, client.stream(STREAM, params("until told")) as events:
            nursery.start_soon(send)
            assert [(await events.next()).says for _ in range(2)] == ["SUBMITTED", "WORKING"]
            # The blocking call has its task before the process is told.
            while (await client.call("ListTasks", {})).result["totalSize"] < 2:
                pass
            running.process.send_signal(signal.SIGTERM)
            await running.refuses_connections()
            assert await idle.stream.receive_some() == b"", "an idle connection is closed at once"
            assert running.process.returncode is None
            await running.process.stdin.send_all(b"xx")
            assert [event.says for event in await events.rest()] == ["COMPLETED"]
        assert await running.ends() == 0
        assert is_quiet(await running.log())
    (answer,) = answers
    assert answer.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.requirement("S5-SERVE")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@within(60)
async def test_what_is_still_open_at_the_end_of_the_grace_is_cut_off_and_it_exits_0(tmp_path, number):
    grace = 0.5
    async with served(tmp_path, grace=grace) as running, contextlib.AsyncExitStack() as stack:
        streams = []
        for binding in BINDINGS:
            client = await remote(running.url, binding)
            streams.append(await stack.enter_async_context(client.stream(STREAM, params("for ever"))))
            task_id = (await streams[-1].next()).value["task"]["id"]
            streams.append(await stack.enter_async_context(client.stream(SUBSCRIBE, {"id": task_id})))
            blocked = await stack.enter_async_context(client.dial())
            await blocked.stream.send_all(client.request(SEND, params("for ever")))
        told = trio.current_time()
        running.process.send_signal(number)
        for events in streams:
            with contextlib.suppress(CutOffError):
                await events.rest()
        assert await running.ends() == 0
        took = trio.current_time() - told
        assert took >= grace * 0.9, "the streams had their grace"
        assert took < grace + 10
        assert is_quiet(await running.log())


@pytest.mark.requirement("S5-SERVE")
@both_bindings
@within(60)
async def test_a_reader_that_has_stalled_does_not_hold_the_end(tmp_path, binding):
    async with served(tmp_path, grace=0.5) as running, contextlib.AsyncExitStack() as stack:
        client = await remote(running.url, binding)
        for _ in range(3):
            wire = await stack.enter_async_context(client.dial())
            await wire.stream.send_all(client.request(STREAM, params("flood")))
            status, _ = await wire.head()
            assert status == 200
        # From here on nothing is read. A reader beside them shows that the flood goes on.
        task_id = (await client.call("ListTasks", {})).result["tasks"][0]["id"]
        async with client.stream(SUBSCRIBE, {"id": task_id}) as events:
            for _ in range(3):
                await events.next()
        told = trio.current_time()
        running.process.send_signal(signal.SIGTERM)
        assert await running.ends() == 0
        assert trio.current_time() - told < 15
        assert is_quiet(await running.log())


@pytest.mark.requirement("S5-SERVE")
@within(60)
async def test_told_twice_it_ends_at_once(tmp_path):
    async with served(tmp_path, grace=1000) as running:
        client = await remote(running.url, JSONRPC)
        async with client.stream(STREAM, params("for ever")) as events:
            await events.next()
            running.process.send_signal(signal.SIGTERM)
            await running.refuses_connections()
            running.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(CutOffError):
                await events.rest()
        assert await running.ends() == 0
        assert is_quiet(await running.log())


@pytest.mark.requirement("S5-SERVE")
@both_bindings
@within(60)
async def test_the_example_drains_and_exits_0(tmp_path, binding):
    async with program(str(ECHO), cwd=tmp_path) as running:
        client = await remote(running.url, binding)
        assert (await client.call(SEND, params("hi"))).result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        async with client.stream(STREAM, params("slow")) as events:
            await events.next()
            running.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(CutOffError):
                await events.rest()
        assert await running.ends() == 0
        assert is_quiet(await running.log())
