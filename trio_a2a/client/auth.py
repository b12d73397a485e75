"""Credentials: how a client shows who it is, for every kind of security scheme that a card can declare.

``connect(auth=...)`` takes one `Auth`, several that are all used, or a mapping from the names of the card's security
schemes: then the first of the card's requirements is chosen for all of whose schemes there are credentials.
"""

import inspect
import re
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, final, runtime_checkable

import attrs

from ..types import AgentCard, APIKeySecurityScheme, HTTPAuthSecurityScheme, MutualTlsSecurityScheme, SecurityScheme
from .exceptions import CredentialsError

__all__ = [
    "APIKeyAuth",
    "Auth",
    "Authorizer",
    "BasicAuth",
    "BearerAuth",
    "Credentials",
    "MutualTLSAuth",
    "PostForm",
    "choose_auth",
    "require_texts",
]

# A token of HTTP (RFC 9110 section 5.6.2), which the names of headers and cookies are.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)

PostForm = Callable[[str, Mapping[str, str], Mapping[str, str]], Awaitable[tuple[int, bytes]]]
"""Posts a form (URL, fields, headers) and returns the status and the body: how a token endpoint is asked."""


@final
@attrs.frozen(kw_only=True)
class Credentials:
    """What is added to a request.

    Attributes:
        headers: Headers.
        query: Query parameters.
        cookies: Cookies.
    """

    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    query: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    cookies: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    def joined(self, other: "Credentials") -> "Credentials":
        """Return both together."""
        return Credentials(
            headers={**self.headers, **other.headers},
            query={**self.query, **other.query},
            cookies={**self.cookies, **other.cookies},
        )


@runtime_checkable
class Auth(Protocol):
    """One way to show who is calling. It is asked before every request, and may be asked by several tasks at once."""

    def bind(self, scheme: SecurityScheme, scopes: Sequence[str] = ()) -> "Auth | None":
        """Return it completed by what the card says of a scheme, or None if it does not fit that scheme.

        Args:
            scheme: The scheme.
            scopes: The scopes that the card requires.

        Raises:
            CredentialsError: It fits, but what the card says of it cannot be done.
        """
        ...

    async def credentials(self, post: PostForm) -> Credentials:
        """Return what is added to a request.

        Args:
            post: For asking a token endpoint.

        Raises:
            CredentialsError: There are none to be had.
        """
        ...

    def forget(self, refused: Credentials) -> bool:
        """The server has refused credentials: tell whether others can be had, and give those no more.

        Args:
            refused: What the request had. Other requests may have been refused with the same, and there may be others
                since then.
        """
        ...


class _Constant(Auth):
    """Credentials that cannot be renewed."""

    def forget(self, refused: Credentials) -> bool:
        return False


Token = str | Callable[[], str | Awaitable[str]]


@final
class BearerAuth(Auth):
    """A bearer token; also for OpenID Connect and those flows of OAuth 2 in which a person takes part.

    Args:
        token: The token, or a function that returns the current one, async or not. It is called for each request, and
            once more when a server has refused a token.

    Raises:
        TypeError: It is neither a text nor a function.
        ValueError: The token cannot stand in a header.
    """

    def __init__(self, token: Token) -> None:
        given: object = token
        if not isinstance(given, str) and not callable(given):
            raise TypeError(f"a token is a str, or a function that returns one; not a {type(given).__name__}")
        self._token = _in_header(token, "a token") if isinstance(token, str) else token

    def bind(self, scheme: SecurityScheme, scopes: Sequence[str] = ()) -> "BearerAuth | None":
        """Return it, if the scheme is one of bearer tokens."""
        value = scheme.value
        if isinstance(value, HTTPAuthSecurityScheme):
            return self if value.scheme.lower() == "bearer" else None
        return None if isinstance(value, APIKeySecurityScheme | MutualTlsSecurityScheme) else self

    async def credentials(self, post: PostForm) -> Credentials:
        """Return the Authorization header."""
        token = self._token if isinstance(self._token, str) else self._token()
        if inspect.isawaitable(token):
            token = await token
        return Credentials(headers={"authorization": f"Bearer {_in_header(token, 'a token')}"})

    def forget(self, refused: Credentials) -> bool:
        """A function may have another one by now."""
        return not isinstance(self._token, str)


@final
class BasicAuth(_Constant):
    """A name and a password (RFC 7617).

    Args:
        username: The name, without a colon.
        password: The password.

    Raises:
        TypeError: One of them is no text.
        ValueError: The name has a colon.
    """

    def __init__(self, username: str, password: str) -> None:
        require_texts(username=username, password=password)
        if ":" in username:
            raise ValueError("a user name has no colon: basic authentication could not tell it from the password")
        self._header = "Basic " + b64encode(f"{username}:{password}".encode()).decode()

    def bind(self, scheme: SecurityScheme, scopes: Sequence[str] = ()) -> "BasicAuth | None":
        """Return it, if the scheme is basic authentication."""
        value = scheme.value
        return self if isinstance(value, HTTPAuthSecurityScheme) and value.scheme.lower() == "basic" else None

    async def credentials(self, post: PostForm) -> Credentials:
        """Return the Authorization header."""
        return Credentials(headers={"authorization": self._header})


