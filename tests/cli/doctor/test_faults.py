"""`trio-a2a doctor` with agents that are broken on purpose: each fault is found, and none ends the examination."""

import orjson
import pytest

from tests.client.peers import SSE_HEAD, answer_json, card_json, chunk, http, open_raw
from tests.deadline import within

from .patients import COMPLETED, TASK, WORKING, Patient, examined

_BARE = {"message": "no code"}
_REPLY = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}}


def code(number: int):
    return {"code": number, "message": "wrong"}


@within(60)
@pytest.mark.parametrize(
    ("errors", "check", "severity"),
    [
        ({"task": code(-32603)}, "unknown task: get", "error"),
        ({"task": code(-32603)}, "unknown task: cancel", "error"),
        ({"task": code(-32001)}, "unknown task: get", "warning"),
        ({"task": _BARE}, "unknown task: get", "error"),
        ({"task": code(-32000)}, "streaming", "error"),
        ({"unknown": code(-32600)}, "unknown method", "error"),
        ({"parse": code(-32600)}, "broken JSON", "error"),
        ({"request": code(-32603)}, "no request", "warning"),
        ({"params": code(-32603)}, "missing parameter", "warning"),
        ({"version": code(-32600)}, "unknown version", "error"),
        ({"push": code(-32601)}, "push notifications, not declared", "error"),
        ({"unsupported": code(-32601)}, "extended card, not declared", "error"),
        ({"unsupported": code(-32603)}, "subscription to a task that is over", "warning"),
        ({"cancel": code(-32603)}, "cancel a task that is over", "warning"),
    ],
)
async def test_a_wrong_error_is_found(capsys, errors, check, severity):
    async with open_raw(Patient(errors=errors)) as raw:
        found = await examined(capsys, raw.url)

    assert found.severity(check) == severity
    assert found.status == (1 if found.of("error") else 0)


@within(60)
@pytest.mark.parametrize(
    ("card", "check", "severity"),
    [
        ({"name": None}, "content", "error"),
        ({"skills": None}, "content", "warning"),
        ({"capabilities": 3}, "content", "error"),
        ({"supportedInterfaces": []}, "content", "error"),
        ({"supportedInterfaces": None, "url": "http://x", "protocolVersion": "0.3.0"}, "content", "error"),
    ],
)
async def test_a_wrong_card_is_found(capsys, card, check, severity):
    def answer(request, members):
        return answer_json({k: v for k, v in members.items() if v is not None}, cache_control="max-age=1", etag='"1"')

    async with open_raw(Patient(card=card, card_answer=answer)) as raw:
        found = await examined(capsys, raw.url)

    assert found.severity(check, "card") == severity


@within(60)
@pytest.mark.parametrize(
    ("answer", "check", "severity"),
    [
        (lambda _r, _c: http(404), "place", "error"),
        (lambda _r, _c: http(302, location="https://elsewhere.example/card.json"), "place", "error"),
        (lambda _r, _c: http(302), "place", "error"),
        (lambda _r, _c: http(302, location="http://[broken"), "place", "error"),
        (lambda _r, _c: http(200, b"<html>"), "content", "error"),
        (lambda _r, _c: http(200, b"[1]"), "content", "error"),
        (lambda _r, _c: http(200, b"[" * 3000), "content", "error"),
        (lambda _r, c: http(200, orjson.dumps(c), content_type="text/html"), "content type", "warning"),
        (lambda _r, c: answer_json(c), "caching", "warning"),
        (lambda _r, c: answer_json(c, etag='"1"', cache_control="max-age=1"), "caching", "info"),
        (lambda _r, c: answer_json({**c, "x": "x" * 2_000_000}), "size", "warning"),
        (lambda _r, _c: http(200, b"x" * 5_000_000), "card", "error"),
        (lambda _r, _c: b"not even HTTP", "card", "error"),
    ],
)
async def test_a_card_that_lies_wrongly_is_found(capsys, answer, check, severity):
    async with open_raw(Patient(card_answer=answer)) as raw:
        found = await examined(capsys, raw.url, send=False)

    assert found.severity(check, "card") == severity


