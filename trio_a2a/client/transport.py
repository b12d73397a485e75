"""Calls, and what carries them: the seam between the client's operations and the bindings."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, final, runtime_checkable

import attrs
import trio

from ..abc import StreamEvent
from ..types import (
    AgentCard,
    ListTaskPushNotificationConfigsResponse,
    ListTasksResponse,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
)
from ..types.value import Value
from .exceptions import CallTimeoutError

__all__ = ["OPERATIONS", "ClientCall", "ClientTransport", "EventSource", "Operation", "ReceivedEvent", "time_limit"]


@final
@attrs.frozen
class Operation:
    """What a client knows of an operation.

    Attributes:
        result: The class of its result; None where it has none. Of a stream: that of each event.
        safe: It changes nothing, so it can be repeated.
    """

    result: type[Value] | None
    safe: bool = False


OPERATIONS: Final[Mapping[str, Operation]] = {
    "SendMessage": Operation(SendMessageResponse),
    "SendStreamingMessage": Operation(StreamResponse),
    "GetTask": Operation(Task, safe=True),
    "ListTasks": Operation(ListTasksResponse, safe=True),
    "CancelTask": Operation(Task),
    "SubscribeToTask": Operation(StreamResponse, safe=True),
    "CreateTaskPushNotificationConfig": Operation(TaskPushNotificationConfig),
    "GetTaskPushNotificationConfig": Operation(TaskPushNotificationConfig, safe=True),
    "ListTaskPushNotificationConfigs": Operation(ListTaskPushNotificationConfigsResponse, safe=True),
    "DeleteTaskPushNotificationConfig": Operation(None),
    "GetExtendedAgentCard": Operation(AgentCard, safe=True),
}


@final
@attrs.frozen(kw_only=True)
class ClientCall:
    """One call, as interceptors and transports see it.

    Attributes:
        operation: The operation's name, such as ``SendMessage``.
        request: Its request. The tenant is added by the transport.
        extensions: URIs of the extensions that are activated.
        headers: More headers of the request; not in its repr, since they may be secret.
        timeout: Seconds that it may take; of a stream: until it begins.
        silence: Seconds without a byte after which a stream counts as broken.
    """

    operation: str
    request: Any
    extensions: tuple[str, ...] = ()
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    timeout: float = math.inf
    silence: float = math.inf


@final
@attrs.frozen
class ReceivedEvent:
    """An event as it came.

    Attributes:
        event: The event.
        sequence: Its number; 0 for one that has none.
    """

    event: StreamEvent
    sequence: int = 0


class EventSource(Protocol):
    """The events of one connection."""

    async def receive(self) -> ReceivedEvent:
        """Wait for the next event.

        Raises:
            trio.EndOfChannel: The other side has ended the stream in order.
            A2AError: It has ended it with an error.
            TransportError: The connection broke.
            ProtocolError: What came is no stream of events.

        Cancellation: the source is of no more use then, save to be closed.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection; a second time nothing happens."""
        ...


@runtime_checkable
class ClientTransport(Protocol):
    """Carries calls to one agent in one binding.

    It neither repeats calls nor limits their time: the client does. It adds its interface's tenant to each request.
    """

    @property
    def binding(self) -> str:
        """The binding's name, such as ``JSONRPC``."""
        ...

    async def call(self, call: ClientCall) -> Any:
        """Carry out a call, and return a value of the operation's result class.

        Raises:
            A2AError: The agent's answer.
            ConnectionFailedError: Nothing was sent.
            TransportError: It failed in another way.
            ProtocolError: The answer is none.
        """
        ...

    async def open(self, call: ClientCall, *, last_event_id: int | None = None) -> EventSource:
        """Begin a stream; who calls closes it.

        Args:
            call: A call of SendStreamingMessage or SubscribeToTask.
            last_event_id: The number of the last event that was seen.

        Raises:
            A2AError: The agent refuses.
            TransportError: It failed in another way.
            ProtocolError: The answer is neither a stream nor an error.
        """
        ...


@contextmanager
def time_limit(seconds: float, operation: str) -> Iterator[None]:
    """Limit the time of a block, on Trio's clock.

    Raises:
        CallTimeoutError: It took longer.
    """
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise CallTimeoutError(operation, seconds)
