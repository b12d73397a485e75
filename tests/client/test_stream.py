"""How a stream goes on and ends, by what comes over its connections; without a network, on a mock clock.

Deadlines are far away in mock seconds: waits jump, and a test that waits for nothing fails at once.
"""

import pytest
import trio
import trio.testing

from tests.client.scripted import END, ScriptedTransport, client_of
from tests.deadline import within
from trio_a2a.client import (
    CallTimeoutError,
    ConnectionFailedError,
    ConnectionLostError,
    HttpStatusError,
    InvalidResponseError,
    StreamInterruptedError,
)
from trio_a2a.client.stream import LASTING, MAX_RESUMPTIONS
from trio_a2a.errors import (
    AuthenticationError,
    InternalError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
)
from trio_a2a.testing import artifact, status
from trio_a2a.types import Message, Task, TaskState, TaskStatus

WORKING, INPUT, AUTH, DONE = (
    TaskState.WORKING,
    TaskState.INPUT_REQUIRED,
    TaskState.AUTH_REQUIRED,
    TaskState.COMPLETED,
)
BREAK = ConnectionLostError("cut")


def task(state=WORKING, *texts, id="t", message=None):
    artifacts = [artifact(id, list(text), artifact_id=f"a{i}").artifact for i, text in enumerate(texts)]
    return Task(id=id, context_id="c", status=TaskStatus(state=state, message=message), artifacts=artifacts)


def said(state, text=None):
    return status("t", state, text)


def chunk(text, *, append=True, name="a0"):
    return artifact("t", text, artifact_id=name, append=append)


async def played(transport, *, subscribe=False, resume=True, **options):
    """Read a stream to its end; gives the stream and what was shown."""
    client = client_of(transport)
    opened = client.subscribe("t", resume=resume) if subscribe else client.stream("x", resume=resume, **options)
    async with opened as events:
        shown = [event async for event in events]
        assert [event async for event in events] == []
    assert all(source.closed for source in transport.sources)
    return events, shown


# ---------------------------------------------------------------------------------------------------------- its end


@pytest.mark.requirement("D29")
@within(10_000)
async def test_a_stream_ends_with_the_terminal_event_without_waiting_for_the_server(autojump_clock):
    transport = ScriptedTransport([(task(), 1), (said(DONE), 2)])  # and then nothing, for ever
    events, shown = await played(transport)
    assert len(shown) == 2
    assert events.task.status.state is DONE
    assert events.resumed == 0


@within(10_000)
async def test_a_stream_that_answers_a_message_ends_in_order_where_the_agent_asks(autojump_clock):
    events, shown = await played(ScriptedTransport([(task(), 1), (said(INPUT), 2), END]))
    assert len(shown) == 2
    assert events.resumed == 0


@within(10_000)
async def test_events_behind_a_question_are_read_as_long_as_the_server_sends_them(autojump_clock):
    _, shown = await played(ScriptedTransport([(task(), 1), (said(INPUT), 2), (chunk("x"), 3), END]))
    assert len(shown) == 3


@within(10_000)
async def test_a_stream_that_breaks_behind_a_question_has_ended(autojump_clock):
    events, shown = await played(ScriptedTransport([(task(), 1), (said(INPUT), 2), BREAK]))
    assert len(shown) == 2
    assert events.resumed == 0


@pytest.mark.requirement("C-281")
@within(10_000)
@pytest.mark.parametrize("end", [END, BREAK])
async def test_a_task_that_waits_for_an_authorization_is_followed_by_a_subscription(autojump_clock, end):
    """It goes on without another message (protocol section 7.6.2), also where its server ended the stream."""
    transport = ScriptedTransport([(task(), 1), (said(AUTH), 2), end], [(said(WORKING), 3), (said(DONE), 4)])
    events, shown = await played(transport)
    assert len(shown) == 4
    assert events.resumed == 1
    assert transport.operations == ["SendStreamingMessage", "SubscribeToTask"]


