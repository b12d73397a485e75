"""What the commands of ``trio-a2a db`` do."""

import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, NoReturn

import trio

from ..clock import TrioClock
from ..errors import StoreError
from ..stores import open_sql_store
from ..stores.sql.checking import Finding, check
from ..stores.sql.engine import parse_url, passwords_of
from ..stores.sql.migrating import current_version, migrate
from ..stores.sql.retention import Pruned
from ..stores.sql.schema import SCHEMA_VERSION
from ..stores.sql.survey import survey
from .output import Output
from .program import FAILED, fail, usage_error
from .redaction import Redaction
from .text import one_line

__all__ = ["check_tasks", "migrate_tables", "prune_tasks", "run_on_database", "show_statistics", "show_version"]

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def run_on_database(url: str, command: Callable[[str, Output], int], *, as_json: bool) -> NoReturn:
    """Run a command on a database, and exit with its status.

    Args:
        url: The database.
        command: Takes the URL, and where to tell things; returns the exit status.
        as_json: Print JSON.
    """
    try:
        secrets = passwords_of(parse_url(url))
    except ValueError as exc:
        usage_error(str(exc))
    redaction = Redaction(secrets)
    try:
        status = command(url, Output(as_json=as_json, redaction=redaction))
        sys.stdout.flush()
    except StoreError as exc:
        text = redaction(str(exc))
        fail(one_line(text), {"type": type(exc).__name__, "message": text}, FAILED)
    sys.exit(status)


def migrate_tables(url: str, output: Output) -> int:
    """Bring the tables to the version that is needed."""
    done = migrate(url)
    if output.as_json:
        output.document(before=done.before, version=done.after)
    elif done.before is None:
        output.line(f"the tables are made, version {done.after}")
    elif done.before == done.after:
        output.line(f"the tables are of version {done.after} already")
    else:
        output.line(f"the tables were of version {done.before}, and are now of version {done.after}")
    return 0


def show_version(url: str, output: Output) -> int:
    """Show the version of the tables."""
    found = current_version(url)
    if output.as_json:
        output.document(version=found, needed=SCHEMA_VERSION)
    else:
        output.line("no tables" if found is None else found)
        if found != SCHEMA_VERSION:
            newer = found is not None and found > SCHEMA_VERSION
            todo = "it is too old for them" if newer else "trio-a2a db migrate brings them there"
            output.aside(f"this program needs version {SCHEMA_VERSION}: {todo}")
    return 0 if found == SCHEMA_VERSION else FAILED


def prune_tasks(
    url: str, output: Output, *, older_than: float, batch: int | None, share: float | None, dry_run: bool
) -> int:
    """Delete tasks that ended longer ago."""
    options: dict[str, Any] = {"batch": batch, "share": share}
    given = {name: value for name, value in options.items() if value is not None}

    async def prune() -> Pruned:
        async with open_sql_store(url, create=False, readers=1) as store:
            return await store.prune(older_than, dry_run=dry_run, **given)

    pruned = trio.run(prune)
    if output.as_json:
        output.document(tasks=pruned.tasks, events=pruned.events, dryRun=dry_run)
    else:
        output.line(f"{'would delete' if dry_run else 'deleted'} {pruned.tasks} tasks with {pruned.events} events")
    return 0


def show_statistics(url: str, output: Output) -> int:
    """Show how much there is."""

    async def now() -> datetime:
        return TrioClock().now()

    found = survey(url, trio.run(now))
    states = {name.lower().replace("_", "-"): count for name, count in found.tasks.items()}
    if output.as_json:
        output.document(
            version=found.version,
            tasks=states,
            events=found.events,
            pushConfigs=found.push_configs,
            bytes=found.bytes,
            oldest=found.oldest,
            newest=found.newest,
            firstEnd=found.first_end,
            processes={"live": found.live_processes, "dead": found.dead_processes},
            orphans=found.orphans,
        )
        return 0
    by_state = ", ".join(f"{count} {state}" for state, count in states.items())
    for name, value in (
        ("version", found.version),
        ("tasks", f"{sum(states.values())}{f' ({by_state})' if by_state else ''}"),
        ("events", found.events),
        ("webhooks", found.push_configs),
        ("size", _size(found.bytes)),
        ("oldest task", _instant(found.oldest)),
        ("newest task", _instant(found.newest)),
        ("first end", _instant(found.first_end)),
        ("processes", f"{found.live_processes} alive, {found.dead_processes} dead"),
        ("orphans", found.orphans),
    ):
        output.line(f"{name:<12} {value}")
    return 0


def check_tasks(url: str, output: Output) -> int:
    """Check that what is stored is whole."""
    checked = check(url, partial(_show_finding, output))
    if output.as_json:
        output.document(
            summary={"tasks": checked.tasks, "events": checked.events, "findings": checked.findings},
        )
    else:
        found = "nothing is wrong" if not checked.findings else f"findings: {checked.findings}"
        output.line(f"checked {checked.tasks} tasks with {checked.events} events; {found}")
    return FAILED if checked.findings else 0


def _show_finding(output: Output, finding: Finding) -> None:
    if output.as_json:
        output.document(task=finding.task_id, problem=finding.problem)
    else:
        output.line(f"task {one_line(finding.task_id)}: {finding.problem}")


def _instant(instant: datetime | None) -> str:
    return "-" if instant is None else instant.isoformat(timespec="seconds")


def _size(count: float) -> str:
    power = 0
    while count >= 1000 and power < len(_UNITS) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.1f} {_UNITS[power]}" if power else f"{count:.0f} {_UNITS[0]}"