@within(60)
async def test_a_card_that_has_moved_within_its_host_is_followed_with_a_warning(capsys):
    def answer(request, members):
        return answer_json(members) if request.path == "/card" else http(301, location="/card")

    async with open_raw(Patient(card_answer=answer)) as raw:
        found = await examined(capsys, raw.url, send=False)

    assert found.severity("place", "card") == "warning"
    assert found.severity("unknown method") == "ok"


@within(60)
async def test_interfaces_that_cannot_be_used_are_told_and_passed_over(capsys):
    def interface(url, binding="JSONRPC", version="1.0"):
        return {"url": url, "protocolBinding": binding, "protocolVersion": version}

    interfaces = [
        interface("x:1", "https://example.com/own"),
        interface("x:1", "GRPC"),
        interface("http://x", version="0.3"),
        interface("ftp://x"),
        interface("http://[broken"),
        interface("/relative"),
        interface("/relative"),
    ]
    async with open_raw(Patient(card={"supportedInterfaces": interfaces})) as raw:
        found = await examined(capsys, raw.url, send=False)

    told = [(f["check"], f["severity"]) for f in found.lines if f["check"].startswith("interface ")]
    assert told == [
        ("interface https://example.com/own", "info"),
        ("interface GRPC", "info"),
        ("interface JSONRPC", "info"),
        ("interface JSONRPC", "error"),
        ("interface JSONRPC", "error"),
        ("interface JSONRPC", "warning"),
        ("interface JSONRPC", "ok"),
        ("interface JSONRPC", "warning"),
        ("interface JSONRPC", "ok"),
        ("interface JSONRPC", "warning"),
    ]
    assert found.severity("reachable") == "ok"


@within(60)
@pytest.mark.parametrize(
    ("events", "ids", "ended", "check", "severity"),
    [
        ([COMPLETED], [1], True, "first event", "error"),
        ([WORKING], [1], True, "end of the stream", "error"),
        ([WORKING, COMPLETED, WORKING], [1, 2, 3], True, "order of events", "error"),
        ([WORKING, _REPLY], [1, 2], True, "order of events", "error"),
        ([WORKING, {"task": {**TASK, "id": "other"}}], [1, 2], True, "order of events", "error"),
        ([WORKING, COMPLETED], [2, 2], True, "numbers of events", "error"),
        ([WORKING, COMPLETED], [3, 1], True, "numbers of events", "error"),
        ([WORKING, COMPLETED], None, True, "numbers of events", "info"),
        ([WORKING, {"nonsense": 1}, COMPLETED], [1, 2, 3], True, "event", "error"),
        ([WORKING, *["no object"] * 9, COMPLETED], None, True, "event", "error"),
        ([], None, True, "stream", "error"),
        ([_REPLY], None, True, "order of events", "ok"),
        ([WORKING, COMPLETED], [1, 2], False, "message", "error"),
    ],
)
async def test_a_wrong_stream_is_found(capsys, events, ids, ended, check, severity):
    async with open_raw(Patient(events=events, ids=ids, ended=ended)) as raw:
        found = await examined(capsys, raw.url)

    assert found.severity(check) == severity


@within(60)
@pytest.mark.parametrize(
    ("spoil", "status"),
    [
        (lambda d: {**d, "id": "another"}, 200),
        (lambda d: {k: v for k, v in d.items() if k != "jsonrpc"}, 200),
        (lambda d: d, 500),
    ],
)
async def test_an_answer_in_the_wrong_form_is_found(capsys, spoil, status):
    async with open_raw(Patient(spoil=spoil, status=status)) as raw:
        found = await examined(capsys, raw.url, send=False)

    assert found.severity("unknown task: get") == "warning"
    assert found.severity("list of tasks") == "warning"


@within(60)
async def test_a_result_where_there_should_be_an_error_is_found(capsys):
    def spoil(document):
        document.pop("error", None)
        return {**document, "result": TASK}

    async with open_raw(Patient(spoil=spoil)) as raw:
        found = await examined(capsys, raw.url, send=False)

    assert found.severity("unknown task: get") == "error"
    assert found.severity("unknown version") == "error"
    assert found.severity("missing version") == "warning"
    assert found.severity("list of tasks") == "warning"


