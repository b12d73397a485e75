"""Using other agents: `connect`, the `Client` that it gives, its streams, credentials, interceptors and errors.

What an agent answers is raised as the classes of :mod:`trio_a2a.errors`; what fails on the way as classes of
`ClientError`. HTTP needs the extra ``client``, and is imported by `connect`.
"""

from .auth import (
    APIKeyAuth as APIKeyAuth,
    Auth as Auth,
    BasicAuth as BasicAuth,
    BearerAuth as BearerAuth,
    Credentials as Credentials,
    MutualTLSAuth as MutualTLSAuth,
)
from .card_place import MAX_CARD as MAX_CARD, card_url as card_url
from .card_trust import CardTrust as CardTrust
from .client import Client as Client
from .connect import connect as connect
from .exceptions import (
    CallTimeoutError as CallTimeoutError,
    CardError as CardError,
    ClientError as ClientError,
    ConnectionFailedError as ConnectionFailedError,
    ConnectionLostError as ConnectionLostError,
    CredentialsError as CredentialsError,
    HttpStatusError as HttpStatusError,
    InvalidResponseError as InvalidResponseError,
    NoUsableInterfaceError as NoUsableInterfaceError,
    ProtocolError as ProtocolError,
    ResponseTooLargeError as ResponseTooLargeError,
    StreamInterruptedError as StreamInterruptedError,
    TransportError as TransportError,
    UnsupportedVersionError as UnsupportedVersionError,
)
from .fold import fold as fold
from .interceptors import Interceptor as Interceptor
from .oauth2 import OAuth2ClientCredentials as OAuth2ClientCredentials
from .push_configs import PushConfigs as PushConfigs
from .stream import EventStream as EventStream
from .task_list import TaskList as TaskList, TaskPages as TaskPages
from .transport import (
    ClientCall as ClientCall,
    ClientTransport as ClientTransport,
    EventSource as EventSource,
    ReceivedEvent as ReceivedEvent,
)

__all__ = [
    "MAX_CARD",
    "APIKeyAuth",
    "Auth",
    "BasicAuth",
    "BearerAuth",
    "CallTimeoutError",
    "CardError",
    "CardTrust",
    "Client",
    "ClientCall",
    "ClientError",
    "ClientTransport",
    "ConnectionFailedError",
    "ConnectionLostError",
    "Credentials",
    "CredentialsError",
    "EventSource",
    "EventStream",
    "HttpStatusError",
    "Interceptor",
    "InvalidResponseError",
    "MutualTLSAuth",
    "NoUsableInterfaceError",
    "OAuth2ClientCredentials",
    "ProtocolError",
    "PushConfigs",
    "ReceivedEvent",
    "ResponseTooLargeError",
    "StreamInterruptedError",
    "TaskList",
    "TaskPages",
    "TransportError",
    "UnsupportedVersionError",
    "card_url",
    "connect",
    "fold",
]
