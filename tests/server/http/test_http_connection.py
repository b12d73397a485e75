"""One connection over streams in memory: what an application sees, and what a client sees."""

import logging

import pytest
import trio
import trio.testing

from trio_a2a.server.http import (
    CANCELS_ON_DISCONNECT,
    ApplicationError,
    ClientDisconnectedError,
    serve_stream,
)
from trio_a2a.server.http.closing import LINGER_SIZE

from .http_peer import CHUNKED, GET, Answering, Blocking, limits, post, served

lockstep = trio.testing.lockstep_stream_pair
OK = {"type": "http.response.start", "status": 200, "headers": []}


def errors(caplog) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


# --- what the application is told ---


async def test_the_scope_describes_the_request():
    app = Answering()
    async with served(app, root_path="/root", state={"a": 1}) as peer:
        await peer.ask(b"GET /a%20b/%C3%A9%2F?q=%20&r HTTP/1.1\r\nHOST: Test:80\r\nX-Y: z\r\nx-y: w\r\n\r\n")
    (scope,) = app.scopes
    assert scope["type"] == "http"
    assert scope["asgi"] == {"version": "3.0", "spec_version": "2.4"}
    assert scope["http_version"] == "1.1"
    assert scope["method"] == "GET"
    assert scope["scheme"] == "http"
    assert scope["path"] == "/a b/é/"
    assert scope["raw_path"] == b"/a%20b/%C3%A9%2F"
    assert scope["query_string"] == b"q=%20&r"
    assert scope["root_path"] == "/root"
    assert scope["headers"] == [(b"host", b"Test:80"), (b"x-y", b"z"), (b"x-y", b"w")]
    assert scope["client"] is None
    assert scope["server"] is None
    assert scope["state"] == {"a": 1}
    assert CANCELS_ON_DISCONNECT in scope["extensions"]


async def test_each_request_has_a_state_of_its_own():
    app = Answering()
    async with served(app, state={"a": 1}) as peer:
        await peer.ask(GET)
        app.scopes[0]["state"]["b"] = 2
        await peer.ask(GET)
    assert app.scopes[1]["state"] == {"a": 1}


async def test_a_path_that_is_no_utf_8_does_not_fail():
    app = Answering()
    async with served(app) as peer:
        reply = await peer.ask(b"GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n")
    assert reply.status == 200
    assert app.scopes[0]["path"] == "/\ufffd"
    assert app.scopes[0]["raw_path"] == b"/%ff"


async def test_the_scheme_can_be_told():
    app = Answering()
    async with served(app, scheme="https") as peer:
        await peer.ask(GET)
    assert app.scopes[0]["scheme"] == "https"


async def test_upgrade_is_ignored_and_the_body_is_still_the_body():
    app = Answering()
    async with served(app) as peer:
        upgrade = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
        reply = await peer.ask(post(b"hello").replace(b"\r\n\r\n", b"\r\n" + upgrade + b"\r\n"))
        assert reply.body == b"hello"
        assert (await peer.ask(GET)).status == 200
    assert app.bodies == [b"hello", b""]


# --- bodies and their flow ---


async def test_a_whole_body_comes_in_one_message():
    seen = []

    async def app(_scope, receive, send):
        seen.append(await receive())
        await send(OK)
        await send({"type": "http.response.body"})

    async with served(app) as peer:
        await peer.ask(post(b"hello"))
    assert seen == [{"type": "http.request", "body": b"hello", "more_body": False}]


async def test_a_body_is_handed_on_as_it_comes():
    got, want = trio.open_memory_channel[dict](0)

    async def app(_scope, receive, send):
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            await got.send(message)
        await send(OK)
        await send({"type": "http.response.body"})

    async with served(app) as peer:
        with trio.fail_after(5):
            await peer.send(CHUNKED)
            for part in (b"one", b"two"):
                await peer.send(b"%x\r\n%b\r\n" % (len(part), part))
                assert await want.receive() == {"type": "http.request", "body": part, "more_body": True}
            await peer.send(b"0\r\nTrailer: x\r\n\r\n")
            assert await want.receive() == {"type": "http.request", "body": b"", "more_body": False}
            assert (await peer.reply()).status == 200


