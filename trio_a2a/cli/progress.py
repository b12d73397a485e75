"""What a stream shows while it runs: JSON lines, plain lines, or a display on a terminal that is drawn anew.

Plain lines are written as things come, each piece of an artifact behind the one before. On a terminal the last lines of
what grows are shown in place, and the whole is printed at the end.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, final

from ..abc import StreamEvent
from ..client import EventStream
from ..types import (
    Artifact,
    Message,
    Part,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from .output import Output
from .render import artifact_title, parts_text, status_line, task_lines
from .text import in_line, printable

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["Display", "follow", "open_display"]

_TAIL = 12  # lines of an artifact that are shown while it grows: a terminal has 24


class Display(Protocol):
    """Shows the events of a stream, one after the other."""

    def event(self, event: StreamEvent, events: EventStream) -> None:
        """Show an event.

        Args:
            event: The event.
            events: Where it comes from; it has the task as the event has made it, for who wants that each time.
        """
        ...

    def resumed(self, times: int, *, gap: bool) -> None:
        """Tell that the stream goes on over a new connection.

        Args:
            times: How often that has happened.
            gap: Whether events may be missing.
        """
        ...


async def follow(events: EventStream, display: Display) -> None:
    """Show a stream up to its end.

    Raises:
        A2AError: As the stream raises it.
        ClientError: As the stream raises it.
    """
    told = (0, False)
    async for event in events:
        told = _tell_resumed(events, told, display)
        display.event(event, events)
    _tell_resumed(events, told, display)


def _tell_resumed(events: EventStream, told: tuple[int, bool], display: Display) -> tuple[int, bool]:
    now = (events.resumed, events.gap)
    if now != told:
        display.resumed(now[0], gap=now[1])
    return now


@contextmanager
def open_display(output: Output) -> Iterator[Display]:
    """Open the display that fits the output; leaving the block completes what it shows."""
    if output.as_json:
        yield _Json(output)
    elif output.is_live:
        with _Live(output) as live:
            yield live
        live.finish()
    else:
        plain = _Plain(output)
        try:
            yield plain
        finally:
            plain.end_line()


def _resumed_text(times: int, *, gap: bool) -> str:
    often = "once" if times == 1 else f"{times} times"
    missed = "; events may be missing, the task as it is stands in their place" if gap else "; nothing was missed"
    return f"the stream broke and was resumed ({often}{missed})"


# --- For scripts ------------------------------------------------------------------------------------------------------


@final
class _Json(Display):
    def __init__(self, output: Output) -> None:
        self._output = output

    def event(self, event: StreamEvent, events: EventStream) -> None:
        """Print the event as the protocol's StreamResponse."""
        self._output.value(StreamResponse.of(event))

    def resumed(self, times: int, *, gap: bool) -> None:
        """Print an object of ours."""
        self._output.document(resumed=times, gap=gap)


# --- For files and pipes ----------------------------------------------------------------------------------------------


