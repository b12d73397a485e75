"""One harmless message, and what can be seen of the task that comes of it: its stream, its snapshot, its webhooks."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, final
from uuid import uuid4

import attrs
import trio

from ...client.http import HttpStream
from ...errors import (
    A2AError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from ...types import (
    AgentCard,
    ListTaskPushNotificationConfigsResponse,
    Message,
    SendMessageResponse,
    Task,
    TaskPushNotificationConfig,
    TaskStatusUpdateEvent,
)
from .bindings import JsonRpcBinding, RestBinding
from .expectations import expect_error, expect_result
from .report import Report
from .stream_reading import Recording, record

__all__ = ["TEXT", "Sent", "check_cancel", "check_push", "check_stream", "check_task", "send_test"]

TEXT: Final = "This is a test message of `trio-a2a doctor`; please ignore it."

_WEBHOOK: Final = "https://example.com/trio-a2a-doctor"
"""Nothing is posted to it unless the agent has something to say between two checks; the name belongs to nobody."""

_TIDYING: Final = 5.0
"""Seconds for removing the webhook, also when the examination is interrupted."""

_LONG_SILENCE: Final = 30.0
"""Seconds after which proxies begin to drop a connection."""


@final
@attrs.frozen(kw_only=True)
class Sent:
    """What came of the message.

    Attributes:
        task_id: The task; None for a direct reply, or where nothing came.
        running: The task was at work when it was last seen.
    """

    task_id: str | None = None
    running: bool = False


async def send_test(
    binding: JsonRpcBinding | RestBinding, report: Report, area: str, card: AgentCard, *, seconds: float
) -> Sent:
    """Send the message, and judge what comes of it.

    Args:
        binding: Where it is sent to.
        report: Where findings go.
        area: What they are filed under.
        card: The agent's card.
        seconds: How long to watch the stream.

    Raises:
        ClientError: There is no answer.
    """
    members = {"message": {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": TEXT}]}}
    if not card.capabilities.streaming:
        reply = await binding.ask("SendMessage", {**members, "configuration": {"returnImmediately": True}})
        response = expect_result(report, area, "message", reply, SendMessageResponse)
        if response is None or not isinstance(response.value, Task):
            return Sent()
        state = response.value.status.state
        return Sent(task_id=response.value.id, running=not state.is_final and not state.is_interrupted)
    async with binding.open("SendStreamingMessage", members) as answer:
        if not isinstance(answer, HttpStream):
            report.error(area, "message", f"streaming is declared, but a message gets no stream: {answer}")
            return Sent()
        recording = await record(answer, binding, seconds=seconds)
    judge_stream(report, area, recording, seconds)
    return Sent(task_id=recording.task_id, running=not recording.is_settled)


def judge_stream(report: Report, area: str, recording: Recording, seconds: float) -> None:
    """Say what there is to say about the stream that answers a message."""
    for fault in recording.faults[:5]:
        report.error(area, "event", fault)
    if len(recording.faults) > 5:
        report.error(area, "event", f"and {len(recording.faults) - 5} more like it")
    if recording.broken:
        report.error(area, "stream", recording.broken)
    if not recording.events:
        report.error(area, "stream", f"no event in {seconds:g} seconds" if not recording.ended else "it has no events")
        return
    first = recording.events[0][0]
    if isinstance(first, Task | Message):
        report.ok(area, "first event", f"a {type(first).__name__}")
    else:
        report.error(area, "first event", f"a {type(first).__name__}: a stream begins with the Task, or is a Message")
    _judge_order(report, area, recording)
    _judge_numbers(report, area, [id_ for _, id_ in recording.events])
    _judge_end(report, area, recording, seconds)
    judge_keep_alive(report, area, recording)


def _judge_order(report: Report, area: str, recording: Recording) -> None:
    events = [event for event, _ in recording.events]
    ids = {event.id if isinstance(event, Task) else event.task_id for event in events if not isinstance(event, Message)}
    messages = sum(isinstance(event, Message) for event in events)
    ends = [
        number
        for number, event in enumerate(events)
        if isinstance(event, Task | TaskStatusUpdateEvent) and event.status.state.is_final
    ]
    if len(ids) > 1:
        report.error(area, "order of events", f"events of {len(ids)} tasks on one stream")
    elif messages and len(events) > 1:
        report.error(area, "order of events", "a Message is a whole answer: it is the only event of its stream")
    elif ends and ends[0] != len(events) - 1:
        report.error(area, "order of events", f"{len(events) - 1 - ends[0]} events behind the end of the task")
    else:
        report.ok(area, "order of events", f"{len(events)} events of one {'reply' if messages else 'task'}")


def _judge_numbers(report: Report, area: str, ids: Sequence[str | None]) -> None:
    numbers = [int(id_) for id_ in ids if id_ is not None and id_.isascii() and id_.isdigit() and len(id_) < 19]
    check = "numbers of events"
    if any(after <= before for before, after in pairwise(numbers)):
        report.error(area, check, f"they do not increase: {', '.join(map(str, numbers[:10]))}")
    elif numbers:
        report.ok(area, check, f"{numbers[0]} to {numbers[-1]}, increasing")
    else:
        report.info(area, check, "events have none: a stream that breaks is resumed with a snapshot")


def _judge_end(report: Report, area: str, recording: Recording, seconds: float) -> None:
    check = "end of the stream"
    if recording.ended and recording.is_settled:
        report.ok(area, check, "with the end of the task, of the turn, or the reply")
    elif recording.ended:
        report.error(area, check, "the stream has ended while the task is at work")
    elif recording.is_settled:
        report.warning(area, check, f"the task has settled, but the stream is open after {seconds:g} seconds")
    else:
        report.info(area, check, f"the agent is still at work after {seconds:g} seconds")


def judge_keep_alive(report: Report, area: str, recording: Recording) -> None:
    """Say whether a silent stream shows that it is alive."""
    check = "keep-alive"
    if recording.commented:
        report.ok(area, check, "comments are sent while the agent is silent")
    elif recording.silence >= _LONG_SILENCE:
        report.warning(area, check, f"nothing for {recording.silence:.0f} seconds: proxies drop such a connection")
    else:
        report.info(area, check, f"not observed: the longest silence was {recording.silence:.1f} seconds")


async def check_task(binding: Any, report: Report, area: str, sent: Sent) -> None:
    """Check that the interface knows the task.

    Raises:
        ClientError: There is no answer.
    """
    reply = await binding.ask("GetTask", {"id": sent.task_id})
    task = expect_result(report, area, "the task", reply, Task)
    if task is not None and task.id != sent.task_id:
        report.error(area, "the task", f"asked for {sent.task_id!r}, got {task.id!r}")


async def check_stream(binding: Any, report: Report, area: str, sent: Sent, *, seconds: float) -> None:
    """Check a subscription: a snapshot first while the task is live, an error once it is over.

    Raises:
        ClientError: There is no answer.
    """
    check = "subscription"
    async with binding.open("SubscribeToTask", {"id": sent.task_id}) as answer:
        if isinstance(answer, HttpStream):
            recording = await record(answer, binding, seconds=min(seconds, 5.0), most=1)
            if not recording.events:
                report.error(area, check, f"no snapshot: {', '.join(recording.faults) or 'nothing came'}")
            elif isinstance(recording.events[0][0], Task):
                report.ok(area, check, "it begins with the task as it is")
            else:
                kind = type(recording.events[0][0]).__name__
                report.error(area, check, f"it begins with a {kind}, not with the task as it is")
            return
    if sent.running:
        report.error(area, check, f"the task is at work, but: {answer}")
    else:
        expect_error(
            report, area, "subscription to a task that is over", answer, UnsupportedOperationError, severe=False
        )


async def check_cancel(binding: Any, report: Report, area: str, sent: Sent) -> None:
    """Cancel the task: the message leaves nothing behind that is at work; one that is over cannot be cancelled.

    Raises:
        ClientError: There is no answer.
    """
    reply = await binding.ask("CancelTask", {"id": sent.task_id})
    if not sent.running:
        accepted: tuple[type[A2AError], ...] = (TaskNotCancelableError, UnsupportedOperationError)
        if reply.result is not None:
            report.info(area, "cancel", "a task that waits, or is over, can be cancelled")
        else:
            expect_error(report, area, "cancel a task that is over", reply, *accepted, severe=False)
    elif reply.result is not None:
        expect_result(report, area, "cancel", reply, Task)
    else:
        report.info(area, "cancel", f"the agent goes on with the test message: {reply}")


async def check_push(binding: Any, report: Report, area: str, sent: Sent) -> None:
    """Register a webhook for the task, find it, and remove it.

    Raises:
        ClientError: There is no answer.
    """
    members = {"taskId": sent.task_id, "url": _WEBHOOK, "id": "trio-a2a-doctor"}
    check = "webhook"
    reply = await binding.ask("CreateTaskPushNotificationConfig", members)
    if reply.result is None:
        report.warning(area, check, f"it is not taken: {reply}")
        return
    made = expect_result(report, area, f"{check}: added", reply, TaskPushNotificationConfig)
    if made is None:
        return
    key = {"taskId": sent.task_id, "id": made.id}
    try:
        listed = expect_result(
            report,
            area,
            f"{check}: listed",
            await binding.ask("ListTaskPushNotificationConfigs", {"taskId": sent.task_id}),
            ListTaskPushNotificationConfigsResponse,
        )
        if listed is not None and made.id not in {config.id for config in listed.configs}:
            report.error(area, f"{check}: listed", "it is not in the list")
        got = await binding.ask("GetTaskPushNotificationConfig", key)
        expect_result(report, area, f"{check}: got", got, TaskPushNotificationConfig)
    finally:
        removed = None
        with trio.move_on_after(_TIDYING, shield=True):
            removed = await binding.ask("DeleteTaskPushNotificationConfig", key)
    if removed is None or removed.is_error:
        report.error(area, f"{check}: removed", f"it stays: {removed or 'no answer'}")
        return
    gone = await binding.ask("GetTaskPushNotificationConfig", key)
    expect_error(report, area, f"{check}: removed", gone, TaskNotFoundError)
