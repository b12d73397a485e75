"""Serving with the built-in server, on real sockets and the real clock."""

import contextlib
import json
import logging
import socket
import ssl
from functools import partial

import pytest
import trio
import trio.testing
import trustme

from tests.deadline import within
from tests.server.peer import JSON, VERSION, CutOffError, EventStream, Wire, make_app, message, request_bytes
from trio_a2a.server import A2AApp, Agent, Limits, Served, agent_card, serve
from trio_a2a.types import TaskState

WELL_KNOWN = "/.well-known/agent-card.json"


async def echo(context, updater):
    await updater.complete(context.text())


async def work(_context, updater):
    await updater.start_work()
    await trio.sleep_forever()


def make_agent(executor=echo, **options):
    return Agent(agent_card("Tested", "."), executor, **options)


@contextlib.asynccontextmanager
async def served(agent_or_app, **options):
    async with trio.open_nursery() as nursery:
        yield await nursery.start(partial(serve, agent_or_app, **options)), nursery
        nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def dial(url, *, ssl_context=None):
    scheme, _, address = url.partition("://")
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if scheme == "https":
        stream = await trio.open_ssl_over_tcp_stream(host, int(port), ssl_context=ssl_context)
    else:
        stream = await trio.open_tcp_stream(host, int(port))
    try:
        yield Wire(stream)
    finally:
        await trio.aclose_forcefully(stream)


def rpc(method, params, headers=None):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return request_bytes("POST", "/", {**JSON, **VERSION, **(headers or {})}, body)


