"""Signatures of agent cards: what signs, what verifies, and what is refused. The vectors are in ``tests/contract``."""

import base64
import copy
import hashlib
import hmac
import itertools
import json
import sys
from datetime import UTC, datetime
from functools import cache

import attrs
import pytest
import trustme
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from trio_a2a.errors import InvalidParamsError, JSONParseError
from trio_a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentCardSignature,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from trio_a2a.wire import to_dict, to_json
from trio_a2a.wire.canonical import loose_card, reduced_card
from trio_a2a.wire.jws import MAX_HEADER, MAX_SIGNATURE, decode, encode, signing_input
from trio_a2a.wire.signing import (
    CARD_ALGORITHMS,
    MAX_SIGNATURES,
    CardSignatureError,
    InvalidCardSignatureError,
    KeyRequest,
    UnsignedCardError,
    canonical_card,
    key_requests,
    sign_card,
    verify_card,
)
from trio_a2a.wire.signing_keys import make_signature

JKU = "https://keys.example.com/jwks.json"

CARD = AgentCard(
    name="Hafenbüro",
    description="Ferry times.",
    supported_interfaces=[AgentInterface(url="https://a.example", protocol_binding="JSONRPC", protocol_version="1.0")],
    version="2.3.0",
    capabilities=AgentCapabilities(streaming=True),
    security_schemes={"bearer": SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))},
    security_requirements=[SecurityRequirement(schemes={"bearer": StringList()})],
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="s", name="S", description="Looks up sailings.", tags=["ferry"])],
)


@cache
def key_for(algorithm, other=""):
    """A private key; another one for each other name."""
    return {
        "ES256": lambda: ECKey.generate_key("P-256"),
        "ES384": lambda: ECKey.generate_key("P-384"),
        "EdDSA": lambda: OKPKey.generate_key("Ed25519"),
        "RS256": lambda: RSAKey.generate_key(2048),
        "PS256": lambda: key_for("RS256"),
    }[algorithm]()


KEY = key_for("ES256")
SIGNED = sign_card(CARD, KEY, kid="k1")
RAW = to_dict(SIGNED)


def forged(header, *, key=KEY, algorithm="ES256", payload=None, unprotected=None, card=CARD):
    """The JSON of a card with a signature whose header says what it likes."""
    protected = encode(header if isinstance(header, bytes) else json.dumps(header).encode())
    message = signing_input(protected, canonical_card(card) if payload is None else payload)
    signature = {"protected": protected, "signature": encode(make_signature(message, key, algorithm))}
    if unprotected is not None:
        signature["header"] = unprotected
    return to_dict(card) | {"signatures": [signature]}


def reasons(raw, keys=KEY, **options):
    with pytest.raises(InvalidCardSignatureError) as caught:
        verify_card(raw, keys, **options)
    return caught.value.reasons


# --- Signing --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C-200")
@pytest.mark.parametrize("algorithm", CARD_ALGORITHMS)
def test_a_signed_card_verifies_with_the_public_key(algorithm):
    key = key_for(algorithm)
    signed = sign_card(CARD, key, kid="k1", algorithm=algorithm)
    verified = verify_card(to_json(signed), {"k1": key.as_dict(private=False)})
    assert verified.card == signed
    assert verified.signature == signed.signatures[0]
    assert (verified.kid, verified.algorithm, verified.form) == ("k1", algorithm, "exact")


def test_an_ed448_key_signs_by_eddsa_too():
    key = OKPKey.generate_key("Ed448")
    assert verify_card(sign_card(CARD, key, kid="k1", algorithm="EdDSA"), key).algorithm == "EdDSA"


@pytest.mark.requirement("C-207", "C-208")
def test_the_protected_header_names_algorithm_type_and_key():
    protected = SIGNED.signatures[0].protected
    assert "=" not in protected
    assert decode(protected, MAX_HEADER, "") == b'{"alg":"ES256","typ":"JOSE","kid":"k1"}'
    assert SIGNED.signatures[0].header is None


@pytest.mark.requirement("C-209")
def test_the_place_of_the_keys_is_in_the_protected_header():
    signed = sign_card(CARD, KEY, kid="k1", jku=JKU)
    assert json.loads(decode(signed.signatures[0].protected, MAX_HEADER, ""))["jku"] == JKU


def test_the_unprotected_header_is_carried_along():
    signed = sign_card(CARD, KEY, kid="k1", header={"note": ["x"]})
    assert signed.signatures[0].header == {"note": ["x"]}
    assert verify_card(signed, KEY).card == signed


