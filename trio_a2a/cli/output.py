"""Where a command tells everything: JSON lines for scripts, plain text for people."""

import json
import sys
from typing import TYPE_CHECKING, Any, final

import orjson

from ..types import Value
from ..wire import to_json
from .redaction import Redaction
from .text import in_json, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["Output"]

# Of tables that go into a file or a pipe: so wide that no identifier is broken.
_FILE_WIDTH = 200


@final
class Output:
    """Standard output, in one of its two forms.

    What an agent sends is made harmless for terminals; in JSON by escapes, so that it still means the same. Lines are
    flushed at once, for whoever reads them while a stream runs.

    Args:
        as_json: One JSON object a line, and nothing else.
        redaction: Applied to what is said on standard error, and what `redacted` is asked for.

    Attributes:
        as_json: As given.
    """

    def __init__(self, *, as_json: bool, redaction: Redaction) -> None:
        self.as_json = as_json
        self._redaction = redaction
        self._console: Console | None = None
        if hasattr(sys.stdout, "reconfigure"):
            # A terminal that cannot show a character is no reason to fail.
            sys.stdout.reconfigure(errors="replace")

    @property
    def is_live(self) -> bool:
        """A person is watching: there is a terminal, which can be written to again and again."""
        return not self.as_json and sys.stdout.isatty()

    @property
    def console(self) -> "Console":
        """The terminal, or the file in its place, for tables and live displays. There is colour on a terminal only."""
        if self._console is None:
            from rich.console import Console  # noqa: PLC0415 - scripts do not pay for it

            terminal = sys.stdout.isatty()
            self._console = Console(
                force_terminal=terminal,
                no_color=None if terminal else True,
                width=None if terminal else _FILE_WIDTH,
                markup=False,
                emoji=False,
                highlight=False,
                soft_wrap=False,
            )
        return self._console

    def value(self, value: Value) -> None:
        """Print a value in its wire form."""
        self._write(to_json(value).decode())

    def document(self, **members: Any) -> None:
        """Print an object that is ours."""
        self._write(orjson.dumps(members).decode())

    def line(self, text: str = "") -> None:
        """Print text and a line feed."""
        self._write(printable(text))

    def piece(self, text: str) -> None:
        """Print text that goes on later."""
        sys.stdout.write(printable(text))
        sys.stdout.flush()

    def show(self, renderable: "RenderableType") -> None:
        """Print a table, or whatever rich can show."""
        self.console.print(renderable)

    def aside(self, text: str) -> None:
        """Tell a person something on standard error; scripts that read JSON are not told."""
        if not self.as_json:
            sys.stderr.write(f"trio-a2a: {self._redaction(printable(text))}\n")
            sys.stderr.flush()

    def redacted(self, text: str) -> str:
        """Return text from elsewhere without the user's secrets, which an answer may repeat."""
        return self._redaction(text)

    def _write(self, line: str) -> None:
        line = in_json(line)
        try:
            line.encode(sys.stdout.encoding)
        except UnicodeEncodeError:  # JSON can say everything in ASCII
            line = json.dumps(orjson.loads(line))
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
