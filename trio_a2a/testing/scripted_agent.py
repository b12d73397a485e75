"""An agent that does what a test says, step by step, and writes down what it was asked.

    agent = ScriptedAgent(Step.work("on it"), Step.wait("go"), Step.artifact("42"), Step.complete())

A script is that of a task. It goes on where it stopped when the task's next message comes, so a conversation is one
script: ``Step.require_input("Which?"), Step.complete()``.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import attrs
import trio

from ..abc import CancellableExecutor, ResumableExecutor
from ..agents import RequestContext, TaskUpdater
from ..types import Message, Part, PartsLike, TaskState

__all__ = ["ScriptedAgent", "Step", "StepLike"]

MessageLike: TypeAlias = str | Message | Sequence[str | Part]


@final
@attrs.frozen
class Step:
    """One thing that a `ScriptedAgent` does. The class methods make them.

    Attributes:
        text: What it is, for people.
        act: What is done.
        ends_run: Whether the run returns after it; the task's next message goes on behind it.
    """

    text: str
    act: Callable[["ScriptedAgent", RequestContext, TaskUpdater], Awaitable[object]] = attrs.field(repr=False)
    ends_run: bool = False

    @classmethod
    def status(
        cls, state: TaskState, message: MessageLike | None = None, *, metadata: dict[str, Any] | None = None
    ) -> "Step":
        """Report a state."""
        return cls(state.name, lambda _agent, _context, to: to.update_status(state, message, metadata=metadata))

    @classmethod
    def work(cls, message: MessageLike | None = None) -> "Step":
        """Report WORKING."""
        return cls.status(TaskState.WORKING, message)

    @classmethod
    def complete(cls, message: MessageLike | None = None) -> "Step":
        """End the task as COMPLETED."""
        return cls.status(TaskState.COMPLETED, message)

    @classmethod
    def fail(cls, message: MessageLike | None = None) -> "Step":
        """End the task as FAILED."""
        return cls.status(TaskState.FAILED, message)

    @classmethod
    def require_input(cls, message: MessageLike | None = None) -> "Step":
        """Report INPUT_REQUIRED, and return: the next message of the task goes on with the next step."""
        return cls("require_input", lambda _agent, _context, to: to.require_input(message), ends_run=True)

    @classmethod
    def require_auth(cls, message: MessageLike | None = None) -> "Step":
        """Report AUTH_REQUIRED, and go on."""
        return cls.status(TaskState.AUTH_REQUIRED, message)

    @classmethod
    def artifact(
        cls,
        parts: PartsLike,
        *,
        artifact_id: str | None = None,
        name: str | None = None,
        append: bool = False,
        last_chunk: bool | None = None,
    ) -> "Step":
        """Send an artifact, or a chunk of one."""
        return cls(
            "artifact",
            lambda _agent, _context, to: to.add_artifact(
                parts, artifact_id=artifact_id, name=name, append=append, last_chunk=last_chunk
            ),
        )

    @classmethod
    def reply(cls, message: MessageLike) -> "Step":
        """Answer with a message, without a task."""
        return cls("reply", lambda _agent, _context, to: to.reply(message))

    @classmethod
    def sleep(cls, seconds: float) -> "Step":
        """Wait so many seconds of Trio's clock."""

        async def act(_agent: "ScriptedAgent", _context: RequestContext, _to: TaskUpdater) -> None:
            await trio.sleep(seconds)

        return cls(f"sleep {seconds}", act)

    @classmethod
    def wait(cls, gate: str = "go") -> "Step":
        """Wait until the test calls `ScriptedAgent.release`."""
        return cls(f"wait for {gate!r}", lambda agent, _context, _to: agent._pass(gate))

    @classmethod
    def hold(cls) -> "Step":
        """Wait for ever: until the run is cancelled."""

        async def act(_agent: "ScriptedAgent", _context: RequestContext, _to: TaskUpdater) -> None:
            await trio.sleep_forever()

        return cls("hold", act)

    @classmethod
    def error(cls, error: BaseException) -> "Step":
        """Raise an exception."""

        async def act(_agent: "ScriptedAgent", _context: RequestContext, _to: TaskUpdater) -> None:
            await trio.lowlevel.checkpoint()
            raise error

        return cls(f"raise {error!r}", act)


StepLike: TypeAlias = Step | Callable[[RequestContext, TaskUpdater], Awaitable[object]]
"""A step, or an ``async def (context, updater)`` for what no step can say."""


