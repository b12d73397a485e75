"""The fast decoder against the thorough one: where both give a value, it is the same value."""

import copy

import pytest
from hypothesis import given, settings, strategies as st

from tests.strategies import VALUE_CLASSES, json_values, values
from trio_a2a.errors import FieldViolation, InvalidParamsError
from trio_a2a.types import GetTaskRequest, Message, Part, Task
from trio_a2a.types.schema import describe
from trio_a2a.wire import from_dict, to_dict
from trio_a2a.wire.decode import UNUSUAL, decoder
from trio_a2a.wire.explain import explain

NOTHING = object()


def fast(members, cls):
    try:
        return decoder(cls)(members)
    except UNUSUAL:
        return NOTHING


def thorough(members, cls):
    try:
        return explain(members, cls, strict=True)
    except InvalidParamsError:
        return NOTHING


def containers(node):
    """All dicts and lists of a JSON value."""
    if isinstance(node, (dict, list)):
        yield node
        for child in node.values() if isinstance(node, dict) else node:
            yield from containers(child)


def read(members, cls, strict):
    """Return the class of what comes of reading: of the value, or of the first violation."""
    try:
        return type(from_dict(members, cls, strict=strict))
    except InvalidParamsError as error:
        return type(error.violations[0])


SNAKE = {field.json_name: field.name for cls in VALUE_CLASSES for field in describe(cls)}
odd_values = st.sampled_from([None, "", 0, 1, 5.0, "5", True, [], {}, [None], "TASK_STATE_WORKING", "AA", -1, 2**31])


@settings(deadline=None, max_examples=1200, derandomize=True)
@given(st.sampled_from(VALUE_CLASSES).flatmap(lambda cls: values(cls, rich=False)), st.data())
def test_both_decoders_agree_on_documents_with_a_fault(value, data):
    cls = type(value)
    members = copy.deepcopy(to_dict(value))
    spot = data.draw(st.sampled_from(list(containers(members))))
    if isinstance(spot, dict):
        key = data.draw(st.sampled_from([*spot, *(field.json_name for field in describe(cls))]))
        action = data.draw(st.sampled_from(["drop", "replace", "respell", "add"]))
        old = spot.pop(key, NOTHING)
        if action == "replace":
            spot[key] = data.draw(odd_values | json_values)
        elif action == "respell" and old is not NOTHING:
            spot[SNAKE.get(key, key)] = old
        elif action == "add":
            if old is not NOTHING:
                spot[key] = old
            spot[data.draw(st.sampled_from(["unknown", *SNAKE]))] = data.draw(odd_values)
    else:
        spot.insert(data.draw(st.integers(0, len(spot))), data.draw(odd_values))
    right = thorough(members, cls)
    quick = fast(members, cls)
    if quick is not NOTHING:
        assert quick == right
        assert repr(quick) == repr(right)


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.sampled_from(VALUE_CLASSES).flatmap(values))
def test_the_fast_decoder_reads_what_we_write(value):
    assert fast(to_dict(value), type(value)) == value


@settings(deadline=None, max_examples=300, derandomize=True)
@given(
    st.sampled_from(VALUE_CLASSES),
    json_values | st.dictionaries(st.sampled_from(sorted(SNAKE)), json_values, max_size=4),
)
@pytest.mark.parametrize("strict", [True, False])
def test_any_json_is_read_or_refused_with_violations(strict, cls, members):
    assert read(members, cls, strict) in {cls, FieldViolation}


@pytest.mark.parametrize(
    ("members", "cls"),
    [
        ({"text": "a", "unknown": {"deep": 1}}, Part),
        ({"id": "t", "kind": "task", "status": {"state": "TASK_STATE_WORKING", "final": True}}, Task),
        ({"id": "t", "tenant": "x", "historyLength": 5, "more": 1}, GetTaskRequest),
    ],
)
def test_unknown_members_do_not_slow_decoding_down(members, cls):
    assert fast(members, cls) is not NOTHING


@pytest.mark.parametrize(
    ("members", "cls"),
    [
        ({"text": "a", "media_type": "x"}, Part),
        ({"text": "a", "data": None}, Part),
        ({"id": "t", "history_length": 5}, GetTaskRequest),
        ({"id": "t", "historyLength": -1}, GetTaskRequest),
        ({"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]}, Message),
        ({"messageId": "m", "role": "ROLE_UNSPECIFIED", "parts": [{"text": "a"}]}, Message),
    ],
)
def test_known_members_in_unusual_form_are_left_to_the_other_decoder(members, cls):
    assert fast(members, cls) is NOTHING
