"""What becomes of tasks whose process died, when an application runs on the same store. Threads: no autojump clock."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.deadline import within
from tests.server.serving_processes import Plain, Resumable, leave, never, open_process, said
from tests.stores.test_sql_writer import locked
from tests.stores.writers import TaskWriter
from trio_a2a.abc import OrphanedTasks, TaskStore
from trio_a2a.agents import RequestContext, TaskUpdater
from trio_a2a.errors import TaskConflictError, TaskPersistenceError, TaskSerializationError, TaskTakenOverError
from trio_a2a.server import A2AApp, Agent, agent_card, recovery
from trio_a2a.server.call import Call
from trio_a2a.server.recovery import INTERRUPTED, Recovery
from trio_a2a.stores import InMemoryTaskStore, open_sql_store
from trio_a2a.streams.hooks import CallbackHook
from trio_a2a.testing import FlakyStore, task
from trio_a2a.types import (
    CancelTaskRequest,
    TaskState,
)

# ----------------------------------------------------------------------------------------------------------- policies


@pytest.mark.requirement("S5-RECOVERY")
@within(30)
async def test_an_orphan_is_failed_and_says_why(url: str) -> None:
    await leave(url, "t")
    async with open_process(url, Plain()) as process:
        ended = await process.ended("t")
        assert ended.status.state is TaskState.FAILED
        assert ended.status.message is not None
        assert ended.status.message.text() == INTERRUPTED
        assert await process.log("t") == ["SUBMITTED", "half", "FAILED"]


@pytest.mark.requirement("S5-RECOVERY")
@within(30)
async def test_orphans_are_kept_where_that_is_wanted(sqlite_url: str) -> None:
    await leave(sqlite_url, "t")
    async with open_process(sqlite_url, Plain(), on_orphan="keep") as process:
        await trio.testing.wait_all_tasks_blocked()
        assert process.manager.statistics().queues == 0
        assert await process.log("t") == ["SUBMITTED", "half"]
        # And whoever comes for them later finds them.
        async with open_process(sqlite_url, Plain()) as other:
            assert (await other.ended("t")).status.state is TaskState.FAILED


@pytest.mark.requirement("S5-RECOVERY", "S5-RESUME")
@within(30)
async def test_an_orphan_is_taken_up_again_by_its_agent(url: str) -> None:
    contexts: list[RequestContext] = []

    async def go_on(context: RequestContext, updater: TaskUpdater) -> None:
        contexts.append(context)
        await updater.add_artifact("rest")
        await updater.complete("done")

    await leave(url, "t", owner="ada", tenant="home")
    async with open_process(url, Resumable(go_on), on_orphan="resume") as process:
        await process.ended("t")
        assert await process.log("t") == ["SUBMITTED", "half", "WORKING", "rest", "COMPLETED"]
    (context,) = contexts
    assert context.message is None
    assert context.task is not None
    assert context.task.status.state is TaskState.SUBMITTED, "the task as it was left"
    assert [said.text() for said in context.task.history] == ["do it"]
    assert (context.task_id, context.context_id, context.tenant) == ("t", context.task.context_id, "home")
    assert context.principal.id == "ada"


@within(30)
async def test_an_agent_that_cannot_resume_fails_the_task_and_the_log_says_so(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await leave(sqlite_url, "t")
    async with open_process(sqlite_url, Plain(), on_orphan="resume") as process:
        assert (await process.ended("t")).status.state is TaskState.FAILED
    assert "its agent has no `resume`" in caplog.text


@within(30)
async def test_an_agent_that_fails_while_it_resumes_fails_its_task_alone(sqlite_url: str) -> None:
    async def go_on(context: RequestContext, updater: TaskUpdater) -> None:
        if context.task_id == "bad":
            raise ValueError("secret")
        await updater.complete()

    await leave(sqlite_url, "bad", "good")
    async with open_process(sqlite_url, Resumable(go_on), on_orphan="resume") as process:
        bad = await process.ended("bad")
        assert bad.status.message is not None
        assert bad.status.message.text() == "The agent failed."
        assert (await process.ended("good")).status.state is TaskState.COMPLETED


# --------------------------------------------------------------------------------------------- a run like any other


@pytest.mark.requirement("S5-RESUME")
@within(30)
async def test_a_resumed_run_is_ended_by_a_cancellation(sqlite_url: str) -> None:
    async def go_on(_context: RequestContext, _updater: TaskUpdater) -> None:
        await trio.sleep_forever()

    await leave(sqlite_url, "t")
    async with open_process(sqlite_url, Resumable(go_on), on_orphan="resume") as process:
        await process.reached("t", TaskState.WORKING)
        cancelled = await process.operations.cancel_task(CancelTaskRequest(id="t"), Call())
        assert cancelled.status.state is TaskState.CANCELED
        assert await process.log("t") == ["SUBMITTED", "half", "WORKING", "CANCELED"]


@pytest.mark.requirement("S5-RESUME")
@within(30)
async def test_a_message_to_a_resumed_task_has_its_turn_behind_that(sqlite_url: str) -> None:
    may_go_on = trio.Event()

    async def go_on(_context: RequestContext, updater: TaskUpdater) -> None:
        await may_go_on.wait()
        await updater.add_artifact("resumed")

    async def run(context: RequestContext, updater: TaskUpdater) -> None:
        await updater.complete(context.text())

    await leave(sqlite_url, "t")
    async with open_process(sqlite_url, Resumable(go_on, run), on_orphan="resume") as process:
        await process.reached("t", TaskState.WORKING)
        async with trio.open_nursery() as nursery:

            async def follow_up() -> None:
                await process.send("more", "t", immediately=False)

            nursery.start_soon(follow_up)
            await trio.testing.wait_all_tasks_blocked()
            may_go_on.set()
        assert await process.log("t") == ["SUBMITTED", "half", "WORKING", "resumed", "COMPLETED"]


@within(30)
async def test_a_task_that_a_message_has_brought_further_is_left_alone(sqlite_url: str) -> None:
    """It was claimed while that message's run was at it; by the turn of the resumed run it waits for its user."""

    async def run(_context: RequestContext, updater: TaskUpdater) -> None:
        await updater.require_input("which?")

    await leave(sqlite_url, "t")
    executor = Resumable(never, run)
    async with open_process(sqlite_url, executor, on_orphan="keep") as process:
        await process.send("more", "t", immediately=False)
        seeing_to = Recovery(process.manager, executor, process.store)
        await seeing_to._see_to("t", resumes=True)
        await trio.testing.wait_all_tasks_blocked()
        await seeing_to._see_to("t", resumes=False)
        assert await process.log("t") == ["SUBMITTED", "half", "INPUT_REQUIRED"]


