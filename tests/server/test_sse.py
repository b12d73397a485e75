"""Streams over HTTP: headers and when they go out, numbered frames, comments, errors, and how a stream ends."""

import pytest
import trio
import trio.testing

from tests.deadline import within
from tests.server.peer import CutOffError, Peer, make_app, message, open_peer
from trio_a2a.abc import Envelope
from trio_a2a.errors import ContentTypeNotSupportedError
from trio_a2a.server import Limits, jsonrpc
from trio_a2a.streams.hooks import CloseStreamsHook, NoOpHook
from trio_a2a.testing import FlakyStore, ScriptedAgent
from trio_a2a.types import StreamResponse
from trio_a2a.wire import from_dict

SEND, SUBSCRIBE = "SendStreamingMessage", "SubscribeToTask"


async def echo(context, updater):
    await updater.start_work()
    async with updater.artifact(name="echo") as out:
        for word in context.text().split():
            await out.write(word)
    await updater.complete("done")


class Stepped:
    """Reports an artifact each time it is told to, and completes when it is told that."""

    def __init__(self):
        self._send, self._receive = trio.open_memory_channel(1000)

    async def execute(self, _context, updater):
        await updater.start_work()
        async for text in self._receive:
            await updater.add_artifact(text)
        await updater.complete()

    def say(self, *texts):
        for text in texts:
            self._send.send_nowait(text)

    def complete(self):
        self._send.close()


async def ask(_context, updater):
    await updater.require_input("what?")


async def started(peer, text="hello"):
    """Begin a task with a call that does not wait; return its id."""
    reply = await peer.send(text, configuration={"returnImmediately": True})
    return reply.result["task"]["id"]


# ------------------------------------------------------------------------------------------------ the shape of a stream


@pytest.mark.requirement("S3-SEQUENCE")
@within(5)
async def test_a_stream_is_the_task_then_numbered_updates_then_the_end_of_the_response(autojump_clock):
    async with open_peer(echo) as peer, peer.stream(SEND, message("two words"), id="q") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-cache"
        assert stream.headers["x-accel-buffering"] == "no"
        frames = await stream.frames()
    says = ["SUBMITTED", "WORKING", "artifactUpdate", "artifactUpdate", "artifactUpdate", "COMPLETED"]
    assert [frame.says for frame in frames] == ["SUBMITTED", *says[1:]]
    assert [frame.id for frame in frames] == [1, 2, 3, 4, 5, 6]
    assert {frame.event for frame in frames} == {None}
    assert all(frame.data["id"] == "q" and frame.data["jsonrpc"] == "2.0" for frame in frames)
    assert set(frames[0].result) == {"task"}
    for frame in frames:
        from_dict(frame.result, StreamResponse)


@pytest.mark.requirement("S3-UNNUMBERED")
@within(5)
async def test_a_direct_reply_is_one_frame_without_a_number(autojump_clock):
    async def agent(_context, updater):
        await updater.reply("hi")

    async with open_peer(agent) as peer, peer.stream(SEND, message()) as stream:
        (frame,) = await stream.frames()
    assert frame.says == "hi"
    assert frame.id is None


@within(5)
async def test_after_a_stream_the_connection_takes_the_next_request(autojump_clock):
    async with open_peer(echo) as peer, peer.stream(SEND, message()) as stream:
        frames = await stream.frames()
        id_ = frames[0].result["task"]["id"]
        reply = await peer.call("GetTask", {"id": id_}, wire=stream.wire)
        assert reply.result["status"]["state"] == "TASK_STATE_COMPLETED"


@within(5)
async def test_line_breaks_that_are_none_to_json_do_not_split_a_frame(autojump_clock):
    text = "one\u2028two\u0085three\u2029four\r\nfive"

    async def agent(_context, updater):
        await updater.complete(text)

    async with open_peer(agent) as peer, peer.stream(SEND, message()) as stream:
        frames = await stream.frames()
    assert frames[-1].result["statusUpdate"]["status"]["message"]["parts"] == [{"text": text}]


