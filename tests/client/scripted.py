"""A transport without a network: it plays what a test says, on whatever clock there is."""

from collections import deque
from typing import Any

import trio

from trio_a2a.client import Client, ClientCall, ClientTransport, EventSource, ReceivedEvent
from trio_a2a.types import AgentCapabilities, AgentCard

__all__ = ["CARD", "END", "Script", "ScriptedTransport", "client_of"]

END = "END"
Script = Any
"""What one connection plays: (event, number), an event, a number of seconds, an exception, and at last END."""

CARD = AgentCard(
    name="Scripted",
    description="Plays.",
    version="1",
    supported_interfaces=(),
    capabilities=AgentCapabilities(streaming=True, push_notifications=True),
    default_input_modes=("text/plain",),
    default_output_modes=("text/plain",),
    skills=(),
)


class ScriptedSource(EventSource):
    def __init__(self, script: Script) -> None:
        self.script = deque(script)
        self.closed = 0

    async def receive(self) -> ReceivedEvent:
        await trio.lowlevel.checkpoint()
        while True:
            if not self.script:
                await trio.sleep_forever()
            item = self.script.popleft()
            if isinstance(item, int | float):
                await trio.sleep(item)
            elif isinstance(item, Exception):
                raise item
            elif item == END:
                raise trio.EndOfChannel
            else:
                return ReceivedEvent(*item) if isinstance(item, tuple) else ReceivedEvent(item)

    async def aclose(self) -> None:
        self.closed += 1


class ScriptedTransport(ClientTransport):
    """Plays one script for each stream, and gives one answer for each call.

    Attributes:
        calls: What was asked: the call, and of a stream the number that it goes on from.
        times: When, on Trio's clock.
    """

    def __init__(self, *streams: Script, answers: Any = ()) -> None:
        self.streams = deque(streams)
        self.answers = deque(answers)
        self.calls: list[tuple[ClientCall, int | None]] = []
        self.times: list[float] = []
        self.sources: list[ScriptedSource] = []

    @property
    def binding(self) -> str:
        return "SCRIPT"

    async def _asked(self, call: ClientCall, last: int | None, waiting: "deque[Any]") -> Any:
        await trio.lowlevel.checkpoint()
        self.calls.append((call, last))
        self.times.append(trio.current_time())
        item = waiting.popleft() if len(waiting) > 1 else waiting[0]  # the last one is for ever
        if isinstance(item, Exception):
            raise item
        return item

    async def call(self, call: ClientCall) -> Any:
        answer = await self._asked(call, None, self.answers)
        if isinstance(answer, int | float):
            await trio.sleep(answer)
        return answer

    async def open(self, call: ClientCall, *, last_event_id: int | None = None) -> EventSource:
        source = ScriptedSource(await self._asked(call, last_event_id, self.streams))
        self.sources.append(source)
        return source

    @property
    def operations(self) -> list[str]:
        return [call.operation for call, _ in self.calls]


def client_of(transport: ScriptedTransport, **options: Any) -> Client:
    return Client(CARD, transport, **options)
