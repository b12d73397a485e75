"""When the SQL store takes snapshots: at changes of the state and at numbers of events, and never too often."""

import itertools

import pytest

from tests.deadline import within
from tests.stores.test_sql_tasks import execute
from tests.stores.writers import TaskWriter
from trio_a2a.stores import open_sql_store
from trio_a2a.stores.sql import schedule as module
from trio_a2a.stores.sql.schedule import SnapshotSchedule
from trio_a2a.testing import artifact, status, task
from trio_a2a.types import TaskState

WORKING, ASKING, DONE = TaskState.WORKING, TaskState.INPUT_REQUIRED, TaskState.COMPLETED


def begun(sequence: int = 1) -> SnapshotSchedule:
    """A schedule that has seen the task's first event, or is told of it later on."""
    schedule = SnapshotSchedule()
    assert not schedule.after_status("t", sequence, WORKING)
    return schedule


def test_a_change_of_the_state_is_a_reason_and_a_repeat_of_it_is_none() -> None:
    schedule = begun()
    assert not schedule.after_status("t", 30, WORKING)
    assert schedule.after_status("t", 31, ASKING)


def test_a_change_among_the_first_events_is_no_reason() -> None:
    """They are read faster than a snapshot is written."""
    schedule = begun()
    assert not schedule.after_status("t", 15, ASKING)
    assert schedule.after_status("t", 16, WORKING)


def test_a_task_whose_state_changes_with_every_event_has_few_snapshots() -> None:
    """Otherwise each event of a long task would cost as much as the task is long."""
    schedule = begun()
    taken = []
    for sequence in range(2, 10_001):
        due = schedule.after_event("t", sequence)
        if schedule.after_status("t", sequence, ASKING if sequence % 2 else WORKING) or due:
            taken.append(sequence)
    assert sum(taken) <= 10_000 * 10 / 3
    assert taken[0] == 16
    assert all(later <= 4 * earlier for earlier, later in itertools.pairwise(taken))


def test_the_end_is_always_a_reason() -> None:
    schedule = begun()
    assert schedule.after_status("t", 2, DONE)
    assert schedule.after_status("t", 3, DONE)


def test_the_number_of_events_is_a_reason_and_counts_as_a_snapshot() -> None:
    schedule = begun()
    assert [number for number in range(1, 5000) if schedule.after_event("t", number)] == [64, 256, 1024, 4096]
    assert not schedule.after_status("t", 5000, ASKING)


def test_of_a_task_that_is_not_known_the_first_status_is_no_reason() -> None:
    """A process that comes to know many long tasks again does not write all of them for it."""
    schedule = begun(1000)
    assert not schedule.after_status("t", 1001, ASKING)
    assert not schedule.after_status("t", 1999, WORKING)
    assert schedule.after_status("t", 2000, ASKING)


def test_a_task_that_is_made_anew_begins_anew() -> None:
    schedule = begun()
    assert schedule.after_status("t", 500, ASKING)
    assert not schedule.after_status("t", 1, WORKING)
    assert schedule.after_status("t", 20, ASKING)


def test_only_so_many_tasks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_TASKS", 2)
    schedule = begun()
    for other in ("u", "v"):
        schedule.after_status(other, 1, WORKING)
    assert not schedule.after_status("t", 100, ASKING), "it was forgotten"
    assert schedule.after_status("v", 100, ASKING)


@within(30)
async def test_a_task_that_waits_for_its_user_is_its_snapshot(url: str) -> None:
    """Nothing is folded when it is taken up again, in this process or another one."""
    writer = TaskWriter("t")
    async with open_sql_store(url) as store:
        await store.commit([writer.change(task("t", WORKING))])
        await store.commit([writer.change(artifact("t", f"{n}", append=n > 0)) for n in range(20)])
        await store.commit([writer.change(status("t", WORKING))])
        assert execute(url, "SELECT sequence FROM a2a_snapshots") == []
        await store.commit([writer.change(status("t", ASKING))])
        assert execute(url, "SELECT sequence FROM a2a_snapshots") == [(23,)]
        await store.commit([writer.change(status("t", WORKING))])
        assert execute(url, "SELECT sequence FROM a2a_snapshots") == [(23,)]
        stored = await store.get("t")
        assert stored is not None
        assert stored.task == writer.task
