"""The suite for agents.

The executor is run as a server runs it: with the operations of an agent, its queues and its updaters, without HTTP. A
watcher around it sees what the library hides from callers: what it raised, and whether it was still at it.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, final

import attrs
import trio

from ..abc import AgentExecutor, CancellableExecutor, ResumableExecutor, TaskChange
from ..agents import RequestContext, TaskUpdater
from ..agents.runner import Run, TaskRuns
from ..errors import A2AError, InvalidAgentResponseError, TaskNotCancelableError, TaskTerminalError
from ..server import Agent, agent_card
from ..server.agent import AgentFunction
from ..server.call import Call
from ..server.operations import Operations
from ..stores import InMemoryTaskStore
from ..streams import QueueManager, open_queue_manager
from ..types import CancelTaskRequest, Message, Role, SendMessageConfiguration, SendMessageRequest, Task, TaskState
from .constructors import message as make_message, task as make_task

__all__ = ["check_agent_executor"]

_AT_ONCE = 3
_CARD = agent_card("Checked", "Is checked.")

Make = Callable[[], AgentExecutor | AgentFunction]


async def check_agent_executor(
    make_executor: Make,
    *,
    messages: Iterable[str | Message] = ("hello",),
    timeout: float = 60.0,
    cancel_timeout: float = 10.0,
    cancel_steps: int = 50,
    settles: bool = True,
) -> None:
    """Check that an agent meets the obligations of `AgentExecutor`, and of the other two if it has their methods.

    - It handles each message within ``timeout``, reports something, and neither refuses it nor raises.
    - It leaves its task in a terminal or interrupted state, or replies (unless ``settles`` is False). One that asks for
      input returns, since the answer is another run; one that needs a credential (AUTH_REQUIRED) may wait for it.
    - It handles several tasks at a time, each answered by its own reports.
    - It ends within ``cancel_timeout`` when its scope is cancelled, at whatever await that meets it, and then raises
      nothing but the cancellation.
    - ``cancel`` answers within ``cancel_timeout``, and the task is over then; or it raises TaskNotCancelableError.
    - ``resume``, which is given a task and no message, meets what ``execute`` does.
    - When all is over, no Trio task of it goes on.

    The suite gives an executor nothing but messages; what else it needs, such as a peer, is to be there meanwhile. No
    other code may start or end Trio tasks beside the suite, since they are counted. All time is Trio's: under an
    autojump `trio.testing.MockClock` the suite takes none. An executor that shields itself without a deadline makes it
    hang: run it under ``fail_after``.

    Args:
        make_executor: Returns a fresh executor, or the async callable.
        messages: Messages that it accepts; each begins a task.
        timeout: Seconds that it may take for one.
        cancel_timeout: Seconds that it may take to end when it is cancelled.
        cancel_steps: For each message, at how many of its first steps it is cancelled, once at each.
        settles: Whether a run leaves its task in a terminal or interrupted state. False for agents that report the end
            from elsewhere.

    Raises:
        AssertionError: The agent breaks an obligation; the text says which.
        TypeError: It is no agent.
    """
    checks = _Checks(make_executor, timeout, cancel_timeout, settles)
    for message in messages:
        outcome = await checks.handles(message)
        await checks.several_at_once(message)
        await checks.cancelled_anywhere(message, cancel_steps)
        await checks.cancels(message)
        if isinstance(outcome, Task):
            await checks.resumes(message)


@final
class _Watched(CancellableExecutor):
    """The executor inside, watched.

    Attributes:
        failures: What it raised, cancellations aside.
        started: Set when it has been called.
        task: The Trio task of the run that goes on.
        context: The context of that run.
        refused: Whether its ``cancel`` has refused.
    """

    def __init__(self, inner: AgentExecutor, *, resume: bool = False) -> None:
        self._inner = inner
        self._resume = resume
        self.failures: list[BaseException] = []
        self.started = trio.Event()
        self.task: trio.lowlevel.Task | None = None
        self.context: RequestContext | None = None
        self.refused = False
        self._cancelling = False

    async def execute(self, context: RequestContext, updater: TaskUpdater) -> None:
        self.task, self.context = trio.lowlevel.current_task(), context
        self.started.set()
        try:
            if self._resume:
                assert isinstance(self._inner, ResumableExecutor), "only one that can resume is asked to"
                await self._inner.resume(attrs.evolve(context, message=None), updater)
            else:
                await self._inner.execute(context, updater)
        except BaseException as exc:
            self._note(exc)
            raise
        finally:
            self.task = None

    async def cancel(self, context: RequestContext, updater: TaskUpdater) -> None:
        self._cancelling = True
        if isinstance(self._inner, CancellableExecutor):
            try:
                await self._inner.cancel(context, updater)
            except TaskNotCancelableError:
                self.refused = True
                raise
            except BaseException as exc:
                self._note(exc)
                raise

    def _note(self, exc: BaseException) -> None:
        # A run that reports while its own `cancel` ends the task is told that it is over; no harm is done.
        expected = (trio.Cancelled, TaskTerminalError) if self._cancelling else (trio.Cancelled,)
        left = exc.split(expected)[1] if isinstance(exc, BaseExceptionGroup) else exc
        if left is not None and not isinstance(left, expected):
            self.failures.append(left)

    def includes(self, task: trio.lowlevel.Task) -> bool:
        """Tell whether a Trio task is the run's, or one that it has started."""
        each: trio.lowlevel.Task | None = task
        while each is not None and self.task is not None:
            if each is self.task:
                return True
            nursery = each.parent_nursery
            each = nursery.parent_task if nursery is not None else None
        return False

    def require_no_failure(self, when: str) -> None:
        if self.failures:
            raise AssertionError(f"{when} the agent raised {self.failures[0]!r}") from self.failures[0]


