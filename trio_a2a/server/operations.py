"""The operations of the protocol, without a transport (protocol section 5).

A binding decodes a request, says who is calling, and calls one of these through the tables at the end; it encodes what
comes back, or the `A2AError` that is raised. Every look-up is scoped to the caller: a task of somebody else does not
exist.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, final

import attrs

from ..abc import Envelope, EventLog, StoredTask
from ..agents.cancel import cancel_task
from ..agents.context import RequestContext
from ..agents.updater import TaskUpdater
from ..errors import (
    ExtendedAgentCardNotConfiguredError,
    TaskNotCancelableError,
    UnsupportedOperationError,
)
from ..streams import QueueManager
from ..types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    SendMessageResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from ..types.value import Value
from .agent import Agent
from .call import Call, StreamSlots, cut, find_task, invalid, require_streaming, terminal_metadata
from .card import with_interfaces
from .outside import OutsideReports
from .page_tokens import PageTokens
from .push_configs import PushConfigs
from .sending import Sending
from .task_stream import TaskStream

__all__ = ["METHODS", "STREAMS", "Method", "Operations", "StreamMethod"]

_DEFAULT_PAGE_SIZE = 50
_MAX_PAGE_SIZE = 100


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
        self._tokens = PageTokens(agent.page_token_key)
        self._slots = StreamSlots(agent.limits)
        # A card that says it does not push is believed, whatever else the agent was given.
        push = agent.push if agent.card.capabilities.push_notifications else None
        self.push_configs = PushConfigs(push, self._tokens, echo_secrets=agent.echo_push_secrets)
        sending = Sending(agent, manager, self.push_configs, self._slots)
        self.send_message = sending.send_message
        self.send_streaming_message = sending.send_streaming_message

    # --------------------------------------------------------------------------------------------------------- tasks

    async def get_task(self, request: GetTaskRequest, call: Call) -> Task:
        """Return a task, with at most ``history_length`` messages of its history.

        Raises:
            TaskNotFoundError: There is none that the caller may see.
        """
        stored = await find_task(self._manager, request.id, call)
        return cut(stored.task, request.history_length)

    async def list_tasks(self, request: ListTasksRequest, call: Call) -> ListTasksResponse:
        """Return a page of the caller's tasks, newest status first.

        Raises:
            InvalidParamsError: The page size is out of range, or the token is not of this list.
        """
        size = _DEFAULT_PAGE_SIZE if request.page_size is None else request.page_size
        if not 1 <= size <= _MAX_PAGE_SIZE:
            raise invalid("pageSize", f"Must be between 1 and {_MAX_PAGE_SIZE}")
        since = request.status_timestamp_after
        scope = (
            "tasks",
            call.principal.id,
            request.tenant,
            request.context_id,
            request.status.value,
            None if since is None else since.isoformat(),
        )
        after = self._tokens.read(request.page_token, scope) if request.page_token else None
        # One more than the page: whether there is a next one.
        found, total = await self._manager.store.list(
            attrs.evolve(request, page_size=size + 1, page_token=""), owner=call.principal.id, after=after
        )
        page = found[:size]
        token = ""
        if len(found) > size:
            token = self._tokens.make((page[-1].status.timestamp, page[-1].id), scope)
        return ListTasksResponse(
            tasks=tuple(_listed(task, request) for task in page),
            next_page_token=token,
            page_size=size,
            total_size=total,
        )

    async def cancel_task(self, request: CancelTaskRequest, call: Call) -> Task:
        """Cancel a task.

        Raises:
            TaskNotFoundError: There is none that the caller may see.
            TaskNotCancelableError: It is over, or its agent could not stop.

        Cancellation: a checkpoint; a cancellation that was begun goes on.
        """
        stored = await find_task(self._manager, request.id, call)
        if stored.task.status.state.is_final:
            raise TaskNotCancelableError(metadata=terminal_metadata(stored.task))
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

    # ------------------------------------------------------------------------------------------------------- streams

    @asynccontextmanager
    async def subscribe(
        self, request: SubscribeToTaskRequest, call: Call, *, after: int | None = None
    ) -> AsyncIterator[TaskStream]:
        """Stream a task: a snapshot, then what happens, until it is over.

        Args:
            request: Which task.
            call: Who is calling.
            after: The number of the last event that the caller has. The ones behind it come instead of a snapshot,
                where they are still held; so a task that has ended meanwhile can be read to its end.

        Raises:
            TaskNotFoundError: There is none that the caller may see.
            UnsupportedOperationError: It is over.
            RateLimitedError: There are too many streams.
        """
        require_streaming(self._agent.card)
        stored = await find_task(self._manager, request.id, call)
        if after is not None and not 0 <= stored.sequence - after <= self._agent.limits.replay_events:
            after = None
        if stored.task.status.state.is_final:
            rest = None if after is None else await self._rest_of_finished(stored, after)
            if rest is None:
                raise UnsupportedOperationError(
                    "Task is in a terminal state and cannot be subscribed to", metadata=terminal_metadata(stored.task)
                )
            with self._slots.taken(request.id, call.principal):
                yield TaskStream(events=rest)
            return
        with self._slots.taken(request.id, call.principal):
            async with self._manager.subscribe(request.id, after=after) as child:
                stream = TaskStream(child)
                state = child._joined_state
                if state is not None and state.is_final:
                    stream.end_with_backlog()  # it ended between the check and the subscription
                yield stream

    async def _rest_of_finished(self, stored: StoredTask, after: int) -> Sequence[Envelope] | None:
        """Return what a reader has not seen of a task that is over; None if that is no longer held."""
        store = self._manager.store
        if not isinstance(store, EventLog) or not await self._manager._is_active(stored.task.id):
            return None
        events = await store.events(stored.task.id, after)
        return events if len(events) == stored.sequence - after else None

    # --------------------------------------------------------------------------------------- push configurations, card

    async def create_push_config(self, config: TaskPushNotificationConfig, call: Call) -> TaskPushNotificationConfig:
        """Register a webhook for a task.

        Raises:
            TaskNotFoundError: There is no such task that the caller may see.
            InvalidParamsError: The config cannot be used, or names no task.
        """
        if not config.task_id:
            raise invalid("taskId", "Is required")
        await find_task(self._manager, config.task_id, call)
        return await self.push_configs.create(config, call.principal.id)

    async def get_push_config(
        self, request: GetTaskPushNotificationConfigRequest, call: Call
    ) -> TaskPushNotificationConfig:
        """Return a webhook of a task.

        Raises:
            TaskNotFoundError: There is no such task that the caller may see, or no such config.
        """
        await find_task(self._manager, request.task_id, call)
        return await self.push_configs.get(request)

    async def list_push_configs(
        self, request: ListTaskPushNotificationConfigsRequest, call: Call
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return a page of a task's webhooks.

        Raises:
            TaskNotFoundError: There is no such task that the caller may see.
            InvalidParamsError: The page size or the token is wrong.
        """
        await find_task(self._manager, request.task_id, call)
        return await self.push_configs.list(request, call.principal.id)

    async def delete_push_config(self, request: DeleteTaskPushNotificationConfigRequest, call: Call) -> None:
        """Remove a webhook of a task; an unknown one is no error.

        Raises:
            TaskNotFoundError: There is no such task that the caller may see.
        """
        await find_task(self._manager, request.task_id, call)
        await self.push_configs.delete(request)

    def require_push(self) -> None:
        """Refuse a call about webhooks of an agent that has none.

        Raises:
            PushNotificationNotSupportedError: It has none.
        """
        self.push_configs.require()

    async def get_extended_card(self, request: GetExtendedAgentCardRequest, call: Call) -> AgentCard:
        """Return the card for callers that are known.

        Raises:
            ExtendedAgentCardNotConfiguredError: There is none for this caller.
        """
        card = self._agent.extended_card
        if callable(card):
            made = card(call.principal)
            card = await made if inspect.isawaitable(made) else made
        if card is None:
            raise ExtendedAgentCardNotConfiguredError
        return self._agent.signed(with_interfaces(self._agent.completed(card), call.interfaces))

    def require_extended_card(self) -> None:
        """Refuse a call for an extended card that the public card does not declare.

        Raises:
            UnsupportedOperationError: It does not.
        """
        if not self._agent.card.capabilities.extended_agent_card:
            raise UnsupportedOperationError("Extended agent card is not supported")

    def updater(self, task_id: str) -> TaskUpdater:
        """Return an updater for a task, from outside a run."""
        return TaskUpdater(OutsideReports(self._manager, task_id), task_id, "")


