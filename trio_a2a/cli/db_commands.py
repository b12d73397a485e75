"""``trio-a2a db``: the commands about databases that tasks are kept in, and their options."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from .options import read_span

__all__ = ["db"]

F = TypeVar("F", bound=Callable[..., Any])


def _database(command: F) -> F:
    """Add what every command takes."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON, errors too (these on stderr).")(command)
    # Other users of the machine see what is on a command line, and it may be a password.
    return click.argument("url", metavar="URL", envvar="TRIO_A2A_STORE")(command)


@click.group()
def db() -> None:
    """Look after the database that tasks are kept in.

    URL is sqlite:///FILE, postgresql://..., mysql://... or mariadb://...; or it is in the environment, as
    TRIO_A2A_STORE, where other users cannot see it.
    """


@db.command("migrate", short_help="Make the tables, or bring them to the version needed.")
@_database
def migrate_command(url: str, as_json: bool) -> None:
    """Make the tables, or bring them to the version that this program needs.

    Several may do so at once: one does it, the others wait for it.
    """
    from .db import migrate_tables, run_on_database  # noqa: PLC0415 - imported when it is run

    run_on_database(url, migrate_tables, as_json=as_json)


@db.command("current")
@_database
def current_command(url: str, as_json: bool) -> None:
    """Show the version of the tables.

    Exit status 1 if it is not the one that this program needs.
    """
    from .db import run_on_database, show_version  # noqa: PLC0415 - imported when it is run

    run_on_database(url, show_version, as_json=as_json)


@db.command("prune", short_help="Delete finished tasks that are old.")
@_database
@click.option(
    "--older-than",
    required=True,
    metavar="SPAN",
    callback=read_span,
    help="How long ago a task must have ended: 90s, 15m, 12h or 30d.",
)
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="At most N tasks in one transaction (50).")
@click.option(
    "--share",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="PART",
    help="The part of the time to be at work, the rest being for others (0.05); 1 to be done soon.",
)
@click.option("--dry-run", is_flag=True, help="Delete nothing; tell what would be deleted.")
def prune_command(
    url: str, as_json: bool, older_than: float, batch: int | None, share: float | None, dry_run: bool
) -> None:
    """Delete finished tasks that are old, with their events and webhooks.

    It may be done while the database is in use, and interrupted: what is deleted by then is deleted.
    """
    from .db import prune_tasks, run_on_database  # noqa: PLC0415 - imported when it is run

    prune = partial(prune_tasks, older_than=older_than, batch=batch, share=share, dry_run=dry_run)
    run_on_database(url, prune, as_json=as_json)


@db.command("stats", short_help="Show how much there is.")
@_database
def stats_command(url: str, as_json: bool) -> None:
    """Show how much there is: tasks by state, events, bytes, ages, processes, orphans."""
    from .db import run_on_database, show_statistics  # noqa: PLC0415 - imported when it is run

    run_on_database(url, show_statistics, as_json=as_json)


@db.command("check", short_help="Check that what is stored is whole.")
@_database
def check_command(url: str, as_json: bool) -> None:
    """Check that what is stored is whole: each task, its events, its snapshot, its end.

    It changes nothing, and may be done while the database is in use. Exit status 1 if something is found.
    """
    from .db import check_tasks, run_on_database  # noqa: PLC0415 - imported when it is run

    run_on_database(url, check_tasks, as_json=as_json)
