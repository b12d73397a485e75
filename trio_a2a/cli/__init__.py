"""The `trio-a2a` command."""

from .program import main as main

__all__ = ["main"]
