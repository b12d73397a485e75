"""Faults with their paths, and what a tolerant reading forgives."""

import json

import pytest

from trio_a2a.errors import A2AError, InvalidParamsError
from trio_a2a.types import (
    AgentCard,
    AgentSkill,
    Artifact,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    OAuth2SecurityScheme,
    Part,
    Role,
    SecurityRequirement,
    SecurityScheme,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    StringList,
    Task,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trio_a2a.wire import UnknownMemberError, from_dict, from_json, to_dict
from trio_a2a.wire.explain import MAX_VIOLATIONS

CARD = {
    "name": "A",
    "description": "",
    "version": "1",
    "supportedInterfaces": [{"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "", "tags": ["t"]}],
}


def faults(members, cls, **options):
    with pytest.raises(InvalidParamsError) as caught:
        from_dict(members, cls, **options)
    return {violation.field: violation.description for violation in caught.value.violations}


def test_every_fault_is_listed_with_its_wire_path():
    members = {
        "message": {
            "messageId": 7,
            "role": "user",
            "parts": [{"text": "a"}, {"text": 1, "mediaType": []}, None, {}, {"url": "u", "raw": "AA=="}],
            "reference_task_ids": ["t", 5],
            "metadata": {"a": 1},
        },
        "configuration": {"historyLength": True, "taskPushNotificationConfig": {"authentication": {}}},
        "tenant": {},
    }
    assert faults(members, SendMessageRequest) == {
        "message.messageId": "Must be a string, got a number",
        "message.role": "Unknown role; must be one of ROLE_USER, ROLE_AGENT",
        "message.parts[1].text": "Must be a string, got a number",
        "message.parts[1].mediaType": "Must be a string, got an array",
        "message.parts[2]": "Must not be null",
        "message.parts[3]": "Must have exactly one of text, raw, url, data; got none",
        "message.parts[4]": "Must have exactly one of text, raw, url, data; got raw and url",
        "message.referenceTaskIds[1]": "Must be a string, got a number",
        "configuration.historyLength": "Must be a whole number",
        "configuration.taskPushNotificationConfig.url": "Is required",
        "configuration.taskPushNotificationConfig.authentication.scheme": "Is required",
        "tenant": "Must be a string, got an object",
    }


def test_an_unknown_state_is_named_as_such():
    (text,) = faults({"state": "completed"}, TaskStatus).values()
    assert text.startswith("Unknown task state; must be one of TASK_STATE_SUBMITTED, TASK_STATE_WORKING, ")


def test_faults_have_no_cause_that_could_leak():
    with pytest.raises(InvalidParamsError) as caught:
        from_json(b'{"messageId":7}', Message)
    assert caught.value.__cause__ is None
    assert "cattrs" not in str(caught.value)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, {"messageId": "Is required", "role": "Is required", "parts": "Is required"}),
        (
            {"messageId": None, "role": None, "parts": None},
            {"messageId": "Is required", "role": "Is required", "parts": "Is required"},
        ),
        (
            {"messageId": "", "role": 0, "parts": []},
            {
                "messageId": "Must not be empty",
                "role": "Must not be unspecified",
                "parts": "At least one part is required",
            },
        ),
        (
            {"messageId": "m", "role": True, "parts": "abc"},
            {"role": "Must be the name of a Role, got a boolean", "parts": "Must be an array, got a string"},
        ),
        ({"messageId": "m", "role": 1, "parts": {"text": "x"}}, {"parts": "Must be an array, got an object"}),
        (
            {"messageId": "m", "role": 1, "parts": [{"text": "a"}], "metadata": "x"},
            {"metadata": "Must be an object, got a string"},
        ),
        (
            {"messageId": "m", "role": 1, "parts": [{"text": "a"}], "extensions": {}},
            {"extensions": "Must be an array, got an object"},
        ),
    ],
)
def test_required_members_must_be_there_and_set(members, expected):
    assert faults(members, Message) == expected


