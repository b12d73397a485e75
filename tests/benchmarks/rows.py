"""What is measured, against what, and what the ratios must reach: the benchmarks as data.

A row is one job that its contenders do in turns. Its comparisons are ratios of two of the numbers that come back. To
add a benchmark, add a measurement under one name to the workers, and a row here.
"""

from collections.abc import Mapping
from typing import Any

import attrs

OURS, SDK, SDK_UNTRACED, RAW, CODEC = "ours", "a2a-sdk", "a2a-sdk untraced", "raw", "codec"
SERVED, SDK_SERVED, SDK_TUNED, CONSTANT = "ours served", "a2a-sdk served", "a2a-sdk tuned", "constant"
STORE, STORE_IN_MEMORY, STORE_RAW, STORE_SDK = "store", "store in memory", "raw inserts", "a2a-sdk store"

SDK_EXTRAS = "a2a-sdk[sqlite,postgresql]"
"""The drivers of its database store, for the contender that uses it."""

SERVER_REQUIREMENT = "uvicorn[standard]>=0.36"
"""What `a2a-sdk` is served with; the extra is for the contender that uses it."""

_NO_TRACING = {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"}


@attrs.frozen(kw_only=True)
class Contender:
    """A worker program.

    Attributes:
        module: The program, in this package.
        foreign: It runs in the environment of `a2a-sdk`.
        serves: It is a server: the numbers are its client's, which is `CLIENT`.
        environment: Environment variables of its process.
        options: What its job has beyond the row's.
    """

    module: str
    foreign: bool = False
    serves: bool = False
    environment: Mapping[str, str] = attrs.field(factory=dict)
    options: Mapping[str, Any] = attrs.field(factory=dict)


CONTENDERS: Mapping[str, Contender] = {
    OURS: Contender(module="ours"),
    # As pip installs it, tracing is on: OpenTelemetry's API comes with one of its dependencies.
    SDK: Contender(module="sdk_worker", foreign=True),
    SDK_UNTRACED: Contender(module="sdk_worker", foreign=True, environment=_NO_TRACING),
    RAW: Contender(module="raw"),
    CODEC: Contender(module="codec"),
    SERVED: Contender(module="http_ours", serves=True),
    # On what `pip install uvicorn` comes with.
    SDK_SERVED: Contender(module="http_sdk", foreign=True, serves=True),
    # At its best: without tracing, on uvloop and httptools.
    SDK_TUNED: Contender(
        module="http_sdk",
        foreign=True,
        serves=True,
        environment=_NO_TRACING,
        options={"loop": "uvloop", "http": "httptools"},
    ),
    CONSTANT: Contender(module="http_constant", serves=True, options={"checks": False}),
    STORE: Contender(module="store_ours"),
    STORE_IN_MEMORY: Contender(module="store_ours", options={"database": "memory"}),
    STORE_RAW: Contender(module="store_raw"),
    # Its tasks are shorter, because they would take a minute.
    STORE_SDK: Contender(module="store_sdk", foreign=True, environment=_NO_TRACING, options={"events": 50}),
}

CLIENT = Contender(module="load")
"""The client of all contenders that serve."""


@attrs.frozen(kw_only=True)
class Number:
    """One of the numbers that a contender's worker gives back."""

    contender: str
    metric: str


@attrs.frozen(kw_only=True)
class Comparison:
    """The ratio of two numbers.

    Attributes:
        label: What it says.
        over: The dividend.
        under: The divisor.
        at_least: What it must reach.
        at_most: What it must not exceed. Without either it is there to be looked at.
    """

    label: str
    over: Number
    under: Number
    at_least: float | None = None
    at_most: float | None = None

    def is_reached(self, ratio: float) -> bool | None:
        """Tell whether a ratio reaches the target; None if there is none."""
        if self.at_least is not None:
            return ratio >= self.at_least
        if self.at_most is not None:
            return ratio <= self.at_most
        return None


@attrs.frozen(kw_only=True)
class Row:
    """A benchmark.

    Attributes:
        name: By which it is chosen; several rows may share it.
        label: By which it is shown.
        contenders: Who does the job, in this order in each turn.
        job: What the workers are told.
        comparisons: What is made of it.
        turns: How often it is done.
        quick: What differs in the job of a smoke run.
    """

    name: str
    label: str
    contenders: tuple[str, ...]
    job: Mapping[str, Any]
    comparisons: tuple[Comparison, ...]
    turns: int = 5
    quick: Mapping[str, Any] = attrs.field(factory=dict)


def _ours_to(other: str, metric: str, *, at_least: float | None = None, at_most: float | None = None) -> Comparison:
    return Comparison(
        label=f"{metric}: ours / {other}",
        over=Number(contender=OURS, metric=metric),
        under=Number(contender=other, metric=metric),
        at_least=at_least,
        at_most=at_most,
    )


def _stream(readers: int, window: int, windows: int) -> dict[str, Any]:
    return {"readers": readers, "window": window, "warm_windows": 1, "windows": windows}


def _fan_out(readers: int, window: int, windows: int, *, to_sdk: float, to_raw: float) -> Row:
    return Row(
        name="fanout",
        label=f"fanout N={readers}",
        contenders=(OURS, SDK, SDK_UNTRACED, RAW),
        job={"measure": "fan_out", **_stream(readers, window, windows)},
        quick={"windows": 1, "window": min(window, 200_000 // readers // 5, 400)},
        comparisons=(
            _ours_to(SDK, "delivered/s", at_least=to_sdk),
            _ours_to(RAW, "delivered/s", at_least=to_raw),
            _ours_to(SDK_UNTRACED, "delivered/s"),
        ),
    )


def _burst(readers: int, windows: int) -> Row:
    return Row(
        name="burst",
        label=f"burst N={readers}",
        contenders=(OURS, SDK, SDK_UNTRACED, RAW),
        job={"measure": "burst", **_stream(readers, 100, windows)},
        quick={"windows": 1, "window": min(100, 40_000 // readers)},
        comparisons=(
            _ours_to(SDK, "delivered/s", at_least=50),
            _ours_to(RAW, "delivered/s"),
            _ours_to(SDK_UNTRACED, "delivered/s"),
        ),
    )


def _served(metric: str, other: str, *, at_least: float | None = None) -> Comparison:
    return Comparison(
        label=f"{metric}: ours / {other.removesuffix(' served')}",
        over=Number(contender=SERVED, metric=metric),
        under=Number(contender=other, metric=metric),
        at_least=at_least,
    )


_CONNECTIONS = (1, 16, 64)


def _send(binding: str, text: str) -> Row:
    """Messages to an agent that echoes them: with a reply, or with a task that it completes.

    The processor time is the server's, and what the targets are for: it is what a request costs. On the wall there is
    also the way there and back.
    """
    return Row(
        name="send",
        label=f"send {binding} {text.split(maxsplit=1)[0]}",
        contenders=(SERVED, SDK_SERVED, SDK_TUNED, CONSTANT),
        job={
            "measure": "send",
            "binding": binding,
            "text": text,
            "connections": _CONNECTIONS,
            "warm_seconds": 0.2,
            "seconds": 1.0,
            "count": 10_000,
            "checks": True,
        },
        quick={"warm_seconds": 0.05, "seconds": 0.2},
        comparisons=tuple(
            comparison
            for count in _CONNECTIONS
            for comparison in (
                _served(f"N={count} sent/cpu-s", SDK_SERVED, at_least=8),
                _served(f"N={count} sent/cpu-s", CONSTANT, at_least=0.3),
                _served(f"N={count} sent/s", SDK_SERVED),
                _served(f"N={count} sent/cpu-s", SDK_TUNED),
            )
        ),
    )


def _streams(label: str, *, pause: float, at_least: float | None = None) -> Row:
    return Row(
        name="stream",
        label=label,
        contenders=(SERVED, SDK_SERVED, SDK_TUNED),
        job={
            "measure": "streams",
            "connections": 16,
            "events": 100,
            "pause": pause,
            "warm_seconds": 0.5,
            "seconds": 2,
            "count": 2000,
        },
        quick={"warm_seconds": 0.1, "seconds": 0.3},
        comparisons=_events(at_least),
        turns=3 if pause else 5,
    )


def _broadcast(label: str, *, pause: float, at_least: float | None = None) -> Row:
    return Row(
        name="stream",
        label=label,
        contenders=(SERVED, SDK_SERVED, SDK_TUNED),
        job={
            "measure": "broadcast",
            "readers": 200,
            "window": 50,
            "warm_windows": 1,
            "windows": 2 if pause else 5,
            "pause": pause,
        },
        quick={"window": 10, "windows": 2},
        comparisons=(
            *_events(at_least),
            Comparison(
                label="encodings / events",
                over=Number(contender=SERVED, metric="encodings"),
                under=Number(contender=SERVED, metric="events"),
                at_most=1,
            ),
        ),
        turns=3 if pause else 5,
    )


def _events(at_least: float | None) -> tuple[Comparison, ...]:
    return (
        _served("events/cpu-s", SDK_SERVED, at_least=at_least),
        _served("events/s", SDK_SERVED),
        _served("events/cpu-s", SDK_TUNED),
    )


def _stores(label: str, database: str, *, commit: int | None, **options: str) -> Row:
    """32 tasks at the same time: each commits so many events at a time, or an agent sends them through the core.

    Through the core there is also what the core costs. Where the disk is not waited for that is most of it, so the rate
    cannot be above the one of the store in memory, which is shown beside.
    """
    ours = Number(contender=STORE, metric="events/s")

    def to(other: str, at_least: float | None = None, *, metric: str = "events/s", label: str = "") -> Comparison:
        under = Number(contender=other, metric=metric)
        return Comparison(label=f"events/s: {STORE} / {other}{label}", over=ours, under=under, at_least=at_least)

    return Row(
        name="stores",
        label=f"{label}, 32 tasks, " + (f"commits of {commit}" if commit else "through the core"),
        contenders=(STORE, STORE_RAW, STORE_SDK, STORE_IN_MEMORY),
        job={
            "measure": "stores",
            "database": database,
            "cpu": None,
            "tasks": 32,
            "events": 1000,
            "commit": commit,
            **options,
        },
        quick={"events": 200},
        comparisons=(
            to(STORE_RAW, 0.5),
            to(STORE_RAW, metric="log events/s", label=", log alone"),
            to(STORE_SDK, 10),
            to(STORE_IN_MEMORY),
        ),
    )


def _stores_flat(label: str, database: str) -> Row:
    return Row(
        name="stores-flat",
        label=f"event 10,000 of a task in {label}",
        contenders=(STORE,),
        job={
            "measure": "flat",
            "database": database,
            "cpu": None,
            "tasks": 8,
            "start": 100,
            "length": 10_000,
            "window": 100,
            "windows": 15,
        },
        quick={"length": 1000, "windows": 5},
        comparisons=(
            Comparison(
                label="cost of an event: 10,000 / 100",
                over=Number(contender=STORE, metric="long"),
                under=Number(contender=STORE, metric="short"),
                at_most=1.2,
            ),
        ),
        turns=3,
    )


def _codec(what: str, baseline: str, limit: float) -> tuple[Comparison, Comparison]:
    ours = Number(contender=CODEC, metric=what)
    return (
        Comparison(
            label=f"{what}: ours / {baseline}",
            over=ours,
            under=Number(contender=CODEC, metric=baseline),
            at_most=limit,
        ),
        Comparison(label=f"{what}: a2a-sdk / ours", over=Number(contender=SDK, metric=what), under=ours, at_least=8),
    )


def _flat(end: str, start: str) -> Comparison:
    return Comparison(
        label=f"cost of an event: {end} / {start}",
        over=Number(contender=OURS, metric=end),
        under=Number(contender=OURS, metric=start),
        at_most=1.2,
    )


_DATABASES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("SQLite", "sqlite", {}),
    # Here, as in PostgreSQL by default, a commit waits for the disk.
    ("SQLite FULL", "sqlite", {"synchronous": "FULL"}),
    ("PostgreSQL", "postgresql", {}),
)

ROWS = (
    _fan_out(1, 500, 10, to_sdk=8, to_raw=0.35),
    _fan_out(10, 500, 5, to_sdk=8, to_raw=0.7),
    _fan_out(100, 200, 4, to_sdk=10, to_raw=1.0),
    _fan_out(1000, 100, 1, to_sdk=10, to_raw=1.0),
    _burst(10, 20),
    _burst(100, 8),
    _burst(1000, 1),
    Row(
        name="latency",
        label="latency N=10",
        contenders=(OURS, SDK, SDK_UNTRACED),
        job={"measure": "latency", "readers": 10, "events": 500, "interval": 0.002},
        quick={"events": 100},
        comparisons=(
            _ours_to(SDK, "p99", at_most=0.5),
            _ours_to(SDK, "p50"),
            _ours_to(SDK_UNTRACED, "p99"),
        ),
        turns=7,
    ),
    Row(
        name="tasks",
        label="1000 live tasks",
        contenders=(OURS, SDK, SDK_UNTRACED),
        job={"measure": "tasks", "tasks": 1000, "events": 10},
        quick={"tasks": 200},
        comparisons=(_ours_to(SDK, "delivered/s", at_least=8), _ours_to(SDK_UNTRACED, "delivered/s")),
    ),
    Row(
        name="tasks",
        label="memory of a live task",
        contenders=(OURS, SDK),
        job={"measure": "memory", "tasks": 1000, "events": 10, "traced": False},
        quick={"tasks": 200},
        comparisons=(_ours_to(SDK, "resident bytes", at_most=0.5),),
        turns=3,
    ),
    Row(
        name="tasks",
        label="memory of a live task",
        contenders=(OURS, SDK),
        job={"measure": "memory", "tasks": 1000, "events": 10, "traced": True},
        quick={"tasks": 200},
        comparisons=(_ours_to(SDK, "traced bytes", at_most=0.5),),
        turns=3,
    ),
    Row(
        name="flat",
        label="artifact of 10,000 chunks",
        contenders=(OURS,),
        job={"measure": "flat", "readers": 1, "window": 250, "windows": 40},
        quick={"window": 100},
        comparisons=(_flat("end", "start"), _flat("second half", "first half")),
        turns=7,
    ),
    Row(
        name="json",
        label="JSON of a task, 8.9 KB",
        contenders=(CODEC, SDK),
        job={"measure": "codec", "seconds": 0.5},
        quick={"seconds": 0.1},
        comparisons=(*_codec("decode", "orjson.loads", 10), *_codec("encode", "orjson.dumps", 15)),
    ),
    *(_send(binding, text) for binding in ("JSON-RPC", "HTTP+JSON") for text in ("reply hello", "complete hello")),
    _streams("16 streams of 100 events", pause=0, at_least=6),
    # A lone event is a write of its own: nothing is gathered, and most of what is left is the same in all servers.
    _streams("the same, 5 ms apart", pause=0.005),
    _broadcast("200 subscribers of a task", pause=0, at_least=6),
    _broadcast("the same, 20 ms apart", pause=0.02),
    *(
        _stores(label, database, commit=commit, **options)
        for label, database, options in _DATABASES
        for commit in (16, None)
    ),
    _stores_flat("SQLite", "sqlite"),
    _stores_flat("PostgreSQL", "postgresql"),
)
