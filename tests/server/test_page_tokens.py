"""Page tokens: they read back what they were made of, for whom they were made, and nothing else is a token."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from tests.strategies import texts, timestamps
from trio_a2a.errors import InvalidParamsError
from trio_a2a.server.page_tokens import PageTokens

KEY = b"sixteen bytes ok"
AT = datetime(2026, 3, 14, 9, 2, 1, 900_000, tzinfo=UTC)
SCOPE = ("alice", "", "ctx-1", "TASK_STATE_WORKING", None)


def refused(token, *, tokens=None, scope=SCOPE):
    with pytest.raises(InvalidParamsError) as caught:
        (tokens or PageTokens(KEY)).read(token, scope)
    (violation,) = caught.value.violations
    assert violation.field == "pageToken"
    assert token not in str(caught.value) or not token
    return violation.description


@pytest.mark.parametrize(
    "position",
    [
        (AT, "task-1"),
        (None, "task-1"),
        (AT, ""),
        (AT, 'Aufgabe ⛴ \U0001f600 \x00 "\\/\n'),
        (AT, "x" * 5000),
        (datetime(1970, 1, 1, tzinfo=UTC), "epoch"),
        (datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), "before the epoch"),
        (datetime(1, 1, 1, tzinfo=UTC), "first"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), "last"),
    ],
    ids=lambda position: str(position)[:60],
)
def test_a_token_reads_back_as_its_position(position):
    tokens = PageTokens(KEY)
    assert tokens.read(tokens.make(position, SCOPE), SCOPE) == position


@settings(deadline=None, derandomize=True, database=None)
@given(st.tuples(st.none() | timestamps, texts), st.lists(st.none() | st.booleans() | st.integers(0, 100) | texts))
def test_every_token_reads_back(position, scope):
    tokens = PageTokens(KEY)
    assert tokens.read(tokens.make(position, tuple(scope)), tuple(scope)) == position


def test_a_token_is_plain_text_for_a_query_string():
    token = PageTokens(KEY).make((AT, "ü/?&=#%+ "), SCOPE)
    assert token.isascii()
    assert token.replace("-", "").replace("_", "").isalnum()


def test_a_position_has_the_precision_of_milliseconds():
    """That is what the wire and the stores have."""
    tokens = PageTokens(KEY)
    later = AT + timedelta(microseconds=999)
    assert tokens.read(tokens.make((later, "t"), SCOPE), SCOPE) == (AT, "t")


def test_processes_that_share_a_key_read_each_other_s_tokens():
    token = PageTokens(KEY).make((AT, "t"), SCOPE)
    assert PageTokens(KEY).read(token, SCOPE) == (AT, "t")
    assert PageTokens(KEY).make((AT, "t"), SCOPE) == token


@pytest.mark.parametrize("other", [None, b"another key of 16", KEY + b"!"])
def test_a_token_of_another_key_is_refused(other):
    refused(PageTokens(other).make((AT, "t"), SCOPE))


def test_servers_without_a_key_have_each_their_own():
    refused(PageTokens().make((AT, "t"), SCOPE), tokens=PageTokens())


@pytest.mark.parametrize(
    "scope",
    [
        ("bob", *SCOPE[1:]),
        (None, *SCOPE[1:]),
        ("alice", "tenant", *SCOPE[2:]),
        (*SCOPE[:2], "ctx-2", *SCOPE[3:]),
        (*SCOPE[:3], "TASK_STATE_FAILED", None),
        (*SCOPE[:4], "2026-03-14T09:02:01.900Z"),
        SCOPE[:4],
        (*SCOPE, None),
        (),
        ("alice", "", "ctx-1", "TASK_STATE_WORKING", False),
        ("alice,", "ctx-1", "TASK_STATE_WORKING", None),
    ],
    ids=str,
)
def test_a_token_of_another_principal_or_of_other_filters_is_refused(scope):
    refused(PageTokens(KEY).make((AT, "t"), SCOPE), scope=scope)


TOKEN = PageTokens(KEY).make((AT, "task-1"), SCOPE)
DATA = base64.urlsafe_b64decode(TOKEN + "=" * (-len(TOKEN) % 4))


def encoded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_the_pieces_of_these_tests_make_the_token_again():
    assert encoded(DATA) == TOKEN
    assert DATA[16:].startswith(b"[")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "1",
        "=",
        "null",
        "not base64!",
        "\x00",
        "tökens",
        "\ud800",
        TOKEN + "=",
        TOKEN + "====",
        TOKEN + "!",
        TOKEN + "\n",
        " " + TOKEN,
        TOKEN[:10] + "*" + TOKEN[10:],
        TOKEN * 2,
        TOKEN.swapcase(),
        "A" * 100_000,
    ],
    ids=lambda token: ascii(token)[:40],
)
def test_what_is_no_token_is_refused(token):
    refused(token)


@pytest.mark.parametrize("length", range(len(TOKEN)))
def test_a_truncated_token_is_refused(length):
    refused(TOKEN[:length])


@pytest.mark.parametrize("place", range(len(DATA)))
def test_a_token_with_a_flipped_bit_is_refused(place):
    refused(encoded(DATA[:place] + bytes([DATA[place] ^ 1]) + DATA[place + 1 :]))


@pytest.mark.parametrize("payload", [b"", b"[]", b'[0,"task-1"]', b"{", DATA[16:] + b" "])
def test_a_position_of_one_s_own_making_is_refused(payload):
    for digest in (DATA[:16], bytes(16), b""):
        refused(encoded(digest + payload))


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 15])
def test_a_short_key_is_refused(key):
    with pytest.raises(ValueError, match=f"at least 16 bytes, not {len(key)}"):
        PageTokens(key)
