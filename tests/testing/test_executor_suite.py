"""The suite for executors passes good ones, and finds the one fault of each broken one."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from docs.examples.echo_agent import echo
from tests.deadline import within
from trio_a2a.errors import TaskNotCancelableError, UnsupportedOperationError
from trio_a2a.testing import ScriptedAgent, Step, check_agent_executor
from trio_a2a.types import Message

pytestmark = pytest.mark.requirement("S7-EXECUTOR-SUITE", "S7-CONFORMANCE")


async def completes(_context, updater):
    await updater.start_work()
    await trio.sleep(1)
    await updater.complete()


class Tidy:
    """Has everything that an executor may have, and does it right."""

    async def execute(self, context, updater):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
            await updater.start_work()
        try:
            await trio.sleep(1)
        finally:
            with trio.move_on_after(1, shield=True):
                await updater.add_artifact("what there is")
        await updater.complete()

    async def cancel(self, context, updater):
        await updater.add_artifact("stopped")
        await updater.cancel("as you wish")

    async def resume(self, context, updater):
        await updater.complete(f"again: {context.task.history[0].text()}")


class Stubborn:
    """Cannot be cancelled by a request, and says so."""

    async def execute(self, context, updater):
        await completes(context, updater)

    async def cancel(self, context, updater):
        raise TaskNotCancelableError


class Talkative:
    """Goes on reporting while its own `cancel` ends the task, and is told that it is over."""

    async def execute(self, context, updater):
        for number in range(100):
            await updater.add_artifact(str(number))
            await trio.sleep(0.1)
        await updater.complete()

    async def cancel(self, context, updater):
        await updater.cancel()
        await trio.sleep(1)


GOOD: dict[str, Callable[[], Any]] = {
    "function": lambda: completes,
    "tidy": Tidy,
    "stubborn": Stubborn,
    "talkative": Talkative,
    "reply": lambda: ScriptedAgent(Step.reply("hello")),
    "question": lambda: ScriptedAgent(Step.require_input("Which?"), Step.complete()),
    "credential": lambda: ScriptedAgent(Step.require_auth("Who?"), Step.wait("login"), Step.complete()),
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
@within(100_000)
async def test_a_good_executor_passes(autojump_clock, make):
    await check_agent_executor(make)


@within(100_000)
async def test_the_echo_agent_of_the_documentation_passes(autojump_clock):
    await check_agent_executor(lambda: echo, messages=["some words", Message.user("ask me"), "one"])


@within(100_000)
async def test_an_agent_that_reports_its_end_from_elsewhere_passes_where_that_is_said(autojump_clock):
    def make():
        return ScriptedAgent(Step.work())

    await check_agent_executor(make, settles=False)
    with pytest.raises(AssertionError, match="left its task WORKING"):
        await check_agent_executor(make)


# ------------------------------------------------------------------------------------------------------------- broken


class ReportsNothing:
    async def execute(self, context, updater):
        await trio.sleep(1)


class Refuses:
    async def execute(self, context, updater):
        raise UnsupportedOperationError("not today")


class Raises:
    async def execute(self, context, updater):
        await updater.start_work()
        raise KeyError("a bug")


class RefusesTooLate:
    async def execute(self, context, updater):
        await updater.start_work()
        raise UnsupportedOperationError("not today")


class ReportsBehindItsEnd:
    """Unlike `Talkative`: nobody has ended the task but the agent itself."""

    async def execute(self, context, updater):
        await updater.complete()
        await updater.add_artifact("one more thing")


class TakesTooLong:
    async def execute(self, context, updater):
        await updater.start_work()
        await trio.sleep(61)
        await updater.complete()


class WaitsForAnAnswer:
    """The answer to a question comes in a run of its own, which waits for this one."""

    async def execute(self, context, updater):
        await updater.require_input("Which?")
        await trio.sleep_forever()


class SharesItsUpdater:
    async def execute(self, context, updater):
        self.updater = updater
        await updater.start_work()
        await trio.sleep(1)
        await self.updater.complete()


class LeavesATask:
    async def execute(self, context, updater):
        trio.lowlevel.spawn_system_task(trio.sleep, 1000)
        await updater.complete()


class DoesNotStop:
    async def execute(self, context, updater):
        with trio.move_on_after(30, shield=True):
            await updater.start_work()
            await trio.sleep(20)
        await updater.complete()


class RaisesWhenCancelled:
    async def execute(self, context, updater):
        try:
            await completes(context, updater)
        except trio.Cancelled:
            raise OSError("could not clean up") from None


class LeavesATaskWhenCancelled:
    async def execute(self, context, updater):
        try:
            await completes(context, updater)
        except trio.Cancelled:
            trio.lowlevel.spawn_system_task(trio.sleep, 1000)
            raise


class Cancels(Tidy):
    async def execute(self, context, updater):
        await completes(context, updater)


class LooksAtTheMessageInCancel(Cancels):
    async def cancel(self, context, updater):
        await updater.cancel(f"not {context.message.text()}")


class TakesTooLongToCancel(Cancels):
    async def cancel(self, context, updater):
        await trio.sleep(0.5)

    async def execute(self, context, updater):
        try:
            await completes(context, updater)
        finally:
            with trio.move_on_after(5, shield=True):
                await trio.sleep(4)


class SlowCancel(Cancels):
    async def cancel(self, context, updater):
        await trio.sleep(11)

    async def execute(self, context, updater):
        await updater.start_work()
        await trio.sleep(30)
        await updater.complete()


class LooksAtTheMessageInResume(Tidy):
    async def resume(self, context, updater):
        await updater.complete(context.message.text())


class ResumesWithNothing(Tidy):
    async def resume(self, context, updater):
        await trio.sleep(1)


BROKEN: dict[type, str] = {
    ReportsNothing: "handling 'hello' the agent reported nothing",
    Refuses: "handling 'hello' the agent raised .*not today",
    Raises: "handling 'hello' the agent raised KeyError",
    RefusesTooLate: "handling 'hello' the agent raised .*not today",
    ReportsBehindItsEnd: "handling 'hello' the agent raised TaskTerminalError",
    TakesTooLong: "handling 'hello' took the agent longer than 60",
    WaitsForAnAnswer: "handling 'hello' took the agent longer than 60",
    SharesItsUpdater: "for 3 callers at a time",
    LeavesATask: "handling 'hello' 1 Trio tasks of the agent went on",
    DoesNotStop: "cancelled at step 1 .* did not end within 10",
    RaisesWhenCancelled: "cancelled at step [0-9]+ .* raised OSError",
    LeavesATaskWhenCancelled: "cancelled at step [0-9]+ .* 1 Trio tasks of the agent went on",
    LooksAtTheMessageInCancel: "cancelling 'hello' the agent raised AttributeError",
    SlowCancel: "cancelling 'hello' failed: .*in time",
    LooksAtTheMessageInResume: "resuming a task of 'hello' the agent raised AttributeError",
    ResumesWithNothing: "resuming a task of 'hello' the agent (reported nothing|left its task WORKING)",
}


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__)
@within(100_000)
async def test_each_fault_is_found_and_named(autojump_clock, make, caplog):
    with pytest.raises(AssertionError) as caught:
        await check_agent_executor(make)
    group = pytest.RaisesExc(AssertionError, match=BROKEN[make])
    assert group.matches(caught.value), caught.value


@within(100_000)
async def test_the_time_to_be_cancelled_is_a_parameter(autojump_clock):
    await check_agent_executor(TakesTooLongToCancel, cancel_steps=3)
    with pytest.raises(AssertionError, match=r"did not end within 2"):
        await check_agent_executor(TakesTooLongToCancel, cancel_timeout=2)


@within(5)
async def test_a_message_that_never_reaches_the_agent_is_no_use_to_the_suite(autojump_clock):
    with pytest.raises(AssertionError, match="was refused: TaskNotFoundError"):
        await check_agent_executor(lambda: completes, messages=[Message.user("x", task_id="unknown")])


@within(5)
async def test_what_is_no_executor_is_a_type_error(autojump_clock):
    with pytest.raises(TypeError, match="an agent is"):
        await check_agent_executor(lambda: "agent")
