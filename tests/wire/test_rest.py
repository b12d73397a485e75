"""HTTP+JSON: paths and query strings to operations, media types, and the bodies of errors."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings, strategies as st

from tests.strategies import texts
from trio_a2a import errors, types
from trio_a2a.errors import (
    ERROR_TABLE,
    AuthenticationError,
    ContentTypeNotSupportedError,
    FieldViolation,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    TaskNotFoundError,
)
from trio_a2a.types import (
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from trio_a2a.wire import from_dict
from trio_a2a.wire.faults import error_details
from trio_a2a.wire.rest import A2A_JSON, JSON, STATUS_NAMES, answer_type, error_body, is_json_type, match, query_members

DATA = Path(__file__).parents[1] / "contract" / "data" / "data"
OPERATIONS = json.loads((DATA / "operations.json").read_text(encoding="utf-8"))

# Ids are opaque: all of these are one segment of a path once they are percent-encoded.
ODD_IDS = [
    "task-1",
    "urn:uuid:0b9a",
    "a/b",
    "/",
    "..",
    "x:cancel",
    "x:subscribe",
    ":",
    "100%",
    "%3A",
    "a b+c",
    "?historyLength=1#x",
    "tasks",
    "pushNotificationConfigs",
    "message:send",
    "extendedAgentCard",
    "größe⛴\U0001f600",
    "\x00\n",
    "x" * 3000,
]


def as_tuple(found):
    return None if found is None else (dict(found.operations), dict(found.members), found.tenant)


def encoded(text):
    return quote(text, safe="")


# --- Routes ---------------------------------------------------------------------------------------------------------


def filled(path, values):
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", encoded(value))
    return path


def path_variables(operation):
    return [part.strip("{}").split("}")[0] for part in operation["rest"]["path"].split("/") if part.startswith("{")]


@pytest.mark.requirement("C-177", "C-251")
@pytest.mark.parametrize("tenant", ["", "acme", "a/b ü", "tasks/x", "message:send"], ids=repr)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation["operation"])
def test_every_operation_has_its_route_with_and_without_a_tenant(operation, tenant):
    """C-251."""
    rest = operation["rest"]
    values = {name: f"{name}-1" for name in path_variables(operation)}
    path = filled(rest["tenantPath"] if tenant else rest["path"], values | {"tenant": tenant})
    found = match(path)
    for verb in (rest["verb"], *(other.split()[0] for other in rest["alsoAccept"])):
        assert found.operations[verb] == operation["operation"]
    assert found.members == values
    assert found.tenant == tenant


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation["operation"])
def test_the_members_of_the_path_are_members_of_the_request(operation):
    """C-255."""
    names = path_variables(operation)
    cls = getattr(types, operation["input"])
    for id_ in ODD_IDS:
        found = match(filled(operation["rest"]["path"], dict.fromkeys(names, id_)))
        assert operation["operation"] in found.operations.values()
        assert found.members == dict.fromkeys(names, id_)
        if operation["rest"]["body"] is None:
            assert from_dict(found.members, cls) == from_dict(dict.fromkeys(names, id_), cls)


def test_the_routes_are_those_of_the_operations_and_no_more():
    paths = {filled(operation["rest"]["path"], {"id": "i", "taskId": "t"}) for operation in OPERATIONS}
    offered = {name for path in paths for name in match(path).operations.values()}
    assert offered == {operation["operation"] for operation in OPERATIONS}


@pytest.mark.requirement("C-262")
def test_a_subscription_is_by_get_or_post():
    """Ambiguity A-01."""
    expected = {"GET": "SubscribeToTask", "POST": "SubscribeToTask"}
    assert as_tuple(match("/tasks/t:subscribe")) == (expected, {"id": "t"}, "")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/tasks/tasks", ({"GET": "GetTask"}, {"id": "tasks"}, "")),
        ("/tasks/extendedAgentCard", ({"GET": "GetTask"}, {"id": "extendedAgentCard"}, "")),
        ("/tasks/tasks:cancel", ({"POST": "CancelTask"}, {"id": "tasks"}, "")),
        ("/tasks/tasks/x", ({"GET": "GetTask"}, {"id": "x"}, "tasks")),
        ("/tasks/message:send", ({"POST": "SendMessage"}, {}, "tasks")),
        ("/message:send/tasks", ({"GET": "ListTasks"}, {}, "message:send")),
        ("/extendedAgentCard/tasks/x", ({"GET": "GetTask"}, {"id": "x"}, "extendedAgentCard")),
        ("/v1/tasks/x", ({"GET": "GetTask"}, {"id": "x"}, "v1")),
    ],
)
def test_a_path_without_a_tenant_wins(path, expected):
    assert as_tuple(match(path)) == expected


def test_a_task_named_like_a_tenant_keeps_its_configs():
    found = match("/tasks/tasks/pushNotificationConfigs/tasks")
    assert as_tuple(found)[1:] == ({"taskId": "tasks", "id": "tasks"}, "")


@pytest.mark.parametrize(
    ("path", "operation", "id_"),
    [
        ("/tasks/a:b:cancel", "CancelTask", "a:b"),
        ("/tasks/a%3Ab:cancel", "CancelTask", "a:b"),
        ("/tasks/a%3acancel", "GetTask", "a:cancel"),
        ("/tasks/a%2Fb", "GetTask", "a/b"),
        ("/tasks/a%2fb:cancel", "CancelTask", "a/b"),
        ("/tasks/a%3Acancel:cancel", "CancelTask", "a:cancel"),
        ("/tasks/%3A", "GetTask", ":"),
        ("/tasks/%253A", "GetTask", "%3A"),
        ("/tasks/a+b", "GetTask", "a+b"),
        ("/tasks/a%20b", "GetTask", "a b"),
        ("/tasks/%", "GetTask", "%"),
        ("/tasks/%zz%4", "GetTask", "%zz%4"),
        ("/tasks/%FF", "GetTask", "\ufffd"),
        ("/tasks/%ED%A0%80", "GetTask", "\ufffd\ufffd\ufffd"),
        ("/tasks/a;b=c", "GetTask", "a;b=c"),
        ("/tasks/:cancel:cancel", "CancelTask", ":cancel"),
    ],
)
def test_the_verb_is_behind_the_last_colon_and_the_id_is_decoded_once(path, operation, id_):
    found = match(path)
    assert set(found.operations.values()) == {operation}
    assert found.members == {"id": id_}


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "//",
        "/x",
        "/x/y",
        "/x/",
        "/tasks/",
        "//tasks",
        "/tasks//",
        "//tasks/x",
        "/acme//tasks",
        "/acme/tasks/",
        "/a/b/tasks",
        "/Tasks",
        "/TASKS/x",
        "/task",
        "/message",
        "/message:",
        "/message:Send",
        "/message:delete",
        "/message%3Asend",
        "/message:send/",
        "/message:send/x",
        "/extendedAgentCard/",
        "/extendedAgentCard/x",
        "/extendedagentcard",
        "/tasks/x:",
        "/tasks/x:delete",
        "/tasks/x:Cancel",
        "/tasks/x:cancel/",
        "/tasks/:cancel",
        "/tasks/:subscribe",
        "/tasks/:",
        "/tasks/x/",
        "/tasks/x/y",
        "/tasks/x/pushNotificationConfig",
        "/tasks/x/pushNotificationConfigs/",
        "/tasks//pushNotificationConfigs",
        "/tasks//pushNotificationConfigs/c",
        "/tasks/x/pushNotificationConfigs/c/",
        "/tasks/x/pushNotificationConfigs/c/d",
        "/tasks%2Fx",
        "/.well-known/agent-card.json",
        "/" + "t" * 257 + "/tasks",
        "/" * 5000,
        "/a" * 5000,
    ],
    ids=lambda path: path[:40],
)
def test_every_other_path_is_unknown(path):
    assert match(path) is None


def test_a_tenant_has_at_most_256_characters():
    assert match(f"/{'t' * 256}/tasks").tenant == "t" * 256
    assert match(f"/{encoded('ü' * 256)}/tasks").tenant == "ü" * 256
    assert match(f"/{encoded('ü' * 257)}/tasks") is None


@settings(deadline=None, derandomize=True, database=None)
@given(texts.filter(bool), texts.filter(bool), texts)
def test_ids_and_tenants_survive_the_path(task_id, config_id, tenant):
    prefix = f"/{encoded(tenant)}" if tenant else ""
    found = match(f"{prefix}/tasks/{encoded(task_id)}/pushNotificationConfigs/{encoded(config_id)}")
    assert (found.members, found.tenant) == ({"taskId": task_id, "id": config_id}, tenant)
    assert match(f"{prefix}/tasks/{encoded(task_id)}:cancel").members == {"id": task_id}


@settings(deadline=None, derandomize=True, database=None)
@given(st.text("/:%aA3tasks;?\x00é", max_size=30))
def test_no_path_is_too_odd(path):
    found = match(path)
    assert found is None or found.operations


# --- Query strings --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C-254", "C-256")
def test_every_parameter_of_a_list_is_read_as_its_type():
    """C-254, C-256."""
    query = {
        "tenant": "acme",
        "contextId": "c",
        "status": "TASK_STATE_WORKING",
        "pageSize": "10",
        "pageToken": "t",
        "historyLength": "0",
        "statusTimestampAfter": "2026-03-14T09:02:01.900Z",
        "includeArtifacts": "true",
    }
    request = from_dict(query_members(query, ListTasksRequest), ListTasksRequest)
    assert (request.tenant, request.context_id, request.page_token) == ("acme", "c", "t")
    assert (request.status, request.page_size, request.history_length) == (TaskState.WORKING, 10, 0)
    assert request.status_timestamp_after.isoformat() == "2026-03-14T09:02:01.900000+00:00"
    assert request.include_artifacts is True


def test_absent_parameters_stay_unset():
    assert query_members({}, ListTasksRequest) == {}
    request = from_dict(query_members({}, ListTasksRequest), ListTasksRequest)
    assert (request.page_size, request.history_length, request.include_artifacts) == (None, None, None)


def test_a_false_boolean_is_set():
    members = query_members({"includeArtifacts": "false"}, ListTasksRequest)
    assert from_dict(members, ListTasksRequest).include_artifacts is False


@pytest.mark.requirement("C-256")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("includeArtifacts", "True"),
        ("includeArtifacts", "1"),
        ("includeArtifacts", "yes"),
        ("includeArtifacts", ""),
        ("pageSize", "1.5"),
        ("pageSize", "ten"),
        ("pageSize", ""),
        ("pageSize", " 1"),
        ("pageSize", "0x10"),
        ("pageSize", "1_0"),
        ("pageSize", "٣"),
        ("pageSize", "true"),
        ("pageSize", "4294967296"),
        ("pageSize", "9" * 5000),
        ("historyLength", "-1"),
        ("historyLength", "NaN"),
        ("status", "working"),
        ("status", "2"),
        ("status", ""),
        ("statusTimestampAfter", "2026-03-14"),
        ("statusTimestampAfter", "1773478921900"),
        ("statusTimestampAfter", ""),
    ],
    ids=lambda value: value[:30],
)
def test_a_parameter_of_the_wrong_type_is_refused_by_its_name(name, text):
    with pytest.raises(InvalidParamsError) as caught:
        from_dict(query_members({name: text}, ListTasksRequest), ListTasksRequest)
    assert [violation.field for violation in caught.value.violations] == [name]


def test_an_empty_text_is_an_unset_one():
    members = query_members({"contextId": "", "pageToken": "", "tenant": ""}, ListTasksRequest)
    assert from_dict(members, ListTasksRequest) == ListTasksRequest()


def test_parameters_that_the_request_does_not_have_are_ignored():
    query = {"A2A-Version": "1.0", "history_length": "1", "HistoryLength": "1", "pageSize": "1", "x": "y"}
    assert query_members(query | {"historyLength": "2"}, GetTaskRequest) == {"historyLength": "2"}
    assert query_members(query, SubscribeToTaskRequest) == {}


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o["rest"]["query"]], ids=lambda o: o["operation"])
def test_every_parameter_of_the_contract_is_read(operation):
    cls = getattr(types, operation["input"])
    query = dict.fromkeys(operation["rest"]["query"], "x")
    assert query_members(query, cls) == query


def test_numbers_of_the_other_operations_are_read_too():
    members = query_members({"pageSize": "7", "taskId": "t"}, ListTaskPushNotificationConfigsRequest)
    assert from_dict(members, ListTaskPushNotificationConfigsRequest).page_size == 7
    members = query_members({"tenant": "a"}, GetTaskPushNotificationConfigRequest) | {"taskId": "t", "id": "c"}
    assert from_dict(members, GetTaskPushNotificationConfigRequest).tenant == "a"


# --- Media types ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/a2a+json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        " application/json ",
        "application/a2a+json; version=1.0",
        "application/vnd.example.v1+json",
        "application/problem+json",
        "application/a+b+json",
    ],
)
def test_json_is_json_by_its_name_or_its_suffix(content_type):
    assert is_json_type(content_type)


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        ";",
        "json",
        "text/json",
        "text/plain",
        "application/jsonp",
        "application/json5",
        "application/json, text/plain",
        "application/+json",
        "application/a2a+json+x",
        "application/x json",
        "application/x/y+json",
        "application/é+json",
        "application/*+json",
        "multipart/form-data; boundary=application/json",
        "application/x-www-form-urlencoded",
        "application/json\x00",
        "application/" + "a+" * 20_000,
    ],
    ids=lambda text: repr(text)[:40],
)
def test_everything_else_is_no_json(content_type):
    assert not is_json_type(content_type)


@pytest.mark.parametrize(
    ("content_type", "accept", "answer"),
    [
        (None, None, JSON),
        (None, "", JSON),
        (JSON, None, JSON),
        (JSON, "*/*", JSON),
        (JSON, "application/*", JSON),
        (JSON, JSON, JSON),
        (JSON, "text/event-stream", JSON),
        ("application/problem+json", "application/problem+json", JSON),
        (A2A_JSON, None, A2A_JSON),
        (A2A_JSON, JSON, A2A_JSON),
        ("Application/A2A+JSON; charset=utf-8", "*/*", A2A_JSON),
        (JSON, A2A_JSON, A2A_JSON),
        (None, "application/json, Application/A2A+json;q=0.5", A2A_JSON),
        (None, f"{A2A_JSON}, {JSON}", A2A_JSON),
        (None, f"text/event-stream,{A2A_JSON} ; q=1", A2A_JSON),
        (None, f"{A2A_JSON};q=0.001", A2A_JSON),
        (None, f"{A2A_JSON};q=0, {JSON}", JSON),
        (None, f"{A2A_JSON}; Q=0.000", JSON),
        (None, f"{JSON};q=0, {A2A_JSON}", A2A_JSON),
        (None, "application/a2a+jsonp", JSON),
        (None, ",,;q=1,", JSON),
    ],
)
def test_the_answer_has_the_type_of_the_specification_where_it_was_asked_for(content_type, accept, answer):
    """Ambiguity A-03."""
    assert answer_type(content_type, accept) == answer


# --- Errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["1.0.0", "1.0.1"])
@pytest.mark.parametrize("row", ERROR_TABLE, ids=lambda row: row.error.__name__)
def test_every_error_has_the_status_of_its_table(row, table):
    """C-221, C-259."""
    (error,) = json.loads(error_body(row.error(), table)).values()
    assert error["code"] == row.http_status(table)
    assert error["status"] == row.grpc_status(table).name
    assert error["message"] == row.message
    if row.reason is None:
        assert "details" not in error
    else:
        (info,) = error["details"]
        assert info["reason"] == row.reason
        assert info["domain"] == "a2a-protocol.org"


@pytest.mark.parametrize(
    ("error", "older", "current"),
    [
        ("TaskNotCancelableError", (409, "FAILED_PRECONDITION"), (400, "FAILED_PRECONDITION")),
        ("PushNotificationNotSupportedError", (400, "UNIMPLEMENTED"), (400, "FAILED_PRECONDITION")),
        ("UnsupportedOperationError", (400, "UNIMPLEMENTED"), (400, "FAILED_PRECONDITION")),
        ("ContentTypeNotSupportedError", (415, "INVALID_ARGUMENT"), (400, "INVALID_ARGUMENT")),
        ("InvalidAgentResponseError", (502, "INTERNAL"), (500, "INTERNAL")),
        ("VersionNotSupportedError", (400, "UNIMPLEMENTED"), (400, "FAILED_PRECONDITION")),
    ],
)
def test_six_errors_moved_between_the_tables(error, older, current):
    for table, expected in (("1.0.0", older), ("1.0.1", current)):
        body = json.loads(error_body(getattr(errors, error)(), table))["error"]
        assert (body["code"], body["status"]) == expected


def test_the_newer_table_is_the_default():
    assert error_body(ContentTypeNotSupportedError()) == error_body(ContentTypeNotSupportedError(), "1.0.1")


def test_the_body_has_the_details_of_the_error():
    error = InvalidParamsError(violations=[FieldViolation("message.parts[0]", "Must not be empty")])
    body = json.loads(error_body(error))["error"]
    assert body["details"] == error_details(error)
    assert body["details"][1]["fieldViolations"] == [{"field": "message.parts[0]", "description": "Must not be empty"}]
    body = json.loads(error_body(TaskNotFoundError("Gone: ⛴", metadata={"taskId": "t"})))["error"]
    assert body["message"] == "Gone: ⛴"
    assert body["details"][0]["metadata"] == {"taskId": "t"}


@pytest.mark.parametrize("status", STATUS_NAMES)
def test_a_status_of_http_alone_may_be_given(status):
    for table in ("1.0.0", "1.0.1"):
        body = json.loads(error_body(InvalidRequestError("Too much"), table, http_status=status))["error"]
        assert (body["code"], body["status"], body["message"]) == (status, STATUS_NAMES[status], "Too much")
        assert body["details"][0]["reason"] == "INVALID_REQUEST"


def test_an_unknown_route_and_a_wrong_verb_have_the_same_body_but_for_the_status():
    unknown = json.loads(error_body(MethodNotFoundError(), http_status=404))["error"]
    wrong = json.loads(error_body(MethodNotFoundError(), http_status=405))["error"]
    assert unknown == json.loads(error_body(MethodNotFoundError()))["error"]
    assert wrong == unknown | {"code": 405, "status": "UNIMPLEMENTED"}


def test_an_error_of_a_program_s_own_is_that_of_its_nearest_ancestor():
    class ExpiredError(AuthenticationError):
        """A token that is too old."""

    body = json.loads(error_body(ExpiredError("Log in again")))["error"]
    assert body == {"code": 401, "status": "UNAUTHENTICATED", "message": "Log in again"}
