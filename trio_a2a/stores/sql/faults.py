"""What drivers raise, as store errors.

Texts of drivers are for the log of the operator: they name hosts and tables. Statements and their parameters, which
hold what users wrote, are never passed on, and a password is blotted out wherever it turns up.
"""

from typing import Any, final

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from ...errors import StoreError, TaskPersistenceError
from .engine import passwords_of

__all__ = ["Faults"]

# Enough for the sentence that a server begins with.
_TEXT_LENGTH = 300
# PostgreSQL's serialization failure and deadlock; MySQL's deadlock.
_DEADLOCK_STATES = frozenset({"40001", "40P01"})
_MYSQL_DEADLOCK = 1213


@final
class Faults:
    """Tells apart the failures of one database's driver.

    Args:
        engine: The database.
    """

    def __init__(self, engine: Engine) -> None:
        self._dialect = engine.dialect
        dbapi: Any = engine.dialect.loaded_dbapi
        self.any: tuple[type[BaseException], ...] = (dbapi.Error, SQLAlchemyError, OSError)
        """What the driver raises: everything that is the database's failure and not a bug of ours."""
        self._integrity = dbapi.IntegrityError
        self._trouble = (dbapi.OperationalError, dbapi.InternalError)
        self._passwords = passwords_of(engine.url)

    def is_duplicate(self, error: BaseException) -> bool:
        """Tell whether a row with the same key is there already."""
        return isinstance(error, (self._integrity, IntegrityError))

    def is_disconnect(self, error: BaseException, connection: Any) -> bool:
        """Tell whether the connection is gone, so that the work may be tried on a new one.

        Args:
            error: What was raised.
            connection: The driver's connection.
        """
        if isinstance(error, DBAPIError):
            return error.connection_invalidated or self.is_disconnect(error.orig or OSError(), connection)
        if isinstance(error, OSError):
            return True
        return isinstance(error, self.any) and self._dialect.is_disconnect(error, connection, None)  # type: ignore[arg-type]

    def is_trouble(self, error: BaseException) -> bool:
        """Tell whether the database could not do what it was asked: not the fault of what it was asked to do."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        return isinstance(cause, self._trouble) and not self.is_retryable(error)

    def is_retryable(self, error: BaseException) -> bool:
        """Tell whether the database has rolled the transaction back and asks for it to be tried again: a deadlock."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        return getattr(cause, "sqlstate", None) in _DEADLOCK_STATES or (
            isinstance(cause, self.any) and cause.args[:1] == (_MYSQL_DEADLOCK,)
        )

    def store_error(self, what: str, error: BaseException, *, task_id: str | None = None) -> StoreError:
        """Return the failure as it leaves the store, with the driver's as its cause.

        Args:
            what: What was tried, as a clause: "the task could not be read".
            error: What was raised.
            task_id: The task concerned.
        """
        if isinstance(error, StoreError):
            return error
        cause: BaseException = error
        if isinstance(error, DBAPIError) and error.orig is not None:
            cause = error.orig
        said = " ".join(str(cause).split())[:_TEXT_LENGTH]
        for password in self._passwords:
            said = said.replace(password, "***")
        made = TaskPersistenceError(f"{what}: {type(cause).__name__}: {said}", task_id=task_id)
        made.__cause__ = cause
        return made
