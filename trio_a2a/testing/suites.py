"""The suites for task stores and event logs.

It is past 400 lines because the obligations of one Protocol belong side by side.

Every check gets a store of its own. The suites set no deadline, because a store may work in threads and then Trio's
autojump clock would jump over it: run them under ``trio.fail_after``.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Protocol

import attrs
import trio
import trio.testing

from ..abc import EventLog, StoredTask, StreamEvent, TaskChange, TaskStore
from ..errors import TaskConflictError
from ..streams.reducer import WorkingTask, reduce
from ..types import ListTasksRequest, Part, Role, Task, TaskState
from .constructors import artifact, message, status, task

__all__ = ["check_event_log", "check_task_store"]

_START = datetime(2024, 5, 1, 12, tzinfo=UTC)


class _LoggingStore(TaskStore, EventLog, Protocol):
    pass


class _Writer:
    """Folds events as the stream core does, and makes the changes that it would commit."""

    def __init__(self, task_id: str, *, owner: str = "", tenant: str = "") -> None:
        self.task_id = task_id
        self.owner = owner
        self.tenant = tenant
        self.state: WorkingTask | None = None
        self.sequence = 0

    def change(self, event: StreamEvent) -> TaskChange:
        state = self.state = reduce(self.state, event)
        assert state is not None, "the suite's own events make a task"
        self.sequence += 1
        return TaskChange(
            task_id=self.task_id,
            sequence=self.sequence,
            event=event,
            snapshot=state.task,
            owner=self.owner,
            tenant=self.tenant,
        )

    @property
    def task(self) -> Task:
        assert self.state is not None, "the suite asks for a task that it has made"
        return self.state.task()


def _rich_task(task_id: str) -> Task:
    """A task with something of everything that can be in one."""
    return task(
        task_id,
        TaskState.INPUT_REQUIRED,
        "which one? ünïcödé \N{SNOWMAN} \N{EGG} \x00",
        timestamp=_START + timedelta(milliseconds=123),
        history=(
            message("first", role=Role.USER, task_id=task_id, metadata={"deep": {"list": [1, 2.5, None, True, "x"]}}),
            message([Part(data=None), Part(data={"a": []}), Part(text="")]),
        ),
        artifacts=(
            artifact(task_id, [Part(raw=b"\x00\xff", media_type="application/octet-stream", filename="b")]).artifact,
            artifact(task_id, Part(url="https://example.com/x?a=1"), artifact_id="other", name="named").artifact,
        ),
        metadata={"https://example.com/extension": {"large": 2**53 - 1, "empty": {}}},
    )


async def check_task_store(open_store: Callable[[], AbstractAsyncContextManager[TaskStore]]) -> None:
    """Check that a store meets the obligations of `TaskStore`.

    Args:
        open_store: Returns an async context manager whose value is a fresh, empty store.

    Raises:
        AssertionError: The store breaks an obligation; the text says which.
    """
    for check in (
        _unknown_tasks,
        _what_is_committed_is_read,
        _a_rich_task_comes_back_whole,
        _conflicts,
        _all_or_none,
        _racing_writers,
        _finalized_at,
        _deleting,
        _cancelled_commits,
        _listing_filters,
        _listing_pages,
        _checkpoints,
    ):
        async with open_store() as store:
            await check(store)


async def check_event_log(open_store: Callable[[], AbstractAsyncContextManager[_LoggingStore]]) -> None:
    """Check that a store which is an event log too meets the obligations of `EventLog`.

    Args:
        open_store: Returns an async context manager whose value is a fresh, empty store with an `EventLog`.

    Raises:
        AssertionError: The log breaks an obligation; the text says which.
    """
    async with open_store() as store:
        writer, other = _Writer("t"), _Writer("other")
        events: list[StreamEvent] = [
            task("t"),
            status("t", TaskState.WORKING, "on it", timestamp=_START),
            artifact("t", "one"),
            artifact("t", "two", append=True, last_chunk=True),
            status("t", TaskState.COMPLETED),
        ]
        assert not await store.events("t", 0), "an unknown task has no events"
        await store.commit([writer.change(event) for event in events[:2]])
        await store.commit([other.change(task("other")), *map(writer.change, events[2:])])
        for after in range(len(events) + 2):
            got = await store.events("t", after)
            numbers = [envelope.sequence for envelope in got]
            expected = list(range(after + 1, len(events) + 1))
            assert numbers == expected, f"events after {after} are numbered {expected}, not {numbers}"
            assert [envelope.event for envelope in got] == events[after:], "the log returns the events as they were"
        with _expect_conflict("a log refuses what the store refuses"):
            await store.commit([other.change(status("other")), _Writer("t").change(task("t"))])
        assert len(await store.events("t", 0)) == len(events), "a refused commit leaves nothing in the log"
        assert len(await store.events("other", 0)) == 1, "a refused commit leaves nothing in the log"
        await store.delete("t")
        assert not await store.events("t", 0), "the log of a deleted task is gone"
        assert len(await store.events("other", 0)) == 1, "the log of another task stays"


# ------------------------------------------------------------------------------------------------------ single checks


async def _unknown_tasks(store: TaskStore) -> None:
    assert await store.get("unknown") is None, "get() of an unknown task returns None"
    await store.delete("unknown")
    assert await _list(store) == ([], 0), "an empty store lists nothing"


async def _what_is_committed_is_read(store: TaskStore) -> None:
    writer = _Writer("t", owner="alice", tenant="acme")
    await store.commit([writer.change(task("t"))])
    _compare(await store.get("t"), writer)
    await store.commit([writer.change(status("t", text="working")), writer.change(artifact("t", "one"))])
    _compare(await store.get("t"), writer)
    other = _Writer("other")
    await store.commit(
        [
            writer.change(artifact("t", "two", append=True)),
            other.change(status("other")),
            writer.change(status("t", TaskState.INPUT_REQUIRED, "more?")),
            other.change(artifact("other", "x")),
        ]
    )
    _compare(await store.get("t"), writer)
    _compare(await store.get("other"), other)
    assert await store.get("T") is None, "task ids are case-sensitive"
    # Databases may compare otherwise: MySQL's usual collations ignore blanks at the end, others accents.
    for like in ("t ", " t", "t\N{COMBINING ACUTE ACCENT}"):
        assert await store.get(like) is None, f"task ids are compared character by character: {like!r} is not 't'"


async def _a_rich_task_comes_back_whole(store: TaskStore) -> None:
    task_id = "with spaces/slashes?and=%20\N{SNOWMAN}"
    writer = _Writer(task_id)
    await store.commit([writer.change(_rich_task(task_id))])
    _compare(await store.get(task_id), writer)


async def _conflicts(store: TaskStore) -> None:
    writer = _Writer("t")
    await store.commit([writer.change(task("t")), writer.change(status("t"))])
    before = await store.get("t")
    for sequence in (0, 1, 2, 4, 100):
        change = TaskChange(task_id="t", sequence=sequence, event=artifact("t"), snapshot=lambda: writer.task)
        with _expect_conflict(f"event {sequence} of a task that is at event 2 is a TaskConflictError"):
            await store.commit([change])
    for sequence in (0, 2):
        change = TaskChange(task_id="new", sequence=sequence, event=task("new"), snapshot=lambda: task("new"))
        with _expect_conflict(f"event {sequence} of a task that is not stored is a TaskConflictError"):
            await store.commit([change])
    assert await store.get("t") == before, "a conflict changes nothing"
    assert await store.get("new") is None, "a conflict makes no task"


async def _all_or_none(store: TaskStore) -> None:
    good, stale = _Writer("good"), _Writer("stale")
    await store.commit([stale.change(task("stale"))])
    before = await store.get("stale")
    with _expect_conflict("a commit with one stale change is a TaskConflictError"):
        await store.commit(
            [
                good.change(task("good")),
                stale.change(status("stale")),
                TaskChange(task_id="stale", sequence=2, event=artifact("stale"), snapshot=lambda: stale.task),
            ]
        )
    assert await store.get("good") is None, "of a refused commit nothing is stored"
    assert await store.get("stale") == before, "of a refused commit nothing is stored"


async def _racing_writers(store: TaskStore) -> None:
    outcomes: list[bool] = []

    async def write(text: str) -> None:
        change = _Writer("raced").change(artifact("raced", text))
        try:
            await store.commit([change])
        except TaskConflictError:
            outcomes.append(False)
        else:
            outcomes.append(True)

    async def write_other(number: int) -> None:
        await store.commit([_Writer(f"other-{number}").change(task(f"other-{number}"))])

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(write, str(number))
            nursery.start_soon(write_other, number)
    assert sorted(outcomes) == [False] * 4 + [True], "of several writers of one event exactly one wins"
    for number in range(5):
        assert await store.get(f"other-{number}") is not None, "writers of different tasks do not disturb each other"


async def _finalized_at(store: TaskStore) -> None:
    for state in TaskState:
        if not state.is_final:
            continue
        task_id = state.name
        writer = _Writer(task_id)
        await store.commit([writer.change(status(task_id))])
        stored = await store.get(task_id)
        assert stored is not None, "what was committed can be read"
        assert stored.finalized_at is None, "finalized_at is None before a terminal state"
        await store.commit([writer.change(status(task_id, state)), writer.change(artifact(task_id, "late"))])
        stored = await store.get(task_id)
        assert stored is not None, "what was committed can be read"
        first = stored.finalized_at
        assert isinstance(first, datetime), f"finalized_at is set when a task becomes {state.name}"
        assert first.utcoffset() == timedelta(0), "finalized_at is aware, in UTC"
        await trio.sleep(0.005)
        await store.commit([writer.change(artifact(task_id, "later")), writer.change(status(task_id, state))])
        stored = await store.get(task_id)
        assert stored is not None, "what was committed can be read"
        assert stored.finalized_at == first, "finalized_at is set once, and not moved by what follows"
    writer = _Writer("born-final")
    await store.commit([writer.change(task("born-final", TaskState.REJECTED))])
    stored = await store.get("born-final")
    assert stored is not None, "what was committed can be read"
    assert stored.finalized_at is not None, "finalized_at is set for a task that begins in a terminal state"


async def _deleting(store: TaskStore) -> None:
    writer, other = _Writer("t"), _Writer("other")
    await store.commit([writer.change(task("t")), other.change(task("other"))])
    await store.delete("t")
    assert await store.get("t") is None, "a deleted task is gone"
    assert await store.get("other") is not None, "deleting a task leaves the others"
    assert (await _list(store))[1] == 1, "a deleted task is not listed"
    await store.delete("t")
    again = _Writer("t")
    await store.commit([again.change(task("t", TaskState.WORKING))])
    _compare(await store.get("t"), again)


async def _cancelled_commits(store: TaskStore) -> None:
    writer = _Writer("t")
    first = writer.change(task("t"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.commit([first])
    stored = await store.get("t")
    at = stored.sequence if stored is not None else 0
    assert at in {0, 1}, "a cancelled commit is done or not done"
    if at == 0:
        await store.commit([first])
    await store.commit([writer.change(status("t"))])
    _compare(await store.get("t"), writer)


async def _listing_filters(store: TaskStore) -> None:
    def add(
        task_id: str, owner: str, context: str, state: TaskState, minutes: int | None, tenant: str = ""
    ) -> TaskChange:
        at = None if minutes is None else _START + timedelta(minutes=minutes)
        return _Writer(task_id, owner=owner, tenant=tenant).change(
            task(task_id, state, "said", context_id=context, timestamp=at, history=[message()])
        )

    await store.commit(
        [
            add("a", "alice", "one", TaskState.WORKING, 0),
            add("b", "alice", "one", TaskState.COMPLETED, 10),
            add("c", "alice", "two", TaskState.WORKING, 20),
            add("d", "alice", "two", TaskState.WORKING, None),
            add("e", "bob", "one", TaskState.WORKING, 30),
            add("f", "alice", "three", TaskState.FAILED, 5, tenant="acme"),
        ]
    )

    async def expect(ids: str, why: str, query: ListTasksRequest, owner: str = "alice") -> None:
        found, total = await store.list(query, owner=owner)
        got = "".join(entry.id for entry in found)
        assert got == ids, f"{why}: expected {ids!r}, got {got!r}"
        assert total == len(ids), f"{why}: {len(ids)} match, not {total}"

    since = _START + timedelta(minutes=10)
    await expect("cbfad", "an owner's tasks, newest status first, those without a time last", ListTasksRequest())
    await expect("e", "only the owner's tasks", ListTasksRequest(), owner="bob")
    await expect("", "the tasks of nobody", ListTasksRequest(), owner="")
    await expect("ba", "by context", ListTasksRequest(context_id="one"))
    await expect("cad", "by state", ListTasksRequest(status=TaskState.WORKING))
    await expect("f", "by tenant", ListTasksRequest(tenant="acme"))
    await expect("cb", "since a time, inclusive", ListTasksRequest(status_timestamp_after=since))
    await expect(
        "cb",
        "since a time, one millisecond before",
        ListTasksRequest(status_timestamp_after=since - timedelta(0, 0, 1000)),
    )
    await expect(
        "c",
        "since a time, one millisecond after",
        ListTasksRequest(status_timestamp_after=since + timedelta(0, 0, 1000)),
    )
    await expect("b", "filters combine", ListTasksRequest(context_id="one", status=TaskState.COMPLETED))
    found, _ = await store.list(ListTasksRequest(context_id="three"), owner="alice")
    stored = await store.get("f")
    assert stored is not None, "what was committed can be read"
    assert list(found) == [stored.task], "a listed task is whole: cutting history and artifacts is the caller's"


async def _listing_pages(store: TaskStore) -> None:
    count = 60
    # Every third task has no time; of the others three share each time, and ids decide.
    changes = [
        _Writer(f"task-{number:02}").change(
            task(f"task-{number:02}", timestamp=None if number % 3 == 0 else _START + timedelta(minutes=number // 9))
        )
        for number in range(count)
    ]
    await store.commit(changes)
    first, total = await _list(store)
    assert total == count, "the total counts all that match, not the page"
    assert len(first) == 50, "a page has 50 tasks unless the query says otherwise"
    whole, _ = await _list(store, page_size=100)
    key = [(entry.status.timestamp is None, entry.status.timestamp, entry.id) for entry in whole]
    timed = [(at, id_) for untimed, at, id_ in key if not untimed and at is not None]
    assert timed == sorted(timed, key=lambda pair: (_START - pair[0], pair[1])), "ties are broken by id, ascending"
    untimed_ids = [id_ for untimed, _, id_ in key if untimed]
    assert [entry[0] for entry in key] == [False] * len(timed) + [True] * len(untimed_ids), (
        "tasks without a time are last"
    )
    assert untimed_ids == sorted(untimed_ids), "tasks without a time are in the order of their ids"

    for size in (1, 7, 59, 60, 61):
        collected: list[Task] = []
        after = None
        while True:
            page, total = await _list(store, page_size=size, after=after)
            assert total == count, "the total is the same on every page"
            assert len(page) <= size, "page_size bounds a page"
            if not page:
                break
            collected += page
            after = (page[-1].status.timestamp, page[-1].id)
        assert collected == whole, f"pages of {size} make up the whole list"

    left = list(whole)
    for gone in (whole[3], whole[-3]):
        behind = left[left.index(gone) + 1 :]
        await store.delete(gone.id)
        left.remove(gone)
        page, _ = await _list(store, page_size=100, after=(gone.status.timestamp, gone.id))
        assert page == behind, "a page begins behind the last task of the one before, also when that is gone"


async def _checkpoints(store: TaskStore) -> None:
    writer = _Writer("t")
    change = writer.change(task("t"))
    calls: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("get", lambda: store.get("t")),
        ("commit", lambda: store.commit([change])),
        ("list", lambda: store.list(ListTasksRequest(), owner="")),
        ("delete", lambda: store.delete("t")),
    ]
    for name, call in calls:
        try:
            with trio.testing.assert_checkpoints():
                await call()
        except AssertionError:
            raise AssertionError(f"{name}() is a checkpoint") from None


# ------------------------------------------------------------------------------------------------------------- helpers


def _compare(stored: StoredTask | None, writer: _Writer) -> None:
    assert stored is not None, "what was committed can be read"
    assert stored.task == writer.task, "the stored task is the snapshot of its last change"
    assert stored.sequence == writer.sequence, "the stored number is that of the last change"
    assert stored.owner == writer.owner, "the owner is kept"
    assert stored.tenant == writer.tenant, "the tenant is kept"


async def _list(
    store: TaskStore, *, page_size: int | None = None, after: tuple[datetime | None, str] | None = None
) -> tuple[list[Task], int]:
    found, total = await store.list(ListTasksRequest(page_size=page_size), owner="", after=after)
    return list(found), total


@attrs.frozen
class _expect_conflict:  # noqa: N801 - used like a function
    why: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: object) -> bool:
        assert exc is not None, self.why
        return isinstance(exc, TaskConflictError)
