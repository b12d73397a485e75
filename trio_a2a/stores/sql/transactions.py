"""Transactions on the writer's connection: a group in one, and what is done when that fails.

Everything here runs on the writer's thread. A group that fails is rolled back, and its commits are written again one by
one. After a lost connection a commit is tried once more on a new one; if the connection broke in the COMMIT, the log is
asked first whether that has happened. If no connection can be made, the rest of the group fails at once, and does not
wait for one time-out after the other.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, final

import attrs
import trio
from sqlalchemy import Connection, Engine, Transaction

from ...errors import StoreError, TaskConflictError
from .commit import PreparedCommit, StaleError, conflict_of, was_written, write
from .faults import Faults
from .statements import Statements

__all__ = ["Pending", "Transactions", "Work"]

_logger = logging.getLogger("trio_a2a.stores")

T = TypeVar("T")
Work = Callable[[Connection], Any]
"""What is called in a transaction of its own."""


@attrs.define(eq=False)
class Pending:
    """Something that a Trio task waits for.

    Attributes:
        work: A commit, or other work.
        repeatable: Whether the work may be done again where it is not known whether it was done.
        done: Set, on Trio's thread, when there is an outcome.
        taken: The thread has it. Like ``withdrawn`` it is changed under the writer's lock.
        withdrawn: Its caller has taken it back.
        result: What the work returned.
        failure: What went wrong.
    """

    work: PreparedCommit | Work
    repeatable: bool
    done: trio.Event = attrs.Factory(trio.Event)
    taken: bool = False
    withdrawn: bool = False
    result: Any = None
    failure: StoreError | None = None


class _LostError(Exception):
    """The connection was lost, with the driver's error as its cause; ``committing``: in the COMMIT."""

    def __init__(self, *, committing: bool) -> None:
        super().__init__()
        self.committing = committing


class _UnreachableError(Exception):
    """No connection could be made, with the driver's error as its cause."""


