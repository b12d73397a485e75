"""Parts, messages and artifacts."""

import copy
import enum
import pickle
import uuid
from types import MappingProxyType

import attrs
import pytest

from trio_a2a.types import UNSET, Artifact, Message, Part, Role, as_parts
from trio_a2a.types.struct import MAX_DEPTH


@pytest.mark.parametrize(
    ("part", "kind", "value"),
    [
        (Part(text=""), "text", ""),
        (Part(raw=b""), "raw", b""),
        (Part(url=""), "url", ""),
        (Part(data=0), "data", 0),
        (Part(data=None), "data", None),
        (Part(data={}), "data", {}),
    ],
)
def test_a_part_names_its_kind(part, kind, value):
    assert part.kind == kind
    assert part.value == value


@pytest.mark.parametrize(
    "content",
    [{}, {"text": None}, {"text": "a", "url": "b"}, {"text": "a", "data": None}, {"raw": b"", "url": ""}],
)
def test_a_part_takes_exactly_one_content(content):
    with pytest.raises(ValueError, match="exactly one of text, raw, url, data"):
        Part(**content)


def test_a_refused_part_says_what_it_got():
    with pytest.raises(ValueError, match="got text and data"):
        Part(text="a", data=1)
    with pytest.raises(ValueError, match="got none"):
        Part(filename="a.txt")


def test_json_null_differs_from_unset():
    assert Part(data=None).data is None
    assert Part(text="a").data is UNSET
    assert Part(data=None) != Part(text="a")


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own bytes


def test_unset_is_one_falsy_object():
    assert repr(UNSET) == "UNSET"
    assert not UNSET
    assert copy.deepcopy(UNSET) is UNSET
    assert pickled(UNSET) is UNSET
    part = Part(text="a")
    assert pickled(part) == copy.deepcopy(part) == part


@pytest.mark.parametrize(
    "content",
    [
        {"text": 5},
        {"text": b"a"},
        {"raw": "a"},
        {"url": 1},
        {"text": "a", "filename": None},
        {"text": "a", "metadata": []},
    ],
)
def test_a_part_refuses_the_wrong_type(content):
    with pytest.raises(TypeError):
        Part(**content)


def test_bytes_may_come_from_a_buffer():
    buffer = bytearray(b"abc")
    part = Part(raw=buffer)
    buffer[0] = 0
    assert part.raw == b"abc"
    assert type(part.raw) is bytes
    assert Part(raw=memoryview(b"abc")) == part


def test_data_and_metadata_are_copied_to_the_bottom():
    data = {"rows": [{"n": 1}]}
    metadata = {"deep": {"list": [1]}}
    part = Part(data=data, metadata=metadata)
    data["rows"][0]["n"] = 2
    data["more"] = 1
    metadata["deep"]["list"].append(2)
    assert part == Part(data={"rows": [{"n": 1}]}, metadata={"deep": {"list": [1]}})


def test_data_is_made_of_plain_containers():
    class Colour(enum.StrEnum):
        RED = "red"

    class Size(enum.IntEnum):
        BIG = 3

    class Ratio(float):
        pass

    class Names(list):
        pass

    given = {"a": (1, 2), "b": MappingProxyType({"c": Colour.RED}), "d": Size.BIG, "e": Ratio(0.5), "f": Names("x")}
    data = Part(data=given).data
    assert data == {"a": [1, 2], "b": {"c": "red"}, "d": 3, "e": 0.5, "f": ["x"]}
    assert [type(data[key]) for key in "abdef"] == [list, dict, int, float, list]
    assert type(data["b"]["c"]) is str


@pytest.mark.parametrize("thing", [{1, 2}, object(), b"bytes", 1j])
def test_data_refuses_what_json_has_no_form_for(thing):
    with pytest.raises(TypeError, match="JSON has no form"):
        Part(data=[thing])


def test_data_that_contains_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested deeper"):
        Part(data=loop)


def test_data_may_be_nested_to_the_limit():
    deep = "x"
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert Part(data=deep).data == deep
    with pytest.raises(ValueError, match="nested deeper"):
        Part(data=[deep])


def test_values_are_frozen_and_evolve():
    part = Part(text="a")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        part.text = "b"
    with pytest.raises(AttributeError):
        part.colour = "red"
    assert attrs.evolve(part, text="b") == Part(text="b")
    assert attrs.evolve(part, text=None, data=None) == Part(data=None)


def test_short_forms_make_messages():
    message = Message.user(
        "hi", context_id="c", task_id="t", metadata={"a": 1}, extensions=["u"], reference_task_ids=["r"]
    )
    assert uuid.UUID(message.message_id)
    assert message.role is Role.USER
    assert message.parts == (Part(text="hi"),)
    assert (message.context_id, message.task_id, message.metadata) == ("c", "t", {"a": 1})
    assert (message.extensions, message.reference_task_ids) == (("u",), ("r",))
    assert Message.agent("hi").role is Role.AGENT
    assert Message.agent("hi").message_id != Message.agent("hi").message_id
    assert Message.agent("hi", message_id="m").message_id == "m"


def test_short_forms_take_parts():
    part = Part(url="https://example.com/a")
    assert Message.user(part).parts == (part,)
    assert Message.user(["a", part]).parts == (Part(text="a"), part)
    assert Message.agent(item for item in ("a", "b")).parts == (Part(text="a"), Part(text="b"))


@pytest.mark.parametrize("content", [b"bytes", {"text": "a"}, 5, None, [5], [None]])
def test_short_forms_refuse_other_content(content):
    with pytest.raises(TypeError):
        as_parts(content)


def test_text_joins_the_text_parts():
    parts = ["one", Part(data=1), "two"]
    assert Message.agent(parts).text() == "one\ntwo"
    assert Message.agent(parts).text("") == "onetwo"
    assert Message.agent(Part(data=1)).text() == ""
    assert Artifact(artifact_id="a", parts=as_parts(parts)).text(", ") == "one, two"


def test_required_fields_have_no_default():
    with pytest.raises(TypeError):
        Message(role=Role.USER, parts=())
    with pytest.raises(TypeError):
        Artifact(artifact_id="a")


def test_an_empty_array_of_parts_fails_on_decoding_only():
    assert Message(message_id="m", role=Role.USER, parts=[]).parts == ()


def test_constructors_take_keywords_only():
    with pytest.raises(TypeError):
        Part("a")
