"""Everything that a user may implement, and the records that pass through it.

Each Protocol states its obligations; `trio_a2a.testing` has a suite for each that an implementation can be run through.
Our own implementations subclass the Protocol, so that a type checker compares them where they are defined. Nothing here
imports Trio: the methods are ordinary coroutine functions, and what cancellation means for each is said beside it.

The module is longer than 400 lines because it is one list, most of it obligations in docstrings, that is read by name.
"""

import enum
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeVarTuple, final, runtime_checkable

import attrs

from .errors import A2AError
from .types import (
    ListTasksRequest,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskStatusUpdateEvent,
)

if TYPE_CHECKING:
    from .agents import RequestContext, TaskUpdater

__all__ = [
    "AgentExecutor",
    "AuthenticationRequest",
    "Authenticator",
    "CancellableExecutor",
    "CloseReason",
    "Envelope",
    "EventLog",
    "OrphanPolicy",
    "OrphanedTasks",
    "Principal",
    "PushConfigStore",
    "ResumableExecutor",
    "StoredTask",
    "StreamCloseHandle",
    "StreamEvent",
    "SubscriberInfo",
    "TaskChange",
    "TaskStateProvider",
    "TaskStore",
    "TaskStreamLifecycleHook",
]

StreamEvent = Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent
"""What a task's stream carries (protocol section 3.2.3)."""

OrphanPolicy = Literal["fail", "keep", "resume"]
"""What becomes of a task whose process died: it is FAILED, left as it is, or taken up again by its agent."""

_Args = TypeVarTuple("_Args")


# ---------------------------------------------------------------------------------------------------------- records


@final
class Envelope:
    """One event on its way to the subscribers, with its number.

    Attributes:
        sequence: The event's number in its task: 1, 2, 3 ... In front of a stream, a snapshot carries the number of the
            last event that is in it. 0 for what is not stored (a direct Message).
        event: The event.
    """

    __slots__ = ("_encodings", "event", "sequence")

    def __init__(self, sequence: int, event: StreamEvent) -> None:
        self.sequence = sequence
        self.event = event
        self._encodings: dict[Callable[[StreamEvent], bytes], bytes] | None = None

    def encoded(self, encoder: Callable[[StreamEvent], bytes]) -> bytes:
        """Return the event's bytes, made at most once per encoder however many subscribers send them.

        Args:
            encoder: A function that lives as long as the server (it is the key of the memory, compared by equality).
        """
        if self._encodings is None:
            self._encodings = {}
        try:
            return self._encodings[encoder]
        except KeyError:
            data = self._encodings[encoder] = encoder(self.event)
            return data

    def __repr__(self) -> str:
        return f"<Envelope {self.sequence} {type(self.event).__name__}>"


@final
class TaskChange:
    """One step of a task, as a store is asked to commit it.

    Attributes:
        task_id: The task.
        sequence: The number that this event gets; the stored task must be at ``sequence - 1`` (0: not stored).
        event: The event itself, for a log.
        owner: Id of the principal that owns the task; "" for anonymous use.
        tenant: The tenant that the task was made under; "" for none.
        message: The user's message that began the run whose first event this is: it is in the snapshot's history but in
            no event, so a store that folds events keeps it beside the event. None for every other event.
    """

    __slots__ = ("_snapshot", "event", "message", "owner", "sequence", "task_id", "tenant")

    def __init__(
        self,
        *,
        task_id: str,
        sequence: int,
        event: StreamEvent,
        snapshot: Callable[[], Task],
        owner: str = "",
        tenant: str = "",
        message: Message | None = None,
    ) -> None:
        self.task_id = task_id
        self.sequence = sequence
        self.event = event
        self.owner = owner
        self.tenant = tenant
        self.message = message
        self._snapshot = snapshot

    def snapshot(self) -> Task:
        """Return the task as it is after the event.

        It is built when asked for, at a cost that grows with the task, and kept; a store that writes every event's
        row but not every snapshot pays only for the ones that it takes. Safe to call from another thread.
        """
        return self._snapshot()

    def __repr__(self) -> str:
        return f"<TaskChange {self.task_id!r} {self.sequence} {type(self.event).__name__}>"