@pytest.mark.requirement("C-202", "C-216")
def test_signatures_are_added_to_those_there_are():
    """Rotation: the old and the new key sign the same card."""
    newer = key_for("ES256", "newer")
    twice = sign_card(SIGNED, newer, kid="k2")
    assert twice.signatures[0] == SIGNED.signatures[0]
    assert [verify_card(twice, {kid: key}).kid for kid, key in (("k1", KEY), ("k2", newer))] == ["k1", "k2"]
    assert CARD.signatures == ()


@pytest.mark.parametrize(
    "form",
    [
        lambda key: key,
        lambda key: key.as_dict(private=True),
        lambda key: key.as_pem(private=True),
        lambda key: key.as_pem(private=True).decode(),
    ],
    ids=["joserfc", "JWK", "PEM bytes", "PEM text"],
)
@pytest.mark.parametrize("algorithm", CARD_ALGORITHMS)
def test_a_private_key_may_come_in_each_form(algorithm, form):
    key = key_for(algorithm)
    assert verify_card(sign_card(CARD, form(key), kid="k", algorithm=algorithm), key).algorithm == algorithm


@pytest.mark.parametrize(
    ("key", "algorithm", "text"),
    [
        (KEY, "none", "not none"),
        (KEY, "HS256", "not HS256"),
        (KEY, "ES512", "not ES512"),
        (KEY, "RS256", "needs a key of type RSA, got EC"),
        (KEY, "ES384", "on the curve P-384, got P-256"),
        (KEY.as_dict(private=True), "EdDSA", "needs a key of type OKP, got EC"),
        (KEY.as_pem(private=True), "RS256", "cannot be used with RS256"),
        (OctKey.generate_key(256), "ES256", "needs a key of type EC, got oct"),
        (OKPKey.generate_key("X25519"), "EdDSA", "curve Ed25519 or Ed448, got X25519"),
        (KEY.as_dict(private=False), "ES256", "private key"),
        (KEY.as_pem(private=False), "ES256", "private key"),
        (KEY.as_pem(private=True, password="x"), "ES256", "cannot be used"),
        ("a secret", "ES256", "no PEM"),
        (b"", "ES256", "no PEM"),
        ({}, "ES256", "got None"),
        ({"kty": "EC", "crv": "P-256"}, "ES256", "cannot be used"),
        (KEY.as_dict(private=True) | {"use": "enc"}, "ES256", "designed to be used for"),
        (KEY.as_dict(private=True) | {"alg": "ES384"}, "ES256", "designed for algorithm"),
        (KEY.as_dict(private=True) | {"key_ops": ["verify"]}, "ES256", "does not sign"),
    ],
)
def test_a_key_that_does_not_fit_signs_nothing(key, algorithm, text):
    with pytest.raises(ValueError, match=text):
        sign_card(CARD, key, kid="k", algorithm=algorithm)


@pytest.mark.parametrize("key", [None, 3, [KEY], object()], ids=lambda key: type(key).__name__)
def test_what_is_no_key_is_a_type_error(key):
    with pytest.raises(TypeError, match="a key is"):
        sign_card(CARD, key, kid="k")


@pytest.mark.parametrize("options", [{"kid": ""}, *({"kid": "k", "jku": jku} for jku in ("", "http://a.example", "x"))])
def test_a_header_that_would_be_refused_is_not_made(options):
    with pytest.raises(ValueError, match=r"kid must not be empty|jku is an https URL"):
        sign_card(CARD, KEY, **options)


def test_only_cards_are_signed():
    with pytest.raises(TypeError, match="signs an AgentCard"):
        sign_card(to_dict(CARD), KEY, kid="k")


@pytest.mark.parametrize("wrong", [float("nan"), 2**53 + 1, "\ud800"], ids=ascii)
def test_a_card_without_a_canonical_form_is_not_signed(wrong):
    extension = AgentExtension(uri="urn:x", params={"x": wrong})
    card = attrs.evolve(CARD, capabilities=AgentCapabilities(extensions=[extension]))
    with pytest.raises(ValueError):
        sign_card(card, KEY, kid="k")


# --- Keys -----------------------------------------------------------------------------------------------------------

PUBLIC = KEY.as_dict(private=False)
OTHER = key_for("ES256", "other").as_dict(private=False)


