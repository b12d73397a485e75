"""Streams that survive networks: numbered frames and ``Last-Event-ID``, over both HTTP bindings."""

import random

import attrs
import pytest
import trio
import trio.testing

from tests.agents.desk import open_desk
from tests.deadline import within
from tests.server.bindings import both_bindings, open_caller
from trio_a2a.server import BearerTokenAuthenticator, Limits
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.testing import FlakyStore, artifact
from trio_a2a.types import TaskState

SEND, STREAM, SUBSCRIBE = "SendMessage", "SendStreamingMessage", "SubscribeToTask"


class Steps:
    """Says numbers when it is told to, and completes at None."""

    def __init__(self):
        self._send, self._receive = trio.open_memory_channel(10_000)

    def say(self, *numbers):
        for number in numbers:
            self._send.send_nowait(number)

    async def execute(self, _context, updater):
        await updater.start_work()
        async for number in self._receive:
            if number is None:
                await updater.complete("done")
                return
            await updater.add_artifact(str(number), artifact_id="one", append=number != 0)


def params(text="hello", **members):
    return {
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **members},
        "configuration": {"returnImmediately": True},
    }


async def started(caller) -> str:
    id_ = (await caller.call(SEND, params())).result["task"]["id"]
    await trio.testing.wait_all_tasks_blocked()
    return id_


def back(last) -> dict[str, str]:
    return {"last-event-id": str(last)}


async def heard(caller, id_, last=None):
    """The kinds and numbers of a subscription, up to its end."""
    async with caller.stream(SUBSCRIBE, {"id": id_}, {} if last is None else back(last)) as events:
        if not events.is_stream:
            return (await events.answer()).reason
        return [(event.says, event.id) for event in await events.rest()]


# -------------------------------------------------------------------------------------------------------------- numbers


@both_bindings
@within(5)
async def test_a_snapshot_has_the_number_of_the_last_event_that_is_in_it(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent) as caller:
        id_ = await started(caller)
        agent.say(0, 1, 2)
        await trio.testing.wait_all_tasks_blocked()
        async with caller.stream(SUBSCRIBE, {"id": id_}) as events:
            snapshot = await events.next()
            assert snapshot.id == 5
            assert len(snapshot.value["task"]["artifacts"][0]["parts"]) == 3
            agent.say(3)
            assert (await events.next()).id == 6


@both_bindings
@within(5)
async def test_a_reply_has_no_number_and_a_comment_none_either(autojump_clock, binding):
    async def agent(_context, updater):
        await trio.sleep(2)
        await updater.reply("hi")

    limits = Limits(keep_alive=0.6)
    async with open_caller(binding, agent, limits=limits) as caller, caller.stream(STREAM, params()) as events:
        found = await events.rest()
    assert [(event.says, event.id) for event in found] == [(": keep-alive", None), ("hi", None)]


# ---------------------------------------------------------------------------------------------------------- coming back


@both_bindings
@within(5)
async def test_a_reader_of_a_live_task_gets_what_it_missed_and_what_comes(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent) as caller:
        id_ = await started(caller)
        agent.say(0, 1, 2)
        await trio.testing.wait_all_tasks_blocked()
        async with caller.stream(SUBSCRIBE, {"id": id_}, back(3)) as events:
            assert [(await events.next()).id for _ in range(2)] == [4, 5]
            agent.say(3, None)
            assert [(event.says, event.id) for event in await events.rest()] == [
                ("artifactUpdate", 6),
                ("COMPLETED", 7),
            ]


@both_bindings
@within(5)
async def test_from_0_on_everything_comes(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent) as caller:
        id_ = await started(caller)
        agent.say(0, None)
        await trio.testing.wait_all_tasks_blocked()
        kinds = ["SUBMITTED", "WORKING", "artifactUpdate", "COMPLETED"]
        assert await heard(caller, id_, 0) == list(zip(kinds, range(1, 5), strict=True))