def _listed(task: Task, request: ListTasksRequest) -> Task:
    """Return a task as a list shows it: without history unless asked (A-18), and without artifacts unless asked."""
    history_length = 0 if request.history_length is None else request.history_length
    task = cut(task, history_length)
    return task if request.include_artifacts else attrs.evolve(task, artifacts=())


# -------------------------------------------------------------------------------------------------- for the bindings


async def _send_message(operations: Operations, request: SendMessageRequest, call: Call) -> SendMessageResponse:
    return SendMessageResponse.of(await operations.send_message(request, call))


def _nothing(_: Operations) -> None:
    """No capability is needed."""


@attrs.frozen
class Method:
    """An operation with one answer.

    Attributes:
        request: The class of its request.
        run: Carries it out; None is an empty answer.
        require: Checks the capability that it needs, before the request is looked at.
        headers: Headers of its answer over HTTP.
    """

    request: type[Value]
    run: Callable[[Operations, Any, Call], Awaitable[Value | None]]
    require: Callable[[Operations], None] = _nothing
    headers: Sequence[tuple[bytes, bytes]] = ()


@attrs.frozen
class StreamMethod:
    """An operation that answers with a stream.

    Attributes:
        request: The class of its request.
        open: Opens the stream; its last argument is the number of the last event that the caller has.
    """

    request: type[Value]
    open: Callable[[Operations, Any, Call, int | None], AbstractAsyncContextManager[TaskStream]]


