"""The process that is killed: it writes as hard as it can, and tells its parent what clients have seen.

``python -m tests.stores.crash_load URL SEED`` is started by `tests.stores.crash`. Half of its workers go through a
queue manager and report what subscribers received; the others commit on their own and report a commit when it returns.
Every report is one line of JSON that is in the pipe, and so out of this process, before the next step.
"""

import json
import os
import random
import sys
from collections.abc import Iterable

import trio

from tests.stores.checker import digest_of
from tests.stores.writers import TaskWriter
from trio_a2a.abc import StreamEvent
from trio_a2a.stores import SqlTaskStore, open_sql_store
from trio_a2a.streams import ChildQueue, QueueManager, open_queue_manager
from trio_a2a.testing import artifact, message, status, task
from trio_a2a.types import ListTasksRequest, Role, TaskState
from trio_a2a.wire import to_json

WORKERS = 16
"""Of each kind."""

_LONGEST = 300  # beyond the first two snapshots of a task


def report(task_id: str, seen: Iterable[tuple[int, StreamEvent]]) -> None:
    """Write what a client has seen, unbuffered: what is in the pipe outlives this process."""
    line = {"task": task_id, "seen": [(number, digest_of(to_json(event))) for number, event in seen]}
    data = json.dumps(line).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def next_event(task_id: str, known: set[str], dice: random.Random) -> StreamEvent:
    """Make an event; ``known`` are the artifacts that can be appended to."""
    if dice.random() < 0.1:
        return status(task_id, TaskState.WORKING, f"step {dice.getrandbits(16)}")
    id_ = f"a{dice.randrange(3)}"
    append = id_ in known and dice.random() < 0.98
    known.add(id_)
    return artifact(task_id, "x" * dice.randrange(400), artifact_id=id_, append=append)


async def listen(child: ChildQueue, task_id: str) -> None:
    while True:
        try:
            batch = await child.receive_batch()
        except trio.EndOfChannel:
            return
        report(task_id, [(envelope.sequence, envelope.event) for envelope in batch])


async def through_the_manager(manager: QueueManager, store: SqlTaskStore, left: list[str], dice: random.Random) -> None:
    """Make tasks, and go on with those that processes before this one have left."""
    while True:
        is_old = bool(left) and dice.random() < 0.5
        task_id = left.pop() if is_old else f"managed-{dice.getrandbits(64):x}"
        stored = await store.get(task_id)
        done = stored.sequence if stored is not None else 0
        # From the first event on: what was seen before is seen again, or the log has changed.
        async with (
            manager.subscribe(task_id, snapshot=False, after=0 if done else None) as child,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(listen, child, task_id)
            if not done:
                await child.enqueue(task(task_id, history=[message(role=Role.USER)]))
            known: set[str] = set()
            for _ in range(dice.randrange(1, _LONGEST)):
                await child.enqueue(next_event(task_id, known, dice))
            if dice.random() < 0.6:
                await child.enqueue(status(task_id, TaskState.COMPLETED, "done"))
            else:
                await child.aclose()


async def alone(store: SqlTaskStore, dice: random.Random) -> None:
    """Commit batches as a core would, with users' messages in between."""
    while True:
        writer = TaskWriter(f"alone-{dice.getrandbits(64):x}", owner=f"owner{dice.randrange(3)}")
        left, known, first = dice.randrange(1, _LONGEST), set[str](), True
        while left > 0:
            events = [task(writer.task_id)] if first else []
            events += [next_event(writer.task_id, known, dice) for _ in range(dice.randrange(1, 20))]
            said = message(role=Role.USER) if not first and dice.random() < 0.2 else None
            left -= len(events)
            if left <= 0 and dice.random() < 0.6:
                events.append(status(writer.task_id, TaskState.FAILED, "done"))
            changes = [writer.change(event, said if not n else None) for n, event in enumerate(events)]
            await store.commit(changes)
            report(writer.task_id, [(change.sequence, change.event) for change in changes])
            first = False


async def main(url: str, seed: int) -> None:
    dice = random.Random(seed)
    async with open_sql_store(url) as store, open_queue_manager(store) as manager, trio.open_nursery() as nursery:
        left, _ = await store.list(ListTasksRequest(status=TaskState.WORKING, page_size=100), owner="")
        names = [one.id for one in left]
        for _ in range(WORKERS):
            nursery.start_soon(through_the_manager, manager, store, names, random.Random(dice.getrandbits(64)))
            nursery.start_soon(alone, store, random.Random(dice.getrandbits(64)))


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]))
