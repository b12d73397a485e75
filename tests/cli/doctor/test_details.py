"""The doctor's single judgements, and the bounds around them."""

import orjson
import pytest
import trio

from tests.client.peers import SSE_HEAD, answer_json, chunk, http, open_raw
from tests.deadline import within
from trio_a2a.cli.doctor.card_checks import usable_interfaces
from trio_a2a.cli.doctor.examination import _Doctor
from trio_a2a.cli.doctor.message_checks import judge_keep_alive, judge_stream
from trio_a2a.cli.doctor.report import Report
from trio_a2a.cli.doctor.stream_reading import Recording
from trio_a2a.cli.output import Output
from trio_a2a.cli.redaction import Redaction
from trio_a2a.cli.session import Connection, Session
from trio_a2a.cli.text import printable
from trio_a2a.types import AgentCapabilities, AgentCard, AgentInterface, Task, TaskState, TaskStatus

from .patients import COMPLETED, TASK, WORKING, Patient, examined

_WEBHOOK = {"id": "w", "taskId": "t", "url": "https://example.com"}
_PUSH = {"capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": True}}
_CREATE = "CreateTaskPushNotificationConfig"
_LIST = "ListTaskPushNotificationConfigs"
_DELETE = "DeleteTaskPushNotificationConfig"
_NO = {"error": {"code": -32603, "message": "no"}}


def report() -> Report:
    return Report(Output(as_json=True, redaction=Redaction([])))


@within(60)
@pytest.mark.parametrize(
    ("answers", "check", "severity"),
    [
        ({"ListTasks": {"result": {"tasks": [TASK, TASK], "nextPageToken": "", "pageSize": 1, "totalSize": 2}}},
         "size of a page", "error"),
        ({"ListTasks": {"result": {"tasks": 3}}}, "list of tasks", "error"),
        ({"GetTask": {"result": {**TASK, "id": "another"}}}, "the task", "error"),
        ({"NoSuchMethod": {"result": 1, "error": {"code": -32601, "message": "no"}}}, "unknown method", "warning"),
        ({"NoSuchMethod": {"error": {"code": -32601, "message": "no", "data": "text"}}}, "unknown method", "warning"),
        ({"NoSuchMethod": {}}, "unknown method", "error"),
        ({"SendStreamingMessage": _NO}, "message", "error"),
    ],
)  # fmt: skip
async def test_a_wrong_answer_is_found(capsys, answers, check, severity):
    async with open_raw(Patient(answers=answers)) as raw:
        found = await examined(capsys, raw.url)

    assert found.severity(check) == severity


def test_the_table_cannot_touch_the_terminal(capsys):
    """Of two interfaces of one binding the second is named by its URL, which the card gives."""
    shown = Report(Output(as_json=False, redaction=Redaction([])))
    shown.error("JSONRPC http://a.example/\x9b2J\x1b[2J", "check\n\x1b[2J", "text\x1b[2J")
    shown.close()
    told = capsys.readouterr().out
    assert told == printable(told)
    assert "http://a.example/" in told


@within(60)
@pytest.mark.parametrize(
    ("answers", "check", "severity"),
    [
        ({_CREATE: _NO}, "webhook", "warning"),
        ({_CREATE: {"result": {"url": 3}}}, "webhook: added", "error"),
        ({_CREATE: {"result": _WEBHOOK}, _LIST: {"result": {"configs": []}}}, "webhook: listed", "error"),
        ({_CREATE: {"result": _WEBHOOK}, _DELETE: _NO}, "webhook: removed", "error"),
        ({_LIST: {"result": {"configs": []}}}, "push notifications", "warning"),
        ({"GetExtendedAgentCard": _NO}, "extended card", "warning"),
        ({"GetExtendedAgentCard": {"result": {"name": 3}}}, "extended card", "error"),
    ],
)
async def test_what_is_declared_and_not_there_is_found(capsys, answers, check, severity):
    async with open_raw(Patient(card=_PUSH, answers=answers)) as raw:
        found = await examined(capsys, raw.url)

    assert found.severity(check) == severity


@within(60)
async def test_an_extended_card_for_known_callers_only_is_no_fault(capsys):
    async with open_raw(Patient(card=_PUSH)) as raw:
        well = raw.answer
        raw.answer = lambda r: http(401) if b"GetExtendedAgentCard" in r.body else well(r)
        found = await examined(capsys, raw.url, send=False)

    assert found.severity("extended card") == "info"


@within(60)
@pytest.mark.parametrize(
    ("frames", "severity"),
    [([COMPLETED], "error"), ([WORKING], "ok"), (["nonsense"], "error")],
)
async def test_the_first_event_of_a_subscription_is_the_task(capsys, frames, severity):
    async with open_raw(Patient(events=[WORKING], ids=None)) as raw:
        well = raw.answer
        documents = [orjson.dumps({"jsonrpc": "2.0", "id": "doctor-1", "result": frame}) for frame in frames]
        stream = SSE_HEAD + b"".join(chunk(b"data: " + d + b"\n\n") for d in documents) + b"0\r\n\r\n"
        raw.answer = lambda r: stream if b"SubscribeToTask" in r.body and b'"t"' in r.body else well(r)
        found = await examined(capsys, raw.url)

    assert found.severity("subscription") == severity


@within(60)
async def test_a_stream_past_all_bounds_is_left(capsys):
    """By the size of an event, and by the size of all together."""
    async with open_raw(Patient()) as raw:
        well = raw.answer
        big = chunk(b"data: " + b"x" * 5_000_000)
        many = [chunk(b": " + b"x" * 1_000_000 + b"\n\n")] * 20
        for pieces in ([SSE_HEAD, big], [SSE_HEAD, *many]):
            raw.answer = lambda r, pieces=pieces: pieces if b"SendStreamingMessage" in r.body else well(r)
            found = await examined(capsys, raw.url)
            assert found.severity("stream") == "error"


