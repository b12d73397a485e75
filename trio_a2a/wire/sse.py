"""Server-Sent Events, as a server writes them (protocol section 9).

Each event is one ``data:`` line that holds one JSON document. JSON text never holds a raw line feed, but it may hold
U+0085, U+2028 and U+2029, where clients exist that split lines; inside JSON they can only stand in strings, so they are
written as escapes.
"""

__all__ = ["KEEP_ALIVE", "MEDIA_TYPE", "escaped", "frame"]

MEDIA_TYPE = b"text/event-stream"
KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, which clients skip: it shows proxies and clients that a silent stream is alive."""

_LINE_BREAKS = (
    ("\u0085".encode(), b"\\u0085"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def escaped(json: bytes) -> bytes:
    """Return JSON text without the line breaks that are not line feeds."""
    if not json.isascii():
        for raw, escape in _LINE_BREAKS:
            if raw in json:
                json = json.replace(raw, escape)
    return json


def frame(data: bytes, *, id: int = 0, event: bytes | None = None) -> bytes:
    """Return one event.

    Args:
        data: An `escaped` JSON document.
        id: The event's number; 0 for one that has none.
        event: The event's name; by default it has none.
    """
    head = b"id: %d\n" % id if id else b""
    if event is not None:
        head += b"event: %b\n" % event
    return b"%bdata: %b\n\n" % (head, data)
