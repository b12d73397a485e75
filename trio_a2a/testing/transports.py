"""The suite for transports of the client: for a program that carries calls in a binding of its own."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import trio

from ..client import ClientCall, ClientTransport, EventSource, ReceivedEvent
from ..errors import A2AError, TaskNotFoundError
from ..types import (
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SendMessageResponse,
    SubscribeToTaskRequest,
    Task,
    TaskStatusUpdateEvent,
)

__all__ = ["check_client_transport"]

_AT_ONCE = 5
_UNKNOWN = "unknown-task-of-the-suite"


async def check_client_transport(
    open_transport: Callable[[], AbstractAsyncContextManager[ClientTransport]],
    *,
    message: str = "hello",
    timeout: float = 60.0,
) -> None:
    """Check that a transport meets the obligations of `ClientTransport`, and its streams those of `EventSource`.

    Args:
        open_transport: Returns an async context manager whose value is a transport to a running agent that streams,
            and that answers ``message`` with a task which it ends after at least one more report.
        message: That message.
        timeout: Seconds that a call, or a stream, may take.

    Raises:
        AssertionError: The transport breaks an obligation; the text says which.
    """
    for check in (_calls, _refusals, _calls_at_once, _whole_streams, _streams_that_are_left):
        over = False
        async with open_transport() as transport:
            with trio.move_on_after(timeout):
                await check(transport, message)
                over = True
        assert over, f"a call or a stream did not end within {timeout} s"


def _send(message: str) -> ClientCall:
    return ClientCall(operation="SendMessage", request=SendMessageRequest(message=Message.user(message)))


def _stream(message: str) -> ClientCall:
    return ClientCall(operation="SendStreamingMessage", request=SendMessageRequest(message=Message.user(message)))


def _get(task_id: str) -> ClientCall:
    return ClientCall(operation="GetTask", request=GetTaskRequest(id=task_id))


async def _task(transport: ClientTransport, message: str) -> Task:
    answer = await transport.call(_send(message))
    assert isinstance(answer, SendMessageResponse), "call() of SendMessage returns a SendMessageResponse"
    assert answer.task is not None, "the suite's agent answers with a task"
    return answer.task


async def _calls(transport: ClientTransport, message: str) -> None:
    assert isinstance(transport.binding, str), "binding is a name"
    assert transport.binding, "binding is a name"
    task = await _task(transport, message)
    assert await transport.call(_get(task.id)) == task, "call() of GetTask returns the Task"
    listed = await transport.call(ClientCall(operation="ListTasks", request=ListTasksRequest()))
    assert isinstance(listed, ListTasksResponse), "call() of ListTasks returns a ListTasksResponse"


async def _refusals(transport: ClientTransport, message: str) -> None:
    subscribe = ClientCall(operation="SubscribeToTask", request=SubscribeToTaskRequest(id=_UNKNOWN))
    attempts: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("call", lambda: transport.call(_get(_UNKNOWN))),
        ("open", lambda: transport.open(subscribe)),
    ]
    for name, attempt in attempts:
        try:
            await attempt()
        except TaskNotFoundError:
            pass
        except A2AError as exc:
            raise AssertionError(f"{name}() raises what the agent said, TaskNotFoundError, not {exc!r}") from exc
        except Exception as exc:
            raise AssertionError(f"{name}() raises an agent's refusal as an A2AError, not {exc!r}") from exc
        else:
            raise AssertionError(f"{name}() raises an agent's refusal")
    await _task(transport, message)


async def _calls_at_once(transport: ClientTransport, message: str) -> None:
    tasks = [await _task(transport, message) for _ in range(_AT_ONCE)]
    got: dict[str, object] = {}

    async def get(task: Task) -> None:
        got[task.id] = await transport.call(_get(task.id))

    async with trio.open_nursery() as nursery:
        for task in tasks:
            nursery.start_soon(get, task)
    assert got == {task.id: task for task in tasks}, "of several calls at a time each gets its own answer"


async def _rest(source: EventSource) -> list[ReceivedEvent]:
    events: list[ReceivedEvent] = []
    while True:
        try:
            received = await source.receive()
        except trio.EndOfChannel:
            return events
        assert isinstance(received, ReceivedEvent), "receive() returns a ReceivedEvent"
        events.append(received)


async def _is_cancelled(source: EventSource) -> bool:
    """Receive what is there already, and be cancelled while waiting for more."""
    while True:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await source.receive()
            except trio.EndOfChannel:
                return False
        if scope.cancelled_caught:
            return True


async def _whole_streams(transport: ClientTransport, message: str) -> None:
    source = await transport.open(_stream(message))
    events = await _rest(source)
    await source.aclose()
    await source.aclose()
    assert len(events) > 1, "a stream has all events of its task"
    first, last = events[0].event, events[-1].event
    assert isinstance(first, Task), "a stream begins with the Task"
    assert isinstance(last, TaskStatusUpdateEvent), "a stream ends behind the task's last event"
    assert last.status.state.is_final, "a stream ends behind the task's last event"
    numbers = [received.sequence for received in events]
    assert all(number == 0 for number in numbers) or numbers == sorted(set(numbers)), (
        "numbers of events rise, or are 0 where there are none"
    )


async def _streams_that_are_left(transport: ClientTransport, message: str) -> None:
    left = await transport.open(_stream(message))
    await left.receive()
    await left.aclose()
    cancelled = await transport.open(_stream(message))
    assert await _is_cancelled(cancelled), "receive() can be cancelled where it waits"
    await cancelled.aclose()
    one, other = await transport.open(_stream(message)), await transport.open(_stream(message))
    seen_other, seen_one = await _rest(other), await _rest(one)
    await one.aclose()
    await other.aclose()
    ids = {received.event.id for received in (seen_one[0], seen_other[0]) if isinstance(received.event, Task)}
    assert len(ids) == 2, "of several streams at a time each has its own events"
    await _task(transport, message)
