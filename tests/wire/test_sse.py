"""Server-Sent Events: written, and read."""

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from trio_a2a.wire.sse import KEEP_ALIVE, MEDIA_TYPE, SseEvent, SseLimitError, SseParser, escaped, frame


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


# --- Reading --------------------------------------------------------------------------------------------------------

VECTORS = json.loads((Path(__file__).parents[1] / "contract" / "data" / "vectors" / "sse.json").read_text("utf-8"))


def events_of(*pieces: bytes, **limits) -> list[dict[str, str]]:
    parser = SseParser(**limits)
    found = []
    for piece in pieces:
        for event in parser.feed(piece):
            shown = {"data": event.data.decode()}
            if event.id is not None:
                shown["id"] = event.id
            if event.event:
                shown["event"] = event.event
            found.append(shown)
    return found


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: repr(case["raw"]))
def test_the_vectors_are_read_as_they_say_in_whatever_pieces_they_come(case):
    raw = case["raw"].encode()
    assert events_of(raw) == case["events"]
    assert events_of(*[raw[i : i + 1] for i in range(len(raw))]) == case["events"]
    for at in range(len(raw)):
        assert events_of(raw[:at], b"", raw[at:]) == case["events"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_kind_of_line_end_is_one(end):
    raw = b"".join(line + end for line in [b":c", b"", b"id: 1", b"data: a", b"data:  b", b"", b"data: c", b""])
    assert events_of(raw) == [{"data": "a\n b", "id": "1"}, {"data": "c"}]


def test_a_name_an_id_and_a_reconnection_time_are_read_and_other_fields_are_passed_over():
    parser = SseParser()
    (event,) = parser.feed(b"event: error\nid: 7\nretry: 1500\nother: x\nretry: x\nretry: 99999999999\ndata: {}\n\n")
    assert event == SseEvent(data=b"{}", id="7", event="error")
    assert parser.retry == 1500


def test_an_id_with_a_null_is_none_and_an_id_is_that_of_its_event_alone():
    assert events_of(b"id: 1\0\ndata: a\n\nid: 2\ndata: b\n\ndata: c\n\n") == [
        {"data": "a"},
        {"data": "b", "id": "2"},
        {"data": "c"},
    ]


def test_a_byte_order_mark_is_dropped_at_the_beginning_only():
    bom = "\ufeff".encode()
    assert events_of(bom[:1], bom[1:2], bom[2:] + b"data: a\n\ndata: b\n\n") == [{"data": "a"}, {"data": "b"}]
    assert events_of(b"data: a\n\n" + bom + b"data: b\n\n") == [{"data": "a"}]
    assert events_of(bom[:2], b"data: a\n\n") == []  # no mark after all, so the line is no data line


def test_a_name_without_data_is_no_event():
    assert events_of(b"event: x\nid: 4\n\ndata: a\n\n") == [{"data": "a"}]


@pytest.mark.parametrize(
    ("limits", "pieces"),
    [
        ({"max_line": 10}, [b"data: 12345\n"]),
        ({"max_line": 10}, [b"data: ", b"123", b"45"]),
        ({"max_data": 10}, [b"data: 12345\n", b"data: 1234\n"]),
        ({"max_lines": 3}, [b"data\n"] * 4),
        ({"max_lines": 3}, [b":\n"] * 4),
    ],
)
def test_what_is_too_large_is_refused(limits, pieces):
    with pytest.raises(SseLimitError):
        events_of(*pieces, **limits)
    assert events_of(*pieces[:-1], **limits) == []


@given(st.lists(st.tuples(st.binary().map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")), st.integers(0, 9))))
def test_what_our_writer_writes_is_read_as_it_was(frames):
    raw = b"".join(frame(data, id=id_) for data, id_ in frames)
    parser = SseParser()
    assert parser.feed(b"") == []
    found = parser.feed(raw)
    assert [(event.data, event.id) for event in found] == [(data, str(id_) if id_ else None) for data, id_ in frames]


@given(st.binary(), st.integers(1, 7))
def test_no_bytes_upset_the_parser_and_pieces_do_not_matter(raw, size):
    whole = SseParser().feed(raw)
    parser = SseParser()
    assert [event for at in range(0, len(raw), size) for event in parser.feed(raw[at : at + size])] == whole
