"""The server on real sockets: accepting, limits, ending, TLS, and what one connection may not do to the others."""

import errno
import gc
import logging
import socket
import ssl
import struct

import pytest
import trio
import trio.testing
import trustme

from trio_a2a.server.http import HttpLimits, listener_addresses, open_listeners, serve_http, serve_stream

from .http_peer import GET, Answering, Blocking, Peer, dial, limits, listening, post

OK = {"type": "http.response.start", "status": 200, "headers": []}


def errors(caplog) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


async def wait_for(condition) -> None:
    """Let the server work until it is so: what it learns from a socket, no event of ours tells."""
    with trio.fail_after(5):
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.001)


async def test_a_request_over_a_socket_is_answered_and_its_ends_are_in_the_scope():
    app = Answering()
    async with listening(app) as server:
        peer = await dial(server)
        async with peer.stream:
            assert (await peer.ask(post(b"hello"))).body == b"hello"
            (scope,) = app.scopes
            assert scope["client"] == peer.stream.socket.getsockname()
            assert scope["server"] == server.addresses[0]


async def test_many_clients_are_served_at_a_time():
    gate = trio.Event()
    waiting = 0

    async def app(scope, _receive, send):
        nonlocal waiting
        if scope["type"] == "lifespan":
            raise NotImplementedError
        waiting += 1
        await gate.wait()
        await send(OK)
        await send({"type": "http.response.body", "body": scope["raw_path"]})

    async with listening(app) as server, trio.open_nursery() as nursery:

        async def client(number):
            peer = await dial(server)
            async with peer.stream:
                reply = await peer.ask(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
                assert reply.body == b"/%d" % number

        for number in range(50):
            nursery.start_soon(client, number)
        await wait_for(lambda: waiting == 50)
        assert server.statistics().connections == 50
        gate.set()


async def test_statistics_and_repr_tell_what_the_server_does():
    async with listening(Answering()) as server:
        peer = await dial(server)
        await peer.ask(GET)
        await peer.ask(GET)
        statistics = server.statistics()
        assert (statistics.connections, statistics.accepted, statistics.refused, statistics.requests) == (1, 1, 0, 2)
        assert "serving" in repr(server)
        await peer.stream.aclose()
        await wait_for(lambda: server.statistics().connections == 0)
        assert server.statistics().requests == 2
        server.shutdown()
        assert "draining" in repr(server)


# --- listeners ---


async def test_a_taken_port_is_an_error_that_names_the_address():
    (listener,) = await open_listeners("127.0.0.1", 0)
    async with listener:
        ((host, port),) = listener_addresses([listener])
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: ") as caught:
            await open_listeners(host, port)
        assert caught.value.errno == errno.EADDRINUSE


async def test_an_unknown_host_is_an_error_that_names_it():
    with pytest.raises(OSError, match=r"cannot listen on no\.such\.host\.invalid:80: "):
        await open_listeners("no.such.host.invalid", 80)


async def test_a_port_out_of_range_is_an_error():
    with pytest.raises(ValueError, match="65536"):
        await open_listeners("127.0.0.1", 65536)


async def test_an_address_of_ipv6_is_shown_in_brackets():
    with pytest.raises(OSError, match=r"cannot listen on \[2001:db8::1\]:80: "):
        await open_listeners("2001:db8::1", 80)


class TwoAddresses(trio.abc.HostnameResolver):
    """A host with two addresses, whatever the resolver of this machine knows."""

    async def getaddrinfo(self, _host, port, *_options):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.1", "127.0.0.2")]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


async def test_all_addresses_of_a_host_get_the_same_free_port():
    trio.socket.set_custom_hostname_resolver(TwoAddresses())
    listeners = await open_listeners("two.example", 0)
    first, second = listener_addresses(listeners)
    assert (first[0], second[0]) == ("127.0.0.1", "127.0.0.2")
    assert first[1] == second[1]
    for listener in listeners:
        await listener.aclose()


async def test_listeners_are_closed_in_any_case():
    async def fails(_scope, _receive, send):
        await send({"type": "lifespan.startup.failed", "message": "no"})

    listeners = await open_listeners()
    with pytest.raises(RuntimeError, match="no"):
        await serve_http(fails, listeners)
    with pytest.raises(trio.ClosedResourceError):
        await listeners[0].accept()


# --- limits ---


def test_limits_must_be_positive():
    for name in ("max_head", "max_connections", "write_timeout", "max_body"):
        for value in (0, -1):
            with pytest.raises(ValueError, match=name):
                HttpLimits(**{name: value})
    assert HttpLimits(max_body=None).max_body is None


async def test_a_connection_past_the_limit_gets_503_and_the_others_go_on():
    async with listening(Answering(), limits=limits(max_connections=2)) as server:
        peers = [await dial(server) for _ in range(2)]
        for peer in peers:
            assert (await peer.ask(GET)).status == 200
        extra = await dial(server)
        reply = await extra.ask(GET)
        assert reply.status == 503
        assert reply.headers[b"connection"] == b"close"
        assert await extra.at_end()
        await extra.stream.aclose()
        assert (await peers[0].ask(GET)).status == 200
        assert server.statistics().refused == 1
        await peers[0].stream.aclose()
        await wait_for(lambda: server.statistics().connections == 1)
        again = await dial(server)
        assert (await again.ask(GET)).status == 200
        for peer in (peers[1], again):
            await peer.stream.aclose()


async def test_a_flood_of_connections_past_the_limit_does_not_pile_up():
    async with listening(Answering(), limits=limits(max_connections=1)) as server:
        peers = [await dial(server) for _ in range(150)]
        await wait_for(lambda: server.statistics().accepted == 150)
        statistics = server.statistics()
        assert (statistics.connections, statistics.refused) == (1, 149)
        # 100 are being refused, the others were closed at once.
        assert await peers[-1].at_end()
        for peer in peers:
            await peer.stream.aclose()


class FullListener(trio.abc.Listener):
    """A listener of a process that has run out of file descriptors once."""

    def __init__(self, inner):
        self.inner = inner
        self.failures = 1

    async def accept(self):
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await self.inner.accept()

    async def aclose(self):
        await self.inner.aclose()


async def test_running_out_of_file_descriptors_is_survived(caplog):
    (listener,) = await open_listeners()
    (address,) = listener_addresses([listener])
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_http, Answering(), [FullListener(listener)])
        async with await trio.open_tcp_stream(*address) as stream:
            assert (await Peer(stream).ask(GET)).status == 200
        nursery.cancel_scope.cancel()
    assert "Too many open files" in caplog.text