@final
class _Plain(Display):
    """Lines as they come."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._shown: dict[str, int] = {}  # parts of each artifact
        self._status: TaskStatus | None = None
        self._open: str | None = None  # the artifact whose text the current line belongs to
        self._line_is_open = False
        self._named = False

    def event(self, event: StreamEvent, events: EventStream) -> None:
        """Print what is new."""
        if isinstance(event, Message):
            self._output.line(parts_text(event.parts))
        elif isinstance(event, TaskArtifactUpdateEvent):
            self._name(event.task_id, event.context_id)
            self._artifact(event.artifact, append=event.append)
        elif isinstance(event, TaskStatusUpdateEvent):
            self._name(event.task_id, event.context_id)
            self._state(event.status)
        else:
            self._name(event.id, event.context_id)
            for artifact in event.artifacts:
                shown = self._shown.get(artifact.artifact_id, 0)
                if shown < len(artifact.parts):
                    self._pieces(artifact, artifact.parts[shown:])
                    self._shown[artifact.artifact_id] = len(artifact.parts)
            self._state(event.status)

    def resumed(self, times: int, *, gap: bool) -> None:
        """Print a line about it."""
        self.end_line()
        self._output.line(f"({_resumed_text(times, gap=gap)})")

    def end_line(self) -> None:
        """End the line that a piece of text has left open."""
        if self._line_is_open:
            self._output.line()
        self._line_is_open = False
        self._open = None

    def _name(self, task_id: str, context_id: str) -> None:
        if not self._named:
            self._output.line(f"task {in_line(task_id)}" + (f" (context {in_line(context_id)})" if context_id else ""))
        self._named = True

    def _artifact(self, artifact: Artifact, *, append: bool) -> None:
        known = self._shown.get(artifact.artifact_id, 0) if append else 0
        if not append:
            self.end_line()
        self._pieces(artifact, artifact.parts)
        self._shown[artifact.artifact_id] = known + len(artifact.parts)

    def _pieces(self, artifact: Artifact, parts: tuple[Part, ...]) -> None:
        if self._open != artifact.artifact_id:
            self.end_line()
            self._output.line(f"--- {artifact_title(artifact)}")
            self._open = artifact.artifact_id
        text = parts_text(parts)
        if text and all(part.text is not None for part in parts):
            self._output.piece(text)
            self._line_is_open = not text.endswith("\n")
        elif text:
            if self._line_is_open:
                self._output.line()
            self._output.line(text)
            self._line_is_open = False

    def _state(self, status: TaskStatus) -> None:
        if self._status == status:
            return
        self._status = status
        self.end_line()
        self._output.line(status_line(status.state, status.message))


# --- For people -------------------------------------------------------------------------------------------------------


@final
class _Live(Display):
    """A display that is drawn anew for each event, and replaced by the whole at the end."""

    def __init__(self, output: Output) -> None:
        from rich.live import Live  # noqa: PLC0415 - only a terminal has it

        self._output = output
        # Without a thread of its own: it is drawn when there is something to draw.
        self._live = Live(console=output.console, auto_refresh=False, transient=True)
        self._task: Task | None = None
        self._message: Message | None = None
        self._note = ""

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.__exit__(exc_type, exc, traceback)
        if exc_type is not None:
            self.finish()

    def event(self, event: StreamEvent, events: EventStream) -> None:
        """Draw the task as it now is."""
        self._task = events.task
        if isinstance(event, Message):
            self._message = event
        self._draw()

    def resumed(self, times: int, *, gap: bool) -> None:
        """Draw a line about it."""
        self._note = f"({_resumed_text(times, gap=gap)})"
        self._draw()

    def finish(self) -> None:
        """Print the whole in place of the display."""
        if self._note:
            self._output.line(self._note)
        if self._message is not None:
            self._output.line(parts_text(self._message.parts))
        elif self._task is not None:
            for line in task_lines(self._task):
                self._output.line(line)

    def _draw(self) -> None:
        if self._task is not None:
            self._live.update(self._picture(self._task), refresh=True)

    def _picture(self, task: Task) -> "Group":
        from rich.console import Group  # noqa: PLC0415 - only a terminal has it
        from rich.text import Text  # noqa: PLC0415

        lines = [Text(f"task {in_line(task.id)}", style="dim")]
        for artifact in task.artifacts[-2:]:
            lines.append(Text(artifact_title(artifact), style="bold"))
            # Only the end of a long text is looked at, for each of its events.
            tail = parts_text(artifact.parts[-_TAIL * 8 :])[-_TAIL * 200 :].splitlines()[-_TAIL:]
            lines += [Text(printable(line)) for line in tail]
        lines.append(Text(printable(status_line(task.status.state, task.status.message)), style=_style(task)))
        if self._note:
            lines.append(Text(self._note, style="yellow"))
        return Group(*lines)


def _style(task: Task) -> str:
    state = task.status.state
    if state is TaskState.COMPLETED:
        return "green"
    return "yellow" if state.is_interrupted else "red" if state.is_final else "cyan"
