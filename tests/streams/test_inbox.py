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
    inbox = Inbox(permits=9)
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
    inbox = Inbox(permits=9)
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
    inbox = Inbox(permits=9)
    inbox.put("dropped")
    inbox.clear()
    assert not await inbox.wait()


@within(5)
async def test_waiting_is_a_checkpoint_and_takes_nothing_when_it_is_cancelled(autojump_clock):
    inbox = Inbox(permits=9)
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


@within(5)
async def test_permits_are_given_in_the_order_of_asking(autojump_clock):
    """Nobody overtakes those who wait, even where a permit is free at the moment."""
    inbox = Inbox(permits=2)
    got = []

    async def ask(name):
        await inbox.wait_for_permit()
        got.append(name)

    assert inbox.take_permits(2)
    assert not inbox.take_permits()
    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(ask, name)
            await trio.testing.wait_all_tasks_blocked()
        inbox.give_back(2)
        assert not inbox.take_permits(), "two are for those who wait, and one still does"
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(got) == ["a", "b"]
        inbox.give_back(2)
        await trio.testing.wait_all_tasks_blocked()
    assert got[2:] == ["c"]
    assert inbox.take_permits()
    assert not inbox.take_permits()


@within(5)
async def test_several_permits_are_taken_together_or_not_at_all(autojump_clock):
    inbox = Inbox(permits=2)
    assert not inbox.take_permits(3)
    assert inbox.take_permits(2)


@within(5)
async def test_who_is_cancelled_while_waiting_for_a_permit_takes_none(autojump_clock):
    inbox = Inbox(permits=1)
    assert inbox.take_permits()
    with trio.move_on_after(1):
        await inbox.wait_for_permit()
    inbox.give_back(1)
    assert inbox.take_permits()


@within(5)
async def test_closing_lets_all_go_who_wait_for_a_permit(autojump_clock):
    inbox = Inbox(permits=1)
    assert inbox.take_permits()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(inbox.wait_for_permit)
        await trio.testing.wait_all_tasks_blocked()
        inbox.close()
