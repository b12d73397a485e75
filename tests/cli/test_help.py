"""`--help` answers at once: it imports nothing that it does not show."""

import subprocess
import sys
import time

import pytest

from .program import DEADLINE, run

MODULES = "import sys, atexit; atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr)); "


def imported(*arguments: str) -> set[str]:
    program = f"{MODULES}from trio_a2a.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments",
    [(), ("send",), ("card",), ("doctor",), ("serve",), ("task",), ("task", "list"), ("push", "add"), ("db", "prune")],
    ids=" ".join,
)
def test_help_imports_neither_trio_nor_the_rest_of_the_package(arguments):
    """Without them it takes about half of the time that importing trio and click takes."""
    found = imported(*arguments, "--help")

    assert not found & {"trio", "attr", "cattrs", "orjson", "httpx2", "rich"}
    assert {name for name in found if name.startswith("trio_a2a")} <= {
        "trio_a2a",
        "trio_a2a.cli",
        "trio_a2a.cli.program",
        "trio_a2a.cli.commands",
        "trio_a2a.cli.db_commands",
        "trio_a2a.cli.lazy",
        "trio_a2a.cli.options",
        "trio_a2a.cli.push_commands",
        "trio_a2a.cli.task_commands",
    }


def test_the_list_of_commands_imports_no_group():
    """A group may need an extra, or be slow to import."""
    assert not imported("--help") & {
        "trio_a2a.cli.db_commands",
        "trio_a2a.cli.push_commands",
        "trio_a2a.cli.task_commands",
    }


def test_help_imports_fewer_modules_than_trio_and_click_do():
    """A count rather than a time: the promise is less than twice their time."""
    program = f"{MODULES}import trio, click"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=DEADLINE, check=True)

    assert len(imported("--help")) < len(done.stderr.split())


def test_every_command_is_listed_with_what_it_does():
    result = run("--help")

    assert result.returncode == 0
    listed = {line.split()[0]: line for line in result.stdout.splitlines() if line.startswith("  ") and line.split()}
    assert {"card", "db", "demo", "doctor", "push", "send", "serve", "task"} <= set(listed)
    assert "watch" in listed["task"]


def test_a_call_without_a_command_shows_the_help_and_is_wrong_usage():
    result = run()

    assert result.returncode == 2
    assert "Commands:" in result.stderr


def test_no_command_that_talks_to_an_agent_imports_the_server():
    """Who calls agents does not pay for serving them."""
    program = (
        "import sys\n"
        "import trio_a2a.cli.send, trio_a2a.cli.tasks, trio_a2a.cli.card, trio_a2a.cli.push, trio_a2a.cli.doctor\n"
        "assert not [m for m in sys.modules if m.startswith(('trio_a2a.server', 'trio_a2a.agents', 'rich'))]"
    )
    subprocess.run([sys.executable, "-c", program], timeout=DEADLINE, check=True)


def test_help_takes_less_than_twice_the_time_of_importing_trio_and_click():
    """The best of several runs side by side: what it takes is under half of it, so a busy machine does not matter."""

    def seconds(program: str, *arguments: str) -> float:
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", program, *arguments], stdout=subprocess.DEVNULL, timeout=DEADLINE, check=True
        )
        return time.perf_counter() - begun

    command = "from trio_a2a.cli import main; main()"
    runs = [(seconds(command, "--help"), seconds("import trio, click")) for _ in range(5)]

    assert min(helped for helped, _ in runs) < 2 * min(imported for _, imported in runs)