@pytest.mark.requirement("C-281")
@within(10_000)
async def test_where_a_server_lets_nobody_wait_for_an_authorization_the_stream_ends_there(autojump_clock):
    events, shown = await played(ScriptedTransport([task(), said(AUTH), END], [task(AUTH), END]))
    assert events.resumed == MAX_RESUMPTIONS
    assert isinstance(shown[0], Task)
    assert events.task.status.state is AUTH


@within(10_000)
async def test_a_turn_that_changes_no_status_ends_with_its_connection(autojump_clock):
    """A follow-up that the agent answers with an artifact, while the same question stays open."""
    transport = ScriptedTransport([(task(INPUT), 5), (chunk("x"), 6), END])
    events, shown = await played(transport, task_id="t")
    assert len(shown) == 2
    assert events.resumed == 0


@within(10_000)
async def test_a_subscription_goes_on_when_it_is_closed_at_a_question(autojump_clock):
    transport = ScriptedTransport([(task(INPUT), 2), END], [(said(WORKING), 3), (said(DONE), 4)])
    events, shown = await played(transport, subscribe=True)
    assert len(shown) == 3
    assert events.resumed == 1


@within(10_000)
async def test_where_a_server_closes_every_subscription_at_a_question_it_ends_there(autojump_clock):
    """Protocol section 5.2: control goes back to the caller."""
    transport = ScriptedTransport([task(INPUT), END])
    events, shown = await played(transport, subscribe=True)
    assert len(shown) == 1
    assert events.resumed == MAX_RESUMPTIONS


@within(10_000)
async def test_the_question_that_a_message_answers_is_not_the_end_of_its_stream(autojump_clock):
    transport = ScriptedTransport([(task(INPUT), 5), BREAK], [(said(WORKING), 6), (said(DONE), 7)])
    events, shown = await played(transport, task_id="t")
    assert [type(event) for event in shown][:1] == [Task]
    assert len(shown) == 3
    assert events.resumed == 1


@within(10_000)
async def test_a_direct_reply_ends_a_stream(autojump_clock):
    events, shown = await played(ScriptedTransport([Message.agent("hi")]))
    assert shown == [events.message]
    assert events.task is None


@within(10_000)
async def test_without_resuming_a_stream_ends_as_the_server_ends_it(autojump_clock):
    events, shown = await played(ScriptedTransport([(task(), 1), END]), resume=False)
    assert len(shown) == 1
    assert events.task.status.state is WORKING


# --------------------------------------------------------------------------------------------------------- going on


@pytest.mark.requirement("C-082")
@within(10_000)
async def test_it_comes_back_with_the_last_number_and_shows_nothing_twice(autojump_clock):
    transport = ScriptedTransport(
        [(task(), 1), (chunk("a", append=False), 2), END],
        [(chunk("b"), 3), BREAK],
        [(chunk("b"), 3), (chunk("c"), 4), (said(DONE), 5)],
    )
    events, shown = await played(transport)
    assert [last for _, last in transport.calls] == [None, 2, 3]
    assert transport.operations == ["SendStreamingMessage", "SubscribeToTask", "SubscribeToTask"]
    assert events.task.artifacts[0].text("") == "abc"
    assert len(shown) == 5
    assert (events.resumed, events.gap, events.last_sequence) == (2, False, 5)


@within(10_000)
async def test_a_snapshot_of_what_is_known_is_not_shown(autojump_clock):
    transport = ScriptedTransport(
        [(task(), 1), (chunk("a", append=False), 2), BREAK], [(task(WORKING, "a"), 2), (said(DONE), 3)]
    )
    events, shown = await played(transport)
    assert len(shown) == 3
    assert not events.gap


@within(10_000)
async def test_a_newer_snapshot_stands_for_what_was_missed(autojump_clock):
    transport = ScriptedTransport([(task(), 1), BREAK], [(task(WORKING, "abc"), 9), (chunk("d"), 10), (said(DONE), 11)])
    events, shown = await played(transport)
    assert len(shown) == 4
    assert events.gap
    assert events.task.artifacts[0].text("") == "abcd"


