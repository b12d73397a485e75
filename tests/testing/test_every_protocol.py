"""Each Protocol that a user may implement has a suite, and ours pass those that are not tried elsewhere."""

import inspect
import itertools
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.deadline import within
from trio_a2a import abc, client, clock, testing
from trio_a2a.abc import StreamCloseHandle, SubscriberInfo
from trio_a2a.clock import Clock, TrioClock
from trio_a2a.streams import open_queue_manager
from trio_a2a.streams.hooks import CallbackHook
from trio_a2a.testing import check_clock, check_stream_close_handle

SUITES = {
    "AgentExecutor": "check_agent_executor",
    "Auth": "check_auth",
    "Authenticator": "check_authenticator",
    "CancellableExecutor": "check_agent_executor",
    "ClientTransport": "check_client_transport",
    "Clock": "check_clock",
    "EventSource": "check_client_transport",
    "EventLog": "check_event_log",
    "OrphanedTasks": "check_orphaned_tasks",
    "Principal": "check_authenticator",
    "PushConfigStore": "check_push_config_store",
    "ResumableExecutor": "check_agent_executor",
    "StreamCloseHandle": "check_stream_close_handle",
    "TaskStateProvider": "check_task_state_provider",
    "TaskStore": "check_task_store",
    "TaskStreamLifecycleHook": "check_lifecycle_hook",
}


@pytest.mark.requirement("S7-CONFORMANCE")
def test_every_protocol_has_a_suite():
    protocols = {
        name
        for module in (abc, client, clock)
        for name in module.__all__
        if getattr(getattr(module, name), "_is_protocol", False)
    }
    assert protocols == set(SUITES)
    for protocol, suite in SUITES.items():
        assert inspect.iscoroutinefunction(getattr(testing, suite)), f"{protocol}: {suite}"


# -------------------------------------------------------------------------------------------------------------- clocks


@pytest.mark.requirement("S7-CONFORMANCE", "S4-TIME")
@within(5)
async def test_our_clock_passes(autojump_clock):
    await check_clock(TrioClock())


@attrs.define
class Told(Clock):
    reading: Any

    def now(self):
        return self.reading()


START = datetime(2024, 5, 1, tzinfo=UTC)
COUNT = itertools.count()


@pytest.mark.parametrize(
    ("reading", "fault"),
    [
        (lambda: 1714521600.0, "returns a datetime"),
        (lambda: datetime(2024, 5, 1), "aware"),  # noqa: DTZ001 - the fault
        (lambda: START.astimezone(timezone(timedelta(hours=2))), "in UTC"),
        (lambda: START - timedelta(seconds=next(COUNT)), "backwards"),
        (lambda: START, "moves on"),
    ],
    ids=["number", "naive", "local", "backwards", "stopped"],
)
@within(5)
async def test_each_fault_of_a_clock_is_found(autojump_clock, reading, fault):
    with pytest.raises(AssertionError, match=fault):
        await check_clock(Told(reading))


# -------------------------------------------------------------------------------------------------------- close handles


@asynccontextmanager
async def streams_of_a_manager():
    handles = []

    async def keep(_task_id, handle):
        handles.append(handle)

    async with open_queue_manager(hook=CallbackHook(on_subscribe=keep)) as manager:
        children = [await manager.create_or_tap("t") for _ in range(3)]
        yield handles[0], {handle.subscriber.id: child for handle, child in zip(handles, children, strict=True)}


@pytest.mark.requirement("S7-CONFORMANCE", "S4-HANDLE")
@within(60)
async def test_our_handle_passes(autojump_clock):
    await check_stream_close_handle(streams_of_a_manager)


class Fake(StreamCloseHandle):
    """A good one, over memory channels."""

    def __init__(self, nursery, sends):
        self._nursery = nursery
        self.sends = sends

    @property
    def active_subscriber_count(self):
        return len(self.sends)

    @property
    def subscriber(self):
        return SubscriberInfo(id=1, opened_at=START)

    async def close_streams(self):
        for id_ in list(self.sends):
            await self.close_subscriber(id_)

    async def abort_streams(self):
        await Fake.close_streams(self)

    async def close_subscriber(self, id):
        if send := self.sends.pop(id, None):
            send.close()

    def start_soon(self, async_fn, *args):
        self._nursery.start_soon(async_fn, *args)


class MiscountsClosed(Fake):
    @property
    def active_subscriber_count(self):
        return 3


class IsAboutANumber(Fake):
    @property
    def subscriber(self):
        return 1


class ClosesAnyone(Fake):
    async def close_subscriber(self, id):
        await super().close_subscriber(id if id in self.sends else next(iter(self.sends), None))


class ClosesOnlyTheCount(Fake):
    async def close_subscriber(self, id):
        self.kept = [*getattr(self, "kept", ()), self.sends.pop(id, None)]


class LeavesOne(Fake):
    async def close_streams(self):
        pass


class DoesNotAbort(Fake):
    async def abort_streams(self):
        pass


class ForgetsArguments(Fake):
    def start_soon(self, async_fn, *args):
        self._nursery.start_soon(async_fn, "", 0)


class NeverStarts(Fake):
    def start_soon(self, async_fn, *args):
        pass


def opening(make):
    @asynccontextmanager
    async def streams():
        async with trio.open_nursery() as nursery:
            pairs = {id_: trio.open_memory_channel(1) for id_ in (1, 2, 3)}
            handle = make(nursery, {id_: send for id_, (send, _) in pairs.items()})
            faults = []
            try:
                yield handle, {id_: receive for id_, (_, receive) in pairs.items()}
            except AssertionError as exc:
                faults.append(exc)
        if faults:
            raise faults[0]

    return streams


@within(60)
async def test_a_fake_that_keeps_the_rules_passes(autojump_clock):
    await check_stream_close_handle(opening(Fake))


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (MiscountsClosed, "closes that one"),
        (IsAboutANumber, "SubscriberInfo or None"),
        (ClosesAnyone, "unknown subscriber"),
        (ClosesOnlyTheCount, "close_subscriber has closed ends"),
        (LeavesOne, "close_streams closes all"),
        (DoesNotAbort, "abort_streams closes all"),
        (ForgetsArguments, "with its arguments"),
        (NeverStarts, "with its arguments"),
    ],
)
@within(60)
async def test_each_fault_of_a_handle_is_found(autojump_clock, make, fault):
    with pytest.raises(AssertionError, match=fault):
        await check_stream_close_handle(opening(make))
