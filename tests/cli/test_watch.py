"""`trio-a2a task watch` over connections that break, in the command's own process and against servers by hand."""

import json

import pytest

from tests.client.peers import answer_json, card_json, open_raw, sse
from tests.deadline import within
from trio_a2a.cli.output import Output
from trio_a2a.cli.redaction import Redaction
from trio_a2a.cli.session import Connection, Session
from trio_a2a.cli.tasks import watch_task


def task(state: str, **members):
    return {"task": {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}, **members}}


def artifact(text: str, *, append: bool = True):
    piece = {"artifactId": "a", "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": piece, "append": append}}


def status(state: str):
    return {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}}


def answers(*streams):
    """A server whose streams are these, one for each connection."""
    left = list(streams)

    def answer(request):
        if request.method == "GET":
            return answer_json(card_json(f"http://{request.headers['host']}/"))
        id_ = request.json["id"]
        documents, numbers, end = left.pop(0)
        return sse(*({"jsonrpc": "2.0", "id": id_, "result": document} for document in documents), ids=numbers, end=end)

    return answer


def session(*, as_json: bool) -> Session:
    return Session(connection=Connection(), output=Output(as_json=as_json, redaction=Redaction([])))


BROKEN = ([task("WORKING"), artifact("one ", append=False)], [1, 2], False)


@within(30)
async def test_a_stream_that_breaks_goes_on_and_the_user_is_told(capsys):
    async with open_raw(answers(BROKEN, ([artifact("two"), status("COMPLETED")], [3, 4], True))) as raw:
        result = await watch_task(
            session(as_json=False), url=raw.url, task_id="t", after=None, save=None, cancel_on_interrupt=False
        )

    assert result == 0
    assert capsys.readouterr().out.splitlines() == [
        "task t (context c)",
        "[working]",
        "--- a",
        "one ",
        "(the stream broke and was resumed (once; nothing was missed))",
        "--- a",
        "two",
        "[completed]",
    ]


@within(30)
async def test_what_may_be_missing_is_told_and_shown_from_the_snapshot(capsys):
    snapshot = task(
        "COMPLETED", artifacts=[{"artifactId": "a", "parts": [{"text": t} for t in ("one ", "two ", "three")]}]
    )
    async with open_raw(answers(BROKEN, ([snapshot], [9], True))) as raw:
        await watch_task(
            session(as_json=False), url=raw.url, task_id="t", after=None, save=None, cancel_on_interrupt=False
        )

    told = capsys.readouterr().out
    assert "(the stream broke and was resumed (once; events may be missing" in told
    assert told.endswith("--- a\ntwo three\n[completed]\n")


@within(30)
@pytest.mark.parametrize(("number", "gap"), [(3, False), (9, True)])
async def test_scripts_are_told_by_an_object_of_its_own(capsys, number, gap):
    second = [status("FAILED")] if not gap else [task("FAILED")]
    async with open_raw(answers(BROKEN, (second, [number], True))) as raw:
        result = await watch_task(
            session(as_json=True), url=raw.url, task_id="t", after=None, save=None, cancel_on_interrupt=False
        )

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[2] == {"resumed": 1, "gap": gap}
    assert result == 1


@within(30)
async def test_watching_after_a_number_asks_for_what_followed(capsys, tmp_path):
    """And what is saved is the whole task all the same."""

    def answer(request):
        if request.method == "POST" and request.json["method"] == "GetTask":
            whole = task("COMPLETED", artifacts=[{"artifactId": "a", "parts": [{"text": "one two"}]}])["task"]
            return answer_json({"jsonrpc": "2.0", "id": request.json["id"], "result": whole})
        return streams(request)

    streams = answers(([artifact("two"), status("COMPLETED")], [3, 4], True))
    async with open_raw(answer) as raw:
        await watch_task(
            session(as_json=False), url=raw.url, task_id="t", after=2, save=str(tmp_path), cancel_on_interrupt=False
        )
        (asked,) = [r for r in raw.requests if r.method == "POST" and r.json["method"] == "SubscribeToTask"]

    assert asked.headers["last-event-id"] == "2"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one two"
