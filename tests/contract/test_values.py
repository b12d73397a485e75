"""The values against the protocol's own data: model, errors, vectors, examples and schema.

With ``A2A_PROTOCOL_DIR`` set to a folder that holds the upstream files, the model is compared with the proto, too.
"""

import json
import os
import re
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from tests.strategies import VALUE_CLASSES, values
from trio_a2a import errors, types
from trio_a2a.errors import ERROR_DOMAIN, ERROR_TABLE, InvalidParamsError, error_row
from trio_a2a.types import Role, TaskState, TaskStatus
from trio_a2a.types.schema import Kind, Shape, describe
from trio_a2a.wire import from_dict, from_json, to_dict, to_json

DATA = Path(__file__).parent / "data"


def load(name):
    return json.loads((DATA / name).read_text(encoding="utf-8"))


MODEL = load("data/model.json")
ERRORS = load("data/errors.json")["errors"]
EMIT_SCHEMA = load("schema/a2a-1.0-emit.schema.json")

VALIDATORS = {name: Draft202012Validator({**EMIT_SCHEMA, "$ref": f"#/$defs/{name}"}) for name in EMIT_SCHEMA["$defs"]}


def assert_emittable(members, name):
    faults = [f"{list(fault.absolute_path)}: {fault.message}" for fault in VALIDATORS[name].iter_errors(members)]
    assert not faults


# --- The model ------------------------------------------------------------------------------------------------------

PROTO_TYPES = {
    Kind.STRING: "string",
    Kind.BOOL: "bool",
    Kind.INT32: "int32",
    Kind.BYTES: "bytes",
    Kind.TIMESTAMP: "google.protobuf.Timestamp",
    Kind.STRUCT: "google.protobuf.Struct",
    Kind.VALUE: "google.protobuf.Value",
}
CARDINALITIES = {Shape.SINGULAR: "singular", Shape.REPEATED: "repeated", Shape.MAP: "map"}
DEFAULTS = {"string": "", "bool": False, "int32": 0, "TaskState": TaskState.UNSPECIFIED}


def test_there_is_one_class_for_each_message():
    assert {cls.__name__ for cls in VALUE_CLASSES} == set(MODEL["messages"])


@pytest.mark.requirement("C-001", "C-013")
@pytest.mark.parametrize("name", MODEL["messages"])
def test_the_fields_are_those_of_the_model(name):
    ours = [
        {
            "proto": field.name,
            "json": field.json_name,
            "type": PROTO_TYPES.get(field.kind, field.type.__name__),
            "cardinality": CARDINALITIES[field.shape],
            "required": field.required,
            "hasPresence": field.presence,
            "oneof": field.name in getattr(types, name)._oneof,
        }
        for field in describe(getattr(types, name))
    ]
    theirs = [
        {key: field[key] for key in ours[0] if key != "oneof"} | {"oneof": field["oneof"] is not None}
        for field in MODEL["messages"][name]["fields"]
    ]
    assert ours == theirs


@pytest.mark.parametrize("name", MODEL["messages"])
def test_the_defaults_are_those_of_the_proto(name):
    for field, ours in zip(MODEL["messages"][name]["fields"], describe(getattr(types, name)), strict=True):
        if field["required"]:
            assert ours.default is attrs.NOTHING
        elif field["type"] == "google.protobuf.Value":
            assert ours.default is types.UNSET
        elif field["hasPresence"]:
            assert ours.default is None
        elif field["cardinality"] == "repeated":
            assert ours.default == ()
        elif field["cardinality"] == "map":
            assert ours.default == {}
        else:
            assert ours.default == DEFAULTS[field["type"]]
            assert type(ours.default) is type(DEFAULTS[field["type"]])


@pytest.mark.parametrize("name", MODEL["messages"])
def test_the_oneofs_are_those_of_the_model(name):
    oneofs = MODEL["messages"][name]["oneofs"]
    cls = getattr(types, name)
    json_names = {field.name: field.json_name for field in describe(cls)}
    assert [json_names[member] for member in cls._oneof] == [member for group in oneofs.values() for member in group]


@pytest.mark.requirement("C-002")
@pytest.mark.parametrize(("name", "enum"), [("TaskState", TaskState), ("Role", Role)])
def test_the_enums_are_those_of_the_model(name, enum):
    assert set(MODEL["enums"]) == {"TaskState", "Role"}
    assert [(member.value, member.number) for member in enum] == [
        (value["name"], value["number"]) for value in MODEL["enums"][name]["values"]
    ]


def test_the_classes_of_states_are_those_of_the_model():
    states = load("data/task_states.json")
    assert [state.value for state in TaskState if state.is_final] == sorted(
        states["terminal"], key=lambda name: TaskState(name).number
    )
    assert [state.value for state in TaskState if state.is_interrupted] == states["interrupted"]


# --- The errors -----------------------------------------------------------------------------------------------------

OUR_NAMES = {
    "Unauthenticated": "AuthenticationError",
    "PermissionDenied": "AuthorizationError",
    "RateLimited": "RateLimitedError",
    "Unavailable": "UnavailableError",
}


