"""Push configurations: the four operations on them, and the one that comes inline with a message (section 5.7)."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final
from urllib.parse import urlsplit

import attrs

from ..abc import PushConfigStore
from ..errors import FieldViolation, InvalidParamsError, PushNotificationNotSupportedError, TaskNotFoundError
from ..types import (
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    TaskPushNotificationConfig,
)
from ..types.identifier import new_id
from .page_tokens import PageTokens

__all__ = ["PushConfigs"]

_MAX_PER_TASK = 100
"""Each event is delivered once for each: a bound on what one event costs (the Java SDK has the same)."""

_DEFAULT_PAGE_SIZE = 50
_MAX_PAGE_SIZE = 100


@final
class PushConfigs:
    """Keeps a server's push configurations; its caller has checked that the task is the principal's.

    Args:
        store: Where they are kept; None: the agent does not push, and everything is refused.
        tokens: Makes page tokens.
        echo_secrets: Whether reading a config shows its token and credentials (ambiguity A-24).
    """

    def __init__(self, store: PushConfigStore | None, tokens: PageTokens, *, echo_secrets: bool) -> None:
        self._store = store
        self._tokens = tokens
        self._echo_secrets = echo_secrets
        self._on_their_way: Counter[str] = Counter()

    def require(self) -> PushConfigStore:
        """Return the store.

        Raises:
            PushNotificationNotSupportedError: The agent does not push.
        """
        if self._store is None:
            raise PushNotificationNotSupportedError
        return self._store

    async def create(self, config: TaskPushNotificationConfig, owner: str) -> TaskPushNotificationConfig:
        """Store a config, with a new id if it has none; the same id again replaces.

        Raises:
            InvalidParamsError: It cannot be used, or the task has too many.
        """
        store = self.require()
        check(config, "")
        if not config.id:
            config = attrs.evolve(config, id=new_id())
        with self._arriving(config.task_id) as others:
            known = {one.id for one in await store.list(config.task_id, limit=_MAX_PER_TASK)}
            if len(known) + others >= _MAX_PER_TASK and config.id not in known:
                raise _invalid("taskId", f"The task has {_MAX_PER_TASK} push notification configs, which is the most")
            await store.put(config, owner=owner)
        return config

    @contextmanager
    def _arriving(self, task_id: str) -> Iterator[int]:
        """Count the configs that are on their way into the store; gives how many others of the task are."""
        others = self._on_their_way[task_id]
        self._on_their_way[task_id] += 1
        try:
            yield others
        finally:
            self._on_their_way[task_id] -= 1
            if not self._on_their_way[task_id]:
                del self._on_their_way[task_id]

    async def get(self, request: GetTaskPushNotificationConfigRequest) -> TaskPushNotificationConfig:
        """Return a config.

        Raises:
            TaskNotFoundError: There is none with this id; that is the error which the specification names.
        """
        config = await self.require().get(request.task_id, request.id)
        if config is None:
            raise TaskNotFoundError(
                "Push notification config not found", metadata={"taskId": request.task_id, "configId": request.id}
            )
        return self._shown(config)

    async def list(
        self, request: ListTaskPushNotificationConfigsRequest, owner: str
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return a page of a task's configs.

        Raises:
            InvalidParamsError: The page size or the page token is wrong.
        """
        store = self.require()
        if not 0 <= request.page_size <= _MAX_PAGE_SIZE:
            raise _invalid("pageSize", f"Must be between 1 and {_MAX_PAGE_SIZE}, or 0 for the default")
        size = request.page_size or _DEFAULT_PAGE_SIZE
        scope = ("push", owner, request.task_id)
        after = self._tokens.read(request.page_token, scope)[1] if request.page_token else ""
        found = await store.list(request.task_id, after=after, limit=size + 1)
        page = found[:size]
        more = len(found) > size
        return ListTaskPushNotificationConfigsResponse(
            configs=tuple(self._shown(config) for config in page),
            next_page_token=self._tokens.make((None, page[-1].id), scope) if more else "",
        )

    async def delete(self, request: DeleteTaskPushNotificationConfigRequest) -> None:
        """Remove a config; an unknown one is no error (ambiguity A-13)."""
        await self.require().delete(request.task_id, request.id)

    async def forget(self, task_id: str) -> None:
        """Remove the configs of a task that was never made."""
        await self.require().delete(task_id)

    def _shown(self, config: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Return the config as it is read back."""
        if self._echo_secrets:
            return config
        authentication = config.authentication
        if authentication is not None:
            authentication = attrs.evolve(authentication, credentials="")
        return attrs.evolve(config, token="", authentication=authentication)


def check(config: TaskPushNotificationConfig, path: str) -> None:
    """Check that a config can be used: an absolute web address, and nothing that could forge a header.

    Args:
        config: The config.
        path: Where it stands in the request, with a dot at the end; "" for the request itself.

    Raises:
        InvalidParamsError: With every fault.
    """
    faults = []
    if not _is_web_address(config.url):
        faults.append(FieldViolation(f"{path}url", "Must be an absolute http or https URL without credentials"))
    if not _is_header_safe(config.token):
        faults.append(FieldViolation(f"{path}token", "Must not contain control characters"))
    authentication = config.authentication
    if authentication is not None:
        if not authentication.scheme or not _is_header_safe(authentication.scheme):
            faults.append(FieldViolation(f"{path}authentication.scheme", "Must be the name of an HTTP scheme"))
        if not _is_header_safe(authentication.credentials):
            faults.append(FieldViolation(f"{path}authentication.credentials", "Must not contain control characters"))
    if faults:
        raise InvalidParamsError(violations=faults)


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return (
        parts.scheme in {"http", "https"}
        and bool(parts.hostname)
        and parts.username is None
        and parts.password is None
        and port != 0
        and url.isprintable()
        and " " not in url
    )


def _is_header_safe(text: str) -> bool:
    return all(character >= " " and character != "\x7f" for character in text)


def _invalid(field: str, description: str) -> InvalidParamsError:
    return InvalidParamsError(violations=(FieldViolation(field, description),))
