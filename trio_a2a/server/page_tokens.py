"""Page tokens: opaque to clients, and good only for whom and what they were made for.

A token holds the position of the last row of its page (a keyset, so it survives changes to the rows) and a digest over
that position, the filters and the principal, made with a key of the server. A token of other filters, of somebody else
or of somebody's own making is refused.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any, final

import orjson

from ..errors import FieldViolation, InvalidParamsError

__all__ = ["PageTokens"]

Position = tuple[datetime | None, str]
_DIGEST_BYTES = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@final
class PageTokens:
    """Makes and reads page tokens.

    Args:
        key: A secret of at least 16 bytes that all processes of a server share; by default one is made, and tokens are
            good within this process only.

    Raises:
        TypeError: The key is no bytes.
        ValueError: The key is too short.
    """

    def __init__(self, key: bytes | None = None) -> None:
        if key is not None and not isinstance(key, bytes):
            raise TypeError(f"a page token key is bytes, not {type(key).__name__}")
        if key is not None and len(key) < 16:
            raise ValueError(f"a page token key has at least 16 bytes, not {len(key)}")
        self.key = secrets.token_bytes(32) if key is None else key

    def make(self, position: Position, scope: tuple[Any, ...]) -> str:
        """Return the token for the page behind a position.

        Args:
            position: Status time and id of the last row.
            scope: What it is for: the principal and the filters; JSON values.
        """
        timestamp, id_ = position
        milliseconds = None if timestamp is None else (timestamp - _EPOCH) // _MILLISECOND
        payload = orjson.dumps([milliseconds, id_])
        return _encoded(self._digest(payload, scope) + payload)

    def read(self, token: str, scope: tuple[Any, ...]) -> Position:
        """Return the position of a token.

        Raises:
            InvalidParamsError: It was not made here for this scope.
        """
        try:
            data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (binascii.Error, ValueError):
            raise _refused() from None
        if _encoded(data) != token:  # the decoder skips what is no base64
            raise _refused()
        digest, payload = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if not hmac.compare_digest(digest, self._digest(payload, scope)):
            raise _refused()
        milliseconds, id_ = orjson.loads(payload)
        return None if milliseconds is None else _EPOCH + milliseconds * _MILLISECOND, id_

    def _digest(self, payload: bytes, scope: tuple[Any, ...]) -> bytes:
        message = orjson.dumps(scope) + b"\n" + payload
        return hmac.digest(self.key, message, hashlib.sha256)[:_DIGEST_BYTES]


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _refused() -> InvalidParamsError:
    violation = FieldViolation("pageToken", "Is not a token of this list with these filters")
    return InvalidParamsError(violations=(violation,))