_HOSTILE = [
    b"",
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc",
    b"\0" * 1000,
    http(200, b"[" * 100_000),
    http(
        200, b'{"jsonrpc": "2.0", "id": "doctor-1", "error": {"code": "x", "message": {}, "data": [1, {"domain": 2}]}}'
    ),
    http(200, b'{"jsonrpc": "2.0", "id": {}, "result": null}'),
    http(200, b'{"error": {"code": 1e999, "details": "no"}}'),
    http(200, b"x" * 5_000_000),
    http(204),
    http(302, location="http://127.0.0.1:9/"),
    SSE_HEAD + chunk(b"data: {]\n\n" * 100),
    SSE_HEAD + chunk(b"data: " + b"x" * 5_000_000),
    SSE_HEAD + chunk(b": \x1b[31m\n\nid: \xff\ndata: t0ken\n\n"),
]


@within(120)
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("answer", _HOSTILE, ids=range(len(_HOSTILE)))
async def test_whatever_is_answered_the_examination_comes_to_its_end(capsys, answer, binding):
    """The card is read, and then everything is answered with the same nonsense."""
    patient = Patient(card={})

    def hostile(request):
        if request.path.startswith("/.well-known"):
            made = patient(request)
            return made.replace(b'"JSONRPC"', f'"{binding}"'.encode()) if binding == "JSONRPC" else _rest_card(request)
        return answer

    async with open_raw(hostile) as raw:
        found = await examined(capsys, raw.url, wait=1.0, timeout=2.0)

    assert found.status == 1
    assert not [f for f in found.lines if "t0ken" in f["text"] or "\x1b" in f["text"]]


def _rest_card(request):
    skill = {"id": "s", "name": "Skill", "description": "Does it.", "tags": ["x"]}
    return answer_json(card_json(f"http://{request.headers['host']}/", "HTTP+JSON", skills=[skill]))


@within(60)
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_nonsense_behind_a_good_first_answer_is_found_too(capsys, binding):
    """The first answer decides whether an interface is looked at; all later ones are nonsense here."""
    count = 0

    def turning(request):
        nonlocal count
        if request.path.startswith("/.well-known"):
            return Patient()(request) if binding == "JSONRPC" else _rest_card(request)
        count += 1
        if count > 1:
            return _HOSTILE[count % len(_HOSTILE)]
        if binding == "JSONRPC":
            return Patient()(request)
        return answer_json({"error": {"code": 404, "status": "NOT_FOUND", "message": "no", "details": []}}, 404)

    async with open_raw(turning) as raw:
        found = await examined(capsys, raw.url, wait=1.0, timeout=2.0)

    assert found.status == 1
    assert found.severity("reachable", binding) == "ok"
    assert len(found.of("error")) > 5


@within(60)
async def test_an_agent_that_never_answers_costs_a_bounded_time(capsys):
    """The interface is given up after its first silence."""

    def silent(request):
        return Patient()(request) if request.path.startswith("/.well-known") else [30.0]

    async with open_raw(silent) as raw:
        found = await examined(capsys, raw.url, timeout=0.2)

    assert found.of("error") == [("JSONRPC", "reachable", "no answer in 0.2 seconds")]


@within(60)
async def test_a_stream_without_an_end_is_left(capsys):
    async with open_raw(Patient()) as raw:
        well = raw.answer
        raw.answer = lambda r: (
            [
                SSE_HEAD,
                chunk(b"data: " + orjson.dumps({"jsonrpc": "2.0", "id": "doctor-1", "result": WORKING}) + b"\n\n"),
                30.0,
            ]
            if b"SendStreamingMessage" in r.body
            else well(r)
        )
        found = await examined(capsys, raw.url, wait=0.3)

    assert found.severity("end of the stream") == "info"
    assert found.severity("keep-alive") == "info"
    assert found.severity("subscription") == "error"
    assert found.severity("cancel") == "info"
