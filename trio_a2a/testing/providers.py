"""The suite for state providers."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import trio

from ..abc import TaskStateProvider
from ..types import TaskState

__all__ = ["check_task_state_provider"]

_Provider = TypeVar("_Provider", bound=TaskStateProvider)
# The shortest step that every provider can tell apart: databases keep times to the millisecond.
_STEP = 0.001


async def check_task_state_provider(
    open_provider: Callable[[], AbstractAsyncContextManager[_Provider]],
    *,
    report: Callable[[_Provider, str, TaskState], Awaitable[object]],
    grace_period: float,
    advance: Callable[[float], Awaitable[object]] = trio.sleep,
) -> None:
    """Check that a provider meets the obligations of `TaskStateProvider`.

    Args:
        open_provider: Returns an async context manager whose value is a fresh provider that knows no task.
        report: ``await report(provider, task_id, state)`` makes the task, if need be, and puts it in the state, the way
            the provider learns of it.
        grace_period: The provider's grace period in seconds, at least 0.002, or 0 for none.
        advance: ``await advance(seconds)`` moves the provider's clock by that much. `trio.sleep` does it for a clock
        that
            follows Trio's (run the suite under an autojump `trio.testing.MockClock`).

    Raises:
        AssertionError: The provider breaks an obligation; the text says which.
    """
    await _check_unknown(open_provider)
    for state in TaskState:
        if state is not TaskState.UNSPECIFIED and not state.is_final:
            await _check_unfinished(open_provider, report, grace_period, advance, state)
    for state in TaskState:
        if state.is_final:
            await _check_finished(open_provider, report, grace_period, advance, state)
    await _check_several(open_provider, report, grace_period, advance)


async def _check_unknown(open_provider: Callable[[], AbstractAsyncContextManager[TaskStateProvider]]) -> None:
    async with open_provider() as provider:
        assert await provider.is_task_active("unknown") is False, "an unknown task is not active"
        assert await provider.is_task_finalized("unknown") is False, "an unknown task is not finalized"


async def _check_unfinished(
    open_provider: Callable[[], AbstractAsyncContextManager[_Provider]],
    report: Callable[[_Provider, str, TaskState], Awaitable[object]],
    grace_period: float,
    advance: Callable[[float], Awaitable[object]],
    state: TaskState,
) -> None:
    async with open_provider() as provider:
        await report(provider, "t", state)
        await advance(grace_period + 1)
        assert await provider.is_task_active("t") is True, f"a task that is {state.name} is active, however long"
        assert await provider.is_task_finalized("t") is False, f"a task that is {state.name} is not finalized"


async def _check_finished(
    open_provider: Callable[[], AbstractAsyncContextManager[_Provider]],
    report: Callable[[_Provider, str, TaskState], Awaitable[object]],
    grace_period: float,
    advance: Callable[[float], Awaitable[object]],
    state: TaskState,
) -> None:
    async with open_provider() as provider:
        await report(provider, "t", TaskState.WORKING)
        await advance(1)
        await report(provider, "t", state)
        assert await provider.is_task_finalized("t") is True, f"a task that is {state.name} is finalized at once"
        if grace_period:
            assert await provider.is_task_active("t") is True, "a task is active when its grace period begins"
            await advance(grace_period - _STEP)
            assert await provider.is_task_active("t") is True, "a task is active until its grace period is over"
            # The same state again is a replay, and does not make the grace period longer.
            await report(provider, "t", state)
            await advance(_STEP)
        assert await provider.is_task_active("t") is False, "a task is not active exactly when its grace period is over"
        await advance(1)
        assert await provider.is_task_active("t") is False, "a task is not active after its grace period"
        assert await provider.is_task_finalized("t") is True, f"a task that is {state.name} stays finalized"


async def _check_several(
    open_provider: Callable[[], AbstractAsyncContextManager[_Provider]],
    report: Callable[[_Provider, str, TaskState], Awaitable[object]],
    grace_period: float,
    advance: Callable[[float], Awaitable[object]],
) -> None:
    async with open_provider() as provider:
        await report(provider, "first", TaskState.COMPLETED)
        await advance(grace_period + 1)
        await report(provider, "second", TaskState.WORKING)
        assert await provider.is_task_active("first") is False, "another task's event does not make a task active"
        assert await provider.is_task_active("second") is True, "another task's end does not end a task"
        assert await provider.is_task_finalized("second") is False, "another task's end does not finalize a task"
