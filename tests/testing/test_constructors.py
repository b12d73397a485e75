"""The short constructors."""

from datetime import UTC, datetime

import pytest

from trio_a2a.testing import artifact, message, status, task
from trio_a2a.types import Part, Role, TaskState


@pytest.mark.requirement("S7-TESTING")
def test_a_status_in_one_line() -> None:
    event = status("t", TaskState.WORKING)
    assert (event.task_id, event.status.state, event.status.message) == ("t", TaskState.WORKING, None)
    at = datetime(2024, 1, 1, tzinfo=UTC)
    event = status("t", TaskState.FAILED, "no luck", context_id="c", timestamp=at, metadata={"a": 1})
    assert event.status.message is not None
    assert event.status.message.text() == "no luck"
    assert event.status.message.role is Role.AGENT
    assert (event.context_id, event.status.timestamp, event.metadata) == ("c", at, {"a": 1})


@pytest.mark.requirement("S7-TESTING")
def test_an_artifact_in_one_line() -> None:
    event = artifact("t", "some text")
    assert event.artifact.text() == "some text"
    assert not event.append
    event = artifact("t", Part(data=[1]), artifact_id="a", name="n", append=True, last_chunk=True, metadata={"k": 1})
    assert event.artifact.parts[0].value == [1]
    assert (event.artifact.artifact_id, event.artifact.name, event.artifact.metadata) == ("a", "n", {"k": 1})
    assert event.append
    assert event.last_chunk


@pytest.mark.requirement("S7-TESTING")
def test_a_task_and_a_message_in_one_line() -> None:
    said = message("hi", role=Role.USER, message_id="m", task_id="t")
    assert (said.text(), said.role, said.message_id, said.task_id) == ("hi", Role.USER, "m", "t")
    assert message().message_id != message().message_id
    made = task("t", TaskState.COMPLETED, "done", history=[said], artifacts=[artifact("t").artifact])
    assert made.status.message is not None
    assert (made.id, made.status.state, made.status.message.text()) == ("t", TaskState.COMPLETED, "done")
    assert made.history == (said,)
    assert task("t").status.message is None


@pytest.mark.requirement("S7-TESTING")
def test_what_belongs_together_has_one_context() -> None:
    assert len({made.context_id for made in (task("t"), status("t"), artifact("t"), message())}) == 1
