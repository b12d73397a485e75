"""Tasks whose process died: found while the application runs, and failed or taken up again.

It runs beside everything else and holds nothing up. Orphans are claimed a batch at a time, and those of a batch are
seen to at the same time; the next batch is claimed when that is done. Whatever a task becomes goes through its queue,
so streams, hooks and the store see it as any other event. Where the database fails it is tried again; nothing that
happens here ends the server.
"""

import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Final, final

import trio

from ..abc import AgentExecutor, OrphanedTasks, ResumableExecutor, StoredTask
from ..agents.resume import resume_task
from ..agents.runner import RunReports, TaskRuns
from ..agents.updater import TaskUpdater
from ..beside import running_beside
from ..errors import (
    StoreError,
    TaskConflictError,
    TaskSerializationError,
    TaskTakenOverError,
    TaskTerminalError,
)
from ..streams import EventQueueClosedError, MainQueue, QueueManager
from ..types import TaskState

__all__ = ["INTERRUPTED", "Recovery", "recovering"]

_logger = logging.getLogger("trio_a2a.server")

INTERRUPTED: Final = "The agent was interrupted: the process that worked on this task has ended."
"""What a task says that is FAILED because of it."""

_BATCH: Final = 32
"""Orphans that are claimed, and seen to, at a time: enough to keep a writer's groups large, few to hold in memory."""
_RETRY_SECONDS: Final = 5.0
"""After how long a store that failed is tried again."""


def recovering(manager: QueueManager, executor: AgentExecutor) -> AbstractAsyncContextManager[None]:
    """See to the orphans of an application's store for the length of a block, if it finds them and they are not kept.

    Args:
        manager: The queues of its tasks.
        executor: Its agent.

    Cancellation: as `running_beside`.
    """
    store: object = manager.store
    if not isinstance(store, OrphanedTasks) or store.on_orphan == "keep":
        return nullcontext()
    return running_beside(Recovery(manager, executor, store).run, name="recovery of tasks")


@final
class Recovery:
    """Sees to the orphans of one application's store.

    Args:
        manager: The queues of its tasks.
        executor: Its agent.
        store: The manager's store, as one that finds orphans.
    """

    def __init__(self, manager: QueueManager, executor: AgentExecutor, store: OrphanedTasks) -> None:
        self._manager = manager
        self._executor = executor
        self._store = store

    async def run(self) -> None:
        """See to orphans until cancelled."""
        store = self._store
        while True:
            try:
                await store.wait_for_orphans()
                while task_ids := await store.claim_orphans(_BATCH):
                    await self._see_to_all(task_ids, resumes=store.on_orphan == "resume")
            except StoreError as exc:
                _logger.warning("tasks of dead processes cannot be recovered now, and it is tried again: %s", exc)
            except Exception:  # boundary: what goes wrong here concerns tasks that are lost already, and nobody else
                _logger.exception("the recovery of tasks failed, and is tried again")
            else:
                continue
            await trio.sleep_until(trio.current_time() + _RETRY_SECONDS)

    async def _see_to_all(self, task_ids: Sequence[str], *, resumes: bool) -> None:
        async with trio.open_nursery() as nursery:
            for task_id in task_ids:
                nursery.start_soon(partial(self._see_to, task_id, resumes=resumes))

    async def _see_to(self, task_id: str, *, resumes: bool) -> None:
        """See to one task, until that has succeeded or is no longer to be done."""
        while True:
            try:
                await self._try(task_id, resumes=resumes)
            except (TaskConflictError, EventQueueClosedError) as exc:
                if isinstance(exc, TaskTakenOverError):
                    _logger.info("task %s is not recovered: another process works on it", task_id)
                    return
            except TaskSerializationError as exc:
                _logger.error("task %s cannot be recovered: %s", task_id, exc)
                return
            except StoreError as exc:
                _logger.warning("task %s cannot be recovered now, and it is tried again: %s", task_id, exc)
                await trio.sleep_until(trio.current_time() + _RETRY_SECONDS)
            except Exception:  # boundary of one task: it stays as it is, and the others are seen to
                _logger.exception("task %s could not be recovered", task_id)
                return
            else:
                return

    async def _try(self, task_id: str, *, resumes: bool) -> None:
        stored = await self._manager.store.get(task_id)
        if stored is None:
            return
        queue = await self._fresh_queue(stored)
        try:
            if resumes and isinstance(self._executor, ResumableExecutor):
                resume_task(queue, self._executor, stored)
                return
            if resumes:
                _logger.error("task %s cannot be resumed: its agent has no `resume`", task_id)
            await self._fail(queue)
        finally:
            queue._release()

    async def _fresh_queue(self, stored: StoredTask) -> MainQueue:
        """Return the task's queue, held, with all that the dead process has stored.

        One that is open here already, for readers of a task of another process, does not know of the last events. It is
        ended, and its readers come back behind the last event that they have.
        """
        task_id = stored.task.id
        queue = await self._manager._open(task_id)
        while queue._processor.sequence < stored.sequence:
            queue._release()
            await queue.aclose()
            queue = await self._manager._open(task_id)
        return queue

    async def _fail(self, queue: MainQueue) -> None:
        state = queue._processor.state
        if state is None or state.status.state.is_interrupted or TaskRuns.of(queue).active:
            return  # a later message has brought it further, or is at it
        updater = TaskUpdater(RunReports(queue, None), queue.task_id, state.context_id)
        try:
            await updater.update_status(TaskState.FAILED, INTERRUPTED)
        except TaskTerminalError:
            return  # it was ended meanwhile
        _logger.warning("task %s is FAILED: the process that worked on it has ended", queue.task_id)
