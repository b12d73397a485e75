"""The client of the HTTP rows: the same for all servers, in a process and on a processor of its own.

It must never be what is measured, so it is as little as there can be: plain sockets and one selector, requests that are
bytes made in advance, answers that are looked at only as far as it takes to know that they are whole and right. An HTTP
library's client costs several times what the servers here do.

Two clocks run: that on the wall, and the processor time of the *server's* process. The second is what a request costs,
whatever else the machine does, and is what the targets are for; the first has the way there and back in it. With many
connections the two say the same, for then the server has always something to do. How busy the client itself was is
measured too ("client"): far below 1, or else the numbers on the wall are the client's.
"""

import json
import re
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, final

from .workload import run_worker

Job = dict[str, Any]

_PATIENCE = 30.0
"""Seconds without an answer after which a server is given up."""
_READ = 1 << 18
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_EVENT = b'"artifactUpdate"'
_LAST_CHUNK = b"\r\n0\r\n\r\n"


# ------------------------------------------------------------------------------------------------------------ requests


def http_request(binding: str, method: str, params: dict[str, Any]) -> bytes:
    """Return a request of one of the bindings."""
    paths = {"SendMessage": "/message:send", "SendStreamingMessage": "/message:stream"}
    if binding == "JSON-RPC":
        path, document = "/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    else:
        path, document = paths.get(method) or f"/tasks/{params['id']}:subscribe", params
    body = json.dumps(document, separators=(",", ":"))
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\na2a-version: 1.0\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return (head + body).encode()


def message_request(binding: str, method: str, text: str, *, wait: bool = True) -> bytes:
    """Return a request with a message."""
    message = {"messageId": "8c7f0a52-6a1e-4d6c-b4ad-1a3f7f6ad0f5", "role": "ROLE_USER", "parts": [{"text": text}]}
    params: dict[str, Any] = {"message": message}
    if not wait:
        params["configuration"] = {"returnImmediately": True}
    return http_request(binding, method, params)


def is_whole(data: bytes | bytearray) -> bool:
    """Tell whether an answer with a Content-Length is all there."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    length = _LENGTH.search(data, 0, end + 2)
    if not data.startswith(b"HTTP/1.1 200 ") or length is None:
        raise RuntimeError(f"an answer is not as expected: {bytes(data[:1000])!r}")
    return len(data) >= end + 4 + int(length[1])


# --------------------------------------------------------------------------------------------------------- connections


@contextmanager
def connected(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Open connections for the length of a block."""
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            made = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets.append(made)
        yield sockets
    finally:
        for made in sockets:
            made.close()


def ask(port: int, text: str, *, wait: bool = True) -> dict[str, Any]:
    """Send a message on a connection of its own, and return the outcome."""
    request = message_request("JSON-RPC", "SendMessage", text, wait=wait)
    with connected(port, 1) as (made,):
        made.sendall(request)
        data = b""
        while not is_whole(data):
            more = made.recv(_READ)
            if not more:
                raise RuntimeError(f"the server closed the connection after {data!r}")
            data += more
        result: dict[str, Any] = json.loads(data.partition(b"\r\n\r\n")[2])["result"]
        return result


def in_turn(
    sockets: list[socket.socket],
    request: bytes,
    whole: Callable[[bytes | bytearray], bool],
    *,
    seconds: float,
    count: int,
) -> int:
    """Have each connection send a request, and the next one when it has the answer; return how many were answered.

    It ends after so many seconds, or so many requests, with the answers to those that were sent by then.
    """
    with closing(selectors.DefaultSelector()) as selector:
        until = time.perf_counter() + seconds
        sent = 0
        for made in sockets[:count]:
            selector.register(made, selectors.EVENT_READ, bytearray())
            made.send(request)
            sent += 1
        waiting = sent
        while waiting:
            ready = selector.select(_PATIENCE)
            if not ready:
                raise RuntimeError(f"no answer within {_PATIENCE} s")
            for key, _ in ready:
                data: bytearray = key.data
                more = key.fileobj.recv(_READ)  # type: ignore[union-attr]
                if not more:
                    raise RuntimeError(f"the server closed the connection after {bytes(data[-1000:])!r}")
                data += more
                if not whole(data):
                    continue
                data.clear()
                if sent < count and time.perf_counter() < until:
                    key.fileobj.send(request)  # type: ignore[union-attr]
                    sent += 1
                else:
                    waiting -= 1
        return sent


