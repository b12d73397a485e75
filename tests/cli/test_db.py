"""`trio-a2a db`: looking after a database, as its operator does it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import trio
from sqlalchemy import text

from tests.stores.databases import KINDS, connect_to, database
from tests.stores.writers import TaskWriter
from trio_a2a.cli.options import read_span
from trio_a2a.errors import StoreError
from trio_a2a.stores import open_sql_store
from trio_a2a.testing import artifact, status, task
from trio_a2a.types import TaskState

from .program import DEADLINE, run, run_json

ANY: Any = None


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new database of each kind, for what the kinds do differently; the rest of it is tested below the command."""
    with database(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'tasks.db'}"


def fill(url: str, *, finished: int = 3, working: int = 1) -> None:
    """Tasks of three events each."""

    async def write() -> None:
        async with open_sql_store(url) as store:
            for number in range(finished + working):
                name = f"t{number}"
                writer = TaskWriter(name)
                await store.commit([writer.change(task(name, TaskState.WORKING)), writer.change(artifact(name, "x"))])
                if number < finished:
                    await store.commit([writer.change(status(name, TaskState.COMPLETED))])
                else:
                    await store.commit([writer.change(artifact(name, "y", append=True))])

    trio.run(write)


def opened(url: str) -> None:
    """Open the database as a program does whose user may not make tables."""

    async def open_store() -> None:
        async with open_sql_store(url, create=False):
            pass

    trio.run(open_store)


