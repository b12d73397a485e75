"""Streams: the events of one message, or of one task, for as long as it takes.

There is no task behind a stream: whoever iterates reads the connection, so a consumer that is slow makes the server
wait, or be done with it, and nothing is left behind when the block is left.

What goes wrong on the way is met with a new connection, a subscription to the task. That is tried a bounded number of
times, with growing waits; an event that is seen, or a connection that lasts, begins the count anew. (A snapshot does
not make the waits shorter: a server that answers each subscription with one, and ends it, is polled at a gentle pace.)
What cannot be resumed raises an error. The one clean end before the end of the task is that of the agent's turn.
"""

import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self, final

import trio

from ..abc import StreamEvent
from ..errors import (
    A2AError,
    AuthenticationError,
    AuthorizationError,
    InternalError,
    RateLimitedError,
    UnavailableError,
)
from ..types import Message, Task
from .backoff import backoff
from .exceptions import CallTimeoutError, ClientError, ConnectionLostError, StreamInterruptedError, TransportError
from .progress import Progress
from .transport import EventSource, ReceivedEvent

__all__ = ["LASTING", "MAX_RESUMPTIONS", "EventStream"]

_logger = logging.getLogger("trio_a2a.client")

CLOSE_TIMEOUT: Final = 2.0
"""Seconds for another task, which waits for the stream, to close its connection; that has a time-out of its own."""

MAX_RESUMPTIONS: Final = 10
"""How often in a row a stream is taken up again without an event of it being seen: half a minute with the waits, in
which a server is restarted."""

LASTING: Final = 30.0
"""Seconds after which a connection was a success although no event came over it: its agent was silent, or an idle
connection was cut by something in between, which will do so again."""


