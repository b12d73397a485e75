"""The bounds on streams, on waiting messages and on requests, at and past each edge, over both HTTP bindings."""

import json
import math

import attrs
import pytest
import trio
import trio.testing

from tests.deadline import within
from tests.server.bindings import JSONRPC, both_bindings, open_caller
from tests.server.peer import JSON, VERSION, request_bytes
from trio_a2a.server import BearerTokenAuthenticator, Limits

SEND, STREAM, SUBSCRIBE = "SendMessage", "SendStreamingMessage", "SubscribeToTask"
AUTH = BearerTokenAuthenticator({"a": "ann", "b": "bob"})


async def ask(_context, updater):
    await updater.require_input("what?")


async def work(_context, updater):
    await updater.start_work()
    await trio.sleep_forever()


def params(text="hello", *, configuration=None, **members):
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **members}
    return {"message": message, **({} if configuration is None else {"configuration": configuration})}


async def new_task(caller) -> str:
    answer = await caller.call(SEND, params(configuration={"returnImmediately": True}))
    return answer.result["task"]["id"]


def refused(answer) -> bool:
    """Whether it is the refusal of a rate limit, said at the HTTP level with when to come back."""
    if answer.status != 429:
        return False
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["content-type"] == "application/json"
    assert answer.error["message"]
    if "jsonrpc" not in answer.reply.json:
        assert (answer.error["code"], answer.error["status"]) == (429, "RESOURCE_EXHAUSTED")
    return True


# -------------------------------------------------------------------------------------------------- streams of one task


@pytest.mark.requirement("C-067", "C-233")
@both_bindings
@within(5)
async def test_a_task_has_so_many_streams_and_no_more(autojump_clock, binding):
    async with open_caller(binding, work, limits=Limits(streams_per_task=3)) as caller:
        id_ = await new_task(caller)
        other = await new_task(caller)
        async with caller.stream(SUBSCRIBE, {"id": id_}) as first:
            await first.next()
            async with caller.stream(SUBSCRIBE, {"id": id_}), caller.stream(STREAM, params(taskId=id_)):
                for operation, request in [(SUBSCRIBE, {"id": id_}), (STREAM, params(taskId=id_))]:
                    assert refused(await caller.call(operation, request))
                async with caller.stream(SUBSCRIBE, {"id": other}) as of_another:
                    await of_another.next()
                assert (await caller.call("GetTask", {"id": id_})).result["id"] == id_
            await trio.testing.wait_all_tasks_blocked()
            async with caller.stream(SUBSCRIBE, {"id": id_}) as again:
                assert (await again.next()).says == "WORKING"


@both_bindings
@within(5)
async def test_the_stream_that_made_a_task_is_one_of_its_streams(autojump_clock, binding):
    async with open_caller(binding, work, limits=Limits(streams_per_task=2)) as caller:
        async with caller.stream(STREAM, params()) as first:
            id_ = (await first.next()).value["task"]["id"]
            async with caller.stream(SUBSCRIBE, {"id": id_}) as second:
                await second.next()
                assert refused(await caller.call(SUBSCRIBE, {"id": id_}))
        await trio.testing.wait_all_tasks_blocked()
        assert caller.manager.active_subscriber_count(id_) == 0


@both_bindings
@within(10)
async def test_a_stream_that_is_refused_or_ends_in_any_way_gives_its_place_back(autojump_clock, binding):
    async def agent(context, updater):
        match context.text():
            case "refuse":
                raise ValueError
            case "reply":
                await updater.reply("hi")
            case "complete":
                await updater.complete()
            case "ask":
                await updater.require_input()

    limits = Limits(streams_per_task=1, streams_per_principal=1)
    async with open_caller(binding, agent, limits=limits, authenticator=AUTH) as caller:
        ann = caller.speaking_for("a")
        for text in ("refuse", "reply", "complete", "nothing", "ask"):
            for _ in range(3):
                async with ann.stream(STREAM, params(text)) as events:
                    if events.is_stream:
                        await events.rest()
                    else:
                        assert not refused(await events.answer())
                await trio.testing.wait_all_tasks_blocked()
        slots = caller.peer.app._running.operations._slots
        assert not slots._of_task
        assert not slots._of_principal


