"""Repeating calls that failed on the way: those that change nothing, and those that never left."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from ..errors import RateLimitedError, UnavailableError
from .backoff import backoff
from .exceptions import ConnectionFailedError, HttpStatusError, TransportError

__all__ = ["MAX_ATTEMPTS", "with_retries"]

MAX_ATTEMPTS: Final = 3
"""Attempts of a call in all: one lost connection, and another to be sure. More would keep a failing server busy."""

T = TypeVar("T")


async def with_retries(attempt: Callable[[], Awaitable[T]], *, safe: bool, attempts: int = MAX_ATTEMPTS) -> T:
    """Make a call, and make it again where that is safe.

    Args:
        attempt: Makes it.
        safe: It changes nothing: it is repeated after every failure of the network that may pass, and when the server
            says that it is busy. Else only where no connection could be made.
        attempts: How often in all.

    Raises:
        A2AError: The agent's answer.
        TransportError: The last attempt failed, too.

    Cancellation: the attempt, or the wait for the next one, is given up.
    """
    failures = 0
    while True:
        try:
            return await attempt()
        except (TransportError, RateLimitedError, UnavailableError) as exc:
            failures += 1
            if failures >= attempts or not (safe or isinstance(exc, ConnectionFailedError)):
                raise
            if isinstance(exc, HttpStatusError) and not exc.may_pass:
                raise
            retry_after = exc.retry_after if isinstance(exc, RateLimitedError | UnavailableError) else None
        await trio.sleep(backoff(failures, retry_after))