@attrs.frozen(kw_only=True)
class StoredTask:
    """A task as a store holds it.

    Attributes:
        task: The task after event ``sequence``.
        sequence: The number of the last event in it.
        owner: Id of the principal that owns it.
        tenant: The tenant that it was made under.
        finalized_at: When it first reached a terminal state, aware UTC; None before.
    """

    task: Task
    sequence: int
    owner: str = ""
    tenant: str = ""
    finalized_at: datetime | None = None


class CloseReason(enum.Enum):
    """Why a subscriber's channel was closed."""

    CONSUMER = "consumer"
    """The reader closed it: it left its block, was cancelled, or its client went away."""
    HANDLE = "handle"
    """A hook closed it through its `StreamCloseHandle`."""
    FINAL = "final"
    """The task reached a terminal state, or the run that the stream belonged to is over."""
    LAGGED = "lagged"
    """The reader fell a whole buffer behind and did not catch up in time."""
    STORE_FAILURE = "store_failure"
    """An event of the task could not be stored."""
    INTERNAL = "internal"
    """A bug ended the task's queue."""
    SHUTDOWN = "shutdown"
    """The queue, or its manager, was closed."""


@attrs.frozen(kw_only=True)
class SubscriberInfo:
    """Whom a lifecycle callback is about.

    Attributes:
        id: Unique within the manager; `StreamCloseHandle.close_subscriber` takes it.
        opened_at: When the subscription began, aware UTC.
        close_reason: Why it was closed, in ``on_unsubscribe``; None before.
    """

    id: int
    opened_at: datetime
    close_reason: CloseReason | None = None


@attrs.frozen(kw_only=True)
class AuthenticationRequest:
    """What an `Authenticator` may look at.

    Attributes:
        headers: Header names in lower case to values; repeated ones joined with ", ". gRPC metadata for gRPC.
        query: Query parameters, first value of each.
        client: Host and port of the peer where known.
    """

    headers: Mapping[str, str]
    query: Mapping[str, str] = attrs.field(factory=dict)
    client: tuple[str, int] | None = None


# ------------------------------------------------------------------------------------------------------------ stores


@runtime_checkable
class TaskStore(Protocol):
    """Keeps tasks.

    One writer commits a task's changes at a time in one process; compare-and-set on the sequence number decides
    between processes. Any failure is a `StoreError` (another exception is treated as one). A call is a checkpoint.
    """

    async def get(self, task_id: str) -> StoredTask | None:
        """Return the task, or None if there is none.

        Raises:
            StoreError: It could not be read.
        """
        ...

    async def commit(self, changes: Sequence[TaskChange]) -> None:
        """Store the changes, all or none, in order; they may be of several tasks.

        When it returns they are durable and `get` shows them. ``finalized_at`` is set by the first change into a
        terminal state and never again.

        Raises:
            TaskConflictError: A change's number is not the stored one plus one.
            StoreError: It could not be written.

        Cancellation: the processor calls it under a shield that ends five seconds after a cancellation. It is then
        either done or not, and `get` tells by the sequence number.
        """
        ...

    async def delete(self, task_id: str) -> None:
        """Remove the task and its log; an unknown one is no error."""
        ...

    async def list(
        self, query: ListTasksRequest, *, owner: str, after: tuple[datetime | None, str] | None = None
    ) -> tuple[Sequence[Task], int]:
        """Return a page of the owner's tasks, and how many match in all.

        Order: status timestamp descending, then id ascending; tasks without a timestamp come last. Filters of the
        query (tenant, context_id, status, status_timestamp_after: inclusive) combine with AND; ``page_size`` (50 when
        unset) bounds the page. History and artifacts are returned whole: cutting them is the caller's.

        Args:
            query: The filters; its ``page_token`` is not looked at.
            owner: Only tasks of this owner.
            after: Status time and id of the last task of the page before; the page begins behind it, whether or not
                that task still exists.
        """
        ...


@runtime_checkable
class EventLog(Protocol):
    """What a `TaskStore` may also be: it still has the events, so that a reader can continue where it left off."""

    async def events(self, task_id: str, after: int) -> Sequence[Envelope]:
        """Return the stored events with numbers above ``after``, in order and without a gap.

        If the log no longer reaches back that far, what is returned begins later, or is empty: the caller compares.
        """
        ...


