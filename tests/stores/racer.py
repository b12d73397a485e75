"""A process that races for a task: ``python -m tests.stores.racer URL COUNT`` writes so many events to the task ``t``.

It prints ``won`` for each, and the name of the error for each try that failed.
"""

import os
import sys

import trio

from tests.stores.writers import TaskWriter
from trio_a2a.errors import StoreError
from trio_a2a.reducer import WorkingTask
from trio_a2a.stores import open_sql_store
from trio_a2a.testing import artifact


async def main(url: str, count: int) -> None:
    async with open_sql_store(url) as store:
        won = 0
        while won < count:
            stored = await store.get("t")
            assert stored is not None
            writer = TaskWriter("t")
            writer.state, writer.sequence = WorkingTask.of(stored.task), stored.sequence
            event = artifact("t", "x", artifact_id=f"{os.getpid()}-{stored.sequence}")
            try:
                await store.commit([writer.change(event)])
            except StoreError as error:
                print(type(error).__name__)  # noqa: T201
            else:
                won += 1
                print("won")  # noqa: T201


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]))
