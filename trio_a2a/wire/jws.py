"""Detached JWS (RFC 7515) as agent cards carry them: the protected header, its checks, and base64url.

A header is refused for any doubt. ``alg`` and ``kid`` count only where they are protected; ``crit`` names extensions,
and none is known here. ``jku`` says where the signer's keys lie, but that is the signer's word: it is passed on only if
its host is allowed.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias, final

import attrs
import orjson

from ..types import AgentCardSignature

__all__ = [
    "MAX_HEADER",
    "MAX_SIGNATURE",
    "AllowJku",
    "KeyRequest",
    "RefusedError",
    "decode",
    "encode",
    "is_jku",
    "read_header",
    "signing_input",
]

MAX_SIGNATURE: Final = 4096
"""Characters of a signature; one by RSA of 8192 bits has 1366."""

MAX_HEADER: Final = 16_384
"""Characters of a protected header; one with a chain of certificates has some thousand."""

# Stricter than URLs are, so that no two parsers can disagree about the host: no user, no backslash, no blank.
_JKU: Final = re.compile(
    r"https://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?(?:[/?][!-\[\]-~]*)?", re.ASCII
)

AllowJku: TypeAlias = Collection[str] | Callable[[str], bool]


class RefusedError(Exception):
    """One signature does not count; the text says why."""


@final
@attrs.frozen
class KeyRequest:
    """The key that a signature asks for.

    Attributes:
        kid: Its id.
        jku: Where the signer says that it lies; None also for a place that is not allowed.
        algorithm: What it is used with.
    """

    kid: str
    jku: str | None
    algorithm: str


def read_header(signature: AgentCardSignature, allow_jku: AllowJku, algorithms: Collection[str]) -> KeyRequest:
    """Return what a signature asks for, once its protected header is found in order.

    Raises:
        RefusedError: It is not.
    """
    try:
        header = orjson.loads(decode(signature.protected, MAX_HEADER, "protected header"))
    except orjson.JSONDecodeError:
        header = None
    if not isinstance(header, dict):
        raise RefusedError("its protected header is no JSON object")
    if "crit" in header or "crit" in (signature.header or {}):
        raise RefusedError("it needs extensions (crit), and none is known here")
    algorithm, kid, jku = header.get("alg"), header.get("kid"), header.get("jku")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise RefusedError(f"its algorithm {str(algorithm)[:20]!r} is not accepted")
    if not isinstance(kid, str) or not kid:
        raise RefusedError("its protected header names no key (kid)")
    return KeyRequest(kid, jku if _is_allowed(jku, allow_jku) else None, algorithm)


def is_jku(url: str) -> bool:
    """Tell whether this is a URL that ``jku`` may be: https, and nothing unusual in it."""
    return _JKU.fullmatch(url) is not None


def _is_allowed(jku: Any, allow_jku: AllowJku) -> bool:
    match = _JKU.fullmatch(jku) if isinstance(jku, str) else None
    if match is None:
        return False
    if callable(allow_jku):
        return bool(allow_jku(match[0]))
    host, port = match["host"].lower(), match["port"] or "443"
    return f"{host}:{port}" in allow_jku or (port == "443" and host in allow_jku)


def signing_input(protected: str, payload: bytes) -> bytes:
    """Return the bytes that are signed."""
    return f"{protected}.{encode(payload)}".encode()


def encode(content: bytes) -> str:
    """Write base64url without padding."""
    return urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def decode(text: str, limit: int, name: str) -> bytes:
    """Read base64url in its one form: no padding, no other characters, no stray bits.

    Raises:
        RefusedError: It is not in that form, empty, or longer than the limit; the text calls it by the name.
    """
    if len(text) <= limit:
        try:
            content = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            content = b""
        if content and encode(content) == text:
            return content
    raise RefusedError(f"its {name} is not in base64url")
