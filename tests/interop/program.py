"""Running a program that serves, as a user does: it says one line when it serves, and ends when it is told to."""

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["DEADLINE", "ENVIRONMENT", "program"]

DEADLINE = 30
# A program in this folder finds the package and the tests where this process does.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


@contextmanager
def program(path: Path, *arguments: str, complains: str | None = "") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a program; give the line that it says, and its process. It is told to end, and must do so with status 0.

    Args:
        path: The program.
        arguments: Its arguments.
        complains: What it must have said on its standard error; None: whatever it likes.
    """
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, path, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True, env=ENVIRONMENT
        )
        with process:
            try:
                assert process.stdout is not None
                ready, _, _ = select.select([process.stdout], [], [], DEADLINE)
                assert ready, "the program says nothing"
                yield process.stdout.readline().rstrip("\n"), process
                process.terminate()
                assert process.wait(DEADLINE) == 0
                assert not process.stdout.read(), "it says more than one line"
            finally:
                process.kill()
                errors.seek(0)
                said = errors.read()
        if complains is not None:
            assert said == complains