# ----------------------------------------------------------------------------------------------- streams of a principal


@both_bindings
@within(5)
async def test_a_principal_has_so_many_streams_over_all_tasks(autojump_clock, binding):
    limits = Limits(streams_per_principal=2)
    async with open_caller(binding, work, limits=limits, authenticator=AUTH) as caller:
        ann, bob = caller.speaking_for("a"), caller.speaking_for("b")
        ids = [await new_task(ann), await new_task(ann)]
        bobs = await new_task(bob)
        async with ann.stream(SUBSCRIBE, {"id": ids[0]}), ann.stream(STREAM, params()) as second:
            await second.next()
            for operation, request in [
                (SUBSCRIBE, {"id": ids[1]}),
                (STREAM, params()),
                (STREAM, params(taskId=ids[0])),
            ]:
                assert refused(await ann.call(operation, request))
            async with bob.stream(SUBSCRIBE, {"id": bobs}) as events:
                await events.next()
        await trio.testing.wait_all_tasks_blocked()
        async with ann.stream(SUBSCRIBE, {"id": ids[1]}) as events:
            await events.next()
        assert (await ann.call("ListTasks")).result["totalSize"] == 3  # a refused stream has made no task


@both_bindings
@within(5)
async def test_the_anonymous_principal_is_everybody_and_has_no_such_bound(autojump_clock, binding):
    async with (
        open_caller(binding, work, limits=Limits(streams_per_principal=1)) as caller,
        caller.stream(STREAM, params()) as one,
        caller.stream(STREAM, params()) as two,
    ):
        assert [(await events.next()).says for events in (one, two)] == ["SUBMITTED"] * 2


# ----------------------------------------------------------------------------------------------------- waiting messages


class Turns:
    """Handles the messages of one task when it is told to, and notes their order."""

    def __init__(self):
        self.handled = []
        self.gate = trio.Semaphore(0)

    async def execute(self, context, updater):
        text = context.text()
        if context.task is None:
            await updater.require_input("first")
            return
        await updater.start_work(f"working on {text}")
        await self.gate.acquire()
        self.handled.append(text)
        if text == "finish":
            await updater.complete(f"answer to {text}")
        elif text == "auth":
            await updater.require_auth(f"answer to {text}")
        else:
            await updater.require_input(f"answer to {text}")


@pytest.mark.requirement("C-233")
@both_bindings
@within(5)
async def test_so_many_messages_wait_behind_the_one_that_is_handled_and_are_handled_in_their_order(
    autojump_clock, binding
):
    agent = Turns()
    async with open_caller(binding, agent, limits=Limits(queued_sends=3)) as caller:
        id_ = await new_task(caller)
        other = await new_task(caller)
        answers = {}

        async def send(text):
            answers[text] = await caller.call(SEND, params(text, taskId=id_))

        async with trio.open_nursery() as nursery:
            for text in "abcd":  # one that is handled, and three that wait
                nursery.start_soon(send, text)
                await trio.testing.wait_all_tasks_blocked()
            for operation in (SEND, STREAM):
                assert refused(await caller.call(operation, params("e", taskId=id_)))
            not_waiting = params("e", taskId=id_, configuration={"returnImmediately": True})
            assert refused(await caller.call(SEND, not_waiting))
            assert not answers
            # Another task is not concerned, and neither is reading this one.
            agent.gate.release()
            await trio.testing.wait_all_tasks_blocked()
            assert list(answers) == ["a"]
            nursery.start_soon(send, "f")  # there is one place now
            await trio.testing.wait_all_tasks_blocked()
            assert refused(await caller.call(SEND, params("g", taskId=id_)))
            for _ in range(5):
                agent.gate.release()
            await caller.call(SEND, params("x", taskId=other))
        assert [text for text in agent.handled if text != "x"] == list("abcdf")
        for text in "abcdf":
            status = answers[text].result["task"]["status"]
            assert status["message"]["parts"] == [{"text": f"answer to {text}"}]
        history = (await caller.call("GetTask", {"id": id_})).result["history"]
        assert [m["parts"][0]["text"] for m in history if m["role"] == "ROLE_USER"] == ["hello", *"abcdf"]