METHODS: Final[Mapping[str, Method]] = {
    "SendMessage": Method(SendMessageRequest, _send_message),
    "GetTask": Method(GetTaskRequest, Operations.get_task),
    "ListTasks": Method(ListTasksRequest, Operations.list_tasks),
    "CancelTask": Method(CancelTaskRequest, Operations.cancel_task),
    "CreateTaskPushNotificationConfig": Method(
        TaskPushNotificationConfig, Operations.create_push_config, Operations.require_push
    ),
    "GetTaskPushNotificationConfig": Method(
        GetTaskPushNotificationConfigRequest, Operations.get_push_config, Operations.require_push
    ),
    "ListTaskPushNotificationConfigs": Method(
        ListTaskPushNotificationConfigsRequest, Operations.list_push_configs, Operations.require_push
    ),
    "DeleteTaskPushNotificationConfig": Method(
        DeleteTaskPushNotificationConfigRequest, Operations.delete_push_config, Operations.require_push
    ),
    "GetExtendedAgentCard": Method(
        GetExtendedAgentCardRequest,
        Operations.get_extended_card,
        Operations.require_extended_card,
        headers=((b"cache-control", b"private"),),  # it may be another for each caller
    ),
}

STREAMS: Final[Mapping[str, StreamMethod]] = {
    "SendStreamingMessage": StreamMethod(
        SendMessageRequest, lambda operations, request, call, _: operations.send_streaming_message(request, call)
    ),
    "SubscribeToTask": StreamMethod(
        SubscribeToTaskRequest,
        lambda operations, request, call, after: operations.subscribe(request, call, after=after),
    ),
}