@within(5)
async def test_a_subscription_begins_with_a_snapshot_and_ends_at_the_terminal_state(autojump_clock):
    agent = Stepped()
    async with open_peer(agent) as peer:
        id_ = await started(peer)
        agent.say("one")
        await trio.testing.wait_all_tasks_blocked()
        async with peer.stream(SUBSCRIBE, {"id": id_}) as stream:
            snapshot = await stream.frame()
            agent.say("two")
            agent.complete()
            rest = await stream.frames()
    assert snapshot.id == 3
    assert snapshot.result["task"]["status"]["state"] == "TASK_STATE_WORKING"
    assert [a["parts"][0]["text"] for a in snapshot.result["task"]["artifacts"]] == ["one"]
    assert [(frame.id, frame.says) for frame in rest] == [(4, "artifactUpdate"), (5, "COMPLETED")]


@pytest.mark.requirement("S5-SUBSCRIPTION-END")
@pytest.mark.parametrize("method", ["require_input", "require_auth"])
@within(30)
async def test_a_subscription_never_ends_at_an_interrupted_state(autojump_clock, method):
    async def interrupt(_context, updater):
        await updater.start_work()
        await trio.sleep(1)
        await getattr(updater, method)("well?")

    async def finish(_context, updater):
        await updater.complete()

    async with open_peer(ScriptedAgent(by_text={"begin": interrupt, "finish": finish})) as peer:
        id_ = await started(peer, "begin")
        async with peer.stream(SUBSCRIBE, {"id": id_}) as stream:
            assert (await stream.frame()).says in {"SUBMITTED", "WORKING"}
            while (await stream.frame()).says not in {"INPUT_REQUIRED", "AUTH_REQUIRED"}:
                pass
            await trio.sleep(20)
            await peer.send("finish", taskId=id_)
            assert [frame.says for frame in await stream.frames()] == [": keep-alive", "COMPLETED"]


@pytest.mark.requirement("S5-SNAPSHOT-FIRST")
@within(5)
async def test_the_stream_of_a_follow_up_begins_with_the_stored_task(autojump_clock):
    async def finish(_context, updater):
        await updater.complete()

    async with open_peer(ScriptedAgent(by_text={"ask": ask, "finish": finish})) as peer:
        task = (await peer.send("ask")).result["task"]
        async with peer.stream(SEND, message("finish", taskId=task["id"])) as stream:
            frames = await stream.frames()
    assert [(frame.id, frame.says) for frame in frames] == [(2, "INPUT_REQUIRED"), (3, "COMPLETED")]
    assert frames[0].result["task"] == task


# ----------------------------------------------------------------------------------------------- headers, early errors


@pytest.mark.requirement("S5-HEADERS")
@pytest.mark.parametrize(("silence", "at"), [(0.0, 0.0), (0.5, 0.5), (0.99, 0.99), (3.0, 1.0)])
@within(5)
async def test_the_headers_go_out_with_the_first_event_or_after_a_second_of_silence(autojump_clock, silence, at):
    async def agent(_context, updater):
        await trio.sleep(silence)
        await updater.complete()

    async with open_peer(agent) as peer:
        before = trio.current_time()
        async with peer.stream(SEND, message()) as stream:
            assert trio.current_time() - before == pytest.approx(at)
            assert stream.headers["content-type"] == "text/event-stream"
            assert [frame.says for frame in await stream.frames()] == ["SUBMITTED", "COMPLETED"]


@pytest.mark.requirement("S5-HEADERS")
@within(5)
async def test_a_refusal_within_the_first_second_is_a_plain_error(autojump_clock):
    async def agent(_context, _updater):
        await trio.sleep(0.9)
        raise ContentTypeNotSupportedError("No poems")

    async with open_peer(agent) as peer, peer.stream(SEND, message(), id="q") as stream:
        reply = await stream.reply()
    assert reply.headers["content-type"] == "application/json"
    assert (reply.status, reply.code, reply.json["id"]) == (200, -32005, "q")
    assert reply.error["message"] == "No poems"


@pytest.mark.requirement("S5-HEADERS")
@within(5)
async def test_a_refusal_after_that_is_an_error_in_the_stream(autojump_clock):
    async def agent(_context, _updater):
        await trio.sleep(2)
        raise ContentTypeNotSupportedError("No poems")

    async with open_peer(agent) as peer, peer.stream(SEND, message(), id="q") as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        (frame,) = await stream.frames()
    assert frame.says == "error -32005"
    assert frame.data["id"] == "q"
    assert frame.id is None
    assert set(frame.data) == {"jsonrpc", "id", "error"}