@final
class Transactions:
    """Owns the writer's connection.

    Args:
        engine: Makes the connection; transactions, no autocommit.
        statements: The database's dialect.
    """

    def __init__(self, engine: Engine, statements: Statements) -> None:
        self.engine = engine
        self._statements = statements
        self._faults = Faults(engine)
        self._connection: Connection | None = None

    def carry_out(self, group: list[Pending]) -> None:
        """Write commits of different tasks, or do one piece of other work; each then has its result or its failure."""
        commits = [pending.work for pending in group if isinstance(pending.work, PreparedCommit)]
        uncertain = False
        unreachable: StoreError | None = None
        if len(group) > 1:
            try:
                self._transact(lambda connection: self._write(connection, commits))
            except _UnreachableError as error:
                unreachable = self._unreachable(error)
            except _LostError as error:
                uncertain = error.committing
                _logger.info("the connection to the database was lost: %s", type(_cause(error)).__name__)
            except Exception as error:  # boundary of a group: whatever is wrong with one of its commits shows below
                _logger.info("%s commits are written one by one after a %s", len(group), type(error).__name__)
            else:
                return
        for pending in group:
            if unreachable is not None:
                pending.failure = _again(unreachable)
                continue
            try:
                pending.result = self._write_one(pending, uncertain=uncertain)
            except _UnreachableError as error:
                pending.failure = unreachable = self._unreachable(error)
            except StoreError as error:
                pending.failure = error

    def close(self) -> None:
        """Drop the connection; the next transaction makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self._faults.any):
                connection.invalidate()
            with suppress(*self._faults.any):
                connection.close()

    def _unreachable(self, error: _UnreachableError) -> StoreError:
        return self._faults.store_error("the database cannot be reached", _cause(error))

    def _write_one(self, pending: Pending, *, uncertain: bool) -> Any:
        """Write one commit, or do one piece of work; a second time on a new connection if the first one was lost.

        Args:
            pending: What is to be done.
            uncertain: It is not known whether it has been done already.
        """
        work = pending.work
        for is_last in (False, True):
            try:
                if not isinstance(work, PreparedCommit):
                    return self._transact(work)
                return self._transact(self._once, work, uncertain)
            except _LostError as error:
                uncertain = uncertain or error.committing
                if is_last or (uncertain and not pending.repeatable):
                    raise self._faults.store_error("the connection to the database was lost", _cause(error)) from None
            except _UnreachableError:
                raise  # of the whole group, not of this piece of work
            except Exception as error:  # boundary of one piece of work: it fails alone
                if is_last or not self._faults.is_retryable(error):
                    if uncertain and isinstance(work, PreparedCommit) and self._has_happened(work):
                        return None
                    raise self._failure_of(work, error) from None
        return None  # pragma: no cover - the second round returns or raises

    def _once(self, connection: Connection, commit: PreparedCommit, uncertain: bool) -> None:
        if not (uncertain and was_written(connection, commit)):
            self._write(connection, [commit])

    def _has_happened(self, commit: PreparedCommit) -> bool:
        """Tell whether a commit that failed has happened in its first, lost try.

        The server may have been at that COMMIT still while the log was asked before the second try, which then waited
        for the first one's locks and failed on its rows.
        """
        with suppress(_LostError, _UnreachableError, *self._faults.any):
            return self._transact(was_written, commit)
        return False

    def _write(self, connection: Connection, commits: Sequence[PreparedCommit]) -> None:
        write(connection.connection.driver_connection, commits, self._statements)

    def _failure_of(self, work: PreparedCommit | Work, error: BaseException) -> StoreError:
        """Return what a failed piece of work is to its caller."""
        if isinstance(error, StoreError):
            return error
        if not isinstance(error, (StaleError, *self._faults.any)):
            _logger.error("the SQL store failed in its own code", exc_info=error)
        if isinstance(work, PreparedCommit):
            task_id = next(iter(work.parts))
            if isinstance(error, StaleError) or self._faults.is_duplicate(error):
                with suppress(_LostError, _UnreachableError, *self._faults.any):
                    conflict = self._transact(conflict_of, work)
                    if conflict is not None:
                        return conflict
                return TaskConflictError("another writer is changing the task", task_id=task_id)
            return self._faults.store_error("the events could not be stored", error, task_id=task_id)
        return self._faults.store_error("the change could not be stored", error)

    def _transact(self, work: Callable[..., T], *args: Any) -> T:
        """Call ``work(connection, *args)`` in a transaction.

        Raises:
            _UnreachableError: There is no connection.
            _LostError: The connection was lost; it is dropped.
            Exception: What ``work`` or the driver raised; the transaction is rolled back.
        """
        connection = self._connected()
        driver = connection.connection.dbapi_connection
        transaction, committing = None, False
        try:
            transaction = connection.begin()
            result = work(connection, *args)
            committing = True
            transaction.commit()
        except Exception as error:  # it goes on as what it is, or as the loss that it means
            lost = self._faults.is_disconnect(error, driver)
            # A connection on which BEGIN, COMMIT or ROLLBACK has failed may still be in the transaction. One whose
            # database is in trouble may be tied to what is no longer the right one: a file that was replaced, a server
            # that became read-only when another one took over.
            if (
                lost
                or committing
                or transaction is None
                or not self._rolled_back(transaction)
                or self._faults.is_trouble(error)
            ):
                self.close()
            if lost:
                raise _LostError(committing=committing) from error
            raise
        return result

    def _rolled_back(self, transaction: Transaction) -> bool:
        try:
            transaction.rollback()
        except self._faults.any:
            return False
        return True

    def _connected(self) -> Connection:
        if self._connection is None:
            try:
                self._connection = self.engine.connect()
            except self._faults.any as error:
                raise _UnreachableError from error
        return self._connection


def _cause(error: BaseException) -> BaseException:
    return error.__cause__ if error.__cause__ is not None else error


def _again(error: StoreError) -> StoreError:
    """Return the error as a new object: each caller raises its own, with its own traceback."""
    made = type(error)(*error.args, task_id=error.task_id)
    made.__cause__ = error.__cause__
    return made
