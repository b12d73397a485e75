"""Running `trio-a2a` as a user does: as a program of its own, seen through its output and its exit status."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = [sys.executable, "-c", "from trio_a2a.cli import main; main()"]
DEADLINE = 60


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


@contextmanager
def running(*arguments: str, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start the command; it is killed if it is still there at the end of the block."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=_environment(),
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


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1"}
