"""Values to JSON and back, through the façade."""

import json
import math
from datetime import UTC, datetime

import attrs
import orjson
import pytest
from hypothesis import given, settings, strategies as st

from tests.strategies import VALUE_CLASSES, an_instant, values
from trio_a2a import wire
from trio_a2a.errors import FieldViolation, InvalidParamsError, JSONParseError
from trio_a2a.types import (
    UNSET,
    AgentCapabilities,
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
)
from trio_a2a.types.struct import MAX_DEPTH
from trio_a2a.wire import from_dict, from_json, to_dict, to_json
from trio_a2a.wire.json import converter


def violations(data, cls, **options):
    with pytest.raises(InvalidParamsError) as caught:
        from_json(data, cls, **options)
    assert caught.value.__cause__ is None
    return [(violation.field, violation.description) for violation in caught.value.violations]


def test_the_facade_has_the_four_functions():
    assert wire.__all__ == ["UnknownMemberError", "from_dict", "from_json", "to_dict", "to_json"]


@settings(deadline=None, max_examples=600, derandomize=True)
@given(st.sampled_from(VALUE_CLASSES).flatmap(values))
def test_every_value_survives_the_round_trip(value):
    cls = type(value)
    text = to_json(value)
    assert from_json(text, cls) == value
    if b'"extensions"' not in text:  # a tolerant reading leaves out what has no uri
        assert from_json(text, cls, strict=False) == value
    members = to_dict(value)
    assert orjson.loads(text) == members
    assert from_dict(members, cls) == value


def test_what_is_decoded_is_frozen_and_of_the_class():
    message = from_json(b'{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}', Message)
    assert type(message) is Message
    assert type(message.parts[0]) is Part
    assert repr(message) == repr(Message(message_id="m", role=Role.USER, parts=[Part(text="a")]))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        message.role = Role.AGENT
    assert attrs.evolve(message, task_id="t").task_id == "t"


@pytest.mark.requirement("C-001")
def test_members_are_written_in_camel_case_and_left_out_when_empty():
    assert to_json(Message(message_id="m", role=Role.USER, parts=[Part(text="")], context_id="c")) == (
        b'{"messageId":"m","role":"ROLE_USER","parts":[{"text":""}],"contextId":"c"}'
    )


def test_presence_is_kept():
    assert to_dict(GetTaskRequest(id="t", history_length=0)) == {"id": "t", "historyLength": 0}
    assert to_dict(AgentCapabilities(streaming=False)) == {"streaming": False}
    assert to_dict(Message(message_id="m", role=Role.USER, parts=[Part(data=None)], metadata={})) == {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"data": None}],
        "metadata": {},
    }
    assert to_dict(ListTasksRequest()) == {}


def test_required_members_are_always_written():
    page = ListTasksResponse(tasks=(), next_page_token="", page_size=0, total_size=0)
    assert to_dict(page) == {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0}


