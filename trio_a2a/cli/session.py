"""One run of a command that talks to an agent: its connection, its signals, and its way out.

The first Ctrl-C cancels the innermost of the scopes that `Interrupts` knows, so that a command can still say goodbye to
the agent; the second one cancels the rest.
"""

import logging
import signal
import sys
import traceback as tracebacks
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, NoReturn, Self, final

import attrs
import trio

from ..client import (
    Auth,
    BearerAuth,
    Client,
    ClientCall,
    ClientError,
    Interceptor,
    connect,
)
from ..errors import A2AError
from ..wire.signing import CardKeys, CardSignatureError
from .failures import CommandError, described, members_of
from .output import Output
from .program import FAILED, INTERRUPTED, USAGE, fail, forget_output, usage_error
from .redaction import Redaction
from .text import printable

__all__ = ["DEFAULT_TIMEOUT", "Connection", "InterruptScope", "Interrupts", "Session", "run_session"]

DEFAULT_TIMEOUT = 60.0
"""Seconds that a call may take: what the client itself has for a default."""

_logger = logging.getLogger("trio_a2a.cli")


@final
@attrs.frozen(kw_only=True)
class Connection:
    """How an agent is reached.

    Attributes:
        bearer: A bearer token.
        headers: Headers that are sent: names in lower case, and values.
        transports: The bindings that may be used; none: all.
        timeout: Seconds that a call may take, where the user has said so.
    """

    bearer: str | None = attrs.field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    transports: tuple[str, ...] = ()
    timeout: float | None = None

    @property
    def auth(self) -> Auth | None:
        """What shows who is calling; None if nothing does."""
        return None if self.bearer is None else BearerAuth(self.bearer)


class _Logged(Interceptor):
    """Tells of each call for ``--debug``; what is in it stays untold."""

    async def before(self, call: ClientCall) -> ClientCall:
        _logger.debug("%s: called", call.operation)
        return call

    async def after(self, call: ClientCall, result: Any, error: Exception | None) -> Any:
        _logger.debug("%s: %s", call.operation, "answered" if error is None else f"failed: {type(error).__name__}")
        return result


@final
class InterruptScope:
    """A block that a signal ends, if it is the innermost one then: ``with interrupts.scope() as scope``."""

    def __init__(self, scopes: list["InterruptScope"]) -> None:
        self._scopes = scopes
        self._scope = trio.CancelScope()

    @property
    def interrupted(self) -> bool:
        """Whether it was ended so."""
        return self._scope.cancelled_caught

    def interrupt(self) -> bool:
        """End the block; tell whether it was not yet ending."""
        if self._scope.cancel_called:
            return False
        self._scope.cancel(reason="interrupted by a signal")
        return True

    def __enter__(self) -> Self:
        self._scope.__enter__()
        self._scopes.append(self)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._scopes.remove(self)
        return self._scope.__exit__(exc_type, exc, traceback)


@final
class Interrupts:
    """What SIGINT ends.

    Attributes:
        interrupted: The signal has come.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._scopes: list[InterruptScope] = []

    def scope(self) -> InterruptScope:
        """Return a scope to run a block in."""
        return InterruptScope(self._scopes)

    async def listen(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take signals until cancelled."""
        with trio.open_signal_receiver(signal.SIGINT) as signals:
            task_status.started()
            async for _ in signals:
                self.interrupted = True
                # The first that does not end yet: a second signal ends what the first one has left.
                any(scope.interrupt() for scope in reversed(self._scopes))


@final
@attrs.define(eq=False, kw_only=True)
class Session:
    """What a command works with.

    Attributes:
        connection: How the agent is reached.
        output: Where everything is told.
        interrupts: What signals cancel.
    """

    connection: Connection
    output: Output
    interrupts: Interrupts = attrs.field(factory=Interrupts)

    @asynccontextmanager
    async def open_client(self, url: str, *, verify_card: "CardKeys | None" = None) -> AsyncIterator[Client]:
        """Connect to the agent for the length of a block.

        Raises:
            CommandError: The URL is none.
            A2AError: The card's server refuses it.
            ClientError: There is no card, or none of its interfaces can be used.
            CardSignatureError: The card is not signed by the keys.
        """
        connection = self.connection
        options: dict[str, Any] = {"transports": connection.transports} if connection.transports else {}
        async with AsyncExitStack() as stack:
            try:
                client = await stack.enter_async_context(
                    connect(
                        url,
                        auth=connection.auth,
                        headers=dict(connection.headers),
                        verify_card=verify_card,
                        timeout=DEFAULT_TIMEOUT if connection.timeout is None else connection.timeout,
                        interceptors=[_Logged()],
                        **options,
                    )
                )
            except ValueError as exc:
                raise CommandError(str(exc), status=USAGE) from exc
            yield client


Command = Callable[[Session], Awaitable[int]]


def run_session(
    command: Command, *, as_json: bool = False, debug: bool = False, secrets: Iterable[str] = (), **connection: Any
) -> NoReturn:
    """Run a command, and exit with its status.

    Args:
        command: Returns the exit status.
        as_json: Print JSON.
        debug: Show more of what is done, and of errors.
        secrets: What must not be shown, apart from what the connection has.
        connection: The attributes of `Connection`.
    """
    reached = Connection(**connection)
    redaction = Redaction([*secrets, reached.bearer or "", *(value for _, value in reached.headers)])
    session = Session(connection=reached, output=Output(as_json=as_json, redaction=redaction))
    if debug:
        _log_to_stderr(redaction)
    try:
        status = trio.run(_interruptible, command, session, strict_exception_groups=True)
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BaseExceptionGroup as exc:
        # Before its receiver is there, or after, the signal is an exception in whichever task runs.
        if exc.subgroup(KeyboardInterrupt) is not None:
            sys.exit(INTERRUPTED)
        _fail(exc, redaction, debug=debug)
    except Exception as exc:  # boundary of the program: what went wrong becomes a line and a status
        _fail(exc, redaction, debug=debug)
    sys.exit(status)


async def _interruptible(command: Command, session: Session) -> int:
    """Run the command under the signals' scope; what it raises is raised as it is, not in a group."""
    status: int = INTERRUPTED
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(session.interrupts.listen)
        with session.interrupts.scope():
            try:
                status = await command(session)
            except Exception as exc:  # boundary of the program: it is raised again outside of the nursery
                failure = exc
        nursery.cancel_scope.cancel(reason="the command has ended")
    if session.interrupts.interrupted:
        return INTERRUPTED
    if failure is not None:
        raise failure
    return status


def _fail(exc: BaseException, redaction: Redaction, *, debug: bool) -> NoReturn:
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    if debug:
        sys.stderr.write(printable(redaction("".join(tracebacks.format_exception(exc)))))
    expected = isinstance(exc, A2AError | ClientError | CommandError | CardSignatureError)
    if isinstance(exc, ImportError) and "trio-a2a[" in str(exc):
        usage_error(str(exc))
    line = described(exc) if expected else f"{type(exc).__name__}: {described(exc)} (--debug shows more)"
    status = exc.status if isinstance(exc, CommandError) else FAILED
    fail(redaction(line), redaction.inside(members_of(exc)), status)


def _log_to_stderr(redaction: Redaction) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(redaction.formatter("%(name)s: %(message)s"))
    logger = logging.getLogger("trio_a2a")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
