"""`trio-a2a task` and `trio-a2a push`."""

import json

import pytest

from .program import run, run_json


@pytest.fixture(scope="module")
def finished(able) -> str:
    (answer,) = run_json("send", able, "hi", "--no-stream", "--context", "of-test-task")
    return answer["task"]["id"]


def test_a_task_is_shown(able, finished):
    shown = run("task", "get", able, finished, "--history", "5")
    (members,) = run_json("task", "get", able, finished, "--history", "0")

    assert shown.stdout.startswith(f"task {finished}\ncontext of-test-task\n")
    assert "user: hi\n" in shown.stdout
    assert shown.stdout.endswith("[completed] done\n")
    assert members["id"] == finished
    assert "history" not in members


def test_the_artifacts_of_a_task_are_saved(able, finished, tmp_path):
    result = run("task", "get", able, finished, "--save", str(tmp_path / "new"))

    assert (tmp_path / "new" / "greeting.txt").read_text(encoding="utf-8") == "Hello, world\nand good bye"
    assert "saved" in result.stdout


def test_an_unknown_task_is_one_line_or_one_object(able):
    text = run("task", "get", able, "nobody")
    as_json = run("task", "get", able, "nobody", "--json")

    assert (text.returncode, text.stderr) == (1, "trio-a2a: Task not found\n")
    assert json.loads(as_json.stderr)["error"] == {
        "type": "TaskNotFoundError",
        "message": "Task not found",
        "code": -32001,
        "reason": "TASK_NOT_FOUND",
        "metadata": {"taskId": "nobody"},
    }


def test_tasks_are_listed_by_filter(able, finished):
    ours = run_json("task", "list", able, "--context", "of-test-task")
    working = run_json("task", "list", able, "--context", "of-test-task", "--state", "working")
    later = run_json("task", "list", able, "--context", "of-test-task", "--since", "2999-01-01")
    since = run_json("task", "list", able, "--context", "of-test-task", "--since", "2020-01-01T00:00Z")
    row = run("task", "list", able, "--context", "of-test-task").stdout

    assert [task["id"] for task in ours] == [task["id"] for task in since] == [finished]
    assert working == later == []
    assert row.split()[:2] == [finished, "completed"]


def test_a_list_goes_on_over_its_pages_up_to_its_limit(able):
    for _ in range(3):
        run_json("send", able, "hi", "--no-stream", "--context", "of-pages")

    limited = run("task", "list", able, "--context", "of-pages", "--limit", "2")
    whole = run("task", "list", able, "--context", "of-pages")

    assert len(limited.stdout.splitlines()) == 2
    assert limited.stderr == "trio-a2a: 2 of 3 tasks\n"
    assert len(whole.stdout.splitlines()) == 3
    assert not whole.stderr


def test_an_empty_list_says_so(able):
    result = run("task", "list", able, "--context", "nobody's")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "trio-a2a: there are no such tasks\n")


def test_a_time_that_is_none_is_wrong_usage():
    result = run("task", "list", "http://127.0.0.1:9", "--since", "yesterday")

    assert result.returncode == 2
    assert "'yesterday' is no time" in result.stderr


def test_watching_a_task_that_is_over_shows_it(able, finished):
    text = run("task", "watch", able, finished)
    (members,) = run_json("task", "watch", able, finished)

    assert text.returncode == 0
    assert text.stdout.endswith("[completed] done\n")
    assert members["id"] == finished


def test_watching_needs_an_agent_that_streams(blocking):
    (answer,) = run_json("send", blocking, "hold", "--no-wait")
    result = run("task", "watch", blocking, answer["task"]["id"])

    assert (result.returncode, result.stderr) == (1, "trio-a2a: The agent does not stream\n")


def test_a_task_that_is_over_cannot_be_canceled(able, finished):
    result = run("task", "cancel", able, finished)

    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1


def test_webhooks_are_added_listed_and_removed(able, finished):
    added = run(
        "push", "add", able, finished, "https://example.com/hook", "--id", "one", "--token", "t0p-secret",
        "--auth-scheme", "Bearer", "--auth-credentials", "cr3dentials",
    )  # fmt: skip
    (made,) = run_json("push", "add", able, finished, "https://example.com/other")
    listed = run("push", "list", able, finished)
    in_json = run_json("push", "list", able, finished)
    removed = run("push", "remove", able, finished, "one")
    (gone,) = run_json("push", "remove", able, finished, made["id"])
    empty = run("push", "list", able, finished)

    assert added.stdout == "added one  https://example.com/hook (Bearer)\n"
    assert "one  https://example.com/hook (Bearer)\n" in listed.stdout
    assert "secret" not in listed.stdout
    assert {config["id"] for config in in_json} == {"one", made["id"]}
    assert removed.stdout == "removed one\n"
    assert gone == {"removed": {"taskId": finished, "id": made["id"]}}
    assert empty.stderr == "trio-a2a: the task has no webhooks\n"


def test_credentials_need_a_scheme():
    result = run("push", "add", "http://127.0.0.1:9", "t", "https://example.com", "--auth-credentials", "cr3dentials")

    assert result.returncode == 2
    assert "--auth-credentials needs --auth-scheme" in result.stderr
    assert "cr3dentials" not in result.stderr


def test_webhooks_of_an_agent_without_them_are_refused(blocking):
    result = run("push", "list", blocking, "any")

    assert (result.returncode, result.stderr) == (1, "trio-a2a: The agent has no push notifications\n")
