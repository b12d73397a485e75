"""An agent that says back what it is told, as a status, an artifact in chunks, and an end.

    python docs/examples/echo_agent.py [--port N]

It prints its URL when it takes connections. At Ctrl-C, or when it is told to terminate, it gives what is running a
second to finish, and ends. "ask ..." makes it ask for more input first; "slow ..." makes it work until it is cancelled.
"""

import argparse
import signal
from functools import partial

import trio

import trio_a2a


async def echo(context: trio_a2a.RequestContext, updater: trio_a2a.TaskUpdater) -> None:
    """Answer with the words of the message, one chunk each."""
    text = context.text()
    await updater.start_work("Thinking about it.")
    if text.startswith("ask"):
        await updater.require_input("Say it again?")
        return
    if text.startswith("slow"):
        await trio.sleep_forever()
    async with updater.artifact(name="echo") as out:
        for word in text.split():
            await out.write(word)
    await updater.complete("That is all.")


async def main() -> None:
    """Serve the agent."""
    parser = argparse.ArgumentParser(description="Serve the echo agent.")
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (default: a free one)")
    arguments = parser.parse_args()
    agent = trio_a2a.Agent(trio_a2a.agent_card("Echo", "Says back what it is told."), echo)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            served = await nursery.start(partial(trio_a2a.serve, agent, port=arguments.port, grace=1))
            print(served.url, flush=True)
            await anext(signals)
            served.shutdown()


if __name__ == "__main__":
    trio.run(main)
