"""What all contenders share: the work, how it is paced, and how it is measured.

Only the standard library is imported here, because one of the contenders runs in an environment of its own.

Throughput is taken from the processor time of the worker's process. These loops never wait for anything but each other,
so on an idle machine that is the time on the wall; on a machine that does other things too, it still is what the work
costs. Latency and nothing else is measured on the wall.
"""

import gc
import json
import os
import resource
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

CONTEXT_ID = "context-0001"
ARTIFACT_ID = "answer"
CHUNKS = 100
"""An artifact's events: the first makes it or replaces it, the others append to it.

So agents stream what a model puts out. Beginning anew bounds the task, and with it what an event costs where that grows
with the task: no contender's rate depends on how long it is measured.
"""

_PAGE_SIZE = resource.getpagesize()


class _Event(Protocol):
    """`asyncio.Event` or `trio.Event`."""

    def set(self) -> object: ...

    async def wait(self) -> object: ...


def task_id(number: int = 0) -> str:
    """Return the id of a task."""
    return f"task-{number:06d}"


def chunk_text(number: int) -> str:
    """Return the text of an event: 64 characters, as a model's output comes in chunks of a sentence."""
    return f"chunk {number:08d} of the answer that the agent is writing just now.."


class Pace:
    """Holds the producer until all readers have what was sent: once in each window of events.

    No subscriber then falls behind by more than a window, which is less than any contender's buffer, so that nobody is
    cut off, and all contenders do the same.
    """

    def __init__(self, readers: int, window: int, make_event: Callable[[], _Event]) -> None:
        self.window = window
        self.readers = readers
        self._make_event = make_event
        self._event = make_event()
        self._left = readers
        self._windows = 0

    def reached(self) -> None:
        """One reader has the last event of a window."""
        self._left -= 1
        if not self._left:
            self._left = self.readers
            self._windows += 1
            event, self._event = self._event, self._make_event()
            event.set()

    async def wait(self, windows: int) -> None:
        """Wait until all readers have that many windows."""
        while self._windows < windows:
            await self._event.wait()


async def paced(
    send_window: Callable[[int, int], Awaitable[None]], pace: Pace, *, warm_windows: int, windows: int
) -> float:
    """Produce windows of events, the first ones to warm up; return the processor time that the others took.

    Args:
        send_window: Sends the events with numbers from the first up to the second argument.
        pace: Tells when they have arrived.
        warm_windows: Windows before the clock starts.
        windows: Windows that count.
    """
    started = 0.0
    for window in range(warm_windows + windows):
        if window == warm_windows:
            settle()
            started = time.process_time()
        await send_window(window * pace.window, (window + 1) * pace.window)
        await pace.wait(window + 1)
    return time.process_time() - started


def settle() -> None:
    """Begin a measurement with the garbage collected, and what was made in advance out of the collector's sight."""
    gc.collect()
    gc.freeze()


# ------------------------------------------------------------------------------------------------------------ measures


def percentile(samples: list[float], fraction: float) -> float:
    """Return the value below which that fraction of the samples lies."""
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * fraction))]


