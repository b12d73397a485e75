"""Who is calling, and what every operation asks first: whose task is it, and is there room for one more stream."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import attrs

from ..abc import Principal, StoredTask
from ..agents.context import ANONYMOUS
from ..errors import (
    FieldViolation,
    InvalidParamsError,
    RateLimitedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from ..streams import QueueManager
from ..types import AgentCard, AgentInterface, Message, Task
from .limits import Limits

__all__ = [
    "Call",
    "StreamSlots",
    "cut",
    "find_task",
    "invalid",
    "require_streaming",
    "terminal_metadata",
    "too_many_queued",
    "with_history",
]

_RETRY_AFTER = 1.0
"""Seconds after which a refused stream or message may find room: streams and runs end all the time."""


@attrs.frozen(kw_only=True)
class Call:
    """Who is calling, and how.

    Attributes:
        principal: The caller.
        extensions: URIs of the extensions that the caller activated and the agent has.
        interfaces: The interfaces that the agent is reached under, for cards that name none.
    """

    principal: Principal = ANONYMOUS
    extensions: tuple[str, ...] = ()
    interfaces: tuple[AgentInterface, ...] = ()


async def find_task(manager: QueueManager, task_id: str, call: Call) -> StoredTask:
    """Return the caller's task.

    Raises:
        TaskNotFoundError: It does not exist, or is somebody else's: the answer is the same.
    """
    stored = await manager.store.get(task_id)
    if stored is None or stored.owner != call.principal.id:
        raise TaskNotFoundError(metadata={"taskId": task_id})
    return stored


@final
class StreamSlots:
    """Counts the open streams of tasks and of principals.

    Args:
        limits: How many there may be.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._of_task: Counter[str] = Counter()
        self._of_principal: Counter[str] = Counter()

    @contextmanager
    def taken(self, task_id: str, principal: Principal) -> Iterator[None]:
        """Hold a place for the length of a block.

        Args:
            task_id: The task, which may be one that is only being made.
            principal: The caller; the anonymous one is everybody, and has no bound of its own.

        Raises:
            RateLimitedError: There is none.
        """
        limits = self._limits
        if self._of_task[task_id] >= limits.streams_per_task:
            raise RateLimitedError("The task has too many open streams", retry_after=_RETRY_AFTER)
        if principal.id and self._of_principal[principal.id] >= limits.streams_per_principal:
            raise RateLimitedError("There are too many open streams", retry_after=_RETRY_AFTER)
        counted = ((self._of_principal, principal.id), (self._of_task, task_id))
        for counter, key in counted:
            counter[key] += 1
        try:
            yield
        finally:
            for counter, key in counted:
                counter[key] -= 1
                if not counter[key]:
                    del counter[key]


def require_streaming(card: AgentCard) -> None:
    """Refuse a streaming call of an agent that does not stream; bindings ask before they look at the parameters.

    Raises:
        UnsupportedOperationError: It does not.
    """
    if not card.capabilities.streaming:
        raise UnsupportedOperationError("Streaming is not supported")


def too_many_queued() -> RateLimitedError:
    """Return the refusal of a message to a task that has enough of them waiting."""
    return RateLimitedError("The task has too many messages waiting", retry_after=_RETRY_AFTER)


def invalid(field: str, description: str) -> InvalidParamsError:
    """Return the error for one faulty member of a request."""
    return InvalidParamsError(violations=(FieldViolation(field, description),))


def terminal_metadata(task: Task) -> dict[str, str]:
    """Return what an error says of a task that is over."""
    return {"taskId": task.id, "state": task.status.state.value}


def cut(task: Task, history_length: int | None) -> Task:
    """Return the task with its newest ``history_length`` messages; None: all of them."""
    if history_length is None or len(task.history) <= history_length:
        return task
    return attrs.evolve(task, history=task.history[len(task.history) - history_length :])


def with_history(outcome: Task | Message, history_length: int | None) -> Task | Message:
    """Return an outcome with its history cut; a message has none."""
    return cut(outcome, history_length) if isinstance(outcome, Task) else outcome
