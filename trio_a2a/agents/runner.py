"""One message, one run: user code in a cancel scope of its own, inside the task's queue.

A run is started by a request but belongs to the task. It waits for its turn (runs of one task go one at a time, first
in first out), calls the executor, and ends at a boundary where every outcome is decided: a refusal, a failure, a
cancellation, or simply the end. Whoever started it may wait for one of three points, each of which is passed in the
processor, in order with the events, and may go away at any time without touching the run:

    first report    `Run.first`: the answer of a call that does not wait
    settled         `Run.settled`: a terminal or interrupted state, a direct reply, or the end
    the stream      `Run.stream`: a child queue that ends with the run
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import final

import attrs
import trio

from ..abc import AgentExecutor, CloseReason, StreamEvent
from ..errors import (
    A2AError,
    InternalError,
    InvalidAgentResponseError,
    StoreError,
    TaskTerminalError,
    UnsupportedOperationError,
)
from ..streams import ChildQueue, EventQueueClosedError, MainQueue
from ..streams.light_event import LightEvent
from ..streams.reducer import WorkingTask
from ..types import Message, Task, TaskState, TaskStatusUpdateEvent
from .context import RequestContext
from .updater import Reports, TaskUpdater

__all__ = ["AGENT_FAILED", "ApartFromCancellation", "Run", "RunReports", "TaskRuns", "start_run"]

_logger = logging.getLogger("trio_a2a.agents")

AGENT_FAILED = "The agent failed."
"""All that a caller is told of an agent's exception."""

_LAST_WORDS_SECONDS = 5.0
"""How long the boundary may take to report how a run ended when everything is being cancelled."""


@final
@attrs.define(eq=False)
class TaskRuns:
    """What is kept beside a task's queue.

    Attributes:
        active: The runs that go on, or wait for the one before them.
        starting: How many more are about to be started.
    """

    active: list["Run"] = attrs.Factory(list)
    starting: int = 0
    _cancel_turn: trio.StrictFIFOLock | None = None

    @property
    def cancel_turn(self) -> trio.StrictFIFOLock:
        """The lock of the cancellation that has its turn; few tasks see one."""
        if self._cancel_turn is None:
            self._cancel_turn = trio.StrictFIFOLock()
        return self._cancel_turn

    @classmethod
    def of(cls, queue: MainQueue) -> "TaskRuns":
        """Return those of a queue."""
        runs = queue._beside
        if not isinstance(runs, TaskRuns):
            runs = queue._beside = cls()
        return runs


@final
class RunReports(Reports):
    """A run's reports: they go to its main queue, and the run sees them pass."""

    def __init__(self, queue: MainQueue, run: "Run | None") -> None:
        self._queue = queue
        self._run = run

    async def state(self) -> WorkingTask | None:
        """Return the task as subscribers have seen it."""
        return self._queue._processor.state

    async def report(self, event: StreamEvent, message: Message | None) -> None:
        """Put the event on the queue, and have the run told when it is through."""
        passed = None if self._run is None else partial(self._run._passed, event)
        await self._queue._accept_report(event, message, passed)

    async def report_whole(self, task: Task, end: TaskStatusUpdateEvent) -> bool:
        """Have a task that ends as soon as it begins carried through at once, where the queue can do that."""
        return self._run is not None and await self._queue._accept_whole((task, end), self._run._passed)

    async def flush(self) -> None:
        """Flush the queue."""
        await self._queue.flush()


