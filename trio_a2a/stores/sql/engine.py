"""From a URL to connections: which drivers, with which settings and time-outs.

There are two engines for a database. The writer's has one connection, in transactions; on SQLite each begins with BEGIN
IMMEDIATE, because a transaction that turns from reading to writing cannot wait for another one. The readers' has a few
connections in autocommit, where a statement is its own transaction and nothing is left open.
"""

import importlib
import math
from typing import Any, Final, Literal

import attrs
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool, QueuePool

from .silence import bound_mysql, bound_postgresql

__all__ = ["EngineOptions", "make_engines", "parse_url", "passwords_of", "shown"]

_CHOICES = "sqlite:///FILE, postgresql://..., mysql://... or mariadb://..."
# The driver of each kind of database, the module that it comes in, and the extra that installs it.
_DRIVERS: Final = {
    "sqlite": ("sqlite+pysqlite", "sqlite3", "sql"),
    "postgresql": ("postgresql+psycopg", "psycopg", "postgres"),
    "postgres": ("postgresql+psycopg", "psycopg", "postgres"),
    "mysql": ("mysql+pymysql", "pymysql", "mysql"),
    "mariadb": ("mariadb+pymysql", "pymysql", "mysql"),
}
# How often a process that opens a new SQLite file gives way to others that do the same.
_SWITCHES: Final = 20

# The writer has five kinds of statements, each for 36 different numbers of rows; the driver's own limit is 128.
_SQLITE_STATEMENTS: Final = 256


@attrs.frozen(kw_only=True)
class EngineOptions:
    """Settings of the connections; times in seconds.

    Attributes:
        connect_timeout: How long making a connection may take.
        statement_timeout: How long one statement may take; SQLite has no such limit.
        lock_timeout: How long a statement waits for another one's lock.
        synchronous: SQLite only: when the disk is waited for.
        readers: Connections for reading.
    """

    connect_timeout: float
    statement_timeout: float
    lock_timeout: float
    synchronous: Literal["NORMAL", "FULL"]
    readers: int

    def __attrs_post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            ValueError: A time is not positive, there is no reader, or ``synchronous`` is not known.
        """
        for name in ("connect_timeout", "statement_timeout", "lock_timeout"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be a positive number of seconds, not {value!r}")
        if self.readers < 1:
            raise ValueError(f"readers must be at least 1, not {self.readers!r}")
        if self.synchronous not in {"NORMAL", "FULL"}:
            raise ValueError(f"synchronous must be 'NORMAL' or 'FULL', not {self.synchronous!r}")


def parse_url(url: str) -> URL:
    """Return the parsed URL, with its driver.

    Raises:
        ValueError: It is no URL of a database that is supported. The text does not repeat it: it may hold a password.
        ImportError: The driver is not installed; the text names the extra.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError(f"this is no URL of a database; use {_CHOICES}") from None
    kind, _, driver = parsed.drivername.partition("+")
    known = _DRIVERS.get(kind)
    if known is None or driver not in {"", known[0].partition("+")[2]}:
        raise ValueError(f"databases of the kind {parsed.drivername!r} are not supported; use {_CHOICES}")
    name, module, extra = known
    if kind == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise ValueError("SQLite needs a file, sqlite:///FILE; what need not be kept goes into an InMemoryTaskStore")
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{kind} databases need {module}: pip install 'trio-a2a[{extra}]'") from error
    return parsed.set(drivername=name)


def shown(url: URL) -> str:
    """Return the URL as it may be shown: without passwords, and as a user writes it."""
    open_ = url.difference_update_query([name for name in url.query if _is_secret(name)])
    return open_.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def passwords_of(url: URL) -> list[str]:
    """Return what must not be shown of a URL: PostgreSQL's driver takes a password as a parameter, too."""
    found = [str(url.password)] if url.password else []
    for name, value in url.query.items():
        if _is_secret(name):
            found += [value] if isinstance(value, str) else value
    return [secret for secret in found if secret]


def _is_secret(parameter: str) -> bool:
    return "pass" in parameter.lower()


