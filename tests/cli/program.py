"""Running `trio-a2a` as a user does: as a program of its own, seen through its output and its exit status."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-c", "from trio_a2a.cli import main; main()"]
DEADLINE = 60


def run(
    *arguments: str, cwd: Path | None = None, stdin: str | bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env={**environment(), **(env or {})},
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def run_json(*arguments: str, status: int = 0, **options: Any) -> list[dict[str, Any]]:
    """Run the command with ``--json``; returns the objects that it prints, one a line."""
    result = run(*arguments, "--json", **options)
    assert result.returncode == status, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@contextmanager
def running(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start the command; it is killed if it is still there at the end of the block."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=cwd,
        env={**environment(), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with process:
            yield process
            process.kill()
    finally:
        process.kill()


def environment() -> dict[str, str]:
    """The environment of the command: ours, without what would change what it prints."""
    ours = {"TRIO_A2A_BEARER", "TRIO_A2A_STORE", "TRIO_A2A_PUSH_KEY", "FORCE_COLOR"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "PYTHONUNBUFFERED": "1"}
