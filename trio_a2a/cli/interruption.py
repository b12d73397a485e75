"""Ctrl-C while a command waits for a task: what becomes of the task, and what the user is told."""

import trio

from ..client import Client, ClientError
from ..errors import A2AError
from .failures import described
from .output import Output
from .program import INTERRUPTED
from .text import in_command, in_line

__all__ = ["after_interrupt"]

_GOODBYE = 10.0
"""Seconds for cancelling the task: as long as servers wait for an agent. A second Ctrl-C ends it sooner."""


async def after_interrupt(client: Client, url: str, task_id: str | None, output: Output, *, cancel: bool) -> int:
    """Cancel the task if the user wants that, tell what is left, and return the exit status.

    Args:
        client: The agent.
        url: Its URL, for the hint.
        task_id: The task; None if it is not known yet.
        output: Where to tell it.
        cancel: Whether the task is to be cancelled.
    """
    if task_id is None:
        output.aside("interrupted before the agent named a task; it may be at work")
    elif not cancel:
        output.aside(f"interrupted; the agent works on: trio-a2a task watch {in_command(url)} {in_command(task_id)}")
    else:
        await _cancel(client, task_id, output)
    return INTERRUPTED


async def _cancel(client: Client, task_id: str, output: Output) -> None:
    with trio.move_on_after(_GOODBYE) as scope:
        try:
            task = await client.cancel_task(task_id)
        except (A2AError, ClientError) as exc:
            output.aside(f"interrupted; the task {in_line(task_id)} could not be canceled: {described(exc)}")
            return
        if output.as_json:
            output.value(task)
        output.aside(f"interrupted; the task {in_line(task_id)} is canceled")
    if scope.cancelled_caught:
        output.aside(
            f"interrupted; the task {in_line(task_id)} may go on: the agent did not answer in {_GOODBYE:g} seconds"
        )
