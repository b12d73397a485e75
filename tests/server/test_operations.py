"""The operations without a transport: who may see what, and what a look-up of a task that ends meanwhile brings."""

import attrs
import pytest
import trio
import trio.testing

from tests.agents.desk import Stream, open_desk, rest, state_of, states
from tests.deadline import within
from trio_a2a.abc import Principal
from trio_a2a.errors import (
    ContentTypeNotSupportedError,
    InternalError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from trio_a2a.server import Agent, NamedPrincipal, agent_card
from trio_a2a.server.operations import Call, Operations
from trio_a2a.streams import open_queue_manager
from trio_a2a.testing import FlakyStore, ScriptedAgent
from trio_a2a.types import (
    AgentCapabilities,
    AgentSkill,
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskPushNotificationConfig,
    TaskState,
)

ANN, BOB = NamedPrincipal("ann"), NamedPrincipal("bob")


async def ask(_context, updater):
    await updater.require_input("what?")


async def finish(_context, updater):
    await updater.complete()


# -------------------------------------------------------------------------------------------------------------- owners


@pytest.mark.requirement("S5-OWNER")
@within(5)
async def test_a_task_belongs_to_the_principal_that_made_it_and_does_not_exist_for_another(autojump_clock):
    async with open_desk(ask) as desk:
        task = await desk.send(principal=ANN)
        assert (await desk.manager.store.get(task.id)).owner == "ann"
        for other in (BOB, Call().principal):
            for call in (desk.get, desk.cancel):
                with pytest.raises(TaskNotFoundError) as caught:
                    await call(task.id, principal=other)
                assert caught.value.metadata == {"taskId": task.id}
            with pytest.raises(TaskNotFoundError):
                await desk.send(task_id=task.id, principal=other)
            for stream in (desk.subscribe(task.id, principal=other), desk.stream(task_id=task.id, principal=other)):
                with pytest.raises(TaskNotFoundError):
                    async with stream:
                        pass
        assert await desk.get(task.id, principal=ANN) == task
        await desk.send(task_id=task.id, principal=ANN)
        assert (await desk.cancel(task.id, principal=ANN)).status.state is TaskState.CANCELED


@pytest.mark.requirement("S5-OWNER")
@within(5)
async def test_a_principal_is_known_by_its_id(autojump_clock):
    @attrs.frozen
    class Employee(Principal):
        id: str
        department: str

    async with open_desk(ask) as desk:
        task = await desk.send(principal=Employee("ann", "sales"))
        assert await desk.get(task.id, principal=Employee("ann", "research")) == task


@pytest.mark.requirement("S5-OWNER")
@within(5)
async def test_without_an_authenticator_everything_is_the_anonymous_principal_s(autojump_clock):
    async with open_desk(ask) as desk:
        task = await desk.send()
        assert (await desk.manager.store.get(task.id)).owner == ""
        assert await desk.get(task.id) == task


@within(5)
async def test_the_tenant_of_the_first_message_is_stored_with_the_task(autojump_clock):
    async with open_desk(ask) as desk:
        task = await desk.send(tenant="acme")
        assert (await desk.manager.store.get(task.id)).tenant == "acme"


# ------------------------------------------------------------------------------------------------------- capabilities


@within(5)
async def test_an_agent_that_does_not_stream_refuses_streams(autojump_clock):
    card = attrs.evolve(agent_card("Tested", "."), capabilities=AgentCapabilities(streaming=False))
    agent = Agent(card, ask)
    async with open_queue_manager() as manager:
        operations = Operations(agent, manager)
        with pytest.raises(UnsupportedOperationError):
            async with operations.send_streaming_message(SendMessageRequest(message=Message.user("x")), Call()):
                pass
        assert manager.statistics().queues == 0
        task = await operations.send_message(SendMessageRequest(message=Message.user("x")), Call())
        assert task.status.state is TaskState.INPUT_REQUIRED


# ---------------------------------------------------------------------------------------------------------- media types


async def send(modes, *parts, skill_modes=()):
    skill = AgentSkill(id="s", name="s", description="s", tags=("s",), input_modes=skill_modes)
    agent = Agent(agent_card("Tested", ".", modes=modes, skills=(skill,)), finish)
    async with open_queue_manager() as manager:
        request = SendMessageRequest(message=Message.user(list(parts)))
        return await Operations(agent, manager).send_message(request, Call())


@pytest.mark.parametrize(
    ("modes", "skill_modes", "media_type"),
    [
        (("text/plain",), (), ""),
        (("text/plain",), (), "text/plain"),
        (("text/plain",), (), "Text/Plain; charset=utf-8"),
        (("text/*",), (), "text/html"),
        (("*/*",), (), "image/png"),
        (("text/plain",), ("image/png",), "image/png"),
        (("text",), (), "image/png"),
        (("application/json; v=1",), (), "application/json"),
    ],
)
@within(5)
async def test_a_media_type_that_the_card_or_a_skill_lists_is_taken(autojump_clock, modes, skill_modes, media_type):
    """A-51; a card with modes that are no media types says nothing that one could compare."""
    task = await send(modes, Part(data=1, media_type=media_type), skill_modes=skill_modes)
    assert task.status.state is TaskState.COMPLETED


@pytest.mark.parametrize("media_type", ["image/png", "text/html", "textual/plain", "nonsense"])
@within(5)
async def test_any_other_media_type_is_refused(autojump_clock, media_type):
    with pytest.raises(ContentTypeNotSupportedError) as caught:
        await send(("text/plain", "application/json"), "ok", Part(data=1, media_type=media_type))
    assert caught.value.metadata == {"mediaType": media_type}


# ------------------------------------------------------------------------------------------------- the order of checks


@within(5)
async def test_a_message_is_checked_in_the_order_of_the_protocol(autojump_clock):
    """Protocol section 5.1: task, context, state, media types, push."""
    push = SendMessageConfiguration(task_push_notification_config=TaskPushNotificationConfig(url="https://e.com"))
    image = Part(raw=b"x", media_type="image/png")

    async with open_desk(ScriptedAgent(by_text={"ask": ask, "finish": finish})) as desk:

        async def refusal(task_id="", parts=("ask",), context_id=""):
            message = Message.user(list(parts), task_id=task_id, context_id=context_id)
            with pytest.raises(Exception) as caught:
                await desk.operations.send_message(SendMessageRequest(message=message, configuration=push), Call())
            return type(caught.value).__name__

        over = await desk.send("finish")
        assert await refusal(task_id="none", parts=[image]) == "TaskNotFoundError"
        assert await refusal(task_id=over.id, parts=[image], context_id="x") == "InvalidParamsError"
        assert await refusal(task_id=over.id, parts=[image]) == "UnsupportedOperationError"
        assert await refusal(parts=[image]) == "ContentTypeNotSupportedError"
        assert await refusal() == PushNotificationNotSupportedError.__name__


# ------------------------------------------------------------------------------------------------------- subscriptions


@pytest.mark.requirement("S5-SUBSCRIPTION-END")
@pytest.mark.parametrize("after", [None, 0, 1, 2, 3, 99])
@within(5)
async def test_a_task_that_ends_between_the_check_and_the_subscription_leaves_no_reader_waiting(autojump_clock, after):

    class Late(FlakyStore):
        """Shows the task once as it was before its end."""

        async def get(self, task_id):
            stored = await super().get(task_id)
            if stored is not None and self.tell_of_the_past:
                self.tell_of_the_past = False
                working = attrs.evolve(stored.task.status, state=TaskState.WORKING)
                stored = attrs.evolve(stored, task=attrs.evolve(stored.task, status=working))
            return stored

        tell_of_the_past = False

    store = Late()
    async with open_desk(finish, store=store) as desk:
        task = await desk.send()
        store.tell_of_the_past = True
        async with desk.subscribe(task.id, after=after) as stream:
            events = await rest(stream)
    expected = {
        None: ["COMPLETED"],
        0: ["SUBMITTED", "COMPLETED"],
        1: ["COMPLETED"],
        2: [],
        3: ["COMPLETED"],
        99: ["COMPLETED"],
    }
    assert states(events) == expected[after]


@pytest.mark.requirement("C-076")
@within(5)
async def test_sixty_readers_that_join_while_events_flow_each_see_every_event_behind_their_snapshot(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work()
        for number in range(300):
            await updater.add_artifact(str(number))
        await updater.complete()

    async with open_desk(agent) as desk, trio.open_nursery() as nursery:
        task = await desk.send(immediately=True)
        seen = []

        async def read():
            numbers = []
            async with desk.subscribe(task.id) as stream:
                try:
                    while True:
                        numbers.extend(envelope.sequence for envelope in await stream.receive_batch())
                except trio.EndOfChannel:
                    seen.append(numbers)

        for _ in range(60):
            nursery.start_soon(read)
            await trio.lowlevel.checkpoint()
    assert len(seen) == 60
    for numbers in seen:
        assert numbers == list(range(numbers[0], 304))


@within(5)
async def test_after_the_end_a_stream_stays_at_its_end(autojump_clock):
    async with open_desk(finish) as desk, desk.stream() as stream:
        await rest(stream)
        for _ in range(2):
            with pytest.raises(trio.EndOfChannel), trio.testing.assert_checkpoints():
                await stream.receive_batch()


@within(5)
async def test_the_stream_of_a_sent_message_has_begun_with_what_comes_behind_the_snapshot(autojump_clock):
    async with open_desk(ask) as desk:
        async with desk.stream() as stream:
            assert not stream.begun
            await stream.receive_batch()
            assert stream.begun
            (row,) = desk.manager.store._rows
        async with desk.subscribe(row) as stream:
            await stream.receive_batch()
            assert stream.begun


@pytest.mark.requirement("S4-LAG-WIRE")
@within(5)
async def test_a_cut_off_reader_is_told_to_subscribe_again(autojump_clock):
    async def agent(_context, updater):
        await updater.start_work()
        for number in range(2500):
            await updater.add_artifact(str(number), artifact_id="one")
        await updater.complete()

    async with open_desk(agent) as desk, desk.stream() as stream:
        events = Stream(stream)
        await events.next()
        await trio.sleep(2)
        with pytest.raises(InternalError) as caught:
            while True:
                await events.next()
        assert caught.value.metadata == {"retry": "subscribe"}
        assert "lag" not in caught.value.message


# -------------------------------------------------------------------------------------------------------- after the end


@within(5)
async def test_a_task_whose_queue_is_idle_is_taken_up_again_by_each_operation(autojump_clock):
    async with open_desk(ask) as desk:
        for call in (desk.get, desk.cancel):
            task = await desk.send()
            await desk.manager.close(task.id)
            assert desk.manager.statistics().queues == 0
            await call(task.id)
        task = await desk.send()
        await desk.manager.close(task.id)
        assert state_of(await desk.send(task_id=task.id)) == "INPUT_REQUIRED"
        await desk.manager.close(task.id)
        async with desk.subscribe(task.id) as stream:
            assert state_of(await Stream(stream).next()) == "INPUT_REQUIRED"


@within(5)
async def test_a_task_of_an_earlier_process_can_be_cancelled(autojump_clock):
    async with open_desk(ask) as desk:
        task = await desk.send()
        store = desk.manager.store
    async with open_desk(ask, store=store) as desk:
        assert (await desk.cancel(task.id)).status.state is TaskState.CANCELED
        with pytest.raises(TaskNotCancelableError):
            await desk.cancel(task.id)
