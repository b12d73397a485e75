"""The suite for stores that find orphans finds what is broken: each of these is a good store with one fault."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from tests.deadline import within
from tests.stores.databases import KINDS, database
from trio_a2a.abc import TaskChange
from trio_a2a.stores import open_sql_store
from trio_a2a.testing import check_orphaned_tasks
from trio_a2a.types import Task, TaskState


@attrs.define(eq=False)
class Place:
    """Where tasks are, and who works on each."""

    states: dict[str, TaskState] = attrs.Factory(dict)
    runners: dict[str, object] = attrs.Factory(dict)
    alive: set[object] = attrs.Factory(set)


class Good:
    """A process; of a task no more is kept than what the suite asks for."""

    on_orphan: Any = "fail"

    def __init__(self, place: Place) -> None:
        self.place = place
        self._first = True

    async def commit(self, changes: Sequence[TaskChange]) -> None:
        await trio.lowlevel.checkpoint()
        for change in changes:
            assert isinstance(change.event, Task)
            self.place.states[change.task_id] = change.event.status.state
            self.place.runners[change.task_id] = self

    async def claim_orphans(self, limit: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        found = [task_id for task_id in self.place.states if self.may_claim(task_id)][:limit]
        for task_id in found:
            self.place.runners[task_id] = self
        return found

    def may_claim(self, task_id: str) -> bool:
        return self.is_dead(self.place.runners[task_id]) and self.is_unattended(self.place.states[task_id])

    def is_dead(self, runner: object) -> bool:
        return runner not in self.place.alive

    def is_unattended(self, state: TaskState) -> bool:
        return not (state.is_final or state.is_interrupted)

    async def wait_for_orphans(self) -> None:
        await trio.lowlevel.checkpoint()
        if not self._first:
            await trio.sleep_forever()
        self._first = False


class UnknownPolicy(Good):
    on_orphan = "forget"


class ClaimsItsOwn(Good):
    def is_dead(self, runner: object) -> bool:
        return runner is self or super().is_dead(runner)


class ClaimsThoseOfTheLiving(Good):
    def is_dead(self, runner: object) -> bool:
        return runner is not self


class ClaimsWhatIsOver(Good):
    def is_unattended(self, state: TaskState) -> bool:
        return not state.is_interrupted


class ClaimsWhatWaits(Good):
    def is_unattended(self, state: TaskState) -> bool:
        return not state.is_final


class OverlooksSubmitted(Good):
    def is_unattended(self, state: TaskState) -> bool:
        return state is TaskState.WORKING


class LooksBeforeItWaits(Good):
    async def claim_orphans(self, limit: int) -> Sequence[str]:
        found = [task_id for task_id in self.place.states if self.may_claim(task_id)][:limit]
        await trio.lowlevel.checkpoint()
        for task_id in found:
            self.place.runners[task_id] = self
        return found


class TakesAll(Good):
    async def claim_orphans(self, limit: int) -> Sequence[str]:
        return await super().claim_orphans(limit + 1)


class NeverGivesBack(Good):
    async def claim_orphans(self, limit: int) -> Sequence[str]:
        found = await super().claim_orphans(limit)
        self.place.alive.add(self)
        self.place.runners.update(dict.fromkeys(found, "somebody"))
        self.place.alive.add("somebody")
        return found


class DoesNotYield(Good):
    async def claim_orphans(self, limit: int) -> Sequence[str]:
        return await super().claim_orphans(limit) if any(map(self.may_claim, self.place.states)) else []


async def check(process: type[Good]) -> None:
    place = Place()

    @asynccontextmanager
    async def open_store() -> AsyncIterator[Any]:
        store = process(place)
        place.alive.add(store)
        yield store
        place.alive.discard(store)

    await check_orphaned_tasks(open_store)


@within(5)
async def test_a_good_store_passes(autojump_clock: object) -> None:
    await check(Good)


@pytest.mark.parametrize(
    ("process", "fault"),
    [
        (UnknownPolicy, "on_orphan is one of"),
        (ClaimsItsOwn, "does not claim its own"),
        (ClaimsThoseOfTheLiving, "of a process that is there"),
        (ClaimsWhatIsOver, "are no orphans, but claimed were"),
        (ClaimsWhatWaits, "are no orphans, but claimed were"),
        (OverlooksSubmitted, "left were"),
        (LooksBeforeItWaits, "once; these were claimed again"),
        (TakesAll, "no more than"),
        (DoesNotYield, "is a checkpoint"),
        (NeverGivesBack, "that were claimed by processes that left"),
    ],
)
@within(5)
async def test_each_fault_is_found(autojump_clock: object, process: type[Good], fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        await check(process)


@pytest.mark.requirement("S7-CONFORMANCE", "S5-ORPHANS")
@pytest.mark.parametrize("kind", KINDS)
@within(60)
async def test_ours_passes(kind: str, tmp_path: Any) -> None:
    with database(kind, tmp_path) as url:
        await check_orphaned_tasks(lambda: open_sql_store(url))
