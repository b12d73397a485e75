"""Push configurations in the memory of one process."""

from collections.abc import Sequence
from typing import final

import trio

from ..abc import PushConfigStore
from ..types import TaskPushNotificationConfig

__all__ = ["InMemoryPushConfigStore"]


@final
class InMemoryPushConfigStore(PushConfigStore):
    """Keeps push configurations in memory; they are gone with the process."""

    def __init__(self) -> None:
        self._configs: dict[str, dict[str, TaskPushNotificationConfig]] = {}

    def __repr__(self) -> str:
        return f"<InMemoryPushConfigStore: {len(self._configs)} tasks>"

    async def put(self, config: TaskPushNotificationConfig, *, owner: str) -> None:
        """Store a config; one of the same task with the same id is replaced."""
        await trio.lowlevel.checkpoint()
        self._configs.setdefault(config.task_id, {})[config.id] = config

    async def get(self, task_id: str, config_id: str) -> TaskPushNotificationConfig | None:
        """Return the config, or None if there is none."""
        await trio.lowlevel.checkpoint()
        return self._configs.get(task_id, {}).get(config_id)

    async def list(
        self, task_id: str, *, after: str = "", limit: int | None = None
    ) -> Sequence[TaskPushNotificationConfig]:
        """Return the task's configs with ids above ``after``, in the order of their ids."""
        await trio.lowlevel.checkpoint()
        configs = self._configs.get(task_id, {})
        return tuple(configs[id_] for id_ in sorted(configs) if id_ > after)[:limit]

    async def delete(self, task_id: str, config_id: str | None = None) -> None:
        """Remove a config, or all of the task's; an unknown one is no error."""
        await trio.lowlevel.checkpoint()
        configs = self._configs.get(task_id, {})
        if config_id is None:
            configs.clear()
        else:
            configs.pop(config_id, None)
        if not configs:
            self._configs.pop(task_id, None)
