"""Finding an agent: its card, where it may lead, and which interface is used."""

import json
import ssl
import subprocess
import sys

import attrs
import pytest
import trio
import trustme

import trio_a2a
from tests.client.peers import answer_json, card_json, http, open_agent, open_raw
from tests.deadline import within
from trio_a2a.client import (
    MAX_CARD,
    APIKeyAuth,
    BearerAuth,
    CallTimeoutError,
    CardError,
    ClientError,
    ConnectionFailedError,
    HttpStatusError,
    NoUsableInterfaceError,
    UnsupportedVersionError,
    card_url,
    connect,
)
from trio_a2a.client.card_resolver import MAX_REDIRECTS, CardResolver, _may_have_credentials
from trio_a2a.client.http import HttpAnswer
from trio_a2a.client.interfaces import choose_interfaces
from trio_a2a.client.transports.jsonrpc import JsonRpcTransport
from trio_a2a.clock import TrioClock
from trio_a2a.errors import AuthenticationError
from trio_a2a.server import A2AApp
from trio_a2a.types import AgentCard, AgentInterface
from trio_a2a.wire import from_dict, to_json
from trio_a2a.wire.signing import InvalidCardSignatureError, UnsignedCardError, sign_card

ALL = ("JSONRPC", "HTTP+JSON", "GRPC")


def interface(binding="JSONRPC", url="https://a.example/rpc", version="1.0", tenant=""):
    return AgentInterface(url=url, protocol_binding=binding, protocol_version=version, tenant=tenant)


_BARE = trio_a2a.agent_card("Found", "Is found.")


def found(*interfaces, transports=ALL, **options):
    return choose_interfaces(attrs.evolve(_BARE, supported_interfaces=interfaces), transports, **options)


# ----------------------------------------------------------------------------------------------------------- interfaces


@pytest.mark.requirement("C-188")
def test_interfaces_are_used_in_the_card_s_order():
    rest, rpc = interface("HTTP+JSON"), interface("JSONRPC")
    assert found(rest, rpc) == (rest, rpc)
    assert found(rpc, rest) == (rpc, rest)
    assert found(rest, rpc, transports=("JSONRPC",)) == (rpc,)


@pytest.mark.requirement("C-160", "C-161")
def test_transports_that_are_given_are_in_the_order_of_preference():
    rest, rpc, other = interface("HTTP+JSON"), interface(), interface(url="https://b.example")
    assert found(rest, rpc, other, in_order=True) == (rpc, other, rest)
    assert found(rest, rpc, transports=("HTTP+JSON", "JSONRPC"), in_order=True) == (rest, rpc)


@within(5)
async def test_the_card_s_order_counts_unless_transports_are_given():
    card = attrs.evolve(
        _BARE,
        supported_interfaces=[interface("HTTP+JSON", "http://127.0.0.1:1"), interface("JSONRPC", "http://127.0.0.1:1")],
    )
    for options, binding in (({}, "HTTP+JSON"), ({"transports": ("JSONRPC", "HTTP+JSON", "GRPC")}, "JSONRPC")):
        async with connect(card, **options) as client:
            assert client.transport.binding == binding


def test_a_url_with_credentials_is_passed_over():
    """They would take the place of the caller's own."""
    with pytest.raises(NoUsableInterfaceError, match="credentials in it"):
        found(interface(url="https://me:secret@a.example"))


def test_only_version_1_0_is_used_whatever_its_patch_number():
    old, new, later = interface(version="0.3"), interface(version="1.0.7"), interface(version="1.1")
    assert found(old, new, later) == (new,)
    with pytest.raises(UnsupportedVersionError, match=r"does not speak A2A 1\.0 \(JSONRPC 0\.3"):
        found(old, later)


def test_grpc_is_passed_over_where_there_is_another_and_an_error_where_it_is_all():
    grpc, rest = interface("GRPC", "a.example:443"), interface("HTTP+JSON")
    assert found(grpc, rest) == (rest,)
    with pytest.raises(NoUsableInterfaceError, match=r"GRPC 1\.0: a binding that this version .* does not speak"):
        found(grpc)
    with pytest.raises(NoUsableInterfaceError, match="not among the transports"):
        found(rest, transports=("GRPC",))


def test_custom_bindings_and_broken_urls_are_passed_over():
    good = interface()
    assert found(interface("https://x.example/binding"), interface(url="rpc"), interface(url="ftp://a/b"), good) == (
        good,
    )
    for url in ("", "http://", "https://[bad", "//"):
        with pytest.raises(NoUsableInterfaceError):
            found(interface(url=url))
    with pytest.raises(NoUsableInterfaceError, match="lists none"):
        found()


def test_a_relative_url_is_taken_from_where_the_card_lies():
    (one,) = found(interface(url="/rpc"), card_url="https://a.example/x/.well-known/agent-card.json")
    assert one.url == "https://a.example/rpc"


