"""The command as a program: what every way out of it looks like.

Exit statuses: 0, all is well; 1, the agent or the way to it failed, or the task did; 2, the command was used wrongly;
130, it was interrupted. An error is one line on standard error, with ``--json`` one JSON object.

Nothing of the rest of the package is imported here: `--help` answers before trio would be there.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

__all__ = ["FAILED", "INTERRUPTED", "USAGE", "fail", "forget_output", "main", "usage_error"]

FAILED = 1
USAGE = 2
INTERRUPTED = 128 + signal.SIGINT  # as shells count it


def main() -> None:
    """Run the command line; without its libraries, say how to install them."""
    _open_what_is_closed()
    try:
        # It must start without its extra, to name it.
        import click  # noqa: PLC0415

        from .commands import cli  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        if exc.name not in {"click", "rich"}:
            raise
        usage_error("the command line needs an extra: pip install 'trio-a2a[cli]'")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    # Before version 8.2 of click a call without a command shows the help by itself.
    no_arguments: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except no_arguments as exc:
        exc.show()
        sys.exit(USAGE)
    except click.ClickException as exc:
        where = exc.ctx.command_path if isinstance(exc, click.UsageError) and exc.ctx is not None else None
        reason = exc.format_message().rstrip(".")
        if reason.startswith("Got unexpected extra argument"):
            # It would repeat them, and a header that was not quoted may be among them.
            reason = "there are more arguments than the command takes; quote those that have spaces in them"
        usage_error(reason, where=where)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        forget_output()
        sys.exit(FAILED)
    except OSError as exc:  # commands tell their own; what is left is writing what was asked for
        forget_output()
        reason = f"the output cannot be written: {exc.strerror or exc}"
        fail(reason, {"type": type(exc).__name__, "message": reason}, FAILED)
    except ImportError as exc:
        # Modules that need an extra say so, in words for whoever sees them.
        if "trio-a2a[" not in str(exc):
            raise
        usage_error(str(exc))
    sys.exit(status if isinstance(status, int) else 0)


def usage_error(reason: str, *, where: str | None = None) -> NoReturn:
    """Say in one line how the command was used wrongly, and exit.

    Args:
        reason: What is wrong.
        where: The command whose help tells more.
    """
    hint = "" if where is None else f" (see {where} --help)"
    fail(f"{' '.join(reason.split())}{hint}", {"type": "UsageError", "message": reason}, USAGE)


def fail(line: str, members: dict[str, Any], status: int) -> NoReturn:
    """Print an error as the options ask for it, and exit.

    Args:
        line: The error for a person.
        members: The error for a program.
        status: The exit status.
    """
    # Also where the options could not be read: a script that asks for JSON gets JSON.
    as_json = "--json" in sys.argv[1:]
    with suppress(OSError):  # where nobody can be told, the status tells it
        print(json.dumps({"error": members}) if as_json else f"trio-a2a: {line}", file=sys.stderr)
    sys.exit(status)


def _open_what_is_closed() -> None:
    """A standard stream that the caller has closed is one that nobody reads, or that is at its end."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def forget_output() -> None:
    """Whoever read the output is gone: the interpreter must not try to flush it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
