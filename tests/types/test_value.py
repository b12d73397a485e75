"""What all values have in common: checks at construction, oneofs, equality."""

import copy
import pickle
import weakref

import pytest

from tests.strategies import VALUE_CLASSES
from trio_a2a import types
from trio_a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Artifact,
    AuthenticationInfo,
    ClientCredentialsOAuthFlow,
    GetTaskRequest,
    ListTasksResponse,
    Message,
    MutualTlsSecurityScheme,
    OAuthFlows,
    Part,
    SecurityRequirement,
    SecurityScheme,
    SendMessageConfiguration,
    SendMessageResponse,
    StreamResponse,
    StringList,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from trio_a2a.types.value import OneOf
from trio_a2a.wire import to_dict

WORKING = TaskStatus(state=TaskState.WORKING)


def test_the_facade_is_sorted_and_complete():
    assert all(hasattr(types, name) for name in types.__all__)
    assert [name for name in types.__all__ if name[0].islower()] == ["as_parts"]
    assert len(types.__all__) == len(set(types.__all__))


@pytest.mark.parametrize("cls", VALUE_CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_has_slots_and_no_dict(cls):
    assert not hasattr(cls.__new__(cls), "__dict__")


def test_sequences_become_tuples():
    skill = AgentSkill(id="s", name="S", description="", tags=["a", "b"], examples=(item for item in ["x"]))
    assert (skill.tags, skill.examples) == (("a", "b"), ("x",))
    assert ListTasksResponse(tasks=[], next_page_token="", page_size=1, total_size=0).tasks == ()


@pytest.mark.parametrize("wrong", ["text/plain", b"abc", {"a": 1}, None, 5])
def test_what_is_no_sequence_is_refused(wrong):
    with pytest.raises(TypeError, match="expected a sequence of str"):
        SendMessageConfiguration(accepted_output_modes=wrong)


def test_elements_of_the_wrong_type_are_named():
    with pytest.raises(TypeError, match="element 1 is to be Part, got str"):
        Artifact(artifact_id="a", parts=[Part(text="a"), "b"])
    with pytest.raises(TypeError, match="element 0 is to be str, got int"):
        StringList(list=[1])


def test_scalars_of_a_subclass_become_plain():
    class Name(str):
        __slots__ = ()

    class Number(int):
        pass

    request = GetTaskRequest(id=Name("t"), history_length=Number(5))
    assert type(request.id) is str
    assert type(request.history_length) is int
    assert type(StringList(list=[Name("a")]).list[0]) is str


@pytest.mark.parametrize("wrong", [True, 1.0, "1"])
def test_a_number_is_an_int(wrong):
    with pytest.raises(TypeError, match="an int of 32 bits"):
        GetTaskRequest(id="t", history_length=wrong)


@pytest.mark.parametrize("wrong", [2**31, -(2**31) - 1])
def test_a_number_has_32_bits(wrong):
    with pytest.raises((TypeError, ValueError), match="32 bits"):
        GetTaskRequest(id="t", history_length=wrong)


def test_a_flag_is_a_bool():
    with pytest.raises(TypeError, match="a bool"):
        SendMessageConfiguration(return_immediately=1)
    with pytest.raises(TypeError, match="a bool"):
        AgentCapabilities(streaming="true")


def test_a_message_field_wants_its_class():
    with pytest.raises(TypeError, match=r"Task\.status is to be TaskStatus, got TaskState"):
        Task(id="t", status=TaskState.WORKING)
    with pytest.raises(TypeError, match=r"Task\.status is to be TaskStatus, got NoneType"):
        Task(id="t", status=None)


def test_a_subclass_of_a_value_class_is_welcome():
    class MyStatus(TaskStatus):
        pass

    status = MyStatus(state=TaskState.WORKING)
    assert Task(id="t", status=status).status is status

    class MyPart(Part):
        pass

    part = MyPart(text="a")
    assert Artifact(artifact_id="a", parts=[part]).parts[0] is part
    assert to_dict(Artifact(artifact_id="a", parts=[part])) == {"artifactId": "a", "parts": [{"text": "a"}]}
    assert to_dict(part) == {"text": "a"}


def test_maps_are_copied_and_checked():
    scopes = {"read": "Read"}
    flow = ClientCredentialsOAuthFlow(token_url="u", scopes=scopes)
    scopes["write"] = "Write"
    assert flow.scopes == {"read": "Read"}
    with pytest.raises(TypeError, match="mapping of str to str"):
        ClientCredentialsOAuthFlow(token_url="u", scopes=["read"])
    with pytest.raises(TypeError, match="a key is to be a str"):
        ClientCredentialsOAuthFlow(token_url="u", scopes={1: "a"})
    with pytest.raises(TypeError, match="'b' is to be StringList, got list"):
        SecurityRequirement(schemes={"b": []})


def test_defaults_of_maps_are_not_shared():
    assert SecurityRequirement().schemes is not SecurityRequirement().schemes


def test_metadata_wants_a_mapping():
    with pytest.raises(TypeError, match="mapping of strings"):
        Message.user("a", metadata=[("a", 1)])


ONEOFS = [
    (SendMessageResponse, "task", Task(id="t", status=WORKING)),
    (SendMessageResponse, "message", Message.agent("a")),
    (StreamResponse, "task", Task(id="t", status=WORKING)),
    (StreamResponse, "message", Message.agent("a")),
    (StreamResponse, "status_update", TaskStatusUpdateEvent(task_id="t", context_id="c", status=WORKING)),
    (
        StreamResponse,
        "artifact_update",
        TaskArtifactUpdateEvent(
            task_id="t", context_id="c", artifact=Artifact(artifact_id="a", parts=[Part(text="a")])
        ),
    ),
    (SecurityScheme, "mtls_security_scheme", MutualTlsSecurityScheme()),
    (OAuthFlows, "client_credentials", ClientCredentialsOAuthFlow(token_url="u", scopes={})),
]


@pytest.mark.parametrize(("cls", "kind", "member"), ONEOFS)
def test_a_oneof_names_its_member(cls, kind, member):
    value = cls.of(member)
    assert value == cls(**{kind: member})
    assert value.kind == kind
    assert value.value == member


@pytest.mark.parametrize("cls", [cls for cls in VALUE_CLASSES if issubclass(cls, OneOf)], ids=lambda cls: cls.__name__)
def test_a_oneof_without_a_member_is_refused(cls):
    with pytest.raises(ValueError, match=r"takes exactly one of .*; got none"):
        cls()


def test_a_oneof_with_two_members_is_refused():
    with pytest.raises(ValueError, match="got task and message"):
        StreamResponse(task=Task(id="t", status=WORKING), message=Message.agent("a"))


def test_a_oneof_does_not_wrap_what_it_cannot_hold():
    with pytest.raises(TypeError, match="no member of type Part"):
        StreamResponse.of(Part(text="a"))


def test_secrets_are_not_shown():
    config = TaskPushNotificationConfig(
        url="https://example.com",
        token="t0ken",
        authentication=AuthenticationInfo(scheme="Bearer", credentials="s3cret"),
    )
    assert "t0ken" not in repr(config)
    assert "s3cret" not in repr(config)


def test_values_can_be_copied_pickled_and_referenced_weakly():
    card = AgentCard(
        name="A",
        description="",
        supported_interfaces=[AgentInterface(url="u", protocol_binding="JSONRPC", protocol_version="1.0")],
        version="1",
        capabilities=AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[],
        security_schemes={"m": SecurityScheme.of(MutualTlsSecurityScheme())},
    )
    pickled = pickle.loads(pickle.dumps(card))  # noqa: S301 - our own bytes
    assert pickled == copy.deepcopy(card) == copy.copy(card) == card
    assert weakref.ref(card)() is card