@final
class Run:
    """One call of an executor.

    Attributes:
        queue: The task's queue.
        turn: Set when the run has its turn, or will never have it; `stream` is there then, if one was asked for.
        first: Set when the first report is stored and distributed, or the run is over.
        settled: Set when a blocked caller has its answer.
        ended: Set when the run is over.
        reply: The direct reply, if that is what it answered.
        error: Why the message was refused, or could not be handled.
        stream: The caller's stream, if it asked for one.
    """

    def __init__(self, queue: MainQueue, stream_scope: trio.CancelScope | None) -> None:
        self.queue = queue
        self.turn = LightEvent()
        self.first = LightEvent()
        self.settled = LightEvent()
        self.ended = LightEvent()
        self.reply: Message | None = None
        self.error: A2AError | None = None
        self.stream: ChildQueue | None = None
        self._stream_scope = stream_scope
        self._left = False
        self._turn_over = LightEvent()
        self._settled_state: WorkingTask | None = None
        self._refusal: A2AError | None = None
        self._updater: TaskUpdater | None = None
        self._scope = trio.CancelScope()
        self._cancel_requested = False

    def answer(self) -> Task | Message:
        """Return what a blocked caller is answered: the direct reply, or the task at the point where the run settled.

        Raises:
            A2AError: The message was refused, or its outcome could not be stored.
        """
        if self._refusal is not None:
            raise self._refusal
        if self.reply is not None:
            return self.reply
        assert self._settled_state is not None
        return self._settled_state.task()

    async def promise_task(self) -> None:
        """Make the task now, SUBMITTED, for a caller that does not wait for the first report.

        Cancellation: a checkpoint; when it is cancelled, the task may or may not have been made.
        """
        if self._updater is not None:
            await self._updater._promise()
            await self.queue.flush()

    async def leave_stream(self) -> None:
        """Close the caller's stream, or see that none is opened. The run goes on."""
        self._left = True
        if self.stream is not None:
            await self.stream.aclose(immediate=True)

    def request_cancel(self) -> None:
        """Cancel the run's scope; when it ends without a terminal state, CANCELED is reported."""
        self._cancel_requested = True
        self._scope.cancel(reason="the task was cancelled by a request")

    # ----------------------------------------------------------------------------------- called between two events

    def _passed(self, event: StreamEvent, state: WorkingTask | None) -> None:
        """A report of this run is through."""
        self.first.set()
        if isinstance(event, Message):
            self.reply = event
            self.settled.set()
        elif isinstance(event, TaskStatusUpdateEvent) and state is not None:
            # A report that could not be stored leaves another status behind, and settles nothing.
            reported = event.status.state
            if state.status is event.status and (reported.is_final or reported.is_interrupted):
                self._settle(state)

    def _over(self, state: WorkingTask | None) -> None:
        """Everything that the run reported is through: this is the end marker of its stream."""
        if state is None and self.reply is None and self.error is None:
            self.error = InternalError("The task was interrupted")  # everything is being ended
        self._settle(state)
        self.first.set()
        self.turn.set()
        self.ended.set()
        goes_on = state is not None and state.status.state is TaskState.AUTH_REQUIRED and self.error is None
        if self.stream is not None and not goes_on:
            self.stream._end(CloseReason.FINAL)

    def _settle(self, state: WorkingTask | None) -> None:
        if not self.settled.is_set():
            self._settled_state = state
            self._refusal = self.error
            self.settled.set()

    # ---------------------------------------------------------------------------------------------- the run's task

    async def _go(
        self,
        executor: AgentExecutor,
        make_context: Callable[[Task | None], Awaitable[RequestContext]],
        before: "Run | None",
    ) -> None:
        queue = self.queue
        try:
            if before is not None:
                await before._turn_over.wait()
            await self._take_turn(executor, make_context)
        except EventQueueClosedError:
            # The server is shutting down, or the queue had a bug that is logged where it happened.
            self.error = self.error or InternalError("The task was interrupted")
        finally:
            self._turn_over.set()
            queue._mark(self._over)

    async def _take_turn(
        self, executor: AgentExecutor, make_context: Callable[[Task | None], Awaitable[RequestContext]]
    ) -> None:
        state = self.queue._processor.state
        if state is not None and state.is_final:
            self.error = UnsupportedOperationError(f"The task is {state.status.state.name} and takes no more messages")
            return
        try:
            with ApartFromCancellation(self.queue.task_id), self._scope:
                context = await make_context(state.task() if state is not None else None)
                self._updater = updater = TaskUpdater(
                    RunReports(self.queue, self),
                    self.queue.task_id,
                    context.context_id,
                    message=context.message,
                    direct_reply=state is None,
                )
                await self._open_stream()
                self.turn.set()
                await executor.execute(context, updater)
            if self._scope.cancelled_caught and not self._cancel_requested:
                return  # the queue is being ended: what was accepted is stored without us, and nothing is said
        except Exception as exc:  # boundary around user code: what an agent raises becomes its own task's failure
            await self._failed(exc)
        else:
            await self._finished()
        # Not in a `finally`: when the whole queue is being ended, what was accepted is stored without us.
        await self._flush()

    async def _close_stream(self) -> None:
        """Have the stream's place given up and its hook run, when it has reached its end; it can still be read."""
        if self.stream is None:
            return
        if not self.ended.is_set():
            await self.ended.wait()
        if self.stream.closed:
            await self.queue._close_children((self.stream,), CloseReason.FINAL)

    async def _open_stream(self) -> None:
        if self._stream_scope is None:
            return
        stream = self.queue._register(snapshot=True)
        await self.queue._welcome(stream)
        if self._left:
            await stream.aclose(immediate=True)
        else:
            stream._attach(self._stream_scope)
            self.stream = stream

    async def _finished(self) -> None:
        updater = self._updater
        if self._cancel_requested:
            await self._report_end(TaskState.CANCELED)
        elif updater is None or not updater._begun:
            self.error = InvalidAgentResponseError("The agent ended without an answer")
        elif updater._promised and not updater._reported:
            await self._report_end(TaskState.FAILED, "The agent ended without an answer")

    async def _failed(self, exc: Exception) -> None:
        updater = self._updater
        begun = updater is not None and updater._begun
        if isinstance(exc, EventQueueClosedError) and self.queue.closed:
            raise exc
        if isinstance(exc, A2AError) and not begun:
            self.error = exc
            return
        _logger.error("the agent failed on task %s", self.queue.task_id, exc_info=exc)
        if updater is None:
            self.error = InternalError()
        elif self._cancel_requested:
            await self._report_end(TaskState.CANCELED)
        else:
            await self._report_end(TaskState.FAILED, AGENT_FAILED)

    async def _report_end(self, state: TaskState, text: str | None = None) -> None:
        """Report how the run ended, unless it did so itself."""
        updater = self._updater
        now = self.queue._processor.state
        if updater is None or updater._replied or updater._terminal is not None or (now is not None and now.is_final):
            return
        with trio.move_on_after(_LAST_WORDS_SECONDS, shield=True) as budget:
            try:
                await updater.update_status(state, text)
            except TaskTerminalError:
                pass  # somebody else has ended the task meanwhile
            except StoreError as exc:
                _logger.error("task %s: its end could not be stored: %r", self.queue.task_id, exc)
                self.error = InternalError("The task could not be stored")
        if budget.cancelled_caught:
            _logger.warning("task %s: its end was not stored within %s s", self.queue.task_id, _LAST_WORDS_SECONDS)

    async def _flush(self) -> None:
        if self.queue._is_flushed:
            return
        try:
            await self.queue.flush()
        except StoreError:
            self.error = self.error or InternalError("The task could not be stored")