@final
class ScriptedAgent(CancellableExecutor, ResumableExecutor):
    """Plays a script, and writes down how it was called.

    Args:
        steps: What it does for each task.
        by_text: What it does for messages with one of these texts, one step or several, from the beginning each time,
            in place of ``steps``.
        on_cancel: What it does in ``cancel``.

    Attributes:
        contexts: The context of each message, in order.
        cancellations: The context of each call of ``cancel``.
        resumptions: The context of each call of ``resume``.
        cancelled: The ids of the tasks whose runs were cancelled, in order.
        running: How many runs go on.
    """

    def __init__(
        self,
        *steps: StepLike,
        by_text: "Mapping[str, StepLike | Sequence[StepLike]] | None" = None,
        on_cancel: Sequence[StepLike] = (),
    ) -> None:
        self._steps = tuple(map(_as_step, steps))
        self._by_text = {text: _as_script(given) for text, given in (by_text or {}).items()}
        self._on_cancel = tuple(map(_as_step, on_cancel))
        self._positions: dict[str, int] = {}
        self._gates: dict[str, trio.Semaphore] = {}
        self._changed = trio.lowlevel.ParkingLot()
        self.contexts: list[RequestContext] = []
        self.cancellations: list[RequestContext] = []
        self.resumptions: list[RequestContext] = []
        self.cancelled: list[str] = []
        self.running = 0

    def __repr__(self) -> str:
        return f"<ScriptedAgent of {len(self._steps)} steps, called {len(self.contexts)} times>"

    @property
    def texts(self) -> list[str]:
        """The texts of the messages, in order."""
        return [context.text() for context in self.contexts]

    def release(self, gate: str = "go", *, times: int = 1) -> None:
        """Let ``Step.wait(gate)`` pass, so many times: now, or when the script gets there."""
        semaphore = self._gate(gate)
        for _ in range(times):
            semaphore.release()

    async def wait_until_called(self, times: int = 1) -> None:
        """Wait until there were so many messages.

        Cancellation: a checkpoint.
        """
        await self._until(lambda: len(self.contexts) >= times)

    async def wait_until_idle(self) -> None:
        """Wait until no run goes on.

        Cancellation: a checkpoint.
        """
        await self._until(lambda: not self.running)

    async def _until(self, reached: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not reached():
            await self._changed.park()

    # ---------------------------------------------------------------------------------------------------- the executor

    async def execute(self, context: RequestContext, updater: TaskUpdater) -> None:
        """Play the script of the message, or that of the task from where it stopped.

        Raises:
            AssertionError: The script of the task is over.
        """
        self.contexts.append(context)
        await self._run(context, updater)

    async def cancel(self, context: RequestContext, updater: TaskUpdater) -> None:
        """Write it down, and play the script for it."""
        self.cancellations.append(context)
        for step in self._on_cancel:
            await step.act(self, context, updater)

    async def resume(self, context: RequestContext, updater: TaskUpdater) -> None:
        """Write it down, and go on with the script of the task; that of an unknown task begins."""
        self.resumptions.append(context)
        await self._run(context, updater)

    async def _run(self, context: RequestContext, updater: TaskUpdater) -> None:
        self.running += 1
        self._changed.unpark_all()
        try:
            script = self._by_text.get(context.text()) if context.message is not None else None
            if script is not None:
                for step in script:
                    await step.act(self, context, updater)
            else:
                await self._play(context, updater)
        except trio.Cancelled:
            self.cancelled.append(context.task_id)
            raise
        finally:
            self.running -= 1
            self._changed.unpark_all()

    async def _play(self, context: RequestContext, updater: TaskUpdater) -> None:
        position = self._positions.get(context.task_id, 0)
        assert position < len(self._steps), (
            f"the script has no step left for the message {context.text()!r} of task {context.task_id!r}"
        )
        for step in self._steps[position:]:
            self._positions[context.task_id] = position = position + 1
            await step.act(self, context, updater)
            if step.ends_run:
                return

    def _gate(self, name: str) -> trio.Semaphore:
        return self._gates.setdefault(name, trio.Semaphore(0))

    async def _pass(self, gate: str) -> None:
        await self._gate(gate).acquire()


def _as_script(given: "StepLike | Sequence[StepLike]") -> tuple[Step, ...]:
    return tuple(map(_as_step, given if isinstance(given, Sequence) else [given]))


def _as_step(given: StepLike) -> Step:
    if isinstance(given, Step):
        return given
    if not callable(given):
        raise TypeError(f"a step is a Step, or an async function of the context and the updater; not {given!r}")
    function = given
    return Step(getattr(function, "__name__", repr(function)), lambda _agent, context, to: function(context, to))