@pytest.mark.parametrize(
    "keys",
    [
        KEY,
        ECKey.import_key(PUBLIC),
        PUBLIC,
        PUBLIC | {"kid": "k1", "use": "sig", "alg": "ES256", "key_ops": ["verify"]},
        KEY.as_pem(private=False),
        KEY.as_pem(private=False).decode(),
        {"k1": PUBLIC},
        {"k0": OTHER, "k1": KEY.as_pem(private=False)},
        {"k1": PUBLIC | {"kid": "under another name"}},
        {"k1": {"keys": [PUBLIC | {"kid": "k1"}]}},
        {"keys": [OTHER | {"kid": "k0"}, PUBLIC | {"kid": "k1"}]},
        {"keys": ["no key", {"kty": "AKP", "kid": "k1"}, OTHER | {"kid": "k1"}, PUBLIC | {"kid": "k1"}]},
        KeySet([ECKey.import_key(OTHER | {"kid": "k0"}), ECKey.import_key(PUBLIC | {"kid": "k1"})]),
        lambda kid, jku: {"k1": PUBLIC}[kid],
        lambda kid, jku: {"keys": [PUBLIC | {"kid": kid}]},
    ],
)
def test_trusted_keys_may_come_in_each_form(keys):
    assert verify_card(RAW, keys).kid == "k1"


@pytest.mark.requirement("C-212")
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"k0": PUBLIC},
        {"k1": None},
        PUBLIC | {"kid": "k0"},
        PUBLIC | {"kid": ["k1"]},
        ECKey.import_key(PUBLIC | {"kid": "k0"}),
        {"keys": []},
        {"keys": [PUBLIC, PUBLIC | {"kid": "k0"}]},
        KeySet([ECKey.import_key(PUBLIC | {"kid": "k0"})]),
        lambda kid, jku: None,
        lambda kid, jku: {}[kid],
        lambda kid, jku: {"keys": [PUBLIC | {"kid": "k0"}]},
    ],
)
def test_a_key_of_another_id_is_not_tried(keys):
    assert reasons(RAW, keys) == ("no key 'k1' is trusted",)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (OTHER, "not by the key 'k1' over this card"),
        (key_for("RS256"), "needs a key of type EC, got RSA"),
        (key_for("RS256").as_pem(private=False), "cannot be used with ES256"),
        (key_for("ES384"), "curve P-256, got P-384"),
        (PUBLIC | {"use": "enc"}, "designed to be used for"),
        (PUBLIC | {"alg": "ES384"}, "designed for algorithm"),
        (PUBLIC | {"key_ops": ["sign"]}, "does not verify"),
        (PUBLIC | {"x": "AAAA"}, "cannot be used"),
        (PUBLIC | {"crv": "P-0"}, "cannot be used"),
        (OctKey.import_key("x" * 32), "got oct"),
        ({"kty": "oct", "k": "eA"}, "got oct"),
        ("nothing", "no PEM"),
        (KEY.as_der(private=False), "no PEM"),
        (trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.bytes(), "no PEM"),
    ],
    ids=map(str, itertools.count()),
)
def test_a_key_that_does_not_fit_verifies_nothing(key, text):
    for keys in (key, {"k1": key}):
        (reason,) = reasons(RAW, keys)
        assert text in reason


NOW = datetime(2026, 3, 14, 9, 2, 1, tzinfo=UTC)
SECONDS = int(NOW.timestamp())


@pytest.mark.parametrize("dates", [{"exp": SECONDS + 1}, {"nbf": SECONDS}, {"exp": SECONDS + 0.5, "nbf": 0}], ids=str)
def test_a_key_is_used_within_its_dates(dates):
    assert verify_card(RAW, PUBLIC | dates, now=NOW).kid == "k1"
    (reason,) = reasons(RAW, PUBLIC | dates)
    assert "say what time it is" in reason


@pytest.mark.requirement("C-214")
@pytest.mark.parametrize(
    ("dates", "reason"),
    [
        ({"exp": SECONDS}, "the key has expired"),
        ({"exp": 0}, "the key has expired"),
        ({"nbf": SECONDS + 1}, "the key is not valid yet"),
        ({"exp": "2030-01-01"}, "the key has a date that is none (exp)"),
        ({"nbf": True}, "the key has a date that is none (nbf)"),
        ({"revoked": {"revoked_at": SECONDS + 99}}, "the key is revoked"),
        ({"revoked": True}, "the key is revoked"),
    ],
)
def test_a_key_that_is_not_valid_is_not_used(dates, reason):
    """C-214."""
    for keys in (PUBLIC | dates, ECKey.import_key(PUBLIC | dates), {"keys": [PUBLIC | dates | {"kid": "k1"}]}):
        assert reasons(RAW, keys, now=NOW) == (reason,)


def test_the_time_has_a_zone():
    with pytest.raises(ValueError, match="needs a time zone"):
        verify_card(RAW, KEY, now=NOW.replace(tzinfo=None))