@final
class _CancelAtStep(trio.abc.Instrument):
    """Cancels the run at its n-th step."""

    def __init__(self, bench: "_Bench", step: int) -> None:
        self._bench = bench
        self.left = step
        self.cancelled = trio.Event()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.left and self._bench.watched.includes(task):
            self.left -= 1
            if not self.left:
                self.cancelled.set()
                self._bench.cancel_runs()


@final
@attrs.frozen
class _Bench:
    """An agent with its operations."""

    watched: _Watched
    manager: QueueManager
    operations: Operations

    async def send(
        self, message: str | Message, *, task: Task | None = None, immediately: bool = False
    ) -> Task | Message:
        sent = message if isinstance(message, Message) else Message.user(message)
        if task is not None:
            sent = attrs.evolve(sent, task_id=task.id, context_id=task.context_id)
        request = SendMessageRequest(
            message=sent, configuration=SendMessageConfiguration(return_immediately=immediately)
        )
        return await self.operations.send_message(request, Call())

    async def whole_run(self, message: str | Message, *, task: Task | None = None) -> Task | Message:
        """Hand over a message, and return what there is when the run is over, or waits for a credential."""
        outcome = await self.send(message, task=task)
        if not isinstance(outcome, Task) or outcome.status.state is TaskState.AUTH_REQUIRED:
            return outcome
        await self.quiet(outcome.id)
        stored = await self.manager.store.get(outcome.id)
        assert stored is not None, "the suite's store keeps its tasks"
        return stored.task

    def runs(self, task_id: str) -> list[Run]:
        """Return the runs of a task that go on."""
        queue = self.manager.get(task_id)
        return [] if queue is None else list(TaskRuns.of(queue).active)

    def cancel_runs(self) -> None:
        """Cancel what the watched run is part of, as CancelTask does."""
        context = self.watched.context
        for run in [] if context is None else self.runs(context.task_id):
            run.request_cancel()

    async def quiet(self, task_id: str) -> None:
        """Wait until no run of the task goes on."""
        for run in self.runs(task_id):
            await run.ended.wait()


