"""The commands and their options; what they do is in a module each, imported when it is run."""

import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import click

from .lazy import LazyGroup
from .options import Seconds, agent_url, connection_options, read_span, text as as_text, wait_options
from .program import FAILED, INTERRUPTED, forget_output

__all__ = ["cli"]


@click.group(
    cls=LazyGroup,
    lazy={
        "db": ("db_commands:db", "Look after the database that tasks are kept in."),
        "push": ("push_commands:push", "List, add and remove webhooks of a task."),
        "task": ("task_commands:task", "Get, list, cancel and watch tasks."),
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="trio-a2a", prog_name="trio-a2a")
def cli() -> None:
    """Use A2A agents, check them, and serve your own.

    Exit status: 0 all is well; 1 the agent, the way to it or the task failed; 2 wrong usage; 130 interrupted.
    """


@cli.command(short_help="Show what an agent says about itself.")
@agent_url
@click.option("--extended", is_flag=True, help="The fuller card, for callers that are known.")
@click.option(
    "--verify",
    metavar="KEY",
    type=click.Path(exists=True, dir_okay=False),
    help="A file with the trusted public key (PEM, JWK) or keys (JWK Set); a card that none has signed is refused.",
)
@connection_options
def card(url: str, extended: bool, verify: str | None, **connection: Any) -> None:
    """Show what the agent at URL says about itself."""
    from .card import show_card  # noqa: PLC0415 - imported when it is run
    from .session import run_session  # noqa: PLC0415

    run_session(partial(show_card, url=url, extended=extended, verify=verify), **connection)


@cli.command(short_help="Send a message, and show what comes of it.")
@agent_url
@click.argument("text", required=False, callback=as_text)
@click.option(
    "--file", "files", metavar="PATH", multiple=True, type=click.Path(), help="A file to send; may be repeated."
)
@click.option(
    "--data",
    callback=as_text,
    metavar="JSON",
    multiple=True,
    help="JSON to send, or @PATH to read it from; may be repeated.",
)
@click.option("--task", "task_id", callback=as_text, metavar="ID", help="The task that the message continues.")
@click.option("--context", "context_id", callback=as_text, metavar="ID", help="The conversation that it belongs to.")
@click.option("--stream/--no-stream", default=None, help="Stream what happens. By default where the agent can.")
@click.option("--no-wait", is_flag=True, help="Return as soon as there is a task.")
@wait_options
@connection_options
def send(
    url: str,
    text: str | None,
    files: tuple[str, ...],
    data: tuple[str, ...],
    task_id: str | None,
    context_id: str | None,
    stream: bool | None,
    no_wait: bool,
    save: str | None,
    cancel_on_interrupt: bool,
    **connection: Any,
) -> None:
    """Send a message to the agent at URL, and show what comes of it.

    TEXT is the message; - reads it from standard input. Exit status 1 if the task fails, is rejected or canceled.
    """
    if no_wait and stream:
        raise click.UsageError("--no-wait and --stream exclude each other")
    if no_wait and save is not None:
        raise click.UsageError("--no-wait and --save exclude each other: the artifacts are still to come")
    from .inputs import read_parts  # noqa: PLC0415 - imported when it is run
    from .send import Sending, send_message  # noqa: PLC0415
    from .session import run_session  # noqa: PLC0415

    sending = Sending(
        url=url,
        parts=read_parts(text, files, data),
        task_id=task_id,
        context_id=context_id,
        stream=stream,
        no_wait=no_wait,
        save=save,
        cancel_on_interrupt=cancel_on_interrupt,
    )
    run_session(partial(send_message, sending=sending), **connection)


@cli.command(short_help="Check an agent: its card, its bindings, its errors, its streams.")
@agent_url
@click.option("--no-send", is_flag=True, help="Send no message: check only what can be seen without.")
@click.option("--strict", is_flag=True, help="Let warnings count: exit status 1 for them, too.")
@click.option(
    "--wait",
    default=20.0,
    show_default=True,
    type=Seconds(min=0, min_open=True),
    metavar="SECONDS",
    help="How long to watch what comes of the message.",
)
@connection_options
def doctor(url: str, no_send: bool, strict: bool, wait: float, **connection: Any) -> None:
    """Check the agent at URL: its card, its bindings, what it declares, its errors and its streams.

    It sends at most one harmless message. Exit status 1 if there is an error among the findings.
    """
    from .doctor import examine  # noqa: PLC0415 - imported when it is run
    from .session import run_session  # noqa: PLC0415

    run_session(partial(examine, url=url, send=not no_send, strict=strict, wait=wait), **connection)


@cli.command(short_help="Serve an agent of your own.")
@click.argument("target", metavar="MODULE:AGENT")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 for a free one."
)
@click.option("--url", help="The URL that the agent card gives; by default that of the listener.")
@click.option(
    "--grace",
    default=10.0,
    show_default=True,
    type=Seconds(min=0),
    help="Seconds for running requests to end.",
)
@click.option(
    "--store",
    metavar="URL",
    envvar="TRIO_A2A_STORE",
    show_envvar=True,
    help="The database to keep tasks in: sqlite:///FILE, postgresql://..., mysql://... or mariadb://...",
)
@click.option(
    "--grace-period",
    metavar="SECONDS",
    type=Seconds(min=0),
    help="How long a finished task still takes late events (15).",
)
@click.option(
    "--retention",
    metavar="SPAN",
    callback=read_span,
    help="Delete tasks so long after their end: 12h, 30d. Needs --store.",
)
@click.option(
    "--on-orphan",
    type=click.Choice(["fail", "keep", "resume"]),
    help="What becomes of tasks whose process died: they fail (the default), are kept, or the agent resumes them. "
    "Needs --store.",
)
def serve(
    target: str,
    host: str,
    port: int,
    url: str | None,
    grace: float,
    store: str | None,
    grace_period: float | None,
    retention: float | None,
    on_orphan: str | None,
) -> None:
    """Serve the agent AGENT of the module MODULE until SIGINT or SIGTERM.

    AGENT is a trio_a2a.Agent, an A2AApp, or an async callable (context, updater), whose card is then made of its name
    and docstring. Tasks are kept in memory, and are gone when it ends, unless --store says where to keep them. Webhooks
    then are in the same database, encrypted with the Fernet key in the environment variable TRIO_A2A_PUSH_KEY; several
    keys are separated by commas: the first encrypts.
    """
    if retention is not None and store is None:
        raise click.UsageError("--retention needs --store: tasks in memory end with the process")
    if on_orphan is not None and store is None:
        raise click.UsageError("--on-orphan needs --store: tasks in memory end with the process")
    import trio  # noqa: PLC0415 - imported when it is run

    from .keeping import Keeping, ServeError  # noqa: PLC0415
    from .serve import run_server  # noqa: PLC0415

    keys = tuple(key.strip() for key in os.environ.get("TRIO_A2A_PUSH_KEY", "").split(",") if key.strip())
    keeping = Keeping(url=store, grace_period=grace_period, retention=retention, on_orphan=on_orphan, push_keys=keys)
    try:
        trio.run(run_server, target, host, port, url, grace, keeping, strict_exception_groups=True)
    except ServeError as exc:
        raise click.ClickException(str(exc)) from exc


@cli.command(short_help="See a server, three subscribers and a hook at work, in one program.")
def demo() -> None:
    """Run a server and its clients in one program: three subscribers, and a hook that closes their streams."""
    try:
        from .demo import run_demo  # noqa: PLC0415 - imported when it is run, and needs an extra
    except ModuleNotFoundError as exc:
        if exc.name != "httpx2":
            raise
        raise click.ClickException("the demo needs an extra: pip install 'trio-a2a[client]'") from exc
    _run(run_demo)


def _run(command: Callable[[], Awaitable[None]]) -> None:
    import trio  # noqa: PLC0415 - imported when it is run

    status = 0
    try:
        trio.run(command)
    except* KeyboardInterrupt:
        status = INTERRUPTED
    except* BrokenPipeError:
        forget_output()
        status = FAILED
    sys.exit(status)
