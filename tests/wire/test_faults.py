"""Errors as they appear on the wire."""

import json

import pytest
from hypothesis import given, strategies as st

from trio_a2a.errors import (
    ERROR_TABLE,
    A2AError,
    AuthenticationError,
    FieldViolation,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    TaskNotFoundError,
)
from trio_a2a.wire.faults import error_details, jsonrpc_error, read_jsonrpc_error, read_status_error
from trio_a2a.wire.rest import error_body


def test_an_error_with_a_reason_has_an_error_info_of_the_protocol_s_domain():
    assert error_details(TaskNotFoundError(metadata={"taskId": "t"})) == [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "TASK_NOT_FOUND",
            "domain": "a2a-protocol.org",
            "metadata": {"taskId": "t"},
        }
    ]


def test_an_error_info_without_metadata_has_no_such_member():
    assert "metadata" not in error_details(InternalError())[0]


@pytest.mark.parametrize("cls", [InvalidParamsError, InvalidRequestError])
def test_violations_are_a_bad_request_detail(cls):
    error = cls(violations=[FieldViolation("message.parts[0]", "Must not be empty"), FieldViolation("", "Odd")])
    assert error_details(error)[1] == {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [
            {"field": "message.parts[0]", "description": "Must not be empty"},
            {"field": "", "description": "Odd"},
        ],
    }


def test_without_violations_there_is_no_bad_request_detail():
    assert len(error_details(InvalidParamsError())) == 1


@pytest.mark.parametrize("row", ERROR_TABLE, ids=lambda row: row.error.__name__)
def test_every_error_has_its_code_its_text_and_details_with_a_type(row):
    error = json.loads(jsonrpc_error(row.error()))
    assert error["code"] == (row.code if row.code is not None else -32600)
    assert error["message"] == row.message
    assert [detail.get("reason") for detail in error.get("data", [])] == ([row.reason] if row.reason else [])
    assert all("@type" in detail for detail in error.get("data", []))


def test_an_error_of_the_http_level_has_no_data():
    assert json.loads(jsonrpc_error(AuthenticationError())) == {"code": -32600, "message": "Authentication required"}


def test_an_error_that_a_program_defines_is_that_of_its_nearest_ancestor():
    class LostError(TaskNotFoundError):
        pass

    class OtherError(A2AError):
        pass

    assert json.loads(jsonrpc_error(LostError("Lost it")))["code"] == -32001
    assert json.loads(jsonrpc_error(OtherError("Odd")))["code"] == -32603


# --- Reading --------------------------------------------------------------------------------------------------------


def info(reason, domain="a2a-protocol.org", **members):
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": domain, **members}


@pytest.mark.parametrize("row", ERROR_TABLE, ids=lambda row: row.error.__name__)
@pytest.mark.parametrize("table", ["1.0.0", "1.0.1"])
def test_every_error_is_read_as_what_it_was_written(row, table):
    error = row.error("some text", metadata={"key": "value"})
    over_rest = read_status_error(json.loads(error_body(error, table)), http_status=row.http_status(table))
    over_jsonrpc = read_jsonrpc_error(json.loads(jsonrpc_error(error)), http_status=row.http if not row.code else 200)
    for read in (over_rest, over_jsonrpc):
        assert type(read) is row.error
        assert read.message == "some text"
        assert read.metadata == ({"key": "value"} if row.reason else {})


@pytest.mark.parametrize("cls", [InvalidParamsError, InvalidRequestError])
def test_violations_are_read(cls):
    error = cls(violations=[FieldViolation("message.parts[0]", "Must not be empty")])
    assert read_jsonrpc_error(json.loads(jsonrpc_error(error))).violations == error.violations
    assert read_status_error(json.loads(error_body(error))).violations == error.violations


def test_the_reason_comes_before_the_code_and_the_status():
    error = {"code": -32602, "message": "m", "data": [info("TASK_NOT_FOUND")]}
    assert type(read_jsonrpc_error(error, http_status=503)) is TaskNotFoundError
    body = {"error": {"code": 500, "status": "INTERNAL", "details": [info("TASK_NOT_FOUND")]}}
    assert type(read_status_error(body, http_status=500)) is TaskNotFoundError


