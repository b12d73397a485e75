"""The commands and their options; what they do is in a module each, imported when it is run."""

import os
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version

import click
import trio

__all__ = ["cli"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("trio-a2a"), prog_name="trio-a2a")
def cli() -> None:
    """Serve A2A agents, and see them stream."""


@cli.command()
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
    type=click.FloatRange(min=0),
    help="Seconds for running requests to end.",
)
def serve(target: str, host: str, port: int, url: str | None, grace: float) -> None:
    """Serve the agent AGENT of the module MODULE until SIGINT or SIGTERM.

    AGENT is a trio_a2a.Agent, an A2AApp, or an async callable (context, updater), whose card is then made of its name
    and docstring. Tasks are kept in memory, and are gone when it ends.
    """
    from .serve import ServeError, run_server  # noqa: PLC0415 - imported when it is run

    try:
        trio.run(run_server, target, host, port, url, grace, strict_exception_groups=True)
    except ServeError as exc:
        _fail(str(exc))


@cli.command()
def demo() -> None:
    """Run a server and its clients in one program: three subscribers, and a hook that closes their streams."""
    try:
        from .demo import run_demo  # noqa: PLC0415 - imported when it is run, and needs an extra
    except ModuleNotFoundError as exc:
        if exc.name != "httpx2":
            raise
        _fail("the demo needs an extra: pip install 'trio-a2a[client]'")
    else:
        _run(run_demo)


def _run(command: Callable[[], Awaitable[None]]) -> None:
    status = 0
    try:
        trio.run(command)
    except* KeyboardInterrupt:
        status = 130  # as shells count it: 128 and the number of SIGINT
    except* BrokenPipeError:
        status = 1
        # Whoever read the output is gone; the interpreter must not try to flush it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def _fail(reason: str) -> None:
    click.echo(f"trio-a2a: {reason}", err=True)
    sys.exit(2)