# --- clients that go away ---


async def test_a_reset_cancels_the_handler_at_once(caplog):
    app = Blocking()
    async with listening(app) as server:
        peer = await dial(server)
        await peer.send(GET)
        with trio.fail_after(5):
            await app.running.wait()
            peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await peer.stream.aclose()
            await app.ended.wait()
        assert app.reason == "client disconnected"
        await wait_for(lambda: server.statistics().connections == 0)
    assert errors(caplog) == []


async def test_clients_that_open_a_stream_and_vanish_leave_nothing():
    running = 0

    async def app(scope, _receive, send):
        nonlocal running
        if scope["type"] == "lifespan":
            raise NotImplementedError
        await send(OK)
        running += 1
        try:
            await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
            await trio.sleep_forever()
        finally:
            running -= 1

    async with listening(app) as server:
        await trio.testing.wait_all_tasks_blocked()
        before = trio.lowlevel.current_statistics().tasks_living
        for _ in range(100):
            peer = await dial(server)
            await peer.send(GET)
            await peer.head()
            await peer.stream.aclose()
        await wait_for(lambda: server.statistics().connections == 0)
        assert running == 0
        assert trio.lowlevel.current_statistics().tasks_living == before


# --- one connection and the others ---


async def test_an_exception_in_one_handler_is_not_noticed_by_another(caplog):
    quiet = Blocking()

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            raise NotImplementedError
        if scope["path"] == "/quiet":
            await quiet(scope, receive, send)

        async def fail():
            raise KeyError

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            nursery.start_soon(trio.sleep_forever)

    async with listening(app) as server:
        first, second = await dial(server), await dial(server)
        await first.send(b"GET /quiet HTTP/1.1\r\nHost: a\r\n\r\n")
        with trio.fail_after(5):
            await quiet.running.wait()
        assert (await second.ask(GET)).status == 500
        assert not quiet.ended.is_set()
        await first.stream.aclose()
        await second.stream.aclose()
    assert len(errors(caplog)) == 1