@pytest.mark.requirement("C-003", "C-005")
def test_timestamps_have_three_digits_and_a_z():
    status = TaskStatus(state=TaskState.WORKING, timestamp=datetime(99, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert to_dict(status)["timestamp"] == "0099-01-02T03:04:05.000Z"
    assert to_dict(TaskStatus(state=TaskState.WORKING, timestamp=an_instant))["timestamp"] == "2026-03-14T09:02:01.900Z"


def test_enums_can_be_read_and_written_alone():
    assert to_json(Role.USER) == b'"ROLE_USER"'
    assert from_json(b'"ROLE_USER"', Role) is Role.USER
    assert from_json(b"2", Role) is Role.AGENT
    assert from_json(b'"ROLE_TOOL"', Role, strict=False) is Role.UNSPECIFIED
    assert violations(b'"user"', Role) == [("", "Unknown role; must be one of ROLE_USER, ROLE_AGENT")]


def test_both_spellings_are_read():
    request = from_json(b'{"id":"t","history_length":3}', GetTaskRequest)
    assert request == GetTaskRequest(id="t", history_length=3)


def test_of_two_spellings_the_last_wins():
    assert from_json(b'{"id":"t","history_length":3,"historyLength":4}', GetTaskRequest).history_length == 4
    assert from_json(b'{"id":"t","historyLength":4,"history_length":3}', GetTaskRequest).history_length == 3
    assert from_json(b'{"id":"t","historyLength":4,"history_length":null}', GetTaskRequest).history_length is None


def test_of_equal_keys_the_last_wins():
    assert from_json(b'{"id":"a","id":"b"}', GetTaskRequest).id == "b"


@pytest.mark.requirement("C-012")
def test_unknown_members_are_ignored():
    text = b'{"id":"t","x":1,"status":{"state":"TASK_STATE_WORKING","y":null},"history":[]}'
    assert from_json(text, Task) == Task(id="t", status=TaskStatus(state=TaskState.WORKING))


def test_null_is_unset():
    text = b'{"id":"t","contextId":null,"status":{"state":"TASK_STATE_WORKING","timestamp":null},"history":null}'
    assert from_json(text, Task) == Task(id="t", status=TaskStatus(state=TaskState.WORKING))


def test_null_inside_json_content_is_a_value():
    part = from_json(b'{"data":{"a":null,"b":[null]},"metadata":{"c":null}}', Part)
    assert part == Part(data={"a": None, "b": [None]}, metadata={"c": None})


def test_empty_ids_and_arrays_are_absent():
    text = b'{"id":"t","contextId":"","status":{"state":"TASK_STATE_WORKING"},"artifacts":[],"history":[]}'
    assert to_json(from_json(text, Task)) == b'{"id":"t","status":{"state":"TASK_STATE_WORKING"}}'


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("AAEC", b"\x00\x01\x02"),
        ("+/8=", b"\xfb\xff"),
        ("-_8=", b"\xfb\xff"),
        ("-_8", b"\xfb\xff"),
        ("+_8", b"\xfb\xff"),
        ("", b""),
    ],
)
def test_base64_is_read_in_both_alphabets(text, content):
    assert from_dict({"raw": text}, Part).raw == content


@pytest.mark.parametrize(
    "text", ["*", "A", "AAA=A", "AA=", "A===", "=", "====", "AA\n==", "AA ==", "AAAA====", "é", "AA==AA=="]
)
def test_base64_is_never_guessed(text):
    assert violations(json.dumps({"raw": text}), Part) == [("raw", "Must be base64")]


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("5", 5),
        ("5.0", 5),
        ('"5"', 5),
        ('"-0"', 0),
        ("1e2", 100),
        ('"1e2"', 100),
        ('"5.0"', 5),
        ("2147483647", 2**31 - 1),
    ],
)
def test_numbers_are_read_in_all_their_forms(written, number):
    page = from_json(f'{{"tasks":[],"nextPageToken":"","pageSize":{written},"totalSize":0}}', ListTasksResponse)
    assert page.page_size == number
    assert type(page.page_size) is int


@pytest.mark.parametrize(
    "written",
    [
        "5.5",
        "true",
        '""',
        '" 5"',
        '"5 "',
        '"0x5"',
        '"five"',
        '"\u0665"',
        '"+5"',
        '"05"',
        "[]",
        "{}",
        '"1_0"',
        f'"{"9" * 5000}"',
    ],
)
def test_what_is_no_whole_number_is_refused(written):
    assert violations(f'{{"id":"t","historyLength":{written}}}', GetTaskRequest) == [
        ("historyLength", "Must be a whole number")
    ]


@pytest.mark.parametrize("written", ["2147483648", "-2147483649", '"2147483648"', "1e300", "99999999999999999999"])
def test_numbers_past_32_bits_are_refused(written):
    assert violations(f'{{"id":"t","historyLength":{written}}}', GetTaskRequest) == [
        ("historyLength", "Must be a number of 32 bits")
    ]


