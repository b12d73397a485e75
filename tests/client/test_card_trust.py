"""Trust in cards: keys that a signature names, fetched from hosts that are allowed."""

import json
import ssl
from contextlib import asynccontextmanager

import attrs
import pytest
import trustme
from joserfc.jwk import ECKey

import trio_a2a
from tests.client.peers import answer_json, http, open_raw
from tests.deadline import within
from trio_a2a.client import BearerAuth, CardTrust, connect
from trio_a2a.client.card_trust import MAX_KEY_SET, MAX_KEY_SETS
from trio_a2a.types import AgentCardSignature, AgentInterface
from trio_a2a.wire import to_dict, to_json
from trio_a2a.wire.canonical import loose_card, reduced_card
from trio_a2a.wire.jws import encode, signing_input
from trio_a2a.wire.signing import InvalidCardSignatureError, UnsignedCardError, sign_card
from trio_a2a.wire.signing_keys import make_signature

KEY, OTHER = (ECKey.generate_key("P-256") for _ in range(2))
INTERFACE = AgentInterface(url="http://127.0.0.1:1", protocol_binding="JSONRPC", protocol_version="1.0")
CARD = attrs.evolve(trio_a2a.agent_card("Signed", "Is signed."), supported_interfaces=[INTERFACE])


def public(key, kid="k1"):
    return {**key.as_dict(private=False), "kid": kid}


@asynccontextmanager
async def open_keys(answer):
    """A server of keys over HTTPS; gives it, what trusts it, and the name by which it is allowed."""
    authority = trustme.CA()
    server, trusting = (ssl.create_default_context(p) for p in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH))
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(trusting)
    async with open_raw(answer, tls=server) as raw:
        yield raw, trusting, raw.url.removeprefix("https://")


async def trusted(card, trust, context=None):
    async with connect(card, verify_card=trust, ssl_context=context) as client:
        return client.card


@within(10)
async def test_keys_are_fetched_from_hosts_that_are_allowed_and_from_no_others():
    async with open_keys(lambda _: answer_json({"keys": [public(OTHER, "k0"), public(KEY)]})) as (raw, context, host):
        signed = sign_card(CARD, KEY, kid="k1", jku=f"{raw.url}/keys.json")
        assert await trusted(signed, CardTrust(allow_jku=[host]), context) == signed
        assert [request.path for request in raw.requests] == ["/keys.json"]
        assert await trusted(signed, CardTrust(allow_jku=lambda url: url.endswith("keys.json")), context) == signed
        raw.requests.clear()
        for trust in (CardTrust(), CardTrust(allow_jku=["127.0.0.1"]), CardTrust(allow_jku=lambda _: False)):
            with pytest.raises(InvalidCardSignatureError):
                await trusted(signed, trust, context)
        forged = attrs.evolve(signed, name="Forged")
        assert raw.requests == []
        with pytest.raises(InvalidCardSignatureError, match="not by the key"):
            await trusted(forged, CardTrust(allow_jku=[host]), context)
        with pytest.raises(UnsignedCardError):
            await trusted(CARD, CardTrust(allow_jku=[host]), context)


@within(10)
async def test_keys_that_are_here_come_first_and_those_of_a_place_are_only_for_signatures_that_name_it():
    async with open_keys(lambda _: answer_json({"keys": [public(KEY)]})) as (raw, context, host):
        signed = sign_card(CARD, KEY, kid="k1", jku=f"{raw.url}/k")
        trust = CardTrust(keys={"k1": public(KEY)}, allow_jku=[host])
        assert await trusted(signed, trust, context) == signed
        assert raw.requests == []
        assert await trusted(signed, CardTrust(keys={"k1": public(OTHER)}, allow_jku=[host]), context) == signed
        both = sign_card(sign_card(CARD, OTHER, kid="k1", jku=f"{raw.url}/k"), KEY, kid="k1")
        with pytest.raises(InvalidCardSignatureError, match="no key 'k1'"):
            await trusted(both, CardTrust(allow_jku=[host]), context)


@within(10)
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (http(404), "HTTP status 404"),
        (http(302, location="https://elsewhere.example/"), "HTTP status 302"),
        (http(200, b"<html>"), "no set of keys"),
        (answer_json([]), "no set of keys"),
        (answer_json({"keys": {}}), "no set of keys"),
        (http(200, b" " * (MAX_KEY_SET + 1)), "could not be fetched"),
        (b"", "could not be fetched"),
        (
            answer_json({"keys": [1, None, {"kid": "k1"}, {"kid": "k1", "kty": "oct", "k": "AA"}]}),
            "cannot be used|needs",
        ),
    ],
)
async def test_a_place_without_keys_makes_no_card_good(answer, text):
    async with open_keys(lambda _: answer) as (raw, context, host):
        signed = sign_card(CARD, KEY, kid="k1", jku=f"{raw.url}/k")
        with pytest.raises(InvalidCardSignatureError, match=text):
            await trusted(signed, CardTrust(allow_jku=[host]), context)


@within(10)
async def test_a_card_cannot_have_many_places_asked():
    async with open_keys(lambda _: answer_json({"keys": []})) as (raw, context, host):
        card = CARD
        for number in range(MAX_KEY_SETS + 3):
            card = sign_card(card, KEY, kid="k1", jku=f"{raw.url}/{number}")
        with pytest.raises(InvalidCardSignatureError):
            await trusted(card, CardTrust(allow_jku=[host]), context)
        assert len(raw.requests) == MAX_KEY_SETS


@within(10)
async def test_credentials_do_not_go_where_keys_are_fetched():

    async with open_keys(lambda _: answer_json({"keys": [public(KEY)]})) as (keys, context, host):
        body = to_json(sign_card(CARD, KEY, kid="k1", jku=f"{keys.url}/k"))

        def answer(request):
            return http(200, body) if request.headers.get("authorization") else http(401)

        async with (
            open_raw(answer) as raw,
            connect(
                raw.url, auth=BearerAuth("s"), verify_card=CardTrust(allow_jku=[host]), ssl_context=context
            ) as client,
        ):
            assert client.card.name == "Signed"
        assert ["authorization" in request.headers for request in keys.requests] == [False]


@within(10)
async def test_algorithms_can_be_ruled_out_and_looser_forms_let_in():
    signed = sign_card(CARD, KEY, kid="k1")
    with pytest.raises(InvalidCardSignatureError, match="not accepted"):
        await trusted(signed, CardTrust(keys=public(KEY), algorithms=["EdDSA"]))
    # What an SDK signs that leaves empty members out and writes other characters as escapes.

    card = attrs.evolve(CARD, description="", name="Sïgned")
    protected = encode(json.dumps({"alg": "ES256", "kid": "k1"}).encode())
    message = signing_input(protected, loose_card(reduced_card(to_dict(card)), escaped=True))
    theirs = AgentCardSignature(protected=protected, signature=encode(make_signature(message, KEY, "ES256")))
    card = attrs.evolve(card, signatures=[theirs])
    with pytest.raises(InvalidCardSignatureError):
        await trusted(card, CardTrust(keys=public(KEY)))
    assert (await trusted(card, CardTrust(keys=public(KEY), loose=True))).name == "Sïgned"
