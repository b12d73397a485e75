"""Taking a task up again whose process died.

It is a run like any other: it has its turn among the task's messages, and a scope that CancelTask cancels. Before the
agent is asked, WORKING is reported. So readers see that the task goes on, and the task is at an event that its former
process, should it be alive after all, does not know of: that one's next commit fails, and its run is ended.
"""

import logging
from typing import final

import attrs
import trio

from ..abc import AgentExecutor, Principal, ResumableExecutor, StoredTask
from ..errors import StoreError, TaskConflictError, TaskTerminalError
from ..streams import MainQueue
from ..types import Task
from .context import ANONYMOUS, RequestContext
from .runner import Run, start_run
from .updater import TaskUpdater

__all__ = ["resume_task"]

_logger = logging.getLogger("trio_a2a.agents")

_RETRY_SECONDS = 5.0
"""After how long a store that failed is tried again."""


def resume_task(queue: MainQueue, executor: ResumableExecutor, stored: StoredTask) -> Run:
    """Start a run that goes on with a task; the caller holds the queue.

    Args:
        queue: The task's queue.
        executor: The agent.
        stored: The task, for its owner and its tenant.

    Raises:
        EventQueueClosedError: The queue is closed.
    """

    async def context(task: Task | None) -> RequestContext:
        return RequestContext(
            message=None,
            task=task,
            task_id=queue.task_id,
            context_id=stored.task.context_id if task is None else task.context_id,
            tenant=stored.tenant,
            principal=_Owner(stored.owner) if stored.owner else ANONYMOUS,
        )

    return start_run(queue, _Resumption(executor), context)


@attrs.frozen
class _Owner(Principal):
    """The principal of a task, of whom no more than the id is stored."""

    _id: str

    @property
    def id(self) -> str:
        """The principal's id."""
        return self._id


@final
class _Resumption(AgentExecutor):
    """What is run: the agent's `resume` in the place of its `execute`."""

    def __init__(self, inner: ResumableExecutor) -> None:
        self._inner = inner

    async def execute(self, context: RequestContext, updater: TaskUpdater) -> None:
        """Go on with the task, unless somebody else has brought it further meanwhile."""
        task = context.task
        if task is None or task.status.state.is_interrupted:
            return  # deleted, or an earlier run in this process has got to where it waits for the user
        try:
            await _take_up(updater)
        except TaskTerminalError:
            return
        await self._inner.resume(context, updater)


async def _take_up(updater: TaskUpdater) -> None:
    """Report WORKING, until it is stored.

    Raises:
        TaskTerminalError: The task has ended meanwhile.
    """
    while True:
        await updater.start_work()
        try:
            await updater.flush()
        except TaskConflictError:
            # The former process has still added something, which is known now; or another one has taken the task over,
            # and then the queue is closed, and this run with it.
            continue
        except StoreError as exc:
            _logger.warning("task %s cannot be taken up yet: %s", updater.task_id, exc)
            await trio.sleep_until(trio.current_time() + _RETRY_SECONDS)
        else:
            _logger.info("task %s is taken up again", updater.task_id)
            return
