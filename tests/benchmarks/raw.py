"""The worker for the yardstick: Trio's memory channels in the shape of the stream core, and nothing else.

A producer awaits a send for each event, into a bounded inbox; a task takes the events out one at a time and puts each
into the bounded channel of every reader; and each reader takes them one at a time. There is no task state, no store, no
hook, no snapshot for those who join, no end of a stream, and no batch. Where a row's readers take batches, they do so
here too: what waits is taken without a wake-up.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import trio

from .workload import Pace, chunk_text, paced, run_worker

Job = dict[str, Any]
Receive = trio.MemoryReceiveChannel[str]
Send = trio.MemorySendChannel[str]

_SIZE = 1000  # as in the stream core


async def pump(inbox: Receive, outboxes: list[Send]) -> None:
    """Hand each event to all readers."""
    async for event in inbox:
        for outbox in outboxes:
            try:
                outbox.send_nowait(event)
            except trio.WouldBlock:
                await outbox.send(event)


async def read_singly(channel: Receive, pace: Pace) -> None:
    """Take events one by one."""
    count, window = 0, pace.window
    async for _ in channel:
        count += 1
        if count % window == 0:
            pace.reached()


async def read_batches(channel: Receive, pace: Pace) -> None:
    """Wait for one event, then take what is there."""
    count, window = 0, pace.window
    while True:
        before = count
        await channel.receive()
        count += 1
        try:
            while True:
                channel.receive_nowait()
                count += 1
        except trio.WouldBlock:
            pass
        if count // window > before // window:
            pace.reached()


async def send_singly(inbox: Send, events: list[str]) -> None:
    """One `send` an event."""
    for event in events:
        await inbox.send(event)


async def send_burst(inbox: Send, events: list[str]) -> None:
    """All at once."""
    for event in events:
        inbox.send_nowait(event)
    await trio.lowlevel.checkpoint()


async def fan_out(
    job: Job,
    send: Callable[[Send, list[str]], Coroutine[Any, Any, None]],
    read: Callable[[Receive, Pace], Coroutine[Any, Any, None]],
) -> dict[str, float]:
    """Deliver events to N readers."""
    pace = Pace(job["readers"], job["window"], trio.Event)
    events = [chunk_text(number) for number in range(job["window"] * (job["warm_windows"] + job["windows"]))]
    inbox, pump_end = trio.open_memory_channel[str](_SIZE)
    outboxes: list[Send] = []
    async with trio.open_nursery() as nursery:
        for _ in range(job["readers"]):
            outbox, channel = trio.open_memory_channel[str](_SIZE)
            outboxes.append(outbox)
            nursery.start_soon(read, channel, pace)
        nursery.start_soon(pump, pump_end, outboxes)

        async def send_window(first: int, last: int) -> None:
            await send(inbox, events[first:last])

        spent = await paced(send_window, pace, warm_windows=job["warm_windows"], windows=job["windows"])
        nursery.cancel_scope.cancel()
    return {"delivered/s": job["readers"] * job["window"] * job["windows"] / spent}


if __name__ == "__main__":
    run_worker(
        {
            "fan_out": lambda job: trio.run(partial(fan_out, send=send_singly, read=read_singly), job),
            "burst": lambda job: trio.run(partial(fan_out, send=send_burst, read=read_batches), job),
        }
    )
