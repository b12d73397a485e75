"""Text from elsewhere, made fit for a terminal: it may hold anything, escape sequences too."""

import re

__all__ = ["one_line", "printable"]

# Controls (C0 save tab and line feed, DEL, C1), and the marks that turn the direction of text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_LONGEST_LINE = 500  # a few lines of a terminal: an error page is recognised by less


def printable(text: str) -> str:
    """Return text whose control characters cannot do anything to a terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def one_line(text: str, longest: int = _LONGEST_LINE) -> str:
    """Return text on one line, cut where it is too long."""
    line = " ".join(printable(text).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"