class PoisonedStream(trio.abc.Stream):
    """A stream with a bug: what it raises is no stream error. It comes in the reader task, or at the end."""

    def __init__(self, where):
        self.where = where
        self.closed = False

    async def receive_some(self, max_bytes=None):
        await trio.lowlevel.checkpoint()
        if self.where == "receive":
            raise KeyError("poison")
        return b"nonsense"

    async def send_all(self, data):
        raise KeyError("poison")

    async def wait_send_all_might_not_block(self): ...

    async def aclose(self):
        self.closed = True


class PoisonedListener(trio.abc.Listener):
    def __init__(self, inner, where):
        self.inner = inner
        self.poison = PoisonedStream(where)
        self.given = False

    async def accept(self):
        if not self.given:
            self.given = True
            return self.poison
        return await self.inner.accept()

    async def aclose(self):
        await self.inner.aclose()


@pytest.mark.parametrize("where", ["receive", "send"])
async def test_a_bug_in_one_connection_does_not_take_the_server_down(where, caplog):
    (inner,) = await open_listeners()
    (address,) = listener_addresses([inner])
    listener = PoisonedListener(inner, where)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_http, Answering(), [listener])
        async with await trio.open_tcp_stream(*address) as stream:
            assert (await Peer(stream).ask(GET)).status == 200
        nursery.cancel_scope.cancel()
    assert listener.poison.closed
    (record,) = errors(caplog)
    assert "bug in the HTTP server" in record.message


# --- ending ---


async def serve_in(nursery, app, **options):
    listeners = await open_listeners()
    ended = trio.Event()

    async def serve(task_status):
        await serve_http(app, listeners, task_status=task_status, **options)
        ended.set()

    return await nursery.start(serve), ended


async def test_shutdown_refuses_new_connections_and_closes_idle_ones_at_once():
    async with trio.open_nursery() as nursery:
        server, ended = await serve_in(nursery, Answering(), grace=1000)
        fresh, used, begun = [await dial(server) for _ in range(3)]
        await used.ask(GET)
        await begun.send(b"GET / HT")
        await wait_for(lambda: server.statistics().accepted == 3)
        await trio.testing.wait_all_tasks_blocked(0.05)  # until it has read what was sent
        server.shutdown()
        assert await fresh.at_end()
        assert await used.at_end()
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream(*server.addresses[0])
        # A request that has begun to arrive is still answered.
        reply = await begun.ask(b"TP/1.1\r\nHost: a\r\n\r\n")
        assert reply.status == 200
        assert reply.headers[b"connection"] == b"close"
        with trio.fail_after(5):
            await ended.wait()
        for peer in (fresh, used, begun):
            await peer.stream.aclose()


async def test_shutdown_lets_running_requests_finish():
    go = trio.Event()

    async def app(scope, _receive, send):
        if scope["type"] == "lifespan":
            raise NotImplementedError
        await send(OK)
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await go.wait()
        await send({"type": "http.response.body", "body": b"two"})

    async with trio.open_nursery() as nursery:
        server, ended = await serve_in(nursery, app, grace=1000)
        peer = await dial(server)
        await peer.send(GET + GET)
        await peer.head()
        assert await peer.chunk() == b"one"
        server.shutdown()
        await trio.testing.wait_all_tasks_blocked()
        assert not ended.is_set()
        go.set()
        assert await peer.chunk() == b"two"
        assert await peer.chunk() == b""
        assert await peer.at_end()  # the second request is not taken any more
        with trio.fail_after(5):
            await ended.wait()
        await peer.stream.aclose()


