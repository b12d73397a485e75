"""Where a served agent keeps its tasks, and what clients register for them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs

from ..errors import StoreError
from ..server import Agent
from ..stores import InMemoryPushConfigStore, InMemoryTaskStore

__all__ = ["Keeping", "ServeError", "kept"]


class ServeError(Exception):
    """The server cannot start; the text is one line for the person who started it."""


@attrs.frozen(kw_only=True)
class Keeping:
    """What the user wants.

    Attributes:
        url: The database; None: memory.
        grace_period: Seconds for which a finished task still counts as active; None: as the store has it.
        retention: Seconds after their end at which tasks are deleted; None: never.
        on_orphan: What becomes of tasks whose process died; None: as the store has it.
        push_keys: What push configurations are encrypted with, the first one, and decrypted, any of them.
    """

    url: str | None = None
    grace_period: float | None = None
    retention: float | None = None
    on_orphan: str | None = None
    push_keys: tuple[str, ...] = attrs.field(default=(), repr=False)


@asynccontextmanager
async def kept(agent: Agent, keeping: Keeping) -> AsyncIterator[str]:
    """Give the agent its stores for the block; the value says where the tasks are.

    A database takes the place of stores in memory. An agent that was made with another store keeps it: with one of
    the user's options it is refused, because tasks would not be where one of the two expects them.

    Raises:
        ServeError: The agent has a store of its own, or the database cannot be opened.
        ImportError: An extra is missing; the text names it.
    """
    own = agent.store
    if own is not None and not isinstance(own, InMemoryTaskStore):
        if keeping != Keeping(push_keys=keeping.push_keys):
            raise ServeError(
                f"the agent has a store of its own, a {type(own).__name__}: make it without, or leave out --store,"
                " --grace-period, --retention and --on-orphan"
            )
        yield f"by the agent's own {type(own).__name__}"
    elif keeping.url is None:
        if keeping.grace_period is not None:
            if own is not None:
                raise ServeError("the agent has a store of its own: give that the grace period, or leave out the store")
            agent.store = InMemoryTaskStore(keeping.grace_period)
        yield "in memory"
    else:
        async with AsyncExitStack() as stores:
            yield await _open(agent, keeping.url, keeping, stores)


async def _open(agent: Agent, url: str, keeping: Keeping, stores: AsyncExitStack) -> str:
    """Open the stores and give them to the agent; return where they are."""
    from ..stores import open_sql_push_config_store, open_sql_store  # noqa: PLC0415 - needs an extra
    from ..stores.sql.engine import parse_url, shown  # noqa: PLC0415

    wanted: dict[str, Any] = {
        "grace_period": keeping.grace_period,
        "retention": keeping.retention,
        "on_orphan": keeping.on_orphan,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    where = ""
    try:
        where = shown(parse_url(url))
        agent.store = await stores.enter_async_context(open_sql_store(url, **given))
        if isinstance(agent.push, InMemoryPushConfigStore):
            key = keeping.push_keys or None
            agent.push = await stores.enter_async_context(open_sql_push_config_store(url, encryption_key=key))
            where += ", webhooks too" if key else ", webhooks too, not encrypted: TRIO_A2A_PUSH_KEY is not set"
    except StoreError as exc:
        raise ServeError(f"tasks cannot be kept in {where}: {exc}") from exc
    except ValueError as exc:
        raise ServeError(str(exc).replace("encryption_key", "encryption key (TRIO_A2A_PUSH_KEY)")) from None
    if isinstance(agent.state_provider, InMemoryTaskStore):
        # What it knows of is what it keeps, and it keeps nothing any more.
        agent.state_provider = None
    return f"in {where}"