def test_maps_are_checked_entry_by_entry():
    members = {**CARD, "securitySchemes": {"a": None, "b": 5, "c": {}, "d": {"mtlsSecurityScheme": {}}}}
    found = faults(members, AgentCard)
    assert found["securitySchemes.a"] == "Must not be null"
    assert found["securitySchemes.b"] == "Must be an object, got a number"
    assert "got none" in found["securitySchemes.c"]
    assert len(found) == 3
    assert faults({**CARD, "securitySchemes": []}, AgentCard) == {"securitySchemes": "Must be an object, got an array"}
    assert faults({"schemes": {1: {}}}, SecurityRequirement) == {"schemes": "Must have strings as keys"}


def test_scopes_may_be_empty_but_not_missing():
    flow = {"flows": {"clientCredentials": {"tokenUrl": "u", "scopes": {}}}}
    assert from_dict(flow, OAuth2SecurityScheme).flows.client_credentials.scopes == {}
    del flow["flows"]["clientCredentials"]["scopes"]
    assert faults(flow, OAuth2SecurityScheme) == {"flows.clientCredentials.scopes": "Is required"}
    assert from_dict(flow, OAuth2SecurityScheme, strict=False).flows.client_credentials.scopes == {}


def test_only_parts_and_interfaces_must_have_elements():
    empty = {"skills": [], "defaultInputModes": [], "defaultOutputModes": []}
    assert from_dict({**CARD, **empty}, AgentCard).skills == ()
    assert faults({**CARD, "supportedInterfaces": []}, AgentCard) == {
        "supportedInterfaces": "At least one interface is required"
    }
    assert faults({"artifactId": "a", "parts": []}, Artifact) == {"parts": "At least one part is required"}
    assert faults({"artifactId": "a", "parts": []}, Artifact, strict=False) != {}
    assert from_dict({"id": "s", "name": "S", "description": "", "tags": []}, AgentSkill).tags == ()


def test_a_large_wrong_document_does_not_make_a_huge_answer():
    found = faults({"messageId": "m", "role": 1, "parts": [None] * 50_000}, Message)
    assert len(found) == MAX_VIOLATIONS


def test_faults_inside_json_content_are_placed_too():
    assert faults({"data": {"a": [1, {"b": float("nan")}]}}, Part) == {"data.a[1].b": "Must be a finite number"}


# --- Tolerant -------------------------------------------------------------------------------------------------------


def test_an_unknown_enum_name_or_number_becomes_unspecified():
    for state in ("TASK_STATE_PAUSED", 42, "TASK_STATE_UNSPECIFIED", 0):
        task = from_dict({"id": "t", "status": {"state": state}}, Task, strict=False)
        assert task.status.state is TaskState.UNSPECIFIED
    message = from_dict({"messageId": "m", "role": "ROLE_TOOL", "parts": [{"text": "a"}]}, Message, strict=False)
    assert message.role is Role.UNSPECIFIED


def test_an_enum_of_the_wrong_type_stays_a_fault():
    assert faults({"id": "t", "status": {"state": []}}, Task, strict=False) == {
        "status.state": "Must be the name of a TaskState, got an array"
    }


def test_an_unknown_kind_of_part_is_left_out():
    members = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"video": "x"}, {"text": "a"}, {}]}
    assert from_dict(members, Message, strict=False).parts == (Part(text="a"),)
    members["parts"] = [{"video": "x"}]
    assert from_dict(members, Message, strict=False).parts == ()
    assert faults(members, Message).keys() == {"parts[0]"}


def test_two_members_of_a_oneof_stay_a_fault():
    assert faults({"text": "a", "url": "b"}, Part, strict=False) == {
        "": "Must have exactly one of text, raw, url, data; got text and url"
    }


@pytest.mark.parametrize("cls", [StreamResponse, SendMessageResponse, Part, SecurityScheme])
@pytest.mark.parametrize("members", [{}, {"progressUpdate": {}}, {"task": None}])
def test_a_document_without_a_known_member_says_so(cls, members):
    with pytest.raises(UnknownMemberError) as caught:
        from_dict(members, cls, strict=False)
    assert caught.value.violations[0].description == f"Has none of the known members of {cls.__name__}"
    assert caught.value.__suppress_context__
    with pytest.raises(InvalidParamsError) as caught:
        from_dict(members, cls)
    assert not isinstance(caught.value, UnknownMemberError)


def test_the_error_for_unknown_members_is_an_a2a_error():
    assert issubclass(UnknownMemberError, A2AError)


