"""Waiting between attempts: longer each time, and never for the same time as everybody else."""

import random
from typing import Final

__all__ = ["FIRST_DELAY", "MAX_DELAY", "MAX_RETRY_AFTER", "backoff"]

FIRST_DELAY: Final = 0.05
"""Seconds before the first repetition: a connection that was cut is nearly always to be had again at once. It doubles
after that."""

MAX_DELAY: Final = 10.0
"""The longest wait that is our own choice: an agent that is back is found within it."""

MAX_RETRY_AFTER: Final = 60.0
"""The longest wait that a server can ask for; one that says "tomorrow" is not waited for."""


def backoff(attempt: int, retry_after: float | None = None) -> float:
    """Return the seconds to wait before a repetition.

    Args:
        attempt: How often it has failed, 1 or more.
        retry_after: What the server asks for.
    """
    longest = min(MAX_DELAY, FIRST_DELAY * 2.0 ** min(attempt - 1, 30))
    # Spread over the upper half: clients that were cut off together do not come back together.
    delay = longest * (0.5 + random.random() / 2)  # noqa: S311 - nobody must not guess it
    return delay if retry_after is None else max(delay, min(retry_after, MAX_RETRY_AFTER))