@pytest.mark.requirement("C-283")
def test_http_can_be_ruled_out_and_is_where_the_card_came_over_https():
    plain = interface(url="http://a.example")
    assert found(plain) == (plain,)
    assert found(plain, card_url="http://a.example/card.json") == (plain,)
    with pytest.raises(NoUsableInterfaceError, match="allow_http=False"):
        found(plain, allow_http=False)
    with pytest.raises(NoUsableInterfaceError, match="its card came over HTTPS"):
        found(plain, card_url="https://a.example/card.json")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example", "https://a.example/.well-known/agent-card.json"),
        ("https://a.example/", "https://a.example/.well-known/agent-card.json"),
        ("http://a.example:8/agents/x/", "http://a.example:8/agents/x/.well-known/agent-card.json"),
        ("https://a.example/cards/mine.json", "https://a.example/cards/mine.json"),
    ],
)
def test_a_card_lies_below_the_agent_s_url_unless_it_is_named(url, expected):
    assert card_url(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example",
        "ftp://a.example",
        "https://",
        "https://me:secret@a.example",
        "http://[bad",
        "http://a.example:99999",
        "http://me:secret",
    ],
)
def test_other_urls_are_misuse(url):
    with pytest.raises(ValueError, match="URL"):
        card_url(url)


# ------------------------------------------------------------------------------------------------------------- fetching


@within(10)
async def test_an_agent_that_is_mounted_below_a_path_is_found_there():
    app = A2AApp(trio_a2a.Agent(_BARE, _nothing), rpc_path="/rpc", rest_path="/rest")
    async with trio.open_nursery() as nursery:
        served = await nursery.start(trio_a2a.serve, app)
        for binding, url in (("JSONRPC", served.url), ("HTTP+JSON", f"{served.url}/.well-known/agent-card.json")):
            async with connect(url, transports=(binding,)) as client:
                assert client.transport.binding == binding
                assert [task async for task in client.list_tasks()] == []
        nursery.cancel_scope.cancel()


async def _nothing(_context, _updater):
    """Does nothing."""


def serving(**members):
    return lambda request: answer_json({**card_json("http://127.0.0.1:1"), **members})


@within(5)
@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<html>", CardError),
        (b"[]", CardError),
        (b"{}", CardError),
        (b'{"name": 5, "supportedInterfaces": [{}]}', CardError),
        (
            b'{"name": "Old", "url": "https://a.example", "protocolVersion": "0.3.0", "skills": []}',
            UnsupportedVersionError,
        ),
        (b'{"name": "Old", "url": "https://a.example", "skills": []}', UnsupportedVersionError),
    ],
)
async def test_what_is_no_card_of_this_version_is_told(body, error):
    async with open_raw(lambda _: http(200, body)) as raw:
        with pytest.raises(error) as caught:
            async with connect(raw.url):
                pass
        if error is UnsupportedVersionError:
            assert "speaks A2A 0.3" in str(caught.value)


@within(10)
async def test_a_card_is_bounded():
    async with open_raw(lambda _: http(200, b" " * (MAX_CARD + 1))) as raw:
        with pytest.raises(CardError, match="larger than"):
            async with connect(raw.url):
                pass


@within(5)
@pytest.mark.parametrize(
    "location", ["https://elsewhere.example/card", "http://127.0.0.1:1/card", "", "ftp://127.0.0.1/x"]
)
async def test_a_redirect_away_from_the_host_is_not_followed(location):
    async with open_raw(lambda _: http(302, location=location)) as raw:
        with pytest.raises(CardError, match="redirected away"):
            async with connect(raw.url):
                pass
        assert len(raw.requests) == 1


@within(5)
@pytest.mark.parametrize("location", ["http://[bad/", "https://127.0.0.1:99999999/", "https://127.0.0.1:x/"])
async def test_a_redirect_to_what_is_no_url_is_a_fault_of_the_card_s_server(location):
    async with open_raw(lambda _: http(302, location=location)) as raw:
        with pytest.raises(CardError, match="no URL"):
            async with connect(raw.url):
                pass


@within(5)
@pytest.mark.parametrize("url", ["http://[bad/", "//[x", "http://\N{ACCOUNT OF}.example/", "http://127.0.0.1:99999/"])
async def test_an_interface_whose_url_is_none_does_not_spoil_the_others(url):
    good = card_json("/rpc")["supportedInterfaces"]
    bad = card_json(url)["supportedInterfaces"]
    async with open_raw(lambda _: answer_json({**card_json("/"), "supportedInterfaces": bad + good})) as raw:
        async with connect(raw.url) as client:
            assert client.transport.binding == "JSONRPC"
            assert isinstance(client.transport, JsonRpcTransport)
        with pytest.raises(NoUsableInterfaceError, match="its URL is none"):
            async with connect(from_dict(card_json(url), AgentCard)):
                pass


