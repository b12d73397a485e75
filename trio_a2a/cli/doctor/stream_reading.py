"""Reading a stream for what it is: its events, their numbers, its comments, its silences, and its end."""

from typing import Any, Final, final

import attrs
import trio

from ...client.http import HttpStream
from ...types import Message, StreamResponse, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from ...wire.sse import SseLimitError, SseParser
from .bindings import Binding
from .expectations import read_value
from .probe import MAX_ANSWER, json_of

__all__ = ["MAX_EVENTS", "Recording", "record"]

MAX_EVENTS: Final = 10_000
"""Events that are looked at: a test message has a few."""

_MAX_BYTES: Final = 4 * MAX_ANSWER

Event = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent


@final
@attrs.define(eq=False)
class Recording:
    """What came over a stream.

    Attributes:
        events: The events, with the ids of their frames.
        faults: What is wrong with single frames, by their number.
        commented: There was a comment.
        silence: The longest time without a byte, in seconds.
        ended: The server has ended it in order.
        broken: How it broke, or why it was not read on; "" if it was not.
    """

    events: list[tuple[Event, str | None]] = attrs.field(factory=list)
    faults: list[str] = attrs.field(factory=list)
    commented: bool = False
    silence: float = 0.0
    ended: bool = False
    broken: str = ""

    @property
    def task_id(self) -> str | None:
        """The task of the first event that has one."""
        for event, _ in self.events:
            if isinstance(event, Task):
                return event.id
            if event.task_id:
                return event.task_id
        return None

    @property
    def is_settled(self) -> bool:
        """The last status says that nothing follows for now."""
        for event, _ in reversed(self.events):
            if isinstance(event, Message):
                return True
            if isinstance(event, Task | TaskStatusUpdateEvent):
                state = event.status.state
                return state.is_final or state.is_interrupted
        return False


async def record(stream: HttpStream, binding: Binding, *, seconds: float, most: int = MAX_EVENTS) -> Recording:
    """Read a stream.

    Args:
        stream: The stream.
        binding: Takes events out of frames.
        seconds: How long, if it does not end before.
        most: How many events.

    Raises:
        ClientError: The connection broke.
    """
    recording = Recording()
    parser = SseParser(max_line=MAX_ANSWER, max_data=MAX_ANSWER)
    size, line_end = 0, b"\n"
    with trio.move_on_after(seconds):
        while len(recording.events) + len(recording.faults) < most:
            asked_at = trio.current_time()
            try:
                data = await stream.receive()
            finally:
                recording.silence = max(recording.silence, trio.current_time() - asked_at)
            if not data:
                recording.ended = True
                break
            size += len(data)
            if size > _MAX_BYTES:
                recording.broken = f"not read past {_MAX_BYTES} bytes"
                break
            recording.commented = recording.commented or b"\n:" in line_end + data.replace(b"\r", b"\n")
            line_end = data[-1:].replace(b"\r", b"\n")
            try:
                frames = parser.feed(data)
            except SseLimitError as exc:
                recording.broken = str(exc)
                break
            for frame in frames:
                _take(recording, binding, frame.data, frame.id)
    return recording


def _take(recording: Recording, binding: Binding, data: bytes, id_: str | None) -> None:
    number = len(recording.events) + len(recording.faults) + 1
    document: Any = json_of(data)
    members = binding.unwrapped(document)
    if members is None:
        shown = data[:100].decode(errors="replace")
        recording.faults.append(f"event {number} holds no StreamResponse: {shown}")
        return
    response, faults = read_value(members, StreamResponse)
    if response is None:
        recording.faults.append(f"event {number} is no StreamResponse: {faults}")
        return
    if faults:
        recording.faults.append(f"event {number}: {faults}")
    recording.events.append((response.value, id_))
