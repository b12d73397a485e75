"""ListTasks as an asynchronous iterator."""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Self, final

import attrs

from ..types import ListTasksRequest, ListTasksResponse, Task
from .exceptions import InvalidResponseError

__all__ = ["MAX_EMPTY_PAGES", "TaskList", "TaskPages"]

MAX_EMPTY_PAGES: Final = 1000
"""Pages in a row without a task: a server may filter page by page, but not for ever."""

Fetch = Callable[[ListTasksRequest], Awaitable[ListTasksResponse]]


@final
class TaskPages:
    """The pages of a list, one call each: ``async for page in client.list_tasks().pages()``."""

    def __init__(self, fetch: Fetch, request: ListTasksRequest) -> None:
        self._fetch = fetch
        self._request: ListTasksRequest | None = request
        # A list that leads back to a page before has no end. One of its pages is remembered, each time for twice as
        # long (Brent), so a circle of any length is found, and a long list costs nothing.
        self._remembered = request.page_token
        self._for, self._since = 1, 0
        self._empty = 0  # pages in a row without a task

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ListTasksResponse:
        """Fetch the next page.

        Raises:
            StopAsyncIteration: There is none.
            A2AError: The agent refuses.
            ClientError: The call failed.

        Cancellation: the same page is fetched the next time.
        """
        if self._request is None:
            raise StopAsyncIteration
        page = await self._fetch(self._request)
        token = page.next_page_token
        if token and token in {self._request.page_token, self._remembered}:
            raise InvalidResponseError("the list does not end: a page names itself, or one before, as the next one")
        self._empty = 0 if page.tasks else self._empty + 1
        if token and self._empty >= MAX_EMPTY_PAGES:
            raise InvalidResponseError(f"the list does not end: {MAX_EMPTY_PAGES} pages in a row are empty")
        self._since += 1
        if self._since == self._for:
            self._remembered, self._for, self._since = token, 2 * self._for, 0
        self._request = attrs.evolve(self._request, page_token=token) if token else None
        return page


@final
class TaskList:
    """The tasks that fit a filter: ``async for task in client.list_tasks()``. Pages are fetched when they are needed.

    Attributes:
        total_size: How many tasks fit, by the last page that was fetched; None before the first.
    """

    total_size: int | None

    def __init__(self, fetch: Fetch, request: ListTasksRequest) -> None:
        self.total_size = None
        self._fetch = fetch
        self._request = request
        self._pages = self.pages()
        self._tasks: deque[Task] = deque()

    def pages(self) -> TaskPages:
        """Return the pages, from the first on; this does not change what the list itself goes on with."""
        return TaskPages(self._fetched, self._request)

    async def _fetched(self, request: ListTasksRequest) -> ListTasksResponse:
        page = await self._fetch(request)
        self.total_size = page.total_size
        return page

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Task:
        """Return the next task, from the page at hand or after fetching the next one.

        Raises:
            StopAsyncIteration: There is none.
            A2AError: The agent refuses.
            ClientError: The call failed.
        """
        while not self._tasks:
            self._tasks.extend((await anext(self._pages)).tasks)
        return self._tasks.popleft()
