"""From a URL or a card to a client."""

import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from ..errors import AuthenticationError, AuthorizationError
from ..types import AgentCard, AgentInterface
from ..wire.signing import CardKeys
from .arguments import auths_of, headers_of, interceptors_of, seconds_of, texts_of, transports_of
from .auth import Auth, Authorizer, MutualTLSAuth, PostForm, choose_auth
from .card_trust import CardTrust, verified
from .client import Client
from .exceptions import CredentialsError
from .fallback import FallbackTransport
from .interceptors import Interceptor
from .interfaces import choose_interfaces
from .oauth2 import MAX_TOKEN_ANSWER
from .transport import ClientTransport, time_limit

if TYPE_CHECKING:
    import httpx2

    from .card_resolver import CardResolver, Verify
    from .http import HttpSession

__all__ = ["TRANSPORTS", "connect"]

TRANSPORTS: Final = ("JSONRPC", "HTTP+JSON", "GRPC")
"""The bindings that may be used unless it is said otherwise, in the order of the card."""


@asynccontextmanager
async def connect(
    url_or_card: str | AgentCard,
    *,
    auth: Auth | Sequence[Auth] | Mapping[str, Auth] | None = None,
    transports: Sequence[str] = TRANSPORTS,
    verify_card: "CardKeys | CardTrust | None" = None,
    allow_http: bool = True,
    timeout: float | None = 60.0,
    silence: float | None = 60.0,
    headers: Mapping[str, str] | None = None,
    extensions: Iterable[str] = (),
    interceptors: Sequence[Interceptor] = (),
    check_capabilities: bool = True,
    ssl_context: ssl.SSLContext | None = None,
    http_transport: "Callable[[], httpx2.AsyncBaseTransport] | None" = None,
) -> AsyncIterator[Client]:
    """Find an agent, and use it for the length of a block.

    ``async with connect("https://agent.example") as client: await client.send("hello")``. The card is fetched, and the
    first of its interfaces that can be used is chosen; if no connection to it can be made, the next one. Leaving the
    block closes the connections.

    Args:
        url_or_card: The agent's URL, below which its card lies; the URL of a card (``.json``); or a card.
        auth: Credentials: one kind, several that are all used, or a mapping from the names of the card's security
            schemes. They are sent to the interface, and to the card's place if that asks for them.
        transports: The bindings that may be used, the preferred one first. Left out, the card's order counts. gRPC is
            not spoken yet, and passed over where there is another.
        verify_card: The keys that are trusted to sign cards, as for :func:`trio_a2a.wire.signing.verify_card`, or a
            `CardTrust`; a card without a valid signature is then refused. Needs the extra ``signing``.
        allow_http: Whether the card, the interface and the token endpoint may be without HTTPS.
        timeout: Seconds that a call may take, and fetching the card; None: any time.
        silence: Seconds without a byte after which a stream counts as broken; None: never.
        headers: Headers of every call, and of fetching the card: what a gateway in front of the agent asks for, such as
            its own key. They go to no token endpoint, and follow no redirect to another place.
        extensions: URIs of extensions that every call activates.
        interceptors: Code around each call.
        check_capabilities: Refuse at once what the card says that the agent cannot do. False: ask the agent.
        ssl_context: For HTTPS; by default certificates are verified against the system's.
        http_transport: Makes what carries HTTP requests, in place of connections over sockets: a proxy, a Unix socket,
            or a server in the same process. It is called for each set of connections, which closes what it made.

    Raises:
        TypeError, ValueError: An argument is of another type, or no URL of an agent.
        CardError: There is no usable card, or none of its interfaces can be used.
        CardSignatureError: The card has no valid signature by the keys.
        CredentialsError: The credentials are not those that the card requires.
        A2AError: The card's server refuses it.
        TransportError: The card could not be fetched.
        CallTimeoutError: Fetching it took too long.
        ImportError: The extra ``client`` is not installed.
    """
    # Here, since the library behind it is an extra.
    from .http import open_session  # noqa: PLC0415

    place: object = url_or_card
    if not isinstance(place, str | AgentCard):
        raise TypeError(f"connect takes an agent's URL or an AgentCard, not a {type(place).__name__}")
    transports = transports_of(transports)
    auths_of(auth)
    budget = seconds_of(timeout, "timeout")
    own_headers = headers_of(headers)
    # What is wrong with what the client is given is told before anything is fetched.
    seconds_of(silence, "silence", positive=True)
    extensions = texts_of(extensions, "extensions")
    interceptors = interceptors_of(interceptors)
    context = _tls(auth) if ssl_context is None else ssl_context
    opened = partial(open_session, ssl_context=context, http_transport=http_transport)
    async with AsyncExitStack() as stack:
        # Cards and tokens come from other places than the answers to calls, and see none of their credentials.
        outside: HttpSession = await stack.enter_async_context(opened())
        fetch = None
        with time_limit(budget, "fetching the card"):
            if isinstance(url_or_card, AgentCard):
                card = url_or_card if verify_card is None else await verified(url_or_card, verify_card, outside)
                found_at = None
            else:
                sessions = [outside, *_with_credentials(outside, auth, _poster(outside, allow_http=allow_http))]
                verify = None if verify_card is None else partial(verified, trust=verify_card, session=outside)
                resolver, card, found_at = await _resolved(
                    url_or_card, sessions, verify, headers=own_headers, allow_http=allow_http
                )
                fetch = partial(_fetched_anew, resolver, url_or_card)
        interfaces = choose_interfaces(
            # The default says what may be used, not what is preferred; the same names written out do.
            card,
            transports,
            in_order=transports is not TRANSPORTS,
            card_url=found_at,
            allow_http=allow_http,
        )
        auths = choose_auth(card, auth)
        # A card that came over HTTPS sends secrets no less safely than it came itself.
        secure = found_at is not None and found_at.lower().startswith("https:")
        post = _poster(outside, allow_http=allow_http and not secure)
        authorizer = Authorizer(auths, post) if auths else None
        session = await stack.enter_async_context(opened(authorizer=authorizer))
        made = [_transport(interface, session) for interface in interfaces]
        yield Client(
            card,
            made[0] if len(made) == 1 else FallbackTransport(made),
            timeout=timeout,
            silence=silence,
            extensions=extensions,
            interceptors=interceptors,
            headers=own_headers,
            check_capabilities=check_capabilities,
            fetch_card=fetch,
        )