@within(10_000)
async def test_a_number_that_was_left_out_is_told(autojump_clock):
    events, _ = await played(ScriptedTransport([(task(), 1), (chunk("a", append=False), 3), (said(DONE), 4)]))
    assert events.gap


@within(10_000)
async def test_without_numbers_a_snapshot_is_compared(autojump_clock):
    transport = ScriptedTransport(
        [task(), chunk("a", append=False), BREAK], [task(WORKING, "a"), BREAK], [task(DONE, "ab")]
    )
    events, shown = await played(transport)
    assert [last for _, last in transport.calls] == [None, None, None]
    assert len(shown) == 3
    assert shown[-1] == task(DONE, "ab")
    assert (events.resumed, events.gap, events.last_sequence) == (2, True, 0)


@within(10_000)
@pytest.mark.parametrize("first", [0, 1])
async def test_numbers_that_begin_anew_with_each_connection_are_not_believed(autojump_clock, first):
    """Servers exist that count the frames of a connection."""
    transport = ScriptedTransport(
        [(task(), first), (chunk("a", append=False), first + 1), (chunk("b"), first + 2), BREAK],
        [(task(WORKING, "ab"), first), (chunk("c"), first + 1), BREAK],
        [(task(WORKING, "abc"), first), (chunk("d"), first + 1), (said(DONE), first + 2)],
    )
    events, shown = await played(transport)
    assert events.task.artifacts[0].text("") == "abcd"
    assert len(shown) == 6
    assert not events.gap


@within(10_000)
async def test_an_event_that_comes_twice_with_its_number_is_shown_once(autojump_clock):
    transport = ScriptedTransport(
        [
            (task(), 1),
            (task(), 1),
            (chunk("a", append=False), 2),
            (chunk("b"), 3),
            (chunk("a", append=False), 2),
            BREAK,
        ],
        [(chunk("b"), 3), (chunk("b"), 3), (chunk("c"), 4), (said(DONE), 5)],
    )
    events, shown = await played(transport)
    assert len(shown) == 5
    assert events.task.artifacts[0].text("") == "abc"
    assert not events.gap


@within(10_000)
async def test_a_server_that_replays_all_is_heard_from_where_the_reader_was(autojump_clock):
    """It does not look at Last-Event-ID. What is too long ago to be compared might be lost, which is told."""
    said_all = [(task(), 1), *[(chunk(f"{n}", append=n > 2), n) for n in range(2, 50)]]
    transport = ScriptedTransport([*said_all[:40], BREAK], [*said_all[1:], (said(DONE), 50)])
    events, shown = await played(transport)
    assert len(shown) == 50
    assert events.task.artifacts[0].text("") == "".join(map(str, range(2, 50)))
    assert events.gap


@within(10_000)
async def test_a_number_that_always_is_the_same_hides_no_event(autojump_clock):
    transport = ScriptedTransport([(task(), 1), (chunk("a", append=False), 1), (chunk("b"), 1), (said(DONE), 1)])
    events, shown = await played(transport)
    assert len(shown) == 4
    assert events.task.artifacts[0].text("") == "ab"


@within(10_000)
async def test_numbers_out_of_order_hide_no_event_and_are_told(autojump_clock):
    transport = ScriptedTransport(
        [(task(), 1), (chunk("a", name="x", append=False), 3), (chunk("b", name="y", append=False), 2), (said(DONE), 4)]
    )
    events, shown = await played(transport)
    assert len(shown) == 4
    assert events.gap


@within(10_000)
@pytest.mark.parametrize("numbers", [(0, 0), (1, 2)])
async def test_a_server_that_goes_on_without_a_snapshot_is_told_of(autojump_clock, numbers):
    """Whatever happened in between is lost, and nothing says what it was."""
    transport = ScriptedTransport(
        [(task(), numbers[0]), (said(WORKING, "a"), numbers[1]), BREAK],
        [(said(WORKING, "z"), numbers[0]), (said(DONE), numbers[1])],
    )
    events, shown = await played(transport)
    assert events.gap
    assert shown[-1].status.state is DONE
    assert len(shown) == 4


