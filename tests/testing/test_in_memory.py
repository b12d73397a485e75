"""An agent and its client in one process: all of it real, none of it over sockets, and nothing left afterwards."""

import gc
from contextlib import AsyncExitStack
from functools import partial

import attrs
import pytest
import trio
import trio.testing

from tests.deadline import within
from tests.streams.test_cancellation import AtStep
from trio_a2a import A2AApp, Agent, agent_card
from trio_a2a.abc import Authenticator
from trio_a2a.client import (
    BearerAuth,
    ConnectionFailedError,
    Interceptor,
    OAuth2ClientCredentials,
    StreamInterruptedError,
)
from trio_a2a.errors import (
    AuthenticationError,
    InvalidRequestError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnavailableError,
)
from trio_a2a.server import BearerTokenAuthenticator, Limits, NamedPrincipal
from trio_a2a.server.http import LifespanError
from trio_a2a.stores import InMemoryPushConfigStore, InMemoryTaskStore
from trio_a2a.testing import IN_MEMORY_URL, RecordingHook, open_in_memory, serve_in_memory
from trio_a2a.types import AgentInterface, Message, Task, TaskArtifactUpdateEvent, TaskState

both_bindings = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
CARD = agent_card("Tested", "Is tested.")


async def desk(context, updater):
    """Does what it is told."""
    order, _, rest = context.text().partition(" ")
    if order == "reply":
        await updater.reply(rest)
    elif order == "count":
        await updater.start_work()
        for number in range(int(rest)):
            await trio.sleep(1)
            await updater.add_artifact(str(number), artifact_id="numbers", append=number > 0)
        await updater.complete("done")
    elif order == "hold":
        await updater.start_work()
        await trio.sleep_forever()
    else:
        await updater.complete(f"{context.principal.id or 'nobody'} said {context.text()}")


def numbers(events):
    return [int(event.artifact.text()) for event in events if isinstance(event, TaskArtifactUpdateEvent)]


def living():
    return trio.lowlevel.current_statistics().tasks_living


# -------------------------------------------------------------------------------------------------- what passes through


@pytest.mark.requirement("S7-IN-MEMORY")
@both_bindings
@within(100)
async def test_messages_streams_lists_cancellations_and_errors_pass_through(autojump_clock, binding):
    """Every kind of call, over both bindings; the seconds that the agent sleeps are the clock's."""
    push = InMemoryPushConfigStore()
    async with serve_in_memory(Agent(CARD, desk, push=push), transports=[binding]) as client:
        assert binding in repr(client)
        assert isinstance(await client.send("reply hello"), Message)
        done = await client.send("hello")
        assert done.status.message.text() == "nobody said hello"
        before = trio.current_time()
        async with client.stream("count 10") as events:
            seen = [event async for event in events]
        assert numbers(seen) == list(range(10))
        assert trio.current_time() - before == pytest.approx(10)
        held = await client.send("hold", return_immediately=True)
        async with client.subscribe(held.id) as events:
            assert (await anext(events)).id == held.id
            assert (await client.cancel_task(held.id)).status.state is TaskState.CANCELED
            assert [event.status.state async for event in events][-1] is TaskState.CANCELED
        assert len([task async for task in client.list_tasks(page_size=1)]) == 3
        with pytest.raises(TaskNotFoundError):
            await client.get_task("unknown")
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(done.id)
        hook = await client.push_configs.create(held.id, "https://example.com/hook")
        assert await client.push_configs.get(held.id, hook.id) is not None


@pytest.mark.requirement("S7-IN-MEMORY", "S1-DETERMINISTIC")
@within(100)
async def test_a_grace_period_passes_on_the_clock_of_the_test(autojump_clock):
    app = A2AApp(Agent(CARD, desk, store=InMemoryTaskStore(grace_period=15)))
    async with open_in_memory(app) as server, server.connect() as client:
        task = await client.send("hello")
        assert server.manager.get(task.id) is None
        await trio.sleep(14.999)
        await app.updater(task.id).flush()
        assert await server.manager.store.is_task_active(task.id)
        await trio.sleep(0.001)
        assert not await server.manager.store.is_task_active(task.id)