@runtime_checkable
class OrphanedTasks(Protocol):
    """What a `TaskStore` may also be, where tasks outlive the process: it finds those that nobody works on any more.

    A task is an orphan if it is SUBMITTED or WORKING and the process that last committed such a state of it is gone.
    One that waits for its user (INPUT_REQUIRED, AUTH_REQUIRED) is none, nor is one that is over. How it is known that a
    process is gone is the store's affair; one that is cut off for a while may be taken for gone, and must then be told
    so: its next commit of a task that was claimed and changed meanwhile is a `TaskTakenOverError`.

    A server asks while it runs, unless the policy is "keep".
    """

    @property
    def on_orphan(self) -> OrphanPolicy:
        """What a server that uses this store does with orphans."""
        ...

    async def claim_orphans(self, limit: int) -> Sequence[str]:
        """Make this process the one that works on some orphans, and return their ids; empty if there are none now.

        Of several processes that claim at once each orphan is given to exactly one. If a claimer dies too, what it has
        claimed are orphans again.

        Args:
            limit: How many at most.

        Raises:
            StoreError: The store failed; what was claimed all the same is returned by a later call.

        Cancellation: a checkpoint; what was claimed all the same is returned by a later call.
        """
        ...

    async def wait_for_orphans(self) -> None:
        """Return when there may be orphans that were not there at the last claim; at once if there was none yet.

        Cancellation: a checkpoint; nothing is lost when it is cancelled.
        """
        ...


@runtime_checkable
class TaskStateProvider(Protocol):
    """Says whether a task is still alive, which decides how long its queue lives and what is done with late events.

    One that also has an attribute ``grace_period`` (seconds) lets streams of a finished task end exactly when its grace
    period does; without it they stay open as long as their reader, if the task was active when they were opened.
    """

    async def is_task_active(self, task_id: str) -> bool:
        """Tell whether late events of the task are still processed.

        True for a task that is not final, and for a final one while ``now < finalized_at + grace_period``: exactly at
        the boundary it is no longer active. An unknown task is not active.
        """
        ...

    async def is_task_finalized(self, task_id: str) -> bool:
        """Tell whether the task is in a terminal state, whatever the grace period. An unknown task is not."""
        ...


@runtime_checkable
class PushConfigStore(Protocol):
    """Keeps the webhooks that clients registered for tasks. A config's id is unique within its task only.

    Who may see a task's configs is checked before a store is asked. Any failure is a `StoreError`. A call is a
    checkpoint.
    """

    async def put(self, config: TaskPushNotificationConfig, *, owner: str) -> None:
        """Store a config, which has a task id and an id; one with the same two is replaced.

        Args:
            config: The config.
            owner: Id of the principal that owns the task.
        """
        ...

    async def get(self, task_id: str, config_id: str) -> TaskPushNotificationConfig | None:
        """Return the config, or None if there is none."""
        ...

    async def list(
        self, task_id: str, *, after: str = "", limit: int | None = None
    ) -> Sequence[TaskPushNotificationConfig]:
        """Return the task's configs in the order of their ids.

        Args:
            task_id: The task.
            after: Only those whose id is greater, whether or not there is one with this id.
            limit: How many at most; None: all.
        """
        ...

    async def delete(self, task_id: str, config_id: str | None = None) -> None:
        """Remove a config, or all of the task's; an unknown one is no error."""
        ...


# ----------------------------------------------------------------------------------------------------------- streams


class StreamCloseHandle(Protocol):
    """How a lifecycle hook closes the streams of its task.

    Closing twice is allowed; with no subscriber it does nothing.

    From within ``on_unsubscribe`` (in the task that runs it) the closing methods have no effect; work started with
    `start_soon` from there is not within it.
    """

    @property
    def active_subscriber_count(self) -> int:
        """How many subscribers the task has."""
        ...

    @property
    def subscriber(self) -> SubscriberInfo | None:
        """Whom this callback is about; None in ``on_event``."""
        ...

    async def close_streams(self) -> None:
        """Close every subscriber's send side: backlogs drain, then the streams end."""
        ...

    async def abort_streams(self) -> None:
        """Cancel every subscription's scope and drop the backlogs."""
        ...

    async def close_subscriber(self, id: int) -> None:
        """Close one subscriber's send side; an unknown id is no error."""
        ...

    def start_soon(self, async_fn: Callable[[*_Args], Awaitable[object]], *args: *_Args) -> None:
        """Run ``async_fn(*args)`` in the queue's nursery.

        This is the way to close later. Its failure is a contained hook failure; when the queue ends it has one
        ``hook_timeout`` to finish.

        Raises:
            EventQueueClosedError: The queue is gone.
        """
        ...


