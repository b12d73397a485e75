"""JSON-RPC 2.0 as A2A uses it: what is a request, what is none, and what is answered."""

import json

import pytest
from hypothesis import given, strategies as st

from trio_a2a.errors import InvalidRequestError, JSONParseError, TaskNotFoundError
from trio_a2a.wire.jsonrpc import (
    MAX_DEPTH,
    RpcRequest,
    error_response,
    parse_request,
    result_response,
    salvage_id,
)


def body(**members):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {}, **members}).encode()


def without(name):
    document = json.loads(body())
    del document[name]
    return json.dumps(document).encode()


def nested(levels):
    return body(params={"a": json.loads("[" * levels + "]" * levels)})


def violations(data):
    with pytest.raises(InvalidRequestError) as caught:
        parse_request(data)
    return [violation.field for violation in caught.value.violations]


@pytest.mark.parametrize("id_", [1, 0, -7, 2**53, "a", "", "7"])
def test_an_id_is_a_string_or_an_integer_and_kept_as_it_is(id_):
    assert parse_request(body(id=id_)) == RpcRequest(id=id_, method="GetTask", params={})


@pytest.mark.parametrize("id_", [None, True, False, 1.5, 1.0, [], {}, [1]])
def test_any_other_id_is_refused(id_):
    """A-53: notifications are not part of A2A, and null stands for one."""
    assert violations(body(id=id_)) == ["id"]


def test_a_notification_is_refused():
    assert violations(without("id")) == ["id"]


@pytest.mark.parametrize("version", ["1.0", "2", 2.0, 2, None, ""])
def test_another_version_of_json_rpc_is_refused(version):
    assert violations(body(jsonrpc=version)) == ["jsonrpc"]


def test_a_request_without_a_version_or_a_method_is_refused():
    assert violations(without("jsonrpc")) == ["jsonrpc"]
    assert violations(without("method")) == ["method"]
    assert violations(body(method=7)) == ["method"]


@pytest.mark.parametrize("params", ["x", 1, True])
def test_params_are_an_object(params):
    assert violations(body(params=params)) == ["params"]


@pytest.mark.parametrize("params", [[], ["x"], [{}]])
def test_params_by_position_are_left_to_the_method_which_takes_none(params):
    assert parse_request(body(params=params)).params == params


@pytest.mark.parametrize("data", [without("params"), body(params=None)])
def test_absent_params_are_empty_ones(data):
    assert parse_request(data).params == {}


def test_every_fault_is_listed():
    assert violations(b'{"jsonrpc": 1, "id": [], "method": null, "params": 3}') == ["jsonrpc", "id", "method", "params"]


def test_members_that_are_not_known_are_ignored():
    assert parse_request(body(extra=1)).method == "GetTask"


@pytest.mark.parametrize("data", [b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]'])
def test_a_batch_is_refused(data):
    """A-53."""
    with pytest.raises(InvalidRequestError, match="Batch requests"):
        parse_request(data)


@pytest.mark.parametrize("data", [b"1", b"null", b'"x"', b"true"])
def test_json_that_is_no_object_is_no_request(data):
    with pytest.raises(InvalidRequestError):
        parse_request(data)


@pytest.mark.parametrize("data", [b"", b"{", b"hello", b"{'a': 1}", b"\xff", b'{"a": NaN}', b"\x00"])
def test_what_is_no_json_is_a_parse_error_that_says_nothing_of_the_text(data):
    with pytest.raises(JSONParseError) as caught:
        parse_request(data)
    assert caught.value.message == "Invalid JSON payload"
    assert caught.value.__cause__ is None


def test_a_request_may_be_nested_so_deep_and_no_deeper():
    # The document and its params are two of the levels.
    assert parse_request(nested(MAX_DEPTH - 2)).method == "GetTask"
    assert violations(nested(MAX_DEPTH - 1)) == ["params"]
    assert violations(nested(900)) == ["params"]


@pytest.mark.parametrize("data", [b"[" * 1025 + b"]" * 1025, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 5000])
def test_what_is_nested_deeper_than_the_parser_goes_is_an_invalid_request_too(data):
    with pytest.raises(InvalidRequestError, match="nested too deeply") as caught:
        parse_request(data)
    assert caught.value.__cause__ is None
    assert salvage_id(data) is None


def test_another_depth_may_be_asked_for():
    assert parse_request(nested(8), max_depth=10).method == "GetTask"
    with pytest.raises(InvalidRequestError):
        parse_request(nested(9), max_depth=10)


@pytest.mark.parametrize(
    ("data", "id_"),
    [
        (body(id=7, method=None), 7),
        (body(id="x", jsonrpc="1.0"), "x"),
        (body(id=None), None),
        (body(id=1.5), None),
        (body(id=True), None),
        (b"[1]", None),
        (b"{", None),
        (b"7", None),
    ],
)
def test_the_id_of_a_refused_request_is_echoed_where_there_is_one(data, id_):
    assert salvage_id(data) == id_


@given(st.text() | st.integers(-(2**63), 2**63 - 1) | st.none())
def test_responses_carry_the_id_and_exactly_one_of_result_and_error(id_):
    assert json.loads(result_response(id_, b'{"a":1}')) == {"jsonrpc": "2.0", "id": id_, "result": {"a": 1}}
    refused = json.loads(error_response(id_, TaskNotFoundError()))
    assert set(refused) == {"jsonrpc", "id", "error"}
    assert refused["id"] == id_
    assert refused["error"]["code"] == -32001


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_a_request_or_one_of_two_errors(data):
    try:
        request = parse_request(data)
    except (JSONParseError, InvalidRequestError):
        salvage_id(data)
    else:
        assert isinstance(request, RpcRequest)