@pytest.mark.requirement("S5-HEADERS", "S5-REFUSAL", "S5-SNAPSHOT-FIRST")
@within(5)
async def test_a_follow_up_that_is_refused_is_a_plain_error_although_its_stream_has_a_snapshot(autojump_clock):
    async def refuse(_context, _updater):
        await trio.sleep(0.5)
        raise ContentTypeNotSupportedError("No poems")

    async def refuse_late(_context, _updater):
        await trio.sleep(2)
        raise ContentTypeNotSupportedError("No poems")

    async with open_peer(ScriptedAgent(by_text={"ask": ask, "refuse": refuse, "refuse_late": refuse_late})) as peer:
        task = (await peer.send("ask")).result["task"]
        async with peer.stream(SEND, message("refuse", taskId=task["id"])) as stream:
            assert (await stream.reply()).code == -32005
        async with peer.stream(SEND, message("refuse_late", taskId=task["id"])) as stream:
            frames = await stream.frames()
        assert [frame.says for frame in frames] == ["INPUT_REQUIRED", "error -32005"]
        assert await peer.get(task["id"]) == task


@pytest.mark.requirement("S5-HEADERS", "S5-NO-ANSWER")
@within(5)
async def test_an_agent_that_says_nothing_is_a_plain_error(autojump_clock):
    async def agent(_context, _updater):
        pass

    async with open_peer(agent) as peer, peer.stream(SEND, message()) as stream:
        assert (await stream.reply()).code == -32006


@pytest.mark.requirement("S5-HEADERS")
@within(5)
async def test_a_store_that_fails_first_is_a_plain_error_and_later_an_error_in_the_stream(autojump_clock, caplog):
    store = FlakyStore(refuse=lambda _: True)
    agent = Stepped()
    async with open_peer(agent, store=store) as peer:
        async with peer.stream(SEND, message()) as stream:
            reply = await stream.reply()
            assert (reply.status, reply.code) == (200, -32603)
            assert reply.error["message"] == "The task could not be stored"
        store.refuse = None
        id_ = None
        async with peer.stream(SEND, message()) as stream:
            frames = [await stream.frame(), await stream.frame()]
            id_ = frames[0].result["task"]["id"]
            store.refuse = lambda _: True
            agent.say("lost", "lost too")
            assert (await stream.frame()).says == "error -32603"
            assert await stream.frame() is None
        store.refuse = None
        assert (await peer.get(id_))["status"]["state"] == "TASK_STATE_WORKING"


# --------------------------------------------------------------------------------------------------------- keep-alive


