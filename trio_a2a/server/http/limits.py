"""Every bound the HTTP server puts on one client, with the reason for its default."""

from __future__ import annotations

from typing import Any

import attrs


def count(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Check a number of bytes or things: a positive int.

    Raises:
        TypeError: It is no int.
        ValueError: It is not positive.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{attribute.name} must be an int, not {value!r}")
    seconds(instance, attribute, value)


def seconds(_instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Check a positive number of seconds.

    Raises:
        TypeError: It is no number.
        ValueError: It is not positive.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{attribute.name} must be a number, not {value!r}")
    if not value > 0:
        raise ValueError(f"{attribute.name} must be positive, not {value!r}")


def _count_or_none(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None:
        count(instance, attribute, value)


@attrs.frozen(kw_only=True)
class HttpLimits:
    """Bounds on what a client may send, and on how long the server waits for it.

    Sizes are in bytes, times in seconds on Trio's clock. Each value must be positive; only `max_body` may be
    `None`, which leaves the bound to the application.

    Raises:
        TypeError: A value is no number, or a size no int.
        ValueError: A value is zero or negative.
    """

    # A hard stop that protects memory whatever the application does; an application that must answer an
    # oversized body in its own format puts a smaller bound of its own on what it reads.
    max_body: int | None = attrs.field(default=16 * 1024 * 1024, validator=_count_or_none)
    # Request line and header fields together. llhttp has no bound at all; 32 KiB is four times what proxies
    # commonly allow one field, so long bearer tokens and trace headers pass.
    max_head: int = attrs.field(default=32 * 1024, validator=count)
    # 8,000 octets is what RFC 9112 section 3 asks every recipient to support at least.
    max_target: int = attrs.field(default=8 * 1024, validator=count)
    # A browser sends about 20, a chain of proxies another 20. Each costs two objects per request.
    max_headers: int = attrs.field(default=100, validator=count)
    # One chunk-size line with its extensions. Nobody uses extensions; signing proxies need about 100 bytes.
    max_chunk_line: int = attrs.field(default=1024, validator=count)
    # All trailer fields of one chunked body together. They are read and dropped.
    max_trailers: int = attrs.field(default=8 * 1024, validator=count)
    # From the accept, or from the first byte of a later request, to the complete header block: 408. A header
    # block is one or two packets; ten seconds is several retransmissions.
    header_timeout: float = attrs.field(default=10.0, validator=seconds)
    # Without a byte of a body that the application is ready to take: 408. Matches common proxies.
    body_timeout: float = attrs.field(default=30.0, validator=seconds)
    # Without the client taking a byte of a response: the connection is dropped and its handler cancelled.
    write_timeout: float = attrs.field(default=30.0, validator=seconds)
    # An idle connection between two requests is closed without a word. Longer than the 60 s after which load
    # balancers drop theirs, so that the side that sends requests is the side that closes.
    keep_alive_timeout: float = attrs.field(default=75.0, validator=seconds)
    # A TLS handshake is two round trips.
    handshake_timeout: float = attrs.field(default=10.0, validator=seconds)
    # At 11 to 20 KiB for an idle stream this is some 20 MiB, and it stays under the usual limit of 1,024
    # file descriptors. A connection past it is answered with 503.
    max_connections: int = attrs.field(default=1000, validator=count)
