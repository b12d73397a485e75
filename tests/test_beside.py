"""A task beside a block: what the block raises leaves as it is, and the task ends with it."""

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.beside import running_beside


class Task:
    """Goes on until it is cancelled, and notes that."""

    def __init__(self) -> None:
        self.started = self.ended = False

    async def __call__(self) -> None:
        self.started = True
        try:
            await trio.sleep_forever()
        finally:
            self.ended = True


@within(5)
async def test_the_task_runs_as_long_as_the_block(autojump_clock: object) -> None:
    task = Task()
    async with running_beside(task, name="task"):
        await trio.testing.wait_all_tasks_blocked()
        assert (task.started, task.ended) == (True, False)
    assert task.ended


@pytest.mark.parametrize("error", [ValueError("a"), ExceptionGroup("g", [ValueError("b")]), KeyboardInterrupt()])
@within(5)
async def test_what_the_block_raises_leaves_as_it_is(autojump_clock: object, error: BaseException) -> None:
    task = Task()
    with pytest.raises(type(error)) as raised:
        async with running_beside(task, name="task"):
            await trio.testing.wait_all_tasks_blocked()
            raise error
    assert raised.value is error
    assert task.ended


@within(5)
async def test_what_the_block_raises_is_not_lost_in_a_cancellation(autojump_clock: object) -> None:
    error = ValueError("said while everything ended")
    with trio.CancelScope() as scope, pytest.raises(ValueError, match="said") as raised:
        async with running_beside(Task(), name="task"):
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            raise error
    assert raised.value is error


@within(5)
async def test_a_cancellation_passes_through(autojump_clock: object) -> None:
    task = Task()
    with trio.move_on_after(1) as scope:
        async with running_beside(task, name="task"):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert task.ended


@within(5)
async def test_a_bug_in_the_task_ends_the_block(autojump_clock: object) -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with running_beside(fails, name="task"):
            await trio.sleep_forever()


@within(5)
async def test_where_both_fail_both_are_told(autojump_clock: object) -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    with pytest.RaisesGroup(KeyError, pytest.RaisesGroup(ZeroDivisionError)):
        async with running_beside(fails, name="task"):
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError


@within(5)
async def test_a_task_that_ends_by_itself_does_not_end_the_block(autojump_clock: object) -> None:
    async def ends() -> None:
        await trio.lowlevel.checkpoint()

    async with running_beside(ends, name="task"):
        await trio.testing.wait_all_tasks_blocked()
