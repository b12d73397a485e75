"""Server-Sent Events, as a server writes them."""

import json

import pytest
from hypothesis import given, strategies as st

from trio_a2a.wire.sse import KEEP_ALIVE, MEDIA_TYPE, escaped, frame


def test_an_event_is_one_data_line_and_a_blank_one():
    assert frame(b'{"a":1}') == b'data: {"a":1}\n\n'


def test_a_stored_event_has_its_number():
    assert frame(b"{}", id=7) == b"id: 7\ndata: {}\n\n"


def test_what_is_not_stored_has_no_number():
    assert frame(b"{}", id=0) == b"data: {}\n\n"


def test_an_event_may_be_named():
    assert frame(b"{}", id=7, event=b"error") == b"id: 7\nevent: error\ndata: {}\n\n"


def test_a_keep_alive_is_a_comment():
    assert KEEP_ALIVE == b": keep-alive\n\n"
    assert MEDIA_TYPE == b"text/event-stream"


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029"])
def test_line_breaks_of_unicode_are_escaped_since_some_clients_split_there(character):
    text = json.dumps({"text": f"one{character}two{character}"}, ensure_ascii=False).encode()
    assert character.encode() not in escaped(text)
    assert json.loads(escaped(text)) == json.loads(text)


def test_text_without_such_line_breaks_is_not_copied():
    text = b'{"text":"plain"}'
    assert escaped(text) is text


@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.dictionaries(st.text(), inner)))
def test_whatever_json_says_its_frame_has_one_data_line_for_every_way_to_split_lines(value):
    data = escaped(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    lines = frame(data, id=3).decode().splitlines()
    assert lines == ["id: 3", f"data: {data.decode()}", ""]


@given(st.text(st.characters(codec="utf-8")))
def test_escaping_changes_no_value(text):
    assert json.loads(escaped(json.dumps(text, ensure_ascii=False).encode())) == text
