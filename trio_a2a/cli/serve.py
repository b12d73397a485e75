"""`trio-a2a serve`: find the agent, serve it, end in order."""

import importlib
import logging
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio

from ..server import A2AApp, Agent, Served, serve
from ..server.agent import agent_of
from .keeping import Keeping, ServeError, kept

__all__ = ["ServeError", "load_agent", "run_server"]


async def run_server(target: str, host: str, port: int, url: str | None, grace: float, keeping: Keeping) -> None:
    """Serve until SIGINT or SIGTERM: the first drains, a second ends at once.

    Raises:
        ServeError: There is no such agent, its tasks cannot be kept where they are to be, the address cannot be
            listened on, or the URL is none.
        ImportError: An extra is missing; the text names it.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    agent = load_agent(target)
    # Around the server: when it ends, it stores what it has accepted.
    async with kept(agent.agent if isinstance(agent, A2AApp) else agent, keeping) as where:
        failure = await _serve_until_signal(agent, where, host=host, port=port, url=url, grace=grace)
    if failure is not None:
        raise ServeError(failure)


async def _serve_until_signal(agent: Agent | A2AApp, where: str, **options: Any) -> str | None:
    """Serve; return why the server could not start."""
    failure: str | None = None
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            try:
                served: Served = await nursery.start(partial(_serve_alone, nursery.cancel_scope, agent, **options))
            except OSError as exc:
                failure = exc.strerror or str(exc)
            except ValueError as exc:
                failure = str(exc)
            else:
                click.echo(f"serving at {served.url} (tasks are kept {where}); Ctrl-C ends it")
                await anext(signals)
                served.shutdown()
                await anext(signals)
                nursery.cancel_scope.cancel(reason="a second signal")
    return failure


async def _serve_alone(
    everything: trio.CancelScope, agent: Agent | A2AApp, *, task_status: trio.TaskStatus[Served], **options: Any
) -> None:
    """Serve, and end everything else when that is over."""
    await serve(agent, task_status=task_status, **options)
    everything.cancel(reason="the server has shut down")


def load_agent(target: str) -> Agent | A2AApp:
    """Import ``MODULE:AGENT``.

    Raises:
        ServeError: It cannot be imported, or is no agent.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise ServeError(f"{target!r} does not name an agent; write MODULE:AGENT, such as examples.echo:agent")
    # As with `python -m`: modules of the current directory can be served.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (module_name == exc.name or module_name.startswith(f"{exc.name}.")):
            raise ServeError(f"there is no module {module_name!r} (from {here})") from None
        raise ServeError(f"module {module_name!r} cannot be imported: {exc}") from exc
    except (Exception, SystemExit) as exc:  # boundary around user code: its import may raise anything
        raise ServeError(f"module {module_name!r} cannot be imported: {type(exc).__name__}: {exc}") from exc
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ServeError(f"module {module_name!r} has no {attribute!r}") from None
    if isinstance(found, A2AApp):
        return found
    try:
        return agent_of(found)
    except TypeError as exc:
        raise ServeError(f"{target!r} is no agent: {exc}") from None