def resident_bytes() -> int:
    """Return how much memory the process occupies, once garbage is collected."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - before anything else is imported
        return int(file.read().split()[1]) * _PAGE_SIZE


class Memory:
    """Memory that was taken since this object was made.

    Args:
        traced: Ask Python's allocator for its blocks: exact, but it does not see what a C library takes. Otherwise ask
            the system for the process, which does.
    """

    def __init__(self, *, traced: bool) -> None:
        self._traced = traced
        if traced:
            tracemalloc.start()
        self._before = self._now()

    def per(self, count: int) -> dict[str, float]:
        """Return the growth for each of ``count`` things."""
        return {"traced bytes" if self._traced else "resident bytes": (self._now() - self._before) / count}

    def _now(self) -> int:
        resident = resident_bytes()
        return tracemalloc.get_traced_memory()[0] if self._traced else resident


def cost(function: Callable[[], object], seconds: float) -> float:
    """Return the processor time of a call, the least of many: what it costs when nothing disturbs it."""
    count = 1
    while True:
        started = time.process_time()
        for _ in range(count):
            function()
        spent = time.process_time() - started
        if spent > 0.005:
            break
        count *= 2
    best = spent / count
    for _ in range(max(1, int(seconds / spent))):
        started = time.process_time()
        for _ in range(count):
            function()
        best = min(best, (time.process_time() - started) / count)
    return best


# ----------------------------------------------------------------------------------------------------------- a document


def task_document() -> dict[str, Any]:
    """Return a task of some 8.9 KB: 20 messages of history and a status message, 5 artifacts, 52 parts in all."""
    history = [
        _message(number, role="ROLE_AGENT" if number % 2 else "ROLE_USER", parts=_parts(number)) for number in range(20)
    ]
    artifacts = [
        {
            "artifactId": f"artifact-{number:04d}",
            "name": f"report-{number}.md",
            "description": "A part of the report, as it is after this week",
            "parts": [_text(100 + number), _data(100 + number)],
        }
        for number in range(5)
    ]
    return {
        "id": "3f6a5f0e-6e0c-4a41-9d3f-0f6b8d0c2a11",
        "contextId": "b7a2c1d4-1f3e-4c55-8a6b-5d9e7f8a9b0c",
        "status": {
            "state": "TASK_STATE_WORKING",
            "message": _message(20, role="ROLE_AGENT", parts=[_text(20), _text(21)]),
            "timestamp": "2025-11-03T10:15:30.123Z",
        },
        "artifacts": artifacts,
        "history": history,
        "metadata": {"priority": 3, "labels": ["weekly", "finance"], "source": {"system": "crm", "row": 4711}},
    }


def task_bytes() -> bytes:
    """Return the document as a server would receive it."""
    return json.dumps(task_document(), separators=(",", ":")).encode()


def _message(number: int, *, role: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "messageId": f"0b9c4c1e-8d77-4f0e-a7a6-{number:012d}",
        "contextId": "b7a2c1d4-1f3e-4c55-8a6b-5d9e7f8a9b0c",
        "taskId": "3f6a5f0e-6e0c-4a41-9d3f-0f6b8d0c2a11",
        "role": role,
        "parts": parts,
    }


def _parts(number: int) -> list[dict[str, Any]]:
    if number % 5 == 3:
        return [_text(number), {"url": f"https://files.example/{number}.pdf", "mediaType": "application/pdf"}]
    if number % 5 == 4:
        return [_text(number), _data(number)]
    return [_text(number), _text(number + 1)]


def _text(number: int) -> dict[str, Any]:
    return {"text": f"Paragraph {number}: the figures of the week, and what they mean to all of us here."}


def _data(number: int) -> dict[str, Any]:
    return {"data": {"row": number, "total": number * 1.25, "ok": True}}


# -------------------------------------------------------------------------------------------------------------- workers


def run_worker(measurements: dict[str, Callable[[dict[str, Any]], dict[str, float]]]) -> None:
    """Be a worker: take a job from the command line, do it, print what was measured.

    A job is a JSON object: ``measure`` names what to do, ``cpu`` the processor to do it on, and the rest is up to the
    measurement. The answer is one JSON object of numbers on the last line of standard output.
    """
    job: dict[str, Any] = json.loads(sys.argv[1])
    if job["cpu"] is not None:
        os.sched_setaffinity(0, {job["cpu"]})
    sys.stdout.write(json.dumps(measurements[job["measure"]](job)) + "\n")


def run_server(serve: Callable[[dict[str, Any], Callable[[int], None]], None]) -> None:
    """Be a server: take a job from the command line, say on which port it is served, and serve until stdin ends.

    Args:
        serve: Called with the job, and with what it is to call with the port when it takes connections.
    """
    job: dict[str, Any] = json.loads(sys.argv[1])
    if job["cpu"] is not None:
        os.sched_setaffinity(0, {job["cpu"]})

    def announce(port: int) -> None:
        sys.stdout.write(json.dumps({"port": port}) + "\n")
        sys.stdout.flush()

    serve(job, announce)
