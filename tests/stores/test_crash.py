"""A writing process is killed again and again: what clients saw is stored. The full loop is `tests.stores.crash`."""

import os
import random

import pytest
import trio

from tests.stores.checker import check, digest_of
from tests.stores.crash import run
from tests.stores.databases import connect_to
from tests.stores.writers import TaskWriter
from trio_a2a.stores import open_sql_store
from trio_a2a.testing import artifact, status, task
from trio_a2a.types import TaskState
from trio_a2a.wire import to_json

ROUNDS = int(os.environ.get("TRIO_A2A_CRASH_ROUNDS", "2"))


@pytest.mark.requirement("S1-NO-LOSS")
def test_whatever_a_client_saw_before_a_kill_is_stored(url: str) -> None:
    """Each round kills the process in the midst of its work, and goes on with the same database."""
    rounds = ROUNDS if url.startswith("sqlite") else (ROUNDS + 1) // 2
    seed = random.SystemRandom().getrandbits(32)
    outcome = run(url, rounds, seed)
    assert not outcome.faults, f"seed {seed}: {outcome.faults[:10]}"
    assert outcome.rounds == rounds


DAMAGES = {
    "is not stored": "DELETE FROM a2a_events WHERE sequence = 3",
    "another one than was seen": "UPDATE a2a_events SET kind = 'status', body = (SELECT body FROM a2a_events WHERE"
    " sequence = 2) WHERE sequence = 3",
    "and the task is at": "UPDATE a2a_tasks SET last_sequence = 4",
    "not the fold": "UPDATE a2a_snapshots SET sequence = 4",
    "the row says WORKING": "UPDATE a2a_tasks SET state = 'WORKING'",
    "finalized_at": "UPDATE a2a_tasks SET finalized_at = NULL",
    "without a task": "DELETE FROM a2a_tasks",
}


@pytest.mark.parametrize("expected", DAMAGES)
def test_the_checker_finds_what_is_wrong(sqlite_url: str, expected: str) -> None:
    """A loop that could not fail would show nothing."""

    seen: dict[str, dict[int, str]] = {"t": {}}

    async def write() -> None:
        writer = TaskWriter("t")
        events = [task("t"), status("t", text="on it"), artifact("t", "x"), artifact("t", "y", artifact_id="other")]
        async with open_sql_store(sqlite_url) as store:
            changes = [writer.change(event) for event in [*events, status("t", TaskState.COMPLETED)]]
            await store.commit(changes)
            seen["t"] = {change.sequence: digest_of(to_json(change.event)) for change in changes}

    trio.run(write)
    sound = check(sqlite_url, seen)
    assert (sound.tasks, sound.events, sound.seen, sound.faults) == (1, 5, 5, [])
    engine = connect_to(sqlite_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(DAMAGES[expected])
    engine.dispose()
    assert any(expected in fault for fault in check(sqlite_url, seen).faults)
