"""A million tasks, listed page by page: in order, each once, and the last page as fast as the first.

``python -m tests.stores.million --url sqlite:///million.db [--tasks 1000000] [--page-size 1000]`` from the root of a
clone. The database should be an empty one; the tables are made. It prints what a page takes at the beginning and at the
end of the list. Exit status 1 if a task is missing, doubled or out of order, or if pages become slower.
"""

import argparse
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta

import attrs
import trio

from trio_a2a.abc import TaskChange
from trio_a2a.stores import SqlTaskStore, open_sql_store
from trio_a2a.testing import task
from trio_a2a.types import ListTasksRequest, Task

_START = datetime(2020, 1, 1, tzinfo=UTC)
# Tasks with the same status time: a page ends in the midst of them.
_SAME_TIME = 7
_COMMIT = 500
_COMMITTERS = 4
# Pages at either end that are compared, and how much slower the last ones may be: noise, and no growth.
_COMPARED = 0.1
_SLOWER = 3.0


@attrs.frozen(kw_only=True)
class Walk:
    """What walking through the list came to; times in seconds.

    Attributes:
        tasks: How many there are.
        pages: How many pages they are.
        first: What the first page took, which is counted with.
        early: The median of the first pages behind it.
        late: The median of the last pages.
        faults: What is wrong, a sentence each.
    """

    tasks: int
    pages: int
    first: float
    early: float
    late: float
    faults: tuple[str, ...]

    @property
    def is_flat(self) -> bool:
        """Whether a page costs the same wherever it is."""
        return self.late < self.early * _SLOWER

    def __str__(self) -> str:
        return (
            f"{self.tasks} tasks in {self.pages} pages: the first took {self.first * 1000:.1f} ms,"
            f" early ones {self.early * 1000:.2f} ms, late ones {self.late * 1000:.2f} ms; {len(self.faults)} faults"
        )


def _task(number: int) -> Task:
    return task(f"t{number:07}", timestamp=_START + timedelta(seconds=number // _SAME_TIME))


async def fill(store: SqlTaskStore, count: int) -> None:
    """Make so many tasks, with several commits underway."""
    starts = iter(range(0, count, _COMMIT))

    async def some() -> None:
        for start in starts:
            changes = []
            for number in range(start, min(start + _COMMIT, count)):
                made = _task(number)
                changes.append(TaskChange(task_id=made.id, sequence=1, event=made, snapshot=lambda made=made: made))
            await store.commit(changes)

    async with trio.open_nursery() as nursery:
        for _ in range(_COMMITTERS):
            nursery.start_soon(some)


async def walk(store: SqlTaskStore, count: int, page_size: int) -> Walk:
    """List all tasks, one page behind the other."""
    faults: list[str] = []
    times: list[float] = []
    # The newest status first, and by id where that is the same.
    expected = sorted(range(count), key=lambda number: (-(number // _SAME_TIME), number))
    at, after = 0, None
    while True:
        began = time.perf_counter()
        page, total = await store.list(ListTasksRequest(page_size=page_size), owner="", after=after)
        times.append(time.perf_counter() - began)
        if total != count:
            faults.append(f"page {len(times)} says that there are {total}")
        if [one.id for one in page] != [f"t{number:07}" for number in expected[at : at + page_size]]:
            faults.append(f"page {len(times)} is not what comes next")
        at += len(page)
        if len(page) < page_size:
            break
        after = (page[-1].status.timestamp, page[-1].id)
    if at != count:
        faults.append(f"{at} tasks were listed")
    some = max(2, int(len(times) * _COMPARED))
    early, late = statistics.median(times[1 : some + 1]), statistics.median(times[-some - 1 : -1])
    return Walk(tasks=at, pages=len(times), first=times[0], early=early, late=late, faults=tuple(faults))


async def _run(url: str, count: int, page_size: int) -> Walk:
    async with open_sql_store(url, statement_timeout=300) as store:
        began = time.perf_counter()
        await fill(store, count)
        print(f"{count} tasks made in {time.perf_counter() - began:.0f} s", flush=True)  # noqa: T201
        return await walk(store, count, page_size)


def main() -> None:
    parser = argparse.ArgumentParser(description="List a million tasks page by page.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--page-size", type=int, default=1000)
    given = parser.parse_args()
    walked = trio.run(_run, given.url, given.tasks, given.page_size)
    print("\n".join([*walked.faults[:20], str(walked)]))  # noqa: T201
    sys.exit(bool(walked.faults) or not walked.is_flat)


if __name__ == "__main__":
    main()