@both_bindings
@pytest.mark.parametrize("value", ["6", "1000", "-1", "+3", "0x3", "3.0", "3,4", "", " ", "abc", "9" * 30, "\xb3"])
@within(5)
async def test_a_number_that_is_none_or_not_known_brings_the_snapshot(autojump_clock, binding, value):
    agent = Steps()
    async with open_caller(binding, agent) as caller:
        id_ = await started(caller)
        agent.say(0, 1, 2)
        await trio.testing.wait_all_tasks_blocked()
        async with caller.stream(SUBSCRIBE, {"id": id_}, back(value)) as events:
            snapshot = await events.next()
            assert (snapshot.says, snapshot.id) == ("WORKING", 5)
            agent.say(None)
            assert [event.id for event in await events.rest()] == [6]


@both_bindings
@within(5)
async def test_a_message_that_is_sent_takes_no_notice_of_the_number(autojump_clock, binding):
    agent = Steps()
    agent.say(0, None)
    async with open_caller(binding, agent) as caller, caller.stream(STREAM, params(), back(3)) as events:
        assert [event.id for event in await events.rest()] == [1, 2, 3, 4]


# ---------------------------------------------------------------------------------------------- how far back one can go


@both_bindings
@within(5)
async def test_the_bound_of_what_is_replayed_is_the_limit_s(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent, limits=Limits(replay_events=3)) as caller:
        id_ = await started(caller)
        agent.say(0, 1, 2, 3)
        await trio.testing.wait_all_tasks_blocked()
        for last, first in [(6, None), (5, 6), (3, 4), (2, "snapshot"), (0, "snapshot")]:
            async with caller.stream(SUBSCRIBE, {"id": id_}, back(last)) as events:
                if first is None:
                    agent.say(4)
                    assert (await events.next()).id == 7
                    await caller.manager.get(id_).flush()
                    break
                event = await events.next()
                assert (event.says, event.id) == (("WORKING", 6) if first == "snapshot" else ("artifactUpdate", first))
        agent.say(None)
        await trio.testing.wait_all_tasks_blocked()
        assert [number for _, number in await heard(caller, id_, 5)] == [6, 7, 8]
        assert await heard(caller, id_, 4) == "UNSUPPORTED_OPERATION"


@both_bindings
@within(5)
async def test_an_agent_may_replay_nothing(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent, limits=Limits(replay_events=0)) as caller:
        id_ = await started(caller)
        agent.say(0)
        await trio.testing.wait_all_tasks_blocked()
        async with caller.stream(SUBSCRIBE, {"id": id_}, back(2)) as events:
            assert (await events.next()).says == "WORKING"
        async with caller.stream(SUBSCRIBE, {"id": id_}, back(3)) as events:
            agent.say(None)
            assert [event.says for event in await events.rest()] == ["COMPLETED"]


@both_bindings
@within(30)
async def test_a_thousand_events_are_held_and_one_more_is_too_many(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent) as caller:
        id_ = await started(caller)
        agent.say(*range(1500))
        agent.say(None)
        await trio.testing.wait_all_tasks_blocked()
        last = 1503
        found = await heard(caller, id_, last - 1000)
        assert [number for _, number in found] == list(range(last - 999, last + 1))
        assert found[-1][0] == "COMPLETED"
        assert await heard(caller, id_, last - 1001) == "UNSUPPORTED_OPERATION"


class NoLog:
    """A store of tasks, and of nothing else."""

    def __init__(self):
        self._inner = InMemoryTaskStore()

    async def get(self, task_id):
        return await self._inner.get(task_id)

    async def commit(self, changes):
        await self._inner.commit(changes)

    async def delete(self, task_id):
        await self._inner.delete(task_id)

    async def list(self, query, *, owner, after=None):
        return await self._inner.list(query, owner=owner, after=after)


@both_bindings
@within(5)
async def test_a_store_that_keeps_no_events_gives_the_snapshot(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent, store=NoLog()) as caller:
        id_ = await started(caller)
        agent.say(0)
        await trio.testing.wait_all_tasks_blocked()
        async with caller.stream(SUBSCRIBE, {"id": id_}, back(1)) as events:
            assert (await events.next()).says == "WORKING"
        async with caller.stream(SUBSCRIBE, {"id": id_}, back(3)) as events:
            agent.say(None)  # nothing was missed, so nothing need be held
            assert [event.id for event in await events.rest()] == [4]
        assert await heard(caller, id_, 3) == "UNSUPPORTED_OPERATION"


