"""Servers that are killed, with SIGKILL, while clients read; real processes, sockets and databases."""

import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest
import trio

from tests.deadline import within
from tests.interop.program import ENVIRONMENT
from tests.interop.test_sdk_client import line
from tests.stores.conftest import url as database_url
from trio_a2a.client import connect
from trio_a2a.stores import open_sql_store
from trio_a2a.types import TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from trio_a2a.wire import from_dict

AGENT = Path(__file__).with_name("counting_agent.py")
FAR = 1_000_000

url = database_url
on_sqlite_and_postgresql = pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@asynccontextmanager
async def server(store: str, port: int, on_orphan: str) -> AsyncIterator[str]:
    """A server for the length of a block, which ends with SIGKILL; the value is its URL."""
    command = [sys.executable, AGENT, store, "--port", str(port), "--on-orphan", on_orphan]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(trio.run_process, command, stdout=subprocess.PIPE, env=ENVIRONMENT, check=False)
        )
        yield await line(process.stdout)
        process.send_signal(signal.SIGKILL)
        assert await process.wait() == -signal.SIGKILL


@attrs.define
class Reader:
    """A client that knows no more than the protocol: it comes back with the number of the last event that it has.

    Attributes:
        seen: Number and result of each event, in the order in which they came.
    """

    task_id: str = ""
    seen: list[tuple[int, dict[str, Any]]] = attrs.Factory(list)

    @property
    def last(self) -> int:
        return self.seen[-1][0]

    async def call(self, url: str, method: str, params: Any) -> Any:
        async with _request(url, method, params) as lines:
            return orjson.loads(b"".join([text async for text in lines]))["result"]

    async def begin(self, url: str, *, until: int) -> None:
        parts = [{"text": str(FAR)}]
        sent = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}}
        await self._read(url, "SendStreamingMessage", sent, {}, until)
        self.task_id = self.seen[0][1]["task"]["id"]

    async def go_on(self, url: str, *, until: int | None = None) -> None:
        """Take up the stream, until an event or, without one, to its end."""
        await self._read(url, "SubscribeToTask", {"id": self.task_id}, {"last-event-id": str(self.last)}, until)

    async def _read(self, url: str, method: str, params: Any, headers: dict[str, str], until: int | None) -> None:
        number = 0
        async with _request(url, method, params, headers) as lines:
            async for text in lines:
                if text.startswith(b"id:"):
                    number = int(text[3:])
                elif text.startswith(b"data:"):
                    self.seen.append((number, orjson.loads(text[5:])["result"]))
                    if number == until:
                        return


@asynccontextmanager
async def _request(
    url: str, method: str, params: Any, headers: dict[str, str] | None = None
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Send a request as HTTP/1.0 does, whose answer has an end but no frames; the value is the lines of its body."""
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    sent = {
        "a2a-version": "1.0",
        "content-type": "application/json",
        "content-length": str(len(body)),
        **(headers or {}),
    }
    lines = [f"{name}: {value}" for name, value in sent.items()]
    host, port = url.removeprefix("http://").split(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        await stream.send_all("\r\n".join(["POST / HTTP/1.0", *lines, "", ""]).encode() + body)
        async with aclosing(_lines(stream)) as found:
            async for text in found:
                if not text.strip():
                    break
            yield found


async def _lines(stream: trio.SocketStream) -> AsyncGenerator[bytes, None]:
    rest = b""
    async for piece in stream:
        *lines, rest = (rest + piece).split(b"\n")
        for text in lines:
            yield text
    if rest:
        yield rest


class Ours:
    """Our own client, which takes its stream up by itself.

    Attributes:
        seen: Number and value of each event, in the order in which they came; the first is the task as it was.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[int, Any]] = []
        self._more = trio.Event()

    async def read(self, url: str, task_id: str, *, task_status: trio.TaskStatus[None]) -> None:
        async with connect(url) as client, client.subscribe(task_id) as events:
            async for event in events:
                if not self.seen:
                    task_status.started()
                self.seen.append((events.last_sequence, event))
                self._more.set()
            assert not events.gap
            assert events.resumed >= 2

    async def reached(self, number: int) -> None:
        # In each server's life: then the next one is found at the first attempt or two.
        while self.seen[-1][0] < number:
            self._more = trio.Event()
            await self._more.wait()


