"""Migrations: they lead to the tables that the stores make, from nothing, from half of them, and several at once."""

import importlib.metadata
import sys
from pathlib import Path

import pytest
import trio
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text

from tests.deadline import within
from tests.stores.databases import KINDS, connect_to, database
from tests.stores.writers import TaskWriter
from trio_a2a.errors import StoreError
from trio_a2a.stores import open_sql_store
from trio_a2a.stores.sql import maintenance, migrating
from trio_a2a.stores.sql.migrating import Migration, current_version, migrate
from trio_a2a.stores.sql.schema import SCHEMA_VERSION, metadata
from trio_a2a.testing import task


def execute(url: str, *statements: str) -> None:
    engine = connect_to(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def described(engine: Engine) -> list[tuple[object, ...]]:
    """The tables in the database's own words: types, lengths, collations, keys, indexes."""
    queries = {
        "sqlite": ["SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"],
        "postgresql": [
            """SELECT table_name, column_name, ordinal_position, data_type, character_maximum_length, collation_name,
               is_nullable, column_default FROM information_schema.columns WHERE table_schema = current_schema()""",
            """SELECT tablename, indexname, replace(indexdef, current_schema(), '') FROM pg_indexes
               WHERE schemaname = current_schema()""",
            """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
               WHERE connamespace = current_schema()::regnamespace""",
        ],
    }
    with engine.connect() as connection:
        if engine.dialect.name in queries:
            found = [tuple(row) for query in queries[engine.dialect.name] for row in connection.execute(text(query))]
        else:
            names = inspect(connection).get_table_names()
            shown = [connection.execute(text(f"SHOW CREATE TABLE {name}")).one()[1] for name in names]
            # A table's indexes have no order.
            found = [tuple(sorted(line.rstrip(",") for line in one.splitlines())) for one in shown]
    return sorted(found, key=repr)


@pytest.mark.parametrize("kind", KINDS)
@within(60)
async def test_a_migration_from_nothing_makes_the_tables_that_a_store_makes(kind: str, tmp_path: Path) -> None:
    with database(kind, tmp_path) as made, database(kind, tmp_path) as migrated:
        async with open_sql_store(made):
            pass
        assert migrate(migrated) == Migration(before=None, after=SCHEMA_VERSION)
        one, other = connect_to(made), connect_to(migrated)
        assert len(described(one)) >= 6
        assert described(one) == described(other)
        for engine in (one, other):
            with engine.connect() as connection:
                context = MigrationContext.configure(connection, opts={"version_table": "a2a_schema_version"})
                assert compare_metadata(context, metadata) == []
                assert context.get_current_revision() == SCHEMA_VERSION
            engine.dispose()
        assert current_version(made) == current_version(migrated) == SCHEMA_VERSION
        async with open_sql_store(migrated, create=False) as store:
            await store.commit([TaskWriter("t").change(task("t"))])
            assert await store.get("t") is not None


@within(30)
async def test_migrating_again_changes_nothing(url: str) -> None:
    async with open_sql_store(url) as store:
        await store.commit([TaskWriter("t").change(task("t"))])
        assert migrate(url) == Migration(before=SCHEMA_VERSION, after=SCHEMA_VERSION)
        assert await store.get("t") is not None


@within(30)
async def test_a_migration_that_was_broken_off_is_finished(url: str) -> None:
    """MySQL cannot roll back what has made half of the tables."""
    migrate(url)
    whole = connect_to(url)
    before = described(whole)
    gone = "DROP INDEX a2a_tasks_by_end" + (" ON a2a_tasks" if url.startswith("mariadb") else "")
    execute(url, gone, "DROP TABLE a2a_push_configs", "DELETE FROM a2a_schema_version")
    assert current_version(url) is None
    assert migrate(url) == Migration(before=None, after=SCHEMA_VERSION)
    assert described(whole) == before
    whole.dispose()


@within(30)
async def test_tables_that_a_store_made_half_of_are_finished_by_the_next(url: str) -> None:
    migrate(url)
    whole = connect_to(url)
    before = described(whole)
    gone = "DROP INDEX a2a_tasks_by_end" + (" ON a2a_tasks" if url.startswith("mariadb") else "")
    execute(url, gone, "DELETE FROM a2a_schema_version")
    async with open_sql_store(url):
        pass
    assert described(whole) == before
    whole.dispose()


@within(60)
async def test_several_may_migrate_at_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One does it; the others wait, and find it done. Without what keeps the threads of one process apart."""
    begun: list[str | None] = []
    upgrade = migrating._upgrade

    def counted(connection: object, before: str | None) -> None:
        begun.append(before)
        upgrade(connection, before)  # type: ignore[arg-type]

    class Open:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(migrating, "_upgrade", counted)
    monkeypatch.setattr(migrating, "_one_at_a_time", Open())
    outcomes: list[Migration] = []

    async def one() -> None:
        outcomes.append(await trio.to_thread.run_sync(migrate, url))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(one)
    assert begun == [None]
    assert sorted(outcome.before or "" for outcome in outcomes) == ["", *[SCHEMA_VERSION] * 3]


@pytest.mark.parametrize(
    ("kind", "lock"),
    [
        ("postgresql", "SELECT pg_advisory_lock(x'7472696F6132610A'::bigint)"),
        ("mariadb", "SELECT get_lock(CONCAT('trio_a2a:', MD5(DATABASE())), 0)"),
    ],
)
def test_a_migration_that_waits_too_long_for_another_one_gives_up(
    kind: str, lock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (migrating, maintenance):
        monkeypatch.setattr(module, "LOCK_SECONDS", 0.2)
    with database(kind, tmp_path) as url:
        engine = connect_to(url)
        with engine.connect() as connection:
            connection.execute(text(lock))
            with pytest.raises(StoreError, match=r"another process|lock timeout"):
                migrate(url)
        engine.dispose()
        migrate(url)


@within(30)
async def test_tables_of_a_version_before_the_first_are_brought_up_and_keep_their_rows(url: str) -> None:
    async with open_sql_store(url) as store:
        await store.commit([TaskWriter("t").change(task("t"))])
    execute(url, "UPDATE a2a_schema_version SET version_num = '0000'")
    with pytest.raises(StoreError, match=r"version 0000.*trio-a2a db migrate"):
        async with open_sql_store(url):
            pass
    assert migrate(url) == Migration(before="0000", after=SCHEMA_VERSION)
    async with open_sql_store(url, create=False) as store:
        assert await store.get("t") is not None


@within(30)
async def test_tables_of_a_later_version_are_refused_by_opening_and_by_migrating(url: str) -> None:
    """Neither of them knows what is in there."""
    migrate(url)
    execute(url, "UPDATE a2a_schema_version SET version_num = '0099'")
    with pytest.raises(StoreError, match=r"version 0099.*too old.*pip install --upgrade"):
        async with open_sql_store(url):
            pass
    with pytest.raises(StoreError, match=r"version 0099.*too old"):
        migrate(url)
    assert current_version(url) == "0099"


def test_an_sqlite_file_that_is_not_there_is_made_by_migrating_only(tmp_path: Path) -> None:
    file = tmp_path / "100% tasks.db"
    with pytest.raises(StoreError, match=r"there is no file .*trio-a2a db migrate 'sqlite:////.*tasks\.db'"):
        current_version(f"sqlite:///{file}")
    assert not file.exists()
    migrate(f"sqlite:///{file}")
    assert current_version(f"sqlite:///{file}") == SCHEMA_VERSION


@within(30)
async def test_a_store_that_may_not_make_tables_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="trio-a2a db migrate"):
        async with open_sql_store(f"sqlite:///{tmp_path / 'none.db'}", create=False):
            pass
    assert not files(tmp_path)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_what_cannot_be_reached_is_an_error_without_the_password(kind: str) -> None:
    for work in (migrate, current_version):
        with pytest.raises(StoreError) as refusal:
            work(f"{kind}://nobody:s3cret@127.0.0.1:1/db")
        assert "s3cret" not in str(refusal.value)


def test_without_alembic_migrating_is_an_error_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str
) -> None:
    monkeypatch.setitem(sys.modules, "alembic", None)
    with pytest.raises(ImportError, match=r"trio-a2a\[sql\]"):
        migrate(sqlite_url)


def test_the_scripts_are_modules_of_the_package() -> None:
    """So that the wheel has them: it holds what is below the package's folder."""
    folder = Path(migrating.__file__).with_name("migrations")
    assert (folder / "env.py").is_file()
    assert [path.name for path in sorted((folder / "versions").glob("v*.py"))][-1].startswith(f"v{SCHEMA_VERSION}_")
    assert importlib.metadata.version("alembic")
