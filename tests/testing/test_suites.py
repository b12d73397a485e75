"""The conformance suites find what is broken. Each broken implementation is a good one with one fault."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import attrs
import pytest
import trio

from tests.deadline import within
from trio_a2a.abc import (
    AuthenticationRequest,
    Authenticator,
    Envelope,
    Principal,
    StoredTask,
    StreamCloseHandle,
    StreamEvent,
    TaskChange,
    TaskStateProvider,
    TaskStreamLifecycleHook,
)
from trio_a2a.errors import A2AError, AuthenticationError, AuthorizationError, TaskConflictError
from trio_a2a.stores import InMemoryTaskStore
from trio_a2a.streams.hooks import CallbackHook, CloseStreamsHook, HookChain, IdleTimeoutHook, NoOpHook
from trio_a2a.testing import (
    RecordingHook,
    SlowStore,
    check_authenticator,
    check_event_log,
    check_lifecycle_hook,
    check_task_state_provider,
    check_task_store,
    status,
    task,
)
from trio_a2a.types import ListTasksRequest, Task, TaskState
from trio_a2a.wire import from_json, to_json

# SlowStore without a delay passes everything on, and may be subclassed here where it is final for users.
Store: Any = SlowStore.__mro__[1]


def opening(make: Callable[[], Any]) -> Callable[[], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def open_it():  # type: ignore[no-untyped-def]
        yield make()

    return open_it


# --------------------------------------------------------------------------------------------------------------- stores


class Good(Store):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(None)


class LosesLastOfBatch(Good):
    async def commit(self, changes: Sequence[TaskChange]) -> None:
        await self.inner.commit(changes[:-1] if len(changes) > 1 else changes)


class StoresInParts(Good):
    async def commit(self, changes: Sequence[TaskChange]) -> None:
        for change in changes:
            await self.inner.commit([change])


class IgnoresNumbers(Good):
    async def commit(self, changes: Sequence[TaskChange]) -> None:
        numbers: dict[str, int] = {}
        renumbered = []
        for change in changes:
            stored = await self.inner.get(change.task_id)
            at = numbers.get(change.task_id, stored.sequence if stored is not None else 0)
            numbers[change.task_id] = at + 1
            renumbered.append(
                TaskChange(
                    task_id=change.task_id,
                    sequence=at + 1,
                    event=change.event,
                    snapshot=change.snapshot,
                    owner=change.owner,
                    tenant=change.tenant,
                )
            )
        await self.inner.commit(renumbered)


class RaisesSomethingElse(Good):
    async def commit(self, changes: Sequence[TaskChange]) -> None:
        try:
            await self.inner.commit(changes)
        except TaskConflictError:
            raise KeyError("conflict") from None


class ForgetsTheOwner(Good):
    async def get(self, task_id: str) -> StoredTask | None:
        stored = await self.inner.get(task_id)
        return attrs.evolve(stored, owner="") if stored is not None else None


class ForgetsHistory(Good):
    async def get(self, task_id: str) -> StoredTask | None:
        stored = await self.inner.get(task_id)
        return attrs.evolve(stored, task=attrs.evolve(stored.task, history=())) if stored is not None else None


class NaiveDates(Good):
    async def get(self, task_id: str) -> StoredTask | None:
        stored = await self.inner.get(task_id)
        if stored is None or stored.finalized_at is None:
            return stored
        return attrs.evolve(stored, finalized_at=stored.finalized_at.replace(tzinfo=None))


class ProlongsTheGrace(Good):
    async def get(self, task_id: str) -> StoredTask | None:
        stored = await self.inner.get(task_id)
        if stored is None or stored.finalized_at is None:
            return stored
        return attrs.evolve(stored, finalized_at=stored.finalized_at + timedelta(seconds=stored.sequence))


class NeverFinalizes(Good):
    async def get(self, task_id: str) -> StoredTask | None:
        stored = await self.inner.get(task_id)
        return attrs.evolve(stored, finalized_at=None) if stored is not None else None


class RefusesUnknownDeletes(Good):
    async def delete(self, task_id: str) -> None:
        if await self.inner.get(task_id) is None:
            raise AssertionError("no such task")
        await self.inner.delete(task_id)


class NeverDeletes(Good):
    async def delete(self, task_id: str) -> None:
        await trio.lowlevel.checkpoint()


class NoCheckpoint(Good):
    async def delete(self, task_id: str) -> None:
        self.inner._rows.pop(task_id, None)


class IgnoresBlanks(Good):
    async def get(self, task_id: str) -> StoredTask | None:
        stored: StoredTask | None = await self.inner.get(task_id.rstrip(" "))
        return stored


class KnowsNoEmoji(Good):
    async def get(self, task_id: str) -> StoredTask | None:
        stored: StoredTask | None = await self.inner.get(task_id)
        if stored is None:
            return None
        cut = re.sub("[^\0-\uffff]", "?", to_json(stored.task).decode())
        return attrs.evolve(stored, task=from_json(cut, Task))


class ListsEverybodys(Good):
    async def list(self, query: ListTasksRequest, *, owner: str, after: Any = None) -> tuple[Sequence[Task], int]:
        tasks: list[Task] = []
        for someone in ("alice", "bob", ""):
            tasks += (await self.inner.list(query, owner=someone, after=after))[0]
        return tasks, len(tasks)


class ListsStrictlyAfter(Good):
    async def list(self, query: ListTasksRequest, *, owner: str, after: Any = None) -> tuple[Sequence[Task], int]:
        if query.status_timestamp_after is not None:
            query = attrs.evolve(query, status_timestamp_after=query.status_timestamp_after + timedelta(milliseconds=1))
        return await self.inner.list(query, owner=owner, after=after)


class CountsThePage(Good):
    async def list(self, query: ListTasksRequest, *, owner: str, after: Any = None) -> tuple[Sequence[Task], int]:
        page, _ = await self.inner.list(query, owner=owner, after=after)
        return page, len(page)


class IgnoresAfter(Good):
    async def list(self, query: ListTasksRequest, *, owner: str, after: Any = None) -> tuple[Sequence[Task], int]:
        if after is not None:
            return (), 60
        return await self.inner.list(query, owner=owner, after=after)


class NeedsTheLastTask(Good):
    async def list(self, query: ListTasksRequest, *, owner: str, after: Any = None) -> tuple[Sequence[Task], int]:
        if after is not None and await self.inner.get(after[1]) is None:
            after = None
        return await self.inner.list(query, owner=owner, after=after)


class ListsOldestFirst(Good):
    async def list(self, query: ListTasksRequest, *, owner: str, after: Any = None) -> tuple[Sequence[Task], int]:
        page, total = await self.inner.list(query, owner=owner, after=after)
        return tuple(reversed(page)), total


class CutsArtifacts(Good):
    async def list(self, query: ListTasksRequest, *, owner: str, after: Any = None) -> tuple[Sequence[Task], int]:
        page, total = await self.inner.list(query, owner=owner, after=after)
        return tuple(attrs.evolve(entry, history=()) for entry in page), total


BROKEN_STORES = [
    (IgnoresBlanks, "compared character by character"),
    (KnowsNoEmoji, "snapshot of its last change"),
    (LosesLastOfBatch, "snapshot of its last change|can be read"),
    (StoresInParts, "nothing is stored|leaves nothing"),
    (IgnoresNumbers, "TaskConflictError"),
    (ForgetsTheOwner, "owner is kept"),
    (ForgetsHistory, "snapshot of its last change"),
    (NaiveDates, "aware, in UTC"),
    (ProlongsTheGrace, "set once"),
    (NeverFinalizes, "finalized_at is set"),
    (RefusesUnknownDeletes, "no such task"),
    (NeverDeletes, "is gone"),
    (NoCheckpoint, "is a checkpoint"),
    (ListsEverybodys, "owner"),
    (ListsStrictlyAfter, "inclusive"),
    (CountsThePage, "total counts all"),
    (IgnoresAfter, "make up the whole"),
    (NeedsTheLastTask, "also when that is gone"),
    (ListsOldestFirst, "newest status first"),
    (CutsArtifacts, "is whole"),
]


@pytest.mark.requirement("S7-CONFORMANCE")
@pytest.mark.parametrize(("make", "says"), BROKEN_STORES, ids=lambda value: getattr(value, "__name__", ""))
@within(60)
async def test_the_store_suite_finds_a_broken_store_and_says_what_is_wrong(
    autojump_clock: object, make: Callable[[], Any], says: str
) -> None:
    await check_task_store(opening(Good))
    with pytest.raises(AssertionError, match=says):
        await check_task_store(opening(make))


@pytest.mark.requirement("S7-CONFORMANCE")
@within(60)
async def test_the_store_suite_lets_a_wrong_exception_through(autojump_clock: object) -> None:
    with pytest.raises(KeyError):
        await check_task_store(opening(RaisesSomethingElse))


class LogFromHere(Good):
    async def events(self, task_id: str, after: int) -> Sequence[Envelope]:
        return await self.inner.events(task_id, after - 1)


class LogBackwards(Good):
    async def events(self, task_id: str, after: int) -> Sequence[Envelope]:
        return tuple(reversed(await self.inner.events(task_id, after)))


class LogWithoutNumbers(Good):
    async def events(self, task_id: str, after: int) -> Sequence[Envelope]:
        return [Envelope(0, envelope.event) for envelope in await self.inner.events(task_id, after)]


class LogOfSnapshots(Good):
    async def events(self, task_id: str, after: int) -> Sequence[Envelope]:
        return [Envelope(envelope.sequence, task(task_id)) for envelope in await self.inner.events(task_id, after)]


class LogOutlivesTask(Good):
    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Sequence[Envelope]] = {}

    async def delete(self, task_id: str) -> None:
        self.kept[task_id] = await self.inner.events(task_id, 0)
        await self.inner.delete(task_id)

    async def events(self, task_id: str, after: int) -> Sequence[Envelope]:
        return self.kept.get(task_id) or await self.inner.events(task_id, after)


@pytest.mark.requirement("S7-CONFORMANCE")
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (LogFromHere, "are numbered"),
        (LogBackwards, "are numbered"),
        (LogWithoutNumbers, "are numbered"),
        (LogOfSnapshots, "as they were"),
        (LogOutlivesTask, "is gone"),
        (StoresInParts, "leaves nothing in the log"),
        (IgnoresNumbers, "refuses"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@within(60)
async def test_the_log_suite_finds_a_broken_log_and_says_what_is_wrong(
    autojump_clock: object, make: Callable[[], Any], says: str
) -> None:
    await check_event_log(opening(Good))
    with pytest.raises(AssertionError, match=says):
        await check_event_log(opening(make))


# ------------------------------------------------------------------------------------------------------------ providers


class Provider(TaskStateProvider):
    """A good provider with everything in reach of a fault."""

    grace = 15.0

    def __init__(self) -> None:
        self.states: dict[str, tuple[TaskState, float]] = {}

    async def report(self, task_id: str, state: TaskState) -> None:
        old = self.states.get(task_id)
        if old is None or not old[0].is_final:
            self.states[task_id] = (state, trio.current_time())

    async def is_task_active(self, task_id: str) -> bool:
        if task_id not in self.states:
            return False
        state, since = self.states[task_id]
        return not state.is_final or self.within_grace(since)

    def within_grace(self, since: float) -> bool:
        return round(trio.current_time() - since, 6) < self.grace

    async def is_task_finalized(self, task_id: str) -> bool:
        return task_id in self.states and self.states[task_id][0].is_final


class ActiveAtTheBoundary(Provider):
    def within_grace(self, since: float) -> bool:
        return round(trio.current_time() - since, 6) <= self.grace


class NoGrace(Provider):
    def within_grace(self, since: float) -> bool:
        return False


class ForgetsAfterGrace(Provider):
    async def is_task_finalized(self, task_id: str) -> bool:
        return await super().is_task_finalized(task_id) and await self.is_task_active(task_id)


class FinalizedAfterGraceOnly(Provider):
    async def is_task_finalized(self, task_id: str) -> bool:
        return await super().is_task_finalized(task_id) and not await self.is_task_active(task_id)


class UnknownIsActive(Provider):
    async def is_task_active(self, task_id: str) -> bool:
        return task_id not in self.states or await super().is_task_active(task_id)


class UnknownIsFinal(Provider):
    async def is_task_finalized(self, task_id: str) -> bool:
        return task_id not in self.states or await super().is_task_finalized(task_id)


class ReplayProlongs(Provider):
    async def report(self, task_id: str, state: TaskState) -> None:
        self.states[task_id] = (state, trio.current_time())


class InterruptedIsFinal(Provider):
    async def is_task_finalized(self, task_id: str) -> bool:
        known = self.states.get(task_id)
        return known is not None and (known[0].is_final or known[0].is_interrupted)


class OneForAll(Provider):
    async def is_task_finalized(self, task_id: str) -> bool:
        return task_id in self.states and any(state.is_final for state, _ in self.states.values())


class ReturnsTruthy(Provider):
    async def is_task_active(self, task_id: str) -> Any:
        return 1 if await super().is_task_active(task_id) else 0


async def report(provider: Provider, task_id: str, state: TaskState) -> None:
    await provider.report(task_id, state)


@pytest.mark.requirement("S7-CONFORMANCE")
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (ActiveAtTheBoundary, "exactly when its grace period is over"),
        (NoGrace, "when its grace period begins"),
        (ForgetsAfterGrace, "stays finalized"),
        (FinalizedAfterGraceOnly, "finalized at once"),
        (UnknownIsActive, "unknown task is not active"),
        (UnknownIsFinal, "unknown task is not finalized"),
        (ReplayProlongs, "exactly when its grace period is over"),
        (InterruptedIsFinal, "INPUT_REQUIRED is not finalized|AUTH_REQUIRED is not finalized"),
        (OneForAll, "another task's end"),
        (ReturnsTruthy, "unknown task is not active"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@within(100_000)
async def test_the_provider_suite_finds_a_broken_provider_and_says_what_is_wrong(
    autojump_clock: object, make: Callable[[], Any], says: str
) -> None:
    await check_task_state_provider(opening(Provider), report=report, grace_period=15.0)
    with pytest.raises(AssertionError, match=says):
        await check_task_state_provider(opening(make), report=report, grace_period=15.0)


@pytest.mark.requirement("S7-CONFORMANCE")
@within(100_000)
async def test_the_provider_suite_takes_a_clock_of_the_providers_own(autojump_clock: object) -> None:
    from trio_a2a.clock import Clock

    class Settable(Clock):
        at = datetime.fromisoformat("2024-01-01T00:00:00+00:00")

        def now(self) -> datetime:
            return self.at

    clock = Settable()

    async def advance(seconds: float) -> None:
        clock.at += timedelta(seconds=seconds)

    async def commit(store: InMemoryTaskStore, task_id: str, state: TaskState) -> None:
        stored = await store.get(task_id)
        await store.commit(
            [
                TaskChange(
                    task_id=task_id,
                    sequence=1 if stored is None else stored.sequence + 1,
                    event=status(task_id, state),
                    snapshot=lambda: task(task_id, state),
                )
            ]
        )

    await check_task_state_provider(
        opening(lambda: InMemoryTaskStore(7.5, clock)), report=commit, grace_period=7.5, advance=advance
    )


# ---------------------------------------------------------------------------------------------------------------- hooks


class Base(NoOpHook):
    pass


class Sync(NoOpHook):
    def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:  # type: ignore[override]
        pass


class RaisesOnErrors(Base):
    async def on_event(self, task_id: str, event: StreamEvent | A2AError, handle: StreamCloseHandle) -> None:
        event.task_id  # type: ignore[union-attr]  # noqa: B018 - a Message or an error may have none
        raise TypeError("on purpose")


class Hangs(Base):
    async def on_unsubscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        await trio.sleep_forever()


class NotForManyTasks(Base):
    def __init__(self) -> None:
        self.task_id: str | None = None

    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        if self.task_id not in {None, task_id}:
            raise RuntimeError("one hook for each task, please")
        self.task_id = task_id


class LeavesATask(Base):
    async def on_subscribe(self, task_id: str, handle: StreamCloseHandle) -> None:
        task = trio.lowlevel.spawn_system_task(trio.sleep, 1000)
        assert task is not None


@pytest.mark.requirement("S7-CONFORMANCE", "S4-HOOKS")
@pytest.mark.parametrize(
    "make",
    [
        NoOpHook,
        CloseStreamsHook,
        lambda: CloseStreamsHook(1),
        lambda: IdleTimeoutHook(1),
        CallbackHook,
        RecordingHook,
        lambda: HookChain(CloseStreamsHook(2), RecordingHook(), IdleTimeoutHook(5)),
    ],
)
@within(600)
async def test_our_hooks_pass_the_suite_for_hooks(
    autojump_clock: object, make: Callable[[], TaskStreamLifecycleHook]
) -> None:
    await check_lifecycle_hook(make)


@pytest.mark.requirement("S7-CONFORMANCE")
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (object, "has no method on_subscribe"),
        (Sync, "on_unsubscribe of the hook is no coroutine function"),
        (RaisesOnErrors, "raised"),
        (Hangs, "overran"),
        (NotForManyTasks, "raised"),
        (LeavesATask, "left a Trio task running"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@within(600)
async def test_the_hook_suite_finds_a_broken_hook_and_says_what_is_wrong(
    autojump_clock: object, make: Callable[[], Any], says: str
) -> None:
    with pytest.raises(AssertionError, match=says):
        await check_lifecycle_hook(make)


# ------------------------------------------------------------------------------------------------------- authenticators


@attrs.frozen
class Somebody(Principal):
    id: str


class Tokens(Authenticator):
    async def authenticate(self, request: AuthenticationRequest) -> Principal:
        await trio.lowlevel.checkpoint()
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token == "banned":
            raise AuthorizationError
        if not token.startswith("token-of-"):
            raise AuthenticationError
        return Somebody(token.removeprefix("token-of-"))


class LetsAllIn(Tokens):
    async def authenticate(self, request: AuthenticationRequest) -> Principal:
        return Somebody("root")


class RaisesValueError(Tokens):
    async def authenticate(self, request: AuthenticationRequest) -> Principal:
        try:
            return await super().authenticate(request)
        except A2AError:
            raise ValueError("no") from None


class RepeatsTheToken(Tokens):
    async def authenticate(self, request: AuthenticationRequest) -> Principal:
        try:
            return await super().authenticate(request)
        except A2AError:
            raise AuthenticationError(f"not a token: {request.headers.get('authorization')}") from None


class Mixes(Tokens):
    """Keeps the request on itself while it waits."""

    count = 0

    async def authenticate(self, request: AuthenticationRequest) -> Principal:
        principal = await super().authenticate(request)
        type(self).count += 1
        return Somebody(f"{principal.id}-{self.count}")


class NumbersForIds(Tokens):
    async def authenticate(self, request: AuthenticationRequest) -> Principal:
        await super().authenticate(request)
        return Somebody(7)  # type: ignore[arg-type]


def with_token(token: str) -> AuthenticationRequest:
    return AuthenticationRequest(headers={"authorization": f"Bearer {token}"})


@pytest.mark.requirement("S7-CONFORMANCE")
@within(5)
async def test_the_authenticator_suite_finds_what_is_broken(autojump_clock: object) -> None:
    accepted = [with_token("token-of-alice"), with_token("token-of-bob")]
    refused = [AuthenticationRequest(headers={}), with_token("wrong-token"), with_token("banned")]
    await check_authenticator(Tokens(), accepted=accepted, refused=refused)
    for broken, says in (
        (LetsAllIn(), "was let in as 'root'"),
        (RaisesValueError(), "not ValueError"),
        (RepeatsTheToken(), "does not repeat"),
        (Mixes(), "one caller has one id"),
        (NumbersForIds(), "is a string"),
    ):
        with pytest.raises(AssertionError, match=says):
            await check_authenticator(broken, accepted=accepted, refused=refused)
