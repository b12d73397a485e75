"""Streams over bad networks: every event once, in order, to the end."""

import random

import attrs
import pytest
import trio

from tests.client.peers import both_bindings, open_agent
from tests.client.proxy import open_proxy
from tests.deadline import within
from trio_a2a.client import ConnectionLostError, StreamInterruptedError, connect
from trio_a2a.server import Limits
from trio_a2a.streams.hooks import CloseStreamsHook
from trio_a2a.testing import ScriptedAgent, Step, serve_in_memory
from trio_a2a.types import AgentInterface, Message, Task, TaskArtifactUpdateEvent, TaskState


class Counter:
    """Says numbers as chunks of one artifact, at a rate, and completes; or asks for more."""

    def __init__(self, count, *, pause=0.0, batch=20, ask=False):
        self.count, self.pause, self.batch, self.ask = count, pause, batch, ask

    async def execute(self, _context, updater):
        for number in range(self.count):
            await updater.add_artifact(f"{number}", artifact_id="numbers", append=number > 0)
            if self.pause and number % self.batch == 0:
                await trio.sleep(self.pause)
        await (updater.require_input("more?") if self.ask else updater.complete("done"))


def numbers(events):
    return [int(event.artifact.text()) for event in events if isinstance(event, TaskArtifactUpdateEvent)]


async def through(proxy, url, binding, **options):
    """Return a card that leads through the proxy."""
    async with connect(url, transports=(binding,)) as client:
        card = client.card
    return attrs.evolve(
        card,
        supported_interfaces=[AgentInterface(url=proxy.url, protocol_binding=binding, protocol_version="1.0")],
    )


async def collected(events):
    return [event async for event in events]


@pytest.mark.requirement("S6-RESUME")
@pytest.mark.parametrize("manner", ["drop", "reset"])
@both_bindings
@within(60)
async def test_a_stream_that_is_cut_many_times_arrives_complete_in_order_and_once(binding, manner):
    """At bytes that nobody chose: within a frame, between two, within the headers."""
    choice = random.Random(7)
    cuts = [choice.randrange(200, 60_000) for _ in range(40)]
    await counted(binding, manner, Counter(3000, pause=0.02), cuts)


@pytest.mark.requirement("S6-RESUME")
@within(60)
async def test_ten_thousand_events_at_two_thousand_a_second_cut_fifty_times_arrive_complete_in_order_and_once():
    choice = random.Random(3)
    cuts = [choice.randrange(2_000, 100_000) for _ in range(50)]
    await counted("JSONRPC", "drop", Counter(10_000, pause=0.01), cuts)


async def counted(binding, manner, agent, cuts):
    async with (
        open_agent(agent) as url,
        open_proxy(url, limits=cuts, manner=manner) as proxy,
        connect(await through(proxy, url, binding)) as client,
        client.stream("count") as events,
    ):
        seen = await collected(events)
    # A connection that is cut within the head of its answer was none.
    assert 20 < events.resumed <= len(cuts)
    assert not events.gap
    assert numbers(seen) == list(range(agent.count))
    assert isinstance(seen[0], Task)
    assert sum(isinstance(event, Task) for event in seen) == 1
    assert seen[-1].status.state is TaskState.COMPLETED
    assert events.task.artifacts[0].text("") == "".join(map(str, range(agent.count)))
    assert events.last_sequence == agent.count + 2


@both_bindings
@within(20)
async def test_a_stream_that_falls_silent_is_taken_up_again(binding):
    agent = Counter(50, pause=0.01, batch=5)
    async with (
        open_agent(agent) as url,
        open_proxy(url, limits=[4000, 5000], manner="stall") as proxy,
        connect(await through(proxy, url, binding), silence=0.3) as client,
        client.stream("count") as events,
    ):
        seen = await collected(events)
    assert numbers(seen) == list(range(50))
    assert events.resumed == 2


@both_bindings
@within(500)
async def test_a_server_s_comments_keep_a_quiet_stream_alive(autojump_clock, binding):
    agent = ScriptedAgent(Step.work(), Step.sleep(100), Step.complete())
    async with (
        serve_in_memory(agent, transports=(binding,), silence=16) as client,  # a comment comes every 15 seconds
        client.stream("x") as events,
    ):
        seen = [event async for event in events]
    assert events.resumed == 0
    assert seen[-1].status.state is TaskState.COMPLETED
    assert trio.current_time() >= 100


@both_bindings
@within(20)
async def test_a_subscription_is_resumed_too(binding):
    agent = Counter(300, pause=0.01)
    async with (
        open_agent(agent) as url,
        open_proxy(url, limits=[20_000, 20_000]) as proxy,
        connect(await through(proxy, url, binding)) as client,
    ):
        task = await client.send("count", return_immediately=True)
        async with client.subscribe(task.id) as events:
            seen = await collected(events)
    first = sum(len(artifact.parts) for artifact in seen[0].artifacts)
    assert numbers(seen) == list(range(first, 300))
    assert events.resumed


@both_bindings
@within(20)
async def test_where_events_are_no_longer_held_a_task_takes_their_place_and_the_reader_is_told(binding):
    limits = Limits(replay_events=0)
    agent = Counter(400, pause=0.01)
    async with (
        open_agent(agent, limits=limits) as url,
        open_proxy(url, limits=[20_000]) as proxy,
        connect(await through(proxy, url, binding)) as client,
        client.stream("count") as events,
    ):
        seen = await collected(events)
    assert events.gap
    assert events.resumed == 1
    assert events.task.artifacts[0].text("") == "".join(map(str, range(400)))
    (place,) = [event for event in seen[1:] if isinstance(event, Task)]
    assert numbers(seen) == sorted(set(numbers(seen)))
    assert place.status.state in {TaskState.SUBMITTED, TaskState.WORKING, TaskState.COMPLETED}


