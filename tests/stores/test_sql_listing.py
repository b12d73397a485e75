"""Listing: pages that cost the same wherever they are, and totals. A whole million is in `tests.stores.million`."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.deadline import within
from tests.stores.million import fill, walk
from tests.stores.writers import TaskWriter
from trio_a2a.stores import open_sql_store
from trio_a2a.stores.sql import tasks as tasks_module
from trio_a2a.testing import status, task
from trio_a2a.types import ListTasksRequest, Task

LISTED = int(os.environ.get("TRIO_A2A_LISTED_TASKS", "20000"))


@within(600)
async def test_pages_of_a_long_list_are_complete_in_order_and_as_fast_at_its_end(sqlite_url: str) -> None:
    async with open_sql_store(sqlite_url) as store:
        await fill(store, LISTED)
        walked = await walk(store, LISTED, 500)
    assert not walked.faults
    assert walked.is_flat, str(walked)


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
@within(600)
async def test_pages_of_a_list_are_complete_and_in_order_on_a_server(url: str) -> None:
    """A tenth of it: what they cost there is for the program that lists a million."""
    async with open_sql_store(url) as store:
        await fill(store, LISTED // 10)
        walked = await walk(store, LISTED // 10, 130)
    assert not walked.faults


@within(30)
async def test_pages_stay_right_while_tasks_change(url: str) -> None:
    """A task that is listed already may come to the front; none that was there is left out, and none comes twice."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    async with open_sql_store(url) as store:
        writers = [TaskWriter(f"t{number:02}") for number in range(20)]
        for number, writer in enumerate(writers):
            made = task(writer.task_id, timestamp=start + timedelta(seconds=number))
            await store.commit([writer.change(made)])
        listed: list[str] = []
        after, newer = None, start + timedelta(days=1)
        while True:
            page, _ = await store.list(ListTasksRequest(page_size=3), owner="", after=after)
            listed += [one.id for one in page]
            if len(page) < 3:
                break
            after = (page[-1].status.timestamp, page[-1].id)
            # One that has been listed is now the newest, and a new one is made.
            first = next(writer for writer in writers if writer.task_id == listed[0])
            await store.commit([first.change(status(first.task_id, timestamp=newer))])
            new = TaskWriter(f"new{len(listed)}")
            await store.commit([new.change(task(new.task_id, timestamp=newer))])
        assert listed == [f"t{number:02}" for number in reversed(range(20))]


@within(30)
async def test_a_total_that_takes_long_is_counted_once_for_the_pages_that_follow(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And anew for a first page, for another filter, and when it has become old."""
    counted: list[bool] = []
    read_page = tasks_module.read_page

    def slow(*args: Any, counted: bool, **named: Any) -> tuple[Sequence[Task], int | None]:
        counts.append(not counted)
        if not counted:
            time.sleep(tasks_module._SLOW_COUNT * 1.5)
        return read_page(*args, counted=counted, **named)

    counts = counted
    monkeypatch.setattr(tasks_module, "read_page", slow)
    async with open_sql_store(sqlite_url) as store:
        for number in range(6):
            await store.commit([TaskWriter(f"t{number}").change(task(f"t{number}"))])
        query = ListTasksRequest(page_size=2)
        assert (await store.list(query, owner=""))[1] == 6
        await store.commit([TaskWriter("later").change(task("later"))])
        for after in ("t1", "t3"):
            assert (await store.list(query, owner="", after=(None, after)))[1] == 6
        assert counts == [True, False, False]
        assert (await store.list(query, owner=""))[1] == 7
        assert (await store.list(ListTasksRequest(context_id="c"), owner="", after=(None, "t1")))[1] == 0
        assert counts[3:] == [True, True]
        monkeypatch.setattr(tasks_module, "_COUNT_SHARE", 0)
        assert (await store.list(query, owner="", after=(None, "t1")))[1] == 7
        assert counts[5:] == [True]
