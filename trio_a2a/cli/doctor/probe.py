"""Raw HTTP for the checks: every exchange is bounded in time and in bytes.

It goes through the client's own HTTP module, which is no public name: what the doctor says of an agent is to hold for
the client, with the same bounds, encodings and certificates.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, final

import orjson
import trio

from ...client import ClientError
from ...client.http import HttpAnswer, HttpRequest, HttpSession, HttpStream, open_session
from ..session import Connection

__all__ = ["ANSWER_TIMEOUT", "MAX_ANSWER", "NoAnswerError", "Probe", "json_of", "open_probe"]

ANSWER_TIMEOUT: Final = 10.0
"""Seconds for an answer unless the user gives another time: none of the checks makes an agent think."""

MAX_ANSWER: Final = 4 * 1024 * 1024
"""Bytes of an answer: a card may have one mebibyte, and a task of a test message has less."""


class NoAnswerError(ClientError):
    """There was no answer in time."""


@final
class Probe:
    """Sends requests as they are given, with the user's headers and nothing else."""

    def __init__(self, session: HttpSession, connection: Connection) -> None:
        self._session = session
        self._headers = dict(connection.headers)
        self._credentials = {} if connection.bearer is None else {"authorization": f"Bearer {connection.bearer}"}
        self.timeout = ANSWER_TIMEOUT if connection.timeout is None else connection.timeout

    async def exchange(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        anonymous: bool = False,
    ) -> HttpAnswer:
        """Send a request and read its answer.

        Args:
            method: The HTTP method.
            url: Where to.
            headers: The headers of the request.
            body: Its body.
            anonymous: Leave the user's token out.

        Raises:
            NoAnswerError: It took too long.
            ClientError: It failed, or the answer is too large.
        """
        request = self._request(method, url, headers, body, anonymous=anonymous)
        with trio.move_on_after(self.timeout):
            return await self._session.exchange(request, limit=MAX_ANSWER)
        raise NoAnswerError(f"no answer in {self.timeout:g} seconds")

    @asynccontextmanager
    async def open(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> AsyncIterator[HttpStream]:
        """Send a request, and give the answer whose body is still to come.

        Raises:
            NoAnswerError: Its head took too long.
            ClientError: It failed.
        """
        stream: HttpStream | None = None
        with trio.move_on_after(self.timeout):
            stream = await self._session.open(self._request(method, url, headers, body))
        if stream is None:
            raise NoAnswerError(f"no answer in {self.timeout:g} seconds")
        try:
            yield stream
        finally:
            await stream.aclose()

    async def read(self, stream: HttpStream) -> HttpAnswer:
        """Read the rest of an answer that is no stream after all.

        Raises:
            NoAnswerError: It took too long.
            ClientError: It failed, or is too large.
        """
        with trio.move_on_after(self.timeout):
            return await stream.read(MAX_ANSWER)
        raise NoAnswerError(f"no answer in {self.timeout:g} seconds")

    def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        body: bytes | None,
        *,
        anonymous: bool = False,
    ) -> HttpRequest:
        credentials = {} if anonymous else self._credentials
        return HttpRequest(
            method=method, url=url, headers={**(headers or {}), **self._headers, **credentials}, body=body
        )


@asynccontextmanager
async def open_probe(connection: Connection) -> AsyncIterator[Probe]:
    """Open connections for the length of a block."""
    # A finding is to be about the agent, not about an idle connection that its server closed as it was used again.
    async with open_session(reuses_connections=False) as session:
        yield Probe(session, connection)


def json_of(body: bytes) -> Any:
    """Return the JSON of a body; None if it is none."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
