"""Timestamps: the one form in which this package holds an instant.

An instant is an aware :class:`~datetime.datetime` in UTC, cut to whole milliseconds, because that is what the wire
carries. Cut, never rounded: a timestamp must not lie after the instant that it records.
"""

from datetime import UTC, datetime

__all__ = ["utc_milliseconds"]


def utc_milliseconds(value: datetime | None) -> datetime | None:
    """Return the instant in UTC, cut to milliseconds; None stays None.

    Raises:
        TypeError: The value is no datetime.
        ValueError: The datetime is naive, or falls out of the range of years in UTC.
    """
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise TypeError(f"a timestamp is an aware datetime, got {type(value).__name__}")
    if value.utcoffset() is None:
        raise ValueError("a timestamp needs a time zone: use datetime.now(UTC), or .replace(tzinfo=UTC)")
    if value.__class__ is datetime and value.tzinfo is UTC and value.fold == 0:
        excess = value.microsecond % 1000
        return value.replace(microsecond=value.microsecond - excess) if excess else value
    try:
        instant = value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"the timestamp {value.isoformat()} is out of range in UTC") from None
    # Rebuilt field by field, so that a subclass (pandas, freezegun) becomes a plain datetime.
    return datetime(
        instant.year,
        instant.month,
        instant.day,
        instant.hour,
        instant.minute,
        instant.second,
        instant.microsecond // 1000 * 1000,
        tzinfo=UTC,
    )