def make_engines(url: URL, options: EngineOptions) -> tuple[Engine, Engine]:
    """Return the engines of the writer and of the readers; nothing is connected yet."""
    url, arguments = _connect_arguments(url, options)
    is_sqlite = url.get_backend_name() == "sqlite"
    # READ COMMITTED: MySQL's default locks gaps between keys, and writers of different tasks would wait for each other.
    isolation: dict[str, Any] = {} if is_sqlite else {"isolation_level": "READ COMMITTED"}
    writer = create_engine(url, connect_args=arguments, poolclass=NullPool, hide_parameters=True, **isolation)
    readers = create_engine(
        url,
        connect_args=arguments,
        poolclass=QueuePool,
        pool_size=options.readers,
        max_overflow=0,
        # In autocommit nothing is left to be rolled back.
        pool_reset_on_return=None,
        # As many threads as connections: none waits here.
        pool_timeout=options.connect_timeout,
        # The last one that was used is still open on the server, whatever its idle limit.
        pool_use_lifo=True,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
    )
    if is_sqlite:
        event.listen(writer, "connect", _sqlite_writer(options))
        event.listen(writer, "begin", _begin_immediate)
        event.listen(readers, "connect", _sqlite_reader)
    silence = options.statement_timeout + options.connect_timeout
    for engine in () if is_sqlite else (writer, readers):
        if url.get_backend_name() == "postgresql":
            bound_postgresql(engine, silence)
        else:
            bound_mysql(engine, greeting=options.connect_timeout, answers=silence)
            event.listen(engine, "connect", _mysql_session(options))
    return writer, readers


def _connect_arguments(url: URL, options: EngineOptions) -> tuple[URL, dict[str, Any]]:
    kind = url.get_backend_name()
    silence = options.statement_timeout + options.connect_timeout
    if kind == "sqlite":
        # Each connection is used by one thread at a time, not by the one that made it.
        return url, {
            "timeout": options.lock_timeout,
            "check_same_thread": False,
            "cached_statements": _SQLITE_STATEMENTS,
        }
    if kind == "postgresql":
        own = url.query.get("options")
        settings = (
            f"-c statement_timeout={_milliseconds(options.statement_timeout)} "
            f"-c lock_timeout={_milliseconds(options.lock_timeout)} "
            # A connection that broke without the server's notice would hold its rows' locks for hours. The first is
            # off behind a pipeline: what the driver sends last there does not start it again.
            f"-c idle_in_transaction_session_timeout={_milliseconds(silence)} "
            f"-c tcp_keepalives_idle={math.ceil(silence)} "
            f"-c tcp_keepalives_interval={math.ceil(silence / 3)} -c tcp_keepalives_count=3"
        )
        name = url.query.get("application_name", "trio-a2a")
        return url.difference_update_query(["options", "application_name"]), {
            "options": settings if own is None else f"{settings} {own if isinstance(own, str) else ' '.join(own)}",
            "connect_timeout": math.ceil(options.connect_timeout),
            # A server that does not answer at all is given up by the socket.
            "tcp_user_timeout": _milliseconds(silence),
            "keepalives_idle": math.ceil(silence),
            "application_name": name,
        }
    return url, {
        "charset": "utf8mb4",
        "connect_timeout": math.ceil(options.connect_timeout),
    }


def _sqlite_writer(options: EngineOptions) -> Any:
    def prepare(connection: Any, _: Any) -> None:
        # Without the driver's own transactions, which begin too late and not as IMMEDIATE.
        connection.isolation_level = None
        _switch_to_wal(connection)
        connection.execute(f"PRAGMA synchronous = {options.synchronous}")

    return prepare


def _switch_to_wal(connection: Any) -> None:
    """Turn on the write-ahead log, which the file then keeps.

    When two do it to a new file at once, one is refused at once and not after the lock's time-out: SQLite sees that
    they would wait for each other. A transaction does wait, until the other one has done it.
    """
    for is_last in (*[False] * _SWITCHES, True):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except connection.OperationalError:
            if is_last:
                raise
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        else:
            return


def _sqlite_reader(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA query_only = ON")


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _mysql_session(options: EngineOptions) -> Any:
    def prepare(connection: Any, _: Any) -> None:
        # MySQL limits reading statements only, and in another unit. MariaDB ends a transaction whose client has gone
        # without its notice, and would hold its rows' locks for hours.
        silence = math.ceil(options.statement_timeout + options.connect_timeout)
        limit = (
            f"max_statement_time = {options.statement_timeout}, idle_transaction_timeout = {silence}"
            if "mariadb" in connection.get_server_info().lower()
            else f"max_execution_time = {_milliseconds(options.statement_timeout)}"
        )
        with connection.cursor() as cursor:
            # Strict, because otherwise what does not fit is cut off with a warning.
            cursor.execute(
                f"SET SESSION {limit}, innodb_lock_wait_timeout = {math.ceil(options.lock_timeout)},"
                " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
            )

    return prepare


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
