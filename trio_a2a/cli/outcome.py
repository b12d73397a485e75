"""What a command makes of the end of a task: its exit status, its files, and a word about how to go on."""

from ..types import Artifact, Message, Task, TaskState
from .output import Output
from .program import FAILED
from .saving import save_artifacts
from .text import in_command

__all__ = ["conclude"]

_UNSUCCESSFUL = frozenset({TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED})


def conclude(result: Task | Message | None, *, url: str, save: str | None, output: Output) -> int:
    """Save what there is to save, and return the exit status.

    Args:
        result: The task, or the agent's direct reply.
        url: The agent, for the hint.
        save: The directory to save to.
        output: Where to tell it.

    Raises:
        CommandError: A file cannot be written.
    """
    if isinstance(result, Message):
        # What a direct reply brings along is wanted as much as an artifact.
        files = tuple(part for part in result.parts if part.text is None or part.filename)
        if files:
            save_artifacts([Artifact(artifact_id="reply", parts=files)], save, output)
        return 0
    if result is None:
        return 0
    save_artifacts(result.artifacts, save, output)
    state = result.status.state
    if state is TaskState.INPUT_REQUIRED:
        output.aside(
            f"the agent waits for an answer: trio-a2a send {in_command(url)} TEXT --task {in_command(result.id)}"
        )
    elif state is TaskState.AUTH_REQUIRED:
        output.aside(
            f"the agent waits for an authorization; then: trio-a2a task watch {in_command(url)} {in_command(result.id)}"
        )
    return FAILED if state in _UNSUCCESSFUL else 0
