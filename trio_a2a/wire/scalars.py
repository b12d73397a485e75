"""Scalars whose JSON form is not their own: timestamps and bytes.

Both decoders use these readers, both strict: they raise ValueError with a text that is fit for the caller.
"""

import re
from binascii import Error, a2b_base64, b2a_base64
from datetime import datetime
from typing import Any, Final

from ..types.timestamp import utc_milliseconds

__all__ = ["read_base64", "read_timestamp", "write_base64", "write_timestamp"]

# Stricter than datetime.fromisoformat, which takes a space for the T, a missing zone, week dates and 24:00.
_TIMESTAMP: Final = re.compile(
    r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_URL_SAFE: Final = str.maketrans("-_", "+/")


def read_timestamp(text: Any) -> datetime:
    """Read an RFC 3339 timestamp; more precision than milliseconds is cut off.

    Raises:
        ValueError: It is no timestamp; no leap second, no date alone, no missing zone.
    """
    if text.__class__ is str and _TIMESTAMP.fullmatch(text):
        try:
            instant = utc_milliseconds(datetime.fromisoformat(text))
        except ValueError:  # a day or a year that does not exist
            pass
        else:
            assert instant is not None
            return instant
    raise ValueError("Must be a timestamp such as 2026-03-14T09:02:01.900Z")


def write_timestamp(instant: datetime) -> str:
    """Write an instant of :func:`~trio_a2a.types.timestamp.utc_milliseconds`, with three digits of the second."""
    return instant.isoformat(timespec="milliseconds")[:-6] + "Z"


def read_base64(text: Any) -> bytes:
    """Read base64: the standard or the URL-safe alphabet, with or without padding.

    Raises:
        ValueError: It is no base64; nothing is skipped and nothing guessed.
    """
    if text.__class__ is str and text.isascii():
        digits = text.rstrip("=")
        padding = -len(digits) % 4
        # The padding is counted here, because binascii's strict mode lets some surplus of it through.
        if len(text) - len(digits) in {0, padding}:
            try:
                return a2b_base64(digits.translate(_URL_SAFE) + "=" * padding, strict_mode=True)
            except Error:
                pass
    raise ValueError("Must be base64")


def write_base64(content: bytes) -> str:
    """Write bytes in the standard alphabet, padded."""
    return b2a_base64(content, newline=False).decode("ascii")
