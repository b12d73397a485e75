"""RFC 8785, and the form of an agent card that is signed. The vectors are in ``tests/contract``."""

import json
import struct
import sys
from enum import IntEnum, StrEnum
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from tests.strategies import texts, values
from trio_a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentCardSignature,
    AgentExtension,
    AgentInterface,
    AgentSkill,
)
from trio_a2a.types.struct import MAX_DEPTH as MAX_STRUCT_DEPTH
from trio_a2a.wire import from_json, to_dict
from trio_a2a.wire.canonical import MAX_DEPTH, canonical_card, canonical_json, loose_card, reduced_card

deterministic = settings(deadline=None, derandomize=True, database=None)
thorough = settings(deterministic, max_examples=300)


# --- RFC 8785 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_doubles_are_written_as_the_samples_of_the_rfc(bits, text):
    """RFC 8785, appendix B."""
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(number).decode() == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-1.5, "-1.5"),
        (100.0, "100"),
        (123456.789, "123456.789"),
        (1e20, "100000000000000000000"),
        (1.5e20, "150000000000000000000"),
        (1e21, "1e+21"),
        (1.25e21, "1.25e+21"),
        (1e-6, "0.000001"),
        (1.25e-6, "0.00000125"),
        (1e-7, "1e-7"),
        (0.1, "0.1"),
        (1e16, "10000000000000000"),
        (12345678901234567.0, "12345678901234568"),
    ],
)
def test_the_point_and_the_exponent_stand_where_ecmascript_puts_them(number, text):
    assert canonical_json(number).decode() == text


@pytest.mark.requirement("C-201")
def test_the_sample_object_of_the_rfc_is_written_as_there():
    """RFC 8785, section 3.2.4."""
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert canonical_json(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_are_in_the_order_of_their_utf_16_code_units():
    """RFC 8785, section 3.2.3; by code points the emoji would come last."""
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    written = json.loads(canonical_json(dict.fromkeys(keys, 0)))
    assert list(written) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


def test_every_character_is_written_as_itself_unless_it_must_be_escaped():
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    for number in (*range(0x3000), *range(0xD7F0, 0xD800), *range(0xE000, 0xE010), 0xFEFF, 0xFFFF, 0x10FFFF):
        character = chr(number)
        written = short.get(character, f"\\u{number:04x}" if number < 0x20 else character)
        assert canonical_json(character).decode() == f'"{written}"'


@pytest.mark.parametrize(("value", "text"), [([], "[]"), ({}, "{}"), ((), "[]"), ([{}], "[{}]"), ({"": ()}, '{"":[]}')])
def test_empty_containers_are_two_characters(value, text):
    assert canonical_json(value).decode() == text


def test_subclasses_of_the_json_types_are_written_as_these():
    class Colour(StrEnum):
        RED = "red"

    class Level(IntEnum):
        HIGH = 3

    value = MappingProxyType({Colour.RED: (Level.HIGH, True, False), "x": Colour.RED})
    assert canonical_json(value) == b'{"red":[3,true,false],"x":"red"}'


@pytest.mark.parametrize("number", [0, 7, -7, 2**53, -(2**53), 2**53 - 1])
def test_integers_that_are_doubles_are_written_with_all_their_digits(number):
    assert canonical_json(number).decode() == str(number)


def test_a_large_integer_is_written_as_the_double_it_is():
    assert canonical_json(2**60) == canonical_json(float(2**60)) == b"1152921504606847000"
    assert canonical_json(-(2**60)) == b"-1152921504606847000"
    assert canonical_json(10**21) == b"1e+21"


def test_an_integer_as_peers_write_a_large_double_is_that_double():
    """ECMAScript writes 2**60 so, though the digits are those of no double."""
    assert canonical_json(1152921504606847000) == b"1152921504606847000"


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**64 - 1, 10**400])
def test_an_integer_that_is_no_double_is_refused(number):
    with pytest.raises(ValueError, match="double"):
        canonical_json([number])


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), float("-inf"), "\ud800", {"\udfff": 1}, ["a\ud83d"]], ids=ascii
)
def test_what_json_cannot_carry_is_refused(value):
    with pytest.raises(ValueError, match=r"no JSON number|lone surrogate"):
        canonical_json(value)


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), {1: 2}, {None: 1}, [1j]], ids=lambda v: type(v).__name__)
def test_what_json_has_no_form_for_is_a_type_error(value):
    with pytest.raises(TypeError):
        canonical_json(value)


def nested(levels, wrap):
    value = 0
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}], ids=["arrays", "objects"])
def test_nesting_ends_at_the_limit(wrap):
    assert canonical_json(nested(MAX_DEPTH, wrap))
    with pytest.raises(ValueError, match="nested deeper than 128 levels"):
        canonical_json(nested(MAX_DEPTH + 1, wrap))
    with pytest.raises(ValueError, match="nested deeper"):
        canonical_json(nested(sys.getrecursionlimit() * 2, wrap))


