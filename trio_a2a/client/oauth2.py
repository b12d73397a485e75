"""OAuth 2 client credentials (RFC 6749 section 4.4): a token that is fetched when needed, and again before it ends."""

import math
from base64 import b64encode
from collections.abc import Sequence
from copy import copy
from typing import Final, Literal, final
from urllib.parse import quote_plus

import orjson
import trio

from ..types import OAuth2SecurityScheme, SecurityScheme
from .auth import Auth, Credentials, PostForm, require_texts
from .exceptions import ClientError, CredentialsError

__all__ = ["MAX_TOKEN_ANSWER", "REFRESH_MARGIN", "OAuth2ClientCredentials"]

REFRESH_MARGIN: Final = 30.0
"""Seconds before its end at which a token is no longer used: a request takes a while to arrive, and clocks differ."""

MAX_TOKEN_ANSWER: Final = 256 * 1024
"""Bytes of a token endpoint's answer; a token that does not fit into a header is none."""

_OK = 200


@final
class OAuth2ClientCredentials(Auth):
    """A token for the program itself.

    Tasks that need one at the same time share one fetch, and its failure.

    Args:
        client_id: The client's id.
        client_secret: Its secret.
        token_url: The token endpoint; by default what the card says.
        scopes: The scopes to ask for; by default those that the card requires.
        method: How the client shows itself to the token endpoint: in a ``basic`` header, or in the ``body``.

    Raises:
        TypeError: The id, the secret or the endpoint is no text, or the scopes are one.
        ValueError: The method is another.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str,
        *,
        token_url: str | None = None,
        scopes: Sequence[str] = (),
        method: Literal["basic", "body"] = "basic",
    ) -> None:
        require_texts(
            client_id=client_id, client_secret=client_secret, token_url="" if token_url is None else token_url
        )
        if isinstance(scopes, str):
            raise TypeError(f"scopes is a sequence of texts, such as [{scopes!r}]")
        if method not in {"basic", "body"}:
            raise ValueError(f"method is 'basic' or 'body', not {method!r}")
        self._client_id = client_id
        self._client_secret = client_secret
        self._token_url = token_url
        self._scopes = tuple(scopes)
        self._method: Literal["basic", "body"] = method
        self._token: str | None = None
        self._renew_at = 0.0
        # Held while a token is fetched, which is what it is for: the others wait for that token, and if the one that
        # fetches is cancelled the next one does.
        self._fetching = trio.Lock()
        self._fetches = 0  # how many have come to an end of their own
        self._failure: Exception | None = None  # that of the last one

    def bind(self, scheme: SecurityScheme, scopes: Sequence[str] = ()) -> "OAuth2ClientCredentials | None":
        """Return it with the endpoint and the scopes of the card, if the scheme has this flow."""
        value = scheme.value
        flow = value.flows.client_credentials if isinstance(value, OAuth2SecurityScheme) else None
        if flow is None:
            return None
        return OAuth2ClientCredentials(
            self._client_id,
            self._client_secret,
            token_url=self._token_url or flow.token_url,
            scopes=self._scopes or tuple(scopes),
            method=self._method,
        )

    async def credentials(self, post: PostForm) -> Credentials:
        """Return the Authorization header, with a token that is still good for a while.

        Raises:
            CredentialsError: The token endpoint refuses, or there is none.
            TransportError: It could not be reached.

        Cancellation: a fetch is given up; the next caller begins another.
        """
        known = self._fetches
        async with self._fetching:
            if self._token is None or trio.current_time() >= self._renew_at:
                if self._failure is not None and self._fetches > known:
                    # Who waited for a fetch that failed does not make it again: an endpoint that is in trouble would
                    # be asked once for each of them, and the last one would wait for all.
                    raise copy(self._failure) from self._failure
                await self._fetched(post)
            return Credentials(headers={"authorization": f"Bearer {self._token}"})

    def forget(self, refused: Credentials) -> bool:
        """Fetch another one next time, unless there already is another one."""
        had = refused.headers.get("authorization")
        if had == f"Bearer {self._token}":
            self._token = None
        return had is not None

    async def _fetched(self, post: PostForm) -> None:
        try:
            await self._fetch(post)
        except ClientError as exc:
            self._failure = exc
            self._fetches += 1
            raise
        self._failure = None
        self._fetches += 1

    async def _fetch(self, post: PostForm) -> None:
        if self._token_url is None:
            raise CredentialsError(
                "the card has no client credentials flow: write OAuth2ClientCredentials(..., token_url=...)"
            )
        form = {"grant_type": "client_credentials"}
        headers = {"accept": "application/json"}
        if self._scopes:
            form["scope"] = " ".join(self._scopes)
        if self._method == "basic":
            pair = f"{quote_plus(self._client_id)}:{quote_plus(self._client_secret)}"
            headers["authorization"] = "Basic " + b64encode(pair.encode()).decode()
        else:
            form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        asked_at = trio.current_time()
        status, body = await post(self._token_url, form, headers)
        token, lifetime = _read(status, body)
        self._token = token
        # A token that ends within the margin is used for half of its life. Without a word on it, it is used until it
        # is refused.
        self._renew_at = asked_at + (lifetime - REFRESH_MARGIN if lifetime > 2 * REFRESH_MARGIN else lifetime / 2)


def _read(status: int, body: bytes) -> tuple[str, float]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    members = answer if isinstance(answer, dict) else {}
    if status != _OK:
        error = members.get("error")
        said = f": {error[:100]}" if isinstance(error, str) else ""
        raise CredentialsError(f"the token endpoint answered {status}{said}")
    token, kind, lifetime = members.get("access_token"), members.get("token_type", "Bearer"), members.get("expires_in")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise CredentialsError("the token endpoint answered without an access token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise CredentialsError("the token endpoint gives tokens of another type than Bearer")
    if isinstance(lifetime, str) and lifetime.isascii() and lifetime.isdigit():  # some say it as a text
        lifetime = int(lifetime[:10])
    if isinstance(lifetime, int | float) and not isinstance(lifetime, bool) and lifetime > 0:
        return token, float(lifetime)
    return token, math.inf
