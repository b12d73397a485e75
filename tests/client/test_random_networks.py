"""Streams over whatever a server and a network do: the reader ends with the task that the server has."""

from typing import Any

import attrs
import trio
import trio.testing
from hypothesis import given, settings, strategies as st

from tests.client.scripted import END, ScriptedSource, ScriptedTransport, client_of
from trio_a2a.client import ConnectionLostError, fold
from trio_a2a.testing import artifact, status
from trio_a2a.types import Task, TaskState, TaskStatus

BREAK = ConnectionLostError("cut")


def story(chunks: list[int]) -> list[Any]:
    """What happened to the task: numbered from 1."""
    begun: set[int] = set()
    events: list[Any] = [Task(id="t", context_id="c", status=TaskStatus(state=TaskState.SUBMITTED))]
    for number, name in enumerate(chunks):
        events.append(artifact("t", f"{number},", artifact_id=f"a{name}", append=name in begun))
        begun.add(name)
    return [*events, status("t", TaskState.WORKING, "nearly"), status("t", TaskState.COMPLETED, "done")]


@attrs.define
class Connection:
    """How one connection goes.

    Attributes:
        snapshot: Begin with a snapshot, so many events behind what the reader has; None: without one.
        repeated: Begin with so many events that the reader has.
        events: End behind so many.
        clean: End in order.
    """

    snapshot: int | None
    repeated: int
    events: int
    clean: bool


connections = st.builds(
    Connection,
    snapshot=st.none() | st.integers(0, 4),
    repeated=st.integers(0, 5),
    events=st.integers(0, 8),
    clean=st.booleans(),
)


class Server(ScriptedTransport):
    """Has a story, and tells it over connections that go as they are said to; the last one tells all.

    Attributes:
        told: How much of the story a reader can know.
        skipped: Whether a snapshot stood for events that it had not told.
    """

    def __init__(self, events: list[Any], plan: list[Connection], *, numbered: bool) -> None:
        super().__init__([])
        self.events, self.plan, self.numbered = events, plan, numbered
        self.told, self.skipped = 0, False

    async def open(self, call: Any, *, last_event_id: int | None = None) -> ScriptedSource:
        await trio.lowlevel.checkpoint()
        first = call.operation == "SendStreamingMessage"
        way = self.plan.pop(0) if self.plan else Connection(None, 0, len(self.events), clean=True)
        assert first or last_event_id == (self.told if self.numbered else None)
        script: list[Any] = []
        if not first and (way.snapshot is not None or not self.numbered):
            behind = min(self.told + (way.snapshot or 0), len(self.events) - 1)
            script.append((fold(self.events[:behind]), behind if self.numbered else 0))
            self.skipped = self.skipped or behind > self.told
            begin = self.told = behind
        else:
            begin = self.told if first else max(1, self.told - way.repeated)
        # A stream that ends before its first event is not begun again: the message may have been heard.
        end = min(len(self.events), max(self.told, 1 if first else 0, self.told + way.events))
        script += [(self.events[n], n + 1 if self.numbered else 0) for n in range(begin, end)]
        self.told = end
        source = ScriptedSource([*script, END if way.clean else BREAK])
        self.sources.append(source)
        return source


def read(server: Server) -> tuple[Any, list[Any]]:
    async def main() -> tuple[Any, list[Any]]:
        with trio.fail_after(10_000):
            async with client_of(server).stream("x") as events:
                return events, [event async for event in events]

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=25), st.lists(connections, max_size=8))
def test_with_numbers_every_event_is_shown_once_or_stood_for_by_a_task_of_which_the_reader_is_told(chunks, plan):
    told = story(chunks)
    server = Server(told, plan, numbered=True)
    events, shown = read(server)
    assert events.task == fold(told)
    assert events.gap is server.skipped
    if not server.skipped:
        assert shown == told
    assert all(source.closed for source in server.sources)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=25), st.lists(connections, max_size=8))
def test_without_numbers_snapshots_stand_for_what_was_missed_and_nothing_is_shown_twice(chunks, plan):
    told = story(chunks)
    server = Server(told, plan, numbered=False)
    events, shown = read(server)
    assert events.task == fold(told)
    assert events.gap is server.skipped
    if not server.skipped:
        assert shown == told
    assert fold(shown) == events.task
