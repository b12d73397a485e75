"""The command: choose rows, run them, show the ratios. Exit status 0 if everything ran, whatever the ratios are;
1 if a worker failed, 2 if nothing could be run."""

import argparse
import json
import sys
from pathlib import Path

from .harness import BenchmarkError, Result, UnavailableError, measure, prepare
from .report import samples, table
from .rows import ROWS


def main() -> int:
    """Run the chosen rows."""
    names = tuple(dict.fromkeys(row.name for row in ROWS))
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}", description="Ratios of speeds, measured in turns."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"rows to run: {', '.join(names)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a smoke run: little work, one turn, noisy ratios")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to this file")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(names))
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)} (there are {', '.join(names)})")

    rows = [row for row in ROWS if not options.names or row.name in options.names]
    try:
        prepare(rows, _tell)
    except BenchmarkError as error:
        _tell(str(error))
        return 2
    results: list[Result] = []
    failures = 0
    for row in rows:
        try:
            results.append(measure(row, quick=options.quick, tell=_tell))
        except UnavailableError as reason:
            _tell(f"{row.label}: left out, {reason}")
        except BenchmarkError as error:
            failures += 1
            _tell(f"{row.label}: {error}")
    sys.stdout.write(table(results) + "\n")
    if options.json is not None:
        options.json.write_text(json.dumps(samples(results, quick=options.quick), indent=2) + "\n")
    return 1 if failures else 0


def _tell(text: str) -> None:
    """Say what is going on, apart from the results."""
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
