"""Every operation and every class of error, against our server, over both bindings."""

from datetime import timedelta
from functools import partial

import attrs
import pytest
import trio

import trio_a2a
from tests.client.peers import both_bindings, open_agent, open_client
from tests.client.scripted import ScriptedTransport, client_of
from tests.deadline import within
from trio_a2a.client import (
    BearerAuth,
    CallTimeoutError,
    ClientError,
    ConnectionFailedError,
    Interceptor,
    connect,
)
from trio_a2a.errors import (
    ERROR_TABLE,
    AuthenticationError,
    ExtendedAgentCardNotConfiguredError,
    ExtensionSupportRequiredError,
    InvalidAgentResponseError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from trio_a2a.server import BearerTokenAuthenticator
from trio_a2a.stores import InMemoryPushConfigStore
from trio_a2a.types import (
    AgentExtension,
    AuthenticationInfo,
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageResponse,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)


class Desk:
    """Does what it is told."""

    def __init__(self):
        self.contexts = []

    async def execute(self, context, updater):
        self.contexts.append(context)
        order, _, rest = context.text().partition(" ")
        if order == "reply":
            await updater.reply(rest)
        elif order == "ask":
            await updater.require_input("what?")
        elif order == "hold":
            await updater.start_work()
            await trio.sleep_forever()
        elif order == "refuse":
            raise next(row.error for row in ERROR_TABLE if row.error.__name__ == rest)("Refused.")
        elif order != "nothing":
            await updater.add_artifact([Part(text=rest), Part(raw=b"\0\xff"), Part(data={"n": [1, None]})])
            await updater.complete("done")


async def refusal(call):
    with pytest.raises(trio_a2a.A2AError) as caught:
        await call
    return type(caught.value)


@pytest.mark.requirement("S6-CONNECT", "C-050")
@both_bindings
@within(10)
async def test_a_message_is_answered_with_a_task_or_a_message(binding):
    desk = Desk()
    async with open_client(desk, binding) as client:
        assert binding in repr(client)
        task = await client.send("say hello / ü", metadata={"k": 1}, reference_task_ids=["other"], context_id="ctx: 1")
        assert isinstance(task, Task)
        assert task.status.state is TaskState.COMPLETED
        assert [part.value for part in task.artifacts[0].parts] == ["hello / ü", b"\0\xff", {"n": [1, None]}]
        assert task.context_id == "ctx: 1"
        context = desk.contexts[0]
        assert context.metadata == {"k": 1}
        assert context.message.reference_task_ids == ("other",)
        reply = await client.send(Message.user(["reply you", "too"], message_id="mine"))
        assert isinstance(reply, Message)
        assert desk.contexts[1].message.message_id == "mine"


@both_bindings
@within(10)
async def test_a_conversation_goes_on_with_its_task(binding):
    async with open_client(Desk(), binding) as client:
        asked = await client.send("ask")
        assert asked.status.state is TaskState.INPUT_REQUIRED
        done = await client.send("say it", task_id=asked.id, configuration=SendMessageConfiguration(history_length=1))
        assert done.id == asked.id
        assert done.status.state is TaskState.COMPLETED
        assert len(done.history) == 1
        assert len((await client.get_task(done.id)).history) > 1
        assert (await client.get_task(done.id, history_length=0)).history == ()


@both_bindings
@within(10)
async def test_a_task_is_joined_and_cancelled(binding):
    async with open_client(Desk(), binding) as client:
        held = await client.send("hold", return_immediately=True)
        async with client.subscribe(held.id) as events, trio.open_nursery() as nursery:
            assert (await anext(events)).id == held.id
            nursery.start_soon(client.cancel_task, held.id)
            states = [event.status.state async for event in events]
        assert states[-1] is TaskState.CANCELED
        assert await refusal(client.cancel_task(held.id)) is TaskNotCancelableError
        assert (await client.get_task(held.id)).status.state is TaskState.CANCELED


@both_bindings
@within(10)
async def test_a_subscription_goes_on_behind_a_number(binding):
    async with open_client(Desk(), binding) as client, client.stream("hold") as events:
        await anext(events)
        await anext(events)
        async with client.subscribe(events.task.id, after=1) as later:
            event = await anext(later)
        assert later.last_sequence == 2
        assert event.status.state is TaskState.WORKING


@pytest.mark.requirement("C-103")
@both_bindings
@within(20)
async def test_tasks_are_listed_page_by_page(binding):
    async with open_client(Desk(), binding) as client:
        made = [(await client.send(f"say {n}", context_id="a b&c")).id for n in range(7)]
        asked = await client.send("ask", context_id="a b&c")
        other = await client.send("say x", context_id="other")
        tasks = client.list_tasks(context_id="a b&c", page_size=3)
        assert tasks.total_size is None
        found = [task async for task in tasks]
        assert tasks.total_size == 8
        assert {task.id for task in found} == {*made, asked.id}
        assert all(not task.artifacts and not task.history for task in found)
        sizes = [len(page.tasks) async for page in client.list_tasks(context_id="a b&c", page_size=3).pages()]
        assert sizes == [3, 3, 2]
        waiting = client.list_tasks(
            status=TaskState.INPUT_REQUIRED, include_artifacts=True, history_length=5, page_size=1
        )
        assert [task.id async for task in waiting] == [asked.id]
        whole = [task async for task in client.list_tasks(context_id="other", include_artifacts=True)]
        assert whole[0].artifacts[0].parts[0].text == "x"
        at = other.status.timestamp
        recent = [task.id async for task in client.list_tasks(status_timestamp_after=at)]
        assert other.id in recent
        assert made[0] not in recent or at == found[-1].status.timestamp
        assert [task async for task in client.list_tasks(status_timestamp_after=at + timedelta(days=1))] == []
        with pytest.raises(InvalidParamsError) as caught:
            await anext(client.list_tasks(page_size=1000))
        assert [violation.field for violation in caught.value.violations] == ["pageSize"]


@pytest.mark.requirement("C-281")
@both_bindings
@within(10)
async def test_a_task_that_waits_for_an_authorization_is_followed_in_every_way(binding):
    """By the stream that began it, by a subscription, and by asking; it goes on when it is authorized elsewhere."""
    authorized = trio.Event()

    async def agent(_context, updater):
        await updater.require_auth("log in elsewhere")
        await authorized.wait()
        await updater.start_work()
        await updater.complete("done")

    async def follow(events, *, task_status):
        async for event in events:
            if event.status.state is TaskState.AUTH_REQUIRED:
                task_status.started()
        ended.append(events.task.status.state)
        if len(ended) == 2:
            both_ended.set()

    ended, both_ended = [], trio.Event()
    async with open_client(agent, binding) as client, trio.open_nursery() as nursery:
        task = await client.send("x")
        assert task.status.state is TaskState.AUTH_REQUIRED
        async with client.subscribe(task.id) as subscribed, client.stream("y") as begun:
            await nursery.start(partial(follow, subscribed))
            await nursery.start(partial(follow, begun))
            assert (await client.get_task(task.id)).status.state is TaskState.AUTH_REQUIRED
            authorized.set()
            await both_ended.wait()
        assert ended == [TaskState.COMPLETED] * 2
        assert (await client.get_task(task.id)).status.state is TaskState.COMPLETED


@pytest.mark.requirement("C-141")
@both_bindings
@within(10)
async def test_each_webhook_has_a_token_of_its_own(binding):
    async with open_client(Desk(), binding, push=InMemoryPushConfigStore()) as client:
        task = await client.send("say x")
        made = [await client.push_configs.create(task.id, "https://example.com/hook") for _ in range(3)]
        assert len({config.token for config in made}) == 3
        assert all(len(config.token) >= 32 for config in made)
        assert (await client.push_configs.get(task.id, made[0].id)).token in {made[0].token, ""}
        assert not (await client.push_configs.create(task.id, "https://example.com/hook", token="")).token


@pytest.mark.requirement("C-141")
@within(10)
async def test_a_token_that_the_server_keeps_to_itself_is_returned_all_the_same(autojump_clock):
    transport = ScriptedTransport(answers=[TaskPushNotificationConfig(task_id="t", id="1", url="https://a.example")])
    made = await client_of(transport).push_configs.create("t", "https://a.example")
    assert made.token == transport.calls[0][0].request.token != ""


@pytest.mark.requirement("C-054", "C-055")
@both_bindings
@within(10)
async def test_the_context_is_the_agent_s_and_is_given_back_as_it_came(binding):
    desk = Desk()
    async with open_client(desk, binding) as client:
        task = await client.send("say x")
        assert desk.contexts[-1].message.context_id in {"", task.context_id}
        for context_id in ("  a/b?c#d%2F ", "ü\u2028\n", "x" * 200):
            again = await client.send("say y", context_id=context_id)
            assert again.context_id == context_id
            assert [one.id async for one in client.list_tasks(context_id=context_id)] == [again.id]
    transport = ScriptedTransport([task], answers=[SendMessageResponse.of(task)])
    await client_of(transport).send("x")
    async with client_of(transport).stream("x", task_id=task.id):
        pass
    assert [call.request.message.context_id for call, _ in transport.calls] == ["", ""]


@both_bindings
@within(10)
async def test_webhooks_are_kept(binding):
    async with open_client(Desk(), binding, push=InMemoryPushConfigStore()) as client:
        task = await client.send("say x")
        first = await client.push_configs.create(
            task.id,
            "https://example.com/hook",
            id="hook:1 ü/?",
            token="t0ken",
            authentication=AuthenticationInfo(scheme="Bearer", credentials="s3cret"),
        )
        assert (first.id, first.token) == ("hook:1 ü/?", "t0ken")
        second = await client.push_configs.create(task.id, "https://example.com/2")
        assert {config.id for config in await client.push_configs.list(task.id)} == {first.id, second.id}
        assert (await client.push_configs.get(task.id, first.id)).url == first.url
        for _ in range(2):
            await client.push_configs.delete(task.id, first.id)
        assert [config.id for config in await client.push_configs.list(task.id)] == [second.id]
        assert await refusal(client.push_configs.get(task.id, first.id)) is TaskNotFoundError


@pytest.mark.requirement("C-150", "C-151", "C-274")
@both_bindings
@within(10)
async def test_the_extended_card_takes_the_place_of_the_public_one(binding):
    extended = trio_a2a.agent_card("More", "Is known to friends only.")
    options = {"extended_card": extended, "authenticator": BearerTokenAuthenticator({"s3cret": "alice"})}
    async with open_agent(Desk(), **options) as url:
        async with connect(url, transports=(binding,), auth=BearerAuth("s3cret")) as client:
            assert client.card.name == "Tested"
            assert (await client.extended_card()).name == "More"
            assert client.card.name == "More"
            assert (await client.refresh_card()).name == "Tested"
        async with connect(url, transports=(binding,), auth=BearerAuth("wrong")) as client:
            assert await refusal(client.extended_card()) is AuthenticationError
        async with connect(url, transports=(binding,)) as client:
            assert await refusal(client.send("say x")) is AuthenticationError


@pytest.mark.requirement("C-190")
@both_bindings
@within(10)
async def test_what_the_card_does_not_declare_is_refused_without_asking_the_agent(binding):
    card = trio_a2a.agent_card("Bare", "Can little.")
    async with open_client(Desk(), binding) as client:
        bare = attrs.evolve(client.card, capabilities=attrs.evolve(client.card.capabilities, streaming=None))
        assert await refusal(client.extended_card()) is UnsupportedOperationError
        assert await refusal(client.push_configs.list("t")) is PushNotificationNotSupportedError
        async with connect(bare) as other:
            with pytest.raises(UnsupportedOperationError, match="does not stream"):
                async with other.stream("x"):
                    pass
            with pytest.raises(UnsupportedOperationError, match="does not stream"):
                async with other.subscribe("x"):
                    pass
            with pytest.raises(ClientError, match="made for a card"):
                await other.refresh_card()
    async with open_client(Desk(), binding, card=card, client={"check_capabilities": False}) as client:
        assert await refusal(client.extended_card()) is UnsupportedOperationError
        assert await refusal(client.push_configs.list("t")) is PushNotificationNotSupportedError
    declared = attrs.evolve(card, capabilities=attrs.evolve(card.capabilities, extended_agent_card=True))
    async with (
        open_client(Desk(), binding, client={"check_capabilities": False}) as client,
        connect(attrs.evolve(declared, supported_interfaces=client.card.supported_interfaces)) as believing,
    ):
        assert await refusal(believing.extended_card()) in {
            UnsupportedOperationError,
            ExtendedAgentCardNotConfiguredError,
        }


@both_bindings
@within(20)
@pytest.mark.parametrize("row", ERROR_TABLE, ids=lambda row: row.error.__name__)
async def test_an_agent_s_refusal_is_raised_as_its_class(binding, row):
    async with open_client(Desk(), binding) as client:
        order = f"refuse {row.error.__name__}"
        with pytest.raises(row.error, match="Refused"):
            await client.send(order)
        with pytest.raises(row.error, match="Refused"):
            async with client.stream(order) as events:
                await anext(events)


@both_bindings
@within(10)
async def test_faults_of_a_request_are_told(binding):
    async with open_client(Desk(), binding) as client:
        done = await client.send("say x")
        assert await refusal(client.get_task("unknown")) is TaskNotFoundError
        assert await refusal(client.get_task("a/b:cancel ?%")) is TaskNotFoundError
        assert await refusal(client.send("say x", task_id=done.id)) is UnsupportedOperationError
        assert await refusal(client.send("nothing")) is InvalidAgentResponseError
        with pytest.raises(UnsupportedOperationError):
            async with client.subscribe(done.id):
                pass
        with pytest.raises(TaskNotFoundError):
            async with client.subscribe("unknown"):
                pass


@pytest.mark.requirement("C-152")
@both_bindings
@within(10)
async def test_extensions_are_activated_for_all_calls_or_for_one(binding):
    uri = "https://example.com/ext/v1"
    card = trio_a2a.agent_card("Strict", "Requires.")
    extension = AgentExtension(uri=uri, required=True)
    card = attrs.evolve(card, capabilities=attrs.evolve(card.capabilities, extensions=[extension]))
    desk = Desk()
    async with open_agent(desk, card=card) as url:
        async with connect(url, transports=(binding,)) as client:
            assert await refusal(client.send("say x")) is ExtensionSupportRequiredError
            await client.send("say x", extensions=[uri, "urn:other"])
            assert await refusal(client.get_task("x")) is ExtensionSupportRequiredError
        async with connect(url, transports=(binding,), extensions=[uri]) as client:
            assert await refusal(client.get_task("x")) is TaskNotFoundError
            async with client.stream("say x") as events:
                assert [event async for event in events]
    assert all(uri in context.extensions for context in desk.contexts)


@both_bindings
@within(10)
async def test_interceptors_see_and_change_calls(binding):
    log = []

    class Logged(Interceptor):
        def __init__(self, name):
            self.name = name

        async def before(self, call):
            log.append((self.name, "before", call.operation))
            return attrs.evolve(call, headers={**call.headers, f"x-{self.name}": "1"})

        async def after(self, call, result, error):
            log.append((self.name, "after", type(result).__name__, type(error).__name__))
            return result

    async with open_client(Desk(), binding, client={"interceptors": [Logged("a"), Logged("b")]}) as client:
        await client.send("say x")
        assert await refusal(client.get_task("unknown")) is TaskNotFoundError
        async with client.stream("say x") as events:
            assert [event async for event in events]
    assert log == [
        ("a", "before", "SendMessage"),
        ("b", "before", "SendMessage"),
        ("b", "after", "SendMessageResponse", "NoneType"),
        ("a", "after", "SendMessageResponse", "NoneType"),
        ("a", "before", "GetTask"),
        ("b", "before", "GetTask"),
        ("b", "after", "NoneType", "TaskNotFoundError"),
        ("a", "after", "NoneType", "TaskNotFoundError"),
        ("a", "before", "SendStreamingMessage"),
        ("b", "before", "SendStreamingMessage"),
        ("b", "after", "NoneType", "NoneType"),
        ("a", "after", "NoneType", "NoneType"),
    ]


@both_bindings
@within(10)
async def test_a_call_that_takes_too_long_has_an_error_of_its_own(binding):
    async with open_client(Desk(), binding) as client:
        with pytest.raises(CallTimeoutError, match=r"SendMessage took longer than 0\.2 seconds") as caught:
            await client.send("hold", timeout=0.2)
        assert isinstance(caught.value, TimeoutError)
        assert [task.status.state async for task in client.list_tasks()] == [TaskState.WORKING]


@both_bindings
@within(10)
async def test_many_calls_share_a_client(binding):
    async with open_client(Desk(), binding) as client:
        results = []

        async def call(n):
            async with client.stream(f"say {n}") as events:
                async for _ in events:
                    pass
            results.append((n, events.task.artifacts[0].parts[0].text))

        async with trio.open_nursery() as nursery:
            for n in range(30):
                nursery.start_soon(call, n)
        assert sorted(results) == [(n, str(n)) for n in range(30)]


@pytest.mark.requirement("C-189")
@both_bindings
@within(10)
async def test_where_no_connection_can_be_made_the_next_interface_is_used(binding):
    async with open_client(Desk(), binding) as client:
        dead = attrs.evolve(client.card.supported_interfaces[0], url="http://127.0.0.1:1")
        card = attrs.evolve(client.card, supported_interfaces=[dead, *client.card.supported_interfaces])
        async with connect(card) as other:
            assert (await other.send("say x")).status.state is TaskState.COMPLETED
            async with other.stream("say y") as events:
                assert [event async for event in events]
        async with connect(attrs.evolve(card, supported_interfaces=[dead])) as other:
            with pytest.raises(ConnectionFailedError):
                await other.send("say x")
