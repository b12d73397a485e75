"""Reporting on a task from outside a run: what `A2AApp.updater` is made of."""

from typing import final

from ..abc import StreamEvent
from ..agents.updater import Reports
from ..errors import TaskNotFoundError
from ..streams import QueueManager
from ..streams.reducer import WorkingTask
from ..types import Message, Task, TaskStatusUpdateEvent

__all__ = ["OutsideReports"]


@final
class OutsideReports(Reports):
    """Reports on a task from outside a run: each finds the task's queue anew."""

    def __init__(self, manager: QueueManager, task_id: str) -> None:
        self._manager = manager
        self._task_id = task_id

    async def state(self) -> WorkingTask:
        """Return the task's state.

        Raises:
            TaskNotFoundError: There is no such task.
        """
        queue = await self._manager._open(self._task_id)
        state = queue._processor.state
        queue._release()
        if state is None:
            raise TaskNotFoundError(metadata={"taskId": self._task_id})
        return state

    async def report(self, event: StreamEvent, message: Message | None) -> None:
        """Put the event on the task's queue."""
        await self._manager.enqueue(self._task_id, event)

    async def report_whole(self, task: Task, end: TaskStatusUpdateEvent) -> bool:
        """Tell that it cannot be done: outside a run there is a task already."""
        return False

    async def flush(self) -> None:
        """Flush the task's queue, if it is live; if it is not, everything is stored."""
        queue = self._manager.get(self._task_id)
        if queue is not None:
            await queue.flush()
