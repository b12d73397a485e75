"""Cancellation at every step of real calls: no connection is left, and the client goes on working."""

import gc
from collections.abc import Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial

import pytest
import trio
import trio.testing

from tests.client.peers import both_bindings, open_agent
from tests.deadline import within
from trio_a2a.client import connect
from trio_a2a.client.http import KEPT_IDLE, HttpRequest, HttpSession, open_session
from trio_a2a.types import TaskState, TaskStatusUpdateEvent


async def agent(_context, updater):
    for number in range(3):
        await updater.add_artifact(str(number), artifact_id="n", append=number > 0)
    await updater.complete()


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope when the task that makes it has run so many steps."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self.task, self.scope, self.left = trio.lowlevel.current_task(), scope, step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if not self.left:
                self.scope.cancel()


@contextmanager
def cancelled_at(step: int) -> Iterator[trio.CancelScope]:
    with trio.CancelScope() as scope:
        instrument = CancelAtStep(scope, step)
        trio.lowlevel.add_instrument(instrument)
        try:
            yield scope
        finally:
            trio.lowlevel.remove_instrument(instrument)


@pytest.fixture
def pools(monkeypatch):
    """The HTTP library's pools of connections, as sessions are opened."""
    found = []

    @asynccontextmanager
    async def opening(**options):
        async with open_session(**options) as session:
            assert isinstance(session, HttpSession)
            found.append(session._client._transport._pool)
            yield session

    monkeypatch.setattr("trio_a2a.client.http.open_session", opening)
    return found


async def everything(url: str, binding: str) -> None:
    async with connect(url, transports=(binding,)) as client:
        sent = await client.send("x")
        async with client.stream("x") as events:
            assert [event async for event in events][-1].status.state is TaskState.COMPLETED
        await client.get_task(sent.id)
        assert [task.id async for task in client.list_tasks(context_id=sent.context_id)] == [sent.id]


@pytest.mark.parametrize(("kept", "connections"), [(KEPT_IDLE, 1), (0.0, 3)])
@within(10)
async def test_an_idle_connection_is_kept_for_three_seconds(monkeypatch, kept, connections):
    """Less than the five after which common servers close it, perhaps while a request is on its way.

    The HTTP library counts them on the system's clock, so the bound itself is not waited for.
    """
    assert KEPT_IDLE == 3
    monkeypatch.setattr("trio_a2a.client.http.KEPT_IDLE", kept)
    made = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal made
        made += 1
        async with stream:
            while await stream.receive_some():
                await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        async with open_session() as session:
            for _ in range(3):
                await session.exchange(HttpRequest(method="GET", url=url))
                await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert made == connections


@both_bindings
@within(60)
async def test_a_client_that_is_cancelled_anywhere_leaves_no_connection(binding, pools):
    async with open_agent(agent) as url:
        for step in range(1, 1000):
            with trio.fail_after(5), cancelled_at(step) as scope:
                await everything(url, binding)
            assert all(not pool.connections for pool in pools)
            gc.collect()  # what was not closed warns now
            if not scope.cancelled_caught:
                break
        assert 20 < step < 999


@both_bindings
@within(60)
async def test_a_call_that_is_cancelled_anywhere_does_not_disturb_the_next(binding, pools):
    async with open_agent(agent) as url, connect(url, transports=(binding,)) as client:
        for step in range(1, 1000):
            with cancelled_at(step) as scope:
                async with client.stream("x") as events:
                    assert len([event async for event in events]) == 5
            with trio.fail_after(5):
                assert (await client.send("y")).status.state is TaskState.COMPLETED
            assert all(connection.is_idle() for pool in pools for connection in pool.connections)
            if not scope.cancelled_caught:
                break
        assert 5 < step < 999


@both_bindings
@within(60)
async def test_many_streams_at_once_are_read_to_their_ends_and_leave_nothing(binding, pools):
    ended = 0

    async def read() -> None:
        nonlocal ended
        async with client.stream("x") as events:
            assert len([event async for event in events]) == 5
        ended += 1

    async with open_agent(agent) as url, connect(url, transports=(binding,)) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(read)
        assert ended == 100
        assert all(connection.is_idle() for pool in pools for connection in pool.connections)
    assert all(not pool.connections for pool in pools)


@both_bindings
@within(10)
async def test_a_client_is_of_no_use_behind_its_block(binding, pools):
    """A stream that another task still reads is told, too; it does not end as if its task had."""

    async def hold(_context, updater):
        await updater.start_work()
        await trio.sleep_forever()

    async def read(events, *, task_status) -> None:
        with pytest.raises(trio.ClosedResourceError):
            async for event in events:
                if isinstance(event, TaskStatusUpdateEvent):
                    task_status.started()
        told.set()

    told = trio.Event()
    async with open_agent(hold) as url, trio.open_nursery() as nursery, AsyncExitStack() as outlasting:
        async with connect(url, transports=(binding,)) as client:
            await nursery.start(read, await outlasting.enter_async_context(client.stream("x")))
        with pytest.raises(trio.ClosedResourceError, match="within the block"):
            await client.get_task("t")
        await told.wait()
        assert all(not pool.connections for pool in pools)
