"""``trio-a2a send``: a message, and what comes of it."""

import math
from typing import final

import attrs
import trio

from ..client import Client, EventStream
from ..types import Message, Part, SendMessageResponse, Task
from .interruption import after_interrupt
from .outcome import conclude
from .output import Output
from .progress import follow, open_display
from .render import parts_text, task_lines
from .saving import make_directory
from .session import Session

__all__ = ["Sending", "send_message"]

_PACE = 1.0
"""Seconds between two looks at a task that cannot be streamed: an agent of this kind takes seconds to minutes."""


@final
@attrs.frozen(kw_only=True)
class Sending:
    """What is sent, and how.

    Attributes:
        url: The agent.
        parts: The content of the message.
        task_id: The task that it continues.
        context_id: The conversation that it belongs to.
        stream: Stream what happens; None: if the agent can.
        no_wait: Return as soon as there is a task.
        save: The directory for the artifacts.
        cancel_on_interrupt: Let an interruption cancel the task.
    """

    url: str
    parts: tuple[Part, ...]
    task_id: str | None = None
    context_id: str | None = None
    stream: bool | None = None
    no_wait: bool = False
    save: str | None = None
    cancel_on_interrupt: bool = False


async def send_message(session: Session, *, sending: Sending) -> int:
    """Send the message, show what comes of it, and return the exit status.

    Raises:
        A2AError: The agent refuses.
        ClientError: The call failed.
        CommandError: A file cannot be written.
    """
    make_directory(sending.save)
    async with session.open_client(sending.url) as client:
        wanted = sending.stream if sending.stream is not None else client.card.capabilities.streaming
        if wanted and not sending.no_wait:
            return await _streamed(session, client, sending)
        return await _sent(session, client, sending)


async def _streamed(session: Session, client: Client, sending: Sending) -> int:
    events: EventStream | None = None
    with session.interrupts.scope() as scope:
        async with client.stream(
            sending.parts,
            task_id=sending.task_id,
            context_id=sending.context_id,
            timeout=session.connection.timeout,
        ) as events:
            with open_display(session.output) as display:
                await follow(events, display)
    task = None if events is None else events.task
    if scope.interrupted:
        task_id = sending.task_id if task is None else task.id
        return await after_interrupt(client, sending.url, task_id, session.output, cancel=sending.cancel_on_interrupt)
    result = None if events is None else events.message or events.task
    return conclude(result, url=sending.url, save=sending.save, output=session.output)


async def _sent(session: Session, client: Client, sending: Sending) -> int:
    # Only the answer names the task, so who may want to cancel it asks for the answer at once, and then looks again.
    at_once = sending.no_wait or sending.cancel_on_interrupt
    # It waits for the agent, which takes as long as it takes.
    timeout = session.connection.timeout if session.connection.timeout or at_once else math.inf
    result: Task | Message | None = None
    with session.interrupts.scope() as scope:
        result = await client.send(
            sending.parts,
            task_id=sending.task_id,
            context_id=sending.context_id,
            return_immediately=at_once,
            timeout=timeout,
        )
        while not sending.no_wait and isinstance(result, Task) and not _is_settled(result):
            await trio.sleep(_PACE)
            result = await client.get_task(result.id)
    if scope.interrupted:
        task_id = result.id if isinstance(result, Task) else sending.task_id
        return await after_interrupt(client, sending.url, task_id, session.output, cancel=sending.cancel_on_interrupt)
    if result is not None:
        _show(result, session.output)
    if sending.no_wait and isinstance(result, Task):
        return 0
    return conclude(result, url=sending.url, save=sending.save, output=session.output)


def _is_settled(task: Task) -> bool:
    return task.status.state.is_final or task.status.state.is_interrupted


def _show(result: Task | Message, output: Output) -> None:
    if output.as_json:
        output.value(SendMessageResponse.of(result))
    elif isinstance(result, Message):
        output.line(parts_text(result.parts))
    else:
        for line in task_lines(result):
            output.line(line)
