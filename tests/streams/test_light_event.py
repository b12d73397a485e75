"""An event that nearly nobody waits for."""

import trio
import trio.testing

from tests.deadline import within
from trio_a2a.streams.light_event import LightEvent


@within(5)
async def test_all_who_wait_are_woken_when_it_is_set_and_who_comes_later_does_not_wait(autojump_clock):
    event = LightEvent()
    woken = []

    async def wait(name):
        await event.wait()
        woken.append(name)

    assert not event.is_set()
    async with trio.open_nursery() as nursery:
        for name in "ab":
            nursery.start_soon(wait, name)
        await trio.testing.wait_all_tasks_blocked()
        assert woken == []
        event.set()
        event.set()
        assert event.is_set()
    assert sorted(woken) == ["a", "b"]
    await wait("c")
    assert woken[-1] == "c"


@within(5)
async def test_waiting_is_a_checkpoint_whether_it_is_set_or_not(autojump_clock):
    event = LightEvent()
    with trio.move_on_after(1) as scope:
        await event.wait()
    assert scope.cancelled_caught
    event.set()
    with trio.testing.assert_checkpoints():
        await event.wait()
    with trio.CancelScope() as scope:
        scope.cancel()
        await event.wait()
    assert scope.cancelled_caught
