"""Requests: what goes into the operations of the protocol and comes out of them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

import attrs

from .content import Message
from .security import AuthenticationInfo
from .struct import copy_struct
from .task import Task, TaskState
from .timestamp import utc_milliseconds
from .value import OneOf, Value, sequence_of

__all__ = [
    "CancelTaskRequest",
    "DeleteTaskPushNotificationConfigRequest",
    "GetExtendedAgentCardRequest",
    "GetTaskPushNotificationConfigRequest",
    "GetTaskRequest",
    "ListTaskPushNotificationConfigsRequest",
    "ListTaskPushNotificationConfigsResponse",
    "ListTasksRequest",
    "ListTasksResponse",
    "SendMessageConfiguration",
    "SendMessageRequest",
    "SendMessageResponse",
    "SubscribeToTaskRequest",
    "TaskPushNotificationConfig",
]


def _strings(values: Iterable[str]) -> tuple[str, ...]:
    return sequence_of(str, values)


@attrs.frozen(kw_only=True)
class TaskPushNotificationConfig(Value):
    """The registration of a webhook, as a client asks for it and as the server keeps it.

    Attributes:
        tenant: A routing key.
        id: Chosen by the client, or given by the server.
        task_id: The task to watch. Empty inside a :class:`SendMessageConfiguration`.
        url: Where to post the events.
        token: By which the receiver recognises its own registration. Secret, so not in the repr.
        authentication: How the agent authenticates itself there.
    """

    tenant: str = ""
    id: str = ""
    task_id: str = ""
    url: str
    token: str = attrs.field(default="", repr=False)
    authentication: AuthenticationInfo | None = None


@attrs.frozen(kw_only=True)
class SendMessageConfiguration(Value):
    """Options for sending one message.

    Attributes:
        accepted_output_modes: Media types that the caller can use.
        task_push_notification_config: A webhook to register for the task of this call.
        history_length: At most so many of the newest messages in the returned task; None: no limit, 0: none.
        return_immediately: Answer as soon as there is a task, instead of waiting for it to end or to need something.
    """

    accepted_output_modes: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    task_push_notification_config: TaskPushNotificationConfig | None = None
    history_length: int | None = None
    return_immediately: bool = False


@attrs.frozen(kw_only=True)
class SendMessageRequest(Value):
    """Send a message, with an answer or with a stream.

    Attributes:
        tenant: A routing key.
        message: The message.
        configuration: Options.
        metadata: Extension data of the request.
    """

    tenant: str = ""
    message: Message
    configuration: SendMessageConfiguration | None = None
    metadata: dict[str, Any] | None = attrs.field(default=None, converter=copy_struct)


@attrs.frozen(kw_only=True)
class SendMessageResponse(OneOf[Task | Message]):
    """The answer to a message: exactly one of its members.

    Attributes:
        task: The task that was made or continued.
        message: A direct reply, without a task.
    """

    _oneof: ClassVar[tuple[str, ...]] = ("task", "message")

    task: Task | None = None
    message: Message | None = None


@attrs.frozen(kw_only=True)
class GetTaskRequest(Value):
    """Ask for one task.

    Attributes:
        tenant: A routing key.
        id: The task.
        history_length: At most so many of the newest messages; None: no limit, 0: none.
    """

    tenant: str = ""
    id: str
    history_length: int | None = None


@attrs.frozen(kw_only=True)
class ListTasksRequest(Value):
    """Ask for a page of tasks. Filters that are set must all fit.

    Attributes:
        tenant: A routing key.
        context_id: Only tasks of this context.
        status: Only tasks in this state; UNSPECIFIED: in any.
        page_size: How many tasks a page holds; None: the server's default.
        page_token: Where to go on, from the page before.
        history_length: At most so many of the newest messages of each task.
        status_timestamp_after: Only tasks whose status was recorded at that instant or later.
        include_artifacts: With their artifacts; None: without.
    """

    tenant: str = ""
    context_id: str = ""
    status: TaskState = TaskState.UNSPECIFIED
    page_size: int | None = None
    page_token: str = ""
    history_length: int | None = None
    status_timestamp_after: datetime | None = attrs.field(default=None, converter=utc_milliseconds)
    include_artifacts: bool | None = None


def _tasks(values: Iterable[Task]) -> tuple[Task, ...]:
    return sequence_of(Task, values)


@attrs.frozen(kw_only=True)
class ListTasksResponse(Value):
    """A page of tasks.

    Attributes:
        tasks: The tasks, possibly none.
        next_page_token: Where to go on; empty on the last page.
        page_size: The size of the page that was applied.
        total_size: How many tasks fit the filters.
    """

    tasks: tuple[Task, ...] = attrs.field(converter=_tasks)
    next_page_token: str
    page_size: int
    total_size: int


@attrs.frozen(kw_only=True)
class CancelTaskRequest(Value):
    """Ask for the end of a task.

    Attributes:
        tenant: A routing key.
        id: The task.
        metadata: Extension data.
    """

    tenant: str = ""
    id: str
    metadata: dict[str, Any] | None = attrs.field(default=None, converter=copy_struct)


@attrs.frozen(kw_only=True)
class SubscribeToTaskRequest(Value):
    """Ask for the stream of a task that is under way.

    Attributes:
        tenant: A routing key.
        id: The task.
    """

    tenant: str = ""
    id: str


@attrs.frozen(kw_only=True)
class GetExtendedAgentCardRequest(Value):
    """Ask for the fuller card that authenticated clients get.

    Attributes:
        tenant: A routing key.
    """

    tenant: str = ""


@attrs.frozen(kw_only=True)
class GetTaskPushNotificationConfigRequest(Value):
    """Ask for one webhook registration.

    Attributes:
        tenant: A routing key.
        task_id: The task.
        id: The registration.
    """

    tenant: str = ""
    task_id: str
    id: str


@attrs.frozen(kw_only=True)
class ListTaskPushNotificationConfigsRequest(Value):
    """Ask for the webhook registrations of a task.

    Attributes:
        tenant: A routing key.
        task_id: The task.
        page_size: At most so many; 0: the server's default.
        page_token: Where to go on, from the page before.
    """

    tenant: str = ""
    task_id: str
    page_size: int = 0
    page_token: str = ""


def _configs(values: Iterable[TaskPushNotificationConfig]) -> tuple[TaskPushNotificationConfig, ...]:
    return sequence_of(TaskPushNotificationConfig, values)


@attrs.frozen(kw_only=True)
class ListTaskPushNotificationConfigsResponse(Value):
    """The webhook registrations of a task.

    Attributes:
        configs: The registrations.
        next_page_token: Where to go on; empty at the end.
    """

    configs: tuple[TaskPushNotificationConfig, ...] = attrs.field(default=(), converter=_configs)
    next_page_token: str = ""


@attrs.frozen(kw_only=True)
class DeleteTaskPushNotificationConfigRequest(Value):
    """End one webhook registration.

    Attributes:
        tenant: A routing key.
        task_id: The task.
        id: The registration.
    """

    tenant: str = ""
    task_id: str
    id: str
