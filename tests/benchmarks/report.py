"""Shows results: a table for people, and the samples as JSON."""

import platform
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from .harness import Ratio, Result
from .rows import Comparison

_HEADER = ("row", "ratio", "median", "low - high", "target", "", "measured")


def table(results: Sequence[Result]) -> str:
    """Return a table with a line for each comparison."""
    lines: list[tuple[str, ...]] = [_HEADER]
    for result in results:
        label = result.row.label
        for ratio in result.ratios():
            lines.append((label, *_cells(result, ratio)))
            label = ""
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADER))]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cells(result: Result, ratio: Ratio) -> tuple[str, ...]:
    comparison = ratio.comparison
    verdict = {True: "reached", False: "MISSED", None: ""}[ratio.is_reached]
    measured = " : ".join(_number(median(result.of(number))) for number in (comparison.over, comparison.under))
    return (
        comparison.label,
        f"{ratio.median:.2f}",
        f"{ratio.low:.2f} - {ratio.high:.2f}",
        _target(comparison),
        verdict,
        measured,
    )


def _target(comparison: Comparison) -> str:
    if comparison.at_least is not None:
        return f">= {comparison.at_least:g}"
    return f"<= {comparison.at_most:g}" if comparison.at_most is not None else ""


def _number(value: float) -> str:
    """Return a rate, a size or a count as a whole number, seconds (which are few here) as microseconds."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value * 1e6:.3g} us"


def samples(results: Sequence[Result], *, quick: bool) -> dict[str, Any]:
    """Return all that was measured."""
    return {
        "python": sys.version.split()[0],
        "machine": platform.machine(),
        "quick": quick,
        "rows": [
            {
                "name": result.row.name,
                "label": result.row.label,
                "job": result.job,
                "samples": result.samples,
                "ratios": [
                    {
                        "label": ratio.comparison.label,
                        "median": ratio.median,
                        "low": ratio.low,
                        "high": ratio.high,
                        "at_least": ratio.comparison.at_least,
                        "at_most": ratio.comparison.at_most,
                        "reached": ratio.is_reached,
                    }
                    for ratio in result.ratios()
                ],
            }
            for result in results
        ],
    }
