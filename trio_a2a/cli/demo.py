"""`trio-a2a demo`: the heart of the library at work, with a real server and real HTTP clients in one program.

An agent sends twenty pieces of progress. Three clients subscribe one after the other; when the third arrives a
lifecycle hook closes all streams. The agent goes on, and a fourth client sees the task end.
"""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import trio

from ..abc import StreamCloseHandle
from ..agents import RequestContext, TaskUpdater
from ..server import Agent, Served, agent_card, serve
from ..streams.hooks import CloseStreamsHook

__all__ = ["run_demo"]

_PIECES = 20
_PACE = 0.1  # seconds between two pieces: slow enough to watch, two seconds in all
_DEADLINE = 60.0


def _say(who: str, what: str) -> None:
    print(f"[{who}] {what}", flush=True)


async def _agent(context: RequestContext, updater: TaskUpdater) -> None:
    _say("agent", f"working on {context.text()!r}")
    await updater.start_work()
    for number in range(1, _PIECES + 1):
        await trio.sleep(_PACE)
        await updater.add_artifact(f"step {number} of {_PIECES}", name=f"progress-{number}")
        if number % 5 == 0:
            _say("agent", f"sent {number} of {_PIECES} artifacts")
    await updater.complete("All done.")


class _TalkingHook(CloseStreamsHook):
    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        count = handle.active_subscriber_count
        if count >= self.max_subscribers:
            _say("hook", f"{count} subscribers: closing streams")
        await super().on_subscribe(task_id, handle)


class _Client:
    """A client that speaks JSON-RPC, with nothing but an HTTP library."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self._ids = itertools.count(1)

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        return {"json": body, "headers": {"A2A-Version": "1.0"}}

    async def send(self, text: str) -> str:
        """Send a message without waiting for the outcome; return the task's id."""
        message = {"messageId": "demo-1", "role": "ROLE_USER", "parts": [{"text": text}]}
        request = self._request("SendMessage", {"message": message, "configuration": {"returnImmediately": True}})
        response = await self._http.post(self._url, **request)
        task_id: str = response.json()["result"]["task"]["id"]
        return task_id

    @asynccontextmanager
    async def subscribe(self, task_id: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Subscribe to the task; yields its events as they come."""
        request = self._request("SubscribeToTask", {"id": task_id})
        async with self._http.sse(self._url, method="POST", timeout=httpx2.Timeout(10, read=None), **request) as events:
            yield (self._event(event) async for event in events)

    @staticmethod
    def _event(event: httpx2.ServerSentEvent) -> dict[str, Any]:
        document: Any = event.json()
        result: dict[str, Any] = document["result"]
        return result


async def _watch(client: _Client, number: int, task_id: str, seen_some: trio.Event) -> None:
    """Read a stream to its end, and say what it showed."""
    who, pieces, state = f"client {number}", 0, ""
    async with client.subscribe(task_id) as events:
        _say(who, "subscribed")
        async for event in events:
            if "task" in event:
                state = event["task"]["status"]["state"]
                _say(who, f"snapshot with {len(event['task'].get('artifacts', ()))} artifacts")
            elif "statusUpdate" in event:
                state = event["statusUpdate"]["status"]["state"]
            else:
                pieces += 1
                if pieces == 2:
                    seen_some.set()
    seen_some.set()
    if state == "TASK_STATE_COMPLETED":
        _say(who, "task completed")
    else:
        _say(who, f"stream closed after {pieces} artifacts; the task goes on")


async def run_demo() -> None:
    """Play the demo; returns when the fourth client has seen the end of the task."""
    card = agent_card("Demo", "Sends twenty pieces of progress.")
    agent = Agent(card, _agent, hook=_TalkingHook(max_subscribers=3))
    with trio.fail_after(_DEADLINE):
        async with trio.open_nursery() as nursery:
            served: Served = await nursery.start(partial(serve, agent))
            _say("server", f"serving at {served.url}")
            async with httpx2.AsyncClient() as http:
                await _play(_Client(http, served.url))
            served.shutdown()
    _say("server", "stopped")


async def _play(client: _Client) -> None:
    task_id = await client.send("count to twenty")
    _say("client 0", "sent a message, and does not wait")
    async with trio.open_nursery() as clients:
        for number in (1, 2, 3):
            seen_some = trio.Event()
            clients.start_soon(_watch, client, number, task_id, seen_some)
            await seen_some.wait()
    _say("client 4", "subscribes again")
    await _watch(client, 4, task_id, trio.Event())
