"""One run of a command: its interruptions, its ways out, and what is told of them; in the tests' own process."""

import json
import logging
import signal
import sys
from pathlib import Path

import pytest
import trio

from tests.client.peers import answer_json, card_json, http, open_raw
from tests.client.scripted import END, ScriptedTransport, client_of
from tests.deadline import within
from trio_a2a.cli import program
from trio_a2a.cli.doctor import examine
from trio_a2a.cli.failures import CommandError, described, members_of
from trio_a2a.cli.interruption import after_interrupt
from trio_a2a.cli.outcome import conclude
from trio_a2a.cli.output import Output
from trio_a2a.cli.progress import follow, open_display
from trio_a2a.cli.redaction import Redaction
from trio_a2a.cli.saving import make_directory, save_artifacts
from trio_a2a.cli.session import Connection, Interrupts, Session, run_session
from trio_a2a.cli.text import printable
from trio_a2a.client import ConnectionLostError, HttpStatusError, StreamInterruptedError
from trio_a2a.errors import A2AError, FieldViolation, InvalidParamsError, TaskNotCancelableError
from trio_a2a.types import (
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
)


def output(*, as_json: bool = False) -> Output:
    return Output(as_json=as_json, redaction=Redaction([]))


def task(state: TaskState = TaskState.WORKING, *artifacts: Artifact) -> Task:
    return Task(id="t", context_id="c", status=TaskStatus(state=state), artifacts=artifacts)


def piece(text: str, *, append: bool = True) -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact, append=append)


# --- Signals ----------------------------------------------------------------------------------------------------------


@within(10)
async def test_each_signal_ends_the_innermost_block_that_does_not_end_yet():
    interrupts = Interrupts()
    async with trio.open_nursery() as nursery:
        await nursery.start(interrupts.listen)
        with interrupts.scope() as outer, interrupts.scope() as inner:
            signal.raise_signal(signal.SIGINT)
            with trio.CancelScope(shield=True):
                while not inner._scope.cancel_called:
                    await trio.lowlevel.checkpoint()
                assert not outer._scope.cancel_called
                signal.raise_signal(signal.SIGINT)
                while not outer._scope.cancel_called:
                    await trio.lowlevel.checkpoint()
            await trio.sleep_forever()
        nursery.cancel_scope.cancel()

    assert outer.interrupted
    assert interrupts.interrupted


@within(10)
async def test_a_signal_that_nobody_waits_for_is_remembered():
    interrupts = Interrupts()
    async with trio.open_nursery() as nursery:
        await nursery.start(interrupts.listen)
        signal.raise_signal(signal.SIGINT)
        while not interrupts.interrupted:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


@within(1000)
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (task(TaskState.CANCELED), "interrupted; the task t is canceled"),
        (TaskNotCancelableError("It refuses."), "interrupted; the task t could not be canceled: It refuses."),
        (60.0, "interrupted; the task t may go on: the agent did not answer in 10 seconds"),
    ],
)
async def test_the_last_word_to_the_agent_is_told_and_bounded(capsys, autojump_clock, answer, says):
    client = client_of(ScriptedTransport(answers=[answer]))

    assert await after_interrupt(client, "http://x", "t", output(), cancel=True) == 130

    assert capsys.readouterr().err == f"trio-a2a: {says}\n"


@within(10)
async def test_scripts_get_the_canceled_task(capsys):
    client = client_of(ScriptedTransport(answers=[task(TaskState.CANCELED)]))

    await after_interrupt(client, "http://x", "t", output(as_json=True), cancel=True)

    assert json.loads(capsys.readouterr().out)["status"]["state"] == "TASK_STATE_CANCELED"


# --- Ways out ---------------------------------------------------------------------------------------------------------


def leaves(command, **options) -> int:
    with pytest.raises(SystemExit) as left:
        run_session(command, **options)
    return left.value.code


def raising(exc: BaseException):
    async def command(session):
        raise exc

    return command


@pytest.mark.parametrize(
    ("failure", "status", "says"),
    [
        (CommandError("No room.", status=2), 2, "No room."),
        (ConnectionLostError("gone\n  away"), 1, "gone away"),
        (ExceptionGroup("", [ConnectionLostError("gone")]), 1, "gone"),
        (ZeroDivisionError("by zero"), 1, "ZeroDivisionError: by zero (--debug shows more)"),
        (ImportError("the client needs: pip install 'trio-a2a[client]'"), 2, "pip install 'trio-a2a[client]'"),
        (ConnectionLostError("the key s3cret is bad"), 1, "the key *** is bad"),
    ],
)
def test_a_failure_is_one_line_and_a_status(capsys, monkeypatch, failure, status, says):
    monkeypatch.setattr(sys, "argv", ["trio-a2a"])

    assert leaves(raising(failure), secrets=["s3cret"]) == status

    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert says in told


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), BaseExceptionGroup("", [KeyboardInterrupt()])])
def test_an_interruption_outside_of_the_receiver_is_one_too(failure):
    assert leaves(raising(failure)) == 130


