"""`trio-a2a serve MODULE:AGENT`."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from .program import DEADLINE, run, running

MODULE = '''
import functools

import trio_a2a

async def greeter(context, updater):
    """Greets whoever writes to it."""
    await updater.complete("hello")

def plain(context, updater): ...

class Executor:
    async def execute(self, context, updater):
        await updater.complete()

executor = Executor()
bound = functools.partial(greeter)
agent = trio_a2a.Agent(trio_a2a.agent_card("Named", "Has a card."), greeter)
app = trio_a2a.A2AApp(agent)
'''


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "greeting.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "broken.py").write_text("1 / 0", encoding="utf-8")
    (tmp_path / "exiting.py").write_text("import sys; sys.exit(3)", encoding="utf-8")
    (tmp_path / "needy.py").write_text("import not_installed_anywhere", encoding="utf-8")
    return tmp_path


def served_url(process) -> str:
    match = re.search(r"http://\S+", process.stdout.readline())
    assert match, process.stderr.read()
    return match[0]


def card_of(url: str) -> dict:
    with urllib.request.urlopen(f"{url}/.well-known/agent-card.json", timeout=DEADLINE) as response:
        return json.load(response)


@pytest.mark.parametrize(
    ("target", "name", "description"),
    [
        ("greeting:greeter", "greeter", "Greets whoever writes to it."),
        ("greeting:executor", "Executor", "The agent Executor."),
        ("greeting:bound", "greeter", "Greets whoever writes to it."),
        ("greeting:agent", "Named", "Has a card."),
        ("greeting:app", "Named", "Has a card."),
    ],
)
def test_an_agent_in_each_form_is_served_with_its_card(here, target, name, description):
    with running("serve", target, "--port", "0", cwd=here) as process:
        card = card_of(served_url(process))

    assert (card["name"], card["description"]) == (name, description)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_with_exit_status_0(here, signum):
    with running("serve", "greeting:greeter", "--port", "0", cwd=here) as process:
        served_url(process)
        process.send_signal(signum)
        assert process.wait(DEADLINE) == 0


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere:agent", "there is no module 'nowhere'"),
        ("greeting:nobody", "module 'greeting' has no 'nobody'"),
        ("greeting:greeter.deeper", "has no 'greeter.deeper'"),
        ("greeting:plain", "'greeting:plain' is no agent"),
        ("greeting", "write MODULE:AGENT"),
        (":agent", "write MODULE:AGENT"),
        ("broken:agent", "cannot be imported: ZeroDivisionError: division by zero"),
        ("exiting:agent", "cannot be imported: SystemExit: 3"),
        ("needy:agent", "cannot be imported: No module named 'not_installed_anywhere'"),
    ],
)
def test_what_cannot_be_served_gives_one_clear_line_and_exit_status_2(here, target, says):
    result = run("serve", target, "--port", "0", cwd=here)

    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("trio-a2a: ")
    assert says in result.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--url", "nonsense"], "url is absolute"),
        (["--url", "https://me:secret@agent.example"], "credentials"),
        (["--grace", "nan"], "not a number of seconds"),
    ],
)
def test_what_it_cannot_be_served_with_gives_one_clear_line_and_exit_status_2(here, options, says):
    """Not a card that no client can use, nor a failure when it is to end."""
    result = run("serve", "greeting:greeter", "--port", "0", *options, cwd=here)

    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert says in result.stderr


def test_a_taken_port_gives_one_clear_line_and_exit_status_2(here):
    with running("serve", "greeting:greeter", "--port", "0", cwd=here) as first:
        port = served_url(first).rpartition(":")[2]
        result = run("serve", "greeting:greeter", "--port", port, cwd=here)

    assert result.returncode == 2
    assert result.stderr == f"trio-a2a: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_the_version_is_told():
    result = run("--version")

    assert result.returncode == 0
    assert re.fullmatch(r"trio-a2a, version \d+\.\d+\.\d+\n", result.stdout)


@pytest.mark.parametrize(
    ("missing", "arguments", "says"),
    [
        ("click", (), "pip install 'trio-a2a[cli]'"),
        ("httpx2", ("demo",), "pip install 'trio-a2a[client]'"),
        ("httpx2", ("card", "http://127.0.0.1:9"), "pip install 'trio-a2a[client]'"),
        ("httpx2", ("doctor", "http://127.0.0.1:9"), "pip install 'trio-a2a[client]'"),
    ],
)
def test_a_missing_extra_is_named(missing, arguments, says):
    program = f"import sys; sys.modules[{missing!r}] = None; from trio_a2a.cli import main; main()"

    result = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=DEADLINE, check=False
    )

    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert says in result.stderr