@pytest.mark.parametrize(
    "detail", [info("TASK_NOT_FOUND", "elsewhere.example"), info("NEW_REASON"), info(5), info(None)]
)
def test_a_reason_of_another_domain_or_an_unknown_one_is_passed_over(detail):
    assert type(read_jsonrpc_error({"code": -32602, "message": "m", "data": [detail]})) is InvalidParamsError


@pytest.mark.parametrize("data", [None, "text", 5, {}, [], ["x", 1, None], {"a": 1}, [{"@type": 5}], [[info("X")]]])
def test_details_in_the_wrong_form_do_no_harm(data):
    assert type(read_jsonrpc_error({"code": -32001, "message": "m", "data": data})) is TaskNotFoundError
    assert type(read_status_error({"error": {"details": data}}, http_status=401)) is AuthenticationError


def test_one_bare_detail_is_read_like_a_list_of_one():
    assert type(read_jsonrpc_error({"code": 1, "data": info("TASK_NOT_FOUND")})) is TaskNotFoundError


def test_metadata_is_made_text():
    detail = info("VERSION_NOT_SUPPORTED", metadata={"supported": ["1.0", "0.3"], "n": 5, "o": {"a": None}, "s": "t"})
    read = read_jsonrpc_error({"code": 1, "data": [detail]})
    assert read.metadata == {"supported": "1.0, 0.3", "n": "5", "o": '{"a":null}', "s": "t"}
    assert read_jsonrpc_error({"code": -32001, "data": [info("X", metadata=[1])]}).metadata == {}
    deep = json.loads("[" * 900 + "]" * 900)
    assert read_jsonrpc_error({"code": 1, "data": [info("TASK_NOT_FOUND", metadata={"x": deep})]}).metadata == {"x": ""}


def test_a_code_that_nobody_knows_is_an_error_all_the_same():
    read = read_jsonrpc_error({"code": -32099, "message": "odd"})
    assert type(read) is A2AError
    assert (read.message, read.metadata) == ("odd", {"code": "-32099"})
    assert type(read_jsonrpc_error({})) is A2AError
    assert read_jsonrpc_error("text") is None


@pytest.mark.parametrize(
    "body", [None, [], "x", {}, {"error": None}, {"error": "x"}, {"error": {"status": "NOT_FOUND"}}]
)
def test_a_bare_404_is_no_task_that_was_not_found(body):
    assert read_status_error(body, http_status=404) is None


@pytest.mark.parametrize(
    ("status", "name"),
    [
        ("UNAUTHENTICATED", "AuthenticationError"),
        ("PERMISSION_DENIED", "AuthorizationError"),
        ("RESOURCE_EXHAUSTED", "RateLimitedError"),
        ("UNAVAILABLE", "UnavailableError"),
        ("INVALID_ARGUMENT", "InvalidParamsError"),
        ("FAILED_PRECONDITION", "UnsupportedOperationError"),
        ("INTERNAL", "InternalError"),
    ],
)
def test_without_a_reason_the_status_that_the_body_names_decides(status, name):
    assert type(read_status_error({"error": {"status": status}}, http_status=400)).__name__ == name


def test_some_http_statuses_mean_one_thing_whatever_the_body_says():
    read = read_jsonrpc_error({"code": -32600, "message": "no"}, http_status=429, retry_after=3)
    assert type(read).__name__ == "RateLimitedError"
    assert read.retry_after == 3
    assert type(read_status_error(None, http_status=503)).__name__ == "UnavailableError"


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_no_json_upsets_the_reading(document):
    for error in (document, {"code": document, "data": document, "message": document}, {"data": [document]}):
        read_jsonrpc_error(error)
    for body in (document, {"error": document}, {"error": {"details": document, "status": document}}):
        read_status_error(body, http_status=400)
    read_jsonrpc_error({"data": [info("TASK_NOT_FOUND", metadata=document, fieldViolations=document)]})
