"""An agent that counts, chunk by chunk of one artifact, and goes on where it left off.

    python tests/interop/counting_agent.py STORE --port N --on-orphan fail|keep|resume [--lease S]

It prints its URL when it takes connections. A message says how far to count. A chunk follows the other as soon as it
can, so that a kill finds the process in the middle of whatever there is to do. It ends at SIGINT or SIGTERM.
"""

import argparse
import signal
from functools import partial
from typing import get_args

import trio

from trio_a2a import Agent, RequestContext, TaskUpdater, agent_card, serve
from trio_a2a.abc import OrphanPolicy, ResumableExecutor
from trio_a2a.stores import open_sql_store

ARTIFACT = "count"
PAUSE = 0.002


class Counter(ResumableExecutor):
    """Counts as far as the message says."""

    async def execute(self, context: RequestContext, updater: TaskUpdater) -> None:
        await updater.start_work()
        await self._count(0, int(context.text()), updater)

    async def resume(self, context: RequestContext, updater: TaskUpdater) -> None:
        task = context.task
        assert task is not None
        said = sum(len(artifact.parts) for artifact in task.artifacts)
        await self._count(said, int(task.history[0].text()), updater)

    async def _count(self, start: int, end: int, updater: TaskUpdater) -> None:
        for number in range(start, end):
            await updater.add_artifact(str(number), artifact_id=ARTIFACT, append=number > 0)
            await trio.sleep(PAUSE)
        await updater.complete()


async def main() -> None:
    """Serve the agent until told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--on-orphan", choices=get_args(OrphanPolicy), required=True)
    parser.add_argument("--lease", type=float, default=0.5)
    given = parser.parse_args()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with (
            open_sql_store(given.store, on_orphan=given.on_orphan, lease=given.lease) as store,
            trio.open_nursery() as nursery,
        ):
            agent = Agent(agent_card("Counter", "Counts."), Counter(), store=store)
            served = await nursery.start(partial(serve, agent, port=given.port, grace=1))
            print(served.url, flush=True)  # noqa: T201 - whoever has started it waits for that
            await anext(signals)
            served.shutdown()


if __name__ == "__main__":
    trio.run(main)
