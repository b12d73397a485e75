"""Opening a database: URLs, drivers, versions of the tables, and what is never told."""

import sys

import pytest
import trio
from sqlalchemy import text

import trio_a2a.stores
from tests.deadline import within
from tests.stores.databases import connect_to
from tests.stores.writers import TaskWriter
from trio_a2a.errors import StoreError, TaskPersistenceError
from trio_a2a.stores import open_sql_push_config_store, open_sql_store
from trio_a2a.testing import task


@pytest.mark.parametrize(
    "url",
    [
        "oracle://scott:tiger@host/db",
        "postgresql+asyncpg://scott:tiger@host/db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "tiger",
        "",
    ],
)
@within(30)
async def test_what_is_no_url_of_a_supported_database_is_refused_with_the_choices(url: str) -> None:
    for open_store in (open_sql_store, open_sql_push_config_store):
        with pytest.raises(ValueError, match="sqlite:///FILE") as refusal:
            async with open_store(url):
                pass
        assert "tiger" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grace_period", -1),
        ("grace_period", float("nan")),
        ("readers", 0),
        ("connect_timeout", 0),
        ("statement_timeout", float("inf")),
        ("lock_timeout", -1),
        ("synchronous", "OFF"),
        ("lease", 0),
        ("lease", float("inf")),
        ("on_orphan", "forget"),
    ],
)
@within(30)
async def test_numbers_that_make_no_sense_are_refused(sqlite_url: str, name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        async with open_sql_store(sqlite_url, **{name: value}):  # type: ignore[arg-type]
            pass


@pytest.mark.requirement("S2-EXTRAS")
@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [("postgresql://host/db", "psycopg", "postgres"), ("mariadb://host/db", "pymysql", "mysql")],
)
@within(30)
async def test_a_missing_driver_is_an_error_that_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, url: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"trio-a2a\[{extra}\]"):
        async with open_sql_store(url):
            pass


@pytest.mark.requirement("S2-EXTRAS")
def test_without_sqlalchemy_the_names_are_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("trio_a2a.stores.sql")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delattr(trio_a2a.stores, "sql")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(ImportError, match=r"trio-a2a\[sql\]"):
        trio_a2a.stores.open_sql_store  # noqa: B018 - looked up when asked for
    with pytest.raises(AttributeError, match="open_nosql_store"):
        trio_a2a.stores.open_nosql_store  # noqa: B018


@within(30)
async def test_a_password_is_in_no_error_and_no_repr(url: str) -> None:
    for wrong in ("postgresql://nobody:s3cret@127.0.0.1:1/db", "mariadb://nobody:s3cret@127.0.0.1:1/db"):
        with pytest.raises(TaskPersistenceError, match="cannot be opened") as refusal:
            async with open_sql_store(wrong, connect_timeout=1):
                pass
        assert "s3cret" not in str(refusal.value)
        assert "s3cret" not in repr(refusal.value.__cause__)
    async with open_sql_store(url) as store, open_sql_push_config_store(url) as configs:
        assert repr(store).startswith("<SqlTaskStore ")
        assert repr(configs).startswith("<SqlPushConfigStore ")
        assert "s3cret" not in repr(store)


@within(30)
async def test_tables_are_made_only_where_that_is_wanted(url: str) -> None:
    with pytest.raises(StoreError, match="trio-a2a db migrate"):
        async with open_sql_store(url, create=False):
            pass
    async with open_sql_store(url) as store:
        await store.commit([TaskWriter("t").change(task("t"))])
    async with open_sql_store(url, create=False) as store:
        assert await store.get("t") is not None


@within(30)
async def test_tables_of_another_version_are_refused_with_the_command(url: str) -> None:
    async with open_sql_store(url):
        pass
    engine = connect_to(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE a2a_schema_version SET version_num = '0000'"))
    engine.dispose()
    with pytest.raises(StoreError, match=r"version 0000.*trio-a2a db migrate"):
        async with open_sql_store(url):
            pass


@within(30)
async def test_several_may_make_the_tables_at_once(url: str) -> None:
    async def open_and_write(number: int) -> None:
        async with open_sql_store(url) as store:
            await store.commit([TaskWriter(f"t{number}").change(task(f"t{number}"))])

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(open_and_write, number)
    async with open_sql_store(url, create=False) as store:
        for number in range(4):
            assert await store.get(f"t{number}") is not None
