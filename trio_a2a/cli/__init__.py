"""The `trio-a2a` command."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; without its libraries, say how to install them."""
    try:
        from .commands import cli  # noqa: PLC0415 - the command must start without its extra, to name it
    except ModuleNotFoundError as exc:
        if exc.name not in {"click", "rich"}:
            raise
        print("trio-a2a: the command line needs an extra: pip install 'trio-a2a[cli]'", file=sys.stderr)
        sys.exit(2)
    cli()