async def test_a_body_that_nobody_takes_holds_the_client_back():
    """With a stream that hands over only what is read, the client's send must not go through."""
    take = trio.Event()
    sizes = []

    async def app(_scope, receive, send):
        await take.wait()
        more = True
        while more:
            message = await receive()
            sizes.append(len(message["body"]))
            more = message["more_body"]
        await send(OK)
        await send({"type": "http.response.body"})

    size = 1_000_000
    async with served(app, pair=lockstep) as peer, trio.open_nursery() as nursery:
        sent = trio.Event()

        async def send_all():
            await peer.stream.send_all(post(b"x" * size))
            sent.set()

        nursery.start_soon(send_all)
        await trio.testing.wait_all_tasks_blocked()
        assert not sent.is_set()
        take.set()
        with trio.fail_after(5):
            assert (await peer.reply()).status == 200
            await sent.wait()
    assert sum(sizes) == size
    assert max(sizes) < 200_000


async def test_expect_is_answered_when_the_application_asks_for_the_body():
    head = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    ask = trio.Event()
    app = Answering()

    async def late(scope, receive, send):
        await ask.wait()
        await app(scope, receive, send)

    async with served(late) as peer:
        await peer.send(head)
        await trio.testing.wait_all_tasks_blocked()
        ask.set()
        assert await peer.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        reply = await peer.ask(b"hello")
        assert reply.body == b"hello"
        assert (await peer.ask(GET)).status == 200


async def test_expect_is_not_answered_when_the_body_is_there_already():
    async with served(Answering()) as peer:
        reply = await peer.ask(post(b"hello").replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n", 1))
        assert reply.body == b"hello"


async def test_expect_is_not_answered_when_the_application_refuses_the_body(autojump_clock):
    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 403, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    async with served(app) as peer:
        reply = await peer.ask(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert reply.status == 403
        assert reply.headers[b"connection"] == b"close"
        assert await peer.at_end()


async def test_a_body_that_the_application_leaves_ends_the_connection_after_the_response(autojump_clock):
    async def app(_scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 413, "headers": []})
        await send({"type": "http.response.body", "body": b"too much"})

    async with served(app) as peer:
        reply = await peer.ask(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000)
        assert (reply.status, reply.body) == (413, b"too much")
        assert reply.headers[b"connection"] == b"close"
        assert await peer.at_end()


async def test_what_a_refused_client_still_sends_is_read_within_bounds(autojump_clock):
    """So that the refusal is not destroyed by a reset, and so that nobody keeps the connection with it."""
    async with served(Answering(), pair=lockstep, limits=limits(max_body=10)) as peer:
        await peer.send(post(b"x" * 11).split(b"x")[0])
        reply = await peer.reply()
        assert reply.status == 413
        sent = 0
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await peer.send(b"x" * 50_000)
                sent += 50_000
        assert LINGER_SIZE / 2 < sent < LINGER_SIZE * 2


# --- responses and the connection ---


async def test_a_connection_serves_one_request_after_the_other():
    app = Answering()
    async with served(app) as peer:
        for number in range(5):
            assert (await peer.ask(post(b"%d" % number))).body == b"%d" % number


async def test_pipelined_requests_are_answered_in_order():
    async with served(Answering()) as peer:
        await peer.send(b"".join(post(b"%d" % number) for number in range(100)))
        for number in range(100):
            assert (await peer.reply()).body == b"%d" % number


async def test_only_one_handler_runs_at_a_time():
    running = 0
    most = 0

    async def app(_scope, _receive, send):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.testing.wait_all_tasks_blocked()
        running -= 1
        await send(OK)
        await send({"type": "http.response.body"})

    async with served(app) as peer:
        await peer.send(GET * 5)
        for _ in range(5):
            await peer.reply()
    assert most == 1


async def test_a_flood_of_pipelined_requests_is_not_read_while_a_handler_runs():
    app = Blocking()
    async with served(app, pair=lockstep) as peer, trio.open_nursery() as nursery:
        sent = trio.Event()

        async def flood():
            await peer.stream.send_all(GET * 20_000)
            sent.set()

        nursery.start_soon(flood)
        await trio.testing.wait_all_tasks_blocked()
        assert app.running.is_set()
        assert not sent.is_set()
        nursery.cancel_scope.cancel()


async def test_a_malformed_request_behind_a_good_one_is_refused_after_the_answer():
    async with served(Answering()) as peer:
        await peer.send(post(b"hello") + b"GET / HTTP/1.1\r\n\r\n")
        assert (await peer.reply()).body == b"hello"
        assert (await peer.reply()).status == 400
        await peer.stream.send_eof()
        assert await peer.at_end()


@pytest.mark.parametrize(
    ("request_", "stays"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
    ],
)
async def test_the_connection_stays_or_closes_as_asked(request_, stays):
    async with served(Answering()) as peer:
        reply = await peer.ask(request_)
        assert reply.status == 200
        if stays:
            assert (await peer.ask(request_)).status == 200
        else:
            assert reply.headers[b"connection"] == b"close"
            assert await peer.at_end()


async def test_requests_behind_one_that_closes_are_not_answered():
    app = Answering()
    async with served(app) as peer:
        await peer.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + GET)
        assert (await peer.reply()).status == 200
        assert await peer.at_end()
    assert len(app.scopes) == 1


