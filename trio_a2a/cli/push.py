"""``trio-a2a push``: the webhooks of a task."""

from ..types import AuthenticationInfo
from .render import webhook_line
from .session import Session
from .text import in_line

__all__ = ["add_webhook", "list_webhooks", "remove_webhook"]


async def list_webhooks(session: Session, *, url: str, task_id: str) -> int:
    """List the webhooks.

    Raises:
        A2AError: The agent refuses.
        ClientError: The call failed.
    """
    output = session.output
    async with session.open_client(url) as client:
        configs = await client.push_configs.list(task_id)
    for config in configs:
        if output.as_json:
            output.value(config)
        else:
            output.line(webhook_line(config))
    if not configs:
        output.aside("the task has no webhooks")
    return 0


async def add_webhook(
    session: Session,
    *,
    url: str,
    task_id: str,
    webhook: str,
    config_id: str,
    token: str,
    auth_scheme: str | None,
    auth_credentials: str,
) -> int:
    """Register a webhook.

    Raises:
        A2AError: The agent refuses.
        ClientError: The call failed.
    """
    authentication = None
    if auth_scheme is not None:
        authentication = AuthenticationInfo(scheme=auth_scheme, credentials=auth_credentials)
    async with session.open_client(url) as client:
        config = await client.push_configs.create(
            task_id, webhook, id=config_id, token=token, authentication=authentication
        )
    if session.output.as_json:
        session.output.value(config)
    else:
        session.output.line(f"added {webhook_line(config)}")
    return 0


async def remove_webhook(session: Session, *, url: str, task_id: str, config_id: str) -> int:
    """End a webhook; one that is not there is no error.

    Raises:
        A2AError: The agent refuses.
        ClientError: The call failed.
    """
    async with session.open_client(url) as client:
        await client.push_configs.delete(task_id, config_id)
    if session.output.as_json:
        session.output.document(removed={"taskId": task_id, "id": config_id})
    else:
        session.output.line(f"removed {in_line(config_id)}")
    return 0
