"""The network in memory keeps the rules of Trio's streams, within its bounds."""

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.testing.memory_streams import BUFFER_SIZE, MemoryNetwork, memory_stream_pair


@within(10)
async def test_a_memory_stream_is_a_trio_stream(autojump_clock):
    """Trio's own suite, with a pair whose buffers are full for the cases of a writer that waits."""

    async def make():
        return memory_stream_pair()

    async def make_full():
        pair = memory_stream_pair(16)
        for stream in pair:
            await stream.send_all(bytes(16))
        return pair

    await trio.testing.check_half_closeable_stream(make, make_full)


@within(5)
async def test_a_writer_waits_for_its_reader_once_the_buffer_is_full(autojump_clock):
    """This is what makes backpressure real in tests."""
    near, far = memory_stream_pair()
    await near.send_all(bytes(BUFFER_SIZE))
    with trio.move_on_after(1) as scope:
        await near.send_all(b"x")
    assert scope.cancelled_caught
    assert far.is_readable
    assert len(await far.receive_some()) == BUFFER_SIZE
    await near.send_all(b"y")
    assert await far.receive_some() == b"y"
    assert not far.is_readable


@within(5)
async def test_a_connection_that_is_broken_off_fails_at_both_ends_and_loses_what_was_under_way(autojump_clock):
    near, far = memory_stream_pair()
    await near.send_all(b"lost")
    near.break_off()
    for stream in (near, far):
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"x")
        assert stream.is_readable
    near.close()
    with pytest.raises(trio.ClosedResourceError):
        await near.send_eof()


@within(5)
async def test_only_the_hosts_of_a_network_can_be_reached_and_only_while_it_listens(autojump_clock):
    network = MemoryNetwork(["Agent.Test"])
    with pytest.raises(OSError, match=r"'elsewhere\.test' cannot be reached"):
        await network.connect("elsewhere.test")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(network.connect, "agent.test")
        far = await network.accept()
        assert not far.is_closed
    await network.aclose()
    await network.aclose()
    with pytest.raises(OSError, match="has stopped"):
        await network.connect("agent.test")
    with pytest.raises(trio.ClosedResourceError):
        await network.accept()


@within(5)
async def test_who_waits_for_a_listener_that_closes_is_refused(autojump_clock):
    network = MemoryNetwork(["agent.test"])

    async def refused():
        with pytest.raises(OSError, match="has stopped"):
            await network.connect("agent.test")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused)
        await trio.testing.wait_all_tasks_blocked()
        await network.aclose()


@within(5)
async def test_connections_are_broken_or_closed_all_at_once(autojump_clock):
    network = MemoryNetwork(["agent.test"])
    pairs = []

    async def connect():
        pairs.append(await network.connect("agent.test"))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(connect)
        far = [await network.accept() for _ in range(3)]
    await pairs[0].aclose()
    assert network.break_connections() == 2
    assert network.break_connections() == 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        far.append(await network.accept())
    network.close_connections()
    assert await far[-1].receive_some() == b""


def test_streams_and_networks_show_what_they_are():
    near, far = memory_stream_pair()
    assert repr(near) == "<MemoryStream 0 bytes in, 0 out>"
    far.close()
    assert repr(far) == "<MemoryStream closed>"
    assert repr(MemoryNetwork(["b", "a"])) == "<MemoryNetwork to a, b>"
