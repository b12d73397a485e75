"""``trio-a2a task``: the commands about tasks, and their options."""

from datetime import datetime
from functools import partial
from typing import Any

import click

from .options import (
    agent_url,
    connection_options,
    save_option,
    since_option,
    state_option,
    text as as_text,
    wait_options,
)

__all__ = ["task"]

_task_id = click.argument("task_id", metavar="ID", callback=as_text)


@click.group()
def task() -> None:
    """Get, list, cancel and watch tasks."""


@task.command("get")
@agent_url
@_task_id
@click.option("--history", type=click.IntRange(min=0), metavar="N", help="At most N of the newest messages.")
@save_option
@connection_options
def get_command(url: str, task_id: str, history: int | None, save: str | None, **connection: Any) -> None:
    """Show a task as it is."""
    from .session import run_session  # noqa: PLC0415 - imported when it is run
    from .tasks import get_task  # noqa: PLC0415

    run_session(partial(get_task, url=url, task_id=task_id, history=history, save=save), **connection)


@task.command("list")
@agent_url
@click.option(
    "--context", "context_id", callback=as_text, default="", metavar="ID", help="Only tasks of this conversation."
)
@state_option
@since_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N tasks, the newest.")
@connection_options
def list_command(
    url: str, context_id: str, state: str | None, since: datetime | None, limit: int | None, **connection: Any
) -> None:
    """List the agent's tasks, newest first, page after page."""
    from .session import run_session  # noqa: PLC0415 - imported when it is run
    from .tasks import list_tasks  # noqa: PLC0415

    run_session(
        partial(list_tasks, url=url, context_id=context_id, state=state, since=since, limit=limit), **connection
    )


@task.command("cancel")
@agent_url
@_task_id
@connection_options
def cancel_command(url: str, task_id: str, **connection: Any) -> None:
    """Cancel a task, and show it as it then is."""
    from .session import run_session  # noqa: PLC0415 - imported when it is run
    from .tasks import cancel_task  # noqa: PLC0415

    run_session(partial(cancel_task, url=url, task_id=task_id), **connection)


@task.command("watch")
@agent_url
@_task_id
@click.option("--after", type=click.IntRange(min=0), metavar="N", help="Only what followed the event with number N.")
@wait_options
@connection_options
def watch_command(
    url: str, task_id: str, after: int | None, save: str | None, cancel_on_interrupt: bool, **connection: Any
) -> None:
    """Show a task as it is, then what happens to it, up to its end.

    A stream that breaks is taken up again. Exit status 1 if the task fails, is rejected or canceled.
    """
    from .session import run_session  # noqa: PLC0415 - imported when it is run
    from .tasks import watch_task  # noqa: PLC0415

    watch = partial(
        watch_task, url=url, task_id=task_id, after=after, save=save, cancel_on_interrupt=cancel_on_interrupt
    )
    run_session(watch, **connection)
