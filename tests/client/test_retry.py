"""Repeating calls, on a mock clock and without a network."""

import math

import pytest
import trio

from tests.client.scripted import CARD, ScriptedTransport, client_of
from tests.deadline import within
from trio_a2a.client import (
    CallTimeoutError,
    Client,
    ClientTransport,
    ConnectionFailedError,
    ConnectionLostError,
    HttpStatusError,
    Interceptor,
    InvalidResponseError,
)
from trio_a2a.client.backoff import FIRST_DELAY, MAX_DELAY, MAX_RETRY_AFTER, backoff
from trio_a2a.client.fallback import FallbackTransport
from trio_a2a.client.retry import MAX_ATTEMPTS
from trio_a2a.errors import InternalError, RateLimitedError, TaskNotFoundError, UnavailableError
from trio_a2a.types import Message, SendMessageResponse, Task, TaskState, TaskStatus

TASK = Task(id="t", status=TaskStatus(state=TaskState.WORKING))
REPLY = SendMessageResponse.of(Message.agent("hi"))
FAILED, LOST = ConnectionFailedError("refused"), ConnectionLostError("cut")


def test_waits_double_up_to_a_bound_and_are_spread():
    for attempt in (1, 2, 3, 8, 9, 100, 10_000):
        longest = min(MAX_DELAY, FIRST_DELAY * 2 ** min(attempt - 1, 20))
        waits = [backoff(attempt) for _ in range(200)]
        assert longest / 2 <= min(waits) <= max(waits) <= longest
        assert max(waits) - min(waits) > longest / 8


def test_a_server_may_ask_for_more_within_reason():
    assert backoff(1, 5) == 5
    assert backoff(1, 1_000_000) == MAX_RETRY_AFTER
    assert backoff(9, 0) >= 5


@within(1000)
@pytest.mark.parametrize("failure", [FAILED, LOST, HttpStatusError(502), UnavailableError(), RateLimitedError()])
async def test_a_call_that_changes_nothing_is_repeated(autojump_clock, failure):
    transport = ScriptedTransport(answers=[failure, failure, TASK])
    assert await client_of(transport).get_task("t") == TASK
    waits = [later - earlier for earlier, later in zip(transport.times, transport.times[1:], strict=False)]
    assert FIRST_DELAY / 2 <= waits[0] <= FIRST_DELAY <= waits[1] <= 2 * FIRST_DELAY


@within(1000)
async def test_it_is_not_repeated_for_ever(autojump_clock):
    transport = ScriptedTransport(answers=[LOST])
    with pytest.raises(ConnectionLostError):
        await client_of(transport).get_task("t")
    assert len(transport.calls) == MAX_ATTEMPTS


@within(1000)
@pytest.mark.parametrize("failure", [LOST, HttpStatusError(502), UnavailableError(), RateLimitedError()])
async def test_a_call_that_may_have_been_heard_is_not_repeated(autojump_clock, failure):
    transport = ScriptedTransport(answers=[failure, REPLY])
    with pytest.raises(type(failure)):
        await client_of(transport).send("x")
    assert len(transport.calls) == 1


@within(1000)
async def test_a_call_that_never_left_is_repeated_and_says_the_same(autojump_clock):
    transport = ScriptedTransport(answers=[FAILED, REPLY])
    assert (await client_of(transport).send("x")).text() == "hi"
    first, second = (call.request for call, _ in transport.calls)
    assert first == second


@within(1000)
@pytest.mark.parametrize(
    "failure",
    [TaskNotFoundError(), InternalError(), InvalidResponseError("no"), HttpStatusError(404), HttpStatusError(302)],
)
async def test_an_answer_is_an_answer(autojump_clock, failure):
    transport = ScriptedTransport(answers=[failure, TASK])
    with pytest.raises(type(failure)):
        await client_of(transport).get_task("t")
    assert len(transport.calls) == 1


@within(1000)
async def test_repetitions_are_within_the_time_of_the_call(autojump_clock):
    transport = ScriptedTransport(answers=[UnavailableError(retry_after=50)])
    with pytest.raises(CallTimeoutError):
        await client_of(transport, timeout=30).get_task("t")
    assert trio.current_time() - transport.times[0] == pytest.approx(30)


@within(100_000)
async def test_a_call_has_the_client_s_time_its_own_or_any(autojump_clock):
    class Slow(ScriptedTransport):
        async def call(self, call):
            await trio.sleep(500)
            return TASK

    started = trio.current_time()
    with pytest.raises(CallTimeoutError):
        await client_of(Slow()).get_task("t")
    assert trio.current_time() - started == pytest.approx(60)
    with pytest.raises(CallTimeoutError):
        await client_of(Slow(), timeout=None).get_task("t", timeout=5)
    assert await client_of(Slow(), timeout=None).get_task("t") == TASK
    assert await client_of(Slow()).get_task("t", timeout=math.inf) == TASK


@within(1000)
async def test_a_caller_s_own_deadline_is_its_own(autojump_clock):
    class Stuck(ScriptedTransport):
        async def call(self, call):
            await trio.sleep_forever()

    with trio.move_on_after(3) as scope:
        await client_of(Stuck()).get_task("t")
    assert scope.cancelled_caught


@within(1000)
async def test_a_fallback_stays_with_the_interface_that_answered(autojump_clock):
    dead, good = ScriptedTransport([], answers=[FAILED]), ScriptedTransport([], answers=[TASK])
    transport = FallbackTransport([dead, good])
    assert isinstance(transport, ClientTransport)
    client = Client(CARD, transport)
    for _ in range(3):
        assert await client.get_task("t") == TASK
    assert (len(dead.calls), len(good.calls)) == (1, 3)
    good.answers.appendleft(LOST)
    dead.answers.append(TASK)
    with pytest.raises(ConnectionLostError):
        await client.cancel_task("t")  # it may have been heard: not said to another


@within(1000)
async def test_an_interceptor_that_fails_behind_a_stream_leaves_no_connection(autojump_clock):
    class Broken(Interceptor):
        async def after(self, call, result, error):
            raise ValueError("no")

    transport = ScriptedTransport([])
    with pytest.raises(ValueError, match="no"):
        async with client_of(transport, interceptors=[Broken()]).stream("x"):
            pass
    assert transport.sources[0].closed
