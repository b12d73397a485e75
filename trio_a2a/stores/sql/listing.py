"""Listing: pages by keyset, every filter in SQL.

A page begins behind a position, a pair of status time and id. It is read in two steps, each one range of an index in
its order: the rest of the tasks with the same status time, then the later positions. (One condition for both,
``(position, task_id) > (?, ?)``, is a range for some databases and a scan for others.)
"""

from datetime import datetime
from typing import Any

import attrs
from sqlalchemy import ColumnElement, Connection, Row, func, select

from ...types import ListTasksRequest, Task, TaskState
from .reading import tasks_of, whole_rows
from .rows import context_key, is_key, position_of
from .schema import tasks, to_micros

__all__ = ["Filters", "filters_of", "read_page"]


@attrs.frozen(kw_only=True)
class Filters:
    """Whose tasks are listed, and which. Hashable: totals are remembered by it."""

    owner: str
    tenant: str
    context_key: str | None
    state: str | None
    # Only positions up to this one: status times from an instant on.
    until: int | None

    @property
    def can_match(self) -> bool:
        """False if no stored task can have the owner or the tenant."""
        return is_key(self.owner) and is_key(self.tenant)

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions of a WHERE."""
        found: list[ColumnElement[bool]] = [tasks.c.owner == self.owner]
        if self.tenant:
            found.append(tasks.c.tenant == self.tenant)
        if self.context_key is not None:
            found.append(tasks.c.context_key == self.context_key)
        if self.state is not None:
            found.append(tasks.c.state == self.state)
        if self.until is not None:
            found.append(tasks.c.position <= self.until)
        return found


def filters_of(query: ListTasksRequest, owner: str) -> Filters:
    """Return the filters of a request."""
    since = query.status_timestamp_after
    return Filters(
        owner=owner,
        tenant=query.tenant,
        context_key=context_key(query.context_id) if query.context_id else None,
        state=None if query.status is TaskState.UNSPECIFIED else query.status.name,
        until=None if since is None else -to_micros(since),
    )


def read_page(
    connection: Connection,
    filters: Filters,
    *,
    size: int,
    after: tuple[datetime | None, str] | None,
    counted: bool,
) -> tuple[list[Task], int | None]:
    """Return a page, and how many tasks match in all.

    Args:
        connection: The database.
        filters: Which tasks.
        size: How many at most.
        after: Status time and id of the last task of the page before.
        counted: The number is known already; None takes its place.

    Raises:
        TaskSerializationError: A task of the page cannot be read.
    """
    conditions = filters.conditions()
    page = whole_rows().where(*conditions).order_by(tasks.c.position, tasks.c.task_id)
    rows: list[Row[Any]] = []
    if after is None:
        rows += connection.execute(page.limit(size))
    else:
        position = position_of(after[0])
        if is_key(after[1]):
            rows += connection.execute(page.where(tasks.c.position == position, tasks.c.task_id > after[1]).limit(size))
        if len(rows) < size:
            rows += connection.execute(page.where(tasks.c.position > position).limit(size - len(rows)))
    total = None if counted else connection.scalar(select(func.count()).select_from(tasks).where(*conditions))
    return tasks_of(connection, rows), total
