"""Who is calling."""

import hmac
from collections.abc import Mapping
from typing import final

import attrs

from ..abc import AuthenticationRequest, Authenticator, Principal
from ..errors import AuthenticationError

__all__ = ["BearerTokenAuthenticator", "NamedPrincipal"]


@attrs.frozen
class NamedPrincipal(Principal):
    """A principal that is known by its id alone."""

    _id: str

    @property
    def id(self) -> str:
        """The principal's id."""
        return self._id


@final
class BearerTokenAuthenticator(Authenticator):
    """Accepts a fixed set of bearer tokens (RFC 6750, in the Authorization header).

    Args:
        tokens: Token to principal, or to the principal's id.

    Raises:
        ValueError: There is no token, one is empty, or a principal has the id "", which is everybody's.
    """

    def __init__(self, tokens: Mapping[str, str | Principal]) -> None:
        if not tokens or not all(tokens):
            raise ValueError("give at least one token, and no empty one")
        self._principals = tuple(
            (token.encode(), NamedPrincipal(who) if isinstance(who, str) else who) for token, who in tokens.items()
        )
        if not all(principal.id for _, principal in self._principals):
            raise ValueError('a principal needs an id; "" is the anonymous one')

    def __repr__(self) -> str:
        return f"<BearerTokenAuthenticator: {len(self._principals)} tokens>"

    async def authenticate(self, request: AuthenticationRequest) -> Principal:
        """Return the principal of the request's token.

        Raises:
            AuthenticationError: There is no token, or it is not known.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise AuthenticationError
        given, found = token.strip().encode(), None
        for known, principal in self._principals:
            # All are compared, in constant time: how long it takes tells nothing about them.
            if hmac.compare_digest(known, given):
                found = principal
        if found is None:
            raise AuthenticationError
        return found
