"""Every store of ours meets the obligations of its Protocols: one fixture, all kinds."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.deadline import within
from tests.stores.databases import KINDS, database, emptied
from trio_a2a.abc import PushConfigStore, TaskChange
from trio_a2a.stores import (
    InMemoryPushConfigStore,
    InMemoryTaskStore,
    open_sql_push_config_store,
    open_sql_store,
)
from trio_a2a.testing import (
    check_event_log,
    check_push_config_store,
    check_task_state_provider,
    check_task_store,
    status,
    task,
)
from trio_a2a.types import TaskState


@attrs.frozen
class Stores:
    """Opens fresh, empty stores of one kind."""

    tasks: Callable[..., AbstractAsyncContextManager[Any]]
    push: Callable[[], AbstractAsyncContextManager[PushConfigStore]]


@pytest.fixture(params=["memory", *KINDS])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    kind = request.param
    with ExitStack() as made:
        if kind == "memory":

            @asynccontextmanager
            async def memory_tasks(grace_period: float = 15.0) -> AsyncIterator[InMemoryTaskStore]:
                yield InMemoryTaskStore(grace_period)

            @asynccontextmanager
            async def memory_push() -> AsyncIterator[InMemoryPushConfigStore]:
                yield InMemoryPushConfigStore()

            yield Stores(memory_tasks, memory_push)
            return

        urls: list[str] = []

        def fresh() -> str:
            if kind == "sqlite" or not urls:
                urls.append(made.enter_context(database(kind, tmp_path)))
            return emptied(urls[-1])

        yield Stores(
            lambda grace_period=15.0: open_sql_store(fresh(), grace_period=grace_period),
            lambda: open_sql_push_config_store(fresh()),
        )


@pytest.mark.requirement("S7-CONFORMANCE", "S4-STORE")
@within(60)
async def test_it_keeps_tasks(stores: Stores) -> None:
    await check_task_store(stores.tasks)


@pytest.mark.requirement("S7-CONFORMANCE", "S4-EVENT-LOG")
@within(60)
async def test_it_keeps_a_log_of_events(stores: Stores) -> None:
    await check_event_log(stores.tasks)


@pytest.mark.requirement("S7-CONFORMANCE", "S4-PROVIDER", "B20", "B21")
@pytest.mark.parametrize("grace_period", [0, 0.002, 15.0])
async def test_it_provides_the_state_of_tasks(stores: Stores, mock_clock: MockClock, grace_period: float) -> None:
    """The clock is moved by hand: an autojump clock would jump while a thread is at work."""

    async def report(store: Any, task_id: str, state: TaskState) -> None:
        stored = await store.get(task_id)
        number = stored.sequence + 1 if stored is not None else 1
        event, after = status(task_id, state), task(task_id, state)
        await store.commit([TaskChange(task_id=task_id, sequence=number, event=event, snapshot=lambda: after)])

    async def advance(seconds: float) -> None:
        mock_clock.jump(seconds)
        await trio.lowlevel.checkpoint()

    await check_task_state_provider(
        lambda: stores.tasks(grace_period), report=report, grace_period=grace_period, advance=advance
    )


@pytest.mark.requirement("S7-CONFORMANCE")
@within(60)
async def test_it_keeps_push_configurations(stores: Stores) -> None:
    await check_push_config_store(stores.push)
