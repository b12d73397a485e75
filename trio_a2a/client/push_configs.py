"""The four operations on webhooks, as a client calls them."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, final

import attrs

from ..types import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    TaskPushNotificationConfig,
)
from .exceptions import InvalidResponseError

__all__ = ["MAX_PAGES", "PushConfigs"]

MAX_PAGES: Final = 1000
"""Pages of one task's webhooks; a list that is longer has no end."""

_TOKEN_BYTES: Final = 32  # as many as nobody guesses (RFC 6750 section 5.2)


@final
class PushConfigs:
    """The webhooks of tasks: ``client.push_configs``.

    Every method raises A2AError where the agent refuses (PushNotificationNotSupportedError if its card has no push
    notifications, TaskNotFoundError for what it does not know) and ClientError where the call fails.
    """

    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        self._call = call

    async def create(
        self,
        task_id: str,
        url: str,
        *,
        id: str = "",
        token: str | None = None,
        authentication: AuthenticationInfo | None = None,
        timeout: float | None = None,
    ) -> TaskPushNotificationConfig:
        """Register a webhook for a task, or replace the one with the same id.

        Args:
            task_id: The task.
            url: Where the agent posts the events.
            id: The registration's id; by default the agent makes one.
            token: By which the receiver recognises the registration. By default it is random, and in what is returned;
                "" is none. A token that several registrations share would let each receiver speak for the others.
            authentication: How the agent authenticates itself there.
            timeout: Seconds; None: the client's.
        """
        if token is None:
            token = secrets.token_urlsafe(_TOKEN_BYTES)
        config = TaskPushNotificationConfig(task_id=task_id, url=url, id=id, token=token, authentication=authentication)
        created: TaskPushNotificationConfig = await self._call(
            "CreateTaskPushNotificationConfig", config, timeout=timeout
        )
        # Servers may keep secrets to themselves; the program needs it for its receiver.
        return created if created.token else attrs.evolve(created, token=token)

    async def get(self, task_id: str, id: str, *, timeout: float | None = None) -> TaskPushNotificationConfig:
        """Return a webhook of a task."""
        request = GetTaskPushNotificationConfigRequest(task_id=task_id, id=id)
        config: TaskPushNotificationConfig = await self._call("GetTaskPushNotificationConfig", request, timeout=timeout)
        return config

    async def list(self, task_id: str, *, timeout: float | None = None) -> tuple[TaskPushNotificationConfig, ...]:
        """Return all webhooks of a task, page after page; the time-out is each page's."""
        found: list[TaskPushNotificationConfig] = []
        token = ""
        for _ in range(MAX_PAGES):
            request = ListTaskPushNotificationConfigsRequest(task_id=task_id, page_token=token)
            page: ListTaskPushNotificationConfigsResponse = await self._call(
                "ListTaskPushNotificationConfigs", request, timeout=timeout
            )
            found.extend(page.configs)
            if page.next_page_token and page.next_page_token == token:
                raise InvalidResponseError("the list does not end: a page names itself as the next one")
            token = page.next_page_token
            if not token:
                return tuple(found)
        raise InvalidResponseError(f"the list does not end: it has more than {MAX_PAGES} pages")

    async def delete(self, task_id: str, id: str, *, timeout: float | None = None) -> None:
        """End a webhook; one that is not there is no error."""
        request = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=id)
        await self._call("DeleteTaskPushNotificationConfig", request, timeout=timeout)
