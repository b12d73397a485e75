"""The operations of the protocol, without a transport (protocol section 5).

A binding decodes a request, says who is calling, and calls one of these; it encodes what comes back, or the `A2AError`
that is raised. Every look-up is scoped to the caller: a task of somebody else does not exist.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import final
from uuid import uuid4

import attrs
import trio

from ..abc import Envelope, Principal, StoredTask, StreamEvent
from ..agents.cancel import cancel_task
from ..agents.context import ANONYMOUS, RequestContext
from ..agents.runner import Run, start_run
from ..agents.updater import TaskUpdater
from ..errors import (
    ContentTypeNotSupportedError,
    FieldViolation,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from ..streams import (
    ChildQueue,
    EventQueueClosedError,
    QueueManager,
    SubscriberLaggedError,
)
from ..types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskStatusUpdateEvent,
)
from .agent import Agent
from .outside import OutsideReports

__all__ = ["Call", "Operations", "TaskStream"]

_logger = logging.getLogger("trio_a2a.server")


@attrs.frozen(kw_only=True)
class Call:
    """Who is calling, and how.

    Attributes:
        principal: The caller.
        extensions: URIs of the extensions that the caller activated and the agent has.
    """

    principal: Principal = ANONYMOUS
    extensions: tuple[str, ...] = ()


@final
class TaskStream:
    """The events of one streaming call, in batches, until its end."""

    def __init__(self, child: ChildQueue | None, run: Run | None = None) -> None:
        self._child = child
        self._run = run
        self._received = 0
        self._over = False

    @property
    def begun(self) -> bool:
        """Whether there was anything that the call itself brought about: for a sent message, more than the snapshot."""
        snapshot = self._run is not None and self._child is not None and self._child._joined_state is not None
        return self._received > snapshot

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
        child = await self._joined()
        try:
            batch = await child.receive_batch()
        except EventQueueClosedError:
            if self._run is not None and self._run.error is not None:
                raise self._run.error from None
            raise
        except SubscriberLaggedError:
            raise InternalError(
                "The stream was cut off because it was read too slowly", metadata={"retry": "subscribe"}
            ) from None
        for index, envelope in enumerate(batch):
            if _ends_stream(envelope.event):
                self._over = True
                batch = batch[: index + 1]
                break
        self._received += len(batch)
        return batch

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


@final
class Operations:
    """What one agent can be asked to do.

    Args:
        agent: The agent.
        manager: The queues of its tasks.
    """

    def __init__(self, agent: Agent, manager: QueueManager) -> None:
        self._agent = agent
        self._manager = manager

    # ---------------------------------------------------------------------------------------------------------- send

    async def send_message(self, request: SendMessageRequest, call: Call) -> Task | Message:
        """Hand a message to the agent, and return the outcome.

        Blocks until this message's run reports a terminal or interrupted state, replies, or ends; with
        ``return_immediately`` only until its first report, at most ``Limits.first_event_timeout``.

        Raises:
            A2AError: The message was refused.

        Cancellation: a checkpoint; the run goes on.
        """
        run = await self._start(request, call)
        configuration = request.configuration or SendMessageConfiguration()
        if configuration.return_immediately:
            outcome = await self._first_outcome(run)
        else:
            await run.settled.wait()
            outcome = run.answer()
        return _with_history(outcome, configuration.history_length)

    async def _first_outcome(self, run: Run) -> Task | Message:
        with trio.move_on_after(self._agent.limits.first_event_timeout):
            await run.first.wait()
        if not run.first.is_set() and run.queue._processor.state is None:
            await run.turn.wait()
            await run.promise_task()
        if run.ended.is_set() or run.reply is not None:
            return run.answer()
        state = run.queue._processor.state
        if state is None:
            await run.settled.wait()
            return run.answer()
        return state.task()

    @asynccontextmanager
    async def send_streaming_message(self, request: SendMessageRequest, call: Call) -> AsyncIterator[TaskStream]:
        """Hand a message to the agent, and stream what comes of it.

        Raises:
            A2AError: The message was refused; or later, from the stream.

        Cancellation: the stream is closed; the run goes on.
        """
        self.require_streaming()
        with trio.CancelScope() as scope:
            run = await self._start(request, call, scope)
            try:
                yield TaskStream(None, run)
            finally:
                await run.leave_stream()

    async def _start(
        self, request: SendMessageRequest, call: Call, stream_scope: trio.CancelScope | None = None
    ) -> Run:
        message = request.message
        stored = await self._check_message(request, call)
        is_new = stored is None
        task_id = str(uuid4()) if stored is None else stored.task.id
        context_id = (stored.task.context_id if stored is not None else message.context_id) or str(uuid4())
        queue = await self._manager._open(task_id, new=is_new, owner=call.principal.id, tenant=request.tenant)
        message = attrs.evolve(message, task_id=task_id, context_id=context_id)

        async def context(task: Task | None) -> RequestContext:
            return RequestContext(
                message=message,
                task=task,
                task_id=task_id,
                context_id=context_id,
                configuration=request.configuration or SendMessageConfiguration(),
                metadata=request.metadata or {},
                extensions=call.extensions,
                tenant=request.tenant,
                principal=call.principal,
                related_tasks=await self._related(message.reference_task_ids, call),
            )

        try:
            return start_run(queue, self._agent.executor, context, stream_scope=stream_scope)
        finally:
            queue._release()

    async def _check_message(self, request: SendMessageRequest, call: Call) -> StoredTask | None:
        """Check what can be checked before the agent is asked, in the order of protocol section 5.1."""
        message = request.message
        if message.role is not Role.USER:
            raise _invalid("message.role", "Must be ROLE_USER")
        stored = None
        if message.task_id:
            stored = await self._find(message.task_id, call)
            if message.context_id and message.context_id != stored.task.context_id:
                raise _invalid("message.contextId", "Differs from the context of the task")
            if stored.task.status.state.is_final:
                raise UnsupportedOperationError(
                    "Task is in a terminal state and accepts no further messages", metadata=_terminal(stored.task)
                )
        self._check_media_types(message)
        configuration = request.configuration
        if configuration is not None and configuration.task_push_notification_config is not None:
            raise PushNotificationNotSupportedError
        return stored

    def _check_media_types(self, message: Message) -> None:
        """Refuse parts whose stated media type neither the card nor a skill accepts (ambiguity A-51)."""
        card = self._agent.card
        accepted = {
            mode for modes in (card.default_input_modes, *(s.input_modes for s in card.skills)) for mode in modes
        }
        if not all("/" in mode for mode in accepted):
            return  # some cards list modes such as "text": there is nothing to compare with
        for part in message.parts:
            media_type = part.media_type.partition(";")[0].strip().lower()
            if media_type and not any(_matches(media_type, mode) for mode in accepted):
                raise ContentTypeNotSupportedError(metadata={"mediaType": part.media_type})

    async def _related(self, task_ids: tuple[str, ...], call: Call) -> tuple[Task, ...]:
        """Load the tasks that the message refers to; one that the caller cannot see is left out."""
        found = []
        for task_id in dict.fromkeys(task_ids):
            try:
                found.append((await self._find(task_id, call)).task)
            except TaskNotFoundError:
                _logger.info("a message refers to a task that its sender cannot see")
        return tuple(found)

    # -------------------------------------------------------------------------------------------------- the other ones

    async def get_task(self, request: GetTaskRequest, call: Call) -> Task:
        """Return a task, with at most ``history_length`` messages of its history.

        Raises:
            TaskNotFoundError: There is none that the caller may see.
        """
        stored = await self._find(request.id, call)
        return _cut(stored.task, request.history_length)

    async def cancel_task(self, request: CancelTaskRequest, call: Call) -> Task:
        """Cancel a task.

        Raises:
            TaskNotFoundError: There is none that the caller may see.
            TaskNotCancelableError: It is over, or its agent could not stop.

        Cancellation: a checkpoint; a cancellation that was begun goes on.
        """
        stored = await self._find(request.id, call)
        if stored.task.status.state.is_final:
            raise TaskNotCancelableError(metadata=_terminal(stored.task))
        queue = await self._manager._open(request.id)
        context = RequestContext(
            message=None,
            task=stored.task,
            task_id=request.id,
            context_id=stored.task.context_id,
            metadata=request.metadata or {},
            extensions=call.extensions,
            tenant=request.tenant,
            principal=call.principal,
        )
        try:
            return await cancel_task(queue, self._agent.executor, context, timeout=self._agent.limits.cancel_timeout)
        finally:
            queue._release()

    @asynccontextmanager
    async def subscribe(
        self, request: SubscribeToTaskRequest, call: Call, *, after: int | None = None
    ) -> AsyncIterator[TaskStream]:
        """Stream a task: a snapshot, then what happens, until it is over.

        Args:
            request: Which task.
            call: Who is calling.
            after: The number of the last event that the caller has; the ones behind it come instead of a snapshot.

        Raises:
            TaskNotFoundError: There is none that the caller may see.
            UnsupportedOperationError: It is over.
        """
        self.require_streaming()
        stored = await self._find(request.id, call)
        if stored.task.status.state.is_final:
            raise UnsupportedOperationError(
                "Task is in a terminal state and cannot be subscribed to", metadata=_terminal(stored.task)
            )
        async with self._manager.subscribe(request.id, after=after) as child:
            stream = TaskStream(child)
            state = child._joined_state
            if state is not None and state.is_final and not child.statistics().backlog:
                stream._over = True  # it ended between the check and the subscription, and the caller has it all
            yield stream

    def updater(self, task_id: str) -> TaskUpdater:
        """Return an updater for a task, from outside a run."""
        return TaskUpdater(OutsideReports(self._manager, task_id), task_id, "")

    # ------------------------------------------------------------------------------------------------------- look-ups

    async def _find(self, task_id: str, call: Call) -> StoredTask:
        """Return the caller's task.

        Raises:
            TaskNotFoundError: It does not exist, or is somebody else's: the answer is the same.
        """
        stored = await self._manager.store.get(task_id)
        if stored is None or stored.owner != call.principal.id:
            raise TaskNotFoundError(metadata={"taskId": task_id})
        return stored

    def require_streaming(self) -> None:
        """Refuse a streaming call of an agent that does not stream; bindings ask before they look at the parameters.

        Raises:
            UnsupportedOperationError: It does not.
        """
        if not self._agent.card.capabilities.streaming:
            raise UnsupportedOperationError("Streaming is not supported")


def _invalid(field: str, description: str) -> InvalidParamsError:
    return InvalidParamsError(violations=(FieldViolation(field, description),))


def _terminal(task: Task) -> dict[str, str]:
    return {"taskId": task.id, "state": task.status.state.value}


def _matches(media_type: str, mode: str) -> bool:
    mode = mode.partition(";")[0].strip().lower()
    return mode in {media_type, "*/*"} or (mode.endswith("/*") and media_type.startswith(mode[:-1]))


def _cut(task: Task, history_length: int | None) -> Task:
    """Return the task with its newest ``history_length`` messages; None: all of them."""
    if history_length is None or len(task.history) <= history_length:
        return task
    return attrs.evolve(task, history=task.history[len(task.history) - history_length :])


def _with_history(outcome: Task | Message, history_length: int | None) -> Task | Message:
    return _cut(outcome, history_length) if isinstance(outcome, Task) else outcome
