"""A soak: do clients that open a stream and vanish leave anything behind?

``python -m tests.benchmarks.soak [--connections N] [--rounds N]`` from the root of a clone. Three rounds of 2000
connections each open a stream of an agent in a process of its own, and vanish: with or without having read of it, in
the midst of events or in silence, by closing or by a reset. After each round the program prints how many Trio tasks
live in the server and how much memory it occupies. Exit status 1 if the tasks are not what they were before, or the
memory after the last round is more than 5 % above that after the first.

Most of the streams are subscriptions to one task, the others messages whose direct reply nobody waits for: the store in
memory keeps every task for ever, so that a task for each connection would be memory that has not leaked.
"""

import argparse
import json
import socket
import struct
import sys
import time
from contextlib import ExitStack
from typing import Any

from .harness import BenchmarkError, serving
from .load import ask, http_request, message_request
from .rows import CONTENDERS, SERVED

_AT_ONCE = 100
_BOUND = 1.05
_SETTLE_SECONDS = 20.0
_FIRST_PAUSE = 1.0
_RESET = struct.pack("ii", 1, 0)


def vanish(port: int, task_id: str, first: int, count: int) -> None:
    """Open streams on so many connections at once, have events come, and be gone."""
    subscriptions = [http_request(binding, "SubscribeToTask", {"id": task_id}) for binding in ("JSON-RPC", "HTTP+JSON")]
    message = message_request("JSON-RPC", "SendStreamingMessage", "ponder 0.05")
    with ExitStack() as stack:
        opened = []
        for number in range(first, first + count):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=_SETTLE_SECONDS))
            if number % 2:
                # Closing it then is a reset.
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            is_message = number % 5 == 0
            made.sendall(message if is_message else subscriptions[number // 2 % 2])
            if number % 3 and not is_message:
                made.recv(100)
            opened.append(made)
        ask(port, "go 20 0.001")
        for made in opened[::2]:
            made.close()  # these in the midst of events, the others when the block is left


def settled(port: int, tasks_living: int | None) -> dict[str, Any]:
    """Return the server's statistics, when so many tasks live in it, or after some time."""
    until = time.monotonic() + _SETTLE_SECONDS
    while True:
        statistics = statistics_of(port)
        if tasks_living is None or statistics["tasks_living"] == tasks_living or time.monotonic() > until:
            return statistics
        time.sleep(0.1)


def statistics_of(port: int) -> dict[str, Any]:
    """Ask the server how it is."""
    statistics: dict[str, Any] = json.loads(ask(port, "statistics")["message"]["parts"][0]["text"])
    return statistics


def soak(connections: int, rounds: int) -> bool:
    """Run it; tell whether nothing was left behind."""
    passed = True
    resident: list[int] = []
    with serving(CONTENDERS[SERVED], {"cpu": None}) as server:
        port = server["port"]
        task_id = ask(port, "broadcast", wait=False)["task"]["id"]
        vanish(port, task_id, 0, _AT_ONCE)  # what is made at the first use is none of a round's
        time.sleep(_FIRST_PAUSE)
        before = settled(port, None)
        _say(f"before: {_shown(before)}")
        for number in range(1, rounds + 1):
            for first in range(0, connections, _AT_ONCE):
                vanish(port, task_id, first, min(_AT_ONCE, connections - first))
            after = settled(port, before["tasks_living"])
            _say(f"round {number}: {connections} connections; {_shown(after)}")
            passed = passed and after["tasks_living"] == before["tasks_living"]
            resident.append(after["resident"])
    growth = resident[-1] / resident[0]
    _say(f"memory after round {rounds} / after round 1: {growth:.3f} (at most {_BOUND})")
    return passed and growth <= _BOUND


def _shown(statistics: dict[str, Any]) -> str:
    return f"tasks_living {statistics['tasks_living']}, resident memory {statistics['resident'] / 2**20:.1f} MiB"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description="Streams that are left behind.")
    parser.add_argument("--connections", type=int, default=2000, metavar="N", help="in each round (default: 2000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: 3")
    options = parser.parse_args()
    try:
        passed = soak(options.connections, options.rounds)
    except BenchmarkError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("passed\n" if passed else "FAILED\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