@within(60)
async def test_a_comment_comes_every_15_seconds_of_silence(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work()
        await trio.sleep(40)
        await updater.complete()

    async with open_peer(agent) as peer, peer.stream(SEND, message()) as stream:
        times = []
        while (frame := await stream.frame()) is not None:
            times.append((frame.says, round(trio.current_time(), 3)))
    begin = times[0][1]
    assert [(says, at - begin) for says, at in times] == [
        ("SUBMITTED", 0),
        ("WORKING", 0),
        (": keep-alive", 15),
        (": keep-alive", 30),
        ("COMPLETED", 40),
    ]


@within(60)
async def test_the_silence_that_is_bridged_is_the_limit_s(autojump_clock):
    async def agent(_context, updater):
        await trio.sleep(9)
        await updater.complete()

    limits = Limits(keep_alive=4, header_delay=2)
    before = trio.current_time()
    async with open_peer(agent, limits=limits) as peer, peer.stream(SEND, message()) as stream:
        assert trio.current_time() - before == 2
        assert [frame.says for frame in await stream.frames()] == [": keep-alive", "SUBMITTED", "COMPLETED"]


# ----------------------------------------------------------------------------------------------------- Last-Event-ID


@pytest.mark.requirement("S3-SEQUENCE", "S1-NO-LOSS")
@within(5)
async def test_a_reader_that_comes_back_gets_what_it_missed_without_gap_or_double(autojump_clock):
    agent = Stepped()
    async with open_peer(agent) as peer:
        id_ = await started(peer)
        seen = []
        async with peer.stream(SUBSCRIBE, {"id": id_}) as stream:
            agent.say(*"abc")
            while not seen or seen[-1] < 4:
                seen.append((await stream.frame()).id)
        agent.say(*"defg")
        await trio.testing.wait_all_tasks_blocked()
        async with peer.stream(SUBSCRIBE, {"id": id_}, {"last-event-id": str(seen[-1])}) as stream:
            seen.append((await stream.frame()).id)
            agent.say(*"hi")
            agent.complete()
            frames = await stream.frames()
            seen.extend(frame.id for frame in frames)
    assert seen == list(range(seen[0], 13))
    assert frames[-1].says == "COMPLETED"
    assert "task" not in [frame.says for frame in frames]


@within(5)
async def test_a_reader_that_has_missed_nothing_gets_only_what_is_new(autojump_clock):
    agent = Stepped()
    async with open_peer(agent) as peer:
        id_ = await started(peer)
        await trio.testing.wait_all_tasks_blocked()
        async with peer.stream(SUBSCRIBE, {"id": id_}, {"last-event-id": "2"}) as stream:
            agent.say("new")
            assert (await stream.frame()).id == 3


@pytest.mark.parametrize("value", ["99", "-1", "abc", "", "1.5", "9" * 40, "\xb2"])
@within(5)
async def test_a_number_that_is_not_known_or_none_brings_the_snapshot(autojump_clock, value):
    agent = Stepped()
    async with open_peer(agent) as peer:
        id_ = await started(peer)
        await trio.testing.wait_all_tasks_blocked()
        async with peer.stream(SUBSCRIBE, {"id": id_}, {"last-event-id": value}) as stream:
            frame = await stream.frame()
    assert "task" in frame.result
    assert frame.id == 2


@within(30)
async def test_a_task_that_has_ended_meanwhile_is_read_to_its_end_in_the_grace_period(autojump_clock):
    async with open_peer(echo) as peer:
        id_ = (await peer.send()).result["task"]["id"]
        async with peer.stream(SUBSCRIBE, {"id": id_}, {"last-event-id": "1"}) as stream:
            frames = await stream.frames()
        assert [frame.id for frame in frames] == list(range(2, 2 + len(frames)))
        assert frames[-1].result["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        last = str(frames[-1].id)
        async with peer.stream(SUBSCRIBE, {"id": id_}, {"last-event-id": last}) as stream:
            assert not await stream.frames()
        assert (await peer.call(SUBSCRIBE, {"id": id_}, {"last-event-id": "99"})).code == -32004
        await trio.sleep(15)
        assert (await peer.call(SUBSCRIBE, {"id": id_}, {"last-event-id": "1"})).code == -32004


# ------------------------------------------------------------------------------------------------------ how it may end


@pytest.mark.requirement("S5-RUN-OWN-SCOPE")
@within(5)
async def test_a_client_that_goes_away_ends_its_stream_and_nothing_else(autojump_clock, caplog):
    agent = Stepped()
    async with open_peer(agent) as peer:
        manager = peer.app._running.manager
        async with peer.stream(SEND, message()) as stream:
            id_ = (await stream.frame()).result["task"]["id"]
            async with peer.stream(SUBSCRIBE, {"id": id_}) as other:
                await other.frame()
                assert manager.active_subscriber_count(id_) == 2
            await trio.testing.wait_all_tasks_blocked()
            assert manager.active_subscriber_count(id_) == 1
        await trio.testing.wait_all_tasks_blocked()
        assert manager.active_subscriber_count(id_) == 0
        agent.say("nobody hears it")
        agent.complete()
        await trio.testing.wait_all_tasks_blocked()
        task = await peer.get(id_)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "nobody hears it"}]
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


