"""Our client against the asyncio SDK's own server, over both bindings; it numbers no events and replays none."""

import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from tests.client.peers import both_bindings
from tests.client.proxy import open_proxy
from tests.deadline import within
from trio_a2a.client import Interceptor, connect
from trio_a2a.errors import (
    ERROR_TABLE,
    A2AError,
    InvalidParamsError,
    JSONParseError,
    TaskNotCancelableError,
    TaskNotFoundError,
    VersionNotSupportedError,
)
from trio_a2a.types import Message, Task, TaskArtifactUpdateEvent, TaskState


@asynccontextmanager
async def open_server():
    program = Path(__file__).with_name("sdk_server.py")
    async with trio.open_nursery() as nursery:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = await nursery.start(partial(trio.run_process, [sys.executable, str(program)], check=False, **pipes))
        data = b""
        while not data.endswith(b"\n"):
            more = await process.stdout.receive_some()
            assert more, "the server did not start"
            data += more
        yield data.decode().strip()
        process.kill()


@both_bindings
@within(60)
async def test_every_operation_and_its_errors(binding):
    async with open_server() as url, connect(url, transports=(binding,)) as client:
        assert client.card.name == "Theirs"
        done = await client.send("say x", context_id="ours")
        assert done.status.state is TaskState.COMPLETED
        assert isinstance(await client.send("reply hi"), Message)
        asked = await client.send("ask", context_id="ours")
        assert asked.status.state is TaskState.INPUT_REQUIRED
        async with client.stream("say x", task_id=asked.id, context_id=asked.context_id) as events:
            assert [event async for event in events]
        assert events.task.status.state is TaskState.COMPLETED
        assert (await client.get_task(done.id)).id == done.id
        assert {task.id async for task in client.list_tasks(context_id="ours", page_size=1)} == {done.id, asked.id}
        held = await client.send("hold", return_immediately=True)
        async with client.subscribe(held.id) as events, trio.open_nursery() as nursery:
            assert (await anext(events)).id == held.id
            nursery.start_soon(client.cancel_task, held.id)
            assert [event.status.state async for event in events][-1] is TaskState.CANCELED
        hook = await client.push_configs.create(done.id, "https://example.com/hook", id="one")
        assert await client.push_configs.get(done.id, "one") == hook
        assert await client.push_configs.list(done.id) == (hook,)
        await client.push_configs.delete(done.id, "one")
        for call, error in (
            (client.get_task("unknown"), TaskNotFoundError),
            (client.cancel_task(done.id), TaskNotCancelableError),
            (client.send("x", task_id="unknown"), TaskNotFoundError),
            (client.send("x", task_id=done.id), A2AError),
        ):
            with pytest.raises(error):
                await call
        with pytest.raises(A2AError):
            async with client.subscribe(done.id) as events:
                await anext(events)


@both_bindings
@within(60)
async def test_every_class_of_error_is_recognised(binding):
    """Each as their server writes it; those that their server answers with itself are in the test above."""
    async with open_server() as url, connect(url, transports=(binding,)) as client:
        for row in ERROR_TABLE:
            if row.code is None or row.error is JSONParseError:
                continue  # these are not an agent's to raise
            with pytest.raises(row.error):
                await client.send(f"refuse {row.error.__name__}")
        assert (await client.extended_card()).name == "Theirs, extended"
        with pytest.raises(TaskNotFoundError):
            await client.push_configs.create("unknown", "https://example.com/hook")
        with pytest.raises(InvalidParamsError):
            await anext(client.list_tasks(page_size=1000))
    async with open_server() as url, connect(url, transports=(binding,), interceptors=[OldVersion()]) as client:
        with pytest.raises(VersionNotSupportedError):
            await client.get_task("x")


class OldVersion(Interceptor):
    async def before(self, call):
        return attrs.evolve(call, headers={"a2a-version": "0.9"})


@pytest.mark.parametrize("manner", ["drop", "reset", "stall"])
@both_bindings
@within(60)
async def test_a_stream_that_is_cut_comes_to_its_end_by_snapshots(binding, manner):
    async with open_server() as url, open_proxy(url, limits=[8_000, 9_000, 12_000], manner=manner) as proxy:
        async with connect(url, transports=(binding,)) as direct:
            interface = attrs.evolve(direct.card.supported_interfaces[0], url=proxy.url, protocol_binding=binding)
            card = attrs.evolve(direct.card, supported_interfaces=[interface])
        async with connect(card, silence=0.3) as client, client.stream("count 200") as events:
            seen = [event async for event in events]
        assert events.resumed >= 2
        assert events.gap
        assert events.task.status.state is TaskState.COMPLETED
        if isinstance(seen[-1], Task):  # it ended while nobody was connected
            assert events.task == seen[-1]
        chunks = [event for event in seen if isinstance(event, TaskArtifactUpdateEvent)]
        assert chunks[0].artifact.text() == "0\u2028\u0085,"