@pytest.mark.requirement("C-053", "S5-RUN-FIFO")
@both_bindings
@within(5)
async def test_the_answer_to_a_follow_up_is_its_own_outcome_although_the_task_waits_for_input_already(
    autojump_clock, binding
):
    agent = Turns()
    async with open_caller(binding, agent) as caller:
        id_ = await new_task(caller)
        answers = {}

        async def send(text, delay):
            await trio.sleep(delay)
            answers[text] = (await caller.call(SEND, params(text, taskId=id_))), trio.current_time()

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for place, text in enumerate(["one", "auth", "three", "finish", "too late"]):
                nursery.start_soon(send, text, place / 10)
            for _ in range(5):
                await trio.sleep(0.8)
                agent.gate.release()
    outcomes = {text: answer for text, (answer, _) in answers.items()}
    times = [round(at - began, 1) for _, at in answers.values()]
    assert times == [0.8, 1.6, 2.4, 3.2, 3.2]
    for text, state in [
        ("one", "INPUT_REQUIRED"),
        ("auth", "AUTH_REQUIRED"),
        ("three", "INPUT_REQUIRED"),
        ("finish", "COMPLETED"),
    ]:
        status = outcomes[text].result["task"]["status"]
        assert (status["state"], status["message"]["parts"][0]["text"]) == (
            f"TASK_STATE_{state}",
            f"answer to {text}",
        )
    assert outcomes["too late"].reason == "UNSUPPORTED_OPERATION"


@pytest.mark.requirement("S5-STREAM-END")
@both_bindings
@within(5)
async def test_each_stream_of_a_follow_up_ends_with_its_own_run(autojump_clock, binding):
    agent = Turns()
    async with open_caller(binding, agent) as caller:
        id_ = await new_task(caller)
        heard = {}

        async def send(text):
            async with caller.stream(STREAM, params(text, taskId=id_)) as events:
                heard[text] = [event.says for event in await events.rest()]

        async with trio.open_nursery() as nursery:
            for text in "ab":
                nursery.start_soon(send, text)
                await trio.testing.wait_all_tasks_blocked()
            agent.gate.release()
            await trio.testing.wait_all_tasks_blocked()
            assert list(heard) == ["a"]
            agent.gate.release()
    assert heard == {text: ["INPUT_REQUIRED", "WORKING", "INPUT_REQUIRED"] for text in "ab"}


@pytest.mark.requirement("S5-RUN-OWN-SCOPE")
@both_bindings
@within(5)
async def test_a_caller_that_leaves_keeps_the_place_of_its_message(autojump_clock, binding):
    """The message was accepted, so the agent gets it."""
    agent = Turns()
    async with open_caller(binding, agent, limits=Limits(queued_sends=1)) as caller:
        id_ = await new_task(caller)
        wires = []
        for text in "ab":
            wires.append(caller.peer.connect())
            await wires[-1].stream.send_all(caller.request(SEND, params(text, taskId=id_)))
            await trio.testing.wait_all_tasks_blocked()
        for wire in wires:
            await trio.aclose_forcefully(wire.stream)
        await trio.testing.wait_all_tasks_blocked()
        assert refused(await caller.call(SEND, params("c", taskId=id_)))
        for _ in range(2):
            agent.gate.release()
        await trio.testing.wait_all_tasks_blocked()
        assert agent.handled == ["a", "b"]


# ------------------------------------------------------------------------------------------------------ age and silence


