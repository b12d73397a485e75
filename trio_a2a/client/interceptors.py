"""Code of the program around each call."""

from typing import Any

from .transport import ClientCall

__all__ = ["Interceptor"]


class Interceptor:
    """Sees each call before it is made and after it; subclass it and override what you need.

    Several are asked in order before a call, and in the reverse order after it. What one raises reaches the caller.
    """

    async def before(self, call: ClientCall) -> ClientCall:
        """Return the call to make: the one given, or one that ``attrs.evolve`` made of it.

        A stream is one call, and each connection with which it is taken up again is another (SubscribeToTask).
        """
        return call

    async def after(self, call: ClientCall, result: Any, error: Exception | None) -> Any:
        """Return the result for the caller.

        Args:
            call: The call as it was made.
            result: The result; None if it failed, or has none. Of a stream that was opened: None.
            error: Why it failed; None if it did not. It is raised whatever this returns.
        """
        return result
