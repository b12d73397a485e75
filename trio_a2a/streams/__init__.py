"""The heart: task streams on structured concurrency.

One main queue for each live task owns a nursery, takes events through a bounded channel, stores each one, then hands it
to every subscriber's own channel and to the lifecycle hook.
"""

from ..abc import CloseReason as CloseReason, SubscriberInfo as SubscriberInfo
from .child_queue import ChildQueue as ChildQueue
from .exceptions import (
    EventQueueClosedError as EventQueueClosedError,
    NoTaskQueueError as NoTaskQueueError,
    SubscriberLaggedError as SubscriberLaggedError,
    TaskIdMismatchError as TaskIdMismatchError,
)
from .main_queue import MainQueue as MainQueue
from .manager import QueueManager as QueueManager, open_queue_manager as open_queue_manager
from .statistics import (
    ChildQueueStatistics as ChildQueueStatistics,
    MainQueueStatistics as MainQueueStatistics,
    QueueManagerStatistics as QueueManagerStatistics,
)

__all__ = [
    "ChildQueue",
    "ChildQueueStatistics",
    "CloseReason",
    "EventQueueClosedError",
    "MainQueue",
    "MainQueueStatistics",
    "NoTaskQueueError",
    "QueueManager",
    "QueueManagerStatistics",
    "SubscriberInfo",
    "SubscriberLaggedError",
    "TaskIdMismatchError",
    "open_queue_manager",
]
