"""Artifacts to files. Their names come from elsewhere, so they decide nothing but the last part of a path.

A file that is there is never touched, whoever made it: each file is created anew, under a name with a number where the
plain one is taken.
"""

import mimetypes
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import orjson

from ..types import Artifact, Part
from .failures import CommandError
from .output import Output
from .program import USAGE

__all__ = ["make_directory", "safe_name", "save_artifacts"]

_LONGEST = 200  # bytes of UTF-8; with a suffix and a number that is within the 255 of common file systems
_LONGEST_SUFFIX = 20
_MOST = 10_000  # names that are tried: more files of one name are a mistake

# What no common file system takes, or takes as a separator, and what does something to a terminal.
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f<>:"/\\|?*\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]')
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{kind}{number}" for kind in ("com", "lpt") for number in range(1, 10)}
)


def make_directory(path: str | None) -> None:
    """Make the directory to save to, before anything is sent.

    Raises:
        CommandError: It cannot be made, or not be written to.
    """
    if path is None:
        return
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise CommandError(f"{path!r} cannot be made a directory: {exc.strerror or exc}", status=USAGE) from exc
    try:
        # Only writing tells whether one can; the file has no name, or loses it at once.
        tempfile.TemporaryFile(dir=path).close()
    except OSError as exc:
        raise CommandError(f"nothing can be written to {path!r}: {exc.strerror or exc}", status=USAGE) from exc


def save_artifacts(artifacts: Iterable[Artifact], directory: str | None, output: Output) -> None:
    """Write artifacts to files, and tell which.

    Args:
        artifacts: The artifacts.
        directory: Where to; None: nowhere.
        output: For telling it.

    Raises:
        CommandError: A file cannot be written.
    """
    if directory is None:
        return
    for artifact in artifacts:
        for name, content in _files(artifact):
            path = _write(Path(directory), name, content)
            if output.as_json:
                output.document(saved={"artifactId": artifact.artifact_id, "path": str(path), "bytes": len(content)})
            else:
                output.line(f"saved {path} ({len(content)} bytes)")


def safe_name(name: str, otherwise: str = "artifact") -> str:
    """Return the last part of a path as a name that is safe in any directory."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    cleaned = _UNSAFE.sub("_", last).strip(" .")
    stem, dot, suffix = cleaned.rpartition(".")
    cleaned = f"{_cut(stem)}.{suffix}" if dot and len(suffix.encode()) <= _LONGEST_SUFFIX else _cut(cleaned)
    if cleaned.partition(".")[0].lower() in _DEVICES:
        cleaned = f"_{cleaned}"
    return cleaned or otherwise


def _cut(name: str) -> str:
    return name.encode()[:_LONGEST].decode(errors="ignore").strip(" .")


def _files(artifact: Artifact) -> Iterator[tuple[str, bytes]]:
    """Yield a name and the content for each file of an artifact."""
    stem = safe_name(artifact.name or artifact.artifact_id)
    for part in _joined(artifact.parts):
        if part.filename:
            name = safe_name(part.filename, stem)
        else:
            suffix = _suffix(part)
            name = stem if Path(stem).suffix == suffix else f"{stem}{suffix}"
        yield name, _content(part)


def _joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield the parts, those that are chunks of one text being one."""
    texts: list[Part] = []
    for part in parts:
        is_chunk = part.text is not None and not part.filename
        if texts and not (is_chunk and part.media_type == texts[0].media_type):
            yield attrs.evolve(texts[0], text="".join(text.text or "" for text in texts))
            texts.clear()
        if is_chunk:
            texts.append(part)
        else:
            yield part
    if texts:
        yield attrs.evolve(texts[0], text="".join(text.text or "" for text in texts))


def _suffix(part: Part) -> str:
    media_type = part.media_type.partition(";")[0].strip().lower()
    if part.kind == "url":
        return ".url"  # what is at the URL has the media type, and it is not fetched
    if media_type and (guessed := mimetypes.guess_extension(media_type, strict=False)):
        return guessed
    return {"text": ".txt", "raw": ".bin", "data": ".json"}[part.kind]


def _content(part: Part) -> bytes:
    if part.text is not None:
        return part.text.encode()
    if part.raw is not None:
        return part.raw
    if part.url is not None:
        return f"{part.url}\n".encode()
    return orjson.dumps(part.data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _write(directory: Path, name: str, content: bytes) -> Path:
    stem, dot, suffix = name.rpartition(".")
    if not stem:
        stem, dot, suffix = name, "", ""
    for number in range(_MOST):
        path = directory / (f"{stem}-{number}{dot}{suffix}" if number else name)
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        except OSError as exc:
            raise CommandError(f"{str(path)!r} cannot be written: {exc.strerror or exc}") from exc
        return path
    raise CommandError(f"there are too many files with the name {name!r} in {str(directory)!r}")
