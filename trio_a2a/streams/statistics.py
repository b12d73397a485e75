"""What live objects tell of themselves, and the tally that it is read from."""

import attrs

__all__ = ["ChildQueueStatistics", "MainQueueStatistics", "QueueManagerStatistics", "Tally"]


@attrs.frozen(kw_only=True)
class ChildQueueStatistics:
    """A subscriber's channel.

    Attributes:
        backlog: Events that wait to be received.
        received: Events that were received.
    """

    backlog: int
    received: int


@attrs.frozen(kw_only=True)
class MainQueueStatistics:
    """One task's queue.

    Attributes:
        in_flight: Events accepted and not yet distributed, those being committed included.
        subscribers: Subscribers now.
        sequence: Number of the last event that was distributed.
        hook_errors: Hook calls that raised.
        hook_timeouts: Hook calls that overran ``hook_timeout``.
        late_events_dropped: Events that came when the task was over and could no longer be taken.
        lagged_subscribers: Readers that were cut off.
    """

    in_flight: int
    subscribers: int
    sequence: int
    hook_errors: int
    hook_timeouts: int
    late_events_dropped: int
    lagged_subscribers: int


@attrs.frozen(kw_only=True)
class QueueManagerStatistics:
    """All queues of a manager. The counters include queues that are gone.

    Attributes:
        queues: Live main queues.
        subscribers: Subscribers of all of them.
        hook_errors: Hook calls that raised.
        hook_timeouts: Hook calls that overran ``hook_timeout``.
        late_events_dropped: Events that came when their task was over and could no longer be taken.
        lagged_subscribers: Readers that were cut off.
    """

    queues: int
    subscribers: int
    hook_errors: int
    hook_timeouts: int
    late_events_dropped: int
    lagged_subscribers: int


@attrs.define(eq=False)
class Tally:
    """The counters of one queue, which also count for its manager."""

    total: "Tally | None" = None
    hook_errors: int = 0
    hook_timeouts: int = 0
    late_events_dropped: int = 0
    lagged_subscribers: int = 0

    def hook_error(self) -> None:
        """Count a hook call that raised."""
        self.hook_errors += 1
        if self.total is not None:
            self.total.hook_error()

    def hook_timeout(self) -> None:
        """Count a hook call that overran."""
        self.hook_timeouts += 1
        if self.total is not None:
            self.total.hook_timeout()

    def late_event_dropped(self) -> None:
        """Count an event that came too late."""
        self.late_events_dropped += 1
        if self.total is not None:
            self.total.late_event_dropped()

    def subscriber_lagged(self) -> None:
        """Count a reader that was cut off."""
        self.lagged_subscribers += 1
        if self.total is not None:
            self.total.subscriber_lagged()