doubles = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | doubles | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def parsed(text):
    # All numbers of JCS are doubles, also those without a point.
    return json.loads(text, parse_int=float)


@thorough
@given(json_values)
def test_what_is_written_reads_back_as_the_same_value(value):
    assert parsed(canonical_json(value)) == value


@thorough
@given(json_values)
def test_the_canonical_form_of_a_canonical_form_is_itself(value):
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == canonical_json(parsed(text)) == text


def reordered(value):
    if isinstance(value, dict):
        return {key: reordered(item) for key, item in reversed(value.items())}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@thorough
@given(json_values)
def test_the_order_of_keys_and_the_spelling_of_the_text_do_not_matter(value):
    text = canonical_json(value)
    assert canonical_json(reordered(value)) == text
    assert canonical_json(json.loads(json.dumps(value, indent=1, ensure_ascii=True))) == text


@thorough
@given(doubles)
def test_a_double_has_the_shortest_digits_that_read_back(number):
    text = canonical_json(number).decode()
    assert float(text) == number
    digits = text.lstrip("-").partition("e")[0].replace(".", "").strip("0")
    assert len(digits) <= len(repr(number).lstrip("-").partition("e")[0].replace(".", "").strip("0"))


@deterministic
@given(doubles.map(lambda number: float(int(number))))
def test_an_integer_with_the_value_of_a_double_is_written_as_the_double(number):
    assert canonical_json(int(number)) == canonical_json(number)


def test_the_canonical_form_is_that_of_the_sdk_for_all_that_both_take():
    """The Python SDK's own RFC 8785 takes no integer past 2**53."""
    theirs = pytest.importorskip("a2a.utils._jcs", reason="this a2a-sdk has no RFC 8785 of its own")

    @deterministic
    @given(json_values)
    def check(value):
        try:
            text = theirs.canonicalize(value)
        except theirs.CanonicalizationError:
            assume(False)
        assert canonical_json(value).decode() == text

    check()


# --- Cards ----------------------------------------------------------------------------------------------------------


def a_card(**members):
    return AgentCard(
        **{
            "name": "Harbour Desk",
            "description": "",
            "supported_interfaces": [
                AgentInterface(url="https://a.example", protocol_binding="JSONRPC", protocol_version="1.0")
            ],
            "version": "1.0.0",
            "capabilities": AgentCapabilities(),
            "default_input_modes": ["text/plain"],
            "default_output_modes": ["text/plain"],
            "skills": [AgentSkill(id="s", name="S", description="", tags=[])],
        }
        | members
    )


@pytest.mark.requirement("C-205")
def test_required_members_stay_though_they_are_empty():
    members = json.loads(canonical_card(a_card()))
    assert members["description"] == ""
    assert members["capabilities"] == {}
    assert members["skills"] == [{"description": "", "id": "s", "name": "S", "tags": []}]


@pytest.mark.requirement("C-203", "C-204")
def test_members_with_presence_stay_if_they_are_set():
    card = a_card(documentation_url="", capabilities=AgentCapabilities(streaming=False))
    members = json.loads(canonical_card(card))
    assert members["documentationUrl"] == ""
    assert members["capabilities"] == {"streaming": False}
    assert "iconUrl" not in members


@pytest.mark.requirement("C-206")
def test_defaults_without_presence_go():
    raw = to_dict(a_card())
    raw["supportedInterfaces"][0]["tenant"] = ""
    raw["capabilities"]["extensions"] = []
    raw["skills"][0] |= {"examples": [], "inputModes": [], "securityRequirements": []}
    raw |= {"securitySchemes": {}, "securityRequirements": []}
    assert canonical_card(raw) == canonical_card(a_card())


def test_null_is_unset():
    raw = to_dict(a_card()) | {"provider": None, "documentationUrl": None, "securitySchemes": None}
    assert canonical_card(raw) == canonical_card(a_card())


def test_entries_of_maps_stay_though_they_are_empty():
    raw = to_dict(a_card()) | {
        "securitySchemes": {"m": {"mtlsSecurityScheme": {"description": ""}}},
        "securityRequirements": [{"schemes": {"m": {"list": []}}}, {"schemes": {}}],
    }
    members = json.loads(canonical_card(raw))
    assert members["securitySchemes"] == {"m": {"mtlsSecurityScheme": {}}}
    assert members["securityRequirements"] == [{"schemes": {"m": {}}}, {}]


