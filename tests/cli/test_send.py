"""`trio-a2a send`."""

import json

import pytest

from .program import run, run_json


@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON", "http+json"])
def test_a_stream_is_printed_as_it_comes_and_reads_well(able, transport):
    result = run("send", able, "hi there", "--transport", transport)

    assert result.returncode == 0, result.stderr
    first, *rest = result.stdout.splitlines()
    assert first.startswith("task ")
    assert rest[-5:] == ["[working] thinking", "--- greeting", "Hello, world", "and there", "[completed] done"]
    assert not result.stderr
    assert "\x1b" not in result.stdout


def test_the_same_without_a_stream(able):
    result = run("send", able, "hi there", "--no-stream")

    assert result.returncode == 0
    assert result.stdout.endswith("--- greeting\nHello, world\nand there\n[completed] done\n")


def test_an_agent_that_does_not_stream_is_waited_for(blocking):
    result = run("send", blocking, "hi there")

    assert result.returncode == 0
    assert result.stdout.endswith("[completed] done\n")


def test_a_stream_of_an_agent_that_does_not_stream_is_refused(blocking):
    result = run("send", blocking, "hi", "--stream")

    assert (result.returncode, result.stderr) == (1, "trio-a2a: The agent does not stream\n")


def test_json_has_an_event_a_line_in_wire_form(able):
    events = run_json("send", able, "hi")

    assert set(events[0]) == {"task"}
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    texts = [e["artifactUpdate"]["artifact"]["parts"][0]["text"] for e in events if "artifactUpdate" in e]
    assert "".join(texts) == "Hello, world\nand good bye"


def test_json_of_a_blocking_call_is_one_line(able):
    (answer,) = run_json("send", able, "hi", "--no-stream")

    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("option", ["--stream", "--no-stream"])
def test_a_direct_reply_is_printed_alone(able, option):
    result = run("send", able, "reply Good day.", option)

    assert (result.returncode, result.stdout) == (0, "Good day.\n")


def test_a_task_that_fails_is_exit_status_1_and_its_text_cannot_touch_the_terminal(able):
    result = run("send", able, "fail")

    assert result.returncode == 1
    assert result.stdout.endswith("[failed] It is \ufffd[31mbroken\ufffd[0m.\n")


