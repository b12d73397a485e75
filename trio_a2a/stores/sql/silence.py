"""Connections that give up a server which has fallen silent.

A server that hangs, or sits behind a network that swallows packets, never ends a statement by its own time-out, and may
still acknowledge every packet, so that the socket does not notice either. Then the driver has to give up: the thread
that waits for it could never be ended, and the store would not heal.
"""

from collections.abc import Callable, Generator
from typing import Any, Final

from sqlalchemy import Engine, event

__all__ = ["bound_mysql", "bound_postgresql"]

# Seconds between two looks of psycopg at whether it is to wait on: it waits that long by itself, too.
_STEP: Final = 0.1


def bound_postgresql(engine: Engine, seconds: float) -> None:
    """Have connections of psycopg closed when the server says nothing for so long."""
    import psycopg  # noqa: PLC0415 - the driver of this database only

    class Connection(psycopg.Connection[Any]):
        """Counts how long it has waited for one answer."""

        def wait(self, gen: Any, interval: float = _STEP, *more: Any, **named: Any) -> Any:
            return super().wait(_bounded(gen, interval, self._give_up), interval, *more, **named)

        def _give_up(self, silent: float) -> None:
            if silent >= seconds:
                self.close()
                raise psycopg.OperationalError(f"the server did not answer for {seconds:g} s")

    def connect(_dialect: Any, _record: Any, arguments: Any, named: Any) -> Any:
        return Connection.connect(*arguments, **named)

    event.listen(engine, "do_connect", connect)


def _bounded(
    waiting: Generator[Any, Any, Any], step: float, give_up: Callable[[float], None]
) -> Generator[Any, Any, Any]:
    """Pass a generator of psycopg on, counting the steps in which nothing came."""
    silent = 0.0
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            silent = 0.0 if ready else silent + step
            give_up(silent)
            wanted = waiting.send(ready)
    except StopIteration as end:
        return end.value


def bound_mysql(engine: Engine, *, greeting: float, answers: float) -> None:
    """Have connections of PyMySQL closed when the server says nothing.

    Args:
        engine: The database.
        greeting: Seconds for each answer while the connection is made; the driver's own limit for that ends when the
            socket is connected.
        answers: Seconds for each answer to a statement.
    """

    def connect(dialect: Any, _record: Any, arguments: Any, named: Any) -> Any:
        made = dialect.connect(*arguments, **{**named, "read_timeout": greeting, "write_timeout": greeting})
        # The driver looks at them for every packet, and has no public way to set them once it is connected.
        made._read_timeout = made._write_timeout = answers
        return made

    event.listen(engine, "do_connect", connect)
