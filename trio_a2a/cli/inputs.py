"""What is sent: text, files and JSON from the command line, as the parts of a message."""

import mimetypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click
import orjson

from ..types import Part

__all__ = ["read_parts"]

_UNKNOWN = "application/octet-stream"
_MAX_INPUT = 256 * 1024 * 1024
"""Bytes of one input: far more than agents take, and a bound on what a device without an end could fill."""


def read_parts(text: str | None, files: Sequence[str], data: Sequence[str]) -> tuple[Part, ...]:
    """Return the parts of a message, in the order text, files, data.

    Args:
        text: The text; ``-`` stands for standard input.
        files: Paths of files.
        data: JSON texts, or ``@`` and the path of a file that holds one.

    Raises:
        click.UsageError: There is nothing to send, a file cannot be read, or what should be JSON is none.
    """
    parts = [] if text is None else [Part(text=_standard_input() if text == "-" else text)]
    for path in files:
        guessed, encoding = mimetypes.guess_type(path, strict=False)
        # Of x.tar.gz the type would be that of what is inside.
        media_type = _UNKNOWN if guessed is None or encoding is not None else guessed
        parts.append(Part(raw=_read(path), filename=_name(path), media_type=media_type))
    parts += [Part(data=_json(given)) for given in data]
    if not parts:
        raise click.UsageError("there is nothing to send: give TEXT, --file or --data")
    return tuple(parts)


def _name(path: str) -> str:
    # The bytes of a name need not be UTF-8, and what is sent must be.
    return os.fsencode(Path(path).name).decode(errors="replace")


def _standard_input() -> str:
    try:
        return _bounded(sys.stdin.buffer, "standard input").decode()
    except UnicodeDecodeError:
        raise click.UsageError("standard input is no UTF-8 text; send it with --file") from None


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return _bounded(file, repr(path))
    except OSError as exc:
        raise click.UsageError(f"{path!r} cannot be read: {exc.strerror or exc}") from exc


def _bounded(file: BinaryIO, name: str) -> bytes:
    content = file.read(_MAX_INPUT + 1)
    if len(content) > _MAX_INPUT:
        raise click.UsageError(f"{name} is longer than {_MAX_INPUT // 1024**2} MiB; send a link to it")
    return content


def _json(given: str) -> Any:
    from_file = given.startswith("@")
    text: str | bytes = _read(given[1:]) if from_file else given
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        where = repr(given[1:]) if from_file else "--data"
        raise click.UsageError(f"{where} is no JSON: {exc}") from None
