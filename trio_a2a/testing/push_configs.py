"""The suite for stores of push configurations.

Every check gets a store of its own. The suite sets no deadline, because a store may work in threads and then Trio's
autojump clock would jump over it: run it under ``trio.fail_after``.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import attrs
import trio
import trio.testing

from ..abc import PushConfigStore
from ..types import AuthenticationInfo, TaskPushNotificationConfig

__all__ = ["check_push_config_store"]

_URL = "https://example.com/hook"


async def check_push_config_store(open_store: Callable[[], AbstractAsyncContextManager[PushConfigStore]]) -> None:
    """Check that a store meets the obligations of `PushConfigStore`.

    Args:
        open_store: Returns an async context manager whose value is a fresh, empty store.

    Raises:
        AssertionError: The store breaks an obligation; the text says which.
    """
    for check in (
        _unknown_configs,
        _what_is_put_is_read,
        _replacing,
        _ids_of_each_task,
        _odd_ids,
        _pages,
        _deleting,
        _many_writers,
        _cancelled_puts,
        _checkpoints,
    ):
        async with open_store() as store:
            await check(store)


# -------------------------------------------------------------------------------------------------------- single checks


async def _unknown_configs(store: PushConfigStore) -> None:
    assert await store.get("t", "c") is None, "get() of an unknown config returns None"
    assert await _ids(store, "t") == [], "list() of an unknown task is empty"
    await store.delete("t", "c")
    await store.delete("t")
    await store.put(_config("t", "c"), owner="alice")
    assert await store.get("t", "other") is None, "get() of an unknown config returns None"
    assert await store.get("other", "c") is None, "get() of an unknown task's config returns None"
    await store.delete("t", "other")
    await store.delete("other")
    assert await _ids(store, "t") == ["c"], "deleting what is unknown removes nothing"


async def _what_is_put_is_read(store: PushConfigStore) -> None:
    config = TaskPushNotificationConfig(
        task_id="t",
        id="c",
        tenant="acme",
        url=f"{_URL}?a=1&b=ünï",
        token="t0k=en",  # noqa: S106 - no secret
        authentication=AuthenticationInfo(scheme="Bearer", credentials="s3cret \N{SNOWMAN}"),
    )
    await store.put(config, owner="alice")
    assert await store.get("t", "c") == config, "a config is read as it was put"
    assert list(await store.list("t")) == [config], "a config is listed as it was put, with its secrets"
    plain = _config("t", "plain")
    await store.put(plain, owner="")
    assert await store.get("t", "plain") == plain, "a config without secrets is read as it was put"


async def _replacing(store: PushConfigStore) -> None:
    first, second = _config("t", "c"), attrs.evolve(_config("t", "c"), url=f"{_URL}/2")
    await store.put(first, owner="alice")
    await store.put(second, owner="alice")
    assert await store.get("t", "c") == second, "a config with the same task and id is replaced"
    assert list(await store.list("t")) == [second], "a config that was replaced is gone"


async def _ids_of_each_task(store: PushConfigStore) -> None:
    configs = [_config(task_id, id_) for task_id in ("a", "b") for id_ in ("1", "2")]
    for config in configs:
        await store.put(config, owner="alice")
    for config in configs:
        assert await store.get(config.task_id, config.id) == config, "a config's id is unique within its task only"
    assert list(await store.list("a")) == configs[:2], "only the task's configs are listed"
    await store.delete("a", "1")
    assert await _ids(store, "a") == ["2"], "a deleted config is gone"
    assert await _ids(store, "b") == ["1", "2"], "deleting a config leaves those of other tasks"


async def _odd_ids(store: PushConfigStore) -> None:
    odd = ["with space", "a/b", "a%2Fb", "A", "a", "ünï", "\N{SNOWMAN}", "'; --", "x" * 200]
    for id_ in odd:
        await store.put(_config(f"task {id_}", id_), owner="alice")
        await store.put(_config("t", id_), owner="alice")
    for id_ in odd:
        assert await store.get(f"task {id_}", id_) is not None, "an id may hold anything"
        assert await _ids(store, f"task {id_}") == [id_], "a task id may hold anything"
    assert sorted(await _ids(store, "t")) == sorted(odd), "ids are case-sensitive"


async def _pages(store: PushConfigStore) -> None:
    # Not in their order, and not all of the same length.
    ids = [f"{number:02}" for number in range(25)] + ["1", "2", "a", "Z"]
    for id_ in ids[::-2] + ids[-2::-2]:
        await store.put(_config("t", id_), owner="alice")
    whole = await _ids(store, "t")
    assert whole == sorted(ids), "configs are listed in the order of their ids, by code point"
    for size in (1, 7, len(ids) - 1, len(ids), len(ids) + 1):
        found: list[str] = []
        after = ""
        while page := await _ids(store, "t", after=after, limit=size):
            assert len(page) <= size, "limit bounds a page"
            found += page
            after = page[-1]
            if len(found) > len(ids):
                break  # it begins with what the page before ended with, and would go on for ever
        assert found == whole, f"pages of {size} make up the whole list"
    assert await _ids(store, "t", after="04x") == whole[whole.index("05") :], "after need not be the id of a config"
    await store.delete("t", "05")
    assert await _ids(store, "t", after="05", limit=1) == ["06"], "a page begins behind a config that is gone"
    assert await _ids(store, "t", after=whole[-1]) == [], "behind the last there is nothing"


async def _deleting(store: PushConfigStore) -> None:
    for task_id in ("a", "b"):
        for id_ in ("1", "2", "3"):
            await store.put(_config(task_id, id_), owner="alice")
    await store.delete("a", "2")
    await store.delete("a", "2")
    assert await store.get("a", "2") is None, "a deleted config is gone"
    assert await _ids(store, "a") == ["1", "3"], "deleting a config leaves the others of its task"
    await store.delete("a")
    assert await _ids(store, "a") == [], "without a config's id, all of the task's are deleted"
    assert await store.get("a", "1") is None, "without a config's id, all of the task's are deleted"
    assert await _ids(store, "b") == ["1", "2", "3"], "deleting a task's configs leaves those of the others"
    await store.put(_config("a", "2"), owner="bob")
    assert await _ids(store, "a") == ["2"], "a config may be put again"


async def _many_writers(store: PushConfigStore) -> None:
    async def write(number: int) -> None:
        await store.put(_config("t", f"{number % 10}"), owner="alice")
        await store.put(_config(f"t{number}", "c"), owner="alice")

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(write, number)
    assert await _ids(store, "t") == [f"{number}" for number in range(10)], "writers at once do not lose each other's"
    for number in range(20):
        assert await _ids(store, f"t{number}") == ["c"], "writers of different tasks do not disturb each other"


async def _cancelled_puts(store: PushConfigStore) -> None:
    config = _config("t", "c")
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.put(config, owner="alice")
    assert await store.get("t", "c") in {None, config}, "a cancelled put is done or not done"
    await store.put(config, owner="alice")
    assert list(await store.list("t")) == [config], "a put may be tried again"


async def _checkpoints(store: PushConfigStore) -> None:
    calls: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("put", lambda: store.put(_config("t", "c"), owner="alice")),
        ("get", lambda: store.get("t", "c")),
        ("list", lambda: store.list("t")),
        ("delete", lambda: store.delete("t", "c")),
    ]
    for name, call in calls:
        try:
            with trio.testing.assert_checkpoints():
                await call()
        except AssertionError:
            raise AssertionError(f"{name}() is a checkpoint") from None


# -------------------------------------------------------------------------------------------------------------- helpers


def _config(task_id: str, id_: str) -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(task_id=task_id, id=id_, url=_URL)


async def _ids(store: PushConfigStore, task_id: str, *, after: str = "", limit: int | None = None) -> list[str]:
    return [config.id for config in await store.list(task_id, after=after, limit=limit)]
