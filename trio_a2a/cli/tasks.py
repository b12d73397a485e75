"""``trio-a2a task``: tasks as they are, in lists, to their end, and as they go on."""

from datetime import datetime

from ..client import EventStream
from ..errors import UnsupportedOperationError
from ..types import Task, TaskState
from .interruption import after_interrupt
from .outcome import conclude
from .output import Output
from .progress import follow, open_display
from .render import state_name, task_lines
from .saving import make_directory, save_artifacts
from .session import Session
from .text import in_line, one_line

__all__ = ["cancel_task", "get_task", "list_tasks", "watch_task"]

_PAGE = 100
"""Tasks that are fetched at a time: as many as servers give at most."""


async def get_task(session: Session, *, url: str, task_id: str, history: int | None, save: str | None) -> int:
    """Show a task.

    Raises:
        A2AError: The agent refuses.
        ClientError: The call failed.
        CommandError: A file cannot be written.
    """
    make_directory(save)
    async with session.open_client(url) as client:
        task = await client.get_task(task_id, history_length=history)
    _show(task, session.output, history=history != 0)
    save_artifacts(task.artifacts, save, session.output)
    return 0


async def list_tasks(
    session: Session,
    *,
    url: str,
    context_id: str,
    state: str | None,
    since: datetime | None,
    limit: int | None,
) -> int:
    """List tasks, printing each as soon as its page is there.

    Raises:
        A2AError: The agent refuses.
        ClientError: The call failed.
    """
    output = session.output
    async with session.open_client(url) as client:
        tasks = client.list_tasks(
            context_id=context_id,
            status=TaskState.UNSPECIFIED if state is None else _state(state),
            status_timestamp_after=since,
            page_size=_PAGE if limit is None else min(limit, _PAGE),
        )
        count = 0
        async for task in tasks:
            if output.as_json:
                output.value(task)
            else:
                output.line(_row(task))
            count += 1
            if count == limit:
                break
    if not count:
        output.aside("there are no such tasks")
    elif tasks.total_size is not None and tasks.total_size > count:
        output.aside(f"{count} of {tasks.total_size} tasks")
    return 0


async def cancel_task(session: Session, *, url: str, task_id: str) -> int:
    """Cancel a task.

    Raises:
        A2AError: The agent refuses.
        ClientError: The call failed.
    """
    async with session.open_client(url) as client:
        task = await client.cancel_task(task_id)
    _show(task, session.output)
    return 0


async def watch_task(
    session: Session,
    *,
    url: str,
    task_id: str,
    after: int | None,
    save: str | None,
    cancel_on_interrupt: bool,
) -> int:
    """Show a task up to its end; a task that is over is shown as it is.

    Raises:
        A2AError: The agent refuses.
        ClientError: The call failed.
        CommandError: A file cannot be written.
    """
    make_directory(save)
    output = session.output
    async with session.open_client(url) as client:
        events: EventStream | None = None
        with session.interrupts.scope() as scope:
            try:
                async with client.subscribe(task_id, after=after, timeout=session.connection.timeout) as events:
                    with open_display(output) as display:
                        await follow(events, display)
            except UnsupportedOperationError:
                # So a task that is over is refused; where it is the agent that does not stream, that is the answer.
                over = await client.get_task(task_id)
                if events is not None or not over.status.state.is_final:
                    raise
                _show(over, output)
                return conclude(over, url=url, save=save, output=output)
        if scope.interrupted:
            return await after_interrupt(client, url, task_id, output, cancel=cancel_on_interrupt)
        # With --after the events alone do not make the whole task.
        task = None if events is None else events.task
        if save is not None and after is not None:
            task = await client.get_task(task_id)
    return conclude(task, url=url, save=save, output=output)


def _state(name: str) -> TaskState:
    return TaskState[name.upper().replace("-", "_")]


def _row(task: Task) -> str:
    status = task.status
    when = "" if status.timestamp is None else status.timestamp.isoformat(timespec="seconds")
    said = "" if status.message is None else one_line(status.message.text(" "), 60)
    return (
        f"{in_line(task.id)}  {state_name(status.state):<14}  {when:<25}  {in_line(task.context_id)}  {said}".rstrip()
    )


def _show(task: Task, output: Output, *, history: bool = False) -> None:
    if output.as_json:
        output.value(task)
        return
    for line in task_lines(task, history=history):
        output.line(line)
