"""What a processor has yet to take."""

import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a.streams.inbox import Inbox


def taken(inbox):
    return [inbox.take() for _ in range(len(inbox))]


@within(5)
async def test_items_come_out_in_order_and_a_waiting_reader_is_woken_once(autojump_clock):
    inbox = Inbox()
    seen = []

    async def read():
        while await inbox.wait():
            seen.append(taken(inbox))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        for item in range(3):
            inbox.put(item)
        await trio.testing.wait_all_tasks_blocked()
        inbox.put(3)
        await trio.testing.wait_all_tasks_blocked()
        inbox.close()
    assert seen == [[0, 1, 2], [3]]


@within(5)
async def test_what_is_there_when_it_is_closed_can_be_taken_and_nothing_more_comes(autojump_clock):
    inbox = Inbox()
    inbox.put("last")
    inbox.close()
    inbox.close()
    with pytest.raises(trio.ClosedResourceError):
        inbox.put("later")
    assert await inbox.wait()
    assert taken(inbox) == ["last"]
    assert not await inbox.wait()


@within(5)
async def test_what_is_dropped_is_gone(autojump_clock):
    inbox = Inbox()
    inbox.put("dropped")
    inbox.clear()
    assert not await inbox.wait()


@within(5)
async def test_waiting_is_a_checkpoint_and_takes_nothing_when_it_is_cancelled(autojump_clock):
    inbox = Inbox()
    with trio.move_on_after(1) as scope:
        await inbox.wait()
    assert scope.cancelled_caught
    inbox.put("kept")
    with trio.CancelScope() as scope:
        scope.cancel()
        await inbox.wait()
    assert scope.cancelled_caught
    with trio.testing.assert_checkpoints():
        assert await inbox.wait()
    assert taken(inbox) == ["kept"]
