"""The errors: the table, what they carry, and that they can be copied and sent to another process."""

import copy
import pickle

import pytest

from trio_a2a import errors
from trio_a2a.errors import (
    ERROR_TABLE,
    A2AError,
    FieldViolation,
    GrpcStatus,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    JSONParseError,
    RateLimitedError,
    StoreError,
    TaskConflictError,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskPersistenceError,
    TaskSerializationError,
    TaskTerminalError,
    UnavailableError,
    UnsupportedOperationError,
    error_for_code,
    error_for_http_status,
    error_for_reason,
    error_row,
)


def test_every_public_error_class_has_one_row():
    public = {cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, A2AError)}
    internal = {cls for cls in public if cls.__name__.startswith("_")}
    assert [row.error for row in ERROR_TABLE] == list(dict.fromkeys(row.error for row in ERROR_TABLE))
    assert {row.error for row in ERROR_TABLE} == public - internal - {A2AError}


def test_all_is_sorted_and_complete():
    public = {
        name
        for name, thing in vars(errors).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == errors.__name__
    }
    assert public <= set(errors.__all__)
    assert all(hasattr(errors, name) for name in errors.__all__)


@pytest.mark.parametrize("row", ERROR_TABLE, ids=lambda row: row.error.__name__)
def test_a_class_is_found_by_its_code_and_by_its_reason(row):
    assert error_row(row.error) is row
    assert error_row(row.error()) is row
    if row.code is not None:
        assert error_for_code(row.code) is row.error
    else:
        assert error_for_http_status(row.http) is row.error
    if row.reason is not None:
        assert error_for_reason(row.reason) is row.error


def test_unknown_codes_reasons_and_statuses_have_no_class():
    assert error_for_code(-32050) is None
    assert error_for_reason("NO_SUCH_REASON") is None
    assert error_for_http_status(404) is None


def test_the_reason_of_the_java_sdk_is_known():
    assert error_for_reason("INTERNAL") is InternalError


def test_a_class_of_the_user_has_the_row_of_its_ancestor():
    class QuotaError(RateLimitedError):
        pass

    class AppError(A2AError):
        pass

    assert error_row(QuotaError).http == 429
    assert error_row(AppError()).error is InternalError
    assert AppError().message == "Internal error"


def test_the_statuses_of_1_0_0_can_be_chosen():
    row = error_row(TaskNotCancelableError)
    assert (row.http_status(), row.http_status("1.0.0"), row.http_status("1.0.1")) == (400, 409, 400)
    row = error_row(UnsupportedOperationError)
    assert row.grpc_status("1.0.0") is GrpcStatus.UNIMPLEMENTED
    assert row.grpc_status() is GrpcStatus.FAILED_PRECONDITION
    assert error_row(TaskNotFoundError).http_status("1.0.0") == 404


def test_the_default_message_is_the_one_of_the_class():
    assert TaskNotFoundError().message == str(TaskNotFoundError()) == "Task not found"
    assert TaskNotFoundError("No task t1").message == "No task t1"
    assert TaskNotFoundError("").message == ""


def test_metadata_is_copied_and_maps_strings_to_strings():
    given = {"taskId": "t1"}
    error = TaskNotFoundError(metadata=given)
    given["taskId"] = "t2"
    assert error.metadata == {"taskId": "t1"}
    assert TaskNotFoundError().metadata == {}
    with pytest.raises(TypeError, match="strings to strings"):
        TaskNotFoundError(metadata={"n": 1})


def test_violations_are_kept_as_a_tuple_and_shown():
    faults = [FieldViolation(f"parts[{n}]", "is wrong") for n in range(5)]
    error = InvalidParamsError(violations=iter(faults))
    assert error.violations == tuple(faults)
    assert error.message == "Invalid parameters"
    assert str(error) == ("Invalid parameters (parts[0]: is wrong; parts[1]: is wrong; parts[2]: is wrong; and 2 more)")
    assert str(InvalidParamsError(violations=[FieldViolation("", "no object")])) == "Invalid parameters (no object)"
    assert str(InvalidParamsError("Bad token")) == "Bad token"


def test_an_invalid_request_lists_its_faults_too():
    error = InvalidRequestError(violations=[FieldViolation("jsonrpc", 'Must be "2.0"')])
    assert error.violations[0].field == "jsonrpc"
    assert InvalidRequestError().violations == ()


def test_refusals_say_when_to_come_back():
    assert RateLimitedError(retry_after=2.5).retry_after == 2.5
    assert UnavailableError().retry_after is None


def pickled(error):
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize(
    "error",
    [
        TaskNotFoundError("No task", metadata={"taskId": "t1"}),
        InvalidParamsError("Wrong", metadata={"a": "b"}, violations=[FieldViolation("id", "is required")]),
        RateLimitedError(retry_after=3.0),
        TaskConflictError("Sequence 4 is taken", task_id="t1"),
        TaskTerminalError(task_id="t1"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_copying_and_pickling(error, duplicate):
    twin = duplicate(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


def test_store_errors_are_no_a2a_errors():
    for cls in (TaskSerializationError, TaskPersistenceError, TaskConflictError):
        error = cls("It failed", task_id="t1")
        assert isinstance(error, StoreError)
        assert not isinstance(error, A2AError)
        assert error.task_id == "t1"
        assert str(error) == "It failed (task t1)"
    assert str(StoreError("It failed")) == "It failed"


def test_a_terminal_task_error_says_what_to_do_instead():
    assert issubclass(TaskTerminalError, RuntimeError)
    assert not issubclass(TaskTerminalError, A2AError)
    assert "new task" in str(TaskTerminalError())
    assert str(TaskTerminalError(task_id="t1")).startswith("Task t1 ")
    assert str(TaskTerminalError("No more")) == "No more"


def test_json_parse_errors_have_a_safe_text():
    assert JSONParseError().message == "Invalid JSON payload"