@both_bindings
@within(20)
async def test_a_task_that_ended_while_the_stream_was_cut_is_told_to_its_end(binding):
    """The replay of a finished task, or what it has become: here the latter, since nothing is held."""
    gate = trio.Event()

    async def agent(_context, updater):
        await updater.start_work("x" * 3000)
        await gate.wait()
        await updater.complete("done")

    async with (
        open_agent(agent, limits=Limits(replay_events=0)) as url,
        open_proxy(url, limits=[3000]) as proxy,
        connect(await through(proxy, url, binding)) as client,
        client.stream("count") as events,
    ):
        first = await anext(events)
        gate.set()
        async with connect(url, transports=(binding,)) as other:
            while not (await other.get_task(first.id)).status.state.is_final:  # noqa: ASYNC110 - over sockets
                await trio.sleep(0.01)
        rest = await collected(events)
    assert events.task.status.state is TaskState.COMPLETED
    assert rest


@both_bindings
@within(20)
async def test_a_turn_that_ends_in_a_question_ends_a_stream_that_was_resumed(binding):
    agent = Counter(200, pause=0.01, ask=True)
    async with (
        open_agent(agent) as url,
        open_proxy(url, limits=[20_000]) as proxy,
        connect(await through(proxy, url, binding)) as client,
    ):
        async with client.stream("count") as events:
            seen = await collected(events)
        assert events.resumed == 1
        assert numbers(seen) == list(range(200))
        assert seen[-1].status.state is TaskState.INPUT_REQUIRED
        proxy.limits = iter([20_000])
        agent.ask = False
        # The task waits for input when the message sets out: that is not the end of this turn.
        async with client.stream("again", task_id=events.task.id) as more:
            seen = await collected(more)
        assert numbers(seen) == list(range(200))
        assert seen[-1].status.state is TaskState.COMPLETED


@both_bindings
@within(20)
async def test_without_resuming_a_broken_stream_raises(binding):
    async with (
        open_agent(Counter(1000, pause=0.01)) as url,
        open_proxy(url, limits=[20_000]) as proxy,
        connect(await through(proxy, url, binding)) as client,
        client.stream("x", resume=False) as events,
    ):
        with pytest.raises(ConnectionLostError):
            await collected(events)
        assert await collected(events) == []
        assert events.resumed == 0


@both_bindings
@within(20)
async def test_without_resuming_a_stream_that_the_server_closes_ends_as_it_is(binding):
    gate = trio.Event()

    async def agent(_context, updater):
        await updater.start_work()
        await gate.wait()

    async with (
        open_agent(agent, hook=CloseStreamsHook(max_subscribers=2)) as url,
        connect(url, transports=(binding,)) as client,
        client.stream("x", resume=False) as events,
    ):
        assert isinstance(await anext(events), Task)
        await anext(events)
        async with client.subscribe(events.task.id, resume=False) as second:
            assert all([isinstance(event, Task) async for event in second])
        assert await collected(events) == []
        assert events.task.status.state is TaskState.WORKING


@both_bindings
@within(20)
async def test_a_stream_that_breaks_before_its_first_event_is_not_sent_again(binding):
    sent = []

    async def agent(context, updater):
        sent.append(context.text())
        await trio.sleep_forever()

    async with (
        open_agent(agent, limits=Limits(header_delay=0)) as url,
        open_proxy(url, limits=[100]) as proxy,
        connect(await through(proxy, url, binding)) as client,
    ):
        with pytest.raises((StreamInterruptedError, ConnectionLostError)):
            async with client.stream("once") as events:
                await collected(events)
    assert sent == ["once"]


@both_bindings
@within(20)
async def test_a_reader_that_was_cancelled_goes_on_without_a_loss(binding):
    async with (
        open_agent(Counter(300, pause=0.02)) as url,
        connect(url, transports=(binding,)) as client,
        client.stream("count") as events,
    ):
        seen, cancelled = [], 0
        while True:
            with trio.move_on_after(0.01) as scope:
                try:
                    seen.append(await anext(events))
                except StopAsyncIteration:
                    break
            if scope.cancelled_caught:
                cancelled += 1
                if cancelled > 3:
                    seen += await collected(events)
                    break
    assert cancelled
    assert numbers(seen) == list(range(300))


@both_bindings
@within(10)
async def test_a_direct_reply_is_a_whole_stream(binding):
    async def agent(_context, updater):
        await updater.reply("hi")

    async with open_agent(agent) as url, connect(url, transports=(binding,)) as client, client.stream("x") as events:
        (message,) = await collected(events)
    assert isinstance(message, Message)
    assert events.message == message
    assert events.task is None


@both_bindings
@within(20)
async def test_a_reader_that_was_cut_off_for_being_slow_is_resumed(binding):
    """The server says so with an error that means: subscribe again."""
    agent = Counter(3000)
    async with (
        open_agent(agent, limits=Limits(replay_events=10_000)) as url,
        connect(url, transports=(binding,)) as client,
        client.stream("x") as events,
    ):
        seen = [await anext(events)]
        await trio.sleep(2.5)  # past the second that a queue waits for its readers
        seen += await collected(events)
    assert numbers(seen) == list(range(3000)) or events.gap
    assert events.task.artifacts[0].text("") == "".join(map(str, range(3000)))
