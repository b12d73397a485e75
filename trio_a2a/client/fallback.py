"""Several interfaces of one agent, of which the first that answers the phone is used."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, final

from .exceptions import ConnectionFailedError
from .transport import ClientCall, ClientTransport, EventSource

__all__ = ["FallbackTransport"]

T = TypeVar("T")


@final
class FallbackTransport(ClientTransport):
    """Goes on to the next interface when no connection to one can be made; then it stays there.

    Args:
        transports: The interfaces' transports, the preferred one first.
    """

    def __init__(self, transports: Sequence[ClientTransport]) -> None:
        self._transports = tuple(transports)
        self._index = 0

    @property
    def binding(self) -> str:
        """The binding of the interface."""
        return self._transports[self._index].binding

    async def call(self, call: ClientCall) -> Any:
        """Carry out a call, as the Protocol says."""
        return await self._tried(lambda transport: transport.call(call))

    async def open(self, call: ClientCall, *, last_event_id: int | None = None) -> EventSource:
        """Begin a stream, as the Protocol says."""
        return await self._tried(lambda transport: transport.open(call, last_event_id=last_event_id))

    async def _tried(self, attempt: Callable[[ClientTransport], Awaitable[T]]) -> T:
        first = self._index
        for step in range(len(self._transports)):
            index = (first + step) % len(self._transports)
            try:
                result = await attempt(self._transports[index])
            except ConnectionFailedError:
                if step == len(self._transports) - 1:
                    raise
            else:
                self._index = index
                return result
        raise AssertionError("there is at least one interface")  # pragma: no cover