@final
class Watch:
    """Measures what passes while something is done.

    Args:
        pid: The server's process.
    """

    def __init__(self, pid: int) -> None:
        # What clock_getcpuclockid(3) returns on Linux: the processor time of another process, in nanoseconds.
        self._clock = ~pid << 3 | 2
        self._before = self._now()

    def _now(self) -> tuple[float, float, float]:
        return time.clock_gettime(self._clock), time.perf_counter(), time.process_time()

    def rates(self, count: int, what: str) -> dict[str, float]:
        """Return how many things a second there were if there were so many since this object was made."""
        server, wall, client = (now - before for now, before in zip(self._now(), self._before, strict=True))
        return {f"{what}/cpu-s": count / server, f"{what}/s": count / wall, f"{what}: client": client / wall}


# -------------------------------------------------------------------------------------------------------- measurements


def send(job: Job) -> dict[str, float]:
    """Send messages to an agent that answers with what it was told, over several numbers of connections."""
    text = job["text"]
    expected = f'"{text}"'.encode()
    request = message_request(job["binding"], "SendMessage", text)

    def whole(data: bytes | bytearray) -> bool:
        if not is_whole(data):
            return False
        if job["checks"] and expected not in data:
            raise RuntimeError(f"an answer is not as expected: {bytes(data)!r}")
        return True

    numbers: dict[str, float] = {}
    for count in job["connections"]:
        with connected(job["port"], count) as sockets:
            in_turn(sockets, request, whole, seconds=job["warm_seconds"], count=job["count"])
            watch = Watch(job["pid"])
            answered = in_turn(sockets, request, whole, seconds=job["seconds"], count=job["count"])
            numbers |= watch.rates(answered, f"N={count} sent")
    return numbers


def streams(job: Job) -> dict[str, float]:
    """Read streams of an agent that writes one artifact in chunks, some at a time."""
    events = job["events"]
    request = message_request("JSON-RPC", "SendStreamingMessage", f"stream {events} {job['pause']}")

    def whole(data: bytes | bytearray) -> bool:
        if not data.endswith(_LAST_CHUNK):
            return False
        if data.count(_EVENT) != events or b"TASK_STATE_COMPLETED" not in data:
            raise RuntimeError(f"a stream is not as expected: {bytes(data[:2000])!r}")
        return True

    with connected(job["port"], job["connections"]) as sockets:
        in_turn(sockets, request, whole, seconds=job["warm_seconds"], count=job["count"])
        watch = Watch(job["pid"])
        count = in_turn(sockets, request, whole, seconds=job["seconds"], count=job["count"])
        return watch.rates(count * events, "events")


def broadcast(job: Job) -> dict[str, float]:
    """Read one task's events on many connections."""
    port, window, readers = job["port"], job["window"], job["readers"]
    task = ask(port, "broadcast", wait=False)["task"]
    subscribe = http_request("JSON-RPC", "SubscribeToTask", {"id": task["id"]})
    with connected(port, readers) as sockets, closing(selectors.DefaultSelector()) as selector:
        stream = [_Reader(made) for made in sockets]
        for reader in stream:
            reader.socket.sendall(subscribe)
            reader.wait_for_snapshot()
            selector.register(reader.socket, selectors.EVENT_READ, reader)

        def read_window(number: int) -> None:
            """Have the agent send a window, until all have it: none is then so far behind that it is cut off."""
            ask(port, f"go {window} {job['pause']}")
            due = (number + 1) * window
            missing = readers
            while missing:
                ready = selector.select(_PATIENCE)
                if not ready:
                    raise RuntimeError(f"no events within {_PATIENCE} s")
                for key, _ in ready:
                    missing -= key.data.read() == due

        for number in range(job["warm_windows"]):
            read_window(number)
        before = encodings(port)
        watch = Watch(job["pid"])
        for number in range(job["windows"]):
            read_window(job["warm_windows"] + number)
        events = window * job["windows"]
        numbers = watch.rates(readers * events, "events")
        return {**numbers, "encodings": encodings(port) - before, "events": events}


def encodings(port: int) -> int:
    """Ask the agent how often an event was encoded so far; only ours knows."""
    return int(ask(port, "encodings")["message"]["parts"][0]["text"])


@final
class _Reader:
    """A subscriber: counts its events."""

    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self._events = 0
        self._rest = b""

    def wait_for_snapshot(self) -> None:
        data = b""
        while b"contextId" not in data or not data.endswith(b"\n\r\n"):
            more = self.socket.recv(_READ)
            if not more:
                raise RuntimeError(f"a subscription ended after {data!r}")
            data += more

    def read(self) -> int:
        """Read what is there, and return how many events there were so far."""
        data = self.socket.recv(_READ)
        if not data:
            raise RuntimeError(f"a subscription ended after {self._events} events")
        data = self._rest + data
        self._events += data.count(_EVENT)
        # A part of the next one's mark may be at the end, but never a whole one.
        self._rest = data[1 - len(_EVENT) :]
        return self._events


if __name__ == "__main__":
    run_worker({"send": send, "streams": streams, "broadcast": broadcast})