async def test_http_1_0_gets_a_stream_up_to_the_end_of_the_connection():
    async def app(_scope, _receive, send):
        await send(OK)
        for part in (b"a", b"b", b""):
            await send({"type": "http.response.body", "body": part, "more_body": bool(part)})

    async with served(app) as peer:
        await peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        status, headers = await peer.head()
        assert (status, headers[b"connection"]) == (200, b"close")
        assert b"transfer-encoding" not in headers
        assert await peer.rest() == b"ab"


async def test_head_gets_no_body_and_the_connection_stays():
    async with served(Answering(body=b"hello")) as peer:
        await peer.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + GET)
        reply = await peer.reply(has_body=False)
        assert reply.headers[b"content-length"] == b"5"
        assert (await peer.reply()).body == b"hello"


async def test_each_part_of_a_stream_is_sent_at_once():
    go = trio.Event()

    async def app(_scope, _receive, send):
        await send(OK)
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await go.wait()
        await send({"type": "http.response.body", "body": b"two"})

    async with served(app) as peer:
        await peer.send(GET)
        assert (await peer.head())[0] == 200
        assert await peer.chunk() == b"one"
        go.set()
        assert await peer.chunk() == b"two"
        assert await peer.chunk() == b""


async def test_a_short_response_is_one_write():
    """Header block and body in one segment: what a client sees in one read."""
    async with served(Answering(body=b"hello"), pair=lockstep) as peer:
        await peer.send(GET)
        with trio.fail_after(5):
            data = await peer.stream.receive_some()
        assert data.startswith(b"HTTP/1.1 200 OK\r\n")
        assert data.endswith(b"\r\n\r\nhello")


async def test_a_large_response_arrives_whole():
    data = bytes(range(256)) * 5000
    async with served(Answering(body=data), pair=lockstep) as peer:
        assert (await peer.ask(GET)).body == data


# --- applications that fail ---


async def test_an_exception_before_the_response_is_500_and_logged_once(caplog):
    async def app(_scope, _receive, _send):
        raise KeyError("secret")

    async with served(app) as peer:
        reply = await peer.ask(GET)
        assert reply.status == 500
        assert reply.headers[b"connection"] == b"close"
        assert b"secret" not in reply.body
        assert await peer.at_end()
    (record,) = errors(caplog)
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


async def test_an_exception_after_the_start_message_is_still_500(caplog):
    async def app(_scope, _receive, send):
        await send(OK)
        raise KeyError

    async with served(app) as peer:
        assert (await peer.ask(GET)).status == 500
    assert len(errors(caplog)) == 1


async def test_an_exception_in_the_middle_cuts_the_response_off(caplog):
    async def app(_scope, _receive, send):
        await send(OK)
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        raise KeyError

    async with served(app) as peer:
        await peer.send(GET)
        await peer.head()
        assert await peer.rest() == b"3\r\none\r\n"
    assert len(errors(caplog)) == 1


async def test_an_exception_after_the_response_is_logged_and_closes(caplog):
    async def app(_scope, _receive, send):
        await send(OK)
        await send({"type": "http.response.body"})
        raise KeyError

    async with served(app) as peer:
        assert (await peer.ask(GET)).status == 200
        assert await peer.at_end()
    assert len(errors(caplog)) == 1


