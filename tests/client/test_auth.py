"""Credentials: each kind where it belongs, chosen by the card, fetched and renewed."""

import base64
import ssl
from urllib.parse import parse_qs

import attrs
import pytest
import trio
import trustme

import trio_a2a
from tests.client.peers import answer_json, card_json, http, open_raw
from tests.client.scripted import CARD
from tests.deadline import within
from trio_a2a.client import (
    APIKeyAuth,
    Auth,
    BasicAuth,
    BearerAuth,
    ConnectionLostError,
    Credentials,
    CredentialsError,
    MutualTLSAuth,
    OAuth2ClientCredentials,
    connect,
)
from trio_a2a.client.auth import choose_auth
from trio_a2a.errors import AuthenticationError
from trio_a2a.types import (
    AgentCard,
    APIKeySecurityScheme,
    ClientCredentialsOAuthFlow,
    HTTPAuthSecurityScheme,
    MutualTlsSecurityScheme,
    OAuth2SecurityScheme,
    OAuthFlows,
    OpenIdConnectSecurityScheme,
    PasswordOAuthFlow,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from trio_a2a.wire import from_dict

BEARER = SecurityScheme.of(HTTPAuthSecurityScheme(scheme="bearer"))
BASIC = SecurityScheme.of(HTTPAuthSecurityScheme(scheme="Basic"))
KEY = SecurityScheme.of(APIKeySecurityScheme(location="header", name="x-key"))
OIDC = SecurityScheme.of(OpenIdConnectSecurityScheme(open_id_connect_url="https://a.example"))
MTLS = SecurityScheme.of(MutualTlsSecurityScheme())
FLOW = ClientCredentialsOAuthFlow(token_url="https://id.example/token", scopes={"read": "Read."})
OAUTH = SecurityScheme.of(OAuth2SecurityScheme(flows=OAuthFlows.of(FLOW)))
PASSWORD = SecurityScheme.of(OAuth2SecurityScheme(flows=OAuthFlows.of(PasswordOAuthFlow())))


async def no_post(*_args):
    raise AssertionError("nobody is asked for a token")


async def asked(auth):
    return await auth.credentials(no_post)


def card_with(schemes, *requirements):
    return attrs.evolve(
        CARD,
        security_schemes=schemes,
        security_requirements=[
            SecurityRequirement(schemes={name: StringList(list=scopes) for name, scopes in one.items()})
            for one in requirements
        ],
    )


# ---------------------------------------------------------------------------------------------------------------- kinds


@within(5)
async def test_each_kind_has_its_place():
    assert (await asked(BearerAuth("t0ken"))).headers == {"authorization": "Bearer t0ken"}
    basic = (await asked(BasicAuth("me", "p:ä"))).headers["authorization"]
    assert base64.b64decode(basic.removeprefix("Basic ")).decode() == "me:p:ä"
    assert (await asked(APIKeyAuth("k", name="x-key", location="header"))).headers == {"x-key": "k"}
    assert (await asked(APIKeyAuth("k", name="key", location="query"))).query == {"key": "k"}
    assert (await asked(APIKeyAuth("k", name="key", location="cookie"))).cookies == {"key": "k"}
    tls = await asked(MutualTLSAuth(ssl.create_default_context()))
    assert (tls.headers, tls.query, tls.cookies) == ({}, {}, {})
    assert "k" not in repr(await asked(APIKeyAuth("secret-k", name="x", location="header"))).replace("Cookies", "")


@within(5)
@pytest.mark.parametrize("name", ["a\r\nx: y", "a=b; c", "", "ä", "a b"])
@pytest.mark.parametrize("location", ["header", "cookie"])
async def test_a_card_cannot_write_into_requests_with_the_name_of_a_key(name, location):
    scheme = SecurityScheme.of(APIKeySecurityScheme(location=location, name=name))
    with pytest.raises(CredentialsError, match="cannot stand"):
        choose_auth(card_with({"key": scheme}, {"key": []}), APIKeyAuth("k"))
    with pytest.raises(ValueError, match="cannot be named"):
        APIKeyAuth("k", name=name, location=location)


@within(5)
async def test_a_bearer_token_may_come_from_a_function_async_or_not():
    async def fetch():
        return "later"

    assert (await asked(BearerAuth(lambda: "now"))).headers == {"authorization": "Bearer now"}
    assert (await asked(BearerAuth(fetch))).headers == {"authorization": "Bearer later"}
    assert BearerAuth(fetch).forget(Credentials())
    assert not BearerAuth("t").forget(Credentials())
    with pytest.raises(ValueError, match="printable"):
        await asked(BearerAuth(lambda: "a\r\nb"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: BearerAuth(""),
        lambda: BearerAuth("a\nb"),
        lambda: BearerAuth("ü"),
        lambda: BasicAuth("a:b", "c"),
        lambda: APIKeyAuth("a\r\nb"),
        lambda: APIKeyAuth("k", location="body"),
        lambda: APIKeyAuth("a;b", name="x", location="cookie"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(make):
    with pytest.raises(ValueError, match=r"printable|colon|stand"):
        make()


@within(5)
async def test_a_key_without_a_place_says_what_to_write():
    with pytest.raises(CredentialsError, match="write APIKeyAuth"):
        await asked(APIKeyAuth("k"))


@pytest.mark.parametrize(
    ("auth", "fits"),
    [
        (BearerAuth("t"), {"bearer", "oidc", "oauth", "password"}),
        (BasicAuth("a", "b"), {"basic"}),
        (APIKeyAuth("k"), {"key"}),
        (MutualTLSAuth(ssl.create_default_context()), {"mtls"}),
        (OAuth2ClientCredentials("a", "b"), {"oauth"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_kind_knows_its_schemes(auth, fits):
    schemes = {
        "bearer": BEARER,
        "basic": BASIC,
        "key": KEY,
        "oidc": OIDC,
        "mtls": MTLS,
        "oauth": OAUTH,
        "password": PASSWORD,
    }
    assert {name for name, scheme in schemes.items() if auth.bind(scheme) is not None} == fits
    assert isinstance(auth, Auth)


# ------------------------------------------------------------------------------------------------------------- choosing


def test_the_first_requirement_that_is_satisfied_is_chosen():
    bearer, basic, key = BearerAuth("t"), BasicAuth("a", "b"), APIKeyAuth("k")
    card = card_with({"b": BEARER, "k": KEY, "p": BASIC}, {"b": (), "k": ()}, {"p": ()})
    assert choose_auth(card, {"p": basic, "b": bearer}) == (basic,)
    both = choose_auth(card, {"p": basic, "b": bearer, "k": key})
    assert [type(one) for one in both] == [BearerAuth, APIKeyAuth]
    with pytest.raises(CredentialsError, match="requires b and k or p; credentials were given for b"):
        choose_auth(card, {"b": bearer})
    with pytest.raises(CredentialsError):
        choose_auth(card, {"p": bearer})  # it does not fit that scheme


def test_where_anonymous_calls_are_allowed_credentials_are_used_if_they_fit():
    bearer = BearerAuth("t")
    card = card_with({"b": BEARER}, {}, {"b": ()})
    assert choose_auth(card, {"b": bearer}) == (bearer,)
    assert choose_auth(card, {"other": bearer}) == ()
    assert choose_auth(CARD, {"other": bearer}) == ()
    assert choose_auth(card, None) == ()


@within(5)
async def test_without_a_name_credentials_are_completed_by_the_card_and_always_used():
    (key,) = choose_auth(card_with({"k": KEY}), APIKeyAuth("k"))
    assert (await asked(key)).headers == {"x-key": "k"}
    bearer, basic = BearerAuth("t"), BasicAuth("a", "b")
    assert choose_auth(card_with({"k": KEY}), [bearer, basic]) == (bearer, basic)


@pytest.mark.requirement("C-274")
@pytest.mark.parametrize(
    ("auth", "place"),
    [
        (
            APIKeyAuth("k&=", name="key", location="query"),
            lambda r: parse_qs(r.path.partition("?")[2])["key"] == ["k&="],
        ),
        (APIKeyAuth("k", name="key", location="cookie"), lambda r: r.headers["cookie"] == "key=k"),
        (APIKeyAuth("k", name="X-Key", location="header"), lambda r: r.headers["x-key"] == "k"),
        (BasicAuth("me", "pw"), lambda r: r.headers["authorization"].startswith("Basic ")),
    ],
    ids=lambda value: type(value).__name__,
)
@within(5)
async def test_credentials_are_in_every_request(auth, place):
    page = {"tasks": [], "nextPageToken": "", "pageSize": 1, "totalSize": 0}
    async with open_raw(lambda _: answer_json(page)) as raw:
        async with connect(from_dict(card_json(raw.url, "HTTP+JSON"), AgentCard), auth=auth) as client:
            for size in (None, 5):
                assert [task async for task in client.list_tasks(page_size=size)] == []
        assert len(raw.requests) == 2
        assert all(place(request) for request in raw.requests)


# ---------------------------------------------------------------------------------------------------------------- OAuth


class TokenEndpoint:
    """Gives token 1, 2, 3 ... for a while."""

    def __init__(self, lifetime=100, delay=1.0):
        self.lifetime, self.delay = lifetime, delay
        self.asked = []

    async def __call__(self, url, form, headers):
        self.asked.append((url, dict(form), dict(headers)))
        number = len(self.asked)
        await trio.sleep(self.delay)
        return 200, b'{"access_token":"token-%d","token_type":"bearer","expires_in":%d}' % (number, self.lifetime)


def bound(**options):
    return OAuth2ClientCredentials("me", "s3cret/", **options).bind(OAUTH, ("read", "write"))


async def header(auth, post):
    return (await auth.credentials(post)).headers["authorization"]


@within(1000)
async def test_a_token_is_fetched_once_and_again_before_it_ends(autojump_clock):
    auth, post = bound(), TokenEndpoint()
    assert await header(auth, post) == "Bearer token-1"
    await trio.sleep(60)
    assert await header(auth, post) == "Bearer token-1"
    await trio.sleep(10)  # 30 seconds before its end
    assert await header(auth, post) == "Bearer token-2"
    url, form, headers = post.asked[0]
    assert url == "https://id.example/token"
    assert form == {"grant_type": "client_credentials", "scope": "read write"}
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"me:s3cret%2F"


@within(1000)
async def test_a_short_token_is_used_for_half_its_life(autojump_clock):
    auth, post = bound(), TokenEndpoint(lifetime=20, delay=0)
    await header(auth, post)
    await trio.sleep(9)
    assert await header(auth, post) == "Bearer token-1"
    await trio.sleep(1)
    assert await header(auth, post) == "Bearer token-2"


@within(1000)
async def test_tasks_that_need_a_token_at_the_same_time_share_one_fetch(autojump_clock):
    auth, post, tokens = bound(), TokenEndpoint(), []

    async def call():
        tokens.append(await header(auth, post))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(call)
    assert tokens == ["Bearer token-1"] * 10
    assert len(post.asked) == 1


@within(1000)
async def test_a_fetch_that_is_cancelled_is_made_by_the_next_one(autojump_clock):
    auth, post = bound(), TokenEndpoint()
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(0.5):
            await header(auth, post)
        nursery.start_soon(header, auth, post)
    assert len(post.asked) == 2


@within(1000)
async def test_a_token_that_was_refused_is_not_used_again(autojump_clock):
    auth, post = bound(), TokenEndpoint()
    assert not auth.forget(Credentials())
    refused = await auth.credentials(post)
    assert auth.forget(refused)
    assert await header(auth, post) == "Bearer token-2"


@within(1000)
async def test_a_token_that_many_calls_see_refused_is_renewed_once(autojump_clock):
    """Each of them is told when the others may have a new token already, which is not to be thrown away."""
    auth, post = bound(), TokenEndpoint()
    refused = await auth.credentials(post)
    tokens = []

    async def call(delay):
        await trio.sleep(delay)
        assert auth.forget(refused)
        tokens.append(await header(auth, post))

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(call, number * 0.3)  # some while it is fetched, some after it
    assert tokens == ["Bearer token-2"] * 10
    assert len(post.asked) == 2


@within(1000)
@pytest.mark.parametrize("failure", [None, ConnectionLostError("cut")])
async def test_tasks_that_wait_for_a_fetch_that_fails_share_its_failure(autojump_clock, failure):
    """One request for all of them, not one after the other; who comes later asks anew."""
    auth, asked_for, errors = bound(), 0, []

    async def post(*_args):
        nonlocal asked_for
        asked_for += 1
        await trio.sleep(1)
        if failure is not None:
            raise failure
        return 503, b'{"error":"temporarily_unavailable"}'

    async def call():
        with pytest.raises((CredentialsError, ConnectionLostError)) as caught:
            await header(auth, post)
        errors.append(caught.value)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(call)
    assert asked_for == 1
    assert len({type(error) for error in errors}) == 1
    assert len({id(error) for error in errors}) == 10  # each task has one of its own
    await call()
    assert asked_for == 2
    assert await header(auth, TokenEndpoint()) == "Bearer token-1"


@within(1000)
async def test_credentials_may_be_in_the_body_and_scopes_and_endpoint_of_one_s_own(autojump_clock):
    auth, post = bound(method="body", scopes=("mine",), token_url="https://mine.example"), TokenEndpoint()
    await header(auth, post)
    url, form, headers = post.asked[0]
    assert url == "https://mine.example"
    assert form["scope"] == "mine"
    assert (form["client_id"], form["client_secret"]) == ("me", "s3cret/")
    assert "authorization" not in headers


@within(5)
@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (400, b'{"error":"invalid_client"}', "answered 400: invalid_client"),
        (500, b"<html>", "answered 500"),
        (200, b"<html>", "without an access token"),
        (200, b"[]", "without an access token"),
        (200, b'{"access_token":"a\\nb"}', "without an access token"),
        (200, b'{"access_token":"a","token_type":"mac"}', "another type"),
    ],
)
async def test_an_endpoint_that_gives_no_token_is_an_error(status, body, text):
    async def post(*_args):
        await trio.lowlevel.checkpoint()
        return status, body

    with pytest.raises(CredentialsError, match=text):
        await header(bound(), post)


@within(5)
async def test_without_an_endpoint_the_error_says_what_to_write():
    with pytest.raises(CredentialsError, match="token_url="):
        await header(OAuth2ClientCredentials("a", "b"), no_post)


@within(1000)
@pytest.mark.parametrize("said", [b"", b',"expires_in":null', b',"expires_in":-1', b',"expires_in":"3600"'])
async def test_a_lifetime_may_be_missing_or_a_text(autojump_clock, said):
    count = 0

    async def post(*_args):
        nonlocal count
        count += 1
        await trio.lowlevel.checkpoint()
        return 200, b'{"access_token":"a"%b}' % said

    auth = bound()
    for _ in range(2):
        await header(auth, post)
        await trio.sleep(300)
    assert count == 1


@within(10)
async def test_a_token_that_the_agent_refuses_is_renewed_once_over_the_network():
    """From the card's token endpoint, with the call made again: the agent has done nothing with the first."""
    good = "token-2"

    def answer(request):
        if request.path == "/token":
            count = sum(one.path == "/token" for one in raw.requests)
            return answer_json({"access_token": f"token-{count}", "token_type": "Bearer", "expires_in": 3600})
        if request.headers.get("authorization") != f"Bearer {good}":
            return http(401)
        return answer_json({"id": "t", "status": {"state": "TASK_STATE_WORKING"}})

    async with open_raw(answer) as raw:
        scheme = {
            "oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": f"{raw.url}/token", "scopes": {}}}}
        }
        members = card_json(raw.url, "HTTP+JSON", securitySchemes={"o": scheme})
        members["securityRequirements"] = [{"schemes": {"o": {}}}]
        card = from_dict(members, AgentCard)
        async with connect(card, auth={"o": OAuth2ClientCredentials("me", "s3cret")}) as client:
            assert (await client.cancel_task("t")).id == "t"
            assert [request.path for request in raw.requests] == [
                "/token",
                "/tasks/t:cancel",
                "/token",
                "/tasks/t:cancel",
            ]
            good = "never"
            with pytest.raises(AuthenticationError):
                await client.cancel_task("t")
        interface = attrs.evolve(card.supported_interfaces[0], url="https://127.0.0.1:1")
        strict = attrs.evolve(card, supported_interfaces=[interface])
        async with connect(strict, auth=OAuth2ClientCredentials("a", "b"), allow_http=False) as client:
            with pytest.raises(CredentialsError, match="no HTTPS"):
                await client.get_task("t")


@within(10)
async def test_a_card_that_came_over_https_sends_no_secret_to_a_place_without_it():
    authority = trustme.CA()
    server, trusting = (ssl.create_default_context(p) for p in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH))
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(trusting)
    async with open_raw(lambda _: http(404)) as plain:
        flow = {"clientCredentials": {"tokenUrl": f"{plain.url}/token", "scopes": {}}}
        members = {"securitySchemes": {"o": {"oauth2SecurityScheme": {"flows": flow}}}}
        async with (
            open_raw(lambda _: answer_json(card_json("/rpc", **members)), tls=server) as secret,
            connect(secret.url, auth=OAuth2ClientCredentials("me", "s3cret"), ssl_context=trusting) as client,
        ):
            with pytest.raises(CredentialsError, match="no HTTPS"):
                await client.get_task("t")
        assert plain.requests == []
        assert len(secret.requests) == 1


# ------------------------------------------------------------------------------------------------------------------ TLS


@pytest.mark.requirement("C-284")
@within(20)
async def test_certificates_are_verified_and_shown():
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    authority.configure_trust(theirs)
    theirs.verify_mode = ssl.CERT_REQUIRED
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    stranger = ssl.create_default_context()
    authority.configure_trust(stranger)
    authority.issue_cert("me@example.com").configure_cert(ours)

    async def agent(_context, updater):
        await updater.reply("hello")

    async with trio.open_nursery() as nursery:
        made = trio_a2a.Agent(trio_a2a.agent_card("Safe", "Is safe."), agent)
        served = await nursery.start(lambda **options: trio_a2a.serve(made, ssl_context=theirs, **options))
        assert served.url.startswith("https:")
        async with connect(served.url, auth=MutualTLSAuth(ours), allow_http=False) as client:
            assert (await client.send("x")).text() == "hello"
            async with client.stream("x") as events:
                assert [event.text() async for event in events] == ["hello"]
        for options in ({}, {"ssl_context": stranger}):
            with pytest.raises(trio_a2a.client.TransportError):
                async with connect(served.url, **options) as client:
                    await client.send("x")
        nursery.cancel_scope.cancel()