@within(5)
async def test_credentials_do_not_follow_a_redirect_to_another_port():
    """Another origin on the same host is not whom they were meant for, unless it is its usual HTTPS."""
    assert _may_have_credentials("http://a.example/x", "http://a.example/y")
    assert _may_have_credentials("http://a.example/x", "https://a.example/x")
    assert _may_have_credentials("http://a.example:80/x", "https://a.example:443/x")
    assert not _may_have_credentials("http://a.example/x", "https://a.example:8443/x")
    assert not _may_have_credentials("http://a.example:8080/x", "https://a.example/x")
    authority = trustme.CA()
    server, client = (
        ssl.create_default_context(purpose) for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH)
    )
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)

    async with open_raw(lambda _: answer_json(card_json(secret.url)), tls=server) as secret:
        redirect = http(301, location=f"{secret.url}/card.json")
        async with open_raw(lambda r: redirect if r.headers.get("authorization") else http(401)) as raw:
            async with connect(raw.url, auth=BearerAuth("s3cret"), ssl_context=client):
                pass
            assert [r.headers.get("authorization") for r in raw.requests] == [None, "Bearer s3cret"]
        assert [r.headers.get("authorization") for r in secret.requests] == [None]


@within(5)
async def test_headers_of_the_program_are_in_every_request_but_those_to_another_place():
    """A gateway may answer 404 without its header, and so ask for nothing."""

    def answer(request):
        if request.headers.get("x-gateway") != "key":
            return http(404)
        if request.method == "GET":
            return answer_json(card_json("/rpc"))
        task = {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}
        return answer_json({"jsonrpc": "2.0", "id": request.json["id"], "result": task})

    async with open_raw(answer) as raw:
        with pytest.raises(HttpStatusError):
            async with connect(raw.url):
                pass
        async with connect(raw.url, headers={"X-Gateway": "key"}) as client:
            await client.get_task("t")
        assert [r.headers.get("x-gateway") for r in raw.requests] == [None, "key", "key"]


@within(5)
async def test_headers_of_the_program_do_not_follow_a_redirect_to_another_port():
    authority = trustme.CA()
    server, client = (
        ssl.create_default_context(purpose) for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH)
    )
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)

    async with open_raw(lambda _: answer_json(card_json(other.url)), tls=server) as other:
        async with open_raw(lambda _: http(301, location=f"{other.url}/card.json")) as raw:
            async with connect(raw.url, headers={"x-gateway": "key"}, ssl_context=client):
                pass
            assert raw.requests[0].headers["x-gateway"] == "key"
        assert "x-gateway" not in other.requests[0].headers


@within(5)
async def test_a_redirect_within_the_host_is_followed_a_few_times():
    def answer(request):
        return answer_json(card_json("/rpc")) if request.path == "/there" else http(301, location="/there")

    async with open_raw(answer) as raw, connect(raw.url) as client:
        assert client.card.name == "Raw"
    async with open_raw(lambda _: http(307, location="/again")) as raw:
        with pytest.raises(CardError, match=f"more than {MAX_REDIRECTS} times"):
            async with connect(raw.url):
                pass
        assert len(raw.requests) == MAX_REDIRECTS + 1


@within(5)
async def test_a_card_that_is_not_there_is_a_transport_error_and_a_time_out_one_of_its_own():
    async with open_raw(lambda _: http(404, b"no")) as raw:
        with pytest.raises(HttpStatusError, match="404"):
            async with connect(raw.url):
                pass
    async with open_raw(lambda _: [100.0]) as raw:
        with pytest.raises(CallTimeoutError, match="fetching the card"):
            async with connect(raw.url, timeout=0.2):
                pass
    with pytest.raises(ConnectionFailedError):
        async with connect("http://127.0.0.1:1"):
            pass


@pytest.mark.requirement("C-195", "C-196", "C-197")
@within(5)
async def test_a_card_is_asked_for_again_with_its_tag():
    def answer(request):
        if request.headers.get("if-none-match") == '"v1"':
            return http(304, etag='"v1"')
        return answer_json(card_json("/rpc"), etag='"v1"', last_modified="Thu, 01 Jan 1970 00:00:00 GMT")

    async with open_raw(answer) as raw, connect(raw.url) as client:
        before = client.card
        assert await client.refresh_card() == before
        assert raw.requests[-1].headers["if-modified-since"].startswith("Thu")
        raw.answer = lambda _: answer_json(card_json("/rpc", name="New"), etag='"v2"')
        assert (await client.refresh_card()).name == "New"
        assert client.card.name == "New"


