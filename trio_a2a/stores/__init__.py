"""Where tasks, and what clients registered for them, are kept."""

from .memory import InMemoryTaskStore as InMemoryTaskStore
from .push_memory import InMemoryPushConfigStore as InMemoryPushConfigStore

__all__ = ["InMemoryPushConfigStore", "InMemoryTaskStore"]