@final
@attrs.frozen
class _Checks:
    make: Make
    timeout: float
    cancel_timeout: float
    settles: bool

    @asynccontextmanager
    async def bench(self, when: str, *, resume: bool = False) -> AsyncIterator[_Bench]:
        """Open a fresh agent; in the end nothing of it may be left."""
        living = trio.lowlevel.current_statistics().tasks_living
        inner = Agent(_CARD, self.make()).executor
        watched = _Watched(inner, resume=resume)
        limits = attrs.evolve(Agent(_CARD, inner).limits, cancel_timeout=self.cancel_timeout)
        agent = Agent(_CARD, watched, store=InMemoryTaskStore(grace_period=0), limits=limits, check_input_modes=False)
        async with open_queue_manager(agent.store) as manager:
            yield _Bench(watched, manager, Operations(agent, manager))
        left = trio.lowlevel.current_statistics().tasks_living - living
        assert left <= 0, f"{when} {left} Trio tasks of the agent went on"

    async def handles(self, message: str | Message) -> Task | Message:
        when = f"handling {_text(message)!r}"
        async with self.bench(when) as bench:
            outcome = await self._limited(bench, bench.whole_run, message, when)
            self._check_outcome(outcome, when)
        return outcome

    async def several_at_once(self, message: str | Message) -> None:
        when = f"handling {_text(message)!r} for {_AT_ONCE} callers at a time"
        faults: list[AssertionError] = []
        async with self.bench(when) as bench:

            async def one() -> None:
                try:
                    self._check_outcome(await self._limited(bench, bench.send, message, when), when)
                except AssertionError as exc:  # raised below, outside of the nursery and its group
                    faults.append(exc)

            async with trio.open_nursery() as nursery:
                for _ in range(_AT_ONCE):
                    nursery.start_soon(one)
            if faults:
                raise faults[0]

    async def cancelled_anywhere(self, message: str | Message, steps: int) -> None:
        for step in range(1, steps + 1):
            when = f"cancelled at step {step} of handling {_text(message)!r}"
            async with self.bench(when) as bench:
                at = _CancelAtStep(bench, step)
                trio.lowlevel.add_instrument(at)
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._send_and_forget, bench, message)
                        over = await self._ends_when_cancelled(bench, at)
                        nursery.cancel_scope.cancel(reason="the run is over")
                finally:
                    trio.lowlevel.remove_instrument(at)
                assert over, f"{when} the agent did not end within {self.cancel_timeout} s"
                bench.watched.require_no_failure(when)
            if not at.cancelled.is_set():
                return

    async def _ends_when_cancelled(self, bench: _Bench, at: _CancelAtStep) -> bool:
        over, decided = trio.Event(), trio.Event()

        async def watch_the_run() -> None:
            await bench.watched.started.wait()
            assert bench.watched.context is not None, "a run has its context when it starts"
            await bench.quiet(bench.watched.context.task_id)
            over.set()
            decided.set()

        async def watch_the_cancellation() -> None:
            await at.cancelled.wait()
            decided.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_the_run)
            nursery.start_soon(watch_the_cancellation)
            with trio.move_on_after(self.timeout):
                await decided.wait()
            bench.cancel_runs()  # one that waits for a credential may never get to that step
            with trio.move_on_after(self.cancel_timeout):
                await over.wait()
            nursery.cancel_scope.cancel(reason="the wait is over")
        return over.is_set()

    async def cancels(self, message: str | Message) -> None:
        when = f"cancelling {_text(message)!r}"
        async with self.bench(when) as bench:
            outcome = await self._limited(bench, bench.send, message, when, immediately=True)
            if not isinstance(outcome, Task) or outcome.status.state.is_final:
                return
            try:
                task = await bench.operations.cancel_task(CancelTaskRequest(id=outcome.id), Call())
            except TaskNotCancelableError as exc:
                bench.watched.require_no_failure(when)
                stored = await bench.manager.store.get(outcome.id)
                over = stored is not None and stored.task.status.state.is_final
                if not over and not bench.watched.refused:
                    raise AssertionError(f"{when} failed: {exc}") from exc
            else:
                assert task.status.state.is_final, f"{when} the task is {task.status.state.name}"
            bench.watched.require_no_failure(when)

    async def resumes(self, message: str | Message) -> None:
        if not isinstance(Agent(_CARD, self.make()).executor, ResumableExecutor):
            return
        when = f"resuming a task of {_text(message)!r}"
        async with self.bench(when, resume=True) as bench:
            said = message if isinstance(message, Message) else make_message(message, role=Role.USER)
            left = make_task("left", TaskState.WORKING, history=[said])
            change = TaskChange(task_id="left", sequence=1, event=left, snapshot=lambda: left)
            await bench.manager.store.commit([change])
            self._check_outcome(await self._limited(bench, bench.whole_run, message, when, task=left), when)

    # ---------------------------------------------------------------------------------------------------------- steps

    async def _send_and_forget(self, bench: _Bench, message: str | Message) -> None:
        with suppress(A2AError):  # a run that was cancelled before its first report has no answer
            await bench.send(message)

    async def _limited(
        self, bench: _Bench, call: Callable[..., Any], message: str | Message, when: str, **options: Any
    ) -> Task | Message:
        outcome: Task | Message | None = None
        try:
            with trio.move_on_after(self.timeout):
                outcome = await call(message, **options)
        except InvalidAgentResponseError:
            bench.watched.require_no_failure(when)
            raise AssertionError(f"{when} the agent reported nothing") from None
        except A2AError as exc:
            bench.watched.require_no_failure(when)
            raise AssertionError(f"{when} was refused: {exc!r}") from exc
        bench.watched.require_no_failure(when)
        assert outcome is not None, f"{when} took the agent longer than {self.timeout} s"
        return outcome

    def _check_outcome(self, outcome: Task | Message, when: str) -> None:
        if isinstance(outcome, Task) and self.settles:
            state = outcome.status.state
            assert state.is_final or state.is_interrupted, (
                f"{when} the agent left its task {state.name}: a run ends with a terminal or an interrupted state"
            )


def _text(message: str | Message) -> str:
    return message if isinstance(message, str) else message.text()
