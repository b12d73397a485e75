"""The reducer: a pure function, compared with a naive model that folds frozen tasks."""

from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from trio_a2a.errors import InvalidAgentResponseError, TaskTerminalError
from trio_a2a.streams import TaskIdMismatchError
from trio_a2a.streams.reducer import MAY_FOLLOW, ArtifactLog, Grown, WorkingTask, failure_update, reduce
from trio_a2a.testing import artifact, message, status, task
from trio_a2a.types import (
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

REPORTABLE = [state for state in TaskState if state is not TaskState.UNSPECIFIED]
FINAL = [state for state in REPORTABLE if state.is_final]
OPEN = [state for state in REPORTABLE if not state.is_final]

# ------------------------------------------------------------------------------------------------------ a naive model


def naive(state: Task | None, event: object) -> Task | None:
    """What the rules say, on frozen tasks, at a cost that grows with the task."""
    if isinstance(event, Message):
        return state
    if isinstance(event, Task):
        if state is not None and state.status.state.is_final:
            if event.status.state is not state.status.state:
                raise TaskTerminalError
            return state
        return event
    assert isinstance(event, TaskStatusUpdateEvent | TaskArtifactUpdateEvent)
    if state is None:
        state = Task(id=event.task_id, context_id=event.context_id, status=TaskStatus(state=TaskState.SUBMITTED))
    if isinstance(event, TaskStatusUpdateEvent):
        if state.status.state.is_final:
            if event.status.state is not state.status.state:
                raise TaskTerminalError
            return state
        said = state.status.message
        return attrs.evolve(
            state,
            status=event.status,
            history=state.history if said is None else (*state.history, said),
            metadata={**(state.metadata or {}), **event.metadata} if event.metadata else state.metadata,
        )
    by_id = {entry.artifact_id: entry for entry in state.artifacts}
    new = event.artifact
    if event.append:
        old = by_id.get(new.artifact_id)
        if old is None:
            raise InvalidAgentResponseError
        new = attrs.evolve(
            old,
            parts=(*old.parts, *new.parts),
            metadata=old.metadata if new.metadata is None else {**(old.metadata or {}), **new.metadata},
        )
    by_id[new.artifact_id] = new
    return attrs.evolve(state, artifacts=tuple(by_id.values()))


words = st.sampled_from(["a", "b", "c"])
metadata = st.none() | st.dictionaries(words, st.integers(0, 3), max_size=2)
statuses = st.builds(
    lambda state, said, extra: status("t", state, said, metadata=extra),
    # Mostly open states, so that sequences are long; a final one now and then.
    st.sampled_from([*OPEN, *OPEN, *OPEN, *FINAL]),
    st.none() | words,
    metadata,
)
artifacts = st.builds(
    lambda id_, parts, append, extra: artifact("t", parts, artifact_id=id_, append=append, metadata=extra),
    words,
    st.lists(words, min_size=1, max_size=3),
    st.booleans(),
    metadata,
)
tasks = st.builds(
    lambda state, history, ids: task(
        "t", state, history=map(message, history), artifacts=[artifact("t", "x", artifact_id=i).artifact for i in ids]
    ),
    st.sampled_from([*OPEN, *OPEN, *FINAL]),
    st.lists(words, max_size=2),
    st.lists(words, unique=True, max_size=2),
)
direct = st.builds(message, words)
events = st.one_of(statuses, artifacts, artifacts, artifacts, direct, tasks)


def both(state: WorkingTask | None, model: Task | None, event: Any) -> tuple[WorkingTask | None, Task | None]:
    """Take one step in both; a refusal must be the same in both."""
    try:
        expected = naive(model, event)
    except (TaskTerminalError, InvalidAgentResponseError) as refusal:
        with pytest.raises(type(refusal)):
            reduce(state, event)
        return state, model
    return reduce(state, event), expected


# -------------------------------------------------------------------------------------------------------- properties


@pytest.mark.requirement("I2-REDUCER", "S3-STATE", "B15", "B16")
@given(st.lists(events, max_size=40))
def test_folding_gives_what_a_naive_fold_of_frozen_tasks_gives(sequence: list[Any]) -> None:
    state, model = None, None
    for event in sequence:
        state, model = both(state, model, event)
    assert (state.task() if state is not None else None) == model


@pytest.mark.requirement("S3-STATE")
@given(st.lists(events, max_size=40), st.integers(0, 6))
def test_a_snapshot_taken_in_between_changes_nothing(sequence: list[Any], every: int) -> None:
    state, model = None, None
    for index, event in enumerate(sequence):
        state, model = both(state, model, event)
        if state is not None and every and index % every == 0:
            assert state.task() == model


@pytest.mark.requirement("S3-STATE", "B9")
@given(st.data())
def test_older_states_stay_what_they_were_when_newer_ones_were_made_from_them(data: st.DataObject) -> None:
    """After a commit that failed the processor goes on from the state before: a fork."""
    versions: list[tuple[WorkingTask | None, Task | None]] = [(None, None)]
    for _ in range(data.draw(st.integers(0, 25))):
        # Usually from the newest, sometimes from an older one.
        age = data.draw(st.sampled_from([0, 0, 0, 0, 1, 2, 5]))
        state, model = versions[max(0, len(versions) - 1 - age)]
        versions.append(both(state, model, data.draw(events)))
    order = data.draw(st.permutations(range(len(versions))))
    for index in order:
        state, model = versions[index]
        assert (state.task() if state is not None else None) == model


@pytest.mark.requirement("S3-STATE")
@given(st.data())
def test_a_grown_view_is_never_changed_by_what_is_appended_to_it_or_to_others(data: st.DataObject) -> None:
    views: list[tuple[Grown[int], list[int]]] = [(Grown(), [])]
    for number in range(data.draw(st.integers(0, 30))):
        view, model = views[data.draw(st.integers(0, len(views) - 1))]
        count = data.draw(st.integers(0, 3))
        new = [number * 10 + i for i in range(count)]
        views.append((view.appended(*new), model + new))
    for view, model in views:
        assert list(view) == model
        assert len(view) == len(model)


@pytest.mark.requirement("S3-STATE")
@given(st.data())
def test_an_artifact_log_forks_and_folds_like_plain_dicts(data: st.DataObject) -> None:
    logs: list[tuple[ArtifactLog, dict[str, Artifact]]] = [(ArtifactLog({}), {})]
    for _ in range(data.draw(st.integers(0, 30))):
        log, model = logs[data.draw(st.integers(max(0, len(logs) - 3), len(logs) - 1))]
        update = data.draw(artifacts)
        id_ = update.artifact.artifact_id
        assert (id_ in log) == (id_ in model)
        if update.append and id_ not in model:
            continue
        if data.draw(st.booleans()):
            assert dict(log.folded()) == model
        expected = naive(task("t", artifacts=model.values()), update)
        assert expected is not None
        logs.append((log.appended(update), {entry.artifact_id: entry for entry in expected.artifacts}))
    for log, model in logs:
        assert dict(log.folded()) == model
        assert list(log.folded()) == list(model), "artifacts are in the order in which they first came"


@settings(max_examples=30)
@given(st.integers(1, 1500), st.integers(1, 400), st.booleans())
def test_a_log_that_is_put_together_on_the_way_still_knows_what_is_in_it(count: int, every: int, fold: bool) -> None:
    log = ArtifactLog({})
    for number in range(count):
        log = log.appended(artifact("t", str(number), append=number > 0))
        if fold and number % every == 0:
            log.folded()
    assert "artifact" in log
    assert "other" not in log
    assert [part.text for part in log.folded()["artifact"].parts] == [str(number) for number in range(count)]


# ------------------------------------------------------------------------------------------------------- status rules


@pytest.mark.requirement("B15", "I2-REDUCER")
def test_the_first_status_message_moves_to_the_history_when_the_next_status_comes() -> None:
    state = reduce(None, status("t", text="one"))
    assert state is not None
    assert state.task().history == ()
    state = reduce(state, status("t", text="two"))
    assert state is not None
    said = state.task()
    assert [m.text() for m in said.history] == ["one"]
    assert said.status.message is not None
    assert said.status.message.text() == "two"


@pytest.mark.requirement("B15")
def test_metadata_of_a_status_update_is_merged_key_by_key() -> None:
    state = reduce(None, status("t", metadata={"a": 1, "b": {"deep": 1}}))
    state = reduce(state, status("t"))
    state = reduce(state, status("t", metadata={"b": 2, "c": 3}))
    assert state is not None
    assert state.task().metadata == {"a": 1, "b": 2, "c": 3}


@pytest.mark.requirement("B15")
def test_a_task_without_metadata_keeps_none() -> None:
    state = reduce(reduce(None, status("t")), status("t", metadata={}))
    assert state is not None
    assert state.task().metadata is None


@pytest.mark.requirement("B15", "S4-LATE-UNKNOWN")
@pytest.mark.parametrize("event", [status("t", TaskState.WORKING), artifact("t", "x")], ids=["status", "artifact"])
def test_an_update_of_a_task_that_is_not_there_makes_it_as_if_submitted(event: Any) -> None:
    state = reduce(None, event)
    assert state is not None
    assert state.id == "t"
    assert state.context_id == "context"
    if isinstance(event, TaskArtifactUpdateEvent):
        assert state.status.state is TaskState.SUBMITTED


@pytest.mark.requirement("B17")
def test_a_missing_context_is_adopted_from_the_event() -> None:
    state = reduce(reduce(None, task("t", context_id="")), status("t", context_id="c"))
    assert state is not None
    assert state.context_id == "c"


@pytest.mark.requirement("B17")
def test_a_context_that_is_known_is_kept() -> None:
    state = reduce(reduce(None, task("t", context_id="c")), status("t", context_id="other"))
    assert state is not None
    assert state.context_id == "c"
    state = reduce(state, task("t", context_id=""))
    assert state is not None
    assert state.context_id == "c"


@pytest.mark.requirement("B17", "S4-MISMATCH")
@pytest.mark.parametrize("event", [task("x"), status("x"), artifact("x")], ids=["task", "status", "artifact"])
def test_an_event_of_another_task_is_refused(event: Any) -> None:
    state = reduce(None, task("t"))
    with pytest.raises(TaskIdMismatchError):
        reduce(state, event)


@pytest.mark.requirement("I2-REDUCER")
@pytest.mark.parametrize("event", [task("t", TaskState.UNSPECIFIED), status("t", TaskState.UNSPECIFIED)])
def test_a_status_without_a_state_is_the_agents_fault(event: Any) -> None:
    with pytest.raises(InvalidAgentResponseError):
        reduce(None, event)


# ------------------------------------------------------------------------------------------------------ terminal rules


@pytest.mark.requirement("B16", "S4-TERMINAL", "I2-REDUCER")
@pytest.mark.parametrize("final", FINAL)
def test_no_other_state_follows_a_terminal_one(final: TaskState) -> None:
    state = reduce(None, status("t", final, "the end"))
    assert state is not None
    before = state.task()
    for other in REPORTABLE:
        if other is final:
            continue
        for event in (status("t", other), task("t", other)):
            with pytest.raises(TaskTerminalError):
                reduce(state, event)
    assert state.task() == before


@pytest.mark.requirement("B16", "S4-TERMINAL")
@pytest.mark.parametrize("final", FINAL)
def test_the_same_terminal_state_again_is_a_replay_that_changes_nothing(final: TaskState) -> None:
    state = reduce(None, status("t", final, "the end"))
    again = reduce(state, status("t", final, "once more", metadata={"k": 1}))
    assert state is not None
    assert again is not None
    assert again.task() == state.task()


@pytest.mark.requirement("B16")
def test_an_artifact_is_accepted_after_the_end() -> None:
    state = reduce(reduce(None, status("t", TaskState.COMPLETED)), artifact("t", "late"))
    assert state is not None
    assert [entry.text() for entry in state.task().artifacts] == ["late"]
    assert state.is_final


@pytest.mark.requirement("I2-REDUCER")
def test_the_state_table_lets_any_reportable_state_follow_an_open_one() -> None:
    assert set(MAY_FOLLOW) == set(TaskState)
    for state in TaskState:
        expected = {state} if state.is_final else set(REPORTABLE)
        assert MAY_FOLLOW[state] == expected


# ------------------------------------------------------------------------------------------------------ artifact rules


@pytest.mark.requirement("I2-REDUCER")
def test_an_artifact_without_append_replaces_the_one_with_its_id_in_its_place() -> None:
    state = None
    for event in (
        artifact("t", "one", artifact_id="a"),
        artifact("t", "two", artifact_id="b"),
        artifact("t", "three", artifact_id="a"),
    ):
        state = reduce(state, event)
    assert state is not None
    assert [(entry.artifact_id, entry.text()) for entry in state.task().artifacts] == [("a", "three"), ("b", "two")]


@pytest.mark.requirement("I2-REDUCER")
def test_appended_parts_stay_separate_and_metadata_is_merged() -> None:
    state = reduce(None, artifact("t", "one", name="doc", metadata={"a": 1, "b": 1}))
    state = reduce(state, artifact("t", ["two", Part(data={"x": 1})], append=True, metadata={"b": 2}))
    assert state is not None
    (entry,) = state.task().artifacts
    assert [part.kind for part in entry.parts] == ["text", "text", "data"]
    assert entry.name == "doc"
    assert entry.metadata == {"a": 1, "b": 2}


@pytest.mark.requirement("I2-REDUCER")
def test_a_chunk_of_an_artifact_that_is_not_there_is_the_agents_fault() -> None:
    """Protocol section 4.3: the server treats it as an agent error (A-62)."""
    with pytest.raises(InvalidAgentResponseError):
        reduce(None, artifact("t", "x", append=True))
    with pytest.raises(InvalidAgentResponseError):
        reduce(reduce(None, artifact("t", "x", artifact_id="a")), artifact("t", "x", artifact_id="b", append=True))


@pytest.mark.requirement("I2-REDUCER")
def test_an_artifact_without_parts_is_the_agents_fault() -> None:
    with pytest.raises(InvalidAgentResponseError):
        reduce(None, artifact("t", []))


# --------------------------------------------------------------------------------------------- messages of the user


@pytest.mark.requirement("B19", "S3-FOLLOW-UP")
def test_a_follow_up_goes_behind_the_status_message_that_it_answers() -> None:
    asked = message("which one?")
    answer = message("the blue one")
    state = reduce(None, attrs.evolve(status("t", TaskState.INPUT_REQUIRED), status=_asking(asked)))
    for event in (status("t", text="on it"), artifact("t", "x")):
        new = reduce(state, event, answer)
        assert new is not None
        assert new.task().history == (asked, answer)


@pytest.mark.requirement("B19")
def test_an_artifact_that_begins_a_follow_up_clears_the_answered_status_message_and_keeps_its_time() -> None:
    state = reduce(None, attrs.evolve(status("t", TaskState.INPUT_REQUIRED), status=_asking(message("?"))))
    new = reduce(state, artifact("t", "x"), message("!"))
    assert state is not None
    assert new is not None
    assert new.status.message is None
    assert new.status.state is TaskState.INPUT_REQUIRED
    assert new.status.timestamp == state.status.timestamp


@pytest.mark.requirement("D13", "S3-FOLLOW-UP")
@pytest.mark.parametrize("event", [task("t"), status("t"), artifact("t")], ids=["task", "status", "artifact"])
def test_the_first_message_of_a_new_task_is_in_its_history(event: Any) -> None:
    first = message("hello")
    state = reduce(None, event, first)
    assert state is not None
    assert state.task().history == (first,)


@pytest.mark.requirement("S3-FOLLOW-UP")
def test_a_task_that_brings_the_users_message_along_does_not_get_it_twice() -> None:
    first = message("hello")
    state = reduce(None, task("t", history=[first]), first)
    assert state is not None
    assert state.task().history == (first,)


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.requirement("B18", "S4-ERROR-EVENT", "I2-REDUCER")
def test_an_error_becomes_a_failed_update_whose_message_is_its_text() -> None:
    state = reduce(None, status("t", text="working"))
    assert state is not None
    at = datetime(2024, 1, 2, 3, tzinfo=UTC)
    update = failure_update(state, "no luck", timestamp=at, message_id="m")
    failed = reduce(state, update)
    assert failed is not None
    result = failed.task()
    assert result.status.state is TaskState.FAILED
    assert result.status.timestamp == at
    assert result.status.message is not None
    assert result.status.message.text() == "no luck"
    assert result.status.message.task_id == "t"
    assert [m.text() for m in result.history] == ["working"]


@pytest.mark.requirement("B18")
def test_a_direct_message_changes_no_state() -> None:
    state = reduce(None, task("t"))
    assert reduce(state, message("hi")) is state
    assert reduce(None, message("hi")) is None


# --------------------------------------------------------------------------------------------------------- flat cost


@pytest.mark.requirement("S1-FLAT-COST", "S3-STATE")
def test_an_append_shares_what_was_there_instead_of_copying_it() -> None:
    """Counted, not timed: the list of updates is the same object all the way, but for the rare putting together."""
    state = reduce(None, artifact("t", "0"))
    copies = 0
    for number in range(1, 10_000):
        new = reduce(state, artifact("t", str(number), append=True))
        assert state is not None
        assert new is not None
        if new.artifacts._updates._shared is not state.artifacts._updates._shared:
            copies += 1
        state = new
    assert copies < 10, "the artifacts are put together a logarithmic number of times"
    assert state is not None
    assert len(state.task().artifacts[0].parts) == 10_000


@pytest.mark.requirement("S1-FLAT-COST")
def test_a_history_of_ten_thousand_messages_is_never_copied() -> None:
    state = reduce(None, status("t", text="0"))
    assert state is not None
    shared = state.history._shared
    for number in range(1, 10_000):
        state = reduce(state, status("t", text=str(number)))
        assert state is not None
        assert state.history._shared is shared
    assert len(state.history) == 9_999


@pytest.mark.requirement("S3-STATE")
def test_the_frozen_task_is_made_when_asked_for_and_kept() -> None:
    state = reduce(reduce(None, task("t")), artifact("t", "x"))
    assert state is not None
    assert state._task is None
    assert state.task() is state.task()


def _asking(said: Message) -> TaskStatus:
    return attrs.evolve(status("t", TaskState.INPUT_REQUIRED).status, message=said)


@pytest.mark.parametrize("state", FINAL)
def test_a_task_that_is_over_is_not_replaced_by_a_replay_of_its_end(state):
    before = reduce(None, task("t", state, "the end", history=[message("hello")]))

    assert before is not None
    assert reduce(before, Task(id="t", status=TaskStatus(state=state))) is before