def test_a_question_says_how_to_answer_and_the_answer_continues_the_task(able):
    asked = run("send", able, "ask")
    (task_line,) = [line for line in asked.stdout.splitlines() if line.startswith("task ")]
    task_id = task_line.split()[1]
    answered = run_json("send", able, "hi", "--task", task_id)

    assert asked.returncode == 0
    assert asked.stdout.endswith("[input-required] Which one?\n")
    assert asked.stderr == f"trio-a2a: the agent waits for an answer: trio-a2a send {able} TEXT --task {task_id}\n"
    assert answered[-1]["statusUpdate"]["taskId"] == task_id
    assert answered[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_no_wait_returns_while_the_agent_works(able):
    (answer,) = run_json("send", able, "hold", "--no-wait")
    canceled = run("task", "cancel", able, answer["task"]["id"])

    assert answer["task"]["status"]["state"] in {"TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"}
    assert canceled.returncode == 0
    assert "[canceled]" in canceled.stdout


def test_a_conversation_is_named(able):
    (answer,) = run_json("send", able, "hi", "--no-stream", "--context", "ours")

    assert answer["task"]["contextId"] == "ours"


def test_files_and_data_are_parts_of_the_message(able, tmp_path):
    (tmp_path / "note.md").write_text("# A note", encoding="utf-8")
    (tmp_path / "blob.xyzzy").write_text("bytes", encoding="utf-8")
    (tmp_path / "data.json").write_text('{"b": 2}', encoding="utf-8")

    result = run(
        "send", able, "parts", "--file", "note.md", "--file", str(tmp_path / "blob.xyzzy"),
        "--data", '{"a": 1}', "--data", "@data.json", cwd=tmp_path,
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    told = [line for line in result.stdout.splitlines() if line.startswith(("raw", "data"))]
    assert told == [
        "raw note.md text/markdown # A note",
        "raw blob.xyzzy application/octet-stream bytes",
        "data   {'a': 1}",
        "data   {'b': 2}",
    ]


def test_a_dash_reads_the_text_from_standard_input(able):
    result = run("send", able, "-", stdin="reply Gr\u00fc\u00dfe\n")

    assert result.stdout == "Gr\u00fc\u00dfe\n\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "there is nothing to send: give TEXT, --file or --data"),
        (("--data", "{"), "--data is no JSON"),
        (("--data", "@absent.json"), "'absent.json' cannot be read: No such file or directory"),
        (("--file", "absent.txt"), "'absent.txt' cannot be read: No such file or directory"),
        (("--file", "."), "'.' cannot be read: Is a directory"),
        (("hi", "--no-wait", "--stream"), "--no-wait and --stream exclude each other"),
        (("hi", "--no-wait", "--save", "x"), "--no-wait and --save exclude each other"),
        (("hi", "--timeout", "0"), "0"),
        (("hi", "--timeout", "soon"), "'soon' is not a valid float"),
        (("hi", "--header", "no colon"), "is not of the form 'Name: value'"),
        (("hi", "--header", "X-Y: \u00fc"), "is not printable ASCII"),
        (("hi", "--bearer", "t\u00f6ken"), "a token is printable ASCII"),
        (("hi", "--transport", "PIGEON"), "'PIGEON' is not one of"),
        (("hi", "--nonsense"), "No such option"),
        (("hi", "--header", "Authorization:", "Bearer", "s3cret"), "more arguments than the command takes"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_status_2(arguments, says):
    """Before anything is sent: there is no agent at this URL."""
    result = run("send", "http://127.0.0.1:9", *arguments)

    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("trio-a2a: ")
    assert says in result.stderr
    assert "s3cret" not in result.stderr


def test_standard_input_that_is_no_text_is_wrong_usage():
    result = run("send", "http://127.0.0.1:9", "-", stdin=b"\xff")

    assert result.returncode == 2
    assert "no UTF-8 text" in result.stderr


def test_artifacts_are_saved_inside_the_directory_and_nothing_is_overwritten(able, tmp_path):
    out = tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    (out / "escape.txt").write_text("mine", encoding="utf-8")

    result = run("send", able, "files", "--save", str(out))

    assert result.returncode == 0, result.stderr
    saved = {path.name: path.read_text(encoding="utf-8") for path in out.iterdir()}
    assert saved == {
        "escape.txt": "mine",
        "escape-1.txt": "one",
        "escape-2.txt": "two",
        "results.json": '{\n  "answer": 42\n}\n',
        "results.url": "https://example.com/far\n",
    }
    assert {path.name for path in tmp_path.rglob("*")} == {"deep", "out", *saved}
    assert f"saved {out / 'escape-1.txt'} (3 bytes)" in result.stdout


def test_json_tells_what_was_saved(able, tmp_path):
    lines = run_json("send", able, "hi", "--save", str(tmp_path))

    assert lines[-1]["saved"]["path"] == str(tmp_path / "greeting.txt")
    assert (tmp_path / "greeting.txt").read_text(encoding="utf-8") == "Hello, world\nand good bye"


def test_a_directory_that_cannot_be_made_is_told_before_anything_is_sent(tmp_path):
    (tmp_path / "file").touch()

    result = run("send", "http://127.0.0.1:9", "hi", "--save", str(tmp_path / "file" / "below"))

    assert result.returncode == 2
    assert "cannot be made a directory" in result.stderr


def test_a_call_that_takes_too_long_is_told(able):
    result = run("send", able, "hold", "--no-stream", "--timeout", "0.3")

    assert result.returncode == 1
    assert result.stderr == "trio-a2a: SendMessage took longer than 0.3 seconds: --timeout gives it more\n"


def test_an_error_in_json_is_an_object_on_standard_error():
    result = run("send", "http://127.0.0.1:9", "hi", "--json")

    assert result.returncode == 1
    assert not result.stdout
    error = json.loads(result.stderr)["error"]
    assert error["type"] == "ConnectionFailedError"
    assert error["message"]


@pytest.mark.parametrize("option", ["--timeout", "--wait"])
def test_what_is_no_number_of_seconds_is_wrong_usage(option):
    result = run("doctor", "http://127.0.0.1:1", option, "nan")
    assert result.returncode == 2
    assert "not a number of seconds" in result.stderr


def test_wrong_usage_in_json_is_an_object_too():
    result = run("send", "--json")

    assert result.returncode == 2
    assert json.loads(result.stderr)["error"]["type"] == "UsageError"
