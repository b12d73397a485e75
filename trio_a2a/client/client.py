"""The client: the operations of the protocol as methods, over whatever transport.

It is longer than 400 lines because it is the eleven operations, each with what its caller must know.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, final

import attrs

from ..errors import (
    A2AError,
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
)
from ..types import (
    AgentCard,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    PartsLike,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from .arguments import headers_of, interceptors_of, seconds_of, texts_of
from .exceptions import ClientError
from .interceptors import Interceptor
from .progress import Progress
from .push_configs import PushConfigs
from .retry import MAX_ATTEMPTS, with_retries
from .stream import EventStream
from .task_list import TaskList
from .transport import OPERATIONS, ClientCall, ClientTransport, EventSource, time_limit

__all__ = ["Client"]


@final
class Client:
    """One agent, as its client sees it. `connect` makes it; a program makes it for a transport of its own.

    Its methods can be called by any number of tasks at the same time. They raise the agent's refusals as the classes of
    `trio_a2a.errors`, and what fails on the way as `ClientError` classes. A ``timeout`` is in seconds on Trio's clock;
    None is the client's own, ``math.inf`` is none. Behind the block of `connect` they raise `trio.ClosedResourceError`.

    Args:
        card: The agent's card.
        transport: Carries the calls.
        timeout: Seconds that a call may take, repetitions included; None: any time.
        silence: Seconds without a byte (servers send comments) after which a stream counts as broken; None: never.
        extensions: URIs of extensions that every call activates.
        interceptors: Code around each call.
        headers: Headers of every call, beside those that the client makes itself.
        check_capabilities: Refuse at once what the card says that the agent cannot do. False: ask the agent.
        fetch_card: Fetches the card anew.

    Attributes:
        push_configs: The operations on webhooks.
    """

    push_configs: PushConfigs

    def __init__(
        self,
        card: AgentCard,
        transport: ClientTransport,
        *,
        timeout: float | None = 60.0,
        silence: float | None = 60.0,
        extensions: Iterable[str] = (),
        interceptors: Sequence[Interceptor] = (),
        headers: Mapping[str, str] | None = None,
        check_capabilities: bool = True,
        fetch_card: Callable[[], Awaitable[AgentCard]] | None = None,
    ) -> None:
        self._card = card
        self._transport = transport
        self._timeout = seconds_of(timeout, "timeout")
        self._silence = seconds_of(silence, "silence", positive=True)
        self._extensions = texts_of(extensions, "extensions")
        self._interceptors = interceptors_of(interceptors)
        self._headers = headers_of(headers)
        self._check = check_capabilities
        self._fetch_card = fetch_card
        self.push_configs = PushConfigs(self._push_call)

    def __repr__(self) -> str:
        return f"<Client of {self._card.name!r} over {self._transport.binding}>"

    @property
    def card(self) -> AgentCard:
        """The agent's card: the extended one, once that was asked for."""
        return self._card

    @property
    def transport(self) -> ClientTransport:
        """What carries the calls."""
        return self._transport

    # -------------------------------------------------------------------------------------------------------- sending

    async def send(
        self,
        message: Message | PartsLike,
        *,
        task_id: str | None = None,
        context_id: str | None = None,
        return_immediately: bool = False,
        configuration: SendMessageConfiguration | None = None,
        metadata: Mapping[str, Any] | None = None,
        reference_task_ids: Iterable[str] = (),
        extensions: Iterable[str] = (),
        timeout: float | None = None,
    ) -> Task | Message:
        """Send a message, and wait for the task to end or to need something, or for a direct reply.

        It is never sent twice: it is repeated only where no connection could be made.

        Args:
            message: A text, parts, or a whole `Message`.
            task_id: The task that it continues.
            context_id: The conversation that it belongs to.
            return_immediately: Return as soon as there is a task.
            configuration: Further options.
            metadata: Extension data of the request.
            reference_task_ids: Other tasks, offered as context.
            extensions: URIs of extensions to activate.
            timeout: Seconds; an agent that takes longer wants a stream, or ``return_immediately``.

        Raises:
            A2AError: The agent refuses.
            ClientError: The call failed.

        Cancellation: the agent may have got the message, and works on.
        """
        request = _send_request(
            message, task_id, context_id, configuration, metadata, reference_task_ids, return_immediately
        )
        response: SendMessageResponse = await self._call("SendMessage", request, extensions, timeout)
        answer: Task | Message = response.value
        return answer

    @asynccontextmanager
    async def stream(
        self,
        message: Message | PartsLike,
        *,
        task_id: str | None = None,
        context_id: str | None = None,
        configuration: SendMessageConfiguration | None = None,
        metadata: Mapping[str, Any] | None = None,
        reference_task_ids: Iterable[str] = (),
        extensions: Iterable[str] = (),
        resume: bool = True,
        timeout: float | None = None,
    ) -> AsyncIterator[EventStream]:
        """Send a message, and read what happens: ``async with client.stream("hello") as events``.

        Leaving the block ends the request; the agent works on.

        Args:
            message: As for `send`, like all that is not said here.
            task_id: As for `send`.
            context_id: As for `send`.
            configuration: As for `send`.
            metadata: As for `send`.
            reference_task_ids: As for `send`.
            extensions: As for `send`.
            resume: Take the stream up again when it breaks, or ends before its task. False: it ends as the server ends
                it, and a broken one raises.
            timeout: Seconds until it begins.

        Raises:
            A2AError: The agent refuses.
            ClientError: The call failed.
        """
        request = _send_request(message, task_id, context_id, configuration, metadata, reference_task_ids)
        self._require_streaming()
        progress = Progress(message=request.message, task_id=request.message.task_id)
        async with self._stream(
            progress, "SendStreamingMessage", request, extensions, timeout, resume=resume
        ) as events:
            yield events

    @asynccontextmanager
    async def subscribe(
        self,
        task_id: str,
        *,
        after: int | None = None,
        extensions: Iterable[str] = (),
        resume: bool = True,
        timeout: float | None = None,
    ) -> AsyncIterator[EventStream]:
        """Read what happens to a task: it as it is, then what changes, up to its end.

        Args:
            task_id: The task.
            after: The number of the last event that was seen (`EventStream.last_sequence`), at a server that numbers
                them: then only what followed comes. Where it is no longer there, or not numbered, the task comes, and
                `EventStream.gap` is true.
            extensions: URIs of extensions to activate.
            resume: As for `stream`.
            timeout: Seconds until it begins.

        Raises:
            ValueError: ``after`` is no number of an event.
            TaskNotFoundError: There is no such task.
            UnsupportedOperationError: It is over.
            A2AError: The agent refuses.
            ClientError: The call failed.
        """
        self._require_streaming()
        number: object = after
        if after is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
            raise ValueError(f"after is the number of an event, 0 or more, not {after!r}")
        progress = Progress(task_id=task_id, after=after or 0)
        request = SubscribeToTaskRequest(id=task_id)
        async with self._stream(progress, "SubscribeToTask", request, extensions, timeout, resume=resume) as events:
            yield events

    # ---------------------------------------------------------------------------------------------------------- tasks

    async def get_task(self, id: str, *, history_length: int | None = None, timeout: float | None = None) -> Task:
        """Return a task.

        Args:
            id: The task.
            history_length: At most so many of its newest messages; None: what the server gives, 0: none.
            timeout: Seconds.

        Raises:
            TaskNotFoundError: There is no such task.
            A2AError: The agent refuses.
            ClientError: The call failed.
        """
        task: Task = await self._call("GetTask", GetTaskRequest(id=id, history_length=history_length), timeout=timeout)
        return task

    def list_tasks(
        self,
        *,
        context_id: str = "",
        status: TaskState = TaskState.UNSPECIFIED,
        page_size: int | None = None,
        page_token: str = "",
        history_length: int | None = None,
        status_timestamp_after: datetime | None = None,
        include_artifacts: bool | None = None,
        timeout: float | None = None,
    ) -> TaskList:
        """Return the tasks that fit all that is given, newest first: ``async for task in client.list_tasks()``.

        Args:
            context_id: Only those of this conversation.
            status: Only those in this state.
            page_size: How many are fetched at a time.
            page_token: Where to go on, from a page.
            history_length: At most so many of each one's newest messages.
            status_timestamp_after: Only those whose status was recorded then or later.
            include_artifacts: With their artifacts.
            timeout: Seconds for each page.
        """
        request = ListTasksRequest(
            context_id=context_id,
            status=status,
            page_size=page_size,
            page_token=page_token,
            history_length=history_length,
            status_timestamp_after=status_timestamp_after,
            include_artifacts=include_artifacts,
        )

        async def fetch(request: ListTasksRequest) -> ListTasksResponse:
            page: ListTasksResponse = await self._call("ListTasks", request, timeout=timeout)
            return page

        return TaskList(fetch, request)

    async def cancel_task(
        self, id: str, *, metadata: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> Task:
        """Ask for the end of a task, and return it as it then is.

        Args:
            id: The task.
            metadata: Extension data.
            timeout: Seconds.

        Raises:
            TaskNotCancelableError: It is over, or its agent refuses.
            TaskNotFoundError: There is no such task.
            A2AError: The agent refuses.
            ClientError: The call failed.
        """
        request = CancelTaskRequest(id=id, metadata=None if metadata is None else dict(metadata))
        task: Task = await self._call("CancelTask", request, timeout=timeout)
        return task

    # ----------------------------------------------------------------------------------------------------------- card

    async def extended_card(self, *, timeout: float | None = None) -> AgentCard:
        """Return the fuller card for callers that are known; from then on it is `card`.

        It is trusted as the interface is that gives it, which a verified card has named; its own signatures are not
        looked at.

        Raises:
            UnsupportedOperationError: The card does not declare one.
            ExtendedAgentCardNotConfiguredError: There is none.
            A2AError: The agent refuses.
            ClientError: The call failed.
        """
        if self._check and not self._card.capabilities.extended_agent_card:
            raise UnsupportedOperationError("The agent has no extended card")
        card: AgentCard = await self._call("GetExtendedAgentCard", GetExtendedAgentCardRequest(), timeout=timeout)
        self._card = card
        return card

    async def refresh_card(self) -> AgentCard:
        """Fetch the public card anew, or learn that it has not changed; from then on it is `card`.

        The interface that is used stays.

        Raises:
            ClientError: It could not be fetched, or the client was made for a card.
        """
        if self._fetch_card is None:
            raise ClientError("this client was made for a card, so there is no place to fetch it from")
        with time_limit(self._timeout, "fetching the card"):
            self._card = await self._fetch_card()
        return self._card

    # --------------------------------------------------------------------------------------------------------- calling

    def _require_streaming(self) -> None:
        if self._check and not self._card.capabilities.streaming:
            raise UnsupportedOperationError("The agent does not stream")

    async def _push_call(self, operation: str, request: Any, *, timeout: float | None) -> Any:
        if self._check and not self._card.capabilities.push_notifications:
            raise PushNotificationNotSupportedError("The agent has no push notifications")
        return await self._call(operation, request, timeout=timeout)

    async def _before(
        self, operation: str, request: Any, extensions: Iterable[str], timeout: float | None
    ) -> ClientCall:
        call = ClientCall(
            operation=operation,
            request=request,
            extensions=tuple(dict.fromkeys([*self._extensions, *texts_of(extensions, "extensions")])),
            headers=dict(self._headers),
            timeout=self._timeout if timeout is None else seconds_of(timeout, "timeout"),
            silence=self._silence,
        )
        for interceptor in self._interceptors:
            changed: object = await interceptor.before(call)
            if not isinstance(changed, ClientCall):
                name = type(interceptor).__name__
                raise TypeError(f"{name}.before returns the call to make, a ClientCall, not {changed!r}")
            call = changed
        return call

    async def _after(self, call: ClientCall, result: Any, error: Exception | None = None) -> Any:
        for interceptor in reversed(self._interceptors):
            before, result = result, await interceptor.after(call, result, error)
            if before is not None and result is None:
                raise TypeError(f"{type(interceptor).__name__}.after returns the result for the caller, not None")
        return result

    async def _call(
        self, operation: str, request: Any, extensions: Iterable[str] = (), timeout: float | None = None
    ) -> Any:
        call = await self._before(operation, request, extensions, timeout)
        try:
            with time_limit(call.timeout, operation):
                result = await with_retries(lambda: self._transport.call(call), safe=OPERATIONS[operation].safe)
        except (A2AError, ClientError) as exc:
            await self._after(call, None, exc)
            raise
        return await self._after(call, result)

    async def _open(
        self,
        operation: str,
        request: Any,
        extensions: Iterable[str],
        timeout: float | None,
        last_event_id: int | None = None,
        attempts: int = MAX_ATTEMPTS,
    ) -> EventSource:
        call = await self._before(operation, request, extensions, timeout)
        try:
            with time_limit(call.timeout, operation):
                source = await with_retries(
                    lambda: self._transport.open(call, last_event_id=last_event_id),
                    safe=OPERATIONS[operation].safe,
                    attempts=attempts,
                )
        except (A2AError, ClientError) as exc:
            await self._after(call, None, exc)
            raise
        try:
            await self._after(call, None)
        except BaseException:
            await source.aclose()
            raise
        return source

    @asynccontextmanager
    async def _stream(
        self,
        progress: Progress,
        operation: str,
        request: Any,
        extensions: Iterable[str],
        timeout: float | None,
        *,
        resume: bool,
    ) -> AsyncIterator[EventStream]:
        extensions = texts_of(extensions, "extensions")

        async def begin() -> EventSource:
            return await self._open(operation, request, extensions, timeout, progress.last_event_id)

        async def subscribe(task_id: str, last_event_id: int | None) -> EventSource:
            again = SubscribeToTaskRequest(id=task_id)
            # Once: a stream counts for itself.
            return await self._open("SubscribeToTask", again, extensions, timeout, last_event_id, attempts=1)

        async def get_task(task_id: str) -> Task:
            task: Task = await self._call("GetTask", GetTaskRequest(id=task_id), extensions, timeout)
            return task

        events = EventStream(progress, begin, subscribe, get_task, resume=resume)
        async with events:
            await events.open()
            yield events


def _send_request(
    message: Message | PartsLike,
    task_id: str | None,
    context_id: str | None,
    configuration: SendMessageConfiguration | None,
    metadata: Mapping[str, Any] | None,
    reference_task_ids: Iterable[str],
    return_immediately: bool = False,
) -> SendMessageRequest:
    if not isinstance(message, Message):
        message = Message.user(message)
    changes: dict[str, Any] = {}
    if task_id is not None:
        changes["task_id"] = task_id
    if context_id is not None:
        changes["context_id"] = context_id
    if references := texts_of(reference_task_ids, "reference_task_ids"):
        changes["reference_task_ids"] = references
    if changes:
        message = attrs.evolve(message, **changes)
    if return_immediately:
        configuration = attrs.evolve(configuration or SendMessageConfiguration(), return_immediately=True)
    return SendMessageRequest(
        message=message, configuration=configuration, metadata=None if metadata is None else dict(metadata)
    )
