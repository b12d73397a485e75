"""Tasks, their states, and the timestamps of their statuses."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from trio_a2a.types import ListTasksRequest, Role, Task, TaskState, TaskStatus


def test_states_have_the_names_and_numbers_of_the_protocol():
    assert TaskState.COMPLETED.value == "TASK_STATE_COMPLETED"
    assert TaskState.COMPLETED.number == 3
    assert TaskState("TASK_STATE_CANCELED") is TaskState.CANCELED
    assert Role.USER.value == str(Role.USER) == "ROLE_USER"
    assert Role.AGENT.number == 2


def test_final_and_interrupted_states_are_told_apart():
    final = {TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED}
    interrupted = {TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED}
    for state in TaskState:
        assert state.is_final is (state in final)
        assert state.is_interrupted is (state in interrupted)


def test_a_status_wants_a_state():
    with pytest.raises(TypeError, match=r"TaskStatus\.state is to be TaskState, got str"):
        TaskStatus(state="TASK_STATE_WORKING")


def test_naive_timestamp_is_refused():
    with pytest.raises(ValueError, match="needs a time zone"):
        TaskStatus(state=TaskState.WORKING, timestamp=datetime(2026, 3, 14))  # noqa: DTZ001
    with pytest.raises(ValueError, match="needs a time zone"):
        ListTasksRequest(status_timestamp_after=datetime(2026, 3, 14))  # noqa: DTZ001


@pytest.mark.parametrize("value", ["2026-03-14T09:02:01Z", 1773479000, 1.5])
def test_a_timestamp_is_a_datetime(value):
    with pytest.raises(TypeError, match="aware datetime"):
        TaskStatus(state=TaskState.WORKING, timestamp=value)


def test_timestamps_are_cut_to_milliseconds():
    status = TaskStatus(state=TaskState.WORKING, timestamp=datetime(2026, 3, 14, 9, 2, 1, 999_999, tzinfo=UTC))
    assert status.timestamp == datetime(2026, 3, 14, 9, 2, 1, 999_000, tzinfo=UTC)


def test_timestamps_before_1970_are_cut_downwards_too():
    status = TaskStatus(state=TaskState.WORKING, timestamp=datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
    assert status.timestamp == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


@pytest.mark.requirement("C-004")
def test_other_zones_become_utc():
    east = timezone(timedelta(hours=2))
    status = TaskStatus(state=TaskState.WORKING, timestamp=datetime(2026, 3, 14, 11, 0, tzinfo=east))
    assert status.timestamp == datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
    assert status.timestamp.tzinfo is UTC


def test_a_subclass_of_datetime_becomes_a_plain_one():
    class Stamp(datetime):
        pass

    status = TaskStatus(state=TaskState.WORKING, timestamp=Stamp(2026, 3, 14, tzinfo=UTC))
    assert type(status.timestamp) is datetime


def test_a_timestamp_that_leaves_the_calendar_in_utc_is_refused():
    west, east = timezone(timedelta(hours=-2)), timezone(timedelta(hours=2))
    for moment in (datetime(9999, 12, 31, 23, 0, tzinfo=west), datetime(1, 1, 1, 1, 0, tzinfo=east)):
        with pytest.raises(ValueError, match="out of range"):
            TaskStatus(state=TaskState.WORKING, timestamp=moment)


def test_a_task_holds_tuples():
    task = Task(id="t", status=TaskStatus(state=TaskState.WORKING), history=[], artifacts=[])
    assert (task.history, task.artifacts, task.metadata, task.context_id) == ((), (), None, "")
