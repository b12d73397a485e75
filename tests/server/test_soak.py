"""The soak program, briefly: that it runs, and that vanished clients leave nothing behind."""

import subprocess
import sys
from pathlib import Path


def test_clients_that_open_a_stream_and_vanish_leave_no_task_behind():
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.soak", "--connections", "200"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("tasks_living") == 4
    assert done.stdout.endswith("passed\n")