@pytest.mark.requirement("S7-IN-MEMORY")
@both_bindings
@within(100)
async def test_a_stream_whose_network_breaks_is_taken_up_again_without_a_gap(autojump_clock, binding):
    async with (
        open_in_memory(Agent(CARD, desk)) as server,
        server.connect(transports=[binding]) as client,
        client.stream("count 20") as events,
    ):
        seen = []
        async for event in events:
            seen.append(event)
            if len(numbers(seen)) in {5, 6, 12}:
                assert server.break_connections() >= 1
    assert events.resumed >= 3
    assert not events.gap
    assert numbers(seen) == list(range(20))
    assert sum(isinstance(event, Task) for event in seen) == 1


@within(100)
async def test_a_stream_that_may_not_resume_shows_that_the_network_broke(autojump_clock):
    async with open_in_memory(desk) as server, server.connect() as client:
        async with client.stream("hold", resume=False) as events:
            await anext(events)
            await anext(events)
            server.break_connections()
            with pytest.raises(Exception, match="broke") as caught:
                await anext(events)
        assert not isinstance(caught.value, StreamInterruptedError)


@pytest.mark.requirement("S7-IN-MEMORY")
@within(1000)
async def test_a_reader_that_does_not_read_holds_the_server_back_until_it_is_cut(autojump_clock):
    """The streams are bounded: an agent that says more than they hold meets the slow reader's bound."""

    async def talker(_context, updater):
        for number in range(3000):
            await updater.add_artifact("x" * 500, artifact_id=str(number))
        await updater.complete()

    async with open_in_memory(talker) as server, server.connect() as client, client.stream("go") as events:
        await trio.sleep(20)
        assert server.manager.statistics().lagged_subscribers == 1
        assert len([event async for event in events]) > 0
        assert events.resumed == 1
        assert events.task.status.state is TaskState.COMPLETED


@within(5)
async def test_nothing_between_client_and_agent_takes_time(autojump_clock):
    """Also the end of the block: a clock that stands still is enough."""
    async with serve_in_memory(desk) as client:
        assert (await client.send("hello")).status.state is TaskState.COMPLETED
        async with client.stream("hello") as events:
            assert [event async for event in events][-1].status.state is TaskState.COMPLETED
    assert trio.current_time() == 0


@within(100)
async def test_the_limits_of_the_server_hold(autojump_clock):
    async with serve_in_memory(Agent(CARD, desk, limits=Limits(max_body=500))) as client:
        with pytest.raises(InvalidRequestError, match="larger than 500"):
            await client.send("x" * 1000)
        assert (await client.send("hello")).status.state is TaskState.COMPLETED


@within(1000)
async def test_a_connection_that_the_server_closed_for_idleness_is_replaced(autojump_clock):
    """The server's keep-alive is on Trio's clock; the client notices that its connection has ended."""
    async with open_in_memory(desk) as server, server.connect() as client:
        await client.send("hello")
        await trio.sleep(100)
        assert server.statistics().connections == 0
        await client.send("hello")
        assert server.statistics().connections == 1


# -------------------------------------------------------------------------------------------------------- what is given


@pytest.mark.requirement("S7-IN-MEMORY")
@within(5)
async def test_credentials_and_headers_reach_the_authenticator(autojump_clock):
    agent = Agent(CARD, desk, authenticator=BearerTokenAuthenticator({"s3cret": "ann", "0ther": "bob"}))
    async with open_in_memory(agent) as server:
        async with server.connect(auth=BearerAuth("s3cret")) as ann, server.connect(auth=BearerAuth("0ther")) as bob:
            task = await ann.send("hello")
            assert task.status.message.text() == "ann said hello"
            with pytest.raises(TaskNotFoundError):
                await bob.get_task(task.id)
        async with server.connect(headers={"authorization": "Bearer 0ther"}) as client:
            assert (await client.send("hello")).status.message.text() == "bob said hello"
        async with server.connect() as client:
            with pytest.raises(AuthenticationError):
                await client.send("hello")


@within(5)
async def test_headers_do_not_take_the_place_of_those_of_an_interceptor(autojump_clock):
    class Name(Interceptor):
        async def before(self, call):
            return attrs.evolve(call, headers={**call.headers, "x-user": "interceptor"})

    class Believes(Authenticator):
        async def authenticate(self, request):
            return NamedPrincipal(request.headers.get("x-user") or request.headers["x-more"])

    agent = Agent(CARD, desk, authenticator=Believes())
    async with serve_in_memory(agent, headers={"x-user": "headers"}, interceptors=[Name()]) as client:
        assert (await client.send("hi")).status.message.text() == "interceptor said hi"
    async with serve_in_memory(agent, headers={"x-more": "more"}) as client:
        assert (await client.send("hi")).status.message.text() == "more said hi"


