"""What a shell can do to a command: close its streams, fill its disk, and give it bytes that are no text."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from .program import COMMAND, DEADLINE, environment, run

NOWHERE = "http://127.0.0.1:1"


def shell(command: str, *arguments: str | bytes) -> subprocess.CompletedProcess[bytes]:
    """Run the command by a shell, which stands for it as ``trio-a2a "$@"``."""
    script = f'exec "$0" "$1" "$2" {command}'
    return subprocess.run(
        ["sh", "-c", script, *COMMAND, *arguments],
        env=environment(),
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )


@pytest.mark.parametrize("option", ["", "--json"])
def test_who_closes_standard_output_does_not_want_it(able, option):
    result = shell(f"card {able} {option} >&-")
    assert (result.returncode, result.stderr) == (0, b"")


def test_an_error_does_not_go_to_standard_output_where_standard_error_is_closed():
    """Python would print it there; a script reads that as the answer."""
    result = shell(f"card {NOWHERE} --json 2>&-")
    assert (result.returncode, result.stdout) == (1, b"")


def test_a_text_from_a_closed_standard_input_is_empty(able):
    result = shell(f"send {able} - <&-")
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith(b"[completed] done\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="here is no disk that is always full")
@pytest.mark.parametrize("command", ["--help", "card {able}", "card {able} --json"])
def test_a_full_disk_is_one_line_and_a_status(able, command):
    result = shell(command.format(able=able) + " >/dev/full")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert b"No space left" in result.stderr


def test_a_status_is_told_also_where_nobody_reads_the_error():
    """2 for wrong usage, not the 1 of an error while telling it."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run([*COMMAND, "card"], env=environment(), stderr=write, timeout=DEADLINE, check=False)
    finally:
        os.close(write)
    assert done.returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["send", NOWHERE, b"\xff"],
        ["send", NOWHERE, "hi", "--task", b"\xff"],
        ["send", NOWHERE, "--data", b'"\xff"'],
        ["task", "get", NOWHERE, b"\xff"],
        ["card", b"http://\xff"],
        ["push", "add", NOWHERE, "t", "http://w", "--token", b"\xff"],
    ],
)
def test_what_is_no_text_is_wrong_usage(arguments):
    done = subprocess.run([*COMMAND, *arguments], env=environment(), capture_output=True, timeout=DEADLINE, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert b"no UTF-8 text" in done.stderr


def test_a_file_whose_name_is_no_text_can_be_sent(able, tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.txt"
    Path(os.fsdecode(path)).write_bytes(b"content")
    done = subprocess.run(
        [*COMMAND, "send", able, "parts", "--file", path, "--json"],
        env=environment(),
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\N{REPLACEMENT CHARACTER}.txt" in json.dumps(
        [json.loads(line) for line in done.stdout.splitlines()], ensure_ascii=False
    )


def test_the_help_needs_no_stream_at_all():
    assert run("--help").returncode == 0
    assert shell("--help <&- >&- 2>&-").returncode == 0