async def log_length(store: str, task_id: str) -> int:
    async with open_sql_store(store, on_orphan="keep") as opened:
        return len(await opened.events(task_id, 0))


async def check_log(store: str, task_id: str, seen: list[tuple[int, Any]]) -> None:
    """Check that all that was seen is in the log, that it has no gap, and that it counts without one."""
    async with open_sql_store(store, on_orphan="keep") as opened:
        log = await opened.events(task_id, 0)
    assert [envelope.sequence for envelope in log] == list(range(1, len(log) + 1))
    events = {envelope.sequence: envelope.event for envelope in log}
    for number, event in seen:
        assert events[number] == event
    counted = [event.artifact.text() for event in events.values() if isinstance(event, TaskArtifactUpdateEvent)]
    assert counted == [str(number) for number in range(len(counted))]


def decoded(results: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, Any]]:
    kinds = {"statusUpdate": TaskStatusUpdateEvent, "artifactUpdate": TaskArtifactUpdateEvent}
    found: list[tuple[int, Any]] = []
    for number, result in results:
        ((member, value),) = result.items()
        if member in kinds:
            found.append((number, from_dict(value, kinds[member])))
    return found


@pytest.mark.requirement("S5-REPLAY", "S5-RECOVERY", "S5-RESUME")
@on_sqlite_and_postgresql
@within(60)
async def test_readers_of_a_task_miss_nothing_and_see_nothing_twice_whatever_server_is_killed(url: str) -> None:
    """One task outlives servers of each policy, and ends with the last."""
    port, raw, ours = free_port(), Reader(), Ours()
    async with trio.open_nursery() as nursery:
        async with server(url, port, "keep") as address:
            await raw.begin(address, until=20)
            await nursery.start(ours.read, address, raw.task_id)
        # Seen or not, this is what there is of it.
        stored = await log_length(url, raw.task_id)
        assert stored >= raw.last
        if url.startswith("sqlite"):
            async with server(url, port, "keep"):
                task = await raw.call(address, "GetTask", {"id": raw.task_id})
                assert task["status"]["state"] == TaskState.WORKING.value
                await raw.go_on(address, until=stored)
                await ours.reached(stored)
            assert await log_length(url, raw.task_id) == stored
        async with server(url, port, "resume"):
            await raw.go_on(address, until=stored + 20)
            await ours.reached(stored + 20)
        async with server(url, port, "fail"):
            await raw.go_on(address)
            await ours.reached(raw.last)
    numbers = [number for number, _ in raw.seen]
    assert numbers == list(range(1, numbers[-1] + 1))
    assert raw.seen[-1][1]["statusUpdate"]["status"]["state"] == TaskState.FAILED.value
    assert raw.seen[stored][1]["statusUpdate"]["status"]["state"] == TaskState.WORKING.value
    assert [number for number, _ in ours.seen] == numbers[ours.seen[0][0] - 1 :]
    await check_log(url, raw.task_id, decoded(raw.seen))
    await check_log(url, raw.task_id, ours.seen[1:])  # behind the snapshot


@pytest.mark.requirement("S5-RECOVERY", "S5-LEASE")
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@within(60)
async def test_another_server_takes_over_when_the_lease_of_a_killed_one_has_expired(url: str) -> None:
    raw = Reader()
    async with server(url, free_port(), "resume") as other:
        async with server(url, free_port(), "resume") as address:
            await raw.begin(address, until=20)
        stored = await log_length(url, raw.task_id)
        await raw.go_on(other, until=stored + 20)
    numbers = [number for number, _ in raw.seen]
    assert numbers == list(range(1, stored + 21))
    assert raw.seen[stored][1]["statusUpdate"]["status"]["state"] == TaskState.WORKING.value
    await check_log(url, raw.task_id, decoded(raw.seen))