def test_there_is_one_class_for_each_error():
    assert [row.error.__name__ for row in ERROR_TABLE] == [OUR_NAMES.get(e["name"], e["name"]) for e in ERRORS]
    assert load("data/errors.json")["domain"] == ERROR_DOMAIN


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error["name"])
def test_the_rows_are_those_of_the_contract(error):
    row = error_row(getattr(errors, OUR_NAMES.get(error["name"], error["name"])))
    assert row.code == error["jsonrpcCode"]
    assert row.http_status() == error["httpStatus"]
    assert (row.grpc_status().name, row.grpc_status().value) == (error["grpcStatus"], error["grpcCode"])
    assert row.reason == (error["reason"] or error.get("conventionalReason"))
    if error["suggestedMessage"] is not None:
        assert row.message == error["suggestedMessage"]
    older = error.get("v1_0_0", error)
    assert row.http_status("1.0.0") == older["httpStatus"]
    assert row.grpc_status("1.0.0").name == older["grpcStatus"]


# --- Vectors --------------------------------------------------------------------------------------------------------


def case_name(case):
    return f"{case.get('type', 'Timestamp')}-{json.dumps(case['input'])}"


@pytest.mark.parametrize("case", load("vectors/protojson.json")["cases"], ids=case_name)
def test_protojson_vectors(case):
    cls = getattr(types, case["type"])
    text = json.dumps(case["input"])
    if case["accept"]:
        value = from_json(text, cls)
        assert to_dict(value) == case["emit"]
        assert json.loads(to_json(value)) == case["emit"]
        assert from_dict(case["emit"], cls) == value
    else:
        with pytest.raises(InvalidParamsError) as caught:
            from_json(text, cls)
        assert caught.value.violations


@pytest.mark.requirement("C-006", "C-007")
@pytest.mark.parametrize("case", load("vectors/timestamps.json")["cases"], ids=case_name)
def test_timestamp_vectors(case):
    members = {"state": "TASK_STATE_WORKING", "timestamp": case["input"]}
    if case["accept"]:
        assert to_dict(from_dict(members, TaskStatus))["timestamp"] == case["emit"]
    else:
        with pytest.raises(InvalidParamsError) as caught:
            from_dict(members, TaskStatus)
        assert [violation.field for violation in caught.value.violations] == ["timestamp"]


# --- Examples -------------------------------------------------------------------------------------------------------


def typed_objects():
    for path in sorted((DATA / "examples").glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        for pointer, name in document["types"].items():
            for place, members in resolve(document, pointer):
                yield pytest.param(name, members, id=f"{path.stem}{place}")


def resolve(document, pointer):
    nodes = [("", document)]
    for token in pointer.strip("/").split("/"):
        nodes = [
            (f"{place}/{key}", child)
            for place, node in nodes
            for key, child in (
                enumerate(node)
                if token == "*"
                else [(token, node[int(token)] if isinstance(node, list) else node[token])]
            )
        ]
    return nodes


EXAMPLES = list(typed_objects())


def without_defaults(node):
    """The sample cards spell one default out: ``"required": false`` of an extension."""
    if isinstance(node, list):
        return [without_defaults(item) for item in node]
    if isinstance(node, dict):
        return {k: without_defaults(v) for k, v in node.items() if (k, v) != ("required", False)}
    return node


def test_the_examples_are_there():
    assert len(EXAMPLES) > 80


@pytest.mark.parametrize(("name", "members"), EXAMPLES)
def test_examples_are_read_and_written_unchanged(name, members):
    cls = getattr(types, name)
    for strict in (True, False):
        value = from_json(json.dumps(members), cls, strict=strict)
        assert to_dict(value) == without_defaults(members)
    assert_emittable(to_dict(value), name)


# --- Schema ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C-008")
@settings(deadline=None, max_examples=400, derandomize=True)
@given(st.sampled_from(VALUE_CLASSES).flatmap(values))
def test_what_is_written_is_valid_by_the_schema(value):
    assert_emittable(json.loads(to_json(value)), type(value).__name__)


@pytest.mark.requirement("C-001", "C-002", "C-008")
@pytest.mark.parametrize("name", MODEL["messages"])
def test_every_type_survives_the_round_trip_and_the_schema(name):
    cls = getattr(types, name)

    @settings(deadline=None, max_examples=12, derandomize=True, database=None)
    @given(values(cls))
    def check(value):
        members = to_dict(value)
        assert from_dict(members, cls) == value
        assert from_json(to_json(value), cls) == value
        assert_emittable(members, name)

    check()


# --- Upstream -------------------------------------------------------------------------------------------------------


def test_the_model_is_that_of_the_upstream_proto():
    folder = os.environ.get("A2A_PROTOCOL_DIR")
    if folder is None:
        pytest.skip("A2A_PROTOCOL_DIR, the folder of the upstream files, is not set")
    text = re.sub(r"//[^\n]*", "", (Path(folder) / "a2a.proto").read_text(encoding="utf-8"))
    messages = dict(re.findall(r"^message (\w+) \{(.*?)^\}", text, re.DOTALL | re.MULTILINE))
    assert set(messages) == set(MODEL["messages"])
    for name, body in messages.items():
        proto = re.findall(r"^\s*(?:repeated |optional )?(?:map<[^>]+>|[\w.]+) (\w+) = \d+", body, re.MULTILINE)
        assert sorted(proto) == sorted(field.name for field in describe(getattr(types, name)))
