"""The check that a value can be written as JSON."""

import math

import pytest
from hypothesis import given, settings, strategies as st

from tests.strategies import VALUE_CLASSES, values
from trio_a2a.types import (
    Artifact,
    Message,
    Part,
    SecurityRequirement,
    SendMessageRequest,
    StreamResponse,
    StringList,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
)
from trio_a2a.types.encodable import check_encodable
from trio_a2a.types.struct import MAX_DEPTH


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (math.nan, "is nan"),
        (-math.inf, "is -inf"),
        (2**64, "past 64 bits"),
        (-(2**63) - 1, "past 64 bits"),
        ("\ud800", "lone surrogate"),
        ({1: 2}, "has the key 1, which is no plain string"),
        ({TaskState.WORKING: 2}, "which is no plain string"),
        ({"\udfff": 2}, "has a key that contains a lone surrogate"),
    ],
)
def test_what_json_cannot_carry_is_refused_with_its_place(content, reason):
    good = {"a": [None, True, 1, "x"], "b": {"c": 0.5}}
    artifact = Artifact(artifact_id="a", parts=[Part(data=good), Part(data={"good": good, "rows": [0, content]})])
    event = StreamResponse.of(TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact))
    with pytest.raises(ValueError) as caught:
        check_encodable(event)
    assert str(caught.value).startswith("StreamResponse.artifactUpdate.artifact.parts[1].data.rows[1] ")
    assert reason in str(caught.value)


def test_the_limits_are_carried():
    check_encodable(Part(data=[2**64 - 1, -(2**63), 1.7e308, "ü", None, True, {"ß": []}]))


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (Part(text="\ud800"), "Part.text"),
        (Part(text="a", media_type="\ud800"), "Part.mediaType"),
        (Part(text="a", metadata={"a": {"b": math.nan}}), "Part.metadata.a.b"),
        (
            SendMessageRequest(message=Message.user("a", extensions=["\ud800"])),
            "SendMessageRequest.message.extensions[0]",
        ),
        (
            Task(id="t", status=TaskStatus(state=TaskState.WORKING, message=Message.agent("\ud800"))),
            "Task.status.message.parts[0].text",
        ),
        (SecurityRequirement(schemes={"a": StringList(list=["\ud800"])}), "SecurityRequirement.schemes.a.list[0]"),
        (SecurityRequirement(schemes={"\ud800": StringList()}), "SecurityRequirement.schemes"),
    ],
)
def test_every_field_is_looked_at(value, place):
    with pytest.raises(ValueError) as caught:
        check_encodable(value)
    assert str(caught.value).startswith(f"{place} ")


def test_content_that_was_changed_against_the_contract_is_still_checked():
    part = Part(data={})
    part.data["thing"] = object()
    with pytest.raises(ValueError, match=r"Part\.data\.thing is of type object"):
        check_encodable(part)
    part = Part(data=[])
    part.data.append(part.data)
    with pytest.raises(ValueError, match=f"nested deeper than {MAX_DEPTH} levels"):
        check_encodable(part)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.sampled_from(VALUE_CLASSES).flatmap(values))
def test_ordinary_values_pass(value):
    check_encodable(value)
