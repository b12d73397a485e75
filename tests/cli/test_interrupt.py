"""Ctrl-C, and readers that go away."""

import os
import signal
import subprocess

import pytest

from .program import COMMAND, DEADLINE, environment, run, run_json, running


def _until(process, wanted: str) -> list[str]:
    lines = []
    while wanted not in (lines[-1] if lines else ""):
        line = process.stdout.readline()
        assert line, process.stderr.read()
        lines.append(line)
    return lines


def test_ctrl_c_leaves_the_task_at_work_and_tells_how_to_come_back(able):
    with running("send", able, "hold") as process:
        lines = _until(process, "[working]")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 130
        told = process.stderr.read()

    task_id = lines[0].split()[1]
    assert told == f"trio-a2a: interrupted; the agent works on: trio-a2a task watch {able} {task_id}\n"
    (task,) = run_json("task", "get", able, task_id)
    assert task["status"]["state"] == "TASK_STATE_WORKING"


@pytest.mark.parametrize("command", ["send", "watch"])
def test_ctrl_c_cancels_the_task_where_that_is_wanted(able, command):
    if command == "send":
        arguments = ("send", able, "hold", "--cancel-on-interrupt")
    else:
        (answer,) = run_json("send", able, "hold", "--no-wait")
        arguments = ("task", "watch", able, answer["task"]["id"], "--cancel-on-interrupt")
    with running(*arguments) as process:
        task_id = _until(process, "[working]")[0].split()[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 130
        assert process.stderr.read() == f"trio-a2a: interrupted; the task {task_id} is canceled\n"

    (task,) = run_json("task", "get", able, task_id)
    assert task["status"]["state"] == "TASK_STATE_CANCELED"


def test_ctrl_c_cancels_a_task_that_is_not_streamed(blocking):
    """The answer would name the task too late, so it is asked for at once, and the task is looked at until it ends."""
    before = {task["id"] for task in run_json("task", "list", blocking, "--state", "working")}
    with running("send", blocking, "hold", "--cancel-on-interrupt", "--debug") as process:
        while "SendMessage: answered" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 130
        assert "is canceled" in process.stderr.read()

    assert {task["id"] for task in run_json("task", "list", blocking, "--state", "working")} == before


def test_ctrl_c_before_there_is_a_task_says_so(blocking):
    with running("send", blocking, "hold", "--debug") as process:
        while "SendMessage: called" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 130
        assert "interrupted before the agent named a task" in process.stderr.read()


def test_a_reader_that_goes_away_ends_the_command_quietly(able):
    with running("send", able, "hi") as process:
        process.stdout.close()
        assert process.wait(DEADLINE) == 1
        assert not process.stderr.read()


def test_debug_shows_more_and_no_secret(able):
    """A traceback, the calls; the token is blanked out wherever it would stand."""
    result = run("task", "get", able, "nobody", "--debug", "--bearer", "sw0rdfish", "--header", "X-Key: sw0rdfish2")
    echoed = run("task", "get", f"{able}/sw0rdfish", "x", "--debug", "--bearer", "sw0rdfish")

    assert result.returncode == 1
    assert "GetTask: called" in result.stderr
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("trio-a2a: Task not found\n")
    assert "sw0rdfish" not in result.stderr + result.stdout + echoed.stderr + echoed.stdout


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals here")
def test_a_terminal_shows_live_progress_and_then_the_whole(able):
    read, write = os.openpty()
    process = None
    try:
        process = subprocess.Popen(
            [*COMMAND, "send", able, "hi"], stdout=write, stderr=write, env={**environment(), "TERM": "xterm"}
        )
        os.close(write)
        shown = b""
        while True:
            try:
                data = os.read(read, 65536)
            except OSError:  # so the end of a terminal is told
                break
            if not data:
                break
            shown += data
        assert process.wait(DEADLINE) == 0
    finally:
        os.close(read)
        if process is not None:
            process.kill()
            process.wait(DEADLINE)

    text = shown.decode().replace("\r\n", "\n")
    assert "\x1b[36m[working] thinking" in text
    assert text.endswith("--- greeting\nHello, world\nand good bye\n[completed] done\n")


def test_help_that_nobody_reads_ends_quietly():
    with running("--help") as process:
        process.stdout.close()
        assert process.wait(DEADLINE) in {0, 1}
        assert not process.stderr.read()


def test_ctrl_c_while_the_text_is_typed_is_an_interruption():
    """Before there is any connection: standard input is read first."""
    process = subprocess.Popen(
        [*COMMAND, "send", "http://127.0.0.1:9", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment(), "PYTHONPROFILEIMPORTTIME": "1"},
    )
    with process:
        try:
            # What is imported is told; the last import before the read is that of the module that reads.
            while b"trio_a2a.cli.session" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE) == 130
        finally:
            process.kill()
