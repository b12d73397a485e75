"""What an agent is told about the message that it handles."""

from typing import Any

import attrs

from ..abc import Principal
from ..types import Message, SendMessageConfiguration, Task

__all__ = ["ANONYMOUS", "AnonymousPrincipal", "RequestContext"]


@attrs.frozen
class AnonymousPrincipal(Principal):
    """The principal of an agent without an authenticator: everybody."""

    @property
    def id(self) -> str:
        """The empty id."""
        return ""


ANONYMOUS = AnonymousPrincipal()


@attrs.frozen(kw_only=True)
class RequestContext:
    """One message to handle, and where it stands.

    Attributes:
        message: The user's message, stamped with the task's and the context's ids; None in ``cancel``.
        task: The task as it is when the run begins; None for a message that begins something new.
        task_id: The task's id; a new one where there is no task yet.
        context_id: The conversation.
        configuration: The caller's options.
        metadata: The request's metadata.
        extensions: URIs of the extensions that the caller activated.
        tenant: The request's tenant; "" for none.
        principal: Who is calling.
        related_tasks: The tasks that the message refers to and the caller may see, in its order.
    """

    message: Message | None
    task: Task | None
    task_id: str
    context_id: str
    configuration: SendMessageConfiguration = attrs.field(factory=SendMessageConfiguration)
    metadata: dict[str, Any] = attrs.field(factory=dict)
    extensions: tuple[str, ...] = ()
    tenant: str = ""
    principal: Principal = ANONYMOUS
    related_tasks: tuple[Task, ...] = ()

    def text(self, separator: str = "\n") -> str:
        """Return the text of the message's text parts, joined; "" without a message."""
        return self.message.text(separator) if self.message is not None else ""