# ------------------------------------------------------------------------------------------------------------- the card


async def _resolved(
    url: str,
    sessions: "Sequence[HttpSession]",
    verify: "Verify | None",
    *,
    headers: Mapping[str, str],
    allow_http: bool,
) -> "tuple[CardResolver, AgentCard, str]":
    """Fetch a card, with credentials only where its server asks for them."""
    from .card_resolver import CardResolver  # noqa: PLC0415 - as in connect

    for left, session in zip(reversed(range(len(sessions))), sessions, strict=True):
        resolver = CardResolver(session, headers=headers, verify=verify, allow_http=allow_http)
        try:
            return resolver, *await resolver.resolve(url)
        except (AuthenticationError, AuthorizationError):
            if not left:
                raise
    raise AssertionError("there is at least one session")  # pragma: no cover


async def _fetched_anew(resolver: "CardResolver", url: str) -> AgentCard:
    resolver.revalidate(url)
    card, _ = await resolver.resolve(url)
    return card


# ----------------------------------------------------------------------------------------------- connections and tokens


def _with_credentials(
    outside: "HttpSession", auth: Auth | Sequence[Auth] | Mapping[str, Auth] | None, post: PostForm
) -> "list[HttpSession]":
    """Return the session for a card that is not public. Credentials by name of a scheme wait for the card itself."""
    if auth is None or isinstance(auth, Mapping):
        return []
    return [outside.authorized(Authorizer(auth if isinstance(auth, Sequence) else (auth,), post))]


def _tls(auth: object) -> ssl.SSLContext | None:
    given = auth.values() if isinstance(auth, Mapping) else auth if isinstance(auth, Sequence) else (auth,)
    return next((one.ssl_context for one in given if isinstance(one, MutualTLSAuth)), None)


def _transport(interface: AgentInterface, session: "HttpSession") -> ClientTransport:
    from .transports.jsonrpc import JsonRpcTransport  # noqa: PLC0415 - as in connect
    from .transports.rest import RestTransport  # noqa: PLC0415

    made = JsonRpcTransport if interface.protocol_binding == "JSONRPC" else RestTransport
    return made(interface, session)


def _poster(session: "HttpSession", *, allow_http: bool) -> PostForm:
    from .http import HttpRequest  # noqa: PLC0415 - as in connect

    async def post(url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
        if not url.startswith("https:") and not (allow_http and url.startswith("http:")):
            raise CredentialsError(f"the token endpoint {url!r} has no HTTPS")
        request = HttpRequest(
            method="POST",
            url=url,
            headers={**headers, "content-type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
        )
        answer = await session.exchange(request, limit=MAX_TOKEN_ANSWER)
        return answer.status, answer.body

    return post
