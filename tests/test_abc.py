"""The records that pass through what users implement, and the Protocols' outer form."""

import inspect

import attrs
import pytest

from trio_a2a import abc
from trio_a2a.abc import (
    CloseReason,
    Envelope,
    EventLog,
    StoredTask,
    TaskChange,
    TaskStateProvider,
    TaskStore,
)
from trio_a2a.streams import open_queue_manager
from trio_a2a.streams.hooks import NoOpHook
from trio_a2a.testing import artifact, message, task


@pytest.mark.requirement("S3-ENCODED-ONCE")
def test_an_envelope_remembers_what_each_encoder_made() -> None:
    calls = []

    def encoder(event: object) -> bytes:
        calls.append(event)
        return b"x"

    event = artifact("t")
    envelope = Envelope(3, event)
    assert envelope.encoded(encoder) is envelope.encoded(encoder)
    assert calls == [event]
    assert repr(envelope) == "<Envelope 3 TaskArtifactUpdateEvent>"


@pytest.mark.requirement("S3-ENCODED-ONCE")
def test_an_encoder_that_fails_is_asked_again() -> None:
    outcomes = [ValueError("first"), b"second"]

    def encoder(event: object) -> bytes:
        outcome = outcomes.pop(0)
        if isinstance(outcome, ValueError):
            raise outcome
        return outcome

    envelope = Envelope(0, message())
    with pytest.raises(ValueError, match="first"):
        envelope.encoded(encoder)
    assert envelope.encoded(encoder) == b"second"


@pytest.mark.requirement("S4-TASK-CHANGE")
def test_a_change_asks_for_its_snapshot_only_when_it_is_asked_for_it() -> None:
    asked = []
    after = task("t")

    def snapshot() -> object:
        asked.append(1)
        return after

    change = TaskChange(task_id="t", sequence=1, event=after, snapshot=snapshot)  # type: ignore[arg-type]
    assert (change.owner, change.tenant) == ("", "")
    assert repr(change) == "<TaskChange 't' 1 Task>"
    assert asked == []
    assert change.snapshot() is after


@pytest.mark.requirement("S4-STORE")
def test_a_stored_task_is_a_frozen_record() -> None:
    stored = StoredTask(task=task("t"), sequence=1)
    assert (stored.owner, stored.tenant, stored.finalized_at) == ("", "", None)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        stored.sequence = 2  # type: ignore[misc]


@pytest.mark.requirement("S4-CLOSE-REASON")
def test_the_close_reasons_are_those_of_the_design() -> None:
    assert [reason.name for reason in CloseReason] == [
        "CONSUMER",
        "HANDLE",
        "FINAL",
        "LAGGED",
        "STORE_FAILURE",
        "INTERNAL",
        "SHUTDOWN",
    ]


@pytest.mark.requirement("S2-ABC")
@pytest.mark.parametrize("protocol", [TaskStore, EventLog, TaskStateProvider, abc.TaskStreamLifecycleHook])
def test_every_method_that_a_user_writes_is_a_coroutine_function_with_its_obligations(protocol: type) -> None:
    methods = [member for name, member in vars(protocol).items() if inspect.isfunction(member) and name[0] != "_"]
    assert methods
    for method in methods:
        assert inspect.iscoroutinefunction(method)
        assert inspect.getdoc(method)
    assert inspect.getdoc(protocol)


@pytest.mark.requirement("S4-STORE")
async def test_the_bodies_of_the_protocols_do_nothing_for_a_subclass_that_calls_them() -> None:
    """A store may subclass its Protocol; what it does not override is no working method."""

    class Half(TaskStore):
        pass

    assert await Half().get("t") is None
    async with open_queue_manager(hook=NoOpHook()) as manager:
        assert manager.statistics().queues == 0