def test_the_padding_of_rsa_is_not_the_signer_s_choice():
    """A key that is for PS256 does not verify RS256."""
    key = key_for("RS256")
    signed = sign_card(CARD, key, kid="k1", algorithm="RS256")
    (reason,) = reasons(signed, key.as_dict(private=False) | {"alg": "PS256"})
    assert "designed for algorithm" in reason


@pytest.mark.filterwarnings("ignore:Key size should be:UserWarning")
def test_a_short_rsa_key_is_not_used():
    key = RSAKey.generate_key(1024)
    with pytest.raises(ValueError, match="at least 2048 bits, not 1024"):
        sign_card(CARD, key, kid="k1", algorithm="RS256")
    with pytest.raises(ValueError, match="at least 2048 bits, not 1024"):
        sign_card(CARD, key.as_pem(private=True), kid="k1", algorithm="PS256")


@pytest.mark.parametrize("keys", [None, 3, [PUBLIC], {"k1": 3}, lambda kid, jku: [PUBLIC]])
def test_what_are_no_keys_is_a_type_error(keys):
    with pytest.raises(TypeError, match="a key is"):
        verify_card(RAW, keys)


def test_a_function_of_keys_that_would_have_to_be_awaited_is_a_type_error():
    class Awaitable:
        def __await__(self):
            yield

    with pytest.raises(TypeError, match="cannot be async: ask key_requests"):
        verify_card(RAW, lambda kid, jku: Awaitable())


def test_an_error_of_a_function_of_keys_is_its_caller_s():
    def broken(kid, jku):
        raise RuntimeError("the key server is down")

    with pytest.raises(RuntimeError, match="the key server is down"):
        verify_card(RAW, broken)


# --- Where keys lie -------------------------------------------------------------------------------------------------


def told(jku, **options):
    asked = []

    def keys(kid, jku):
        asked.append((kid, jku))
        return KEY

    raw = forged({"alg": "ES256", "kid": "k1", "jku": jku})
    assert verify_card(raw, keys, **options).kid == "k1"
    assert key_requests(raw, **options) == (KeyRequest("k1", asked[0][1], "ES256"),)
    ((kid, shown),) = asked
    assert kid == "k1"
    return shown


def test_the_place_of_the_keys_is_not_told_by_default():
    assert told(JKU) is None


@pytest.mark.requirement("C-212")
@pytest.mark.parametrize(
    ("jku", "host"),
    [
        (JKU, "keys.example.com"),
        ("https://KEYS.example.com/jwks.json", "keys.example.com"),
        (JKU, "keys.example.com:443"),
        ("https://keys.example.com:443/", "keys.example.com"),
        ("https://keys.example.com", "keys.example.com"),
        ("https://keys.example.com?a=b&c=%2F", "keys.example.com"),
        ("https://keys.example.com:8443/", "keys.example.com:8443"),
        ("https://[2001:db8::1]/", "[2001:db8::1]"),
    ],
)
def test_the_place_of_the_keys_is_told_if_its_host_is_allowed(jku, host):
    assert told(jku, allow_jku=[host]) == jku


@pytest.mark.requirement("C-215")
@pytest.mark.parametrize(
    "jku",
    [
        "http://keys.example.com/jwks.json",
        "HTTPS://keys.example.com/",
        "https://evil.example/",
        "https://keys.example.com.evil.example/",
        "https://evil.example/keys.example.com",
        "https://keys.example.com:8443/",
        "https://keys.example.com:443443/",
        "https://keys.example.com@evil.example/",
        "https://keys.example.com:443@evil.example/",
        "https://user@keys.example.com/",
        "https://evil.example\\@keys.example.com/",
        "https://keys.example.com\\.evil.example/",
        "https://keys.example.com/\\evil",
        "https://keys.example.com /",
        "https://keys.example.com/a b",
        "https://keys.example.com/\n",
        "https://keys.example.com#@evil.example/",
        "https://keys.example.com/#fragment\r\nHost: x",
        "https:///keys.example.com/",
        "https://\uff4b\uff45\uff59\uff53.example.com/",
        "//keys.example.com/",
        "file:///etc/passwd",
        "",
        None,
        3,
        ["https://keys.example.com/"],
    ],
)
def test_no_other_place_is_told(jku):
    assert told(jku, allow_jku={"keys.example.com"}) is None


def test_a_function_may_say_which_places_are_told():
    assert told(JKU, allow_jku=lambda url: url.endswith("/jwks.json")) == JKU
    assert told("https://keys.example.com/x", allow_jku=lambda url: url.endswith("/jwks.json")) is None
    assert told("http://keys.example.com/jwks.json", allow_jku=lambda url: True) is None