def execute(url: str, statement: str) -> None:
    engine = connect_to(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def line(result: subprocess.CompletedProcess[str], status: int = 0) -> str:
    """The one line that a command has said."""
    assert result.returncode == status, result.stderr
    said = result.stdout if status == 0 else result.stderr
    assert len(said.splitlines()) == 1
    return said.rstrip("\n")


# ------------------------------------------------------------------------------------------------------------ migrate


@pytest.mark.parametrize("before", [None, "0000"])
def test_an_old_database_is_brought_up_with_the_command_that_its_error_names(url, before):
    if before is not None:
        fill(url)
        execute(url, "UPDATE a2a_schema_version SET version_num = '0000'")
    with pytest.raises(StoreError) as refusal:
        opened(url)
    named = re.search(r"run: trio-a2a (db migrate) '?([^\s']+)'?$", str(refusal.value))
    assert named

    # What is hidden in the error is a password only, and the servers of the tests have none.
    done = run(*named[1].split(), named[2])

    assert "now of version 0001" in line(done) if before else line(done) == "the tables are made, version 0001"
    opened(url)
    assert line(run("db", "migrate", url)) == "the tables are of version 0001 already"
    assert run_json("db", "migrate", url) == [{"before": "0001", "version": "0001"}]


def test_the_version_is_shown_and_its_being_another_one_is_exit_status_1(sqlite_url):
    assert line(run("db", "migrate", sqlite_url))
    assert line(run("db", "current", sqlite_url)) == "0001"
    assert run_json("db", "current", sqlite_url) == [{"version": "0001", "needed": "0001"}]

    execute(sqlite_url, "UPDATE a2a_schema_version SET version_num = '0002'")
    newer = run("db", "current", sqlite_url)
    assert (newer.returncode, newer.stdout) == (1, "0002\n")
    assert "too old" in newer.stderr
    assert "too old" in line(run("db", "migrate", sqlite_url), 1)

    execute(sqlite_url, "DELETE FROM a2a_schema_version")
    none = run("db", "current", sqlite_url)
    assert (none.returncode, none.stdout) == (1, "no tables\n")
    assert "trio-a2a db migrate" in none.stderr
    assert run_json("db", "current", sqlite_url, status=1) == [{"version": None, "needed": "0001"}]


def test_several_commands_may_migrate_at_once(url):
    program = "from trio_a2a.cli import main; main()"
    processes = [
        subprocess.Popen([sys.executable, "-c", program, "db", "migrate", url], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = sorted(process.communicate(timeout=DEADLINE)[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0, 0]
    already = "the tables are of version 0001 already\n"
    assert said == ["the tables are made, version 0001\n", already, already]


# -------------------------------------------------------------------------------------------------------------- prune


def test_old_tasks_are_deleted_and_what_would_be_is_told_before(sqlite_url):
    fill(sqlite_url, finished=5, working=2)
    assert run_json("db", "prune", sqlite_url, "--older-than", "1h") == [{"tasks": 0, "events": 0, "dryRun": False}]
    assert (
        line(run("db", "prune", sqlite_url, "--older-than", "0s", "--dry-run")) == "would delete 5 tasks with 15 events"
    )
    assert run_json("db", "stats", sqlite_url)[0]["tasks"] == {"completed": 5, "working": 2}
    pruned = run("db", "prune", sqlite_url, "--older-than", "0s", "--batch", "2", "--share", "1")
    assert line(pruned) == "deleted 5 tasks with 15 events"
    assert run_json("db", "stats", sqlite_url)[0]["tasks"] == {"working": 2}
    assert run("db", "check", sqlite_url).returncode == 0


@pytest.mark.parametrize(
    ("span", "seconds"), [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000), ("0.5h", 1800), ("15 m", 900)]
)
def test_spans_are_in_seconds_minutes_hours_and_days(span, seconds):
    assert read_span(ANY, ANY, span) == seconds


@pytest.mark.parametrize("span", ["30", "d", "-1d", "30days", "1w", "", "1e3s", "nan", "9" * 400 + "s"])
def test_what_is_no_span_is_refused(span):
    with pytest.raises(click.BadParameter):
        read_span(ANY, ANY, span)


def test_a_wrong_span_is_one_line_with_examples(sqlite_url):
    assert "write 90s, 15m, 12h or 30d" in line(run("db", "prune", sqlite_url, "--older-than", "1w"), 2)


# -------------------------------------------------------------------------------------------------- stats, and checking


def test_statistics_are_a_table_for_people_and_an_object_for_programs(sqlite_url):
    fill(sqlite_url)
    table = run("db", "stats", sqlite_url)
    assert table.returncode == 0
    rows = {row[:12].rstrip(): row[12:].strip() for row in table.stdout.splitlines()}
    assert rows["tasks"] == "4 (3 completed, 1 working)"
    assert rows["events"] == "12"
    assert rows["orphans"] == "1"
    (found,) = run_json("db", "stats", sqlite_url)
    assert found["tasks"] == {"completed": 3, "working": 1}
    assert found["events"] == 12
    assert found["bytes"] > 0
    assert found["processes"] == {"live": 0, "dead": 0}
    assert found["oldest"] < found["firstEnd"] < found["newest"]


def test_a_sound_database_is_exit_status_0_and_a_damaged_one_1_with_each_finding(sqlite_url):
    fill(sqlite_url)
    assert line(run("db", "check", sqlite_url)) == "checked 4 tasks with 12 events; nothing is wrong"
    execute(sqlite_url, "DELETE FROM a2a_events WHERE task_id = 't3' AND sequence = 2")
    execute(sqlite_url, "UPDATE a2a_snapshots SET body = 'x' WHERE task_id = 't1'")
    result = run("db", "check", sqlite_url)
    assert result.returncode == 1
    *findings, summary = result.stdout.splitlines()
    assert findings == ["task t1: its snapshot cannot be read: JSONParseError", "task t3: event 2 is missing"]
    assert summary == "checked 4 tasks with 11 events; findings: 2"
    assert run_json("db", "check", sqlite_url, status=1)[1:] == [
        {"task": "t3", "problem": "event 2 is missing"},
        {"summary": {"tasks": 4, "events": 11, "findings": 2}},
    ]


def test_an_id_cannot_control_the_terminal(sqlite_url):
    fill(sqlite_url)
    execute(sqlite_url, "UPDATE a2a_tasks SET task_id = char(27) || '[31m' || char(10) WHERE task_id = 't3'")
    result = run("db", "check", sqlite_url)
    assert result.returncode == 1
    assert "\x1b" not in result.stdout


# ------------------------------------------------------------------------------------------------------------- errors


COMMANDS: list[tuple[str, ...]] = [
    ("migrate",),
    ("current",),
    ("prune", "--older-than", "1d"),
    ("stats",),
    ("check",),
]
each_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])


def test_what_is_no_database_is_wrong_usage():
    said = line(run("db", "stats", "oracle://scott:tiger@host/db"), 2)
    assert "sqlite:///FILE" in said
    assert "tiger" not in said


@pytest.mark.parametrize(
    "database", ["postgresql://me:s3cret@127.0.0.1:1/db?password=s3cret", "mariadb://me:s3cret@127.0.0.1:1/db"]
)
@each_command
def test_a_server_that_does_not_answer_is_one_line_without_the_password(command, database):
    said = line(run("db", *command, database), 1)
    assert said.startswith("trio-a2a: the database cannot be opened: ")
    assert "s3cret" not in said


@each_command
def test_a_file_that_is_not_there_is_told_and_only_migrating_makes_it(command, sqlite_url, tmp_path):
    result = run("db", *command, sqlite_url)
    if command == ("migrate",):
        assert result.returncode == 0
    else:
        assert "there is no file" in line(result, 1)
        assert f"trio-a2a db migrate {sqlite_url}" in result.stderr
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS[2:], ids=lambda command: command[0])
def test_a_database_without_tables_is_an_error_that_names_the_command(command, sqlite_url, tmp_path):
    (tmp_path / "tasks.db").touch()
    result = run("db", *command, sqlite_url, "--json")
    assert result.returncode == 1
    assert "run: trio-a2a db migrate" in json.loads(result.stderr)["error"]["message"]


def test_the_url_may_be_in_the_environment(sqlite_url):
    environment = {"TRIO_A2A_STORE": sqlite_url}
    assert run("db", "migrate", env=environment).returncode == 0
    assert line(run("db", "current", env=environment)) == "0001"
    assert "Missing argument 'URL'" in line(run("db", "current"), 2)


@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[2]], ids=lambda command: command[0])
def test_without_the_extra_its_name_is_told(command, sqlite_url):
    program = "import sys; sys.modules['sqlalchemy'] = None; from trio_a2a.cli import main; main()"
    arguments: list[Any] = [sys.executable, "-c", program, "db", *command, sqlite_url]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert "pip install 'trio-a2a[sql]'" in line(done, 2)


def test_without_the_client_s_extra_the_commands_work(sqlite_url):
    """Who looks after a database talks to no agent."""
    program = "import sys; sys.modules['httpx2'] = None; from trio_a2a.cli import main; main()"
    for command in COMMANDS:
        arguments = [sys.executable, "-c", program, "db", *command, sqlite_url]
        subprocess.run(arguments, capture_output=True, text=True, timeout=DEADLINE, check=True)
