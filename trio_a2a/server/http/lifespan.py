"""The ASGI lifespan of an application: one call that lasts as long as the server."""

from __future__ import annotations

import logging
from typing import Any

import trio

from .asgi import ASGI_VERSIONS, ApplicationError, ASGIApp, Message

logger = logging.getLogger("trio_a2a.server.http")


class LifespanError(RuntimeError):
    """The application has said that it cannot start, or ended before it had."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"the application failed to start: {message}" if message else "the application failed to start"
        )
        self.message = message


class Lifespan:
    """Runs an application's lifespan call.

    `await nursery.start(lifespan.run)` returns when the application has started, has failed (`failure`), or has
    shown that it has no lifespan: by raising, or by returning, before it says either. The ASGI specification asks
    a server to go on then. An exception after the start leaves `run`: whatever the application keeps in its
    lifespan is gone, and it must not go on answering without it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.state: dict[str, Any] = {}
        self.failure: LifespanError | None = None
        self._app = app
        self._task_status: trio.TaskStatus[None] | None = None
        self._started = False
        self._failed = False  # and has said so
        self._asked = False
        self._stop = trio.Event()
        self._stopped = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Call the application; returns when that call does.

        Cancellation: cancels the application's call, which gets no `lifespan.shutdown` then.
        """
        self._task_status = task_status
        scope = {"type": "lifespan", "asgi": ASGI_VERSIONS.copy(), "state": self.state}
        try:
            await self._app(scope, self._receive, self._send)
        except Exception as error:  # the boundary of an application without a lifespan, or at its end
            if self._failed:
                logger.debug("raised after the application had reported its failure", exc_info=error)
            elif self._stop.is_set():
                logger.exception("the application failed to shut down")
            elif self._started:
                raise
            else:
                # One that has a lifespan with a bug in it looks the same, hence the log.
                logger.info("the application has no ASGI lifespan (%s); going on without", type(error).__name__)
                logger.debug("what it raised", exc_info=error)
        finally:
            self._stopped.set()
        self._report_start()

    async def shut_down(self, timeout: float) -> None:
        """Tell the application to stop, and wait until it has, at most `timeout` seconds.

        Cancellation: a checkpoint; the application has been told.
        """
        self._stop.set()
        with trio.move_on_after(timeout) as scope:
            await self._stopped.wait()
        if scope.cancelled_caught:
            logger.warning("the application has not shut down within %s s; cancelling it", timeout)

    def _report_start(self) -> None:
        if not self._started:
            self._started = True
            if self._task_status is not None:
                self._task_status.started()

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            await trio.lowlevel.checkpoint()
            return {"type": "lifespan.startup"}
        await self._stop.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "lifespan.startup.complete":
            self._report_start()
        elif kind == "lifespan.startup.failed":
            self._failed = True
            self.failure = LifespanError(message.get("message", ""))
            self._report_start()
        elif kind == "lifespan.shutdown.failed":
            self._failed = True
            logger.error("the application failed to shut down: %s", message.get("message", ""))
        elif kind != "lifespan.shutdown.complete":
            raise ApplicationError("a lifespan sends startup.complete or .failed and shutdown.complete or .failed")
        await trio.lowlevel.checkpoint()