async def test_negative_times_are_refused_and_the_listeners_closed():
    listeners = await open_listeners()
    with pytest.raises(ValueError, match="negative"):
        await serve_http(Answering(), listeners, grace=-1)
    with pytest.raises(trio.ClosedResourceError):
        await listeners[0].accept()


async def test_shutdown_cancels_what_is_still_running_after_the_grace(caplog):
    app = Blocking()
    async with trio.open_nursery() as nursery:
        server, ended = await serve_in(nursery, app, grace=0.05)
        peer = await dial(server)
        await peer.send(GET)
        with trio.fail_after(5):
            await app.running.wait()
            server.shutdown()
            await ended.wait()
        assert app.ended.is_set()
        await peer.stream.aclose()
    assert "cancelled" in caplog.text


async def test_a_second_shutdown_can_only_shorten_the_grace():
    app = Blocking()
    async with trio.open_nursery() as nursery:
        server, ended = await serve_in(nursery, app, grace=1000)
        peer = await dial(server)
        await peer.send(GET)
        with trio.fail_after(5):
            await app.running.wait()
            server.shutdown()
            server.shutdown(grace=0)
            server.shutdown()
            await ended.wait()
        await peer.stream.aclose()


async def test_a_reader_that_has_stalled_does_not_hold_a_shutdown():
    """The send is blocked in the kernel; neither the grace nor cancellation waits for the client."""
    cancelled = trio.Event()
    sends = 0

    async def app(scope, _receive, send):
        nonlocal sends
        if scope["type"] == "lifespan":
            raise NotImplementedError
        await send(OK)
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                sends += 1
        finally:
            cancelled.set()

    async with trio.open_nursery() as nursery:
        server, ended = await serve_in(nursery, app, grace=0.05)
        peer = await dial(server)
        await peer.send(GET)
        with trio.fail_after(30):
            # Blocked: for a tenth of a second nothing moves, after something had.
            await trio.testing.wait_all_tasks_blocked(0.1)
        assert sends
        assert not cancelled.is_set()
        with trio.fail_after(5):
            server.shutdown()
            await ended.wait()
        assert cancelled.is_set()
        await peer.stream.aclose()


async def test_cancelling_the_server_ends_everything_at_once():
    apps = Blocking(first=b"x")
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            server, _ = await serve_in(nursery, apps, grace=1000)
            streaming, idle, begun = [await dial(server) for _ in range(3)]
            await streaming.send(GET)
            await begun.send(b"GET")
            await apps.running.wait()
            await wait_for(lambda: server.statistics().accepted == 3)
            nursery.cancel_scope.cancel()
        assert apps.ended.is_set()
        for peer in (streaming, idle, begun):
            await peer.rest()
            await peer.stream.aclose()
    gc.collect()  # a stream or socket left open would be a ResourceWarning, and that an error