async def asked(wire, data):
    await wire.stream.send_all(data)
    status, headers = await wire.head()
    return status, json.loads(await wire.body(headers))


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_an_agent_is_served_on_a_free_port_and_says_where(caplog):
    caplog.set_level(logging.INFO, "trio_a2a")
    async with served(make_agent()) as (where, _):
        assert isinstance(where, Served)
        assert where.url.startswith("http://127.0.0.1:")
        assert where.grpc_target is None
        async with dial(where.url) as wire:
            status, card = await asked(wire, request_bytes("GET", WELL_KNOWN, {}, b""))
            assert status == 200
            assert card["supportedInterfaces"] == [
                {"url": where.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": where.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            ]
            status, answer = await asked(wire, rpc("SendMessage", message("hi")))
            assert answer["result"]["task"]["status"]["message"]["parts"] == [{"text": "hi"}]
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.INFO] == [f"serving Tested at {where.url}"]


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_an_application_made_for_an_agent_is_served_too_and_its_own_url_comes_first():
    app = A2AApp(make_agent(), rpc_path="/rpc", url="https://agents.example")
    async with served(app) as (where, _), dial(where.url) as wire:
        _, card = await asked(wire, request_bytes("GET", WELL_KNOWN, {}, b""))
        assert card["supportedInterfaces"][0]["url"] == "https://agents.example/rpc"
        assert where.url.startswith("http://127.0.0.1:")
        await app.updater("x").flush()  # it is running


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_the_url_that_clients_use_may_be_given():
    async with served(make_agent(), url="https://agents.example/") as (where, _):
        assert where.url == "https://agents.example/"


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_an_address_that_means_all_is_shown_as_one_that_can_be_reached():
    async with served(make_agent(), host="0.0.0.0") as (where, _):
        assert where.url.startswith("http://127.0.0.1:")
        async with dial(where.url) as wire:
            assert (await asked(wire, request_bytes("GET", WELL_KNOWN, {}, b"")))[0] == 200


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_an_ipv6_address_is_shown_in_brackets():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    async with served(make_agent(), host="::1") as (where, _):
        assert where.url.startswith("http://[::1]:")
        async with dial(where.url) as wire:
            _, card = await asked(wire, request_bytes("GET", WELL_KNOWN, {}, b""))
            assert card["supportedInterfaces"][0]["url"] == where.url


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_a_port_that_is_taken_is_an_os_error():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError):
        await serve(make_agent(), port=taken.getsockname()[1])


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_grpc_is_refused_and_not_forgotten():
    with pytest.raises(ValueError, match="grpc_port"):
        await serve(make_agent(), grpc_port=0)


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_an_agent_is_served_over_https():
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    async with served(make_agent(), ssl_context=server) as (where, _):
        assert where.url.startswith("https://127.0.0.1:")
        async with dial(where.url, ssl_context=client) as wire:
            _, card = await asked(wire, request_bytes("GET", WELL_KNOWN, {}, b""))
            assert card["supportedInterfaces"][0]["url"] == where.url
            await wire.stream.send_all(rpc("SendStreamingMessage", message("hi")))
            events = EventStream(wire, *await wire.head())
            assert [frame.says for frame in await events.frames()] == ["SUBMITTED", "COMPLETED"]


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_shutdown_lets_what_is_running_finish_and_refuses_the_rest():
    go_on = trio.Event()

    async def agent(_context, updater):
        await updater.start_work()
        await go_on.wait()
        await updater.complete()

    app = make_app(agent)
    async with trio.open_nursery() as nursery:
        where = await nursery.start(serve, app)
        async with dial(where.url) as wire, dial(where.url) as idle:
            await wire.stream.send_all(rpc("SendStreamingMessage", message()))
            events = EventStream(wire, *await wire.head())
            assert (await events.frame()).says == "SUBMITTED"
            where.shutdown()
            assert await idle.stream.receive_some() == b""
            with pytest.raises(OSError):
                async with dial(where.url):
                    pass
            go_on.set()
            assert [frame.says for frame in await events.frames()] == ["WORKING", "COMPLETED"]
    assert "not running" in repr(app)


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_a_stream_that_is_open_at_the_end_of_the_grace_is_cut_off_and_its_task_stays_as_it_is():
    app = make_app(work)
    async with trio.open_nursery() as nursery:
        where = await nursery.start(partial(serve, app, grace=0.05))
        async with dial(where.url) as wire:
            await wire.stream.send_all(rpc("SendStreamingMessage", message()))
            events = EventStream(wire, *await wire.head())
            id_ = (await events.frame()).result["task"]["id"]
            await events.frame()
            store = app._running.manager.store
            where.shutdown()
            with pytest.raises(CutOffError):
                await events.frames()
    assert (await store.get(id_)).task.status.state is TaskState.WORKING


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_a_client_that_reads_nothing_does_not_hold_the_shutdown():
    async def chatter(_context, updater):
        while True:
            await updater.add_artifact("x" * 10_000, artifact_id="one")

    async with trio.open_nursery() as nursery:
        where = await nursery.start(partial(serve, make_agent(chatter), grace=0.05))
        async with dial(where.url) as wire:
            await wire.stream.send_all(rpc("SendStreamingMessage", message()))
            await wire.head()
            where.shutdown()
            nursery.cancel_scope.deadline = trio.current_time() + 3
    assert not nursery.cancel_scope.cancelled_caught


@pytest.mark.requirement("S5-SERVE")
@within(5)
async def test_cancelled_it_ends_at_once_with_all_that_is_open():
    ended = []

    async def agent(_context, updater):
        await updater.start_work()
        try:
            await trio.sleep_forever()
        finally:
            ended.append(True)

    app = make_app(agent)
    async with served(app) as (where, nursery), dial(where.url) as wire, dial(where.url) as other:
        await wire.stream.send_all(rpc("SendStreamingMessage", message()))
        events = EventStream(wire, *await wire.head())
        await events.frame()
        await other.stream.send_all(rpc("SendMessage", message()))
        await trio.testing.wait_all_tasks_blocked(0.01)
        before = trio.current_time()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            assert await other.stream.receive_some() == b""
            assert trio.current_time() - before < 2
    assert ended == [True, True]
    assert "not running" in repr(app)


