"""Every bound that a server puts on its callers and on its agents, with the reason for its default."""

from typing import Any

import attrs

from .http import HttpLimits
from .http.limits import count, seconds

__all__ = ["Limits"]


def _or_0(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    if type(value) not in {int, float} or value != 0:
        seconds(instance, attribute, value)


def _count_or_0(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    if type(value) is not int or value != 0:
        count(instance, attribute, value)


def _or_none(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    if value is not None:
        seconds(instance, attribute, value)


@attrs.frozen(kw_only=True)
class Limits(HttpLimits):
    """Bounds of an agent's server. Sizes are in bytes, times in seconds on Trio's clock.

    Those of the HTTP connections are inherited from `HttpLimits`; under another ASGI server that one's own hold in
    their place. ``max_body`` (16 MiB: a file of 10 MB in base64 fits) is the application's here: past it the caller is
    answered 413 in the form of the binding that it used.

    Attributes:
        first_event_timeout: How long a call with ``returnImmediately`` waits for the agent's first report before the
            task is made for it.
        cancel_timeout: How long CancelTask waits for the agent.
        header_delay: How long a stream waits for its first event before its headers are sent without one.
        keep_alive: Silence of a stream after which a comment is sent.
        stream_age: How long a stream lasts; it then ends in order, and its reader may subscribe again. None: for ever.
        max_json_depth: Levels of nesting of a request; of a Struct in it there are 100 at most in any case.
        max_parts: Parts of one message, and tasks that it may refer to.
        streams_per_task: Open streams of one task.
        streams_per_principal: Open streams of one principal; the anonymous one has no bound.
        queued_sends: Messages that wait for a task's agent to be done with the one before.
        replay_events: How far back a returning reader may continue in place of a snapshot.

    Raises:
        TypeError: A value is no number, or a size or a count no int.
        ValueError: A value is negative, or zero where that makes no sense.
    """

    # Most agents report within it, and then the caller gets the agent's own first state; a caller that asked not to
    # wait should not feel it.
    first_event_timeout: float = attrs.field(default=1.0, validator=_or_0)
    # What a person waits for a cancel button.
    cancel_timeout: float = attrs.field(default=10.0, validator=seconds)
    # Refusals are known at once and should be plain errors; a client's time-out for headers is rarely below 5 s.
    header_delay: float = attrs.field(default=1.0, validator=_or_0)
    # Under the 30 to 60 s after which proxies drop a silent connection; what the common SSE libraries do.
    keep_alive: float = attrs.field(default=15.0, validator=seconds)
    # Long enough for nearly every task; short enough that a server behind a balancer is rid of old streams in a day.
    stream_age: float | None = attrs.field(default=24 * 3600.0, validator=_or_none)
    # As deep as a value of the protocol may be nested; what is read level by level costs as much again as the parser.
    max_json_depth: int = attrs.field(default=100, validator=count)
    # A message of a person has a few; a thousand small files are an archive, which is one part.
    max_parts: int = attrs.field(default=1000, validator=count)
    # One event costs a write for each. A task with more readers than this wants a broadcast service in front.
    streams_per_task: int = attrs.field(default=1000, validator=count)
    # A tenth of the connections: one caller cannot take the server from the others.
    streams_per_principal: int = attrs.field(default=100, validator=count)
    # Each holds its message and a waiting caller; an agent that is this far behind should say no.
    queued_sends: int = attrs.field(default=100, validator=count)
    # What the in-memory store holds; beyond it a snapshot is cheaper to send than what happened.
    replay_events: int = attrs.field(default=1000, validator=_count_or_0)

    def http(self) -> HttpLimits:
        """Return the bounds for the built-in server, which leaves the size of bodies to the application."""
        inherited = {field.name: getattr(self, field.name) for field in attrs.fields(HttpLimits)}
        return HttpLimits(**{**inherited, "max_body": None})
