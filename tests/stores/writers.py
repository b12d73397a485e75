"""Tasks in the making, as the stream core commits them."""

from typing import Any

from trio_a2a.abc import StreamEvent, TaskChange
from trio_a2a.reducer import WorkingTask, reduce
from trio_a2a.types import Message, Task


class TaskWriter:
    """Folds a task's events, and makes the changes that the core would commit."""

    def __init__(self, task_id: str, **members: str) -> None:
        self.task_id = task_id
        self.members = members
        self.state: WorkingTask | None = None
        self.sequence = 0

    def change(self, event: StreamEvent, message: Message | None = None, **members: Any) -> TaskChange:
        state = self.state = reduce(self.state, event, message)
        assert state is not None
        self.sequence += 1
        return TaskChange(
            task_id=self.task_id,
            sequence=self.sequence,
            event=event,
            message=message,
            **{"snapshot": state.task, **self.members, **members},
        )

    @property
    def task(self) -> Task:
        assert self.state is not None
        return self.state.task()
