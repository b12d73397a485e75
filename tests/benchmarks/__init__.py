"""Benchmarks: how this library compares with others that do the same, as ratios.

``python -m tests.benchmarks [NAME ...] [--quick] [--json FILE]`` from the root of a clone, in an environment where the
library is installed.

Absolute speeds say more about a machine than about a program, so nothing here is compared with a number of events a
second. Things are measured side by side in one run, in turns (A B C A B C), each in a process of its own pinned to the
same processor; each turn gives a ratio, and what is shown is the median of the ratios with the lowest and the highest.

The contenders:

    ours      the stream core and the JSON codec of this checkout                            (ours.py, codec.py)
    a2a-sdk   the asyncio SDK, from its agent's `enqueue_event` through its consumer, task manager and in-memory store
              to the subscribers of its request handler                                      (sdk_worker.py)
    raw       Trio's memory channels in the same shape, with nothing else                    (raw.py)

Everything that all of them must do alike (events, windows, clocks, pinning, garbage collection) is in workload.py; what
is measured and what it must reach is data, in rows.py.
"""