@pytest.mark.parametrize("cls", [GetTaskRequest, ListTasksRequest, SendMessageConfiguration])
def test_a_negative_history_length_is_refused(cls):
    assert violations(b'{"id":"t","historyLength":-1}', cls) == [("historyLength", "Must not be negative")]


@pytest.mark.parametrize("size", [-5, 0, 101])
def test_a_page_size_out_of_range_is_told(size):
    with pytest.raises(InvalidParamsError) as caught:
        from_json(b'{"pageSize":%d}' % size, ListTasksRequest)

    assert caught.value.violations == (FieldViolation("pageSize", "Must be between 1 and 100"),)


@pytest.mark.parametrize("written", ["1", '"true"', '"false"', "0", "[]"])
def test_flags_are_true_or_false(written):
    found = violations(f'{{"returnImmediately":{written}}}', SendMessageConfiguration)
    assert [field for field, _ in found] == ["returnImmediately"]


@pytest.mark.parametrize("number", ["99", "-1", "1.5", "true", "null", "[]", '"1"'])
def test_an_enum_is_a_name_or_a_number_of_the_protocol(number):
    assert [field for field, _ in violations(f'{{"state":{number}}}', TaskStatus)] == ["state"]


def test_an_enum_number_may_be_written_as_a_float():
    assert from_json(b'{"state":2.0}', TaskStatus).state is TaskState.WORKING


def test_an_unspecified_filter_is_read_as_no_filter():
    assert from_json(b'{"status":"TASK_STATE_UNSPECIFIED"}', ListTasksRequest) == ListTasksRequest()
    assert from_json(b'{"status":0}', ListTasksRequest) == ListTasksRequest()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nope",
        b"\xff\xfe",
        '{"a":"\ud800"}',
        b'{"text":"\\ud800"}',
        b'{"data":NaN}',
        b"\xef\xbb\xbf{}",
        b"{}x",
        b'{"data":1e400}',
        b"[" * 100_000,
        b'{"a":' * 5000,
    ],
)
def test_text_that_is_no_json_is_a_parse_error(data):
    with pytest.raises(JSONParseError) as caught:
        from_json(data, Part)
    assert caught.value.message == "Invalid JSON payload"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("data", [b"null", b"5", b'"text"', b"[]", b"true"])
def test_a_document_that_is_no_object_is_a_violation(data):
    (violation,) = violations(data, Task)
    assert violation[0] == ""
    assert violation[1].startswith("Must be an object, got ")


def test_json_may_come_as_any_kind_of_bytes_or_as_text():
    for data in (b'{"id":"t"}', bytearray(b'{"id":"t"}'), memoryview(b'{"id":"t"}'), '{"id":"t"}'):
        assert from_json(data, GetTaskRequest) == GetTaskRequest(id="t")


def test_misuse_is_a_type_error():
    with pytest.raises(TypeError, match="bytes or str, got dict"):
        from_json({"id": "t"}, GetTaskRequest)
    with pytest.raises(TypeError, match=r"one of trio_a2a\.types"):
        from_json(b"{}", dict)
    with pytest.raises(TypeError, match=r"one of trio_a2a\.types"):
        from_dict({}, Task | Message)
    with pytest.raises(TypeError, match=r"values of trio_a2a\.types, got dict"):
        to_json({"id": "t"})
    with pytest.raises(TypeError, match=r"values of trio_a2a\.types, got type"):
        to_json(Task)


def nested(levels):
    return '{"data":' + "[" * levels + "]" * levels + "}"


def test_nesting_is_limited_alike_in_both_directions():
    part = from_json(nested(MAX_DEPTH), Part)
    assert from_json(to_json(part), Part) == part
    inner = "data" + "[0]" * MAX_DEPTH
    assert violations(nested(MAX_DEPTH + 1), Part) == [(inner, "Must not be nested deeper than 100 levels")]
    assert violations(nested(900), Part) == [(inner, "Must not be nested deeper than 100 levels")]