@within(5)
async def test_an_application_s_methods_are_used_beside_the_client(autojump_clock):
    async def asks(_context, updater):
        await updater.require_input("Which?")

    app = A2AApp(Agent(CARD, asks))
    async with serve_in_memory(app) as client:
        task = await client.send("hello")
        await app.updater(task.id).complete("This one.")
        assert (await client.get_task(task.id)).status.message.text() == "This one."


@within(5)
async def test_a_callable_gets_a_card_of_its_name_and_docstring(autojump_clock):
    class Executor:
        async def execute(self, context, updater):
            await updater.complete()

    async with serve_in_memory(desk) as client:
        assert (client.card.name, client.card.description) == ("desk", "Does what it is told.")
    async with serve_in_memory(partial(partial(desk))) as client:
        assert client.card.name == "desk"
    async with serve_in_memory(Executor()) as client:
        assert (client.card.name, client.card.description) == ("Executor", "The agent Executor.")
        assert (await client.send("x")).status.state is TaskState.COMPLETED
    with pytest.raises(TypeError, match="an agent is"):
        async with serve_in_memory("desk"):
            pass


@pytest.mark.parametrize(
    ("agent", "url", "interface"),
    [
        (desk, None, IN_MEMORY_URL),
        (desk, "https://agent.example/", "https://agent.example"),
        (desk, "https://agent.example:8443/a/b", "https://agent.example:8443/a/b/"),
        (A2AApp(Agent(CARD, desk), url="https://public.example/x"), None, "https://public.example/x/"),
        (A2AApp(Agent(CARD, desk), url="https://public.example"), "http://inside.test", "https://public.example"),
        (A2AApp(Agent(CARD, desk)), "https://agent.example", "https://agent.example"),
        (A2AApp(Agent(CARD, desk), rpc_path="/rpc"), None, f"{IN_MEMORY_URL}/rpc"),
    ],
)
@within(5)
async def test_the_agent_is_reached_at_its_url(autojump_clock, agent, url, interface):
    """Also one of https, or with a path below which the application is mounted."""
    for binding in ("JSONRPC", "HTTP+JSON"):
        async with serve_in_memory(agent, url=url, transports=[binding]) as client:
            assert client.card.supported_interfaces[0].url == interface
            assert (await client.send("x")).status.state is TaskState.COMPLETED


@within(5)
async def test_a_card_that_lists_its_interfaces_is_reached_at_them(autojump_clock):
    interface = AgentInterface(url="https://rpc.example/", protocol_binding="JSONRPC", protocol_version="1.0")
    agent = Agent(attrs.evolve(CARD, supported_interfaces=(interface,)), desk)
    async with serve_in_memory(agent) as client:
        assert (await client.send("x")).status.state is TaskState.COMPLETED


@within(5)
async def test_nothing_but_the_agent_can_be_reached(autojump_clock):
    auth = OAuth2ClientCredentials("id", "secret", token_url="https://login.example/token")
    async with serve_in_memory(desk, auth=auth) as client:
        with pytest.raises(ConnectionFailedError, match=r"login\.example"):
            await client.send("x")


@within(5)
async def test_a_url_that_is_none_is_refused(autojump_clock):
    for url in ("agent.test", "ftp://agent.test", "http://"):
        with pytest.raises(ValueError, match="url is absolute"):
            async with serve_in_memory(A2AApp(Agent(CARD, desk)), url=url):
                pass


# ------------------------------------------------------------------------------------------------------------- the end


@pytest.mark.requirement("S7-IN-MEMORY", "S1-SCOPE")
@within(5)
async def test_leaving_in_the_middle_of_a_stream_leaves_nothing_running(autojump_clock):
    ended = trio.Event()
    hook = RecordingHook()

    async def holds(_context, updater):
        try:
            await updater.start_work()
            await trio.sleep_forever()
        finally:
            ended.set()

    before = living()
    async with open_in_memory(Agent(CARD, holds, hook=hook)) as server, server.connect() as client:
        async with client.stream("x") as events:
            await anext(events)
            await anext(events)
        await trio.testing.wait_all_tasks_blocked()
        assert not ended.is_set(), "a client that goes away does not end the agent"
    assert ended.is_set()
    assert living() == before
    assert len(hook.of("on_subscribe")) == len(hook.of("on_unsubscribe")) == 1
    assert trio.current_time() < 1
    with pytest.raises(RuntimeError, match="the server has ended"):
        _ = server.manager
    with pytest.raises(ConnectionFailedError, match="has stopped"):
        async with server.connect():
            pass


