"""Canonical cards and card signatures against the protocol's vectors. The keys in them are thrown away."""

import json
from pathlib import Path

import pytest

from trio_a2a.types import AgentCard, AgentCardSignature
from trio_a2a.wire import from_dict, to_json
from trio_a2a.wire.canonical import loose_card, reduced_card
from trio_a2a.wire.signing import (
    InvalidCardSignatureError,
    canonical_card,
    canonical_json,
    sign_card,
    verify_card,
)

DATA = Path(__file__).parent / "data"


def load(name):
    return json.loads((DATA / name).read_text(encoding="utf-8"))


CANONICAL = load("vectors/card_canonicalization.json")["cases"]
SIGNATURES = load("vectors/card_signature.json")
SIGNERS = SIGNATURES["signatures"]
KEYS = {signer["publicJwk"]["kid"]: signer["publicJwk"] for signer in SIGNERS}


def name_of(vector):
    return vector.get("name") or vector.get("why") or vector["protectedDecoded"]["kid"]


# --- Canonical cards ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C-201", "C-203", "C-204", "C-205", "C-206")
@pytest.mark.parametrize("case", CANONICAL, ids=name_of)
def test_the_canonical_card_is_that_of_the_vector(case):
    assert canonical_card(case["input"]).decode() == case["canonical"]


@pytest.mark.parametrize("case", CANONICAL, ids=name_of)
def test_the_canonical_card_without_unknown_members_is_that_of_the_vector(case):
    assert canonical_card(case["input"], drop_unknown=True).decode() == case["canonicalDroppingUnknown"]


@pytest.mark.parametrize("case", CANONICAL, ids=name_of)
def test_the_loose_card_is_that_of_the_vector(case):
    reduced = reduced_card(case["input"], drop_unknown=True)
    assert loose_card(reduced).decode() == case["legacySdkCanonical"]
    # Their numbers are small and their keys ASCII, so the escaped form reads back as the same object.
    assert json.loads(loose_card(reduced, escaped=True)) == json.loads(case["legacySdkCanonical"])
    assert loose_card(reduced, escaped=True).isascii()


@pytest.mark.parametrize("name", ["canonical", "canonicalDroppingUnknown", "legacySdkCanonical"])
@pytest.mark.parametrize("case", CANONICAL, ids=name_of)
def test_the_texts_of_the_vectors_are_canonical(case, name):
    assert canonical_json(json.loads(case[name])).decode() == case[name]


def test_the_value_of_a_full_card_has_the_canonical_card_of_its_text():
    (case,) = [case for case in CANONICAL if case["name"] == "full-card"]
    assert canonical_card(from_dict(case["input"], AgentCard)).decode() == case["canonical"]


# --- Signatures -----------------------------------------------------------------------------------------------------


def with_signatures(*signatures):
    return SIGNATURES["signedCard"] | {"signatures": list(signatures)}


def test_the_payload_is_the_canonical_form_of_the_signed_card():
    assert canonical_card(SIGNATURES["signedCard"]).decode() == SIGNATURES["payload"]


@pytest.mark.requirement("C-200", "C-216")
@pytest.mark.parametrize("vector", SIGNATURES["mustVerify"], ids=str)
def test_what_must_verify_does_by_each_of_its_keys(vector):
    card = SIGNATURES[vector["card"]]
    for index in vector["allOf"]:
        header = SIGNERS[index]["protectedDecoded"]
        kid = header["kid"]
        for raw in (card, json.dumps(card), from_dict(card, AgentCard)):
            verified = verify_card(raw, {kid: KEYS[kid]})
            assert (verified.kid, verified.algorithm, verified.form) == (kid, header["alg"], "exact")
            assert verified.signature == from_dict(SIGNERS[index]["signature"], AgentCardSignature)
            assert verified.card == from_dict(card, AgentCard)


@pytest.mark.parametrize("signer", SIGNERS, ids=name_of)
def test_each_signature_verifies_alone(signer):
    raw = with_signatures(signer["signature"])
    assert verify_card(raw, {"keys": list(KEYS.values())}).kid == signer["protectedDecoded"]["kid"]


def forbidden(vector):
    if "card" in vector:
        return vector["card"]
    if "signature" in vector:
        return with_signatures(vector["signature"])
    return None


FORBIDDEN = [vector for vector in SIGNATURES["mustFail"] if forbidden(vector) is not None]


@pytest.mark.requirement("C-211")
@pytest.mark.parametrize("loose", [False, True], ids=["strict", "loose"])
@pytest.mark.parametrize("vector", FORBIDDEN, ids=name_of)
def test_what_must_fail_does(vector, loose):
    with pytest.raises(InvalidCardSignatureError):
        verify_card(forbidden(vector), KEYS, loose=loose)


def test_the_vector_that_has_no_signature_has_a_test_of_its_own():
    """Algorithm confusion: ``test_a_public_key_is_not_taken_for_a_secret`` in ``tests/wire/test_signing.py``."""
    (vector,) = [vector for vector in SIGNATURES["mustFail"] if vector not in FORBIDDEN]
    assert vector["why"].startswith("HS256")


@pytest.mark.requirement("C-210")
@pytest.mark.parametrize("signer", [signer for signer in SIGNERS if signer["privateJwkParts"]], ids=name_of)
def test_what_we_sign_with_the_keys_of_the_vectors_verifies(signer):
    header = signer["protectedDecoded"]
    card = from_dict(with_signatures(), AgentCard)
    signed = sign_card(
        card,
        signer["publicJwk"] | signer["privateJwkParts"],
        kid=header["kid"],
        algorithm=header["alg"],
        jku=header.get("jku"),
    )
    (signature,) = signed.signatures
    assert signature.protected == signer["signature"]["protected"]
    if header["alg"] == "EdDSA":  # the other algorithms of these keys draw a number
        assert signature.signature == signer["signature"]["signature"]
    assert verify_card(to_json(signed), KEYS).card == signed