def test_a_struct_is_kept_as_it_is():
    params = {"empty": "", "none": None, "list": [], "object": {}, "no": False, "zero": 0}
    card = a_card(capabilities=AgentCapabilities(extensions=[AgentExtension(uri="urn:x", params=params)]))
    assert json.loads(canonical_card(card))["capabilities"]["extensions"] == [{"params": params, "uri": "urn:x"}]


def test_a_struct_of_the_greatest_depth_has_a_canonical_form():
    params = {"a": nested(MAX_STRUCT_DEPTH - 1, lambda value: [value])}
    card = a_card(capabilities=AgentCapabilities(extensions=[AgentExtension(uri="urn:x", params=params)]))
    assert canonical_card(card)


@pytest.mark.requirement("C-202")
def test_only_the_signatures_of_the_card_itself_go():
    signature = AgentCardSignature(protected="x", signature="y")
    raw = to_dict(a_card(signatures=[signature]))
    raw["capabilities"]["signatures"] = ["unknown"]
    members = json.loads(canonical_card(raw))
    assert "signatures" not in members
    assert members["capabilities"]["signatures"] == ["unknown"]


def test_unknown_members_stay_as_they_are_unless_they_are_dropped():
    raw = to_dict(a_card()) | {"futureField": {"a": [], "b": None}, "supported_interfaces": []}
    raw["skills"][0]["futureMember"] = ""
    members = json.loads(canonical_card(raw))
    assert members["futureField"] == {"a": [], "b": None}
    assert members["supported_interfaces"] == []
    assert members["skills"][0]["futureMember"] == ""
    assert canonical_card(raw, drop_unknown=True) == canonical_card(a_card())


@pytest.mark.parametrize(
    "wrong",
    [
        {"skills": "none"},
        {"skills": [3, None, "x"]},
        {"securitySchemes": []},
        {"securitySchemes": {"a": None}},
        {"securityRequirements": {}},
        {"provider": []},
        {"capabilities": {"extensions": [{"uri": 0, "required": "", "description": False, "params": []}]}},
    ],
    ids=str,
)
def test_what_is_of_the_wrong_type_stays(wrong):
    """It is no default, and whether it is a card is not asked here."""
    for drop_unknown in (False, True):
        assert json.loads(canonical_card(wrong, drop_unknown=drop_unknown)) == wrong


def test_the_card_that_was_given_is_not_changed():
    raw = to_dict(a_card(signatures=[AgentCardSignature(protected="x", signature="y")])) | {"iconUrl": None}
    before = json.dumps(raw)
    canonical_card(raw, drop_unknown=True)
    assert json.dumps(raw) == before


@pytest.mark.parametrize("card", [None, "{}", b"{}", [], 3], ids=repr)
def test_only_cards_have_a_canonical_card(card):
    with pytest.raises(TypeError, match="expected an AgentCard"):
        canonical_card(card)


@settings(deterministic, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(values(AgentCard))
def test_a_card_that_was_sent_has_the_canonical_form_it_had(card):
    try:
        text = canonical_card(card)
    except ValueError:  # an integer in a Struct that is no double
        assume(False)
    assert canonical_card(to_dict(card)) == text
    assert canonical_card(json.loads(text)) == text
    assert canonical_card(json.loads(text), drop_unknown=True) == text
    assert canonical_card(from_json(text, AgentCard)) == text


# --- The loose form -------------------------------------------------------------------------------------------------


def test_the_loose_form_has_nothing_empty():
    reduced = {"a": "", "b": [], "c": {"d": [{"e": None}, ""]}, "f": [0, False, "x", {}]}
    assert loose_card(reduced) == b'{"f":[0,false,"x"]}'
    assert loose_card({"a": [[]]}) == b"{}"


def test_the_escaped_form_is_python_s():
    reduced = {"é": "\U0001f600\x7f", "\uffff": 1e-6, "\U0001f600": 2.0, "big": 1e21, "half": 0.5, "": ["\n"]}
    assert loose_card(reduced, escaped=True) == (
        rb'{"":["\n"],"big":1000000000000000000000,"half":0.5,"\u00e9":"\ud83d\ude00\u007f",'
        rb'"\uffff":1e-06,"\ud83d\ude00":2}'
    )


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize(
    "wrong", [float("nan"), "\ud800", nested(2000, lambda value: [value])], ids=["nan", "�", "deep"]
)
def test_what_has_no_canonical_form_has_no_loose_one(wrong, escaped):
    with pytest.raises(ValueError):
        loose_card({"x": wrong}, escaped=escaped)


def test_the_loose_form_does_not_tell_requirements_without_scopes():
    """Why it is never the default."""
    guarded = reduced_card(to_dict(a_card()) | {"securityRequirements": [{"schemes": {"bearer": {}}}]})
    assert loose_card(guarded) == loose_card(reduced_card(a_card()))
    assert canonical_card(guarded) != canonical_card(a_card())
