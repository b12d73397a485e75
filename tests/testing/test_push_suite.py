"""The suite for stores of push configurations finds what is broken: each of these is a good store with one fault."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from tests.deadline import within
from trio_a2a.abc import PushConfigStore
from trio_a2a.stores import InMemoryPushConfigStore
from trio_a2a.testing import check_push_config_store
from trio_a2a.types import TaskPushNotificationConfig

Config = TaskPushNotificationConfig


class Good(PushConfigStore):
    def __init__(self) -> None:
        self.inner = InMemoryPushConfigStore()

    async def put(self, config: Config, *, owner: str) -> None:
        await self.inner.put(config, owner=owner)

    async def get(self, task_id: str, config_id: str) -> Config | None:
        return await self.inner.get(task_id, config_id)

    async def list(self, task_id: str, *, after: str = "", limit: int | None = None) -> Sequence[Config]:
        return await self.inner.list(task_id, after=after, limit=limit)

    async def delete(self, task_id: str, config_id: str | None = None) -> None:
        await self.inner.delete(task_id, config_id)


class ForgetsSecrets(Good):
    async def put(self, config: Config, *, owner: str) -> None:
        await self.inner.put(attrs.evolve(config, token=""), owner=owner)


class KeepsTheFirst(Good):
    async def put(self, config: Config, *, owner: str) -> None:
        if await self.inner.get(config.task_id, config.id) is None:
            await self.inner.put(config, owner=owner)


class KeepsBoth(Good):
    async def put(self, config: Config, *, owner: str) -> None:
        if await self.inner.get(config.task_id, config.id) is not None:
            config = attrs.evolve(config, id=f"{config.id}-again")
        await self.inner.put(config, owner=owner)


class OneListForAll(Good):
    async def put(self, config: Config, *, owner: str) -> None:
        await self.inner.put(attrs.evolve(config, task_id=""), owner=owner)

    async def get(self, task_id: str, config_id: str) -> Config | None:
        found = await self.inner.get("", config_id)
        return None if found is None else attrs.evolve(found, task_id=task_id)

    async def list(self, task_id: str, *, after: str = "", limit: int | None = None) -> Sequence[Config]:
        found = await self.inner.list("", after=after, limit=limit)
        return tuple(attrs.evolve(config, task_id=task_id) for config in found)


class IgnoresCase(Good):
    async def put(self, config: Config, *, owner: str) -> None:
        await self.inner.put(attrs.evolve(config, id=config.id.lower()), owner=owner)

    async def get(self, task_id: str, config_id: str) -> Config | None:
        return await self.inner.get(task_id, config_id.lower())


class ByLength(Good):
    async def list(self, task_id: str, *, after: str = "", limit: int | None = None) -> Sequence[Config]:
        found = await self.inner.list(task_id)
        ordered = sorted(found, key=lambda config: (len(config.id), config.id))
        return ordered[:limit] if not after else [c for c in ordered if c.id > after][:limit]


class NoLimit(Good):
    async def list(self, task_id: str, *, after: str = "", limit: int | None = None) -> Sequence[Config]:
        return await self.inner.list(task_id, after=after)


class Inclusive(Good):
    async def list(self, task_id: str, *, after: str = "", limit: int | None = None) -> Sequence[Config]:
        return [config for config in await self.inner.list(task_id) if config.id >= after][:limit]


class NeedsTheRow(Good):
    async def list(self, task_id: str, *, after: str = "", limit: int | None = None) -> Sequence[Config]:
        ids = [config.id for config in await self.inner.list(task_id)]
        found = await self.inner.list(task_id)
        return found[ids.index(after) + 1 if after in ids else 0 :][:limit]


class DeletesAll(Good):
    async def delete(self, task_id: str, config_id: str | None = None) -> None:
        await self.inner.delete(task_id)


class DeletesOne(Good):
    async def delete(self, task_id: str, config_id: str | None = None) -> None:
        await self.inner.delete(task_id, config_id or "1")


class MissesTheUnknown(Good):
    async def get(self, task_id: str, config_id: str) -> Config | None:
        found = await self.inner.list(task_id)
        return next((config for config in found if config.id == config_id), found[0] if found else None)


class LosesWriters(Good):
    def __init__(self) -> None:
        super().__init__()
        self.writing = False

    async def put(self, config: Config, *, owner: str) -> None:
        busy, self.writing = self.writing, True
        await trio.lowlevel.checkpoint()
        if not busy:
            await self.inner.put(config, owner=owner)
        self.writing = False


class NoCheckpoint(Good):
    async def get(self, task_id: str, config_id: str) -> Config | None:
        return self.inner._configs.get(task_id, {}).get(config_id)


def opening(make: Callable[[], Any]) -> Any:
    @asynccontextmanager
    async def open_it() -> AsyncIterator[Any]:
        yield make()

    return open_it


@pytest.mark.requirement("S7-CONFORMANCE")
@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (Good, None),
        (ForgetsSecrets, "read as it was put"),
        (KeepsTheFirst, "is replaced"),
        (KeepsBoth, "is replaced"),
        (OneListForAll, "get.. of an unknown task's config returns None"),
        (IgnoresCase, "may hold anything"),
        (ByLength, "order of their ids"),
        (NoLimit, "limit bounds a page"),
        (NeedsTheRow, "after need not be"),
        (DeletesAll, "deleting what is unknown removes nothing"),
        (DeletesOne, "all of the task's are deleted"),
        (MissesTheUnknown, "get.. of an unknown config returns None"),
        (LosesWriters, "do not lose each other's"),
        (NoCheckpoint, "get.. is a checkpoint"),
    ],
)
@within(20)
async def test_the_push_config_suite_finds_what_is_broken(
    autojump_clock: object, broken: Any, says: str | None
) -> None:
    if says is None:
        await check_push_config_store(opening(broken))
        return
    with pytest.raises(AssertionError, match=says):
        await check_push_config_store(opening(broken))


@pytest.mark.requirement("S7-CONFORMANCE")
@within(20)
async def test_the_push_config_suite_does_not_run_in_circles_with_a_store_that_does(autojump_clock: object) -> None:
    """A page that begins with the last row of the one before would never end."""
    with pytest.raises(AssertionError, match="pages of 1 make up"):
        await check_push_config_store(opening(Inclusive))
