"""The suite for close handles: for a program that gives hooks a handle of its own, such as a fake in their tests."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import trio
import trio.abc

from ..abc import StreamCloseHandle, SubscriberInfo

__all__ = ["check_stream_close_handle"]

OpenStreams = Callable[
    [], AbstractAsyncContextManager[tuple[StreamCloseHandle, Mapping[int, trio.abc.ReceiveChannel[Any]]]]
]

_SUBSCRIBERS = 3
_UNKNOWN = -1
# For what is to happen at once; only a stream that does not end takes any of it.
_TIMEOUT = 5.0


async def check_stream_close_handle(open_streams: OpenStreams) -> None:
    """Check that a handle meets the obligations of `StreamCloseHandle`.

    Args:
        open_streams: Returns an async context manager whose value is a handle and the streams of its task by the ids of
            their subscribers: three streams, open and without a backlog.

    Raises:
        AssertionError: The handle breaks an obligation; the text says which.
    """
    async with open_streams() as (handle, streams):
        assert len(streams) == _SUBSCRIBERS, "the suite is given three streams"
        assert handle.active_subscriber_count == _SUBSCRIBERS, "active_subscriber_count counts the open streams"
        about = handle.subscriber
        assert about is None or isinstance(about, SubscriberInfo), "subscriber is a SubscriberInfo or None"
        await handle.close_subscriber(_UNKNOWN)
        assert handle.active_subscriber_count == _SUBSCRIBERS, "closing an unknown subscriber closes nobody"
        one, *others = streams
        for _ in range(2):
            await handle.close_subscriber(one)
            assert handle.active_subscriber_count == _SUBSCRIBERS - 1, "close_subscriber closes that one, once"
        await _ends(streams[one], "close_subscriber")
        for _ in range(2):
            await handle.close_streams()
            assert handle.active_subscriber_count == 0, "close_streams closes all"
        for id_ in others:
            await _ends(streams[id_], "close_streams")
        await handle.abort_streams()
        await _runs_what_is_scheduled(handle)
    async with open_streams() as (handle, streams):
        await handle.abort_streams()
        assert handle.active_subscriber_count == 0, "abort_streams closes all"
        for stream in streams.values():
            await _ends(stream, "abort_streams")
        await handle.close_streams()


async def _ends(stream: trio.abc.ReceiveChannel[Any], method: str) -> None:
    ended = False
    with trio.move_on_after(_TIMEOUT):
        try:
            await stream.receive()
        except trio.EndOfChannel:
            ended = True
    assert ended, f"a stream that {method} has closed ends with trio.EndOfChannel"


async def _runs_what_is_scheduled(handle: StreamCloseHandle) -> None:
    done: list[tuple[str, int]] = []
    over = trio.Event()

    async def work(text: str, number: int) -> None:
        await trio.lowlevel.checkpoint()
        done.append((text, number))
        over.set()

    handle.start_soon(work, "x", 1)
    assert not done, "start_soon returns before what it starts has run"
    with trio.move_on_after(_TIMEOUT):
        await over.wait()
    assert done == [("x", 1)], "start_soon runs the function once, with its arguments"