class TaskStreamLifecycleHook(Protocol):
    """Sees subscribers come and go and events pass, and may close streams.

    All three are coroutine functions. Each call has ``hook_timeout`` seconds on Trio's clock; an Exception or an
    overrun is logged and counted, and delays its own task only. A hook that shields itself beats the budget: do not.
    Calls for one task may overlap: ``on_event`` may run while an ``on_subscribe`` of the same task is still running.
    The hook is bound to a task's queue when that is made.
    """

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """A subscriber was registered (the count includes it) and is about to be handed to the caller.

        If this closes the streams, the caller gets a closed child.
        """
        ...

    async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        """A subscriber is gone (the count excludes it). Runs once for each, in the task that closed it."""
        ...

    async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        """An event was stored and handed to at least one subscriber; or the error that took its place was."""
        ...


# ------------------------------------------------------------------------------------------------------------ agents


@runtime_checkable
class AgentExecutor(Protocol):
    """An agent: one call for each message."""

    async def execute(self, context: "RequestContext", updater: "TaskUpdater") -> None:
        """Handle the message of ``context``, reporting through ``updater``.

        It runs in a cancel scope of its own: a client that goes away does not end it, CancelTask does. Returning
        without a terminal state leaves the task as it is. An `A2AError` raised before anything was reported refuses
        the message; any other exception makes the task FAILED with a text that says nothing of it.
        """
        ...


@runtime_checkable
class CancellableExecutor(AgentExecutor, Protocol):
    """An agent that has something to do when its task is cancelled."""

    async def cancel(self, context: "RequestContext", updater: "TaskUpdater") -> None:
        """Stop working on the task; awaited before the run's scope is cancelled. ``context.message`` is None.

        It has ``Limits.cancel_timeout`` seconds. If it raises, or overruns, CancelTask answers TaskNotCancelable and
        the task goes on. If it reports no terminal state, CANCELED is reported for it.
        """
        ...


@runtime_checkable
class ResumableExecutor(AgentExecutor, Protocol):
    """An agent that can take a task up again whose process died.

    It is asked to where the store says so (``open_sql_store(..., on_orphan="resume")``).
    """

    async def resume(self, context: "RequestContext", updater: "TaskUpdater") -> None:
        """Go on with the task of ``context``, whose earlier run ended with its process.

        What it has to go by is ``context.task``: every event that was stored is in it, and nothing else is known of the
        earlier run, which may have ended between any two of its reports, having done something that it had not yet
        reported. So what may be done twice must do no harm. ``context.message`` is None; the messages are in the task's
        history. ``context.principal`` is known by its id alone; configuration, metadata and extensions of the request
        are gone.

        It runs as `execute` does: in a scope of its own, before messages that come later, ended by CancelTask; and the
        same obligations hold. WORKING has been reported for it, as the sign that the task goes on. It may be called
        again for one task, if this process dies as well.
        """
        ...


# ---------------------------------------------------------------------------------------------------- authentication


@runtime_checkable
class Principal(Protocol):
    """Who is calling. Tasks belong to it: what one principal made does not exist for another."""

    @property
    def id(self) -> str:
        """A stable id; "" is the anonymous principal."""
        ...


@runtime_checkable
class Authenticator(Protocol):
    """Finds out who is calling, before anything else of a request is looked at."""

    async def authenticate(self, request: AuthenticationRequest) -> Principal:
        """Return the caller.

        Raises:
            AuthenticationError: The credentials are missing or wrong (HTTP 401, gRPC UNAUTHENTICATED).
            AuthorizationError: The caller is known and may not use this agent (403, PERMISSION_DENIED).
        """
        ...
