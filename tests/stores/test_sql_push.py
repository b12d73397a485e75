"""Push configurations at rest: encrypted, and never plain text where they should not be."""

import logging

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text

from tests.deadline import within
from tests.stores.databases import connect_to
from trio_a2a.errors import TaskSerializationError
from trio_a2a.stores import open_sql_push_config_store
from trio_a2a.types import AuthenticationInfo, TaskPushNotificationConfig

SECRETS = ("t0ken", "cr3dentials", "qu3ry")


def config(task_id: str = "t", id_: str = "c") -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(
        task_id=task_id,
        id=id_,
        url="https://example.com/hook?key=qu3ry",
        token="t0ken",
        authentication=AuthenticationInfo(scheme="Bearer", credentials="cr3dentials"),
    )


def bodies(url: str) -> list[bytes]:
    engine = connect_to(url)
    with engine.connect() as connection:
        found = [bytes(row[0]) for row in connection.execute(text("SELECT body FROM a2a_push_configs"))]
    engine.dispose()
    return found


@within(30)
async def test_what_is_stored_with_a_key_shows_no_secret(url: str) -> None:
    key = Fernet.generate_key()
    async with open_sql_push_config_store(url, encryption_key=key) as store:
        await store.put(config(), owner="alice")
        assert await store.get("t", "c") == config()
        assert list(await store.list("t")) == [config()]
    (body,) = bodies(url)
    assert not any(secret.encode() in body for secret in SECRETS)
    async with open_sql_push_config_store(url, encryption_key=key.decode()) as store:
        assert await store.get("t", "c") == config()


@within(30)
async def test_with_a_wrong_key_or_none_a_secret_is_an_error(sqlite_url: str) -> None:
    async with open_sql_push_config_store(sqlite_url, encryption_key=Fernet.generate_key()) as store:
        await store.put(config(), owner="")
    for wrong in (Fernet.generate_key(), [Fernet.generate_key(), Fernet.generate_key()], None):
        async with open_sql_push_config_store(sqlite_url, encryption_key=wrong) as store:
            for read in (lambda store=store: store.get("t", "c"), lambda store=store: store.list("t")):
                with pytest.raises(TaskSerializationError, match="key") as refusal:
                    await read()
                assert not any(secret in repr(refusal.value) for secret in SECRETS)


@within(30)
async def test_keys_can_be_changed_one_after_the_other(sqlite_url: str) -> None:
    old, new = Fernet.generate_key(), Fernet.generate_key()
    async with open_sql_push_config_store(sqlite_url, encryption_key=old) as store:
        await store.put(config("a"), owner="")
        await store.put(config("b"), owner="")
    async with open_sql_push_config_store(sqlite_url, encryption_key=[new, old]) as store:
        assert await store.get("a", "c") == config("a")
        await store.put(config("a"), owner="")
    async with open_sql_push_config_store(sqlite_url, encryption_key=new) as store:
        assert await store.get("a", "c") == config("a")
        with pytest.raises(TaskSerializationError):
            await store.get("b", "c")


@within(30)
async def test_what_was_stored_without_a_key_is_read_with_one(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who begins to encrypt keeps what there is; without a key a warning says so."""
    with caplog.at_level(logging.WARNING, "trio_a2a.stores"):
        async with open_sql_push_config_store(sqlite_url) as store:
            await store.put(config(), owner="")
    assert "without encryption" in caplog.text
    async with open_sql_push_config_store(sqlite_url, encryption_key=Fernet.generate_key()) as store:
        assert await store.get("t", "c") == config()


@within(30)
async def test_an_encrypted_config_cannot_be_moved_to_another_task(sqlite_url: str) -> None:
    """Its webhook would get the other task's events."""
    async with open_sql_push_config_store(sqlite_url, encryption_key=Fernet.generate_key()) as store:
        await store.put(config(), owner="")
        engine = connect_to(sqlite_url)
        with engine.begin() as connection:
            connection.execute(text("UPDATE a2a_push_configs SET task_id = 'other'"))
        engine.dispose()
        with pytest.raises(TaskSerializationError, match="another"):
            await store.get("other", "c")


@pytest.mark.parametrize("key", ["short", "", b"x" * 44, [], ["short"]])
@within(30)
async def test_what_is_no_key_is_refused(sqlite_url: str, key: object) -> None:
    with pytest.raises(ValueError, match="encryption_key"):
        async with open_sql_push_config_store(sqlite_url, encryption_key=key):  # type: ignore[arg-type]
            pass


@within(30)
async def test_ids_that_cannot_be_stored_are_refused_and_unknown(sqlite_url: str) -> None:
    async with open_sql_push_config_store(sqlite_url) as store:
        for task_id, id_ in (("x" * 513, "c"), ("t", "nul\0")):
            with pytest.raises(TaskSerializationError, match="512 bytes"):
                await store.put(config(task_id, id_), owner="")
            assert await store.get(task_id, id_) is None
            await store.delete(task_id, id_)
        assert not await store.list("x" * 513)
