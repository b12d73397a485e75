"""Cancelling a connection at every single step: nothing is left, and what has been sent is a prefix of the truth."""

import gc

import pytest
import trio
import trio.testing

from trio_a2a.server.http import serve_stream

from .http_peer import CHUNKED, GET, Answering, post


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope at the n-th step that any task takes."""

    def __init__(self, step: int, scope: trio.CancelScope) -> None:
        self.left = step
        self.scope = scope

    def before_task_step(self, task) -> None:
        self.left -= 1
        if self.left == 0:
            self.scope.cancel(reason="test")


async def streaming(scope, receive, send):
    """Reads the body in a task of its own while it sends."""
    async with trio.open_nursery() as nursery:

        async def read():
            while (await receive())["type"] != "http.disconnect":
                pass

        nursery.start_soon(read)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(3):
            await send({"type": "http.response.body", "body": b"part", "more_body": True})
            await trio.lowlevel.checkpoint()
        await send({"type": "http.response.body", "body": b"end"})


EXPECT = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
CONVERSATIONS = {
    "requests": (Answering, [GET, post(b"hello"), GET + GET]),
    "chunks": (Answering, [CHUNKED, b"3\r\nabc\r\n", b"0\r\n\r\n"]),
    "expect": (Answering, [EXPECT, b"hi"]),
    "stream": (lambda: streaming, [GET, GET]),
    "refusal": (Answering, [b"nonsense"]),
    "refused body": (Answering, [CHUNKED, b"x\r\n"]),
    "large": (lambda: Answering(body=b"x" * 100_000), [GET]),
    "half": (Answering, [GET[:-1]]),
}


async def talk(app, says, pair, step) -> tuple[bool, bytes]:
    """One conversation; whether the server got to its end by itself, and what the client was sent."""
    ours, theirs = pair()
    heard = bytearray()

    async def client():
        async with trio.open_nursery() as both:

            async def hear():
                try:
                    while data := await ours.receive_some():
                        heard.extend(data)
                except trio.ClosedResourceError:
                    pass

            both.start_soon(hear)
            try:
                for part in says:
                    await ours.send_all(part)
                await trio.testing.wait_all_tasks_blocked()
                await ours.send_eof()
            except trio.BrokenResourceError:
                pass

    scope = trio.CancelScope()
    instrument = CancelAtStep(step, scope)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client)
        trio.lowlevel.add_instrument(instrument)
        try:
            with scope:
                await serve_stream(app, theirs)
        finally:
            trio.lowlevel.remove_instrument(instrument)
    with pytest.raises(trio.ClosedResourceError):
        await theirs.receive_some()
    await ours.aclose()
    return instrument.left > 0, bytes(heard)


def without_date(data: bytes) -> bytes:
    return b"\r\n".join(line for line in data.split(b"\r\n") if not line.startswith(b"date: "))


@pytest.mark.parametrize("pair", [trio.testing.memory_stream_pair, trio.testing.lockstep_stream_pair])
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_connection_can_be_cancelled_at_each_step(name, pair):
    make_app, says = CONVERSATIONS[name]
    with trio.fail_after(60):
        _, everything = await talk(make_app(), says, pair, 10**9)
        assert everything
        before = trio.lowlevel.current_statistics().tasks_living
        for step in range(1, 10_000):
            done, heard = await talk(make_app(), says, pair, step)
            assert trio.lowlevel.current_statistics().tasks_living == before
            assert without_date(everything).startswith(without_date(heard[: heard.rfind(b"\n") + 1]))
            if done:
                break
        assert step > 5
    gc.collect()