def test_debug_cannot_touch_the_terminal_either(capsys, monkeypatch):
    """A traceback quotes what the agent said, and so may a line of the log."""
    monkeypatch.setattr(sys, "argv", ["trio-a2a"])
    evil = "\x1b]0;title\x07\x9b2J"

    async def command(session):
        logging.getLogger("trio_a2a.client").debug("took up the stream of task %s again", evil)
        raise A2AError(evil)

    logger = logging.getLogger("trio_a2a")
    before = logger.handlers[:], logger.level
    try:
        assert leaves(command, debug=True) == 1
    finally:
        logger.handlers[:] = before[0]
        logger.setLevel(before[1])

    told = capsys.readouterr().err
    assert told == printable(told)
    assert "took up the stream" in told
    assert "Traceback" in told


def test_secrets_are_blanked_out_of_every_part_of_an_error_for_programs(capsys, monkeypatch):
    """A server may repeat the token in whatever it likes."""
    monkeypatch.setattr(sys, "argv", ["trio-a2a", "--json"])
    echo = InvalidParamsError(
        "s3cret", metadata={"s3cret": "s3cret"}, violations=[FieldViolation("s3cret", "not s3cret")]
    )

    assert leaves(raising(echo), as_json=True, secrets=["s3cret"]) == 1

    told = capsys.readouterr().err
    assert "s3cret" not in told
    assert json.loads(told)["error"]["violations"] == [{"field": "***", "description": "not ***"}]


def test_a_hint_can_be_copied_into_a_shell_whatever_the_agent_calls_its_task(capsys):
    waits = Task(id="t; reboot", status=TaskStatus(state=TaskState.INPUT_REQUIRED))

    assert conclude(waits, url="http://x/?a=1&b=2", save=None, output=output()) == 0

    assert "trio-a2a send 'http://x/?a=1&b=2' TEXT --task 't; reboot'" in capsys.readouterr().err


def test_a_group_of_failures_is_told_as_one(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["trio-a2a"])

    assert leaves(raising(ExceptionGroup("two", [ValueError("a"), ValueError("b")]))) == 1

    assert "ExceptionGroup: two" in capsys.readouterr().err


def test_errors_for_programs_have_what_the_agent_said():
    invalid = InvalidParamsError(violations=[FieldViolation("message", "Is required")])
    unknown = A2AError("odd", metadata={"code": "-31999"})
    broken = StreamInterruptedError("broke", task_id="t", last_sequence=4)

    assert members_of(invalid)["violations"] == [{"field": "message", "description": "Is required"}]
    assert members_of(unknown)["code"] == -31999
    assert "reason" not in members_of(unknown)
    assert members_of(HttpStatusError(502))["status"] == 502
    assert members_of(broken) == {
        "type": "StreamInterruptedError",
        "message": "broke",
        "taskId": "t",
        "lastSequence": 4,
    }
    assert described(ConnectionLostError()) == "ConnectionLostError"


def test_an_import_that_fails_for_another_reason_is_not_taken_for_a_missing_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "trio_a2a.cli.commands", None)

    with pytest.raises(ModuleNotFoundError, match="commands"):
        program.main()


@within(10)
async def test_headers_go_to_the_card_s_place_too_and_the_token_does_not():
    """A gateway that hides what it guards answers 404 without its header: nothing asks for it."""

    def answer(request):
        if request.headers.get("x-gateway") != "key":
            return http(404)
        return answer_json(card_json("/rpc"))

    connection = Connection(bearer="s3cret", headers=(("x-gateway", "key"),))
    async with open_raw(answer) as raw:
        async with Session(connection=connection, output=output()).open_client(raw.url) as client:
            assert client.card.name == "Raw"
        assert [r.headers.get("authorization") for r in raw.requests] == [None]


@within(10)
async def test_the_doctor_shows_headers_at_the_card_s_place_too(capsys):
    def answer(request):
        if request.headers.get("x-gateway") != "key":
            return http(404)
        return answer_json(card_json(f"{raw.url}/rpc")) if request.path.endswith(".json") else http(500)

    connection = Connection(bearer="s3cret", headers=(("x-gateway", "key"),))
    async with open_raw(answer) as raw:
        session = Session(connection=connection, output=output(as_json=True))
        await examine(session, url=raw.url, send=False, strict=False, wait=1)
        assert raw.requests[0].headers.get("authorization") is None
    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"severity": "ok", "area": "card", "check": "place"}.items() <= findings[0].items()


