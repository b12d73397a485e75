"""What leaves a block that hides a nursery: the failure of its body, that of what ran behind it, or both.

A context manager with a nursery of its own catches what its body raises, so that it leaves as it is and not in a
group. Then the nursery ends, and may raise, too: most of all the cancellation of a scope around it all, which must not
take the place of the body's failure.
"""

import trio

__all__ = ["block_outcome"]


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
