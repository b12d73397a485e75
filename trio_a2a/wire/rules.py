"""What the annotations of the values do not say about their JSON form.

REQUIRED means "present and set", and for arrays "at least one element". The specification's own samples do not keep
to that, so the sets below say where it is checked. Fields are named as ``(class, field)``.
"""

from collections.abc import Mapping
from typing import Any, Final

from ..types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentSkill,
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageConfiguration,
)
from ..types.schema import Field, Kind, Shape

__all__ = ["INT32_MAX", "RANGES", "READS_DIFFERENTLY", "may_be_empty"]

INT32_MAX: Final = 2**31 - 1

_NEVER_EMPTY_ARRAYS: Final = frozenset(
    {
        (Message, "parts"),
        (Artifact, "parts"),
        (AgentCard, "supported_interfaces"),
    }
)

_MAY_BE_EMPTY_STRINGS: Final = frozenset(
    {
        (AgentCard, "description"),
        (AgentSkill, "description"),
        (ListTasksResponse, "next_page_token"),
    }
)

RANGES: Final[Mapping[tuple[type[Any], str], tuple[int, int]]] = {
    (SendMessageConfiguration, "history_length"): (0, INT32_MAX),
    (GetTaskRequest, "history_length"): (0, INT32_MAX),
    (ListTasksRequest, "history_length"): (0, INT32_MAX),
    (ListTasksRequest, "page_size"): (1, 100),
}
"""Numbers of requests that have a range of their own (protocol section 16)."""

READS_DIFFERENTLY: Final[frozenset[type[Any]]] = frozenset({AgentCard, AgentCapabilities, AgentExtension, AgentSkill})
"""Classes that a tolerant reading understands differently even where a strict one finds no fault."""


def may_be_empty(cls: type[Any], field: Field) -> bool:
    """Tell whether a REQUIRED field may hold the empty string, array or map, or the number 0."""
    if field.shape is Shape.REPEATED:
        return (cls, field.name) not in _NEVER_EMPTY_ARRAYS
    if field.kind is Kind.STRING and field.shape is Shape.SINGULAR:
        return (cls, field.name) in _MAY_BE_EMPTY_STRINGS
    return field.shape is Shape.MAP or field.kind is Kind.INT32
