"""Blocks that hide a nursery: ``async with open_x() as x``.

A nursery around a block that is not ours would turn whatever the block raises into an exception group. So a context
manager with a nursery of its own catches what its body raises, and raises it when the nursery has ended: as it is, and
also where the nursery itself then raises the cancellation of a scope around it all, which says less.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

__all__ = ["block_outcome", "running_beside"]


@asynccontextmanager
async def running_beside(async_fn: Callable[[], Awaitable[object]], *, name: str) -> AsyncIterator[None]:
    """Run ``async_fn()`` for the length of a block; it is cancelled when the block is left.

    Args:
        async_fn: What is run; it contains its own expected failures. An exception from it is a bug, which cancels the
            block.
        name: The name of its Trio task.

    Raises:
        BaseException: What the block raised, as it is; or what ``async_fn`` did.
        BaseExceptionGroup: Both failed.

    Cancellation: entering is no checkpoint. Leaving waits until ``async_fn`` has ended.
    """
    own: BaseException | None = None
    hidden: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(async_fn, name=name)
            try:
                yield
            except BaseException as exc:
                own = exc
            nursery.cancel_scope.cancel(reason=f"the block beside the {name} was left")
    except BaseException as exc:
        hidden = exc
    outcome = block_outcome(own, hidden, f"the block failed, and so did the {name}")
    if outcome is not None:
        try:
            raise outcome
        finally:
            del own, hidden, outcome  # they hold this frame, which holds them


def block_outcome(own: BaseException | None, hidden: BaseException | None, both: str) -> BaseException | None:
    """Return what a block raises; None if nothing.

    A cancellation counts only where there is nothing else: it came of the other failure, or it comes again.

    Args:
        own: What left the body.
        hidden: What left the nursery.
        both: What to say where both failed.
    """
    if own is None or _is_cancellation(own):
        if hidden is None or _is_cancellation(hidden):
            return own if hidden is None else hidden
        return _alone(hidden)
    if hidden is None or _is_cancellation(hidden):
        return own
    return BaseExceptionGroup(both, [own, hidden])


def _alone(exc: BaseException) -> BaseException:
    """Take the one failure out of the group of a nursery; a group of several is nobody's to take apart."""
    if isinstance(exc, BaseExceptionGroup):
        failures = [one for one in exc.exceptions if not _is_cancellation(one)]
        if len(failures) == 1:
            return failures[0]
    return exc


def _is_cancellation(exc: BaseException) -> bool:
    if isinstance(exc, BaseExceptionGroup):
        return all(map(_is_cancellation, exc.exceptions))
    return isinstance(exc, trio.Cancelled)
