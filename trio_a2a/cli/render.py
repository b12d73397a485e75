"""Values as a person wants to read them: lines of plain text."""

from collections.abc import Iterable, Iterator

import orjson

from ..types import AgentCard, Artifact, Message, Part, Task, TaskPushNotificationConfig, TaskState
from .text import in_line, one_line

__all__ = ["artifact_title", "card_lines", "parts_text", "state_name", "status_line", "task_lines", "webhook_line"]


def state_name(state: TaskState) -> str:
    """Return a state as it is written on the command line."""
    return state.value.removeprefix("TASK_STATE_").lower().replace("_", "-")


def parts_text(parts: Iterable[Part]) -> str:
    """Return the content of parts: text as it is, one behind the other, and lines of its own for each other kind."""
    shown = ""
    after_text = True
    for part in parts:
        is_text = part.text is not None
        # Chunks of one text belong together; everything else begins on a line of its own.
        if shown and not (is_text and after_text) and not shown.endswith("\n"):
            shown += "\n"
        shown += part.text if part.text is not None else _described(part)
        after_text = is_text
    return shown


def _described(part: Part) -> str:
    named = f" {in_line(part.filename)}" if part.filename else ""
    typed = f", {in_line(part.media_type)}" if part.media_type else ""
    if part.raw is not None:
        return f"[file{named}: {len(part.raw)} bytes{typed}]"
    if part.url is not None:
        return f"[link{named}: {in_line(part.url)}{typed}]"
    return orjson.dumps(part.data, option=orjson.OPT_INDENT_2).decode()


def artifact_title(artifact: Artifact) -> str:
    """Return what stands over an artifact."""
    return one_line(artifact.name or artifact.artifact_id, 120)


def status_line(state: TaskState, message: Message | None) -> str:
    """Return a state, with what the agent says about it."""
    said = parts_text(message.parts) if message is not None else ""
    return f"[{state_name(state)}]{' ' if said else ''}{said}"


def task_lines(task: Task, *, history: bool = False) -> Iterator[str]:
    """Yield the lines that show a whole task.

    Args:
        task: The task.
        history: With its messages.
    """
    yield f"task {in_line(task.id)}"
    if task.context_id:
        yield f"context {in_line(task.context_id)}"
    if task.status.timestamp is not None:
        yield f"since {task.status.timestamp.isoformat(timespec='seconds')}"
    if history:
        for message in task.history:
            yield f"{message.role.value.removeprefix('ROLE_').lower()}: {parts_text(message.parts)}"
    for artifact in task.artifacts:
        yield f"--- {artifact_title(artifact)}"
        yield parts_text(artifact.parts)
    yield status_line(task.status.state, task.status.message)


def webhook_line(config: TaskPushNotificationConfig) -> str:
    """Return a webhook without what is secret in it."""
    scheme = f" ({in_line(config.authentication.scheme)})" if config.authentication is not None else ""
    return f"{in_line(config.id)}  {in_line(config.url)}{scheme}"


def card_lines(card: AgentCard) -> Iterator[str]:
    """Yield the lines that show a card."""
    yield in_line(f"{card.name} {card.version}")
    yield card.description.replace("\n", "\n  ")  # so none of its lines looks like one of ours
    if card.provider is not None:
        yield in_line(f"provider: {card.provider.organization} ({card.provider.url})")
    if card.documentation_url:
        yield in_line(f"documentation: {card.documentation_url}")
    yield "interfaces:"
    for interface in card.supported_interfaces:
        tenant = f" (tenant {interface.tenant})" if interface.tenant else ""
        yield in_line(f"  {interface.protocol_binding} {interface.protocol_version}  {interface.url}{tenant}")
    able = {
        "streaming": card.capabilities.streaming,
        "push notifications": card.capabilities.push_notifications,
        "extended card": card.capabilities.extended_agent_card,
    }
    yield f"capabilities: {', '.join(name for name, has in able.items() if has) or 'none'}"
    for extension in card.capabilities.extensions:
        yield in_line(f"extension: {extension.uri}{' (required)' if extension.required else ''}")
    yield in_line(f"input: {', '.join(card.default_input_modes)}")
    yield in_line(f"output: {', '.join(card.default_output_modes)}")
    if card.skills:
        yield "skills:"
    for skill in card.skills:
        yield in_line(f"  {skill.name} ({skill.id}): {one_line(skill.description)}")
    for name, scheme in card.security_schemes.items():
        yield in_line(f"security: {name} ({type(scheme.value).__name__.removesuffix('SecurityScheme')})")
    wanted = [" and ".join(sorted(one.schemes)) or "nothing" for one in card.security_requirements]
    if wanted:
        yield in_line(f"required: {' or '.join(wanted)}")
    signed = len(card.signatures)
    yield f"signatures: {signed or 'none'}"
