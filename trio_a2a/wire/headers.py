"""Service parameters: what travels beside a request, in headers, query parameters or gRPC metadata (section 6.1)."""

import re
from collections.abc import Collection, Iterable

from ..errors import VersionNotSupportedError

__all__ = ["DEFAULT_VERSION", "EXTENSIONS", "VERSION", "choose_version", "parse_extensions"]

VERSION = "A2A-Version"
EXTENSIONS = "A2A-Extensions"

DEFAULT_VERSION = "0.3"
"""What a request without the parameter, or with an empty one, asks for (section 3.6 of the specification)."""

_MAJOR_MINOR = re.compile(r"(\d+\.\d+)(?:\.\d+)*")


def choose_version(requested: str | None, served: Collection[str]) -> str:
    """Return the served version that a request asks for; patch numbers do not matter.

    Args:
        requested: The parameter's value; None if there is none.
        served: Versions as Major.Minor.

    Raises:
        VersionNotSupportedError: It is not served.
    """
    asked = (requested or "").strip() or DEFAULT_VERSION
    match = _MAJOR_MINOR.fullmatch(asked)
    if match is not None and match[1] in served:
        return match[1]
    # What is echoed is the caller's text: bounded, and printable.
    shown = "".join(c for c in asked[:20] if c.isprintable())
    raise VersionNotSupportedError(
        f"A2A version {shown} is not supported", metadata={"requested": shown, "supported": ", ".join(served)}
    )


def parse_extensions(values: Iterable[str]) -> tuple[str, ...]:
    """Return the URIs of all ``A2A-Extensions`` lines, each once, in order."""
    uris = (uri.strip() for value in values for uri in value.split(","))
    return tuple(dict.fromkeys(uri for uri in uris if uri))
