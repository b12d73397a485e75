"""Groups whose commands are imported when they are asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """A group that also has commands which lie in modules of their own.

    The list of commands comes from the table alone, so a command may import what it likes: `--help` of the group does
    not wait for it.

    Args:
        args: As for `click.Group`.
        lazy: The name of each command to where it lies, ``module:attribute`` in this package, and its line in the list.
        kwargs: As for `click.Group`.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, those of lazy commands included."""
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, importing it if need be."""
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(f".{module}", __package__), attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        rows = []
        for name in self.list_commands(ctx):
            if name in self._lazy:
                rows.append((name, self._lazy[name][1]))
            else:
                command = super().get_command(ctx, name)
                rows.append((name, "" if command is None else command.get_short_help_str(limit=90)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