async def test_head_gets_an_error_without_a_body(caplog):
    async def app(_scope, _receive, _send):
        raise KeyError

    async with served(app) as peer:
        await peer.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await peer.head())[0] == 500
        assert await peer.at_end()


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [OK],
        [{"type": "http.response.body", "body": b"x"}],
        [OK, OK],
        [{"type": "http.response.pathsend", "path": "/"}],
        [{"type": "http.response.start", "status": 200, "headers": [("text", "text")]}, {"type": "http.response.body"}],
        [
            {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b\r\nc: d")]},
            {"type": "http.response.body"},
        ],
        [{"type": "http.response.start", "status": 101}],
        [{"type": "http.response.start"}],
        [{}],
        [
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]},
            {"type": "http.response.body"},
        ],
    ],
)
async def test_an_application_that_breaks_the_protocol_is_a_500(messages, caplog):
    async def app(_scope, _receive, send):
        for message in messages:
            await send(message)

    async with served(app) as peer:
        assert (await peer.ask(GET)).status == 500
    assert len(errors(caplog)) == 1


async def test_a_response_shorter_than_announced_ends_the_connection(caplog):
    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b"d"})

    async with served(app) as peer:
        await peer.send(GET + GET)
        await peer.head()
        assert await peer.rest() == b"abc"
    assert len(errors(caplog)) == 1


async def test_an_application_that_returns_in_the_middle_cuts_the_response_off(caplog):
    async def app(_scope, _receive, send):
        await send(OK)
        await send({"type": "http.response.body", "body": b"one", "more_body": True})

    async with served(app) as peer:
        await peer.send(GET)
        await peer.head()
        assert await peer.rest() == b"3\r\none\r\n"
    assert len(errors(caplog)) == 1


async def test_callables_that_outlive_their_request_do_not_reach_the_next(caplog):
    kept = []

    async def app(_scope, receive, send):
        kept.append((receive, send))
        await send(OK)
        await send({"type": "http.response.body", "body": b"%d" % len(kept)})

    async with served(app) as peer:
        assert (await peer.ask(GET)).body == b"1"
        receive, send = kept[0]
        await peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        assert (await peer.reply()).body == b"2"
        with trio.fail_after(5):
            assert await receive() == {"type": "http.disconnect"}
            for message in (OK, {"type": "http.response.body", "body": b"x"}):
                with pytest.raises(ApplicationError):
                    await send(message)


async def test_callables_that_outlive_their_connection_say_so(autojump_clock):
    """In a task of the application's own, which the end of the connection does not cancel."""
    kept = []
    seen = []
    started = trio.Event()

    async def app(_scope, receive, send):
        kept.append((receive, send))
        await receive()
        started.set()
        await trio.sleep_forever()

    ours, theirs = trio.testing.memory_stream_pair()
    with trio.fail_after(5):
        async with trio.open_nursery() as outer, trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, app, theirs)
            await ours.send_all(GET)
            await started.wait()
            receive, send = kept[0]

            async def watch():
                seen.append(await receive())

            outer.start_soon(watch)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert seen == [{"type": "http.disconnect"}]
        assert await receive() == {"type": "http.disconnect"}
        with pytest.raises(ApplicationError):
            await send(OK)
    await ours.aclose()


async def test_receive_gives_disconnect_after_the_response():
    seen = []

    async def app(_scope, receive, send):
        await receive()
        async with trio.open_nursery() as nursery:

            async def watch():
                seen.append(await receive())

            nursery.start_soon(watch)
            await trio.testing.wait_all_tasks_blocked()
            await send(OK)
            await send({"type": "http.response.body"})

    async with served(app) as peer:
        await peer.ask(GET)
        await peer.ask(GET)
    assert seen == [{"type": "http.disconnect"}] * 2