@within(10_000)
async def test_a_snapshot_that_a_server_repeats_is_shown_once(autojump_clock):
    now = task(WORKING, "a")
    transport = ScriptedTransport([task(), BREAK], [now, now, chunk("b"), BREAK], [task(WORKING, "ab"), said(DONE)])
    events, shown = await played(transport)
    assert [type(event) for event in shown].count(Task) == 2
    assert events.task.artifacts[0].text("") == "ab"


@within(10_000)
async def test_a_subscription_behind_a_number_tells_whether_anything_is_missing(autojump_clock):
    for first, gap in [
        ((said(WORKING), 6), False),
        ((said(WORKING), 7), True),
        ((task(), 5), False),
        ((task(), 9), True),
    ]:
        client = client_of(ScriptedTransport([first, (said(DONE), first[1] + 1)]))
        async with client.subscribe("t", after=5) as events:
            assert [await anext(events), await anext(events)] == [first[0], said(DONE)]
        assert events.gap is gap
        assert events.last_sequence == first[1] + 1
    for first in (task(), said(WORKING)):
        client = client_of(ScriptedTransport([first, said(DONE)]))
        async with client.subscribe("t", after=5) as events:
            assert len([event async for event in events]) == 2
        assert events.gap


@within(10_000)
async def test_a_server_that_answers_each_subscription_with_a_snapshot_is_polled_at_a_gentle_pace(autojump_clock):
    """Each is news, so it is not given up; but it is no reason to come back at once."""
    snapshots = [[task(WORKING, "x" * n), END] for n in range(1, 40)]
    transport = ScriptedTransport([task(), END], *snapshots, [task(DONE)])
    _, shown = await played(transport)
    assert len(shown) == 41
    assert transport.times[-1] - transport.times[0] > 150


@within(10_000)
async def test_attempts_are_connections(autojump_clock):
    """A stream counts for itself: nothing below it tries more often."""
    transport = ScriptedTransport([(task(), 1), BREAK], BREAK)
    with pytest.raises(StreamInterruptedError):
        await played(transport)
    assert len(transport.calls) == 1 + MAX_RESUMPTIONS


@within(10_000)
async def test_an_event_begins_the_count_of_attempts_anew_and_the_waits_too(autojump_clock):
    cut = [[(chunk("x", name=f"n{i}"), i), BREAK] for i in range(2, 42)]
    transport = ScriptedTransport([(task(), 1), BREAK], *cut, [(said(DONE), 42)])
    events, shown = await played(transport)
    assert events.resumed == 41
    assert len(shown) == 42
    assert trio.current_time() - transport.times[0] < 41 * 0.05


@within(10_000)
@pytest.mark.parametrize(
    "failure", [ConnectionFailedError("refused"), BREAK, HttpStatusError(502), UnavailableError(), InternalError()]
)
async def test_what_cannot_be_taken_up_again_raises_after_growing_waits(autojump_clock, failure):
    transport = ScriptedTransport([(task(), 1), BREAK], failure)
    with pytest.raises(StreamInterruptedError) as caught:
        await played(transport)
    assert (caught.value.task_id, caught.value.last_sequence) == ("t", 1)
    assert caught.value.__cause__ is failure
    waits = [later - earlier for earlier, later in zip(transport.times, transport.times[1:], strict=False)]
    assert len(waits) >= MAX_RESUMPTIONS
    assert sum(waits) > 10


@within(10_000)
async def test_a_server_that_ends_every_connection_at_once_is_given_up(autojump_clock):
    with pytest.raises(StreamInterruptedError):
        await played(ScriptedTransport([(task(), 1), END]))


