"""How an agent reports.

A `TaskUpdater` turns calls into events of one task and puts them on the task's queue. It keeps the rules that an
agent must obey, where the agent can still be told: a task stream begins with the Task, a direct reply excludes a task,
nothing follows a terminal state. Where the task does not exist yet and the first report is an update, the SUBMITTED
task is made first; where it does, the user's message travels with the first report, and so is stored with it or not at
all.

A little longer than 400 lines: what an agent can say is one class, and half of it is what that means.
"""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, Protocol, final

import attrs
import trio

from ..abc import StreamEvent
from ..clock import Clock, TrioClock
from ..errors import InvalidAgentResponseError, StoreError, TaskTerminalError
from ..streams.reducer import WorkingTask
from ..types import (
    Artifact,
    Message,
    Part,
    PartsLike,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    as_parts,
)
from ..types.identifier import new_id

__all__ = ["ArtifactWriter", "MessageLike", "Reports", "TaskUpdater"]

MessageLike = Message | PartsLike
"""A message, or what one is made of: a str, a part or several of them."""


class Reports(Protocol):
    """Where an updater's events go."""

    async def state(self) -> WorkingTask | None:
        """Return the task as it is stored; None if there is none."""
        ...

    async def report(self, event: StreamEvent, message: Message | None) -> None:
        """Accept an event, with the user's message for a run's first one."""
        ...

    async def report_whole(self, task: Task, end: TaskStatusUpdateEvent) -> bool:
        """Accept and flush all that there is to a task that ends as soon as it begins, if that saves something.

        Returns:
            Whether it was done; if not, the two are to be reported one after the other.
        """
        ...

    async def flush(self) -> None:
        """Return when all that was accepted is stored and distributed."""
        ...


