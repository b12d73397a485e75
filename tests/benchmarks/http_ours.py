"""The server of this library: the agent of the HTTP rows behind the built-in HTTP server, configured in nothing."""

import json
from collections.abc import Callable
from typing import Any

import trio

from trio_a2a.agents import RequestContext, TaskUpdater
from trio_a2a.server import Agent, agent_card, serve, sse

from .workload import ARTIFACT_ID, CHUNKS, chunk_text, resident_bytes, run_server

_encodings = 0
"""How often an event was made into bytes for a stream."""


class Echo:
    """Does what its message says: a word, and maybe numbers."""

    def __init__(self) -> None:
        self._go = trio.Event()
        self._chunks = 0
        self._pause = 0.0

    async def execute(self, context: RequestContext, updater: TaskUpdater) -> None:
        """Be the agent."""
        match context.text().split():
            case ["reply", *_]:
                await updater.reply(context.text())
            case ["complete", *_]:
                await updater.complete(context.text())
            case ["stream", number, pause]:
                await updater.start_work()
                await self._stream(updater, 0, int(number), float(pause))
                await updater.complete()
            case ["broadcast"]:
                await updater.start_work()
                sent = 0
                while True:
                    await self._go.wait()
                    await self._stream(updater, sent, sent + self._chunks, self._pause)
                    sent += self._chunks
            case ["go", number, pause]:
                self._chunks, self._pause = int(number), float(pause)
                go, self._go = self._go, trio.Event()
                go.set()
                await updater.reply(context.text())
            case ["encodings"]:
                await updater.reply(str(_encodings))
            case ["ponder", seconds]:
                await trio.sleep(float(seconds))
                await updater.reply(context.text())
            case ["statistics"]:
                living = trio.lowlevel.current_statistics().tasks_living
                await updater.reply(json.dumps({"tasks_living": living, "resident": resident_bytes()}))

    @staticmethod
    async def _stream(updater: TaskUpdater, first: int, last: int, pause: float) -> None:
        for chunk in range(first, last):
            if pause:
                await trio.sleep(pause)
            await updater.add_artifact(chunk_text(chunk), artifact_id=ARTIFACT_ID, append=chunk % CHUNKS > 0)


def count_encodings() -> None:
    """Count from now on how often an event is encoded for streams."""
    write = sse.to_json

    def counted(value: Any) -> bytes:
        global _encodings  # noqa: PLW0603
        _encodings += 1
        return write(value)

    sse.to_json = counted


async def main(job: dict[str, Any], announce: Callable[[int], None]) -> None:
    """Serve until standard input ends."""
    count_encodings()
    async with trio.open_nursery() as nursery:
        served = await nursery.start(serve, Agent(agent_card("Echo", "Says what it hears."), Echo()))
        announce(int(served.url.rpartition(":")[2]))
        await trio.lowlevel.wait_readable(0)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    run_server(lambda job, announce: trio.run(main, job, announce))
