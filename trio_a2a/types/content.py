"""Content: parts, and the messages and artifacts that are made of them."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, Final, Self, TypeAlias

import attrs

from .identifier import new_id
from .struct import copy_struct, copy_value
from .value import ProtoEnum, Value, sequence_of

__all__ = ["UNSET", "Artifact", "Message", "Part", "PartsLike", "Role", "Unset", "as_parts"]


class Role(ProtoEnum):
    """Who sent a message."""

    UNSPECIFIED = "ROLE_UNSPECIFIED", 0
    USER = "ROLE_USER", 1
    AGENT = "ROLE_AGENT", 2


class Unset(Enum):
    """The type of :data:`UNSET`. An enum, so that the one member survives copying and pickling."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset.UNSET
"""Says that :attr:`Part.data` is not set, which differs from its being None, the JSON null."""


def _data(value: Any) -> Any:
    return value if value is UNSET else copy_value(value)


def _strings(values: Iterable[str]) -> tuple[str, ...]:
    return sequence_of(str, values)


@attrs.frozen(kw_only=True)
class Part(Value):
    """One piece of content: exactly one of text, raw, url and data, with descriptors that fit every kind.

    Attributes:
        text: Text, possibly empty.
        raw: Bytes carried inline.
        url: Where the content lies. Not to be fetched without checks against forged requests.
        data: Any JSON value, None (JSON null) included; :data:`UNSET` when the part is of another kind.
        metadata: Extension data.
        filename: A hint for a file name.
        media_type: The media type of the content.
    """

    _oneof: ClassVar[tuple[str, ...]] = ("text", "raw", "url", "data")

    text: str | None = None
    raw: bytes | None = None
    url: str | None = None
    data: Any = attrs.field(default=UNSET, converter=_data)
    metadata: dict[str, Any] | None = attrs.field(default=None, converter=copy_struct)
    filename: str = ""
    media_type: str = ""

    @property
    def kind(self) -> str:
        """The name of the content that is set: ``text``, ``raw``, ``url`` or ``data``."""
        if self.text is not None:
            return "text"
        if self.raw is not None:
            return "raw"
        return "data" if self.url is None else "url"

    @property
    def value(self) -> Any:
        """The content that is set."""
        return getattr(self, self.kind)


PartsLike: TypeAlias = str | Part | Iterable[str | Part]
"""What the short forms take for content: one part or several, a str standing for a text part."""


def as_parts(content: PartsLike) -> tuple[Part, ...]:
    """Return content as parts, a str becoming a text part.

    Raises:
        TypeError: The content is neither a str, nor a part, nor an iterable of these.
    """
    if isinstance(content, str):
        return (Part(text=content),)
    if isinstance(content, Part):
        return (content,)
    if isinstance(content, (bytes, bytearray, Mapping)) or not hasattr(content, "__iter__"):
        raise TypeError(
            f"content is a str, a Part or several of them, got {type(content).__name__}: "
            "use Part(raw=...) for bytes and Part(data=...) for JSON"
        )
    return _parts([Part(text=item) if isinstance(item, str) else item for item in content])


def _parts(values: Iterable[Part]) -> tuple[Part, ...]:
    return sequence_of(Part, values)


def _text(parts: tuple[Part, ...], separator: str) -> str:
    return separator.join([part.text for part in parts if part.text is not None])


@attrs.frozen(kw_only=True)
class Message(Value):
    """One turn of a conversation.

    Attributes:
        message_id: Chosen by the creator of the message.
        context_id: The conversation that it belongs to.
        task_id: The task that it belongs to.
        role: Who sent it.
        parts: Its content, at least one part.
        metadata: Extension data, by convention keyed by the extension's URI.
        extensions: URIs of the extensions that contributed to it.
        reference_task_ids: Other tasks, offered as context.
    """

    message_id: str
    context_id: str = ""
    task_id: str = ""
    role: Role
    parts: tuple[Part, ...] = attrs.field(converter=_parts)
    metadata: dict[str, Any] | None = attrs.field(default=None, converter=copy_struct)
    extensions: tuple[str, ...] = attrs.field(default=(), converter=_strings)
    reference_task_ids: tuple[str, ...] = attrs.field(default=(), converter=_strings)

    @classmethod
    def user(
        cls,
        content: PartsLike,
        *,
        message_id: str | None = None,
        context_id: str = "",
        task_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        extensions: Iterable[str] = (),
        reference_task_ids: Iterable[str] = (),
    ) -> Self:
        """Make a message of the user from a str, a part or several of them; its id is a new UUID unless given."""
        return cls(
            message_id=new_id() if message_id is None else message_id,
            context_id=context_id,
            task_id=task_id,
            role=Role.USER,
            parts=as_parts(content),
            metadata=metadata,
            extensions=extensions,
            reference_task_ids=reference_task_ids,
        )

    @classmethod
    def agent(
        cls,
        content: PartsLike,
        *,
        message_id: str | None = None,
        context_id: str = "",
        task_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        extensions: Iterable[str] = (),
        reference_task_ids: Iterable[str] = (),
    ) -> Self:
        """Make a message of the agent from a str, a part or several of them; its id is a new UUID unless given."""
        return cls(
            message_id=new_id() if message_id is None else message_id,
            context_id=context_id,
            task_id=task_id,
            role=Role.AGENT,
            parts=as_parts(content),
            metadata=metadata,
            extensions=extensions,
            reference_task_ids=reference_task_ids,
        )

    def text(self, separator: str = "\n") -> str:
        """Return the text of the text parts, joined; empty without one."""
        return _text(self.parts, separator)


@attrs.frozen(kw_only=True)
class Artifact(Value):
    """An output of a task.

    Attributes:
        artifact_id: Unique within its task.
        name: For people; kept the same when the artifact is refined.
        description: For people.
        parts: Its content, at least one part.
        metadata: Extension data.
        extensions: URIs of the extensions that contributed to it.
    """

    artifact_id: str
    name: str = ""
    description: str = ""
    parts: tuple[Part, ...] = attrs.field(converter=_parts)
    metadata: dict[str, Any] | None = attrs.field(default=None, converter=copy_struct)
    extensions: tuple[str, ...] = attrs.field(default=(), converter=_strings)

    def text(self, separator: str = "\n") -> str:
        """Return the text of the text parts, joined; empty without one."""
        return _text(self.parts, separator)
