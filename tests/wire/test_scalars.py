"""Timestamps in their many spellings, beyond the contract's vectors."""

from datetime import UTC, datetime

import pytest

from trio_a2a.wire.scalars import read_timestamp, write_timestamp


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999Z"),
        ("2024-02-29T00:00:00.5-00:00", "2024-02-29T00:00:00.500Z"),
        ("2026-03-14T00:30:00+05:45", "2026-03-13T18:45:00.000Z"),
        ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
    ],
)
def test_timestamps_are_read_and_cut(text, written):
    assert write_timestamp(read_timestamp(text)) == written


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-14T09:02:60Z",
        "2026-03-14T09:60:00Z",
        "2026-03-14T09:02:01.Z",
        "2026-03-14T09:02:01,5Z",
        "2026-03-14T09:02:01.1234567890Z",
        "2026-03-14t09:02:01z",
        "2026-03-14T09:02:01+2:00",
        "2026-03-14T09:02:01+0200",
        "2026-03-14T09:02:01+24:00",
        "2026-03-14T09:02:01+02",
        "2026-03-14T09:02Z",
        "20260314T090201Z",
        "2026-W11-6T09:02:01Z",
        "2026-13-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+02:00",
        "9999-12-31T23:59:59-02:00",
        " 2026-03-14T09:02:01Z",
        "2026-03-14T09:02:01Z\n",
        "\u0662026-03-14T09:02:01Z",
        "-2026-03-14T09:02:01Z",
        "now",
    ],
)
def test_odd_timestamps_are_refused_cleanly(text):
    with pytest.raises(ValueError, match="Must be a timestamp such as"):
        read_timestamp(text)


@pytest.mark.parametrize("thing", [None, 0, 1.5, [], {}, True, datetime(2026, 3, 14, tzinfo=UTC)])
def test_a_timestamp_is_a_string(thing):
    with pytest.raises(ValueError, match="Must be a timestamp such as"):
        read_timestamp(thing)
