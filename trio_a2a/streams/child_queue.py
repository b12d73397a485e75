"""A subscriber's end of a task's stream.

Each child has a memory channel of its own, and what travels in it is a batch: a tuple of envelopes, sent once, so that
a reader wakes once for it. Batches are unpacked here, where the reader takes events singly or all that there are. The
bound counts events: `_offer` sends what there is room for, and the main queue decides what becomes of a reader that has
no room for the rest.

A child is closed by its main queue, which `aclose` asks to. Its end is a value, `close_reason`, and where an error took
the place of an event, that error: `receive` raises it when the backlog is drained, and goes on raising it.
"""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, final

import attrs
import trio

from ..abc import CloseReason, Envelope, StreamEvent, SubscriberInfo
from ..errors import A2AError
from .exceptions import EventQueueClosedError
from .statistics import ChildQueueStatistics

if TYPE_CHECKING:
    from .main_queue import MainQueue
    from .reducer import WorkingTask

__all__ = ["ChildQueue"]

_BATCH_LIMIT = 256


@final
class ChildQueue(trio.abc.ReceiveChannel[StreamEvent]):
    """One subscriber's channel, made by `QueueManager` and `MainQueue`; for one reader at a time.

    ``async for event in child`` ends when the stream ends. Leaving a task's stream is `aclose`; ``async with`` does it.
    """

    def __init__(self, main: "MainQueue", id: int, bound: int, info: SubscriberInfo) -> None:
        self._main = main
        self._id = id
        self._info = info
        self._bound = bound
        # Batches hold at least one event each, so there are never more of them than events.
        self._send, self._receive = trio.open_memory_channel[tuple[Envelope, ...]](bound)
        # What was taken out of it and not yet received, the next event last.
        self._held: list[Envelope] = []
        self._backlog = 0
        # How many of the backlog were put in front of the stream: the bound is on what comes behind them.
        self._ahead = 0
        self._dropped = False
        self._received = 0
        self._failure: Callable[[], Exception] | None = None
        self._reason: CloseReason | None = None
        self._drained: trio.Event | None = None
        self._receiving = False
        # Of `QueueManager.subscribe`: cancelled when the stream is aborted.
        self._scope: trio.CancelScope | None = None
        self._aborted = False
        # What the subscriber would have been given as its snapshot; a replay ends there.
        self._joined_at = 0
        self._joined_state: WorkingTask | None = None

    def __repr__(self) -> str:
        state = f"closed {self._reason.name}" if self._reason else "open"
        return f"<ChildQueue {self._id} of {self._main.task_id!r}: {state}, {self._backlog} waiting>"

    # ------------------------------------------------------------------------------------------------- for the reader

    @property
    def id(self) -> int:
        """The subscriber's id, as `StreamCloseHandle.close_subscriber` takes it."""
        return self._id

    @property
    def task_id(self) -> str:
        """The task whose stream this is."""
        return self._main.task_id

    @property
    def closed(self) -> bool:
        """Whether the channel is closed; what is in it can still be received unless it was closed immediately."""
        return self._reason is not None

    @property
    def close_reason(self) -> CloseReason | None:
        """Why it was closed; None while it is open."""
        return self._reason

    def statistics(self) -> ChildQueueStatistics:
        """Return how many events wait, and how many were received."""
        return ChildQueueStatistics(backlog=self._backlog, received=self._received)

    async def receive(self) -> StreamEvent:
        """Return the next event.

        Raises:
            EventQueueClosedError: The stream is over (`close_reason` says why).
            SubscriberLaggedError: This reader was too slow; what was buffered for it has been received.
            InternalError: An event could not be stored; the StoreError is its cause. Or a bug ended the queue.
            trio.BusyResourceError: Another task is receiving from this child.

        Cancellation: a checkpoint; nothing is taken when it is cancelled.
        """
        held = self._held
        if held:
            await trio.lowlevel.checkpoint()
        while not held:
            await self._fill()
        self._count(1)
        return held.pop().event

    async def __anext__(self) -> StreamEvent:
        # What is inherited calls `receive`. This is that, written out: it runs once for each event and reader, more
        # often than anything else here, and a coroutine and a call less are a tenth of its time.
        held = self._held
        if held:
            await trio.lowlevel.checkpoint()
        while not held:
            try:
                await self._fill()
            except trio.EndOfChannel:
                raise StopAsyncIteration from None
        self._backlog -= 1
        self._received += 1
        if self._ahead or self._drained is not None:
            self._make_room(1)
        return held.pop().event

    def receive_nowait(self) -> StreamEvent:
        """Return the next event if there is one.

        Raises:
            trio.WouldBlock: Nothing waits, and the stream goes on.
            EventQueueClosedError: As `receive`; so are the other errors.
        """
        held = self._held
        if not held:
            held.extend(reversed(self._next_batch()))
        self._count(1)
        return held.pop().event

    async def receive_batch(self, limit: int = _BATCH_LIMIT) -> tuple[Envelope, ...]:
        """Wait for an event, then return all that is there, with numbers; for writers.

        Args:
            limit: How many at most.

        Raises:
            ValueError: The limit is not positive.
            EventQueueClosedError: As `receive`; so are the other errors.

        Cancellation: a checkpoint; nothing is taken when it is cancelled.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        held = self._held
        if held:
            await trio.lowlevel.checkpoint()
        while not held:
            await self._fill()
        taken = held[::-1]
        held.clear()
        while len(taken) < limit:
            try:
                taken.extend(self._receive.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
                break
        if len(taken) > limit:
            held.extend(reversed(taken[limit:]))
            del taken[limit:]
        self._count(len(taken))
        return tuple(taken)

    async def enqueue(self, event: StreamEvent | A2AError) -> None:
        """Put an event on the task's main queue; see `MainQueue.enqueue`."""
        await self._main.enqueue(event)

    async def aclose(self, *, immediate: bool = False) -> None:
        """Leave the stream.

        The first close of a child, whoever makes it, runs ``on_unsubscribe`` before it returns. A later one does
        nothing, except that an immediate one drops the backlog.

        Args:
            immediate: Drop what has not been received; otherwise it can still be.

        Cancellation: a checkpoint. The child is closed, and the hook has run, even when it is cancelled.
        """
        await self._leave(immediate=immediate)
        await trio.lowlevel.checkpoint()

    async def _leave(self, *, immediate: bool) -> None:
        """As `aclose`, without its checkpoint: a cancellation there would take the place of what leaves a block."""
        await self._main._close_children((self,), CloseReason.CONSUMER, immediate=immediate)

    async def __aenter__(self) -> "ChildQueue":
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._leave(immediate=False)
        if exc is None:
            await trio.lowlevel.checkpoint()

    # ------------------------------------------------------------------------------------------- for the main queue

    def _offer(self, batch: tuple[Envelope, ...]) -> tuple[Envelope, ...]:
        """Send as much of the batch as there is room for; return the rest."""
        if self._reason is not None:
            return ()  # its stream has ended, and it is about to be closed
        room = self._bound - (self._backlog - self._ahead)
        if len(batch) <= room:
            self._send.send_nowait(batch)
            self._backlog += len(batch)
            return ()
        if room > 0:
            self._send.send_nowait(batch[:room])
            self._backlog += room
        return batch[room:]

    def _put_in_front(self, envelopes: tuple[Envelope, ...]) -> None:
        """Place what a new subscriber reads first: a snapshot or a replay, beyond the bound."""
        if not self._dropped:
            self._held.extend(reversed(envelopes))
            self._backlog += len(envelopes)
            self._ahead += len(envelopes)

    def _end(self, reason: CloseReason, failure: Callable[[], Exception] | None = None) -> None:
        """Close the send side. The first reason stays."""
        if self._reason is None:
            self._reason = reason
            self._failure = failure
            self._info = attrs.evolve(self._info, close_reason=reason)
        self._send.close()
        if self._drained is not None:
            self._drained.set()

    def _drop(self) -> None:
        """Forget the backlog."""
        self._dropped = True
        self._held.clear()
        self._backlog = self._ahead = 0
        self._receive.close()
        self._failure = None

    def _abort(self) -> None:
        """Cancel the subscription's block; if that is still being entered, when it is."""
        self._aborted = True
        if self._scope is not None:
            self._scope.cancel(reason="the stream was aborted by a lifecycle hook")

    def _attach(self, scope: trio.CancelScope) -> trio.CancelScope:
        """Take the scope of the subscription's block, which is cancelled when the stream is aborted."""
        self._scope = scope
        if self._aborted:
            self._abort()
        return scope

    def _has_room(self) -> bool:
        return self._backlog - self._ahead <= self._bound // 2

    def _room(self) -> trio.Event:
        """Return an event that is set when the backlog is down to half the bound, or the child ends."""
        room = trio.Event()
        if self.closed or self._has_room():
            room.set()
        else:
            self._drained = room
        return room

    # ----------------------------------------------------------------------------------------------------- internals

    async def _fill(self) -> None:
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving from this child queue; tap once for each reader")
        self._receiving = True
        try:
            batch = await self._receive.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            ended = self._ended()
            raise ended from ended.__cause__
        finally:
            self._receiving = False
        if self._dropped:  # after the batch was taken from the channel and before this task ran again
            raise self._ended() from None
        self._held.extend(reversed(batch))

    def _next_batch(self) -> tuple[Envelope, ...]:
        try:
            return self._receive.receive_nowait()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            ended = self._ended()
            raise ended from ended.__cause__

    def _ended(self) -> Exception:
        return self._failure() if self._failure is not None else EventQueueClosedError(self.task_id, self._reason)

    def _count(self, taken: int) -> None:
        self._backlog -= taken
        self._received += taken
        if self._ahead or self._drained is not None:
            self._make_room(taken)

    def _make_room(self, taken: int) -> None:
        self._ahead = max(0, self._ahead - taken)
        if self._drained is not None and self._has_room():
            self._drained.set()
            self._drained = None