@within(60)
async def test_the_routes_of_a_rest_interface_are_judged(capsys):
    """Answers in the wrong form, each for the route that it is told for."""
    wrong = {"error": {"code": 1, "message": "no", "details": []}}
    not_found = {"@type": "x", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}

    def answer(request):
        if request.path.startswith("/.well-known"):
            binding = {
                "url": f"http://{request.headers['host']}/",
                "protocolBinding": "HTTP+JSON",
                "protocolVersion": "1.0",
            }
            return Patient(card={"supportedInterfaces": [binding]})(request)
        if request.path == "/no/such/route/at/all":
            return answer_json({"error": {"code": 404, "status": "NOT_FOUND", "details": [not_found]}}, 404)
        if request.path == "/message:send":
            return http(400, b"what?")
        if request.path.startswith("/tasks/"):
            return http(404, orjson.dumps(wrong), content_type="text/plain")
        return http(200, b"{}", content_type="text/plain")

    async with open_raw(answer) as raw:
        found = await examined(capsys, raw.url, send=False)

    told = {(f["check"], f["severity"]): f["text"] for f in found.lines if f["area"] == "HTTP+JSON"}
    assert ("unknown route", "error") in told
    assert ("broken JSON", "warning") in told
    text = told["unknown task: get", "error"]
    assert "its content type is not JSON" in text
    assert "its code is 1, and its HTTP status 404" in text
    assert "it lacks the name of a status" in text


@within(60)
async def test_two_interfaces_of_a_binding_are_told_apart(capsys):
    def answer(request):
        host = request.headers["host"]
        interfaces = [
            {"url": f"http://{host}/{n}", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "us"}
            for n in (1, 2)
        ]
        return Patient(card={"supportedInterfaces": interfaces})(request)

    async with open_raw(answer) as raw:
        found = await examined(capsys, raw.url, send=False)
        assert {r.json["params"]["tenant"] for r in raw.requests if b'"GetTask"' in r.body} == {"us"}

    assert {"JSONRPC", f"JSONRPC {raw.url}/2"} <= {f["area"] for f in found.lines}


@within(60)
@pytest.mark.parametrize("missing", ["version", "description"])
async def test_a_card_without_what_must_be_in_it_is_found(capsys, missing):
    def answer(request, members):
        return answer_json({k: v for k, v in members.items() if k != missing})

    async with open_raw(Patient(card_answer=answer)) as raw:
        found = await examined(capsys, raw.url, send=False)

    assert found.severity("content", "card") == "error"


@pytest.mark.parametrize(
    ("url", "place", "severity", "usable"),
    [
        ("https://a.example", "https://a.example", "ok", True),
        ("http://a.example", "https://a.example", "error", False),
        ("http://a.example", "http://a.example", "warning", True),
        ("http://[::1]:80", "http://[::1]:80", "ok", True),
    ],
)
def test_an_interface_has_the_protection_that_its_card_has(capsys, url, place, severity, usable):
    interface = AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(
        name="x",
        description="x",
        version="1",
        capabilities=AgentCapabilities(),
        supported_interfaces=[interface],
        default_input_modes=(),
        default_output_modes=(),
        skills=(),
    )
    made = report()

    assert bool(usable_interfaces(made, card, place)) is usable
    assert [finding.severity for finding in made.findings] == [severity]


def test_a_long_silence_and_an_open_end_are_warnings():
    done = Task(id="t", status=TaskStatus(state=TaskState.COMPLETED))
    made = report()
    judge_stream(made, "x", Recording(events=[(done, None)], silence=31.0), 40.0)
    judge_keep_alive(made, "x", Recording(silence=31.0))

    warnings = [finding.check for finding in made.findings if finding.severity == "warning"]
    assert warnings == ["end of the stream", "keep-alive", "keep-alive"]


async def test_a_check_that_fails_or_hangs_is_a_finding_of_its_own(autojump_clock):
    """Whatever it raises: an agent's answer must not end the examination."""
    made = report()
    session = Session(connection=Connection(), output=Output(as_json=True, redaction=Redaction([])))
    doctor = _Doctor(None, made, session, 1.0)

    async def failing():
        raise ZeroDivisionError("x")

    with trio.fail_after(1000):
        await doctor._attempt("area", "fails", failing)
        await doctor._attempt("area", "hangs", trio.sleep_forever)

    assert [(f.severity, f.check, f.text) for f in made.findings] == [
        ("error", "fails", "the answer cannot be examined: ZeroDivisionError: x"),
        ("error", "hangs", "not done in 60 seconds"),
    ]


@within(60)
@pytest.mark.parametrize("public", [True, False])
async def test_the_place_of_the_card_is_told_who_is_asking_only_if_it_wants_to_know(capsys, public):
    def answer(request):
        if request.method == "GET" and not public and "authorization" not in request.headers:
            return http(401)
        return Patient()(request)

    async with open_raw(answer) as raw:
        found = await examined(capsys, raw.url, send=False, bearer="t0ken", strict=True)
        told = {r.headers.get("authorization") for r in raw.requests if r.method == "GET"}
        called = {r.headers.get("authorization") for r in raw.requests if r.method == "POST"}

    assert found.status == 0
    assert told == ({None} if public else {None, "Bearer t0ken"})
    assert called == {"Bearer t0ken"}
