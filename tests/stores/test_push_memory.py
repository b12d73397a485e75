"""Push configurations in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.deadline import within
from trio_a2a.abc import PushConfigStore
from trio_a2a.stores import InMemoryPushConfigStore
from trio_a2a.testing import check_push_config_store
from trio_a2a.types import TaskPushNotificationConfig


@asynccontextmanager
async def open_store() -> AsyncIterator[InMemoryPushConfigStore]:
    yield InMemoryPushConfigStore()


def config(task_id: str, id_: str, **members: str) -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(task_id=task_id, id=id_, url="https://example.com", **members)


@pytest.mark.requirement("S7-CONFORMANCE")
@within(5)
async def test_it_meets_the_obligations_of_a_push_config_store(autojump_clock: object) -> None:
    await check_push_config_store(open_store)
    assert isinstance(InMemoryPushConfigStore(), PushConfigStore)


@within(5)
async def test_nothing_is_kept_of_a_task_whose_configs_are_gone(autojump_clock: object) -> None:
    """Tasks come and go by the million; each may have had a webhook."""
    store = InMemoryPushConfigStore()
    assert repr(store) == "<InMemoryPushConfigStore: 0 tasks>"
    for id_ in ("1", "2"):
        await store.put(config("a", id_), owner="")
    await store.put(config("b", "1"), owner="")
    assert repr(store) == "<InMemoryPushConfigStore: 2 tasks>"
    await store.delete("a", "1")
    await store.delete("a", "2")
    await store.delete("b")
    await store.delete("c", "x")
    await store.list("d")
    await store.get("e", "x")
    assert repr(store) == "<InMemoryPushConfigStore: 0 tasks>"


@within(5)
async def test_secrets_are_not_shown(autojump_clock: object) -> None:
    store = InMemoryPushConfigStore()
    await store.put(config("a", "1", token="s3cret"), owner="")
    assert "s3cret" not in repr(store)