async def test_two_sends_at_a_time_do_not_mix(caplog):
    async def app(_scope, _receive, send):
        await send(OK)
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(send, {"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})

    async with served(app, pair=lockstep) as peer:
        await peer.send(GET)
        await peer.head()
        await peer.rest()
    (record,) = errors(caplog)
    assert record.exc_info is not None
    assert pytest.RaisesGroup(ApplicationError).matches(record.exc_info[1])


async def test_a_send_that_the_application_cancels_half_way_ends_the_connection(caplog):
    async def app(_scope, _receive, send):
        await send(OK)
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, {"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        with pytest.raises(ApplicationError):
            await send({"type": "http.response.body"})

    async with served(app, pair=lockstep) as peer:
        await peer.send(GET)
        await peer.head()
        await trio.testing.wait_all_tasks_blocked()
        assert not (await peer.rest()).endswith(b"0\r\n\r\n")


async def test_keyboard_interrupt_in_an_application_is_not_swallowed():
    async def app(_scope, _receive, _send):
        raise KeyboardInterrupt

    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(GET)
    with pytest.RaisesGroup(KeyboardInterrupt):
        await serve_stream(app, theirs)


# --- clients that go away ---


@pytest.mark.parametrize("first", [None, b"data: 1\n\n"])
@pytest.mark.parametrize("how", ["close", "half close"])
async def test_a_client_that_goes_away_cancels_the_handler_at_once(first, how, caplog):
    app = Blocking(first=first)
    async with served(app) as peer:
        await peer.send(GET)
        with trio.fail_after(5):
            await app.running.wait()
            if how == "close":
                await peer.stream.aclose()
            else:
                await peer.stream.send_eof()
            await app.ended.wait()
    assert app.reason == "client disconnected"
    assert app.after == {"type": "http.disconnect"}
    assert errors(caplog) == []


async def test_a_body_that_came_in_whole_is_given_though_its_client_has_hung_up():
    """Who sends a message and does not wait for the answer has sent it all the same."""
    seen = []

    async def app(scope, receive, send):
        seen.append(await receive())
        seen.append(await receive())

    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
    await ours.aclose()
    with trio.fail_after(5):
        await serve_stream(app, theirs)
    assert seen == [
        {"type": "http.request", "body": b"hello", "more_body": False},
        {"type": "http.disconnect"},
    ]


async def test_a_half_closed_client_gets_no_response_to_a_request_that_runs():
    app = Blocking()
    async with served(app) as peer:
        await peer.send(GET)
        await peer.stream.send_eof()
        assert await peer.at_end()


async def test_a_task_that_waits_in_receive_sees_the_disconnect_before_the_cancellation():
    seen = []
    app = Blocking()

    async def watching(scope, receive, send):
        async def watch():
            await receive()
            seen.append(await receive())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await app(scope, receive, send)

    async with served(watching) as peer:
        await peer.send(GET)
        with trio.fail_after(5):
            await app.running.wait()
            await peer.stream.aclose()
            await app.ended.wait()
    assert seen == [{"type": "http.disconnect"}]


async def test_a_failing_write_cancels_the_handler(caplog):
    """The client's receiving side is gone, its sending side is open: only a write can tell."""
    ended = []

    async def app(_scope, _receive, send):
        await send(OK)
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        except trio.Cancelled as cancelled:
            ended.append(cancelled.reason)
            raise

    async with served(app) as peer:
        await peer.send(GET)
        await peer.head()
        with trio.fail_after(5):
            await peer.stream.receive_stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
    assert ended == ["client disconnected"]
    assert errors(caplog) == []


async def test_shielded_code_that_sends_to_a_client_that_is_gone_gets_an_oserror(caplog):
    caught = []

    async def app(_scope, _receive, send):
        await send(OK)
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(1, shield=True):
                try:
                    await send({"type": "http.response.body", "body": b"x"})
                except OSError as error:
                    caught.append(error)
                    raise

    async with served(app) as peer:
        await peer.send(GET)
        await peer.head()
        await peer.stream.aclose()
        with trio.fail_after(5):
            await trio.testing.wait_all_tasks_blocked()
    (error,) = caught
    assert isinstance(error, ClientDisconnectedError)
    assert errors(caplog) == []


async def test_a_failure_during_the_clean_up_after_a_disconnect_is_logged_and_contained(caplog):
    async def app(_scope, _receive, _send):
        async def fails_when_cancelled():
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_when_cancelled)
            nursery.start_soon(trio.sleep_forever)

    async with served(app) as peer:
        await peer.send(GET)
        await trio.testing.wait_all_tasks_blocked()
        await peer.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
    assert len(errors(caplog)) == 1


@pytest.mark.parametrize(
    "part", [b"G", b"GET / HTTP/1.1\r\nHost: a\r\n", post(b"hello")[:-1], CHUNKED, CHUNKED + b"1\r\na\r\n0\r\n"]
)
async def test_an_end_of_file_before_a_whole_request_is_400(part):
    async with served(Answering()) as peer:
        await peer.send(part)
        await peer.stream.send_eof()
        reply = await peer.reply()
        assert reply.status == 400
        assert await peer.at_end()


@pytest.mark.parametrize("part", [b"", b"\r\n"])
async def test_an_end_of_file_without_a_request_just_closes(part):
    async with served(Answering()) as peer:
        await peer.send(part)
        await peer.stream.send_eof()
        assert await peer.at_end()


async def test_an_end_of_file_in_a_body_cancels_the_handler():
    app = Blocking()
    async with served(app) as peer:
        await peer.send(post(b"hello")[:-1])
        with trio.fail_after(5):
            await app.running.wait()
            await peer.stream.send_eof()
            await app.ended.wait()
        assert app.after == {"type": "http.disconnect"}
        assert (await peer.reply()).status == 400


async def test_a_bad_chunk_cancels_the_handler_and_is_400():
    app = Blocking()
    async with served(app) as peer:
        await peer.send(CHUNKED)
        with trio.fail_after(5):
            await app.running.wait()
            await peer.send(b"x\r\n")
            assert (await peer.reply()).status == 400
            await app.ended.wait()


async def test_a_bad_chunk_after_the_beginning_of_the_response_cuts_it_off():
    app = Blocking(first=b"one")
    async with served(app) as peer:
        await peer.send(CHUNKED)
        await peer.head()
        assert await peer.chunk() == b"one"
        await peer.send(b"x\r\n")
        assert await peer.at_end()
    assert app.ended.is_set()


async def test_a_chunked_body_past_the_limit_is_413():
    app = Answering()
    async with served(app, limits=limits(max_body=10)) as peer:
        await peer.send(CHUNKED + b"8\r\n01234567\r\n")
        await trio.testing.wait_all_tasks_blocked()
        await peer.send(b"3\r\n")
        assert (await peer.reply()).status == 413
    assert app.bodies == []


# --- refusals ---


async def test_a_refusal_is_plain_text_and_closes():
    async with served(Answering()) as peer:
        reply = await peer.ask(b"GET / HTTP/1.1\r\n\r\n")
        assert reply.status == 400
        assert reply.headers[b"content-type"] == b"text/plain; charset=utf-8"
        assert reply.headers[b"connection"] == b"close"
        assert reply.body == b"no Host\n"
        assert await peer.at_end()


async def test_nothing_that_a_client_sends_comes_back_in_a_refusal():
    async with served(Answering()) as peer:
        reply = await peer.ask(b"<script> / HTTP/1.1\r\n\r\n")
        assert reply.status == 400
        assert b"script" not in reply.body


# --- time ---


async def test_a_first_request_that_does_not_come_is_408(autojump_clock):
    async with served(Answering(), limits=limits(header_timeout=10)) as peer:
        start = trio.current_time()
        assert (await peer.reply()).status == 408
        assert trio.current_time() - start == pytest.approx(10)


async def test_a_header_block_has_its_time_from_the_accept_however_it_trickles(autojump_clock):
    async with served(Answering(), limits=limits(header_timeout=10)) as peer:
        start = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def trickle():
                for byte in b"GET / HTTP/1.1\r\n" + b"X: " + b"x" * 1000:
                    await trio.sleep(1)
                    await peer.stream.send_all(bytes([byte]))

            nursery.start_soon(trickle)
            assert (await peer.reply()).status == 408
            assert trio.current_time() - start == pytest.approx(10)
            nursery.cancel_scope.cancel()


async def test_a_later_header_block_has_its_time_from_its_first_byte(autojump_clock):
    async with served(Answering(), limits=limits(header_timeout=10, keep_alive_timeout=75)) as peer:
        await peer.ask(GET)
        await trio.sleep(70)
        await peer.send(b"GET")
        await trio.sleep(9)
        await peer.send(b" /")
        start = trio.current_time()
        assert (await peer.reply()).status == 408
        assert trio.current_time() - start == pytest.approx(1)


async def test_a_header_block_that_was_pipelined_in_part_has_its_time_too(autojump_clock):
    async with served(Answering(), limits=limits(header_timeout=10)) as peer:
        await peer.send(GET + GET[:-1])
        assert (await peer.reply()).status == 200
        start = trio.current_time()
        assert (await peer.reply()).status == 408
        assert trio.current_time() - start == pytest.approx(10)


async def test_an_idle_connection_is_closed_without_a_word(autojump_clock):
    async with served(Answering(), limits=limits(keep_alive_timeout=75)) as peer:
        for _ in range(3):
            await peer.ask(GET)
            await trio.sleep(74)
        await peer.ask(GET)
        start = trio.current_time()
        assert await peer.at_end()
        assert trio.current_time() - start == pytest.approx(75)


async def test_a_body_without_progress_is_408_and_cancels_the_handler(autojump_clock):
    app = Answering()
    async with served(app, limits=limits(body_timeout=30)) as peer:
        await peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
        for _ in range(5):
            await trio.sleep(29)
            await peer.send(b"x")
        start = trio.current_time()
        assert (await peer.reply()).status == 408
        assert trio.current_time() - start == pytest.approx(30)
    assert app.bodies == []


async def test_a_body_that_the_application_does_not_take_has_no_time_limit(autojump_clock):
    """The server has stopped reading: the client cannot make progress, and its time begins again after that."""

    async def app(_scope, receive, send):
        await trio.sleep(1000)
        more = True
        while more:
            more = (await receive())["more_body"]
        await send(OK)
        await send({"type": "http.response.body"})

    async with served(app, limits=limits(body_timeout=30)) as peer:
        await peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200001\r\n\r\n" + b"x" * 200_000)
        await trio.sleep(1020)
        await peer.send(b"x")
        assert (await peer.reply()).status == 200


async def test_a_client_that_waits_for_100_continue_is_not_timed(autojump_clock):
    app = Answering()

    async def late(scope, receive, send):
        await trio.sleep(500)
        await app(scope, receive, send)

    async with served(late, limits=limits(body_timeout=30)) as peer:
        await peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert b"100 Continue" in await peer.until(b"\r\n\r\n")
        await trio.sleep(29)
        await peer.send(b"hel")
        start = trio.current_time()
        assert (await peer.reply()).status == 408
        assert trio.current_time() - start == pytest.approx(30)


async def test_a_handler_may_take_any_time(autojump_clock):
    async def app(_scope, _receive, send):
        await trio.sleep(80_000)
        await send(OK)
        await send({"type": "http.response.body", "body": b"late"})

    async with served(app) as peer:
        await peer.send(GET)
        with trio.fail_after(200_000):
            data = await peer.stream.receive_some()
        assert data.endswith(b"late")


async def test_a_client_that_takes_nothing_is_dropped_and_its_handler_cancelled(autojump_clock):
    reasons = []

    async def app(_scope, _receive, send):
        await send(OK)
        try:
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        except trio.Cancelled as cancelled:
            reasons.append((cancelled.reason, trio.current_time()))
            raise

    start = trio.current_time()
    async with served(app, pair=lockstep, limits=limits(write_timeout=30)) as peer:
        await peer.send(GET)
        await trio.sleep(31)
        with pytest.raises(trio.BrokenResourceError):
            await peer.stream.send_all(b"x")
    assert reasons == [("write time-out", pytest.approx(start + 30))]


async def test_a_slow_client_that_takes_something_is_not_dropped(autojump_clock):
    data = b"x" * 200_000
    async with served(Answering(body=data), pair=lockstep, limits=limits(write_timeout=30)) as peer:
        await peer.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        got = b""
        while not got.endswith(data):
            await trio.sleep(29)
            part = await peer.stream.receive_some(20_000)
            assert part
            got += part


async def test_a_refusal_that_nobody_takes_does_not_hold_the_connection(autojump_clock):
    ours, theirs = lockstep()
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, Answering(), theirs)
            await ours.send_all(b"nonsense")
    await ours.aclose()
