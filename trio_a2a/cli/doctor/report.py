"""Findings: what the doctor has to say."""

from collections import Counter
from enum import StrEnum
from typing import final

import attrs

from ..output import Output
from ..text import in_line, one_line

__all__ = ["Finding", "Report", "Severity"]

_STYLES = {"ok": "green", "info": "", "warning": "yellow", "error": "bold red"}


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@final
@attrs.frozen(kw_only=True)
class Finding:
    """One finding.

    Attributes:
        severity: OK: as it should be. INFO: worth knowing. WARNING: what the protocol advises against, or what peers
            stumble over. ERROR: what the protocol forbids.
        area: What was looked at: the card, a binding.
        check: What was checked.
        text: What was found, on one line.
    """

    severity: Severity
    area: str
    check: str
    text: str


@final
class Report:
    """Collects findings. Scripts get each at once, people a table at the end."""

    def __init__(self, output: Output) -> None:
        self.findings: list[Finding] = []
        self._output = output

    def add(self, severity: Severity, area: str, check: str, text: str) -> None:
        """Add a finding."""
        finding = Finding(
            severity=severity,
            area=area,
            check=check,
            text=one_line(self._output.redacted(text), longest=300),
        )
        self.findings.append(finding)
        if self._output.as_json:
            self._output.document(**attrs.asdict(finding))

    def ok(self, area: str, check: str, text: str = "as it should be") -> None:
        """Add a good one."""
        self.add(Severity.OK, area, check, text)

    def info(self, area: str, check: str, text: str) -> None:
        """Add one that is worth knowing."""
        self.add(Severity.INFO, area, check, text)

    def warning(self, area: str, check: str, text: str) -> None:
        """Add one that peers may stumble over."""
        self.add(Severity.WARNING, area, check, text)

    def error(self, area: str, check: str, text: str) -> None:
        """Add one against the protocol."""
        self.add(Severity.ERROR, area, check, text)

    def has(self, severity: Severity, area: str | None = None) -> bool:
        """Tell whether there is a finding of that severity, in that area if one is given."""
        return any(f.severity is severity and area in {None, f.area} for f in self.findings)

    def close(self) -> None:
        """Show what was found, and how much of each."""
        counts = Counter(finding.severity for finding in self.findings)
        if self._output.as_json:
            self._output.document(summary={severity.value: counts[severity] for severity in Severity})
            return
        from rich.table import Table  # noqa: PLC0415 - scripts do not pay for it
        from rich.text import Text  # noqa: PLC0415

        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("severity", no_wrap=True)
        table.add_column("area", no_wrap=True)
        table.add_column("check")
        table.add_column("finding", overflow="fold")
        for finding in self.findings:
            severity = Text(finding.severity.value, style=_STYLES[finding.severity])
            # The area may have the URL of an interface in it.
            table.add_row(severity, *(Text(in_line(text)) for text in (finding.area, finding.check, finding.text)))
        self._output.show(table)
        errors, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
        self._output.line(
            f"{counts[Severity.OK]} ok, {counts[Severity.INFO]} info, "
            f"{warnings} warning{'s' * (warnings != 1)}, {errors} error{'s' * (errors != 1)}"
        )
