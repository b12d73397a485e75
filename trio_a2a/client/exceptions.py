"""What can go wrong between a client and an agent, apart from what the agent itself answers.

An agent's refusals are the classes of :mod:`trio_a2a.errors`, the same as on a server. Here is what they are not:
faults of the network (`TransportError`), of time (`CallTimeoutError`), of an answer that breaks the protocol
(`ProtocolError`), and of a stream that could not be taken up again (`StreamInterruptedError`). Exceptions of the HTTP
library never get out.
"""

from typing import final

__all__ = [
    "CallTimeoutError",
    "CardError",
    "ClientError",
    "ConnectionFailedError",
    "ConnectionLostError",
    "CredentialsError",
    "HttpStatusError",
    "InvalidResponseError",
    "NoUsableInterfaceError",
    "ProtocolError",
    "ResponseTooLargeError",
    "StreamInterruptedError",
    "TransportError",
    "UnsupportedVersionError",
]

# Characters in a text: enough to recognise a proxy's error page by. Bytes in the error, which a program may keep.
_SHOWN = 200
_KEPT = 8192


class ClientError(Exception):
    """A call failed, and not by the agent's own answer."""


# --- The network ----------------------------------------------------------------------------------------------------


class TransportError(ClientError):
    """The network, or what lies between, failed."""


class ConnectionFailedError(TransportError):
    """No connection could be made: nothing was sent, so the agent knows nothing of the call."""


class ConnectionLostError(TransportError):
    """The connection broke after the request was sent, at least in part: the agent may have acted on it."""


@final
class HttpStatusError(TransportError):
    """An HTTP status that means nothing in the protocol, such as that of a wrong URL or of a failing proxy.

    Attributes:
        status: The HTTP status.
        body: The beginning of the body.
    """

    def __init__(self, status: int, body: bytes = b"") -> None:
        self.status = status
        self.body = body[:_KEPT]
        super().__init__(status, self.body)

    @property
    def may_pass(self) -> bool:
        """Whether the same request may fare better: a redirect, or a place that is not there, stays what it is."""
        return self.status >= 500 or self.status in {408, 425}

    def __str__(self) -> str:
        shown = self.body[:_SHOWN].decode(errors="replace")
        return f"the answer has the HTTP status {self.status}" + (f": {shown}" if shown else "")


# --- The clock ------------------------------------------------------------------------------------------------------


@final
class CallTimeoutError(ClientError, TimeoutError):
    """A call took longer than its time-out. The agent may have acted on it.

    Attributes:
        operation: What was called.
        seconds: The time-out.
    """

    def __init__(self, operation: str, seconds: float) -> None:
        self.operation = operation
        self.seconds = seconds
        super().__init__(operation, seconds)

    def __str__(self) -> str:
        return f"{self.operation} took longer than {self.seconds:g} seconds"


# --- The protocol ---------------------------------------------------------------------------------------------------


class ProtocolError(ClientError):
    """The other side does not keep to the protocol."""


class InvalidResponseError(ProtocolError):
    """An answer is not what the operation answers with."""


class ResponseTooLargeError(ProtocolError):
    """An answer, or an event of a stream, is larger than the client takes."""


class CardError(ProtocolError):
    """There is no usable agent card."""


class NoUsableInterfaceError(CardError):
    """None of the card's interfaces can be used."""


class UnsupportedVersionError(NoUsableInterfaceError):
    """The agent speaks other versions of the protocol only."""


class CredentialsError(ClientError):
    """The credentials that were given do not satisfy the card, or a token could not be had for them."""


# --- Streams --------------------------------------------------------------------------------------------------------


@final
class StreamInterruptedError(TransportError):
    """A stream broke, or ended too early, and could not be taken up again. The agent may still be at work.

    Attributes:
        task_id: The task; None if the stream broke before its first event.
        last_sequence: The number of the last event that was seen; 0 where events are not numbered.
    """

    def __init__(self, reason: str, *, task_id: str | None, last_sequence: int = 0) -> None:
        self.task_id = task_id
        self.last_sequence = last_sequence
        super().__init__(reason)