@both_bindings
@pytest.mark.parametrize("operation", [STREAM, SUBSCRIBE])
@within(100)
async def test_a_stream_ends_in_order_at_its_age_and_may_be_taken_up_again(autojump_clock, binding, operation):
    async with open_caller(binding, work, limits=Limits(stream_age=40)) as caller:
        id_ = await new_task(caller)
        request = params(taskId=id_) if operation == STREAM else {"id": id_}
        began = trio.current_time()
        async with caller.stream(operation, request) as events:
            heard = [event.says for event in await events.rest()]
        # The headers of the waiting follow-up go out after a second.
        assert trio.current_time() - began == (41 if operation == STREAM else 40)
        assert heard.count(": keep-alive") == 2
        assert "error" not in "".join(heard)
        assert caller.manager.active_subscriber_count(id_) == 0
        async with caller.stream(SUBSCRIBE, {"id": id_}) as events:
            assert (await events.next()).says == "WORKING"


@both_bindings
@within(200)
async def test_a_silent_stream_says_every_15_seconds_that_it_is_alive(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.start_work()
        for _ in range(2):
            await trio.sleep(40)
            await updater.add_artifact("x")
        await updater.complete()

    async with open_caller(binding, agent) as caller, caller.stream(STREAM, params()) as events:
        heard = [event.says for event in await events.rest()]
    alive = [": keep-alive"] * 2
    assert heard == ["SUBMITTED", "WORKING", *alive, "artifactUpdate", *alive, "artifactUpdate", "COMPLETED"]


# --------------------------------------------------------------------------------------------------------- the requests


@both_bindings
@within(5)
async def test_a_message_has_so_many_parts_and_no_more(autojump_clock, binding):
    async with open_caller(binding, ask, limits=Limits(max_parts=3)) as caller:
        for operation in (SEND, STREAM):
            within_bounds = params(parts=[{"text": "x"}] * 3)
            async with caller.stream(operation, within_bounds) as events:
                assert events.stream.status == 200
            answer = await caller.call(operation, params(parts=[{"text": "x"}] * 4))
            assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", ["message.parts"])
        assert (await caller.call("ListTasks")).result["totalSize"] == 2


@both_bindings
@within(5)
async def test_a_message_refers_to_so_many_tasks_and_no_more(autojump_clock, binding):
    """Each is looked up in the store."""
    async with open_caller(binding, ask, limits=Limits(max_parts=3)) as caller:
        assert (await caller.call(SEND, params(referenceTaskIds=["x", "y", "z"]))).result["task"]
        answer = await caller.call(SEND, params(referenceTaskIds=["x"] * 4))
        assert (answer.reason, list(answer.fields)) == ("INVALID_PARAMS", ["message.referenceTaskIds"])


@both_bindings
@within(5)
async def test_a_request_is_nested_so_deep_and_no_deeper(autojump_clock, binding):
    """In JSON-RPC the levels of the request around the params count too."""
    around = 1 if binding == JSONRPC else 0
    async with open_caller(binding, ask, limits=Limits(max_json_depth=20)) as caller:

        def nested(levels):
            # In the metadata: below the params, the message and the metadata themselves.
            value = 1
            for _ in range(levels - 3 - around):
                value = {"a": value}
            return params(metadata={"a": value})

        for operation in (SEND, STREAM):
            async with caller.stream(operation, nested(20)) as events:
                assert events.stream.status == 200
                assert events.is_stream or (await events.answer()).error is None
            for levels in (21, 90, 500):
                answer = await caller.call(operation, nested(levels))
                assert answer.reason == "INVALID_REQUEST", levels
                assert answer.error["code"] == (-32600 if binding == JSONRPC else 400)


@both_bindings
@pytest.mark.parametrize("levels", [1025, 5000, 200_000])
@within(5)
async def test_what_is_nested_deeper_than_a_parser_goes_is_refused_alike(autojump_clock, binding, levels):
    async with open_caller(binding, ask) as caller:
        deep = b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": ' + b"[" * levels + b"]" * levels + b"}"
        path = "/" if binding == JSONRPC else "/message:send"
        answer = await caller.raw(request_bytes("POST", path, {**JSON, **VERSION}, deep))
    assert answer.reason == "INVALID_REQUEST"
    assert answer.status == (200 if binding == JSONRPC else 400)


