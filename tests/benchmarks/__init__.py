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

The rows `send` and `stream` go over HTTP, on the loopback interface. Their contenders are servers, and the numbers come
from a client (load.py) that is the same for all, in a process and on a processor of its own:

    ours           an agent behind the built-in server                                       (http_ours.py)
    a2a-sdk        its routes on uvicorn as `pip install uvicorn` has it: asyncio's loop and h11   (http_sdk.py)
    a2a-sdk tuned  the same on uvloop and httptools, without tracing; there to be looked at
    constant       the built-in server with an application that answers a constant           (http_constant.py)

"/cpu-s" is a rate by the processor time of the server's process, "/s" one by the clock on the wall. An agent that
writes without a pause gives much to gather to a server that gathers what is there; so whole answers come. The rows with
a pause show what is left of that where events come one by one, as a slow model writes them.

The rows `stores` and `stores-flat` write tasks to databases, and take the time on the wall, because they wait for disks
and servers. What is common to their contenders is in store_workload.py:

    store             the SQL store, alone or behind the stream core                         (store_ours.py)
    raw inserts       a plain program: the rows that the store has just written, in the same transactions (store_raw.py)
    a2a-sdk store     its database store behind its request handler, without tracing         (store_sdk.py)
    store in memory   what is left of the first one's work without a database

A row whose database server does not answer is left out, or fails with ``TRIO_A2A_REQUIRE_SERVERS=1``; where servers are
looked for is in tests/stores/databases.py.

Everything that all of them must do alike (events, windows, clocks, pinning, garbage collection) is in workload.py; what
is measured and what it must reach is data, in rows.py.

``python -m tests.benchmarks.soak`` is another program: it looks for what clients leave behind that open a stream and
vanish.
"""