def test_a_deep_unknown_member_is_ignored_like_any_other():
    assert from_json('{"text":"a","x":' + "[" * 1000 + "]" * 1000 + "}", Part) == Part(text="a")


@pytest.mark.parametrize("content", [math.nan, math.inf, -math.inf, 2**64, -(2**63) - 1, "\ud800", {1: 1}])
def test_what_json_cannot_carry_is_refused_on_writing(content):
    artifact = Artifact(artifact_id="a", parts=[Part(text="null"), Part(data=[content])])
    for write in (to_json, to_dict):
        with pytest.raises(ValueError, match=r"^Artifact\.parts\[1\]\.data\[0\] ") as caught:
            write(artifact)
        assert "orjson" not in str(caught.value)


def test_nulls_that_are_meant_are_written():
    assert to_json(Part(data=[None, "null"])) == b'{"data":[null,"null"]}'


def test_a_value_of_64_bits_is_carried_exactly():
    part = Part(data=[2**64 - 1, -(2**63), 2**53 + 1, 0.1, -0.0])
    assert repr(from_json(to_json(part), Part)) == repr(part)


def test_a_value_that_was_damaged_by_force_fails_cleanly():
    request = GetTaskRequest(id="t", history_length=1)
    object.__setattr__(request, "history_length", 2**70)
    with pytest.raises(ValueError, match="GetTaskRequest cannot be written as JSON"):
        to_json(request)


def test_errors_of_writing_show_no_inner_error():
    with pytest.raises(ValueError, match="64 bits") as caught:
        to_json(Part(data=2**64))
    assert caught.value.__context__ is None


def test_content_changed_against_the_contract_fails_cleanly():
    part = Part(data=[])
    part.data.append(part.data)
    with pytest.raises(ValueError, match="nested deeper"):
        to_json(part)


def test_json_objects_that_were_read_are_not_kept():
    members = {"data": {"rows": [1]}, "metadata": {"a": {}}}
    part = from_dict(members, Part)
    members["data"]["rows"].append(2)
    members["metadata"]["a"]["b"] = 1
    assert part == Part(data={"rows": [1]}, metadata={"a": {}})


def test_json_objects_that_are_given_away_are_copies():
    part = Part(data={"rows": [1]})
    to_dict(part)["data"]["rows"].append(2)
    assert part == Part(data={"rows": [1]})


@pytest.mark.parametrize("content", [math.nan, math.inf, 2**64, {1: 2}, {"a": object()}, (1, 2), b"a", {1, 2}])
def test_objects_that_no_json_parser_makes_are_violations(content):
    with pytest.raises(InvalidParamsError) as caught:
        from_dict({"data": [content]}, Part)
    assert [violation.field for violation in caught.value.violations] in (["data[0]"], ["data[0].a"])


def test_an_object_that_contains_itself_is_a_violation():
    loop = {}
    loop["a"] = loop
    with pytest.raises(InvalidParamsError):
        from_dict({"data": loop}, Part)


def test_values_fit_into_attrs_classes_of_the_user():
    @attrs.frozen
    class Record:
        task: Task
        seen: list[Message]
        role: Role

    record = Record(Task(id="t", status=TaskStatus(state=TaskState.WORKING)), [Message.user("a")], Role.USER)
    members = orjson.loads(orjson.dumps(converter.unstructure(record)))
    assert members["role"] == "ROLE_USER"
    assert converter.structure(members, Record) == record


def test_a_stream_element_is_told_by_its_member():
    text = b'{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}'
    element = from_json(text, StreamResponse)
    assert element.kind == "status_update"
    assert element.value.status.state.is_final
    assert element.task is None


def test_unset_data_is_never_written():
    assert from_json(b'{"text":"a"}', Part).data is UNSET
    assert to_dict(Part(text="a")) == {"text": "a"}


def test_violations_are_plain_data():
    with pytest.raises(InvalidParamsError) as caught:
        from_json(b"{}", GetTaskRequest)
    assert caught.value.violations == (FieldViolation("id", "Is required"),)
