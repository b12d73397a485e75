"""Folding: what events make of a task, by the reducer of the server."""

import pytest

from tests.client.peers import open_client
from tests.deadline import within
from trio_a2a.client import InvalidResponseError, fold
from trio_a2a.testing import artifact, status
from trio_a2a.types import Message, Task, TaskState, TaskStatus

TASK = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.SUBMITTED))


@within(10)
async def test_the_events_of_a_stream_make_the_task_that_the_server_has():
    async def agent(_context, updater):
        await updater.start_work("beginning")
        for number in range(3):
            await updater.add_artifact(str(number), artifact_id="n", append=number > 0)
        await updater.complete("done")

    async with open_client(agent, "JSONRPC") as client:
        async with client.stream("x") as events:
            seen = [event async for event in events]
        assert fold(seen) == events.task == await client.get_task(events.task.id)


def test_it_goes_on_from_a_task_and_passes_direct_replies_over():
    events = [status("t", TaskState.WORKING), Message.agent("hi"), artifact("t", "a", artifact_id="a")]
    task = fold(events, TASK)
    assert task.status.state is TaskState.WORKING
    assert task.artifacts[0].text() == "a"
    assert fold([Message.agent("hi")]) is None
    assert fold([], TASK) == TASK
    assert fold([status("t", TaskState.UNSPECIFIED)]) is None  # of a later version, and nothing is known yet


@pytest.mark.requirement("C-074")
def test_a_task_is_known_without_the_statuses_in_between():
    """Servers may leave some out, and a snapshot stands for all that was before it."""
    done = status("t", TaskState.COMPLETED, "done")
    whole = fold([TASK, status("t", TaskState.WORKING, "1"), status("t", TaskState.WORKING, "2"), done])
    assert fold([TASK, done]).status == whole.status == fold([done]).status
    assert fold([status("t", TaskState.WORKING), whole]) == whole


@pytest.mark.parametrize(
    "events",
    [
        [TASK, status("other", TaskState.WORKING)],
        [TASK, status("t", TaskState.COMPLETED), status("t", TaskState.WORKING)],
    ],
)
def test_what_cannot_follow_is_an_error(events):
    with pytest.raises(InvalidResponseError):
        fold(events)
