"""A task that runs beside a block.

A nursery around a block that is not ours (``async with open_x() as x``) would turn whatever the block raises into an
exception group. Here it leaves as it is, since the task beside it contains its own expected failures.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

__all__ = ["running_beside"]


@asynccontextmanager
async def running_beside(async_fn: Callable[[], Awaitable[object]], *, name: str) -> AsyncIterator[None]:
    """Run ``async_fn()`` for the length of a block; it is cancelled when the block is left.

    Args:
        async_fn: What is run. An exception from it is a bug; it cancels the block, and leaves in a group.
        name: The name of its Trio task.

    Raises:
        BaseException: What the block raised, as it is.

    Cancellation: entering is no checkpoint. Leaving waits until ``async_fn`` has ended.
    """
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(async_fn, name=name)
            try:
                yield
            except (Exception, BaseExceptionGroup, KeyboardInterrupt, SystemExit) as exc:
                failure = exc
            nursery.cancel_scope.cancel(reason=f"the block beside the {name} was left")
    except BaseException:
        # The cancellation that the wait for the task may have met says less than what the block raised.
        if failure is None:
            raise
    if failure is not None:
        raise failure
