"""What an agent is told about the message that it handles."""

import pytest
import trio

from tests.agents.desk import open_desk, start, texts
from tests.deadline import within
from trio_a2a.agents import RequestContext
from trio_a2a.agents.context import ANONYMOUS
from trio_a2a.server import NamedPrincipal
from trio_a2a.types import Message, Part, Role, SendMessageConfiguration, TaskState


class Asked:
    """An agent that keeps its contexts and leaves its tasks open."""

    def __init__(self) -> None:
        self.contexts: list[RequestContext] = []

    async def execute(self, context, updater):
        self.contexts.append(context)
        await updater.require_input(f"answer {len(self.contexts)}")


@pytest.mark.requirement("S5-CONTEXT")
def test_the_text_of_a_context_is_that_of_the_message_s_text_parts():
    message = Message.user(["one", Part(data={"a": 1}), "two"])
    context = RequestContext(message=message, task=None, task_id="t", context_id="c")
    assert context.text() == "one\ntwo"
    assert context.text(" ") == "one two"


def test_a_context_without_a_message_has_no_text():
    """As in `cancel`."""
    assert RequestContext(message=None, task=None, task_id="t", context_id="c").text() == ""


def test_the_anonymous_principal_has_the_empty_id():
    assert ANONYMOUS.id == ""
    assert RequestContext(message=None, task=None, task_id="t", context_id="c").principal is ANONYMOUS


@within(5)
async def test_a_message_that_begins_something_new_has_no_task_and_gets_ids_of_its_own(autojump_clock):
    agent = Asked()
    async with open_desk(agent) as desk:
        first, second = await desk.send("one"), await desk.send("two")
    one, two = agent.contexts
    assert one.task is None
    assert one.task_id == first.id
    assert one.context_id == first.context_id
    assert one.message.task_id == one.task_id
    assert one.message.context_id == one.context_id
    assert one.message.role is Role.USER
    assert len({one.task_id, two.task_id, one.context_id, two.context_id}) == 4
    assert two.task_id == second.id


@within(5)
async def test_the_caller_s_context_id_is_kept(autojump_clock):
    """A-50: any non-empty value is taken."""
    agent = Asked()
    async with open_desk(agent) as desk:
        task = await desk.send(context_id="a conversation of the client's")
    assert task.context_id == agent.contexts[0].context_id == "a conversation of the client's"


@within(5)
async def test_the_context_of_a_follow_up_is_that_of_its_task(autojump_clock):
    """The task's context is inferred where the message names only the task."""
    agent = Asked()
    async with open_desk(agent) as desk:
        task = await desk.send("one")
        await desk.send("two", task_id=task.id)
    follow_up = agent.contexts[1]
    assert follow_up.task_id == task.id
    assert follow_up.context_id == follow_up.message.context_id == task.context_id


@pytest.mark.requirement("S5-CONTEXT")
@within(5)
async def test_a_follow_up_sees_the_task_as_it_is_when_its_turn_comes(autojump_clock):
    seen = []

    async def agent(context, updater):
        seen.append(context.task)
        await updater.start_work()
        await trio.sleep(2)
        await updater.require_input("and now?")

    async with open_desk(agent) as desk, trio.open_nursery() as nursery:
        first = await desk.send("one", immediately=True)
        second = start(nursery, desk.send, "two", task_id=first.id)
        await second.result()
    assert first.status.state is not TaskState.INPUT_REQUIRED
    assert seen[0] is None
    assert seen[1].status.state is TaskState.INPUT_REQUIRED
    assert seen[1].status.message.text() == "and now?"
    assert texts(seen[1].history) == ["one"]


@pytest.mark.requirement("S5-CONTEXT")
@within(5)
async def test_what_came_with_the_request_is_in_the_context(autojump_clock):
    agent = Asked()
    who = NamedPrincipal("ann")
    async with open_desk(agent) as desk:
        await desk.send(metadata={"k": [1]}, extensions=("urn:x",), tenant="acme", principal=who, history_length=3)
        await desk.send()
    context, plain = agent.contexts
    assert context.metadata == {"k": [1]}
    assert context.extensions == ("urn:x",)
    assert context.tenant == "acme"
    assert context.principal is who
    assert context.configuration == SendMessageConfiguration(history_length=3)
    assert plain.metadata == {}
    assert plain.extensions == ()
    assert plain.tenant == ""


@pytest.mark.requirement("S5-CONTEXT")
@within(5)
async def test_related_tasks_are_those_that_the_message_names_and_the_caller_may_see(autojump_clock):
    agent = Asked()
    ann, bob = NamedPrincipal("ann"), NamedPrincipal("bob")
    async with open_desk(agent) as desk:
        one = await desk.send(principal=ann)
        two = await desk.send(principal=ann)
        hidden = await desk.send(principal=bob)
        named = (two.id, "no-such-task", hidden.id, one.id, two.id)
        await desk.send(Message.user("see these", reference_task_ids=named), principal=ann)
    assert [task.id for task in agent.contexts[-1].related_tasks] == [two.id, one.id]
    assert agent.contexts[0].related_tasks == ()


@within(5)
async def test_a_related_task_that_cannot_be_read_is_an_internal_error_without_detail(autojump_clock, caplog):
    from trio_a2a.errors import InternalError
    from trio_a2a.testing import FlakyStore

    store = FlakyStore()
    async with open_desk(Asked(), store=store) as desk:
        store.unreadable = True
        with pytest.raises(InternalError) as caught:
            await desk.send(Message.user("see this", reference_task_ids=("some-task",)))
        assert caught.value.message == "Internal error"
        assert desk.manager.statistics().queues == 0