@within(10_000)
async def test_connections_that_last_do_not_use_up_the_attempts(autojump_clock):
    """A quiet agent behind something that cuts idle connections."""
    quiet = [[LASTING + 1, END]] * 50
    transport = ScriptedTransport([(task(), 1), *quiet[0]], *quiet, [(said(DONE), 2)])
    events, _ = await played(transport)
    assert events.resumed == 51


@within(10_000)
async def test_a_server_may_say_when_to_come_back(autojump_clock):
    transport = ScriptedTransport([(task(), 1), BREAK], UnavailableError(retry_after=7), [(said(DONE), 2)])
    await played(transport)
    assert transport.times[-1] - transport.times[-2] >= 7


@within(10_000)
async def test_an_error_that_means_subscribe_again_is_followed(autojump_clock):
    lagged = InternalError("too slow", metadata={"retry": "subscribe"})
    events, _ = await played(ScriptedTransport([(task(), 1), lagged], [(said(DONE), 2)]))
    assert events.resumed == 1
    with pytest.raises(InternalError):
        await played(ScriptedTransport([(task(), 1), lagged]), resume=False)


@within(10_000)
async def test_another_error_ends_the_stream(autojump_clock):
    client = client_of(ScriptedTransport([(task(), 1), InternalError("no")]))
    async with client.stream("x") as events:
        await anext(events)
        with pytest.raises(InternalError, match="no"):
            await anext(events)
        with pytest.raises(StopAsyncIteration):
            await anext(events)


@within(10_000)
async def test_a_task_that_is_over_when_the_reader_is_back_is_fetched(autojump_clock):
    transport = ScriptedTransport([(task(), 1), BREAK], UnsupportedOperationError(), answers=[task(DONE, "all")])
    events, shown = await played(transport)
    assert shown[-1] == task(DONE, "all")
    assert events.gap
    assert transport.operations[-1] == "GetTask"


@within(10_000)
async def test_a_refusal_to_take_it_up_again_is_raised(autojump_clock):
    with pytest.raises(UnsupportedOperationError):
        await played(ScriptedTransport([(task(), 1), BREAK], UnsupportedOperationError(), answers=[task(WORKING)]))
    with pytest.raises(TaskNotFoundError):
        await played(ScriptedTransport([(task(), 1), BREAK], TaskNotFoundError(), answers=[TaskNotFoundError()]))
    with pytest.raises(AuthenticationError):
        await played(ScriptedTransport([(task(), 1), BREAK], AuthenticationError()))


@within(10_000)
@pytest.mark.parametrize("end", [END, BREAK])
async def test_a_message_is_never_sent_twice(autojump_clock, end):
    transport = ScriptedTransport([end])
    with pytest.raises(StreamInterruptedError) as caught:
        await played(transport)
    assert caught.value.task_id is None
    assert transport.operations == ["SendStreamingMessage"]


@within(10_000)
async def test_a_subscription_that_ends_before_its_first_event_is_made_again(autojump_clock):
    events, shown = await played(ScriptedTransport([END], [BREAK], [(task(DONE), 4)]), subscribe=True)
    assert len(shown) == 1
    assert events.resumed == 2


# ------------------------------------------------------------------------------------------------------------ events


@within(10_000)
async def test_a_chunk_of_what_was_never_begun_begins_it(autojump_clock):
    events, _ = await played(ScriptedTransport([task(), chunk("a"), chunk("b"), said(DONE)]))
    assert events.task.artifacts[0].text("") == "ab"


@within(10_000)
async def test_a_state_that_nobody_knows_is_kept_as_unknown(autojump_clock):
    client = client_of(ScriptedTransport([task(), said(TaskState.UNSPECIFIED), said(DONE)]))
    async with client.stream("x") as events:
        await anext(events)
        await anext(events)
        assert events.task.status.state is TaskState.UNSPECIFIED
        await anext(events)
        assert events.task.status.state is DONE


