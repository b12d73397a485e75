"""The worker for this library's JSON codec, and for orjson, which it is built on, on the same document."""

from typing import Any

import orjson

from trio_a2a.types import Task
from trio_a2a.wire.json import from_json, to_json

from .workload import cost, run_worker, task_bytes


def codec(job: dict[str, Any]) -> dict[str, float]:
    """Read and write the document of a task."""
    data = task_bytes()
    document = orjson.loads(data)
    task = from_json(data, Task)
    assert orjson.loads(to_json(task)) == document
    seconds = job["seconds"]
    return {
        "orjson.loads": cost(lambda: orjson.loads(data), seconds),
        "decode": cost(lambda: from_json(data, Task), seconds),
        "orjson.dumps": cost(lambda: orjson.dumps(document), seconds),
        "encode": cost(lambda: to_json(task), seconds),
    }


if __name__ == "__main__":
    run_worker({"codec": codec})