@final
class EventStream:
    """The events of a stream: ``async with client.stream(...) as events: async for event in events``.

    It is read by one task at a time. Each event is a `Task`, a `Message`, a `TaskStatusUpdateEvent` or a
    `TaskArtifactUpdateEvent`. The iteration ends when the task ends, when the agent has replied directly or waits for
    input (of a sent message), or raises.

    Attributes:
        resumed: How often a new connection has gone on where the one before broke.
    """

    resumed: int

    def __init__(
        self,
        progress: Progress,
        begin: Callable[[], Awaitable[EventSource]],
        subscribe: Callable[[str, int | None], Awaitable[EventSource]],
        get_task: Callable[[str], Awaitable[Task]],
        *,
        resume: bool,
    ) -> None:
        self.resumed = 0
        self._progress = progress
        self._begin = begin
        self._subscribe = subscribe
        self._get_task = get_task
        self._resume = resume
        self._source: EventSource | None = None
        self._opened_at = 0.0
        self._failures = 0  # connections in a row that brought nothing; bounded
        self._waits = 0  # waits in a row, each longer than the one before
        self._failure: Exception | None = None  # how the last connection ended; None: in order
        self._is_fresh = False  # a new connection goes on where another broke, and nothing has come over it
        self._ended = False
        self._reading: _Reading | None = None

    # ------------------------------------------------------------------------------------------------- what it knows

    @property
    def task(self) -> Task | None:
        """The task as the events so far have made it; None before the first, or if there is none."""
        return self._progress.task

    @property
    def message(self) -> Message | None:
        """The agent's direct reply, in place of a task."""
        return self._progress.message

    @property
    def last_sequence(self) -> int:
        """The number of the last event; 0 where the server does not number them."""
        return self._progress.last_sequence

    @property
    def gap(self) -> bool:
        """Whether events may be missing. If the server sent a `Task` in their place, that has their effect."""
        return self._progress.gap

    def __repr__(self) -> str:
        progress = self._progress
        task = f"task {progress.task_id!r}" if progress.task_id else "no task yet"
        return f"<EventStream of {task}, at {progress.last_sequence}, resumed {self.resumed} times>"

    # ------------------------------------------------------------------------------------------------------- reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        """Wait for the next event.

        Raises:
            StopAsyncIteration: The task, or the turn, is over.
            A2AError: The agent, or its server, has ended the stream with an error.
            StreamInterruptedError: It broke and could not be resumed; the cause is what happened last.
            ClientError: It broke, and resuming is switched off; or what comes is no stream of events.
            trio.BusyResourceError: Another task reads it.

        Cancellation: a checkpoint. A stream in which reading was cancelled goes on with a new connection, so nothing is
        lost unless resuming is switched off.
        """
        if self._reading is not None:
            raise trio.BusyResourceError("another task is reading this stream")
        self._reading = reading = _Reading()
        event = None
        try:
            with reading.scope:
                event = await self._next()
        finally:
            self._reading = None
            reading.over.set()
        if event is None:
            self._ended = True
            raise StopAsyncIteration
        return event

    async def _next(self) -> StreamEvent | None:
        while not self._ended:
            received = await self._receive()
            if received is None:
                continue
            try:
                shown = self._progress.accept(received.event, received.sequence)
            except ClientError:
                await self.aclose()
                raise
            if self._progress.is_over or (self.resumed and self._progress.turn_is_over):
                await self.aclose()
            fresh, self._is_fresh = self._is_fresh, False
            if shown:
                self._failures = 0
                if not (fresh and isinstance(received.event, Task)):
                    self._waits = 0
                return received.event
        await trio.lowlevel.checkpoint()
        return None

    async def _receive(self) -> ReceivedEvent | None:
        """Return what comes next, or None when the connection had to be replaced, or the stream is over."""
        if self._source is not None:
            received = None
            try:
                received = await self._source.receive()
            except trio.EndOfChannel:
                self._failure = None
            except (TransportError, A2AError) as exc:
                self._failure = exc
            except ClientError:
                self._ended = True
                raise
            except trio.Cancelled:
                # The connection cannot be read on; whoever reads next is to know. It is not the server's failure.
                self._failure = ConnectionLostError("reading the stream was cancelled")
                self._failures = self._waits = 0
                raise
            finally:
                if received is None:
                    await self._drop_source()
            if received is not None:
                return received
            if trio.current_time() - self._opened_at >= LASTING:
                self._failures = self._waits = 0
        failure = self._failure
        if self._must_reconnect(failure):
            await self._reconnect(failure)
            self._failure = None
        return None

    def _must_reconnect(self, failure: Exception | None) -> bool:
        """Decide what follows the end of a connection, which was in order if there was no failure.

        Returns:
            True: the stream is taken up again. False: it has ended.

        Raises:
            A2AError: The server has ended it so.
            ClientError: It cannot go on.
        """
        progress = self._progress
        clean = failure is None
        self._ended = True
        # An agent's turn ends so. A stream that breaks behind its last event has told all, too.
        # A task that waits for an authorization goes on without another message, so it is followed (section 7.6.2).
        if progress.turn_is_over or (clean and progress.answers_message and progress.needs_input):
            return False
        if progress.answers_message and not progress.begun and not isinstance(failure, A2AError):
            raise StreamInterruptedError(
                "the stream ended before its first event; the agent may have got the message",
                task_id=progress.task_id or None,
            ) from failure
        if failure is not None and not (self._resume and progress.task_id and _is_passing(failure)):
            raise failure
        if not self._resume:
            return False
        self._ended = False
        return True

    async def _reconnect(self, failure: Exception | None) -> None:
        progress = self._progress
        clean = failure is None
        while True:
            self._failures += 1
            if self._failures > MAX_RESUMPTIONS:
                self._ended = True
                if clean and progress.is_interrupted:
                    return  # a server that lets nobody wait for the user: all is told
                raise StreamInterruptedError(
                    f"the stream of the task {progress.task_id!r} could not be resumed in {MAX_RESUMPTIONS} attempts",
                    task_id=progress.task_id,
                    last_sequence=progress.last_sequence,
                ) from failure
            try:
                await trio.sleep(backoff(self._waits + 1, _retry_after(failure)))
            except trio.Cancelled:
                self._failures -= 1  # it was not tried
                raise
            self._waits += 1
            try:
                self._source = await self._resubscribed()
            except (TransportError, CallTimeoutError, InternalError, RateLimitedError, UnavailableError) as exc:
                failure = exc
                clean = False
            except (A2AError, ClientError):
                self._ended = True
                raise
            else:
                _logger.debug("took up the stream of task %s again", progress.task_id)
                self.resumed += 1
                self._is_fresh = True
                self._opened_at = trio.current_time()
                progress.reconnected()
                return

    async def _resubscribed(self) -> EventSource:
        progress = self._progress
        try:
            return await self._subscribe(progress.task_id, progress.last_event_id)
        except (AuthenticationError, AuthorizationError, InternalError, RateLimitedError, UnavailableError):
            raise
        except A2AError:
            # Servers differ in how they refuse a task that is over; what it has become is asked for.
            task = await self._get_task(progress.task_id)
            if task.status.state.is_final:
                return _Snapshot(task)
            raise

    # ------------------------------------------------------------------------------------------------------- lifetime

    async def open(self) -> None:
        """Make the first connection; the client's context managers do.

        Raises:
            A2AError: The agent refuses.
            ClientError: The call failed.
        """
        self._source = await self._begin()
        self._opened_at = trio.current_time()

    async def aclose(self) -> None:
        """Close the connection; the iteration then ends, also that of another task. The agent works on.

        A second time nothing happens.

        Cancellation: it is closed all the same.
        """
        self._ended = True
        reading = self._reading
        if reading is not None and not reading.is_ours():
            # Another task waits for the connection, which can be closed by that one alone.
            reading.scope.cancel(reason="the stream was closed")
            with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await reading.over.wait()
        await self._drop_source()

    async def _drop_source(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            await source.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


@final
class _Reading:
    """One wait for the next event."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self._task = trio.lowlevel.current_task()

    def is_ours(self) -> bool:
        return self._task is trio.lowlevel.current_task()


def _is_passing(failure: Exception) -> bool:
    """Tell whether a stream that ended so can be taken up again; a server says so of an error of its own."""
    return not isinstance(failure, A2AError) or failure.metadata.get("retry") == "subscribe"


def _retry_after(failure: Exception | None) -> float | None:
    return failure.retry_after if isinstance(failure, RateLimitedError | UnavailableError) else None


@final
class _Snapshot(EventSource):
    """The whole stream of a task that is over."""

    def __init__(self, task: Task) -> None:
        self._task: Task | None = task

    async def receive(self) -> ReceivedEvent:
        """Return the next event, as the Protocol says."""
        await trio.lowlevel.checkpoint()
        task, self._task = self._task, None
        if task is None:
            raise trio.EndOfChannel
        return ReceivedEvent(task)

    async def aclose(self) -> None:
        """Close it."""
        self._task = None
