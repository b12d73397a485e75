"""The suite for authenticators, and for the principals that they return."""

from collections.abc import Iterable

import trio

from ..abc import AuthenticationRequest, Authenticator
from ..errors import AuthenticationError, AuthorizationError

__all__ = ["check_authenticator"]

_CALLERS = 10
_SECRET_HEADERS = ("authorization", "x-api-key", "cookie")


async def check_authenticator(
    authenticator: Authenticator,
    *,
    accepted: Iterable[AuthenticationRequest],
    refused: Iterable[AuthenticationRequest],
) -> None:
    """Check that an authenticator meets the obligations of `Authenticator`, and its principals those of `Principal`.

    Args:
        authenticator: What is checked.
        accepted: Requests whose callers it lets in.
        refused: Requests whose callers it does not; each must raise AuthenticationError or AuthorizationError, and say
            nothing of the credentials.

    Raises:
        AssertionError: The authenticator breaks an obligation; the text says which.
    """
    for request in accepted:
        await _check_accepted(authenticator, request)
    for request in refused:
        await _check_refused(authenticator, request)


async def _check_accepted(authenticator: Authenticator, request: AuthenticationRequest) -> None:
    ids: list[object] = []

    async def ask() -> None:
        principal = await authenticator.authenticate(request)
        ids.append(getattr(principal, "id", None))
        assert getattr(principal, "id", None) == ids[-1], "the id of a principal does not change"

    await ask()
    assert isinstance(ids[0], str), "a principal has an id, which is a string"
    async with trio.open_nursery() as nursery:
        for _ in range(_CALLERS):
            nursery.start_soon(ask)
    assert set(ids) == {ids[0]}, "one caller has one id, however often it comes and whoever else is asking"


async def _check_refused(authenticator: Authenticator, request: AuthenticationRequest) -> None:
    try:
        principal = await authenticator.authenticate(request)
    except (AuthenticationError, AuthorizationError) as refusal:
        said = " ".join((refusal.message, *refusal.metadata.values()))
        for name in _SECRET_HEADERS:
            secret = request.headers.get(name, "").rpartition(" ")[2]
            assert not secret or secret not in said, "a refusal does not repeat the credentials"
    except Exception as exc:
        raise AssertionError(
            f"a caller is refused with AuthenticationError or AuthorizationError, not {type(exc).__name__}"
        ) from exc
    else:
        raise AssertionError(f"a caller that is to be refused was let in as {principal.id!r}")
