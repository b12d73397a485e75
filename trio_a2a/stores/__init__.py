"""Where tasks are kept."""

from .memory import InMemoryTaskStore as InMemoryTaskStore

__all__ = ["InMemoryTaskStore"]
