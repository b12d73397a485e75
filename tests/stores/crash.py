"""``kill -9`` in a loop, and what is stored compared with what clients saw.

``python -m tests.stores.crash --url sqlite:///crash.db [--rounds 100] [--seed N]`` from the root of a clone. In each
round a process (`tests.stores.crash_load`) writes to the same database and is killed at a random moment; then the tasks
that it touched are compared (`tests.stores.checker`), and after the last round all of them. Exit status 1 if anything
that was seen is missing, changed or out of order. A server's database should be an empty one; the tables are made.
"""

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import attrs
import trio
from sqlalchemy import text

from tests.stores.checker import Findings, check, check_reading
from tests.stores.databases import connect_to

ROOT = Path(__file__).parents[2]

_LONGEST_LIFE = 0.8
# Of a process that is killed while it starts: before, in and after opening the store.
_STARTING = 3.0
_STARTING_SHARE = 0.1
_GONE_SECONDS = 20.0
_PROCESSES = "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
# How many other connections there are to the database.
_OTHERS = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    " AND datname = current_database() AND application_name = current_setting('application_name')",
    "mysql": _PROCESSES,
    "mariadb": _PROCESSES,
}


@attrs.define
class Outcome:
    """What all rounds came to.

    Attributes:
        rounds: How many processes were killed.
        early: How many of them before a client had seen anything.
        seen: Events that clients saw, each counted once.
        again: How often one was seen another time.
        last: The check of everything after the last round.
        faults: What was wrong, a sentence each.
    """

    rounds: int = 0
    early: int = 0
    seen: int = 0
    again: int = 0
    last: Findings = attrs.Factory(Findings)
    faults: list[str] = attrs.Factory(list)

    def __str__(self) -> str:
        return (
            f"{self.rounds} processes killed ({self.early} before anything was seen);"
            f" {self.seen} events seen, {self.again} of them again later;"
            f" {self.last.tasks} tasks with {self.last.events} events stored; {len(self.faults)} faults"
        )


def run(url: str, rounds: int, seed: int, *, verbose: bool = False) -> Outcome:
    """Kill so many processes, and check after each."""
    dice = random.Random(seed)
    seen: dict[str, dict[int, str]] = defaultdict(dict)
    outcome = Outcome()
    for number in range(1, rounds + 1):
        touched = _one_life(url, dice, seen, outcome)
        _wait_until_gone(url)
        findings = check(url, seen, touched)
        outcome.faults += findings.faults
        outcome.faults += trio.run(check_reading, url, sorted(touched)[:50]) if touched else []
        outcome.rounds = number
        if verbose:
            print(f"round {number}: {findings.tasks} tasks, {findings.seen} events seen, {len(outcome.faults)} faults")  # noqa: T201
    if seen:
        outcome.last = check(url, seen)
        outcome.faults += outcome.last.faults
    return outcome


def _one_life(url: str, dice: random.Random, seen: dict[str, dict[int, str]], outcome: Outcome) -> set[str]:
    """Start a process, kill it, and return the tasks that it reported."""
    command = [sys.executable, "-m", "tests.stores.crash_load", url, str(dice.getrandbits(64))]
    life, starts_late = dice.uniform(0, _LONGEST_LIFE), dice.random() < _STARTING_SHARE
    touched: set[str] = set()
    # Where each stream is: what a client sees of a task has to come in order.
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        death = threading.Timer(dice.uniform(0, _STARTING) if starts_late else life, process.kill)
        if starts_late:
            death.start()
        at: dict[str, int] = {}
        for line in process.stdout:
            if not touched and not starts_late:
                death.start()
            if not line.endswith(b"\n"):
                break  # the process died while it wrote that
            told = json.loads(line)
            task_id = told["task"]
            touched.add(task_id)
            for number, digest in told["seen"]:
                if number != at.get(task_id, 0) + 1:
                    outcome.faults.append(f"task {task_id}: event {number} came behind {at.get(task_id, 0)}")
                at[task_id] = number
                if seen[task_id].setdefault(number, digest) != digest:
                    outcome.faults.append(f"task {task_id}: event {number} is seen as another one than before")
                outcome.seen += 1
        if not touched and not starts_late:
            outcome.faults.append("a process ended before it was killed")
        death.cancel()
        process.kill()
    outcome.early += not touched
    distinct = sum(map(len, seen.values()))
    outcome.again, outcome.seen = outcome.again + outcome.seen - distinct, distinct
    if process.returncode != -9:
        outcome.faults.append(f"a process ended with {process.returncode} before it was killed")
    return touched


def _wait_until_gone(url: str) -> None:
    """Wait until a server has noticed that its client is dead: until then a commit may be on its way."""
    engine = connect_to(url)
    query = _OTHERS.get(engine.dialect.name)
    if query is not None:
        until = time.monotonic() + _GONE_SECONDS
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while connection.scalar(text(query)) and time.monotonic() < until:
                time.sleep(0.02)
    engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Kill writing processes, and compare what is stored with what was seen."
    )
    parser.add_argument("--url", required=True)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = random.SystemRandom().getrandbits(32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)  # noqa: T201
    outcome = run(given.url, given.rounds, seed, verbose=True)
    print("\n".join([*outcome.faults[:50], str(outcome)]))  # noqa: T201
    sys.exit(bool(outcome.faults))


if __name__ == "__main__":
    main()
