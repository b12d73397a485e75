"""Text from elsewhere, made fit for a terminal: it may hold anything, escape sequences too."""

import re
import shlex

__all__ = ["in_command", "in_json", "in_line", "one_line", "printable"]

# Controls (C0 save tab and line feed, DEL, C1), the marks that turn the direction of text, and the separators that
# some programs take for the end of a line.
_HARMFUL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_CONTROLS = re.compile(f"[{_HARMFUL}]")
_IN_LINE = re.compile(f"[\t\n{_HARMFUL}]")

_LONGEST_LINE = 500  # a few lines of a terminal: an error page is recognised by less


def printable(text: str) -> str:
    """Return text whose control characters cannot do anything to a terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def in_line(text: str) -> str:
    """Return text as a part of a line: it cannot begin another one, which might look like one of ours."""
    return _IN_LINE.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, longest: int = _LONGEST_LINE) -> str:
    """Return text on one line, cut where it is too long."""
    line = " ".join(printable(text).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def in_command(text: str) -> str:
    """Return text as an argument of a command that somebody may copy into a shell."""
    return shlex.quote(in_line(text))


def in_json(document: str) -> str:
    """Return a JSON text of the same meaning that is harmless for a terminal, and one line to whoever splits lines.

    JSON itself escapes only the controls below U+0020. What is harmful stands within strings, nowhere else.
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", document)
