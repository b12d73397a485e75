"""Handing messages to the agent: `SendMessage` and `SendStreamingMessage` (protocol sections 5.1 and 5.2)."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import final

import attrs
import trio

from ..abc import StoredTask
from ..agents.context import RequestContext
from ..agents.runner import Run, TaskRuns, start_run
from ..errors import ContentTypeNotSupportedError, StoreError, TaskNotFoundError, UnsupportedOperationError
from ..streams import MainQueue, QueueManager
from ..types import (
    Message,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
)
from ..types.identifier import new_id
from .agent import Agent
from .call import (
    Call,
    StreamSlots,
    find_task,
    invalid,
    require_streaming,
    terminal_metadata,
    too_many_queued,
    with_history,
)
from .push_configs import PushConfigs, check
from .task_stream import TaskStream

__all__ = ["Sending"]

_logger = logging.getLogger("trio_a2a.server")

_DEFAULTS = SendMessageConfiguration()

_FORGET_SECONDS = 5.0
"""How long removing the push configuration of a task that was not made may take when its caller is gone."""


@final
class Sending:
    """Takes messages.

    Args:
        agent: The agent.
        manager: The queues of its tasks.
        push: Its push configurations, for one that comes with a message.
        slots: The places for streams.
    """

    def __init__(self, agent: Agent, manager: QueueManager, push: PushConfigs, slots: StreamSlots) -> None:
        self._agent = agent
        self._manager = manager
        self._push = push
        self._slots = slots
        self._input_modes = _input_modes(agent)

    async def send_message(self, request: SendMessageRequest, call: Call) -> Task | Message:
        """Hand a message to the agent, and return the outcome.

        Blocks until this message's run reports a terminal or interrupted state, replies, or ends; with
        ``return_immediately`` only until its first report, at most ``Limits.first_event_timeout``.

        Raises:
            A2AError: The message was refused.

        Cancellation: a checkpoint; the run goes on.
        """
        stored = await self._check(request, call)
        run = await self._start(request, stored, _task_id(stored), call)
        configuration = request.configuration or _DEFAULTS
        if configuration.return_immediately:
            outcome = await self._first_outcome(run)
        else:
            await run.settled.wait()
            outcome = run.answer()
        return with_history(outcome, configuration.history_length)

    async def _first_outcome(self, run: Run) -> Task | Message:
        with trio.move_on_after(self._agent.limits.first_event_timeout):
            await run.first.wait()
        if not run.first.is_set() and run.queue._processor.state is None:
            await run.turn.wait()
            await run.promise_task()
        if run.ended.is_set() or run.reply is not None:
            return run.answer()
        state = run.queue._processor.state
        if state is None:
            await run.settled.wait()
            return run.answer()
        return state.task()

    @asynccontextmanager
    async def send_streaming_message(self, request: SendMessageRequest, call: Call) -> AsyncIterator[TaskStream]:
        """Hand a message to the agent, and stream what comes of it.

        Raises:
            A2AError: The message was refused; or later, from the stream.

        Cancellation: the stream is closed; the run goes on.
        """
        require_streaming(self._agent.card)
        stored = await self._check(request, call)
        task_id = _task_id(stored)
        configuration = request.configuration or _DEFAULTS
        with self._slots.taken(task_id, call.principal), trio.CancelScope() as scope:
            run = await self._start(request, stored, task_id, call, scope)
            try:
                yield TaskStream(run=run, history_length=configuration.history_length)
            finally:
                await run.leave_stream()

    # ------------------------------------------------------------------------------------------------------ starting

    async def _start(
        self,
        request: SendMessageRequest,
        stored: StoredTask | None,
        task_id: str,
        call: Call,
        stream_scope: trio.CancelScope | None = None,
    ) -> Run:
        message = request.message
        configuration = request.configuration or _DEFAULTS
        context_id = (message.context_id if stored is None else stored.task.context_id) or new_id()
        message = attrs.evolve(message, task_id=task_id, context_id=context_id)

        async def context(task: Task | None) -> RequestContext:
            return RequestContext(
                message=message,
                task=task,
                task_id=task_id,
                context_id=context_id,
                configuration=configuration,
                metadata=request.metadata or {},
                extensions=call.extensions,
                tenant=request.tenant,
                principal=call.principal,
                related_tasks=await self._related(message.reference_task_ids, call),
            )

        queue = await self._manager._open(task_id, new=stored is None, owner=call.principal.id, tenant=request.tenant)
        try:
            config = configuration.task_push_notification_config
            if config is None:
                self._require_place(TaskRuns.of(queue))
                return start_run(queue, self._agent.executor, context, stream_scope=stream_scope)
            with self._place_in_line(queue):
                forget = None if stored is not None else _Forget(self._push, task_id)
                try:
                    # Before the agent begins: a webhook hears of everything that this message brings about.
                    await self._push.create(attrs.evolve(config, task_id=task_id), call.principal.id)
                    return start_run(queue, self._agent.executor, context, stream_scope=stream_scope, unmade=forget)
                except BaseException:
                    # The caller went away, or the server is ending: nobody else would know of the config.
                    with trio.move_on_after(_FORGET_SECONDS, shield=True), suppress(StoreError):
                        if forget is not None:
                            await forget()
                    raise
        finally:
            queue._release()

    @contextmanager
    def _place_in_line(self, queue: MainQueue) -> Iterator[None]:
        """Hold a place among a task's messages until the run is started.

        Raises:
            RateLimitedError: There is none.
        """
        runs = TaskRuns.of(queue)
        self._require_place(runs)
        runs.starting += 1
        try:
            yield
        finally:
            runs.starting -= 1

    def _require_place(self, runs: TaskRuns) -> None:
        if len(runs.active) + runs.starting > self._agent.limits.queued_sends:
            raise too_many_queued()

    async def _related(self, task_ids: tuple[str, ...], call: Call) -> tuple[Task, ...]:
        """Load the tasks that the message refers to; one that the caller cannot see is left out."""
        found = []
        for task_id in dict.fromkeys(task_ids):
            try:
                found.append((await find_task(self._manager, task_id, call)).task)
            except TaskNotFoundError:
                _logger.info("a message refers to a task that its sender cannot see")
        return tuple(found)

    # ------------------------------------------------------------------------------------------------------- checking

    async def _check(self, request: SendMessageRequest, call: Call) -> StoredTask | None:
        """Check what can be checked before the agent is asked, in the order of protocol section 5.1.

        Returns:
            The task that the message names; None if it names none.
        """
        message = request.message
        limit = self._agent.limits.max_parts
        if len(message.parts) > limit:
            raise invalid("message.parts", f"There are more than {limit} parts")
        if len(message.reference_task_ids) > limit:
            raise invalid("message.referenceTaskIds", f"There are more than {limit} ids")  # each is looked up
        if message.role is not Role.USER:
            raise invalid("message.role", "Must be ROLE_USER")
        stored = None
        if message.task_id:
            stored = await find_task(self._manager, message.task_id, call)
            if message.context_id and message.context_id != stored.task.context_id:
                raise invalid("message.contextId", "Differs from the context of the task")
            if stored.task.status.state.is_final:
                raise UnsupportedOperationError(
                    "Task is in a terminal state and accepts no further messages",
                    metadata=terminal_metadata(stored.task),
                )
        self._check_media_types(message)
        configuration = request.configuration
        if configuration is not None and configuration.task_push_notification_config is not None:
            self._check_push_config(configuration.task_push_notification_config, message.task_id)
        return stored

    def _check_push_config(self, config: TaskPushNotificationConfig, task_id: str) -> None:
        self._push.require()
        path = "configuration.taskPushNotificationConfig."
        if config.task_id not in {"", task_id}:
            raise invalid(f"{path}taskId", "Names another task than the message; leave it out")
        check(config, path)

    def _check_media_types(self, message: Message) -> None:
        """Refuse parts whose stated media type neither the card nor a skill accepts (ambiguity A-51)."""
        if self._input_modes is None:
            return
        for part in message.parts:
            media_type = part.media_type.partition(";")[0].strip().lower()
            if media_type and not any(_matches(media_type, mode) for mode in self._input_modes):
                raise ContentTypeNotSupportedError(metadata={"mediaType": part.media_type})


@final
@attrs.frozen
class _Forget:
    """Removes the push configuration of a task that was never made."""

    push: PushConfigs
    task_id: str

    async def __call__(self) -> None:
        await self.push.forget(self.task_id)


def _task_id(stored: StoredTask | None) -> str:
    return new_id() if stored is None else stored.task.id


def _input_modes(agent: Agent) -> frozenset[str] | None:
    """Return the media types that the agent says it takes; None if parts are not compared with them."""
    card = agent.card
    modes = frozenset(card.default_input_modes).union(*(skill.input_modes for skill in card.skills))
    # Some cards list modes such as "text": there is nothing to compare with.
    return modes if agent.check_input_modes and all("/" in mode for mode in modes) else None


def _matches(media_type: str, mode: str) -> bool:
    mode = mode.partition(";")[0].strip().lower()
    return mode in {media_type, "*/*"} or (mode.endswith("/*") and media_type.startswith(mode[:-1]))