@pytest.mark.requirement("S4-LAG-WIRE")
@within(30)
async def test_a_client_that_reads_too_slowly_is_told_to_subscribe_again(autojump_clock):
    """Its socket takes nothing for a while, and the agent is quick."""
    ours, theirs = trio.testing.memory_stream_pair()
    go_on, done = trio.Event(), trio.Event()
    deliver = theirs.send_stream.send_all_hook

    async def deliver_later() -> None:
        await go_on.wait()
        await deliver()

    theirs.send_stream.send_all_hook = deliver_later
    read = []

    async def agent(_context, updater):
        await updater.start_work()
        for number in range(3000):
            await updater.add_artifact(str(number), artifact_id="one")
        await updater.complete()
        done.set()

    async def reader() -> None:
        async with peer.stream(SEND, message()) as stream:
            read.extend(await stream.frames())

    async with open_peer(agent) as peer, trio.open_nursery() as nursery:
        peer.pair = lambda: (ours, theirs)
        nursery.start_soon(reader)
        await done.wait()
        go_on.set()
    assert read[-1].says == "error -32603"
    assert read[-1].data["error"]["data"][0]["metadata"] == {"retry": "subscribe"}
    numbers = [frame.id for frame in read[:-1]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 1000 <= len(numbers) < 3000


@within(5)
async def test_a_hook_that_closes_the_streams_ends_them_as_they_would_end_anyway(autojump_clock):
    agent = Stepped()
    async with open_peer(agent, hook=CloseStreamsHook(max_subscribers=3)) as peer:
        async with peer.stream(SEND, message()) as one:
            id_ = (await one.frame()).result["task"]["id"]
            async with peer.stream(SUBSCRIBE, {"id": id_}) as two, peer.stream(SUBSCRIBE, {"id": id_}) as three:
                for stream in (one, two, three):
                    assert (await stream.frames())[-1].says == "WORKING"
        async with peer.stream(SUBSCRIBE, {"id": id_}) as again:
            agent.complete()
            assert (await again.frames())[-1].says == "COMPLETED"


@within(5)
async def test_a_stream_that_a_hook_closes_before_there_is_a_task_is_empty_and_the_agent_goes_on(autojump_clock):
    async with open_peer(echo, hook=CloseStreamsHook(max_subscribers=1)) as peer:
        async with peer.stream(SEND, message()) as stream:
            assert stream.headers["content-type"] == "text/event-stream"
            assert await stream.frames() == []
        (row,) = peer.app._running.manager.store._rows
        assert (await peer.get(row))["status"]["state"] == "TASK_STATE_COMPLETED"


class Abort(NoOpHook):
    """Aborts the streams: at a subscription, in the midst of an event, or a second after one."""

    def __init__(self, at):
        self._at = at

    async def on_subscribe(self, task_id, handle):
        if self._at == "subscribe":
            await handle.abort_streams()

    async def on_event(self, task_id, event, handle):
        if type(event).__name__ == "TaskArtifactUpdateEvent":
            if self._at == "event":
                await handle.abort_streams()
            else:
                handle.start_soon(self._later, handle)

    async def _later(self, handle):
        await trio.sleep(1)
        await handle.abort_streams()


@within(5)
async def test_a_stream_that_a_hook_aborts_is_a_response_that_ends(autojump_clock, caplog):
    agent = Stepped()
    async with open_peer(agent, hook=Abort("later")) as peer, peer.stream(SEND, message()) as stream:
        frames = [await stream.frame(), await stream.frame()]
        id_ = frames[0].result["task"]["id"]
        async with peer.stream(SUBSCRIBE, {"id": id_}) as other:
            await other.frame()
            agent.say("the end")
            assert [frame.says for frame in await other.frames()] == ["artifactUpdate"]
        assert [frame.says for frame in await stream.frames()] == ["artifactUpdate"]
        assert (await peer.get(id_))["status"]["state"] == "TASK_STATE_WORKING"
        assert (await peer.call("GetTask", {"id": id_}, wire=stream.wire)).result["id"] == id_
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


@within(5)
async def test_a_stream_that_a_hook_aborts_in_the_midst_of_an_event_ends_without_it(autojump_clock, caplog):
    agent = Stepped()
    async with open_peer(agent, hook=Abort("event")) as peer, peer.stream(SEND, message()) as stream:
        frames = [await stream.frame(), await stream.frame()]
        agent.say("the end")
        assert await stream.frames() == []
        assert (await peer.get(frames[0].result["task"]["id"]))["artifacts"]
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


@within(5)
async def test_a_stream_that_a_hook_aborts_while_its_client_takes_nothing_is_cut_off(autojump_clock, caplog):
    ours, theirs = trio.testing.memory_stream_pair()
    deliver, taking = theirs.send_stream.send_all_hook, trio.Event()
    taking.set()

    async def deliver_when_taking() -> None:
        await taking.wait()
        await deliver()

    theirs.send_stream.send_all_hook = deliver_when_taking
    agent = Stepped()
    async with open_peer(agent, hook=Abort("later")) as peer:
        peer.pair = lambda: (ours, theirs)
        async with peer.stream(SEND, message()) as stream:
            await stream.frame()
            await stream.frame()
            taking = trio.Event()
            agent.say("stuck")
            await trio.sleep(2)
            await deliver()  # the end of file, behind what was held back
            with pytest.raises(CutOffError):
                await stream.frames()
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


@within(5)
async def test_a_stream_that_a_hook_aborts_before_it_has_begun_is_a_plain_error(autojump_clock, caplog):
    async with open_peer(Stepped(), hook=Abort("subscribe")) as peer:
        id_ = await started(peer)
        reply = await peer.call(SUBSCRIBE, {"id": id_})
        assert (reply.status, reply.code) == (200, -32603)
        assert reply.info["metadata"] == {"retry": "subscribe"}
        assert (await peer.call(SEND, message())).code == -32603
    assert not [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


@pytest.mark.requirement("S4-SHUTDOWN")
@within(20)
async def test_streams_end_when_the_application_ends(autojump_clock):
    async with trio.open_nursery() as nursery:
        app = make_app(Stepped())
        async with app.running():
            peer = Peer(app, nursery)
            cm = peer.stream(SEND, message())
            stream = await cm.__aenter__()
            assert (await stream.frame()).says == "SUBMITTED"
            assert (await stream.frame()).says == "WORKING"
        assert await stream.frames() == []
        await cm.__aexit__(None, None, None)
        nursery.cancel_scope.cancel()


# ------------------------------------------------------------------------------------------------------------- encoding


@pytest.mark.requirement("S3-ENCODED-ONCE")
@within(20)
async def test_an_event_is_encoded_once_for_fifty_readers(autojump_clock, monkeypatch):
    agent = Stepped()
    encoded = []
    encode = jsonrpc.encode_event

    def counted(event):
        encoded.append(type(event).__name__)
        return encode(event)

    monkeypatch.setattr(jsonrpc, "encode_event", counted)
    async with open_peer(agent) as peer, trio.open_nursery() as nursery:
        id_ = await started(peer)
        await trio.testing.wait_all_tasks_blocked()
        results = []

        async def read() -> None:
            async with peer.stream(SUBSCRIBE, {"id": id_}) as stream:
                results.append([frame.id for frame in await stream.frames()])

        for _ in range(50):
            nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        agent.say(*map(str, range(100)))
        agent.complete()
    assert results == [list(range(2, 104))] * 50
    assert encoded.count("Task") == 50  # a snapshot is each reader's own
    assert encoded.count("TaskArtifactUpdateEvent") == 100
    assert encoded.count("TaskStatusUpdateEvent") == 1


@within(5)
async def test_an_event_that_cannot_be_encoded_is_an_internal_error_in_the_stream_and_in_the_log(
    autojump_clock, caplog, monkeypatch
):
    """It cannot come up to here, since `enqueue` refuses it; but a bug must not leave a client without an end."""
    agent = Stepped()
    encoded = Envelope.encoded

    def fail(self, encoder):
        if type(self.event).__name__ == "TaskArtifactUpdateEvent":
            raise TypeError("swordfish")
        return encoded(self, encoder)

    monkeypatch.setattr(Envelope, "encoded", fail)
    async with open_peer(agent) as peer, peer.stream(SEND, message()) as stream:
        await stream.frame()
        await stream.frame()
        agent.say("x")
        frame = await stream.frame()
        assert frame.says == "error -32603"
        assert frame.data["error"]["message"] == "Internal error"
        assert await stream.frame() is None
    assert "swordfish" in caplog.text


@within(5)
async def test_a_line_separator_in_the_id_is_escaped_too(autojump_clock):
    async with open_peer(echo) as peer, peer.stream(SEND, message(), id="a\u2028b") as stream:
        # A raw separator would fail the reader here, which compares two ways to split lines.
        frames = await stream.frames()
    assert {frame.data["id"] for frame in frames} == {"a\u2028b"}