def test_one_host_is_not_taken_for_a_collection():
    """``"example.com" in "keys.example.com"`` is true."""
    for check in (
        lambda: verify_card(RAW, KEY, allow_jku="keys.example.com"),
        lambda: key_requests(RAW, allow_jku="x"),
    ):
        with pytest.raises(TypeError, match="not one host"):
            check()


def test_the_keys_that_are_asked_for_are_listed_each_once():
    newer = key_for("ES384")
    signed = sign_card(sign_card(SIGNED, newer, kid="k2", algorithm="ES384", jku=JKU), KEY, kid="k1")
    raw = to_dict(signed)
    raw["signatures"].insert(0, {"protected": "!", "signature": "x"})
    for form in (raw, json.dumps(raw), json.dumps(raw).encode()):
        assert key_requests(form, allow_jku=["keys.example.com"]) == (
            KeyRequest("k1", None, "ES256"),
            KeyRequest("k2", JKU, "ES384"),
        )
    assert key_requests(raw, algorithms=["ES384"]) == (KeyRequest("k2", None, "ES384"),)
    with pytest.raises(UnsignedCardError):
        key_requests(CARD)


# --- What is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw", [CARD, to_json(CARD), to_dict(CARD) | {"signatures": None}, {"signatures": []}], ids=repr
)
def test_a_card_without_a_signature_is_unsigned(raw):
    with pytest.raises(UnsignedCardError, match="has no signatures"):
        verify_card(raw, KEY)


def test_the_errors_have_one_base_that_is_no_wire_error():
    assert issubclass(UnsignedCardError, CardSignatureError)
    assert issubclass(InvalidCardSignatureError, CardSignatureError)
    assert CardSignatureError.__base__ is Exception
    error = copy.copy(InvalidCardSignatureError("first", "second"))
    assert error.reasons == ("first", "second")
    assert str(error) == "No valid signature on the agent card (first; second)"