@within(1000)
async def test_a_card_is_kept_as_long_as_its_server_says(autojump_clock):
    """On the clock that is given; a card that must not be kept is not, and one without a word for five minutes."""

    class Session:
        def __init__(self, control):
            self.control, self.asked = control, 0

        async def exchange(self, _request, *, limit):
            await trio.lowlevel.checkpoint()
            self.asked += 1
            headers = {} if self.control is None else {"cache-control": self.control}
            return HttpAnswer(200, headers, json.dumps(card_json("/rpc")).encode())

        def anonymous(self):
            return self

    for control, times in (("max-age=100", 2), ("no-store", 3), ("no-cache", 3), (None, 1), ("max-age=31536000", 1)):
        session = Session(control)
        resolver = CardResolver(session, clock=TrioClock())
        for wait in (60, 60, 0):
            await resolver.resolve("https://a.example")
            await trio.sleep(wait)
        assert session.asked == times, control


@within(5)
async def test_a_card_may_be_for_known_callers_only():
    def answer(request):
        known = request.headers.get("authorization") == "Bearer s3cret"
        return answer_json(card_json("/rpc")) if known else http(401)

    async with open_raw(answer) as raw:
        async with connect(raw.url, auth=BearerAuth("s3cret")) as client:
            assert client.card.name == "Raw"
        for auth in (
            None,
            BearerAuth("wrong"),
            [APIKeyAuth("k", name="x", location="header")],
            {"b": BearerAuth("s3cret")},
        ):
            with pytest.raises(AuthenticationError):
                async with connect(raw.url, auth=auth):
                    pass


@within(5)
async def test_a_card_is_fetched_without_credentials_where_that_does():
    async with open_raw(serving()) as raw, connect(raw.url, auth=BearerAuth("s3cret")):
        assert "authorization" not in raw.requests[0].headers


@within(5)
async def test_https_can_be_demanded():
    with pytest.raises(CardError, match="allow_http=False"):
        async with connect("http://127.0.0.1:1", allow_http=False):
            pass


@within(5)
async def test_transports_are_a_sequence():
    with pytest.raises(TypeError, match="sequence"):
        async with connect("http://127.0.0.1:1", transports="JSONRPC"):
            pass


# ----------------------------------------------------------------------------------------------------------- signatures


@pytest.mark.requirement("C-213")
@within(10)
async def test_a_card_is_trusted_by_its_signature_where_keys_are_given():
    from joserfc.jwk import ECKey

    key, other = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")
    public = {"k1": ECKey.import_key(key.as_dict(private=False))}
    wrong = {"k1": ECKey.import_key(other.as_dict(private=False))}
    plain = attrs.evolve(_BARE, supported_interfaces=[interface(url="http://127.0.0.1:1")])
    signed = sign_card(plain, key, kid="k1")

    async with open_raw(lambda _: http(200, to_json(signed))) as raw:
        async with connect(raw.url, verify_card=public) as client:
            assert client.card == signed
        with pytest.raises(InvalidCardSignatureError):
            async with connect(raw.url, verify_card=wrong):
                pass
        raw.answer = lambda _: http(200, to_json(attrs.evolve(signed, name="Forged")))
        with pytest.raises(InvalidCardSignatureError):
            async with connect(raw.url, verify_card=public):
                pass
        raw.answer = lambda _: http(200, to_json(plain))
        with pytest.raises(UnsignedCardError):
            async with connect(raw.url, verify_card=public):
                pass
    async with connect(signed, verify_card=public) as client:
        assert client.card == signed
        with pytest.raises(ClientError):
            await client.refresh_card()


# -------------------------------------------------------------------------------------------------------------- imports


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def test_who_only_serves_does_not_import_the_client():
    done = run("import sys, trio_a2a; assert not {'httpx2', 'trio_a2a.client'} & set(sys.modules)")
    assert done.returncode == 0, done.stderr
    done = run("import sys, trio_a2a.client; assert 'httpx2' not in sys.modules; trio_a2a.connect")
    assert done.returncode == 0, done.stderr


def test_without_the_extra_the_error_names_it():
    program = (
        "import sys, trio, trio_a2a; sys.modules['httpx2'] = None\n"
        "async def main():\n"
        "    async with trio_a2a.connect('https://a.example'): pass\n"
        "trio.run(main)"
    )
    assert "pip install 'trio-a2a[client]'" in run(program).stderr


def test_the_package_has_no_other_lazy_names():
    with pytest.raises(AttributeError, match="no attribute 'disconnect'"):
        trio_a2a.disconnect  # noqa: B018
    assert trio_a2a.connect is connect


@within(5)
async def test_our_own_server_is_found():
    async with open_agent(_nothing) as url, connect(url) as client:
        assert client.card.name == "Tested"
        assert client.transport.binding == "JSONRPC"