@within(10_000)
@pytest.mark.parametrize("event", [task(id="other"), status("other", WORKING)])
async def test_an_event_of_another_task_is_an_error(autojump_clock, event):
    with pytest.raises(InvalidResponseError, match="other"):
        await played(ScriptedTransport([task(), event]))


@within(10_000)
async def test_what_is_no_event_is_an_error(autojump_clock):
    with pytest.raises(InvalidResponseError):
        await played(ScriptedTransport([task(), InvalidResponseError("garbage")]))


# ---------------------------------------------------------------------------------------------------------- lifetime


@within(10_000)
async def test_leaving_the_block_closes_the_connection(autojump_clock):
    transport = ScriptedTransport([(task(), 1)])
    async with client_of(transport).stream("x") as events:
        await anext(events)
        assert not transport.sources[0].closed
        assert "'t', at 1" in repr(events)
    assert transport.sources[0].closed == 1
    with pytest.raises(StopAsyncIteration):
        await anext(events)
    await events.aclose()


@within(10_000)
@pytest.mark.parametrize("script", [[(task(), 1)], [(task(), 1), BREAK]])
async def test_a_stream_that_is_closed_ends_for_the_task_that_reads_it(autojump_clock, script):
    """It must not be taken up again: neither while it waits for an event, nor while it waits for the next attempt."""
    transport = ScriptedTransport(script, [100_000])
    seen = []

    async def read(events):
        seen.extend([event async for event in events])
        seen.append("the end")

    async with trio.open_nursery() as nursery, client_of(transport).stream("x") as events:
        nursery.start_soon(read, events)
        with trio.move_on_after(0.001):
            await trio.sleep_forever()
        await events.aclose()
        assert all(source.closed for source in transport.sources)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [task(), "the end"]
    assert len(transport.sources) == 1


@within(10_000)
async def test_two_tasks_cannot_read_one_stream(autojump_clock):
    async with (
        client_of(ScriptedTransport([100, (task(DONE), 1)])).stream("x") as events,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(events.__anext__)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await anext(events)


@within(10_000)
@pytest.mark.parametrize("resume", [True, False])
async def test_reading_that_was_cancelled_goes_on_unless_resuming_is_off(autojump_clock, resume):
    transport = ScriptedTransport([(task(), 1)], [(said(DONE), 2)])
    async with client_of(transport).stream("x", resume=resume) as events:
        await anext(events)
        with trio.move_on_after(1):
            await anext(events)
        if resume:
            assert (await anext(events)).status.state is DONE
        else:
            with pytest.raises(ConnectionLostError, match="cancelled"):
                await anext(events)


@within(10_000)
async def test_polling_a_quiet_stream_under_short_deadlines_does_not_use_up_the_attempts(autojump_clock):
    transport = ScriptedTransport([(task(), 1)], *[[]] * 40, [(said(DONE), 2)])
    async with client_of(transport).stream("x") as events:
        seen = [await anext(events)]
        while len(seen) < 2:
            with trio.move_on_after(1):
                seen.append(await anext(events))
    assert seen[-1].status.state is DONE


@within(10_000)
async def test_a_stream_has_its_time_to_begin(autojump_clock):
    class Stuck(ScriptedTransport):
        async def open(self, call, *, last_event_id=None):
            await trio.sleep_forever()

    with pytest.raises(CallTimeoutError, match="SendStreamingMessage took longer than 3 seconds"):
        async with client_of(Stuck()).stream("x", timeout=3):
            pass
    assert trio.current_time() == pytest.approx(3)


@within(10_000)
async def test_every_await_of_a_stream_can_be_cancelled(autojump_clock):
    """At each moment in turn; the connection is closed whatever happens."""
    for step in range(1, 40):
        transport = ScriptedTransport(
            [0.01, (task(), 1), 0.02, BREAK], [0.01, (said(WORKING), 2), END], [(said(DONE), 3)]
        )
        with trio.move_on_after(step * 0.01):
            async with client_of(transport).stream("x") as events:
                async for _ in events:
                    pass
        assert all(source.closed for source in transport.sources)