@pytest.mark.requirement("C-211")
@pytest.mark.parametrize(
    "change",
    [
        {"version": "2.3.1"},
        {"supportedInterfaces": [{"url": "https://b.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]},
        {"securityRequirements": []},
        {"securityRequirements": [{"schemes": {}}]},
        {"capabilities": {}},
        {"iconUrl": ""},
        {"skills": []},
    ],
    ids=str,
)
def test_a_changed_card_is_refused(change):
    assert reasons(RAW | change) == ("it is not by the key 'k1' over this card",)


def test_what_means_the_same_does_not_break_a_signature():
    raw = RAW | {"provider": None, "securitySchemes": RAW["securitySchemes"]}
    raw["supportedInterfaces"] = [RAW["supportedInterfaces"][0] | {"tenant": ""}]
    raw = dict(reversed(raw.items()))
    assert verify_card(json.dumps(raw, indent=4), KEY).card == SIGNED


def test_a_signature_of_another_header_is_refused():
    raw = copy.deepcopy(RAW)
    raw["signatures"][0]["protected"] = encode(b'{"alg":"ES256","typ":"JOSE","kid":"k2"}')
    assert reasons(raw, {"k2": KEY}) == ("it is not by the key 'k2' over this card",)


@pytest.mark.parametrize("header", [{"alg": "none"}, {"alg": "None"}, {"alg": "nOnE"}, {"alg": ""}, {"alg": None}, {}])
def test_no_signature_at_all_is_refused(header):
    for signature in ("", "AA"):
        entry = {"protected": encode(json.dumps({"kid": "k1"} | header).encode()), "signature": signature}
        (reason,) = reasons(RAW | {"signatures": [entry]})
        assert "not accepted" in reason or "no signature" in reason


def test_a_public_key_is_not_taken_for_a_secret():
    """Algorithm confusion: anybody could sign with what everybody knows."""
    protected = encode(b'{"alg":"HS256","kid":"k1"}')
    message = signing_input(protected, canonical_card(CARD))
    for secret in (KEY.as_pem(private=False), KEY.as_der(private=False), json.dumps(PUBLIC).encode()):
        code = encode(hmac.digest(secret, message, hashlib.sha256))
        raw = RAW | {"signatures": [{"protected": protected, "signature": code}]}
        for key in (secret if b"PEM" in secret else KEY, PUBLIC, {"kty": "oct", "k": encode(secret)}):
            assert reasons(raw, {"k1": key}) == ("its algorithm 'HS256' is not accepted",)


@pytest.mark.parametrize("name", ["HS256", "none", "ES512", "RS1", "Ed25519"])
def test_the_list_of_algorithms_cannot_be_widened(name):
    with pytest.raises(ValueError, match=f"not {name}"):
        verify_card(RAW, KEY, algorithms=["ES256", name])


def test_one_algorithm_is_not_taken_for_a_collection():
    with pytest.raises(TypeError, match="not one name"):
        verify_card(RAW, KEY, algorithms="ES256")


def test_the_list_of_algorithms_can_be_narrowed():
    assert verify_card(RAW, KEY, algorithms={"ES256"}).algorithm == "ES256"
    assert reasons(RAW, algorithms=["EdDSA"]) == ("its algorithm 'ES256' is not accepted",)


def test_the_algorithm_counts_in_the_protected_header_only():
    assert reasons(forged({"kid": "k1"}, unprotected={"alg": "ES256"})) == ("its algorithm 'None' is not accepted",)
    assert verify_card(forged({"alg": "ES256", "kid": "k1"}, unprotected={"alg": "none"}), KEY).algorithm == "ES256"


@pytest.mark.parametrize("header", [{}, {"kid": ""}, {"kid": None}, {"kid": 1}, {"kid": ["k1"]}], ids=str)
def test_the_key_counts_in_the_protected_header_only(header):
    raw = forged({"alg": "ES256"} | header, unprotected={"kid": "k1"})
    assert reasons(raw) == ("its protected header names no key (kid)",)


def test_the_id_of_the_unprotected_header_is_ignored():
    raw = forged({"alg": "ES256", "kid": "k1"}, unprotected={"kid": "k2", "jku": "https://evil.example"})
    assert verify_card(raw, {"k1": KEY}).kid == "k1"


@pytest.mark.parametrize("crit", [["exp"], ["b64"], ["alg"], [], None, "exp"], ids=repr)
def test_extensions_that_must_be_understood_are_refused(crit):
    header = {"alg": "ES256", "kid": "k1", "b64": True, "exp": 0, "crit": crit}
    assert reasons(forged(header)) == ("it needs extensions (crit), and none is known here",)
    del header["crit"]
    assert reasons(forged(header, unprotected={"crit": crit})) == (
        "it needs extensions (crit), and none is known here",
    )
    assert verify_card(forged(header), KEY).kid == "k1"


def test_the_payload_cannot_be_unencoded():
    """RFC 7797 needs ``crit``; without it, ``b64`` means nothing."""
    protected = encode(b'{"alg":"ES256","kid":"k1","b64":false}')
    code = make_signature(protected.encode() + b"." + canonical_card(CARD), KEY, "ES256")
    raw = RAW | {"signatures": [{"protected": protected, "signature": encode(code)}]}
    assert reasons(raw) == ("it is not by the key 'k1' over this card",)


@pytest.mark.parametrize(
    "header",
    [{}, {"typ": "JWT"}, {"typ": 1}, {"jwk": PUBLIC}, {"x5c": ["x"]}, {"x5u": "https://evil.example"}],
)
def test_what_else_is_in_the_protected_header_does_not_matter(header):
    """The type is recommended only (A-43); keys that a signature brings along are not looked at."""
    assert verify_card(forged({"alg": "ES256", "kid": "k1"} | header), KEY).kid == "k1"
    assert reasons(forged({"alg": "ES256", "kid": "k1"} | header), OTHER)


@pytest.mark.parametrize(
    "header",
    [b"[]", b"null", b"{", b"\xff", b'{"alg":"ES256","kid":"\\ud800"}', b"[" * 3000],
    ids=lambda h: repr(h[:40]),
)
def test_a_protected_header_that_is_no_object_is_refused(header):
    assert reasons(forged(header)) == ("its protected header is no JSON object",)


GOOD = RAW["signatures"][0]


@pytest.mark.parametrize(
    "entry",
    [
        None,
        3,
        "eyJ",
        [],
        {},
        {"protected": GOOD["protected"]},
        {"signature": GOOD["signature"]},
        GOOD | {"protected": None},
        GOOD | {"signature": 3},
        GOOD | {"signature": ""},
        GOOD | {"header": []},
        GOOD | {"signature": GOOD["signature"] + "=="},
        GOOD | {"signature": GOOD["signature"] + "\n"},
        GOOD | {"signature": GOOD["signature"][:-1]},
        GOOD | {"signature": GOOD["signature"][:-4]},
        GOOD | {"signature": GOOD["signature"] + "AAAA"},
        GOOD | {"signature": "é" + GOOD["signature"][1:]},
        GOOD | {"signature": "." + GOOD["signature"]},
        GOOD | {"signature": "A" * 86},
        GOOD | {"signature": "A" * (MAX_SIGNATURE + 4)},
        GOOD | {"protected": GOOD["protected"] + "="},
        GOOD | {"protected": "A" * (MAX_HEADER + 4)},
        GOOD | {"protected": base64.b64encode(b'{"alg":"ES256","kid":"k1","x":"\xc3\xbf\xc3\xbf??>>"}').decode()},
    ],
    ids=map(str, itertools.count()),
)
def test_a_signature_that_is_malformed_is_refused_and_another_still_counts(entry):
    assert len(reasons(RAW | {"signatures": [entry]})) == 1
    verified = verify_card(RAW | {"signatures": [entry, GOOD]}, KEY)
    assert verified.signature == SIGNED.signatures[0]
    assert verified.card.signatures[-1] == SIGNED.signatures[0]


def test_the_stray_bits_of_base64_are_not_another_signature():
    """64 bytes end in a digit with four bits to spare."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = digits[digits.index(GOOD["signature"][-1]) + 1]
    raw = RAW | {"signatures": [GOOD | {"signature": GOOD["signature"][:-1] + last}]}
    assert reasons(raw) == ("its signature is not in base64url",)


def test_every_signature_has_its_reason():
    entries = [None, forged({"alg": "none", "kid": "k1"})["signatures"][0], GOOD]
    assert reasons(RAW | {"signatures": entries}, {"k1": OTHER}) == (
        "it is no signature in JSON form",
        "its algorithm 'none' is not accepted",
        "it is not by the key 'k1' over this card",
    )


@pytest.mark.parametrize("signatures", ["x", {}, {"protected": "x"}, 3, True], ids=repr)
def test_signatures_that_are_no_array_are_refused(signatures):
    assert reasons(RAW | {"signatures": signatures}) == ("the signatures are no array",)


def test_the_number_of_signatures_is_bounded():
    assert verify_card(RAW | {"signatures": [None] * (MAX_SIGNATURES - 1) + [GOOD]}, KEY).kid == "k1"
    assert reasons(RAW | {"signatures": [None] * MAX_SIGNATURES + [GOOD]}) == ("there are 33 signatures, more than 32",)


@pytest.mark.parametrize("text", [b"", b"{", "nothing", b"\xff"])
def test_text_that_is_no_json_is_a_parse_error(text):
    with pytest.raises(JSONParseError):
        verify_card(text, KEY)


@pytest.mark.parametrize("text", [b"[]", b"null", "3"])
def test_json_that_is_no_object_is_no_card(text):
    with pytest.raises(InvalidParamsError, match="Must be an object"):
        verify_card(text, KEY)


@pytest.mark.parametrize("raw", [None, 3, [], object()])
def test_what_is_no_card_at_all_is_a_type_error(raw):
    with pytest.raises(TypeError, match="expected a card"):
        verify_card(raw, KEY)


def test_a_signature_does_not_make_a_card_of_what_is_none():
    members = {"name": 3}
    protected = encode(b'{"alg":"ES256","kid":"k1"}')
    code = make_signature(signing_input(protected, canonical_card(members)), KEY, "ES256")
    with pytest.raises(InvalidParamsError, match="name: Must be a string"):
        verify_card(members | {"signatures": [{"protected": protected, "signature": encode(code)}]}, KEY)


# --- Unknown members ------------------------------------------------------------------------------------------------

HEADER = {"alg": "ES256", "kid": "k1"}


def test_unknown_members_are_part_of_what_is_signed():
    raw = to_dict(CARD) | {"futureField": {"a": []}}
    signed = forged(HEADER, payload=canonical_card(raw)) | {"futureField": {"a": []}}
    assert verify_card(json.dumps(signed), KEY).form == "exact"
    assert reasons(signed | {"futureField": {"a": [1]}})


def test_unknown_members_that_were_not_signed_do_not_break_a_signature():
    verified = verify_card(RAW | {"futureField": 1}, KEY)
    assert verified.form == "known"
    assert verified.card == SIGNED


def test_an_unsigned_member_is_not_read_whatever_a_tolerant_reading_makes_of_it():
    """``security`` of protocol version 0.3 is read for ``securityRequirements``, where it is signed."""
    open_card = attrs.evolve(CARD, security_requirements=[])
    older = {"security": [{"bearer": ["everything"]}]}
    injected = verify_card(forged(HEADER, card=open_card) | older, KEY)
    assert injected.form == "known"
    assert injected.card.security_requirements == ()
    signed = forged(HEADER, card=open_card, payload=canonical_card(to_dict(open_card) | older)) | older
    verified = verify_card(signed, KEY)
    assert verified.form == "exact"
    assert verified.card.security_requirements[0].schemes["bearer"].list == ("everything",)


def test_an_unknown_member_without_a_canonical_form_is_dropped():
    deep = json.loads("[" * 500 + "]" * 500)
    assert verify_card(json.dumps(RAW | {"deep": deep, "wide": 2**53 + 1}), KEY).form == "known"


def test_a_known_member_without_a_canonical_form_leaves_nothing_to_verify():
    extension = {"uri": "urn:x", "params": {"wide": 2**53 + 1}}
    assert reasons(RAW | {"capabilities": {"extensions": [extension]}}) == ("the card has no canonical form",)


def test_a_card_value_verifies_with_the_members_it_has():
    assert verify_card(SIGNED, KEY).card == SIGNED


# --- The loose form -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("escaped", [False, True])
def test_what_other_sdks_sign_counts_only_on_request(escaped):
    raw = forged(HEADER, payload=loose_card(reduced_card(CARD), escaped=escaped))
    assert reasons(raw) == ("it is not by the key 'k1' over this card",)
    verified = verify_card(raw, KEY, loose=True)
    assert verified.form == "loose"
    assert attrs.evolve(verified.card, signatures=()) == CARD
    assert reasons(raw | {"version": "9"}, loose=True)


def test_what_the_loose_form_does_not_cover_can_be_changed():
    """The reason for the opt-in, pinned."""
    raw = forged(HEADER, payload=loose_card(reduced_card(CARD)))
    assert verify_card(raw | {"securityRequirements": []}, KEY, loose=True).card.security_requirements == ()


def test_the_loose_form_takes_unknown_members_with_or_without():
    raw = to_dict(CARD) | {"futureField": 1}
    for payload in (loose_card(reduced_card(raw)), loose_card(reduced_card(raw, drop_unknown=True))):
        verified = verify_card(forged(HEADER, payload=payload) | {"futureField": 1}, KEY, loose=True)
        assert verified.form == "loose"


def test_the_specification_s_form_comes_first():
    assert verify_card(RAW, KEY, loose=True).form == "exact"
    assert verify_card(RAW | {"futureField": 1}, KEY, loose=True).form == "known"


# --- The extra ------------------------------------------------------------------------------------------------------


def test_without_the_extra_the_error_names_it(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "joserfc"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "joserfc", None)
    for use in (lambda: sign_card(CARD, KEY, kid="k"), lambda: verify_card(RAW, KEY)):
        with pytest.raises(ImportError, match=r"pip install 'trio-a2a\[signing\]'"):
            use()
    assert canonical_card(CARD)
    assert key_requests(RAW)


# --- The SDK --------------------------------------------------------------------------------------------------------


def sdk():
    return pytest.importorskip("a2a.utils.signing", reason="the SDK's signing needs PyJWT", exc_type=ImportError)


def sdk_card(card):
    from a2a.types import AgentCard as Theirs
    from google.protobuf.json_format import ParseDict

    return ParseDict(to_dict(card), Theirs())


FULL = attrs.evolve(CARD, security_requirements=[SecurityRequirement(schemes={"bearer": StringList(list=["read"])})])


def test_the_sdk_verifies_what_we_sign_where_nothing_is_empty():
    signing = sdk()
    check = signing.create_signature_verifier(lambda kid, jku: KEY.as_pem(private=False), ["ES256"])
    check(sdk_card(sign_card(FULL, KEY, kid="k1", jku=JKU)))
    with pytest.raises(signing.InvalidSignaturesError):
        check(sdk_card(attrs.evolve(sign_card(FULL, KEY, kid="k1"), version="9")))


@pytest.mark.parametrize(("card", "form"), [(FULL, "exact"), (CARD, "loose")], ids=["full", "empties"])
def test_what_the_sdk_signs_verifies_loosely_where_something_is_empty(card, form):
    signing = sdk()
    from google.protobuf.json_format import MessageToDict

    sign = signing.create_agent_card_signer(KEY.as_pem(private=True), {"alg": "ES256", "kid": "k1", "typ": "JOSE"})
    raw = MessageToDict(sign(sdk_card(card)))
    if form == "loose":
        assert reasons(raw)
    verified = verify_card(raw, {"k1": PUBLIC}, loose=True)
    assert verified.form == form
    assert attrs.evolve(verified.card, signatures=()) == card


def test_a_signature_is_a_value():
    assert SIGNED.signatures == (AgentCardSignature(**GOOD),)