def start_run(
    queue: MainQueue,
    executor: AgentExecutor,
    make_context: Callable[[Task | None], Awaitable[RequestContext]],
    *,
    stream_scope: trio.CancelScope | None = None,
    unmade: Callable[[], Awaitable[None]] | None = None,
) -> Run:
    """Start a run in the queue's nursery; the caller holds the queue.

    Args:
        queue: The task's queue.
        executor: The agent.
        make_context: Makes the run's context when it has its turn, from the task as it is then.
        stream_scope: The scope of a caller that reads the run's events: a subscriber, with a snapshot, is registered
            when the run has its turn, and the scope is cancelled if the stream is aborted.
        unmade: Called when the run is over and there is no task: what was prepared for it can go.

    Raises:
        EventQueueClosedError: The queue is closed.
    """
    run = Run(queue, stream_scope)
    runs = TaskRuns.of(queue).active
    before = runs[-1] if runs else None

    async def tracked() -> None:
        try:
            await run._go(executor, make_context, before)
        finally:
            runs.remove(run)
            run._updater = None  # the two name each other, and would be left to the garbage collector
        await run._close_stream()
        if unmade is not None and queue._processor.state is None:
            with trio.move_on_after(_LAST_WORDS_SECONDS):
                try:
                    await unmade()
                except StoreError:
                    _logger.warning("what was prepared for a task not made could not be removed", exc_info=True)

    queue._start_run(tracked, run._scope)
    runs.append(run)
    return run


@final
class ApartFromCancellation:
    """Takes an agent's errors out of a group that holds the cancellation of the whole queue too.

    An agent with a nursery raises such a group when it fails while everything is ended. What is left is only the
    cancellation, which goes on to who asked for it. A group without one is an exception like any other.
    """

    __slots__ = ("_task_id",)

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id

    def __enter__(self) -> None:
        """Nothing is prepared."""

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if isinstance(exc, BaseExceptionGroup):
            errors, rest = exc.split(Exception)
            if errors is not None and rest is not None:
                _logger.error("the agent failed while task %s was being ended", self._task_id, exc_info=errors)
                raise rest from None
