"""The suite for stores that find the tasks of processes that have died.

Each store that is opened stands for a process of its own. The suite sets no deadline, as the other suites for stores.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, get_args

import trio
import trio.testing

from ..abc import OrphanedTasks, OrphanPolicy, TaskChange, TaskStore
from ..types import TaskState
from .constructors import task

__all__ = ["check_orphaned_tasks"]

_TASKS = 12
_LIMITS = (2, 3)


class _Store(TaskStore, OrphanedTasks, Protocol):
    pass


async def check_orphaned_tasks(open_store: Callable[[], AbstractAsyncContextManager[_Store]]) -> None:
    """Check that a store meets the obligations of `OrphanedTasks`.

    - Nobody claims the tasks of a process that is there, its own included.
    - What a process leaves SUBMITTED or WORKING is claimed by one other process, also where several claim at once, at
      most so many at a time as they ask for; tasks that are over, or wait for their user, are claimed by none.
    - What was claimed are orphans again when its claimer has left, unless it has ended them.
    - The first wait for orphans is over at once, since there may be some from before.

    Args:
        open_store: Returns an async context manager whose value is the store of a new process. All of them keep their
            tasks in one place, which is empty in the beginning; leaving the block ends the process in order.

    Raises:
        AssertionError: The store breaks an obligation; the text says which.
    """
    names = [f"task-{number:02}" for number in range(_TASKS)]
    async with open_store() as worker:
        assert worker.on_orphan in get_args(OrphanPolicy), f"on_orphan is one of {get_args(OrphanPolicy)}"
        for index, name in enumerate(names):
            await _commit(worker, name, TaskState.WORKING if index % 2 else TaskState.SUBMITTED)
        for state in TaskState:
            if state.is_final or state.is_interrupted:
                await _commit(worker, state.name, state)
        assert not await worker.claim_orphans(_TASKS), "a process does not claim its own tasks"
        async with open_store() as other:
            assert not await other.claim_orphans(_TASKS), "the tasks of a process that is there are no orphans"
    async with open_store() as first, open_store() as second:
        await first.wait_for_orphans()
        claimed = await _claim_at_once((first, second))
        _check_each_once(claimed, names)
        await _check_checkpoint(first)
        ended = claimed[0]
        await _commit(first, ended, TaskState.COMPLETED, sequence=2)
    async with open_store() as last:
        again = [name for each in await _claim(last, _TASKS) for name in each]
        _check_each_once(again, [name for name in names if name != ended], "that were claimed by processes that left")


async def _commit(store: TaskStore, task_id: str, state: TaskState, *, sequence: int = 1) -> None:
    event = task(task_id, state)
    await store.commit([TaskChange(task_id=task_id, sequence=sequence, event=event, snapshot=lambda: event)])


async def _claim(store: OrphanedTasks, limit: int) -> list[Sequence[str]]:
    """Claim until there is nothing left."""
    claimed: list[Sequence[str]] = []
    while found := await store.claim_orphans(limit):
        assert len(found) <= limit, f"no more than {limit} tasks are claimed where {limit} are asked for"
        claimed.append(found)
    return claimed


async def _claim_at_once(stores: Sequence[OrphanedTasks]) -> list[str]:
    claimed: list[str] = []
    faults: list[AssertionError] = []

    async def claim(store: OrphanedTasks, limit: int) -> None:
        try:
            for found in await _claim(store, limit):
                claimed.extend(found)
        except AssertionError as fault:  # raised below, outside of the nursery and its group
            faults.append(fault)

    async with trio.open_nursery() as nursery:
        for store, limit in zip(stores, _LIMITS, strict=True):
            nursery.start_soon(claim, store, limit)
    if faults:
        raise faults[0]
    return claimed


def _check_each_once(claimed: Sequence[str], orphans: Sequence[str], which: str = "") -> None:
    twice = sorted({name for name in claimed if claimed.count(name) > 1})
    assert not twice, f"each orphan is claimed by one process, once; these were claimed again: {twice}"
    wrong = sorted(set(claimed) - set(orphans))
    assert not wrong, f"tasks that are over, or wait for their user, are no orphans, but claimed were: {wrong}"
    missing = sorted(set(orphans) - set(claimed))
    assert not missing, f"all orphans {which} are claimed; left were: {missing}"


async def _check_checkpoint(store: OrphanedTasks) -> None:
    try:
        with trio.testing.assert_checkpoints():
            await store.claim_orphans(1)
    except AssertionError:
        raise AssertionError("claim_orphans() is a checkpoint") from None
