"""Cancelling a task: what its agent is asked, how its runs are ended, and what the caller is told.

A cancellation is begun by a request, but like a run it belongs to the task: it goes on in the task's queue when its
caller goes away. Cancellations of one task wait for each other, so the second finds the task as the first has left it.
"""

import logging
from contextlib import suppress
from functools import partial

import attrs
import trio

from ..abc import AgentExecutor, CancellableExecutor
from ..errors import A2AError, InternalError, StoreError, TaskNotCancelableError, TaskTerminalError
from ..streams import EventQueueClosedError, MainQueue
from ..types import Task, TaskState
from .context import RequestContext
from .runner import ApartFromCancellation, RunReports, TaskRuns
from .updater import TaskUpdater

__all__ = ["cancel_task"]

_logger = logging.getLogger("trio_a2a.agents")


@attrs.define(eq=False)
class _Cancel:
    """The outcome of one CancelTask."""

    done: trio.Event = attrs.Factory(trio.Event)
    task: Task | None = None
    error: A2AError | None = None


async def cancel_task(queue: MainQueue, executor: AgentExecutor, context: RequestContext, *, timeout: float) -> Task:
    """Cancel the task of a queue that the caller holds.

    The executor's ``cancel`` is awaited first, if it has one, then the scopes of the task's runs are cancelled, and
    CANCELED is reported if nothing terminal was. Once begun it goes on without the caller.

    Args:
        queue: The task's queue.
        executor: The agent.
        context: What ``cancel`` is given.
        timeout: Seconds for ``cancel`` and for the runs to end.

    Returns:
        The cancelled task.

    Raises:
        TaskNotCancelableError: The task is over, ended otherwise meanwhile, or the agent refused or took too long.
        InternalError: The new state could not be stored.

    Cancellation: a checkpoint; what was begun goes on.
    """
    outcome = _Cancel()
    queue._start_run(partial(_cancel, queue, executor, context, timeout, outcome))
    await outcome.done.wait()
    if outcome.error is not None:
        raise outcome.error
    assert outcome.task is not None
    return outcome.task


async def _cancel(
    queue: MainQueue, executor: AgentExecutor, context: RequestContext, timeout: float, outcome: _Cancel
) -> None:
    try:
        async with TaskRuns.of(queue).cancel_turn:
            outcome.task = await _cancel_in_turn(queue, executor, context, timeout)
    except A2AError as exc:
        outcome.error = exc
    except StoreError:
        outcome.error = InternalError("The task could not be stored")
    except EventQueueClosedError:
        outcome.error = TaskNotCancelableError("The task was interrupted")
    finally:
        outcome.error = outcome.error or (None if outcome.task else TaskNotCancelableError("The task was interrupted"))
        outcome.done.set()


async def _cancel_in_turn(queue: MainQueue, executor: AgentExecutor, context: RequestContext, timeout: float) -> Task:
    _require_open(queue)
    updater = TaskUpdater(RunReports(queue, None), queue.task_id, context.context_id)
    deadline = trio.current_time() + timeout
    if isinstance(executor, CancellableExecutor):
        await _ask_agent(queue, executor, context, updater, deadline)
    runs = tuple(TaskRuns.of(queue).active)
    for run in runs:
        run.request_cancel()
    with trio.CancelScope(deadline=deadline) as budget:
        for run in runs:
            await run.ended.wait()
    if budget.cancelled_caught:
        raise TaskNotCancelableError("The agent did not stop in time")
    await queue.flush()
    state = queue._processor.state
    if state is not None and not state.is_final:
        with suppress(TaskTerminalError):  # it has ended otherwise meanwhile
            await updater.cancel()
        state = queue._processor.state
    if state is None or state.status.state is not TaskState.CANCELED:
        raise TaskNotCancelableError("The task ended before it could be canceled")
    return state.task()


async def _ask_agent(
    queue: MainQueue,
    executor: CancellableExecutor,
    context: RequestContext,
    updater: TaskUpdater,
    deadline: float,
) -> None:
    """Await the agent's own `cancel`."""
    try:
        with ApartFromCancellation(queue.task_id), trio.CancelScope(deadline=deadline) as budget:
            await executor.cancel(attrs.evolve(context, message=None), updater)
    except TaskNotCancelableError:
        raise
    except Exception as exc:  # boundary around user code: an agent that cannot cancel says so by raising
        _logger.error("the agent could not cancel task %s", queue.task_id, exc_info=exc)
        raise TaskNotCancelableError("The agent could not cancel the task") from None
    if budget.cancelled_caught:
        raise TaskNotCancelableError("The agent did not cancel the task in time")


def _require_open(queue: MainQueue) -> None:
    state = queue._processor.state
    if state is None or state.is_final:
        raise TaskNotCancelableError(
            "The task has not begun" if state is None else f"The task is {state.status.state.name}"
        )