def test_an_unknown_security_scheme_is_left_out():
    schemes = {
        "new": {"passkeySecurityScheme": {}},
        "flow": {"oauth2SecurityScheme": {"flows": {"tokenExchange": {}}}},
        "mtls": {"mtlsSecurityScheme": {}},
    }
    card = from_dict({**CARD, "securitySchemes": schemes}, AgentCard, strict=False)
    assert list(card.security_schemes) == ["mtls"]
    assert faults({**CARD, "securitySchemes": schemes}, AgentCard).keys() == {
        "securitySchemes.new",
        "securitySchemes.flow.oauth2SecurityScheme.flows",
    }


def test_what_may_be_empty_may_be_missing():
    card = {key: CARD[key] for key in ("name", "version", "supportedInterfaces", "capabilities")}
    read = from_dict(card, AgentCard, strict=False)
    assert (read.description, read.skills, read.default_input_modes) == ("", (), ())
    assert faults(card, AgentCard).keys() == {"description", "skills", "defaultInputModes", "defaultOutputModes"}
    assert from_dict({}, ListTasksResponse, strict=False) == ListTasksResponse(
        tasks=(), next_page_token="", page_size=0, total_size=0
    )


def test_ids_stay_required():
    members = {"status": {"state": "TASK_STATE_WORKING"}}
    assert faults(members, TaskStatusUpdateEvent, strict=False) == {
        "taskId": "Is required",
        "contextId": "Is required",
    }
    assert faults({"id": "t", "status": {}}, Task, strict=False) == {"status.state": "Is required"}


def test_extensions_without_uri_are_left_out():
    capabilities = {"extensions": [{"description": "no uri"}, {"uri": "u"}, {"uri": ""}]}
    card = from_dict({**CARD, "capabilities": capabilities}, AgentCard, strict=False)
    assert [extension.uri for extension in card.capabilities.extensions] == ["u"]
    assert len(from_dict({**CARD, "capabilities": capabilities}, AgentCard).capabilities.extensions) == 3


def test_security_of_version_0_3_is_read():
    skill = {**CARD["skills"][0], "security": [{"oauth": ["admin"]}]}
    card = from_dict(
        {**CARD, "skills": [skill], "security": [{"bearer": []}, {"oauth": ["read"]}]}, AgentCard, strict=False
    )
    assert card.security_requirements == (
        SecurityRequirement(schemes={"bearer": StringList()}),
        SecurityRequirement(schemes={"oauth": StringList(list=["read"])}),
    )
    assert card.skills[0].security_requirements == (SecurityRequirement(schemes={"oauth": StringList(list=["admin"])}),)
    assert from_dict({**CARD, "security": [{"bearer": []}]}, AgentCard).security_requirements == ()


def test_security_in_the_form_of_1_0_is_read_too():
    card = from_dict({**CARD, "security": [{"schemes": {"a": {"list": ["s"]}}}]}, AgentCard, strict=False)
    assert card.security_requirements == (SecurityRequirement(schemes={"a": StringList(list=["s"])}),)


def test_the_current_name_goes_before_the_older_one():
    members = {**CARD, "security": [{"old": []}], "securityRequirements": [{"schemes": {"new": {}}}]}
    card = from_dict(members, AgentCard, strict=False)
    assert [list(requirement.schemes) for requirement in card.security_requirements] == [["new"]]


def test_wrong_entries_of_security_are_faults():
    assert faults({**CARD, "security": [5]}, AgentCard, strict=False) == {
        "securityRequirements[0]": "Must be an object, got a number"
    }


def test_a_tolerant_reading_of_a_good_card_changes_nothing():
    assert to_dict(from_json(json.dumps(CARD), AgentCard, strict=False)) == CARD


def test_faults_are_listed_in_the_order_of_the_document_and_what_is_missing_behind_them():
    with pytest.raises(InvalidParamsError) as caught:
        from_dict({"page_size": 150, "historyLength": -5, "status": "RUNNING"}, ListTasksRequest)
    assert [fault.field for fault in caught.value.violations] == ["pageSize", "historyLength", "status"]

    with pytest.raises(InvalidParamsError) as caught:
        from_dict({"role": "user", "parts": []}, Message)
    assert [fault.field for fault in caught.value.violations] == ["role", "parts", "messageId"]
