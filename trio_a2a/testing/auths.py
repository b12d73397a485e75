"""The suite for credentials of the client."""

from collections.abc import Iterable, Mapping

import trio

from ..client import Auth, Credentials, CredentialsError
from ..client.auth import PostForm
from ..types import SecurityScheme

__all__ = ["check_auth"]

_CALLERS = 5


async def _nowhere(url: str, _form: Mapping[str, str], _headers: Mapping[str, str]) -> tuple[int, bytes]:
    await trio.lowlevel.checkpoint()
    raise CredentialsError(f"there is no token endpoint at {url!r}")


async def check_auth(auth: Auth, *, schemes: Iterable[SecurityScheme] = (), post: PostForm = _nowhere) -> None:
    """Check that credentials meet the obligations of `Auth`.

    Args:
        auth: What is checked; it has credentials to give.
        schemes: Schemes of cards, of any kind: to each it is bound, or says that it does not fit.
        post: Asks the token endpoint, where it needs one.

    Raises:
        AssertionError: It breaks an obligation; the text says which.
    """
    for scheme in schemes:
        try:
            bound = auth.bind(scheme)
        except CredentialsError:
            continue
        assert bound is None or isinstance(bound, Auth), "bind() returns an Auth, or None where it does not fit"
    first = await auth.credentials(post)
    assert isinstance(first, Credentials), "credentials() returns Credentials"
    secrets = [*first.headers.values(), *first.query.values(), *first.cookies.values()]
    shown = repr(auth)
    assert not any(part in shown for secret in secrets for part in secret.split()[-1:]), "repr() shows no secret"
    given: list[Credentials] = []

    async def ask() -> None:
        given.append(await auth.credentials(post))

    async with trio.open_nursery() as nursery:
        for _ in range(_CALLERS):
            nursery.start_soon(ask)
    assert given == [first] * _CALLERS, "credentials stay as they are while nobody has refused them"
    renewable = auth.forget(first)
    assert isinstance(renewable, bool), "forget() tells whether there can be others"
    second = await auth.credentials(post)
    if renewable and second != first:
        # Of requests under way at the same time each learns for itself that the old ones are refused.
        assert auth.forget(first) is True, "others can be had, since they have been"
        assert await auth.credentials(post) == second, "a late refusal of the old credentials leaves the new ones"