@final
class APIKeyAuth(_Constant):
    """An API key in a header, a query parameter or a cookie.

    Args:
        key: The key.
        name: The name of the header, parameter or cookie; by default what the card says.
        location: Where the key stands; by default what the card says.

    Raises:
        ValueError: The key cannot stand there, or the location is none.
    """

    def __init__(
        self, key: str, *, name: str | None = None, location: Literal["header", "query", "cookie"] | None = None
    ) -> None:
        if location not in {None, "header", "query", "cookie"}:
            raise ValueError(f"an API key stands in a header, query or cookie, not in a {location}")
        self._key = _in_header(key, "an API key")
        if location == "cookie" and any(c in key for c in ' ",;\\'):
            raise ValueError("the API key cannot stand in a cookie: it has a character that ends one")
        # The name may be the card's: one that is none would write into the request.
        if name is not None and location in {"header", "cookie"} and not _NAME.fullmatch(name):
            raise ValueError(f"a {location} cannot be named {name[:50]!r}")
        self._name = name
        self._location = location

    def bind(self, scheme: SecurityScheme, scopes: Sequence[str] = ()) -> "APIKeyAuth | None":
        """Return it with the name and the place that the card says, if the scheme is an API key."""
        value = scheme.value
        if not isinstance(value, APIKeySecurityScheme):
            return None
        location = self._location or value.location
        if location not in {"header", "query", "cookie"}:
            return None
        try:
            return APIKeyAuth(self._key, name=self._name or value.name, location=location)  # type: ignore[arg-type]
        except ValueError as exc:
            raise CredentialsError(f"the card wants the API key where it cannot stand: {exc}") from exc

    async def credentials(self, post: PostForm) -> Credentials:
        """Return the key in its place.

        Raises:
            CredentialsError: Neither the program nor the card says where it stands.
        """
        if self._name is None or self._location is None:
            raise CredentialsError(
                "the card does not say where an API key stands: write APIKeyAuth(key, name=..., location=...)"
            )
        entry = {self._name: self._key}
        if self._location == "header":
            return Credentials(headers=entry)
        return Credentials(query=entry) if self._location == "query" else Credentials(cookies=entry)


@final
class MutualTLSAuth(_Constant):
    """A client certificate.

    Args:
        ssl_context: A context with a certificate chain loaded (``load_cert_chain``).

    Raises:
        TypeError: It is none.
    """

    def __init__(self, ssl_context: ssl.SSLContext) -> None:
        given: object = ssl_context
        if not isinstance(given, ssl.SSLContext):
            raise TypeError(f"ssl_context is an ssl.SSLContext, not a {type(given).__name__}")
        self.ssl_context = ssl_context

    def bind(self, scheme: SecurityScheme, scopes: Sequence[str] = ()) -> "MutualTLSAuth | None":
        """Return it, if the scheme is mutual TLS."""
        return self if isinstance(scheme.value, MutualTlsSecurityScheme) else None

    async def credentials(self, post: PostForm) -> Credentials:
        """Return nothing: the certificate is shown by the connection."""
        return Credentials()


def require_texts(**given: object) -> None:
    """Refuse what is no text by its name; it may be a secret, and is not shown.

    Raises:
        TypeError: There is one.
    """
    for name, value in given.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} is a str, not a {type(value).__name__}")


def _in_header(text: str, what: str) -> str:
    require_texts(**{what: text})
    if not text or not text.isprintable() or not text.isascii():
        raise ValueError(f"{what} is printable ASCII, and not empty")
    return text


# --- Choosing -------------------------------------------------------------------------------------------------------


def choose_auth(card: AgentCard, auth: Auth | Sequence[Auth] | Mapping[str, Auth] | None) -> tuple[Auth, ...]:
    """Return the credentials to use with an agent, completed by what its card says.

    Raises:
        CredentialsError: They are given by name, and satisfy none of the card's requirements.
    """
    if auth is None:
        return ()
    if isinstance(auth, Mapping):
        return _by_requirement(card, auth)
    given = auth if isinstance(auth, Sequence) else (auth,)
    return tuple(_completed(card, one) for one in given)


def _completed(card: AgentCard, auth: Auth) -> Auth:
    """Complete what was given without a name by the first scheme that it fits; it is used in any case."""
    scopes: dict[str, tuple[str, ...]] = {}
    for requirement in card.security_requirements:
        for name, wanted in requirement.schemes.items():
            scopes.setdefault(name, wanted.list)
    # Those that are required come first.
    for name in dict.fromkeys([*scopes, *card.security_schemes]):
        scheme = card.security_schemes.get(name)
        bound = None if scheme is None else auth.bind(scheme, scopes.get(name, ()))
        if bound is not None:
            return bound
    return auth


def _by_requirement(card: AgentCard, given: Mapping[str, Auth]) -> tuple[Auth, ...]:
    anonymous = not card.security_requirements
    for requirement in card.security_requirements:
        if not requirement.schemes:
            anonymous = True
        elif all(name in given and name in card.security_schemes for name in requirement.schemes):
            bound = [given[n].bind(card.security_schemes[n], scopes.list) for n, scopes in requirement.schemes.items()]
            if all(one is not None for one in bound):
                return tuple(one for one in bound if one is not None)
    if anonymous:
        return ()
    wanted = " or ".join(" and ".join(sorted(requirement.schemes)) for requirement in card.security_requirements)
    raise CredentialsError(
        f"the card requires {wanted}; credentials were given for {', '.join(sorted(given)) or 'none'}"
    )


@final
class Authorizer:
    """Puts credentials together for each request.

    Args:
        auths: Those that are all used.
        post: For asking token endpoints.
    """

    def __init__(self, auths: Sequence[Auth], post: PostForm) -> None:
        self._auths = tuple(auths)
        self._post = post

    async def credentials(self) -> Credentials:
        """Return what is added to the next request.

        Raises:
            CredentialsError: A token could not be had.
        """
        found = Credentials()
        for auth in self._auths:
            found = found.joined(await auth.credentials(self._post))
        return found

    def forget(self, refused: Credentials) -> bool:
        """Give up credentials that were refused; tell whether there may be others."""
        return any([auth.forget(refused) for auth in self._auths])  # noqa: C419 - all of them are told