# --- TLS ---


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def server_context(authority):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def client_context(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def dial_tls(server, context) -> Peer:
    raw = await trio.open_tcp_stream(*server.addresses[0])
    return Peer(trio.SSLStream(raw, context, server_hostname="localhost", https_compatible=True))


async def test_requests_over_tls_are_answered(server_context, client_context):
    app = Answering()
    async with listening(app, ssl_context=server_context) as server:
        peer = await dial_tls(server, client_context)
        for _ in range(3):
            assert (await peer.ask(post(b"x" * 100_000))).body == b"x" * 100_000
        assert app.scopes[0]["scheme"] == "https"
        assert app.scopes[0]["client"][0] == "127.0.0.1"
        assert app.scopes[0]["server"] == server.addresses[0]
        await trio.aclose_forcefully(peer.stream)


async def test_closing_over_tls_says_so_and_does_not_wait_for_the_client(server_context, client_context):
    """The client's own close_notify never comes; without ours its read would fail."""
    async with listening(Answering(), ssl_context=server_context) as server:
        raw = await trio.open_tcp_stream(*server.addresses[0])
        peer = Peer(trio.SSLStream(raw, client_context, server_hostname="localhost"))
        await peer.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (await peer.reply()).status == 200
        assert await peer.at_end()
        await wait_for(lambda: server.statistics().connections == 0)
        await trio.aclose_forcefully(peer.stream)


async def test_a_client_over_tls_that_vanishes_cancels_its_handler(server_context, client_context):
    app = Blocking()
    async with listening(app, ssl_context=server_context) as server:
        peer = await dial_tls(server, client_context)
        await peer.send(GET)
        with trio.fail_after(5):
            await app.running.wait()
            await trio.aclose_forcefully(peer.stream)
            await app.ended.wait()


async def test_a_failed_handshake_is_quiet(server_context, caplog):
    caplog.set_level(logging.DEBUG, "trio_a2a.server.http")
    async with listening(Answering(), ssl_context=server_context) as server:
        plain = await dial(server)
        await plain.send(GET)
        await plain.rest()
        await plain.stream.aclose()
        distrusting = await dial_tls(server, ssl.create_default_context())
        with pytest.raises(trio.BrokenResourceError):
            await distrusting.send(GET)
        await trio.aclose_forcefully(distrusting.stream)
        await wait_for(lambda: server.statistics().connections == 0)
    assert errors(caplog) == []
    assert "TLS handshake failed" in caplog.text


async def test_a_handshake_that_does_not_come_is_given_up(server_context, autojump_clock, caplog):
    caplog.set_level(logging.DEBUG, "trio_a2a.server.http")
    ours, theirs = trio.testing.memory_stream_pair()
    with trio.fail_after(11):
        await serve_stream(
            Answering(),
            trio.SSLStream(theirs, server_context, server_side=True),
            limits=limits(handshake_timeout=10),
        )
    assert await ours.receive_some() == b""
    assert "not finished in time" in caplog.text


async def test_time_outs_that_were_moved_away_leave_tls_intact(server_context, client_context, autojump_clock):
    """The reader's scope is renewed while it waits inside the TLS stream: nothing of the stream may be lost."""

    async def app(_scope, receive, send):
        await trio.sleep(500)
        await receive()
        await send(OK)
        await send({"type": "http.response.body", "body": b"late"})

    ours, theirs = trio.testing.memory_stream_pair()
    peer = Peer(trio.SSLStream(ours, client_context, server_hostname="localhost"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, app, trio.SSLStream(theirs, server_context, server_side=True))
        for _ in range(3):
            assert (await peer.ask(GET)).body == b"late"
            await trio.sleep(60)
        nursery.cancel_scope.cancel()
    await trio.aclose_forcefully(peer.stream)


async def test_shutdown_does_not_wait_for_a_handshake(server_context):
    listeners = await open_listeners(ssl_context=server_context)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(
                lambda task_status: serve_http(Answering(), listeners, grace=1000, task_status=task_status)
            )
            silent = await dial(server)
            await wait_for(lambda: server.statistics().connections == 1)
            server.shutdown()
    await silent.stream.aclose()


async def test_a_connection_over_tls_past_the_limit_gets_503(server_context, client_context):
    async with listening(Answering(), ssl_context=server_context, limits=limits(max_connections=1)) as server:
        first = await dial_tls(server, client_context)
        assert (await first.ask(GET)).status == 200
        second = await dial_tls(server, client_context)
        assert (await second.ask(GET)).status == 503
        for peer in (first, second):
            await trio.aclose_forcefully(peer.stream)
