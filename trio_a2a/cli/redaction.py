"""Keeping secrets out of what is shown: wherever they come from, a server's answer included."""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, final

from .text import printable

__all__ = ["Redaction"]

# A URL may hold a name and a password; nobody passes them on purpose, since connecting refuses them.
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")

# Shorter ones are the values of ordinary headers, and would blank out half of every text.
_SHORTEST = 4


@final
class Redaction:
    """Replaces secrets in texts.

    Args:
        secrets: What must not be shown. Those of fewer than four characters cannot be told from other text.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        found: set[str] = set()
        for secret in secrets:
            # Of "Bearer abc", what is secret is "abc".
            found.update({secret, secret.rpartition(" ")[2]})
        # The longest first: one may be part of another.
        self._secrets = sorted((s for s in found if len(s) >= _SHORTEST), key=len, reverse=True)

    def __repr__(self) -> str:
        return f"<Redaction of {len(self._secrets)} secrets>"

    def __call__(self, text: str) -> str:
        """Return the text without them."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _USERINFO.sub("***@", text)

    def inside(self, value: Any) -> Any:
        """Return JSON without them, wherever in it they stand."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {self(str(name)): self.inside(member) for name, member in value.items()}
        return [self.inside(member) for member in value] if isinstance(value, list | tuple) else value

    def formatter(self, form: str) -> logging.Formatter:
        """Return a formatter of log records that does the same."""
        return _Formatter(form, self)


class _Formatter(logging.Formatter):
    def __init__(self, form: str, redaction: Redaction) -> None:
        super().__init__(form)
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> Any:
        """Return the record as text, which may quote an agent."""
        return printable(self._redaction(super().format(record)))
