"""The agent that compatibility suites for A2A drive: what it does is chosen by the messageId that it is sent.

    python tests/interop/conformance_agent.py --host 127.0.0.1 --port 9999 --grpc-port 10000 \
        [--capabilities all|none] [--require-extension URI] [--error-table 1.0.0|1.0.1] [--store sqlite:///FILE]

It prints one line with its URL once it serves, and runs until SIGINT or SIGTERM, then ends with status 0. It needs no
credentials. It is built on the public API only, like any user's program.
"""

import argparse
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from trio_a2a import Agent, AgentCard, Part, RequestContext, TaskUpdater, agent_card, serve
from trio_a2a.abc import PushConfigStore, TaskStore
from trio_a2a.errors import InternalError, StoreError
from trio_a2a.stores import InMemoryPushConfigStore, InMemoryTaskStore, open_sql_push_config_store, open_sql_store
from trio_a2a.types import AgentCapabilities, AgentExtension, AgentSkill

Behaviour = Callable[[RequestContext, TaskUpdater], Awaitable[None]]

# Suites close their streams when they close their clients, often after they tell the agent to end.
GRACE = 1.0

FILE = Part(raw=b"tck", filename="output.txt", media_type="text/plain")
LINK = Part(url="https://example.com/output.txt", filename="output.txt", media_type="text/plain")
DATA = Part(data={"key": "value", "count": 42})


async def complete(context: RequestContext, updater: TaskUpdater) -> None:
    await updater.complete("Hello from TCK")


async def require_input(context: RequestContext, updater: TaskUpdater) -> None:
    await updater.require_input()


async def reply(context: RequestContext, updater: TaskUpdater) -> None:
    await updater.reply("Direct message response")


async def refuse(context: RequestContext, updater: TaskUpdater) -> None:
    raise InternalError("rejected")


async def just_complete(context: RequestContext, updater: TaskUpdater) -> None:
    await updater.complete()


async def chunks(context: RequestContext, updater: TaskUpdater) -> None:
    await updater.start_work()
    artifact_id = await updater.add_artifact("chunk-1 ")
    await updater.add_artifact("chunk-2", artifact_id=artifact_id, append=True, last_chunk=True)
    await updater.complete()


async def take_a_while(context: RequestContext, updater: TaskUpdater) -> None:
    await updater.start_work()
    for _ in range(2):
        await trio.sleep(2)
    await updater.complete()


async def anything_else(context: RequestContext, updater: TaskUpdater) -> None:
    assert context.message is not None
    await updater.complete(f"Unhandled messageId prefix: {context.message.message_id}")


def produce(part: str | Part) -> Behaviour:
    async def behave(context: RequestContext, updater: TaskUpdater) -> None:
        await updater.add_artifact(part)
        await updater.complete()

    return behave


def stream(part: str | Part) -> Behaviour:
    async def behave(context: RequestContext, updater: TaskUpdater) -> None:
        await updater.start_work()
        await updater.add_artifact(part)
        await updater.complete()

    return behave


BEHAVIOURS: dict[str, Behaviour] = {
    "tck-complete-task": complete,
    "tck-input-required": require_input,
    "tck-message-response": reply,
    "tck-artifact-text": produce("Generated text content"),
    "tck-artifact-file": produce(FILE),
    "tck-artifact-file-url": produce(LINK),
    "tck-artifact-data": produce(DATA),
    "tck-stream-001": stream("Stream hello from TCK"),
    "tck-stream-002": just_complete,
    "tck-stream-003": stream("Stream task lifecycle"),
    "tck-stream-ordering-001": stream("Ordered output"),
    # Defined by the suites, used by none of their tests yet.
    "tck-reject-task": refuse,
    "tck-stream-artifact-text": stream("Streamed text content"),
    "tck-stream-artifact-file": stream(FILE),
    "tck-stream-artifact-chunked": chunks,
    "test-resubscribe-message-id": take_a_while,
}
# One prefix may be the beginning of another: the longest that fits is meant.
PREFIXES = sorted(BEHAVIOURS, key=len, reverse=True)


async def conform(context: RequestContext, updater: TaskUpdater) -> None:
    """Do what the messageId asks for."""
    assert context.message is not None
    message_id = context.message.message_id
    behaviour = next((BEHAVIOURS[prefix] for prefix in PREFIXES if message_id.startswith(prefix)), anything_else)
    await behaviour(context, updater)


def make_card(*, capable: bool, required_extension: str | None) -> AgentCard:
    """Return the public card."""
    extensions = ()
    if required_extension is not None:
        extensions = (AgentExtension(uri=required_extension, description="Must be activated.", required=True),)
    card = agent_card(
        "Conformance agent",
        "Does what compatibility suites ask of it.",
        skills=[
            AgentSkill(
                id="conform", name="Conform", description="Obeys the prefix of the messageId.", tags=["conformance"]
            )
        ],
        modes=["text/plain", "application/json", "application/octet-stream"],
    )
    capabilities = AgentCapabilities(
        streaming=capable, push_notifications=capable, extended_agent_card=capable, extensions=extensions
    )
    return attrs.evolve(card, capabilities=capabilities)


@asynccontextmanager
async def open_stores(url: str | None) -> AsyncIterator[tuple[TaskStore, PushConfigStore]]:
    """Open the stores: a database's, or in memory."""
    if url is None:
        yield InMemoryTaskStore(), InMemoryPushConfigStore()
        return
    key = os.environ.get("TRIO_A2A_PUSH_KEY")
    async with open_sql_store(url) as tasks, open_sql_push_config_store(url, encryption_key=key) as configs:
        yield tasks, configs


def make_agent(arguments: argparse.Namespace, tasks: TaskStore, configs: PushConfigStore) -> Agent:
    """Return the agent that the arguments describe."""
    capable = arguments.capabilities == "all"
    card = make_card(capable=capable, required_extension=arguments.require_extension)
    extended = AgentSkill(id="extra", name="Extra", description="Is on the extended card only.", tags=["conformance"])
    return Agent(
        card,
        conform,
        store=tasks,
        push=configs if capable else None,
        extended_card=attrs.evolve(card, skills=(*card.skills, extended)) if capable else None,
        error_table=arguments.error_table,
    )


async def run(arguments: argparse.Namespace) -> None:
    """Serve the agent until it is told to end."""
    async with open_stores(arguments.store) as stores:
        await serve_until_signal(make_agent(arguments, *stores), arguments)


async def serve_until_signal(agent: Agent, arguments: argparse.Namespace) -> None:
    """Serve the agent until the program is told to end."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            served = await nursery.start(partial(serve, agent, host=arguments.host, port=arguments.port, grace=GRACE))
            sys.stdout.write(f"{served.url}\n")
            sys.stdout.flush()
            await anext(signals)
            served.shutdown()


def main() -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(description="Serve the agent that compatibility suites drive.")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=9999, help="the port to listen on (default: %(default)s)")
    parser.add_argument("--grpc-port", type=int, default=10000, help="not served by this version: the card has no gRPC")
    parser.add_argument("--capabilities", choices=("all", "none"), default="all", help="default: %(default)s")
    parser.add_argument("--require-extension", metavar="URI", help="an extension that callers must activate")
    parser.add_argument("--error-table", choices=("1.0.0", "1.0.1"), default="1.0.1", help="default: %(default)s")
    parser.add_argument("--store", metavar="URL", help="a database; by default tasks are kept in memory")
    arguments = parser.parse_args()
    try:
        trio.run(run, arguments)
    except (StoreError, ValueError) as exc:
        sys.stderr.write(f"--store: {exc}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