@both_bindings
@within(5)
async def test_metadata_as_deep_as_the_default_allows_come_back(autojump_clock, binding):
    async def agent(context, updater):
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        value = 1
        for _ in range(95):
            value = [value]
        answer = await caller.call(SEND, params(metadata={"a": value}))
        assert answer.result["task"]["history"][0]["metadata"] == {"a": value}


@both_bindings
@pytest.mark.parametrize("announced", [True, False], ids=["announced", "chunked"])
@within(5)
async def test_a_body_is_so_large_and_no_larger(autojump_clock, binding, announced):
    async with open_caller(binding, ask, limits=Limits(max_body=1000)) as caller:
        path = "/" if binding == JSONRPC else "/message:send"

        async def post(size):
            empty = params("")
            if binding == JSONRPC:
                empty = {"jsonrpc": "2.0", "id": 1, "method": SEND, "params": empty}
            body = json.dumps(empty).encode()
            body = body.replace(b'"text": ""', b'"text": "%b"' % (b"x" * (size - len(body))))
            assert len(body) == size
            if announced:
                return await caller.raw(request_bytes("POST", path, {**JSON, **VERSION}, body))
            head = request_bytes("POST", path, {**JSON, **VERSION, "transfer-encoding": "chunked"}, b"")
            head = head.replace(b"content-length: 0\r\n", b"")
            return await caller.raw(head + b"%x\r\n%b\r\n0\r\n\r\n" % (size, body))

        assert (await post(1000)).result["task"]
        answer = await post(1001)
        assert answer.status == 413
        assert answer.reason == "INVALID_REQUEST"
        assert answer.error["code"] == (-32600 if binding == JSONRPC else 413)
        assert answer.headers["connection"] == "close"
        assert (await caller.call("ListTasks")).result["totalSize"] == 1


# -------------------------------------------------------------------------------------------------- history in a stream


@pytest.mark.requirement("C-046", "C-047")
@both_bindings
@within(5)
async def test_the_task_that_a_stream_begins_with_shows_as_much_history_as_was_asked_for(autojump_clock, binding):
    async with open_caller(binding, ask) as caller:
        id_ = await new_task(caller)
        for length, texts in [(None, ["hello", "what?", "again"]), (0, []), (1, ["again"]), (9, None)]:
            configuration = {} if length is None else {"historyLength": length}
            async with caller.stream(STREAM, params("again", taskId=id_, configuration=configuration)) as events:
                task = (await events.next()).value["task"]
                shown = [message["parts"][0]["text"] for message in task.get("history", ())]
            if length is None:
                # The message of the follow-up travels with the agent's first report.
                assert shown == texts[:1]
            elif texts is not None:
                assert len(shown) == length
            assert ("history" in task) is (length != 0)


# ------------------------------------------------------------------------------------------------------------- defaults


@pytest.mark.requirement("S5-LIMITS")
def test_each_bound_has_the_default_that_the_documentation_gives():
    limits = Limits()
    assert (limits.max_json_depth, limits.max_parts) == (100, 1000)
    assert (limits.streams_per_task, limits.streams_per_principal, limits.queued_sends) == (1000, 100, 100)
    assert (limits.stream_age, limits.replay_events) == (86400.0, 1000)


@pytest.mark.parametrize(
    "name",
    ["max_json_depth", "max_parts", "streams_per_task", "streams_per_principal", "queued_sends", "stream_age"],
)
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_a_bound_that_would_let_nothing_through_is_refused(name, value):
    with pytest.raises((ValueError, TypeError), match=name):  # NaN is no count
        Limits(**{name: value})


def test_a_stream_may_last_for_ever_and_nothing_may_be_replayed():
    limits = attrs.evolve(Limits(), stream_age=None, replay_events=0)
    assert (limits.stream_age, limits.replay_events) == (None, 0)
    with pytest.raises(ValueError, match="replay_events"):
        Limits(replay_events=-1)