# ---------------------------------------------------------------------------------------------- a task that is finished


@both_bindings
@within(60)
async def test_a_finished_task_is_read_to_its_end_within_the_grace_period_and_not_after(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent, store=InMemoryTaskStore(grace_period=20)) as caller:
        id_ = await started(caller)
        agent.say(0, None)
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(19.9)
        assert await heard(caller, id_, 2) == [("artifactUpdate", 3), ("COMPLETED", 4)]
        assert await heard(caller, id_, 4) == []
        assert await heard(caller, id_) == "UNSUPPORTED_OPERATION"
        for not_valid in (5, "x", -1):
            assert await heard(caller, id_, not_valid) == "UNSUPPORTED_OPERATION"
        await trio.sleep(0.2)
        assert await heard(caller, id_, 2) == "UNSUPPORTED_OPERATION"
        assert caller.manager.statistics().queues == 0


@both_bindings
@within(5)
async def test_reading_a_finished_task_to_its_end_takes_a_place_among_its_streams(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent, limits=Limits(streams_per_task=1)) as caller:
        id_ = await started(caller)
        agent.say(0, None)
        await trio.testing.wait_all_tasks_blocked()
        # Over this connection the server can send no further than the client has read.
        stalled = attrs.evolve(caller, peer=attrs.evolve(caller.peer, pair=trio.testing.lockstep_stream_pair))
        wire = stalled.peer.connect()
        await wire.stream.send_all(stalled.request(SUBSCRIBE, {"id": id_}, back(2)))
        await trio.testing.wait_all_tasks_blocked()
        refused = await caller.call(SUBSCRIBE, {"id": id_}, back(2))
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        await wire.head()
        await trio.testing.wait_all_tasks_blocked()
        assert await heard(caller, id_, 3) == [("COMPLETED", 4)]


class ShortLog(FlakyStore):
    """Holds the last two events alone."""

    async def events(self, task_id, after):
        return (await super().events(task_id, after))[-2:]


@both_bindings
@within(5)
async def test_a_log_that_does_not_reach_back_far_enough_leaves_no_gap(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent, store=ShortLog()) as caller:
        id_ = await started(caller)
        agent.say(0, 1, 2)
        await trio.testing.wait_all_tasks_blocked()
        for last, first in [(2, "WORKING"), (3, "artifactUpdate")]:
            async with caller.stream(SUBSCRIBE, {"id": id_}, back(last)) as events:
                assert (await events.next()).says == first
        agent.say(None)
        await trio.testing.wait_all_tasks_blocked()
        assert await heard(caller, id_, 3) == "UNSUPPORTED_OPERATION"
        assert await heard(caller, id_, 4) == [("artifactUpdate", 5), ("COMPLETED", 6)]


@both_bindings
@within(5)
async def test_without_a_grace_period_a_finished_task_is_over_at_once(autojump_clock, binding):
    agent = Steps()
    async with open_caller(binding, agent, store=InMemoryTaskStore(grace_period=0)) as caller:
        id_ = await started(caller)
        agent.say(None)
        await trio.testing.wait_all_tasks_blocked()
        assert await heard(caller, id_, 1) == "UNSUPPORTED_OPERATION"


@pytest.mark.requirement("S5-OWNER")
@both_bindings
@within(5)
async def test_only_the_owner_of_a_task_is_given_what_it_missed(autojump_clock, binding):
    agent = Steps()
    authenticator = BearerTokenAuthenticator({"a": "ann", "b": "bob"})
    async with open_caller(binding, agent, authenticator=authenticator) as caller:
        ann, bob = caller.speaking_for("a"), caller.speaking_for("b")
        id_ = await started(ann)
        assert await heard(bob, id_, 1) == "TASK_NOT_FOUND"
        agent.say(None)
        await trio.testing.wait_all_tasks_blocked()
        assert await heard(bob, id_, 1) == "TASK_NOT_FOUND"
        assert await heard(ann, id_, 2) == [("COMPLETED", 3)]


# --------------------------------------------------------------------------------------------- readers that come and go