@final
class TaskUpdater:
    """Reports on one task; made by the server for each run, and by ``A2AApp.updater`` for use outside one.

    A message may be a str, a Message, a Part or several parts; a part may be a str. Every method but `flush` raises
    TaskTerminalError once the task is in a terminal state. The methods that end the task return when that is stored,
    and raise StoreError if it could not be.

    Cancellation: every method is a checkpoint; a report that is cancelled was not made.

    Attributes:
        task_id: The task.
        context_id: Its context; "" until the first report of an updater from outside a run.
    """

    def __init__(
        self,
        reports: Reports,
        task_id: str,
        context_id: str,
        *,
        message: Message | None = None,
        direct_reply: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.task_id = task_id
        self.context_id = context_id
        self._reports = reports
        # The user's message, until it has gone with the first report.
        self._message = message
        # Whether the run may still answer with a message instead of a task.
        self._direct_reply = direct_reply
        self._clock = clock if clock is not None else TrioClock()
        self._begun = False
        self._replied = False
        # Whether the server made the task, for a caller that did not wait.
        self._promised = False
        # Whether the run itself has reported on a task.
        self._reported = False
        self._terminal: TaskState | None = None

    def __repr__(self) -> str:
        return f"<TaskUpdater of {self.task_id!r}>"

    # ------------------------------------------------------------------------------------------------------- states

    async def start_work(self, message: MessageLike | None = None) -> None:
        """Report WORKING."""
        await self.update_status(TaskState.WORKING, message)

    async def update_status(
        self, state: TaskState, message: MessageLike | None = None, *, metadata: dict[str, Any] | None = None
    ) -> None:
        """Report a state.

        Args:
            state: The state.
            message: What to say with it; it moves to the history with the next status.
            metadata: Merged into the task's, key by key.

        Raises:
            TaskTerminalError: The task is over.
            InvalidAgentResponseError: The run has replied directly, or the state is UNSPECIFIED.
            StoreError: A terminal state could not be stored.
        """
        if state is TaskState.UNSPECIFIED:
            raise InvalidAgentResponseError("TASK_STATE_UNSPECIFIED cannot be reported")
        is_new = await self._is_to_be_made()
        if is_new and not state.is_final:
            await self._submit()
            self._check_not_over()
        status = TaskStatus(
            state=state,
            message=None if message is None else self._message_of(message, in_task=True),
            timestamp=self._clock.now(),
        )
        event = TaskStatusUpdateEvent(
            task_id=self.task_id, context_id=self.context_id, status=status, metadata=metadata
        )
        if state.is_final:
            await self._report_end(event, is_new=is_new)
        else:
            await self._report(event)

    async def _report_end(self, event: TaskStatusUpdateEvent, *, is_new: bool) -> None:
        state = event.status.state
        # Claimed before the wait: of two terminal reports at once, one wins (B66).
        self._terminal = state
        try:
            is_whole = is_new and await self._report_whole(event)
            if not is_whole:
                if is_new:
                    await self._submit()
                await self._report(event)
        except BaseException:
            self._terminal = None
            raise
        try:
            if not is_whole:
                await self.flush()
        except StoreError:
            self._terminal = None  # it was not stored, so the task is not over
            raise
        reached = await self._reports.state()
        if reached is not None and reached.status.state is not state:
            self._terminal = reached.status.state  # another updater was first
            self._check_not_over()

    async def complete(self, message: MessageLike | None = None) -> None:
        """End the task as COMPLETED."""
        await self.update_status(TaskState.COMPLETED, message)

    async def fail(self, message: MessageLike | None = None) -> None:
        """End the task as FAILED."""
        await self.update_status(TaskState.FAILED, message)

    async def reject(self, message: MessageLike | None = None) -> None:
        """End the task as REJECTED."""
        await self.update_status(TaskState.REJECTED, message)

    async def cancel(self, message: MessageLike | None = None) -> None:
        """End the task as CANCELED."""
        await self.update_status(TaskState.CANCELED, message)

    async def require_input(self, message: MessageLike | None = None) -> None:
        """Report INPUT_REQUIRED: a blocked caller gets its answer, and the next message continues the task."""
        await self.update_status(TaskState.INPUT_REQUIRED, message)

    async def require_auth(self, message: MessageLike | None = None) -> None:
        """Report AUTH_REQUIRED: a blocked caller gets its answer, streams stay open, and the run may go on."""
        await self.update_status(TaskState.AUTH_REQUIRED, message)

    # ----------------------------------------------------------------------------------------------------- artifacts

    async def add_artifact(
        self,
        parts: PartsLike,
        *,
        artifact_id: str | None = None,
        name: str | None = None,
        append: bool = False,
        last_chunk: bool | None = None,
        description: str | None = None,
        metadata: dict[str, Any] | None = None,
        extensions: tuple[str, ...] = (),
    ) -> str:
        """Send an artifact, or a chunk of one.

        Args:
            parts: Its content, at least one part.
            artifact_id: Its id; a new one by default. With the id of an earlier artifact it takes that one's place.
            name: Its name.
            append: Put the parts behind those of the artifact ``artifact_id``, which must exist.
            last_chunk: Whether nothing more comes for this artifact.
            description: What it is.
            metadata: Its metadata.
            extensions: URIs of the extensions that contributed to it.

        Returns:
            The artifact's id.

        Raises:
            TaskTerminalError: The task is over.
            InvalidAgentResponseError: There are no parts, or the run has replied directly.
            ValueError: ``append`` without ``artifact_id``, or JSON cannot carry a value in the parts.
        """
        if append and artifact_id is None:
            raise ValueError("append=True needs the artifact_id of the artifact to extend")
        content = as_parts(parts)
        if not content:
            raise InvalidAgentResponseError("The agent sent an artifact without parts")
        await self._begin_task()
        if artifact_id is None:
            artifact_id = new_id()
        artifact = Artifact(
            artifact_id=artifact_id,
            name=name or "",
            description=description or "",
            parts=content,
            metadata=metadata,
            extensions=extensions,
        )
        await self._report(
            TaskArtifactUpdateEvent(
                task_id=self.task_id,
                context_id=self.context_id,
                artifact=artifact,
                append=append,
                last_chunk=bool(last_chunk),
            )
        )
        return artifact_id

    @asynccontextmanager
    async def artifact(
        self, *, name: str | None = None, artifact_id: str | None = None, description: str | None = None
    ) -> AsyncIterator["ArtifactWriter"]:
        """Write an artifact chunk by chunk: ``async with updater.artifact(name="log") as out: await out.write("...")``.

        All chunks have one id, and each is sent when it is written. Leaving the block closes the artifact with a chunk
        of an empty text that has ``last_chunk``; the stored artifact does not show it. A block that is left by an
        exception leaves the artifact open.
        """
        writer = ArtifactWriter(self, artifact_id or new_id(), name, description)
        yield writer
        await writer._close()

    # ------------------------------------------------------------------------------------------------------- the rest

    async def reply(self, message: MessageLike) -> None:
        """Answer with a message, without a task.

        Where the server had to make a task already, for a caller that did not wait, it is completed with the message.

        Raises:
            InvalidAgentResponseError: A task was reported, the user's message names a task, or there was a reply.
            ValueError: The message names another context or a task.
        """
        if self._promised and not self._reported:
            await self.complete(message)
            return
        if not self._direct_reply or self._begun:
            raise InvalidAgentResponseError(
                "A direct reply is for a message without a task, once and before any other report"
            )
        answer = self._message_of(message, in_task=False)
        self._begun = self._replied = True
        try:
            await self._reports.report(answer, None)
        except BaseException:
            self._begun = self._replied = False
            raise

    async def flush(self) -> None:
        """Return when everything reported so far is stored and distributed.

        Raises:
            StoreError: Something could not be stored.
        """
        await self._reports.flush()

    # ----------------------------------------------------------------------------------------------------- internals

    async def _begin_task(self) -> None:
        """Check that the task may be reported on, and make it if this is the first report and there is none."""
        if await self._is_to_be_made():
            await self._submit()
            # Again, since another of the agent's tasks may have ended it during the wait.
            self._check_not_over()

    async def _is_to_be_made(self) -> bool:
        """Check that the task may be reported on; tell whether this is the first report and there is no task yet."""
        if self._replied:
            raise InvalidAgentResponseError("The run has replied directly, so it cannot report a task")
        self._check_not_over()
        state = await self._reports.state()
        if state is not None:
            if state.is_final:
                self._terminal = state.status.state
            self.context_id = self.context_id or state.context_id
        # Again, since another of the agent's tasks may have ended it during the wait.
        self._check_not_over()
        return state is None and not self._begun

    def _check_not_over(self) -> None:
        if self._terminal is not None:
            raise TaskTerminalError(
                f"task {self.task_id!r} is {self._terminal.name}; nothing can be reported any more",
                task_id=self.task_id,
            )

    async def _submit(self) -> None:
        """Report the new task, SUBMITTED, with the user's message as its history."""
        self._begun = True
        message, self._message = self._message, None
        try:
            await self._reports.report(self._submitted(message), None)
        except BaseException:
            self._begun, self._message = False, message
            raise

    def _submitted(self, message: Message | None) -> Task:
        return Task(
            id=self.task_id,
            context_id=self.context_id,
            status=TaskStatus(state=TaskState.SUBMITTED, timestamp=self._clock.now()),
            history=() if message is None else (message,),
        )

    async def _report_whole(self, end: TaskStatusUpdateEvent) -> bool:
        """Report the new task and its end in one, where that can be done; tell whether it was."""
        self._begun = self._reported = True
        message, self._message = self._message, None
        done = False
        try:
            done = await self._reports.report_whole(self._submitted(message), end)
        except StoreError:
            done = True  # reported, though not stored
            raise
        finally:
            if not done:
                self._begun = self._reported = False
                self._message = message
        return done

    async def _promise(self) -> None:
        """Make the SUBMITTED task for a caller that does not wait any longer, unless the run has begun to report."""
        if not self._begun:
            self._promised = True
            try:
                await self._submit()
            except BaseException:
                self._promised = False
                raise

    async def _report(self, event: StreamEvent) -> None:
        before = self._message, self._begun, self._reported
        self._message, self._begun, self._reported = None, True, True
        try:
            await self._reports.report(event, before[0])
        except BaseException:
            self._message, self._begun, self._reported = before
            raise

    def _message_of(self, message: MessageLike, *, in_task: bool) -> Message:
        """Make the agent's message, or stamp the one given."""
        task_id = self.task_id if in_task else ""
        if not isinstance(message, Message):
            return Message.agent(message, context_id=self.context_id, task_id=task_id)
        if message.task_id not in {"", task_id} or message.context_id not in {"", self.context_id}:
            raise ValueError("the message names another task or context than the one that it is sent in")
        return attrs.evolve(message, role=Role.AGENT, task_id=task_id, context_id=self.context_id)


@final
class ArtifactWriter:
    """Writes the chunks of one artifact; made by `TaskUpdater.artifact`.

    Attributes:
        artifact_id: The artifact's id.
    """

    def __init__(self, updater: TaskUpdater, artifact_id: str, name: str | None, description: str | None) -> None:
        self.artifact_id = artifact_id
        self._updater = updater
        self._name = name
        self._description = description
        self._begun = False
        self._turn = trio.StrictFIFOLock()

    async def write(self, *parts: str | Part) -> None:
        """Send a chunk.

        Raises:
            InvalidAgentResponseError: It has no parts.
            TaskTerminalError: The task is over.
        """
        # One chunk after the other, also where several tasks of the agent write: the first of them makes the artifact.
        async with self._turn:
            await self._send(parts, last_chunk=False)
            self._begun = True

    async def _close(self) -> None:
        if self._begun:
            await self._send(("",), last_chunk=True)

    def _send(self, parts: tuple[str | Part, ...], *, last_chunk: bool) -> Awaitable[str]:
        return self._updater.add_artifact(
            parts,
            artifact_id=self.artifact_id,
            name=self._name,
            description=self._description,
            append=self._begun,
            last_chunk=last_chunk,
        )
