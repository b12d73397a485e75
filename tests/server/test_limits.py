"""The bounds of a server."""

import math

import attrs
import pytest

from trio_a2a.server import Limits
from trio_a2a.server.http import HttpLimits

OWN = ["first_event_timeout", "cancel_timeout", "header_delay", "keep_alive"]


@pytest.mark.requirement("S5-LIMITS")
def test_the_defaults_are_those_of_the_design():
    limits = Limits()
    assert limits.first_event_timeout == 1.0
    assert limits.cancel_timeout == 10.0
    assert limits.header_delay == 1.0
    assert limits.keep_alive == 15.0
    assert limits.max_body == 16 * 1024 * 1024


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("value", [-1, math.nan])
def test_a_negative_time_is_refused_at_once(name, value):
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})


@pytest.mark.parametrize("name", ["cancel_timeout", "keep_alive", "header_timeout", "max_head"])
def test_zero_is_refused_where_it_makes_no_sense(name):
    with pytest.raises(ValueError, match=name):
        Limits(**{name: 0})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_body", 1.5),
        ("max_parts", True),
        ("max_connections", "10"),
        ("replay_events", 1.0),
        ("replay_events", False),
        ("queued_sends", None),
        ("cancel_timeout", "10"),
        ("header_timeout", True),
        ("first_event_timeout", False),
        ("stream_age", "1"),
    ],
)
def test_what_is_no_number_or_no_count_is_refused_at_once(name, value):
    """A flag or a text that was meant for another option shows when the server is made, not when the bound is met."""
    with pytest.raises(TypeError, match=name):
        Limits(**{name: value})


@pytest.mark.parametrize("name", ["first_event_timeout", "header_delay"])
def test_zero_means_not_to_wait_where_one_waits_for_the_agent_to_speak_first(name):
    assert getattr(Limits(**{name: 0}), name) == 0


def test_the_http_server_gets_its_own_bounds_and_leaves_the_body_to_the_application():
    http = Limits(max_body=7, max_head=1000, keep_alive_timeout=3).http()
    assert type(http) is HttpLimits
    assert http.max_body is None
    assert http.max_head == 1000
    assert http.keep_alive_timeout == 3
    assert attrs.asdict(HttpLimits(max_body=None)) == attrs.asdict(Limits().http())


def test_no_bound_on_the_body_may_be_chosen():
    assert Limits(max_body=None).max_body is None
