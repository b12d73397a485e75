"""``trio-a2a push``: the commands about webhooks, and their options."""

from functools import partial
from typing import Any

import click

from .options import agent_url, connection_options, text as as_text

__all__ = ["push"]

_task_id = click.argument("task_id", metavar="TASK", callback=as_text)


@click.group()
def push() -> None:
    """List, add and remove webhooks of a task."""


@push.command("list")
@agent_url
@_task_id
@connection_options
def list_command(url: str, task_id: str, **connection: Any) -> None:
    """List the webhooks of a task."""
    from .push import list_webhooks  # noqa: PLC0415 - imported when it is run
    from .session import run_session  # noqa: PLC0415

    run_session(partial(list_webhooks, url=url, task_id=task_id), **connection)


@push.command("add")
@agent_url
@_task_id
@click.argument("webhook", metavar="WEBHOOK", callback=as_text)
@click.option(
    "--id",
    "config_id",
    callback=as_text,
    default="",
    metavar="ID",
    help="The webhook's id; by default the agent makes one.",
)
@click.option(
    "--token", callback=as_text, default="", help="What the webhook's receiver recognises the agent's posts by."
)
@click.option(
    "--auth-scheme",
    callback=as_text,
    metavar="SCHEME",
    help="How the agent authenticates itself there, such as Bearer.",
)
@click.option(
    "--auth-credentials", callback=as_text, default="", metavar="TEXT", help="With what; needs --auth-scheme."
)
@connection_options
def add_command(
    url: str,
    task_id: str,
    webhook: str,
    config_id: str,
    token: str,
    auth_scheme: str | None,
    auth_credentials: str,
    **connection: Any,
) -> None:
    """Let the agent post what happens to a task to the URL WEBHOOK."""
    if auth_credentials and auth_scheme is None:
        raise click.UsageError("--auth-credentials needs --auth-scheme")
    from .push import add_webhook  # noqa: PLC0415 - imported when it is run
    from .session import run_session  # noqa: PLC0415

    add = partial(
        add_webhook,
        url=url,
        task_id=task_id,
        webhook=webhook,
        config_id=config_id,
        token=token,
        auth_scheme=auth_scheme,
        auth_credentials=auth_credentials,
    )
    run_session(add, secrets=(token, auth_credentials), **connection)


@push.command("remove")
@agent_url
@_task_id
@click.argument("config_id", metavar="ID", callback=as_text)
@connection_options
def remove_command(url: str, task_id: str, config_id: str, **connection: Any) -> None:
    """End the webhook ID of a task."""
    from .push import remove_webhook  # noqa: PLC0415 - imported when it is run
    from .session import run_session  # noqa: PLC0415

    run_session(partial(remove_webhook, url=url, task_id=task_id, config_id=config_id), **connection)
