"""Errors as they appear on the wire."""

import json

import pytest

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
from trio_a2a.wire.faults import error_details, jsonrpc_error


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
