"""`trio-a2a serve --store`: where tasks and webhooks are kept, and what is said about it."""

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text

from tests.stores.databases import KINDS, connect_to, database

from .program import DEADLINE, run, run_json, running

MODULE = """
import trio
import trio_a2a
from trio_a2a.abc import TaskStore
from trio_a2a.stores import InMemoryPushConfigStore, InMemoryTaskStore


async def greeter(context, updater):
    await updater.complete("hello")


class Endless:
    async def execute(self, context, updater):
        await updater.start_work()
        await trio.sleep_forever()

    async def resume(self, context, updater):
        await updater.complete("taken up again")


card = trio_a2a.agent_card("Named", "Has a card.")
endless = trio_a2a.Agent(card, Endless())
memory = InMemoryTaskStore()
agent = trio_a2a.Agent(card, greeter, store=memory, state_provider=memory, push=InMemoryPushConfigStore())
app = trio_a2a.A2AApp(agent)


class OwnStore(TaskStore):
    get = commit = delete = list = greeter


own = trio_a2a.Agent(card, greeter, store=OwnStore())
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "greeting.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


@contextlib.contextmanager
def serving(here: Path, *arguments: str, **env: str) -> Iterator[tuple[str, str]]:
    """Serve; the value is the URL and the line that names it. The server is told to end, and must do so in order."""
    with running("serve", *arguments, "--port", "0", cwd=here, env=env) as process:
        said = process.stdout.readline()
        match = re.search(r"http://\S+", said)
        assert match, process.stderr.read()
        yield match[0], said
        process.terminate()
        assert process.wait(DEADLINE) == 0


def send(url: str) -> str:
    """Send a message; returns the id of the task."""
    return run_json("send", url, "hello", "--no-stream")[0]["task"]["id"]


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_in_a_database_are_there_after_a_restart(here, kind):
    with database(kind, here) as store:
        with serving(here, "greeting:greeter", "--store", store) as (url, said):
            task_id = send(url)
        assert f"kept in {store.partition(':')[0]}:" in said
        with serving(here, "greeting:greeter", "--store", store) as (url, _):
            (task,) = run_json("task", "get", url, task_id)
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert run("db", "check", store).returncode == 0


@pytest.mark.parametrize("target", ["greeting:greeter", "greeting:agent"])
def test_without_a_store_tasks_are_in_memory_and_that_is_said(here, target):
    with serving(here, target) as (url, said):
        assert "(tasks are kept in memory)" in said
        send(url)
    assert {path.name for path in here.iterdir()} <= {"greeting.py", "__pycache__"}


def test_a_database_takes_the_place_of_stores_in_memory_webhooks_included(here):
    """Encrypted with the key in the environment, which is told neither on the command line nor in the output."""
    store, key = f"sqlite:///{here / 'tasks.db'}", Fernet.generate_key().decode()
    old = Fernet.generate_key().decode()
    with serving(here, "greeting:app", "--store", store, TRIO_A2A_PUSH_KEY=old) as (url, said):
        assert said.rstrip().endswith("tasks.db, webhooks too); Ctrl-C ends it")
        task_id = send(url)
        run_json("push", "add", url, task_id, "https://example.com/s3cret", "--id", "mine")
    engine = connect_to(store)
    with engine.connect() as connection:
        (body,) = connection.scalars(text("SELECT body FROM a2a_push_configs"))
    engine.dispose()
    assert b"s3cret" not in bytes(body)
    with serving(here, "greeting:app", "--store", store, TRIO_A2A_PUSH_KEY=f"{key}, {old}") as (url, _):
        assert run_json("push", "list", url, task_id)[0]["id"] == "mine"


def test_webhooks_without_a_key_are_kept_and_that_is_said(here):
    with serving(here, "greeting:agent", "--store", "sqlite:///tasks.db") as (url, said):
        assert "kept in sqlite:///tasks.db, webhooks too, not encrypted: TRIO_A2A_PUSH_KEY is not set" in said
        task_id = send(url)
        run_json("push", "add", url, task_id, "https://example.com", "--id", "mine")
        assert run_json("push", "list", url, task_id)


def test_the_store_may_be_in_the_environment(here):
    with serving(here, "greeting:greeter", TRIO_A2A_STORE="sqlite:///tasks.db") as (_, said):
        assert "kept in sqlite:///tasks.db" in said


def test_an_agent_with_another_store_of_its_own_keeps_it_and_that_is_said(here):
    with serving(here, "greeting:own") as (_, said):
        assert "(tasks are kept by the agent's own OwnStore)" in said


def test_a_grace_period_and_a_retention_are_taken(here):
    options = ("--grace-period", "2", "--retention", "30d")
    with serving(here, "greeting:greeter", "--store", "sqlite:///tasks.db", *options) as (url, _):
        send(url)
    with serving(here, "greeting:greeter", "--grace-period", "0") as (url, said):
        assert "in memory" in said
        send(url)


@pytest.mark.parametrize(
    ("policy", "state"),
    [("keep", "TASK_STATE_WORKING"), ("fail", "TASK_STATE_FAILED"), ("resume", "TASK_STATE_COMPLETED")],
)
def test_a_task_whose_server_ended_is_treated_as_the_user_says(here, policy, state):
    options = ("--store", "sqlite:///tasks.db", "--on-orphan", policy)
    with serving(here, "greeting:endless", *options, "--grace", "0") as (url, _):
        task_id = run_json("send", url, "hello", "--no-wait")[0]["task"]["id"]
    with serving(here, "greeting:endless", *options) as (url, _):
        if policy == "keep":
            (task,) = run_json("task", "get", url, task_id)
        else:
            task = _when_over(url, task_id)
    assert task["status"]["state"] == state


def _when_over(url, task_id):
    """The task that recovery, which begins when the server serves already, has ended."""
    end = time.monotonic() + DEADLINE
    while True:
        (task,) = run_json("task", "get", url, task_id)
        if task["status"]["state"] != "TASK_STATE_WORKING":
            return task
        assert time.monotonic() < end


@pytest.mark.parametrize(
    ("arguments", "env", "says"),
    [
        (("greeting:own", "--store", "sqlite:///tasks.db"), {}, "has a store of its own, a OwnStore"),
        (("greeting:agent", "--grace-period", "1"), {}, "has a store of its own: give that the grace period"),
        (("greeting:greeter", "--retention", "1d"), {}, "--retention needs --store"),
        (("greeting:greeter", "--on-orphan", "keep"), {}, "--on-orphan needs --store"),
        (("greeting:own", "--store", "sqlite:///t.db", "--on-orphan", "keep"), {}, "and --on-orphan"),
        (("greeting:greeter", "--store", "sqlite:///t.db", "--retention", "5s"), {}, "retention must be more seconds"),
        (("greeting:greeter", "--store", "oracle://scott:tiger@host"), {}, "use sqlite:///FILE"),
        (
            ("greeting:greeter", "--store", "mariadb://me:tiger@127.0.0.1:1/db"),
            {},
            "cannot be kept in mariadb://me:***@127.0.0.1:1/db: the database cannot be opened",
        ),
        (
            ("greeting:agent", "--store", "sqlite:///t.db"),
            {"TRIO_A2A_PUSH_KEY": "tiger"},
            "an encryption key (TRIO_A2A_PUSH_KEY) is 32 bytes",
        ),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_status_2(here, arguments, env, says):
    result = run("serve", *arguments, "--port", "0", cwd=here, env=env)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert says in result.stderr
    assert "tiger" not in result.stderr


def test_without_the_extra_its_name_is_told(here):
    program = "import sys; sys.modules['sqlalchemy'] = None; from trio_a2a.cli import main; main()"
    arguments = [sys.executable, "-c", program, "serve", "greeting:greeter", "--store", "sqlite:///tasks.db"]
    done = subprocess.run(arguments, cwd=here, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'trio-a2a[sql]'" in done.stderr