@within(5)
async def test_a_client_that_outlives_the_server_is_cut_off_at_once(autojump_clock):
    """It cannot delay the end of the block with a stream that it has open."""
    async with AsyncExitStack() as later:
        async with open_in_memory(desk) as server:
            client = await later.enter_async_context(server.connect())
            events = await later.enter_async_context(client.stream("hold", resume=False))
            await anext(events)
            assert repr(server) == "<InMemoryServer of 'desk' at http://agent.test>"
        assert trio.current_time() < 0.5
        with pytest.raises(ConnectionFailedError):
            await client.send("x")


@pytest.mark.requirement("S7-IN-MEMORY")
@pytest.mark.parametrize(
    "error", [KeyError("x"), ExceptionGroup("both", [ValueError(), OSError()]), KeyboardInterrupt(), UnavailableError()]
)
@pytest.mark.parametrize("in_stream", [False, True])
@within(5)
async def test_what_the_block_raises_leaves_as_it_is(autojump_clock, error, in_stream):
    """House rule: concurrency that is hidden does not show in what is raised."""
    before = living()
    with pytest.raises(type(error)) as caught:
        async with serve_in_memory(desk) as client:
            if in_stream:
                async with client.stream("hold") as events:
                    await anext(events)
                    raise error
            raise error
    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None
    assert living() == before


@within(5)
async def test_what_a_cancelled_block_raises_leaves_as_it_is(autojump_clock):
    with pytest.raises(KeyError), trio.CancelScope() as scope:
        async with serve_in_memory(desk):
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                raise KeyError("x")


@within(5)
async def test_an_application_that_cannot_start_says_so(autojump_clock, caplog):
    app = A2AApp(Agent(CARD, desk))
    app.agent.hook = object()
    before = living()
    with pytest.raises(LifespanError, match="hook"):
        async with serve_in_memory(app):
            raise AssertionError("not reached")
    assert living() == before


@pytest.mark.requirement("S7-IN-MEMORY")
@within(5)
async def test_a_bug_of_the_server_ends_the_block_and_is_seen(autojump_clock):
    class BugError(Exception):
        pass

    async def bug():
        raise BugError

    with pytest.raises(BaseExceptionGroup) as caught:
        async with open_in_memory(desk) as server:
            server.manager._nursery.start_soon(bug)
            await trio.sleep_forever()
    assert caught.group_contains(BugError)
    with pytest.raises(BaseExceptionGroup) as caught:
        async with open_in_memory(desk) as server:
            server.manager._nursery.start_soon(bug)
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("the block's own")
    assert caught.group_contains(BugError)
    assert caught.group_contains(KeyError, depth=1)


@pytest.mark.requirement("S7-IN-MEMORY", "S1-SCOPE")
@within(100_000)
async def test_a_block_that_is_cancelled_at_any_step_leaves_nothing_running(autojump_clock):
    """In run n the cancellation comes at the n-th step of the scheduler, until one run gets to its end."""
    before = living()
    runs: list[str] = []
    finished, step = False, 0
    while not finished:
        step += 1
        hook = RecordingHook()
        scope = trio.CancelScope()
        instrument = AtStep(step, scope.cancel)
        trio.lowlevel.add_instrument(instrument)
        try:
            with scope:
                async with serve_in_memory(Agent(CARD, desk, hook=hook)) as client:
                    await client.send("hello")
                    async with client.stream("count 2") as events:
                        runs.extend([type(event).__name__ async for event in events])
                finished = instrument.left > 0
        finally:
            trio.lowlevel.remove_instrument(instrument)
        assert living() == before, f"cancelled at step {step}"
        assert len(hook.of("on_subscribe")) == len(hook.of("on_unsubscribe")), f"cancelled at step {step}"
    gc.collect()
    assert step > 100
    assert len(runs) > 100
