"""The events of one streaming call, as a binding takes them: in batches, to a definite end."""

from collections.abc import Sequence
from typing import final

import trio

from ..abc import Envelope, StreamEvent
from ..agents.runner import Run
from ..errors import InternalError
from ..streams import ChildQueue, EventQueueClosedError, SubscriberLaggedError
from ..types import Message, Task, TaskStatusUpdateEvent
from .call import cut

__all__ = ["TaskStream"]


@final
class TaskStream:
    """The events of one streaming call, in batches, until its end.

    It has one of three sources: a subscription's child, the stream of a run, or events that are all there already.

    Args:
        child: The subscription's child.
        run: The run; its stream is there when it has its turn.
        events: All that there is, for a task that is over.
        history_length: How many messages of its history a Task among the events shows; None: all.
    """

    def __init__(
        self,
        child: ChildQueue | None = None,
        *,
        run: Run | None = None,
        events: Sequence[Envelope] = (),
        history_length: int | None = None,
    ) -> None:
        self._history_length = history_length
        self._child = child
        self._run = run
        self._events = tuple(events)
        self._received = 0
        # How many events the stream has at most; None: that is not known.
        self._left: int | None = None
        self._over = child is None and run is None and not events

    @property
    def begun(self) -> bool:
        """Whether there was anything that the call itself brought about: for a sent message, more than the snapshot."""
        snapshot = self._run is not None and self._child is not None and self._child._joined_state is not None
        return self._received > snapshot

    def end_with_backlog(self) -> None:
        """Take what the subscription's child holds now, and nothing more: there is no end of the task to wait for."""
        assert self._child is not None
        self._left = self._child.statistics().backlog
        self._over = not self._left

    async def receive_batch(self) -> tuple[Envelope, ...]:
        """Wait for events, and return those that are there.

        Raises:
            trio.EndOfChannel: The stream is over.
            A2AError: The message was refused, or the stream cannot go on.

        Cancellation: a checkpoint; nothing is lost when it is cancelled.
        """
        if self._over:
            await trio.lowlevel.checkpoint()
            raise trio.EndOfChannel
        batch = await self._next_batch()
        for index, envelope in enumerate(batch):
            if _ends_stream(envelope.event):
                self._over = True
                batch = batch[: index + 1]
                break
        self._received += len(batch)
        if self._left is not None:
            self._left -= len(batch)
            self._over = self._over or self._left <= 0
        return batch if self._history_length is None else tuple(map(self._cut, batch))

    def _cut(self, envelope: Envelope) -> Envelope:
        """Return the event as this caller wants it; one that is cut is encoded for this caller alone."""
        event = envelope.event
        if not isinstance(event, Task) or (shown := cut(event, self._history_length)) is event:
            return envelope
        return Envelope(envelope.sequence, shown)

    async def _next_batch(self) -> tuple[Envelope, ...]:
        if self._events:
            await trio.lowlevel.checkpoint()
            batch, self._events = self._events, ()
            self._over = True
            return batch
        child = await self._joined()
        try:
            return await child.receive_batch()
        except EventQueueClosedError:
            if self._run is not None and self._run.error is not None:
                raise self._run.error from None
            raise
        except SubscriberLaggedError:
            raise InternalError(
                "The stream was cut off because it was read too slowly", metadata={"retry": "subscribe"}
            ) from None

    async def _joined(self) -> ChildQueue:
        """Return the child; that of a run is there when the run has its turn."""
        if self._child is None:
            assert self._run is not None
            await self._run.turn.wait()
            self._child = self._run.stream
            if self._child is None:
                raise self._run.error or InternalError("The task was interrupted")
        return self._child


def _ends_stream(event: StreamEvent) -> bool:
    """Tell whether nothing can come after the event: a direct reply, or the end of the task."""
    if isinstance(event, Task | TaskStatusUpdateEvent):
        return event.status.state.is_final
    return isinstance(event, Message)
