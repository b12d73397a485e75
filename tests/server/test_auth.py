"""Who is calling: the bearer authenticator, and what the server does with the answer of any authenticator."""

import pytest
import trio

from tests.deadline import within
from tests.server.peer import open_peer
from trio_a2a.abc import AuthenticationRequest, Authenticator
from trio_a2a.errors import (
    AuthenticationError,
    AuthorizationError,
    InternalError,
    RateLimitedError,
    UnavailableError,
)
from trio_a2a.server import BearerTokenAuthenticator, NamedPrincipal
from trio_a2a.testing import check_authenticator


def asked(**headers):
    return AuthenticationRequest(headers={name.replace("_", "-"): value for name, value in headers.items()})


def bearer(token):
    return asked(authorization=f"Bearer {token}")


TOKENS = BearerTokenAuthenticator({"ann-s-token": "ann", "bob-s-token": NamedPrincipal("bob")})


@within(5)
async def test_the_bearer_authenticator_meets_the_obligations():
    await check_authenticator(
        TOKENS,
        accepted=[bearer("ann-s-token"), bearer("bob-s-token"), asked(authorization="bearer  ann-s-token ")],
        refused=[
            asked(),
            asked(authorization=""),
            asked(authorization="Bearer"),
            asked(authorization="ann-s-token"),
            asked(authorization="Basic ann-s-token"),
            asked(x_api_key="ann-s-token"),
            bearer(""),
            bearer("ann-s-toke"),
            bearer("ann-s-token2"),
            bearer("ANN-S-TOKEN"),
            bearer("ann-s-token, Bearer bob-s-token"),
            bearer("\xe4\xf6\xfc"),
        ],
    )


@within(5)
async def test_a_token_names_its_principal():
    assert (await TOKENS.authenticate(bearer("ann-s-token"))).id == "ann"
    assert (await TOKENS.authenticate(bearer("bob-s-token"))) == NamedPrincipal("bob")


@pytest.mark.parametrize("tokens", [{}, {"": "ann"}, {"t": ""}, {"t": NamedPrincipal("")}])
def test_tokens_that_would_let_anybody_in_are_refused_at_once(tokens):
    with pytest.raises(ValueError):
        BearerTokenAuthenticator(tokens)


def test_tokens_are_not_shown():
    assert "token" not in repr(TOKENS).replace("tokens", "").replace("Token", "")


class Refusing(Authenticator):
    def __init__(self, error):
        self.error = error
        self.requests = []

    async def authenticate(self, request):
        self.requests.append(request)
        await trio.lowlevel.checkpoint()
        raise self.error


async def never(_context, _updater):
    raise AssertionError("nobody gets here")


@pytest.mark.parametrize(
    ("error", "status", "header"),
    [
        (AuthenticationError(), 401, ("www-authenticate", "Bearer")),
        (AuthorizationError("No agents for you"), 403, None),
        (RateLimitedError(retry_after=7), 429, ("retry-after", "7")),
        (UnavailableError(retry_after=0.5), 503, ("retry-after", "1")),
        (RateLimitedError(), 429, None),
        (InternalError(), 500, None),
    ],
)
@within(5)
async def test_what_an_authenticator_raises_is_answered_at_the_http_level(autojump_clock, error, status, header):
    async with open_peer(never, authenticator=Refusing(error)) as peer:
        reply = await peer.send()
        assert reply.status == status
        assert reply.json["id"] is None
        assert reply.error["message"] == error.message
        if header is not None:
            assert reply.headers[header[0]] == header[1]
        else:
            assert "retry-after" not in reply.headers


@within(5)
async def test_an_authenticator_that_fails_lets_nobody_in_and_says_nothing(autojump_clock, caplog):
    async with open_peer(never, authenticator=Refusing(LookupError("swordfish"))) as peer:
        reply = await peer.send()
    assert reply.status == 500
    assert reply.error["message"] == "Internal error"
    assert b"swordfish" not in reply.body
    assert "swordfish" in caplog.text


@within(5)
async def test_an_authenticator_sees_headers_query_and_client(autojump_clock):
    authenticator = Refusing(AuthenticationError())
    async with open_peer(never, authenticator=authenticator) as peer:
        await peer.http("POST", "/?key=a&key=b&empty=", {"X-Api-Key": "k", "content-type": "text/plain"})
    (request,) = authenticator.requests
    assert request.headers["x-api-key"] == "k"
    assert request.query == {"key": "a", "empty": ""}
    assert request.client is None  # a stream in memory has no address


@within(5)
async def test_an_authenticator_that_is_slow_costs_its_own_caller_alone(autojump_clock):
    class Slow(Authenticator):
        async def authenticate(self, request):
            await trio.sleep(2 if request.headers.get("x") == "slow" else 0)
            return NamedPrincipal("ann")

    async def agent(_context, updater):
        await updater.complete()

    async with open_peer(agent, authenticator=Slow()) as peer, trio.open_nursery() as nursery:
        before = trio.current_time()
        nursery.start_soon(lambda: peer.send(headers={"x": "slow"}))
        await peer.send()
        assert trio.current_time() == before


@within(5)
async def test_the_card_needs_no_credentials(autojump_clock):
    async with open_peer(never, authenticator=TOKENS) as peer:
        assert (await peer.http("GET", "/.well-known/agent-card.json")).status == 200
