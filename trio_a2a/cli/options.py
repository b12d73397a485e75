"""Options that commands have in common, and how they are read. What is secret in them is never repeated in an error."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

__all__ = [
    "STATES",
    "Seconds",
    "agent_url",
    "connection_options",
    "read_span",
    "save_option",
    "since_option",
    "state_option",
    "text",
    "wait_options",
]

F = TypeVar("F", bound=Callable[..., Any])

STATES = (
    "submitted",
    "working",
    "completed",
    "failed",
    "canceled",
    "input-required",
    "rejected",
    "auth-required",
)
"""The states of tasks, as they are written on a command line."""

_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) ?([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)


def _read_header(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    headers = []
    for position, text in enumerate(values, start=1):
        name, colon, value = text.partition(":")
        value = value.strip()
        if not colon or not _TOKEN.fullmatch(name.strip()):
            raise click.BadParameter(f"header {position} is not of the form 'Name: value'")
        if not value.isascii() or not value.isprintable():
            raise click.BadParameter(f"the value of the header {name.strip()!r} is not printable ASCII")
        headers.append((name.strip().lower(), value))
    return tuple(headers)


def _read_bearer(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not (value and value.isascii() and value.isprintable()):
        raise click.BadParameter("a token is printable ASCII, and not empty")
    return value


def text(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
    """Return what is to be sent as text: the bytes of a command line need not be UTF-8, and Python keeps those."""
    for one in value if isinstance(value, tuple) else (value,):
        try:
            (one or "").encode()
        except UnicodeEncodeError:
            raise click.BadParameter("it is no UTF-8 text") from None
    return value


class Seconds(click.FloatRange):
    """A number of seconds, which is a number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        seconds = super().convert(value, param, ctx)
        if seconds != seconds:  # noqa: PLR0124 - what is not equal to itself is not a number
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


def _read_since(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is no time: write 2026-01-31, 2026-01-31T12:00 or 2026-01-31T12:00Z"
        ) from None


def read_span(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of a span of time, such as ``30d``; a callback for options."""
    if value is None:
        return None
    match = _SPAN.fullmatch(value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is no span of time: write 90s, 15m, 12h or 30d")
    return float(match[1]) * _SECONDS[match[2]]


agent_url = click.argument("url", metavar="URL", callback=text)
"""The agent's URL, or that of its card."""

_CONNECTION = (
    click.option("--bearer", metavar="TOKEN", envvar="TRIO_A2A_BEARER", show_envvar=True, callback=_read_bearer,
                 help="A bearer token to show."),
    click.option("--header", "headers", metavar="'NAME: VALUE'", multiple=True, callback=_read_header,
                 help="A header to send; may be repeated."),
    click.option("--transport", "transports", metavar="BINDING", multiple=True,
                 type=click.Choice(["JSONRPC", "HTTP+JSON", "GRPC"], case_sensitive=False),
                 help="JSONRPC, HTTP+JSON or GRPC: a binding that may be used; may be repeated. By default each."),
    click.option("--timeout", type=Seconds(min=0, min_open=True), metavar="SECONDS",
                 help="What a call may take (60); of a stream: until it begins. A send that waits has none."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, errors too (these on stderr)."),
    click.option("--debug", is_flag=True, help="Show what is done, and more of an error."),
)  # fmt: skip


def connection_options(command: F) -> F:
    """Add what every command takes that talks to an agent."""
    for option in reversed(_CONNECTION):
        command = option(command)
    return command


def wait_options(command: F) -> F:
    """Add what commands take that wait for a task."""
    return click.option(
        "--cancel-on-interrupt", is_flag=True, help="Let Ctrl-C cancel the task, not only the waiting for it."
    )(save_option(command))


save_option = click.option(
    "--save",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Write the artifacts to files in DIR, which is made if need be. No file is overwritten.",
)

state_option = click.option("--state", type=click.Choice(STATES), help="Only tasks in this state.")

since_option = click.option(
    "--since", metavar="TIME", callback=_read_since, help="Only tasks whose status is of this time (ISO 8601) or later."
)