@within(30)
async def test_a_task_that_a_later_message_is_at_is_not_failed(sqlite_url: str) -> None:
    may_end = trio.Event()

    async def run(_context: RequestContext, updater: TaskUpdater) -> None:
        await updater.start_work()
        await may_end.wait()
        await updater.complete()

    await leave(sqlite_url, "t")
    async with open_process(sqlite_url, Plain(run), on_orphan="keep") as process, trio.open_nursery() as nursery:
        nursery.start_soon(process.send, "more", "t")
        await process.reached("t", TaskState.WORKING)
        await Recovery(process.manager, Plain(), process.store)._see_to("t", resumes=False)
        may_end.set()
        assert (await process.ended("t")).status.state is TaskState.COMPLETED


@within(60)
async def test_of_two_applications_that_start_at_once_each_orphan_is_taken_up_by_one(url: str) -> None:
    names = [f"t{number:02}" for number in range(50)]
    taken: list[str] = []
    all_taken = trio.Event()

    async def go_on(context: RequestContext, updater: TaskUpdater) -> None:
        taken.append(context.task_id)
        await updater.complete()
        if len(taken) >= len(names):
            all_taken.set()

    async def start() -> None:
        async with open_process(url, Resumable(go_on), on_orphan="resume"):
            await all_taken.wait()
            await trio.testing.wait_all_tasks_blocked()

    await leave(url, *names)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(start)
        nursery.start_soon(start)
    assert sorted(taken) == names


# -------------------------------------------------------------------------------------------- what goes wrong meanwhile


