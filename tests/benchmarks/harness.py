"""Runs the contenders: their environments, their processes, their turns."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import attrs
import pytest

from tests.stores.databases import database

from .rows import CLIENT, CONTENDERS, SDK_EXTRAS, SERVER_REQUIREMENT, Comparison, Contender, Number, Row

ROOT = Path(__file__).parents[2]
_SDK_ENVIRONMENT = ROOT / ".bench-venv"
_SDK_PYTHON = _SDK_ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
_SDK_STAMP = _SDK_ENVIRONMENT / "requirement.txt"

_INSTALL_SECONDS = 600
_WORKER_SECONDS = 180
_END_SECONDS = 10


class BenchmarkError(Exception):
    """A contender could not be run; the text is for the person at the terminal."""


class UnavailableError(Exception):
    """There is no database server, and none is required; the text is for the person at the terminal."""


@attrs.frozen
class Ratio:
    """A comparison's outcome: the median of the turns' ratios, and the lowest and the highest of them."""

    comparison: Comparison
    median: float
    low: float
    high: float

    @property
    def is_reached(self) -> bool | None:
        """Whether the target is reached; None if there is none."""
        return self.comparison.is_reached(self.median)


@attrs.frozen
class Result:
    """What a row's turns have given: by contender and metric, one number a turn."""

    row: Row
    job: Mapping[str, Any]
    samples: Mapping[str, Mapping[str, list[float]]]

    def of(self, number: Number) -> list[float]:
        """Return a number's samples."""
        return self.samples[number.contender][number.metric]

    def ratios(self) -> list[Ratio]:
        """Return the comparisons' outcomes."""
        ratios = []
        for comparison in self.row.comparisons:
            turns = [a / b for a, b in zip(self.of(comparison.over), self.of(comparison.under), strict=True)]
            ratios.append(Ratio(comparison, median(turns), min(turns), max(turns)))
        return ratios


def measure(row: Row, *, quick: bool, tell: Callable[[str], None]) -> Result:
    """Have the row's contenders do its job in turns.

    Raises:
        BenchmarkError: One of them failed.
        UnavailableError: The row's database server does not answer.
    """
    job = {"cpu": _processor(), **row.job, **(row.quick if quick else {})}
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in row.contenders}
    turns = 1 if quick else row.turns
    for turn in range(turns):
        tell(f"{row.label}: turn {turn + 1} of {turns}")
        # What one contender leaves in the folder another one may need.
        with tempfile.TemporaryDirectory(prefix="trio-a2a-benchmark-") as folder:
            for name in row.contenders:
                with _database(CONTENDERS[name], job, folder) as its_job:
                    numbers = _run(CONTENDERS[name], its_job)
                for metric, value in numbers.items():
                    samples[name].setdefault(metric, []).append(value)
    return Result(row, job, samples)


def _processor() -> int | None:
    """Return the processor that all workers are pinned to; the last one, which seldom has the interrupts."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def client_processor() -> int | None:
    """Return the processor of the HTTP rows' client; another one than the servers', if there is one."""
    return min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


@contextmanager
def _database(contender: Contender, job: Mapping[str, Any], folder: str) -> Iterator[Mapping[str, Any]]:
    """Give a contender of a row with a database a new one of its own; the value is its job."""
    kind = contender.options.get("database", job.get("database", "memory"))
    if kind == "memory":
        yield {**job, "folder": folder}
        return
    try:
        with database(kind, Path(folder)) as url:
            yield {**job, "folder": folder, "url": url}
    except pytest.skip.Exception as reason:
        raise UnavailableError(str(reason)) from None
    except pytest.fail.Exception as reason:
        raise BenchmarkError(str(reason)) from None


def _run(contender: Contender, job: Mapping[str, Any]) -> dict[str, float]:
    """Run a contender and return its numbers."""
    job = {**job, **contender.options}
    if not contender.serves:
        return _work(contender, job)
    with serving(contender, job) as server:
        return _work(CLIENT, {**job, **server, "cpu": client_processor()})


def _command(contender: Contender, job: Mapping[str, Any]) -> list[str]:
    python = _SDK_PYTHON if contender.foreign else Path(sys.executable)
    return [str(python), "-m", f"{__package__}.{contender.module}", json.dumps(job)]


def _environment(contender: Contender) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**ours, **contender.environment, "PYTHONHASHSEED": "0"}


@contextmanager
def serving(contender: Contender, job: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Run a server for the length of a block; gives its process id and its port."""
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            _command(contender, job),
            cwd=ROOT,
            env=_environment(contender),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        # Whatever happens, it ends: then what waits for its first line, or for an answer of it, does too.
        end = threading.Timer(_WORKER_SECONDS, process.kill)
        end.start()
        try:
            line = process.stdout.readline()
            if not line:
                process.wait()
                errors.seek(0)
                raise BenchmarkError(f"{contender.module} did not start:\n{_tail(errors.read())}")
            yield {"pid": process.pid, **json.loads(line)}
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
        finally:
            process.kill()
            end.cancel()


def _work(contender: Contender, job: Mapping[str, Any]) -> dict[str, float]:
    """Run a worker to its end and return its numbers."""
    try:
        done = subprocess.run(
            _command(contender, job),
            cwd=ROOT,
            env=_environment(contender),
            capture_output=True,
            text=True,
            timeout=_WORKER_SECONDS,
            check=True,
        )
        numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"{contender.module}: {job} did not end within {_WORKER_SECONDS} seconds") from None
    except subprocess.CalledProcessError as error:
        raise BenchmarkError(f"{contender.module}: {job} failed:\n{_tail(error.stderr)}") from None
    return numbers


# ---------------------------------------------------------------------------------------------- the SDK's environment


def sdk_requirement() -> str:
    """Return the requirement on `a2a-sdk` that this project's development environment has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements: list[str] = project["optional-dependencies"]["dev"]
    return next(line for line in requirements if line.startswith("a2a-sdk"))


def prepare(rows: Sequence[Row], tell: Callable[[str], None]) -> None:
    """Make the environment that holds `a2a-sdk` and its HTTP server, if the rows need it and it is not there.

    Raises:
        BenchmarkError: It cannot be made.
    """
    if not any(CONTENDERS[name].foreign for row in rows for name in row.contenders):
        return
    requirement = sdk_requirement()
    # The stamp is written last: without it, or with another one, the environment is made anew.
    stamp = f"{requirement} {SDK_EXTRAS} {SERVER_REQUIREMENT} on {sys.version.split()[0]}\n"
    if _SDK_STAMP.exists() and _SDK_STAMP.read_text() == stamp:
        return
    tell(f"installing {requirement} into {_SDK_ENVIRONMENT.name}")
    shutil.rmtree(_SDK_ENVIRONMENT, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(_SDK_ENVIRONMENT)],
        [
            str(_SDK_PYTHON),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            requirement,
            SDK_EXTRAS,
            SERVER_REQUIREMENT,
        ],
    ):
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            output = _tail(getattr(error, "stderr", None) or str(error))
            raise BenchmarkError(
                f"{requirement} could not be installed into {_SDK_ENVIRONMENT.name} with venv and pip, which need the "
                f"package index. Rows without it: flat, stores-flat.\n{output}"
            ) from None
    _SDK_STAMP.write_text(stamp)


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-15:])