@within(10)
async def test_a_url_that_is_none_is_wrong_usage():
    session = Session(connection=Connection(), output=output())

    with pytest.raises(CommandError, match="absolute") as refused:
        async with session.open_client("nonsense"):
            pass

    assert refused.value.status == 2


# --- Ends -------------------------------------------------------------------------------------------------------------


def test_files_of_a_direct_reply_are_saved(tmp_path):
    reply = Message.agent([Part(text="See the file."), Part(raw=b"x", filename="x.bin")])

    assert conclude(reply, url="u", save=str(tmp_path), output=output()) == 0
    assert conclude(Message.agent("only text"), url="u", save=str(tmp_path), output=output()) == 0
    assert conclude(None, url="u", save=None, output=output()) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["x.bin"]


@pytest.mark.parametrize(
    ("state", "status"), [("COMPLETED", 0), ("AUTH_REQUIRED", 0), ("FAILED", 1), ("REJECTED", 1), ("CANCELED", 1)]
)
def test_the_state_decides_the_status(capsys, state, status):
    assert conclude(task(TaskState[state]), url="u", save=None, output=output()) == status
    assert ("waits for an authorization" in capsys.readouterr().err) is (state == "AUTH_REQUIRED")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="here is no directory that nobody can write to")
def test_a_directory_that_cannot_be_written_to_is_told_before_anything_is_sent():
    """Not when the agent has worked for an hour. In this one even the superuser can make no file."""
    with pytest.raises(CommandError, match="nothing can be written to '/proc/self'") as refused:
        make_directory("/proc/self")
    assert refused.value.status == 2


def test_a_directory_that_is_gone_is_told(tmp_path):
    with pytest.raises(CommandError, match="cannot be written"):
        save_artifacts([Artifact(artifact_id="a", parts=[Part(text="x")])], str(tmp_path / "gone"), output())


def test_too_many_files_of_one_name_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("trio_a2a.cli.saving._MOST", 2)
    artifacts = [Artifact(artifact_id="a", parts=[Part(raw=b"x", filename="plain")])] * 3

    with pytest.raises(CommandError, match="too many"):
        save_artifacts(artifacts, str(tmp_path), output())

    assert {path.name for path in tmp_path.iterdir()} == {"plain", "plain-1"}


# --- Progress ---------------------------------------------------------------------------------------------------------


def terminal(monkeypatch) -> Output:
    monkeypatch.setattr("trio_a2a.cli.output.Output.is_live", property(lambda _self: True))
    return output()


@within(1000)
async def test_a_person_is_told_of_a_new_connection_and_gets_the_whole(capsys, monkeypatch, autojump_clock):
    shown = terminal(monkeypatch)
    first = [(task(), 1), (piece("one ", append=False), 2), ConnectionLostError("gone")]
    second = [(piece("two"), 3), (task(TaskState.COMPLETED), 4), END]
    client = client_of(ScriptedTransport(first, second))

    async with client.subscribe("t") as events:
        with open_display(shown) as display:
            await follow(events, display)

    told = capsys.readouterr().out
    assert "(the stream broke and was resumed (once; nothing was missed))" in told


@within(1000)
async def test_a_person_gets_what_there_was_when_the_stream_fails(capsys, monkeypatch, autojump_clock):
    shown = terminal(monkeypatch)
    client = client_of(ScriptedTransport([(task(), 1), (piece("so far", append=False), 2), A2AError("over")]))

    with pytest.raises(A2AError, match="over"):
        async with client.subscribe("t") as events:
            with open_display(shown) as display:
                await follow(events, display)

    assert "so far\n[working]" in capsys.readouterr().out


@within(1000)
async def test_a_person_gets_a_direct_reply(capsys, monkeypatch, autojump_clock):
    shown = terminal(monkeypatch)
    client = client_of(ScriptedTransport([Message.agent("Good day."), END]))

    async with client.stream("hi") as events:
        with open_display(shown) as display:
            await follow(events, display)

    assert capsys.readouterr().out.endswith("Good day.\n")


@within(1000)
async def test_what_is_no_text_has_a_line_of_its_own_among_pieces(capsys, autojump_clock):
    file = TaskArtifactUpdateEvent(
        task_id="t",
        context_id="c",
        artifact=Artifact(artifact_id="a", parts=[Part(raw=b"xy", filename="f")]),
        append=True,
    )
    events = [
        task(),
        piece("text", append=False),
        file,
        piece("more"),
        task(TaskState.WORKING),
        task(TaskState.COMPLETED),
        END,
    ]
    client = client_of(ScriptedTransport(events))

    async with client.subscribe("t") as stream:
        with open_display(output()) as display:
            await follow(stream, display)

    assert capsys.readouterr().out.splitlines() == [
        "task t (context c)",
        "[working]",
        "--- a",
        "text",
        "[file f: 2 bytes]",
        "more",
        "[completed]",
    ]