@pytest.mark.requirement("S5-RECOVERY")
@within(30)
async def test_a_database_that_fails_holds_nobody_up_and_is_tried_again(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And a reader who came meanwhile, and a hook, see the end as any other event."""
    seen: list[str] = []

    async def on_event(task_id: str, event: Any, _handle: Any) -> None:
        seen.append(f"{task_id} {said(event)}")

    monkeypatch.setattr(recovery, "_RETRY_SECONDS", 0.01)
    await leave(sqlite_url, "t")
    async with open_sql_store(sqlite_url, lock_timeout=0.01) as store:
        hook = CallbackHook(on_event=on_event)
        app = A2AApp(Agent(agent_card("Worker", "Works."), Plain(), store=store, hook=hook))
        with locked(sqlite_url) as release:
            async with app.running():
                assert app._running is not None
                async with app._running.manager.subscribe("t") as reader:
                    assert said(await reader.receive()) == "SUBMITTED"
                    while "cannot be recovered now" not in caplog.text:
                        await trio.to_thread.run_sync(int)
                    release()
                    assert said(await reader.receive()) == "FAILED"
    assert seen == ["t FAILED"]


class Scripted(FlakyStore, OrphanedTasks):
    """Has orphans where it is told that it has, and keeps them in memory."""

    on_orphan = "fail"

    def __init__(self, *claims: Any) -> None:
        super().__init__()
        self.claims = list(claims)
        self.all_claimed = trio.Event()

    async def claim_orphans(self, limit: int) -> list[str]:
        claim: Any = self.claims.pop(0)
        if isinstance(claim, Exception):
            raise claim
        return list(claim)

    async def wait_for_orphans(self) -> None:
        if not self.claims:
            self.all_claimed.set()
            await trio.sleep_forever()


async def recovered(store: Scripted, executor: Any) -> None:
    """Run an application until everything that was claimed is seen to."""
    async with A2AApp(Agent(agent_card("Worker", "Works."), executor, store=store)).running():
        await store.all_claimed.wait()


async def put(store: TaskStore, task_id: str) -> None:
    await store.commit([TaskWriter(task_id).change(task(task_id, TaskState.WORKING))])


@pytest.mark.requirement("S5-RECOVERY")
@within(30)
async def test_whatever_a_store_s_claims_come_to_the_next_ones_are_seen_to(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that fails, one that has a bug, and tasks that are gone."""
    store = Scripted(TaskPersistenceError("down"), ZeroDivisionError(), ["gone", "t"], ["u"], [])
    await put(store, "t")
    await put(store, "u")
    await recovered(store, Plain())
    for task_id in ("t", "u"):
        stored = await store.get(task_id)
        assert stored is not None
        assert stored.task.status.state is TaskState.FAILED
    assert "cannot be recovered now" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("policy", ["fail", "resume"])
@within(30)
async def test_a_store_that_fails_while_a_task_is_seen_to_is_asked_again(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    """Whether it cannot be read or not be written, and whether it says so or reports a stale number."""

    async def go_on(_context: RequestContext, updater: TaskUpdater) -> None:
        await updater.fail("in the end")

    errors: list[Exception] = [TaskConflictError("stale"), TaskPersistenceError("down"), TaskPersistenceError("down")]

    def refuse(_change: Any) -> bool:
        if not errors:
            return False
        store.error = errors.pop(0)
        return True

    store = Scripted(["t"], [])
    store.on_orphan = policy
    await put(store, "t")
    store.refuse, store.unreadable = refuse, True
    async with A2AApp(Agent(agent_card("Worker", "Works."), Resumable(go_on), store=store)).running():
        await trio.sleep(1)
        store.unreadable = False
        await trio.sleep(20)
    assert not errors
    stored = await store.get("t")
    assert stored is not None
    assert stored.task.status.state is TaskState.FAILED


@pytest.mark.parametrize("policy", ["fail", "resume"])
@within(30)
async def test_a_task_that_another_process_has_taken_over_meanwhile_is_left_to_it(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    store = Scripted(["t"], [])
    store.on_orphan = policy
    await put(store, "t")
    store.error = TaskTakenOverError("another one's")
    store.refuse = lambda _change: True
    async with A2AApp(Agent(agent_card("Worker", "Works."), Resumable(never), store=store)).running():
        await trio.sleep(20)
    assert [sequence for (sequence,) in store.commits[1:]] == [2]
    assert "the agent failed" not in caplog.text


@within(30)
async def test_a_task_that_has_ended_before_it_is_seen_to_stays_as_it_is(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it ended while the store could not say that the task goes on."""
    store = Scripted(["over", "t"], [])
    store.on_orphan = "resume"
    await store.commit([TaskWriter("over").change(task("over", TaskState.COMPLETED))])
    await put(store, "t")
    store.refuse = lambda _change: True
    app = A2AApp(Agent(agent_card("Worker", "Works."), Resumable(never), store=store))
    async with app.running():
        await trio.sleep(1)
        store.refuse = None
        await app.updater("t").complete()
        await trio.sleep(20)
        assert app._running is not None
        await Recovery(app._running.manager, Plain(), store)._see_to("over", resumes=False)
    for task_id in ("over", "t"):
        stored = await store.get(task_id)
        assert stored is not None
        assert stored.task.status.state is TaskState.COMPLETED
    assert "failed" not in caplog.text


@pytest.mark.parametrize("error", [TaskSerializationError("no task"), ZeroDivisionError()])
@within(30)
async def test_a_task_that_cannot_be_read_is_given_up_and_logged(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    store = Scripted(["t"], [])
    await put(store, "t")
    store.unreadable, store.error = True, error
    await recovered(store, Plain())
    assert "recovered" in caplog.text


@within(30)
async def test_a_store_that_finds_no_orphans_is_left_alone(autojump_clock: object) -> None:
    store = InMemoryTaskStore()
    await put(store, "t")
    async with A2AApp(Agent(agent_card("Worker", "Works."), Plain(), store=store)).running():
        await trio.sleep(20)
    stored = await store.get("t")
    assert stored is not None
    assert stored.task.status.state is TaskState.WORKING