class Reader:
    """Reads a task to its end over connections that break; keeps what it was told."""

    def __init__(self, caller, id_, rng):
        self._caller = caller
        self._id = id_
        self._rng = rng
        self.numbers = []
        self.parts = []
        self.snapshots = 0
        self.connections = 0
        self.over = False

    async def read(self):
        while not self.over:
            # Now and then the number is forgotten, as by a client that has restarted.
            forget = not self.numbers or self._rng.random() < 0.1
            headers = {} if forget else back(self.numbers[-1])
            self.connections += 1
            async with self._caller.stream(SUBSCRIBE, {"id": self._id}, headers) as events:
                if not events.is_stream:
                    assert (await events.answer()).reason == "UNSUPPORTED_OPERATION"
                    self.over = True
                    return
                await self._take(events, forget, self._rng.randrange(1, 60))

    async def _take(self, events, forget, count):
        for place in range(count):
            frame = await events.stream.frame()
            if frame is None:
                self.over = True
                return
            if frame.comment is not None:
                continue
            value = frame.data.get("result", frame.data)
            if "task" in value:
                assert place == 0, "a snapshot stands in front"
                assert forget, "the events are held, so none is needed"
                self.snapshots += 1
                artifacts = value["task"].get("artifacts", [])
                self.parts = [part["text"] for artifact in artifacts for part in artifact["parts"]]
            else:
                assert not self.numbers or frame.id == self.numbers[-1] + 1, "neither a gap nor a double"
                if "artifactUpdate" in value:
                    self.parts.append(value["artifactUpdate"]["artifact"]["parts"][0]["text"])
            self.numbers.append(frame.id)
            if self._rng.random() < 0.3:
                await trio.lowlevel.checkpoint()


@pytest.mark.requirement("S1-NO-LOSS", "S3-SEQUENCE")
@both_bindings
@pytest.mark.parametrize("seed", range(4))
@within(60)
async def test_readers_that_come_and_go_beside_a_fast_producer_miss_nothing_and_hear_nothing_twice(
    autojump_clock, binding, seed
):
    rng = random.Random(seed)
    count = 600
    begin = trio.Event()

    async def agent(_context, updater):
        await updater.start_work()
        await begin.wait()
        for number in range(count):
            await updater.add_artifact(str(number), artifact_id="one", append=number > 0)
            if rng.random() < 0.1:
                await trio.sleep(rng.random() / 100)
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        id_ = await started(caller)
        readers = [Reader(caller, id_, random.Random(seed * 100 + place)) for place in range(8)]
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(reader.read)
            begin.set()
        assert caller.manager.active_subscriber_count(id_) <= 0
    assert sum(reader.connections for reader in readers) > 8 * 5
    for reader in readers:
        assert reader.numbers[-1] == count + 3
        assert reader.parts == [str(number) for number in range(count)]


# --------------------------------------------------------------------------------------- between check and subscription


class OnceBehind(FlakyStore):
    """Shows the task once as it was before its end; forwards the log too."""

    behind = False

    async def get(self, task_id):
        stored = await super().get(task_id)
        if stored is not None and self.behind:
            self.behind = False
            working = attrs.evolve(stored.task.status, state=TaskState.WORKING)
            stored = attrs.evolve(stored, task=attrs.evolve(stored.task, status=working))
        return stored


@pytest.mark.requirement("S5-SUBSCRIPTION-END")
@pytest.mark.parametrize(("after", "numbers"), [(None, [3]), (0, [1, 2]), (1, [2]), (2, [3]), (3, [])])
@within(30)
async def test_a_reader_that_joins_at_the_very_end_is_not_kept_for_the_grace_period(autojump_clock, after, numbers):
    """The task has ended since it was looked at, and an artifact has come late: there is no end left to wait for."""

    async def finish(_context, updater):
        await updater.complete()

    store = OnceBehind()
    async with open_desk(finish, store=store) as desk:
        task = await desk.send()
        await desk.manager.enqueue(task.id, artifact(task.id, "late"))
        await trio.testing.wait_all_tasks_blocked()
        store.behind = True
        began = trio.current_time()
        async with desk.subscribe(task.id, after=after) as stream:
            heard = []
            with pytest.raises(trio.EndOfChannel):
                while True:
                    heard += [envelope.sequence for envelope in await stream.receive_batch()]
        assert heard == numbers
        assert trio.current_time() == began