@pytest.mark.requirement("S5-RUN-OWN-SCOPE")
@within(5)
async def test_a_client_that_resets_its_connection_ends_its_stream_and_not_the_agent():
    app = make_app(work)
    async with served(app) as (where, _), dial(where.url) as wire:
        await wire.stream.send_all(rpc("SendStreamingMessage", message()))
        events = EventStream(wire, *await wire.head())
        id_ = (await events.frame()).result["task"]["id"]
        manager = app._running.manager
        assert manager.active_subscriber_count(id_) == 1
        await wire.stream.aclose()
        while manager.active_subscriber_count(id_):
            await trio.testing.wait_all_tasks_blocked(0.001)
        assert manager.get(id_) is not None


@within(5)
async def test_an_oversized_body_is_413_and_the_server_goes_on():
    async with served(make_agent(limits=Limits(max_body=10_000))) as (where, _):
        for _ in range(2):
            async with dial(where.url) as wire:
                status, answer = await asked(wire, rpc("SendMessage", message("x" * 200_000)))
                assert (status, answer["id"], answer["error"]["code"]) == (413, None, -32600)
        async with dial(where.url) as wire:
            assert (await asked(wire, rpc("SendMessage", message())))[0] == 200


@pytest.mark.parametrize(
    "bad", [b"GET / HTTP/9\r\n\r\n", b"\x16\x03\x01\x02", b"POST / HTTP/1.1\r\nhost: x\r\nbad\r\n\r\n"]
)
@within(5)
async def test_what_is_no_http_is_refused_and_the_server_goes_on(bad):
    async with served(make_agent()) as (where, _):
        async with dial(where.url) as wire:
            await wire.stream.send_all(bad)
            assert (await wire.head())[0] in {400, 505}
        async with dial(where.url) as wire:
            assert (await asked(wire, rpc("SendMessage", message())))[0] == 200


@within(5)
async def test_a_request_that_ends_too_early_is_400_or_closed_and_the_server_goes_on():
    async with served(make_agent()) as (where, _):
        async with dial(where.url) as wire:
            await wire.stream.send_all(rpc("SendMessage", message())[:-5])
            await wire.stream.send_eof()
            answer = await wire.stream.receive_some()
            assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
        async with dial(where.url) as wire:
            assert (await asked(wire, rpc("SendMessage", message())))[0] == 200


@within(5)
async def test_a_header_that_comes_too_slowly_is_408():
    async with served(make_agent(limits=Limits(header_timeout=0.05))) as (where, _), dial(where.url) as wire:
        await wire.stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\n")
        assert (await wire.head())[0] == 408


@within(10)
async def test_what_is_no_agent_is_refused_before_anything_is_opened():
    for wrong in (None, 5, serve):
        with pytest.raises(TypeError, match="made of an Agent"):
            await serve(wrong)
    with pytest.raises(TypeError, match="url is a str"):
        await serve(make_agent(), url=5)
    for unusable in (
        "nonsense",
        "ftp://a.example",
        "http://",
        "http://[bad",
        "http://a.example:99999",
        "http://me:s@a",
    ):
        with pytest.raises(ValueError, match=r"url (is absolute|has credentials)"):
            await serve(make_agent(), url=unusable)
    for endless in (-1, float("nan")):
        with pytest.raises(ValueError, match="grace is a number of seconds"):
            await serve(make_agent(), grace=endless)


@within(30)
async def test_a_client_that_sends_an_oversized_body_before_it_reads_gets_its_413():
    body = b"a" * (16 * 1024 * 1024 + 1)
    async with served(make_agent()) as (where, _), dial(where.url) as wire:
        await wire.stream.send_all(request_bytes("POST", "/", {**JSON, **VERSION}, body))
        status, answer = await asked(wire, b"")
    assert (status, answer["error"]["code"], answer["id"]) == (413, -32600, None)
