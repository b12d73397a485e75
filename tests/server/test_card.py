"""The agent card: what is filled in, where it is served, and how clients keep it."""

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import attrs
import pytest
from jsonschema import Draft202012Validator

from tests.deadline import within
from tests.server.peer import open_peer
from trio_a2a.server import Agent, agent_card
from trio_a2a.server.card import CARD_PATH, ServedCard
from trio_a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill
from trio_a2a.wire import from_json

EMIT_SCHEMA = Path(__file__).parents[1] / "contract" / "data" / "schema" / "a2a-1.0-emit.schema.json"
WELL_KNOWN = "/.well-known/agent-card.json"


async def nothing(_context, _updater):
    pass


def test_the_card_lies_where_the_protocol_says():
    assert CARD_PATH == WELL_KNOWN


@pytest.mark.requirement("S5-CARD")
@within(5)
async def test_the_card_is_served_with_the_interfaces_that_are(autojump_clock):
    async with open_peer(nothing, app_options={"url": "https://agents.example/echo/"}) as peer:
        reply = await peer.http("GET", WELL_KNOWN)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    card = from_json(reply.body, AgentCard)
    assert card.supported_interfaces == (
        AgentInterface(url="https://agents.example/echo", protocol_binding="JSONRPC", protocol_version="1.0"),
        AgentInterface(url="https://agents.example/echo", protocol_binding="HTTP+JSON", protocol_version="1.0"),
    )
    assert card.name == "Tested"
    assert card.capabilities.streaming is True
    assert len(card.skills) == 1
    assert "url" not in reply.json, "a member of version 0.3"


@pytest.mark.requirement("S5-CARD")
@pytest.mark.parametrize(
    ("options", "headers", "url"),
    [
        ({}, {"host": "agents.example:8080"}, "http://agents.example:8080"),
        ({"rpc_path": "/rpc"}, {"host": "agents.example"}, "http://agents.example/rpc"),
        ({"url": "https://a.example", "rpc_path": "/rpc/"}, {"host": "other"}, "https://a.example/rpc"),
        ({"url": "https://a.example/"}, {"host": "other"}, "https://a.example"),
    ],
)
@within(5)
async def test_the_url_in_the_card_is_the_one_given_or_that_of_the_request(autojump_clock, options, headers, url):
    async with open_peer(nothing, app_options=options) as peer:
        reply = await peer.http("GET", WELL_KNOWN, headers)
    assert reply.json["supportedInterfaces"][0]["url"] == url


@pytest.mark.requirement("S5-CARD")
@within(5)
async def test_a_card_that_lists_interfaces_is_served_as_it_is(autojump_clock):
    interface = AgentInterface(url="https://elsewhere.example", protocol_binding="GRPC", protocol_version="1.0")
    card = attrs.evolve(agent_card("Tested", "."), supported_interfaces=(interface,))
    async with open_peer(nothing, card=card) as peer:
        reply = await peer.http("GET", WELL_KNOWN)
    assert from_json(reply.body, AgentCard).supported_interfaces == (interface,)


@within(5)
async def test_the_card_may_be_kept_and_is_not_sent_again(autojump_clock):
    async with open_peer(nothing) as peer:
        reply = await peer.http("GET", WELL_KNOWN)
        etag, modified = reply.headers["etag"], reply.headers["last-modified"]
        assert reply.headers["cache-control"] == "public, max-age=3600"
        assert etag.startswith('"')
        assert parsedate_to_datetime(modified).tzinfo is not None
        for header, value in [
            ("if-none-match", etag),
            ("if-none-match", f'"x", W/{etag}'),
            ("if-none-match", "*"),
            ("if-modified-since", modified),
        ]:
            known = await peer.http("GET", WELL_KNOWN, {header: value})
            assert (header, value, known.status) == (header, value, 304)
            assert known.headers["etag"] == etag
            assert known.headers["cache-control"] == "public, max-age=3600"
            assert known.body == b""
        for headers in [
            {"if-none-match": '"x"'},
            {"if-none-match": '"x"', "if-modified-since": modified},  # the tag counts alone
            {"if-modified-since": "Thu, 01 Jan 1970 00:00:00 GMT"},
            {"if-modified-since": "nonsense"},
        ]:
            assert (await peer.http("GET", WELL_KNOWN, headers)).status == 200


@within(5)
async def test_head_is_get_without_the_body(autojump_clock):
    async with open_peer(nothing) as peer:
        wire = peer.connect()
        whole = await peer.http("GET", WELL_KNOWN, wire=wire)
        head = await peer.http("HEAD", WELL_KNOWN, wire=wire)
        assert head.status == 200
        assert {**head.headers, "date": ""} == {**whole.headers, "date": ""}
        assert head.body == b""
        again = await peer.http("GET", WELL_KNOWN, wire=wire)
        assert again.body == whole.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@within(5)
async def test_any_other_method_is_405(autojump_clock, method):
    async with open_peer(nothing) as peer:
        reply = await peer.http(method, WELL_KNOWN)
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, HEAD"


@within(5)
async def test_the_tag_changes_with_the_card_and_only_with_it(autojump_clock):
    async def tag(name):
        async with open_peer(nothing, card=agent_card(name, ".")) as peer:
            return (await peer.http("GET", WELL_KNOWN)).headers["etag"]

    assert await tag("One") == await tag("One")
    assert await tag("One") != await tag("Two")


@within(5)
async def test_the_card_needs_no_version_header(autojump_clock):
    async with open_peer(nothing) as peer:
        assert (await peer.http("GET", WELL_KNOWN, {"a2a-version": "0.3"})).status == 200


def test_a_served_card_compares_dates_as_the_client_got_them():
    card = ServedCard.of(agent_card("Tested", "."), datetime(2030, 1, 2, 3, 4, 5, 678, tzinfo=UTC))
    assert card.last_modified == "Wed, 02 Jan 2030 03:04:05 GMT"
    assert card.is_current(None, "Wed, 02 Jan 2030 03:04:05 GMT")
    assert not card.is_current(None, None)


# ------------------------------------------------------------------------------------------------ making an agent


def test_a_short_card_has_all_that_the_protocol_asks_for():
    card = agent_card("Echo Agent 2", "Says it back.", version="2.1", modes=("text/plain", "text/html"))
    assert card.version == "2.1"
    assert card.default_input_modes == card.default_output_modes == ("text/plain", "text/html")
    (skill,) = card.skills
    assert (skill.id, skill.name, skill.description) == ("echo-agent-2", "Echo Agent 2", "Says it back.")
    assert skill.tags


def test_skills_that_are_given_are_the_card_s():
    skill = AgentSkill(id="s", name="S", description="s", tags=("t",))
    assert agent_card("Echo", ".", skills=[skill]).skills == (skill,)


@pytest.mark.parametrize("wrong", [{"name": ""}, {"version": ""}, {"modes": ()}])
def test_a_card_without_its_least_is_refused_at_once(wrong):
    with pytest.raises(ValueError):
        agent_card(**{"name": "Echo", "description": ".", **wrong})


@pytest.mark.parametrize("name", ["push_notifications", "extended_agent_card"])
def test_a_card_that_promises_what_is_not_there_is_refused(name):
    card = attrs.evolve(agent_card("Echo", "."), capabilities=AgentCapabilities(**{name: True}))
    with pytest.raises(ValueError, match=name):
        Agent(card, nothing)


def test_a_capability_that_is_given_is_kept():
    card = attrs.evolve(agent_card("Echo", "."), capabilities=AgentCapabilities(streaming=False))
    assert Agent(card, nothing).card.capabilities.streaming is False
    assert Agent(agent_card("Echo", "."), nothing).card.capabilities.streaming is True


class Sync:
    def execute(self, _context, _updater):
        pass


class SyncCancel:
    async def execute(self, _context, _updater):
        pass

    def cancel(self, _context, _updater):
        pass


class Whole:
    async def execute(self, _context, _updater):
        pass


@pytest.mark.parametrize("executor", [lambda _context, _updater: None, Sync(), SyncCancel(), Whole, None, "agent"])
def test_what_is_no_agent_is_a_type_error_at_once(executor):
    with pytest.raises(TypeError):
        Agent(agent_card("Echo", "."), executor)


def test_the_type_error_names_the_method():
    with pytest.raises(TypeError, match=r"SyncCancel\.cancel.*async def cancel"):
        Agent(agent_card("Echo", "."), SyncCancel())


class SyncHook:
    def on_subscribe(self, _task_id, _handle):
        pass

    async def on_unsubscribe(self, _task_id, _handle):
        pass

    async def on_event(self, _task_id, _event, _handle):
        pass


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"hook": SyncHook()}, "on_subscribe"),
        ({"store": object()}, "get"),
        ({"state_provider": object()}, "is_task_active"),
        ({"authenticator": object()}, "authenticate"),
    ],
)
def test_what_cannot_be_awaited_is_a_type_error_when_it_is_given(options, name):
    with pytest.raises(TypeError, match=name):
        Agent(agent_card("Echo", "."), nothing, **options)


def test_an_unknown_error_table_is_refused():
    with pytest.raises(ValueError, match="error_table"):
        Agent(agent_card("Echo", "."), nothing, error_table="2.0")


@within(5)
async def test_an_object_with_an_async_call_is_an_agent(autojump_clock):
    class Callable:
        async def __call__(self, _context, updater):
            await updater.complete()

    async with open_peer(Callable()) as peer:
        assert (await peer.send()).result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_an_agent_shows_its_name():
    assert repr(Agent(agent_card("Echo", "."), nothing)) == "<Agent 'Echo'>"


@within(5)
async def test_the_card_is_what_strict_readers_accept(autojump_clock):
    schema = json.loads(EMIT_SCHEMA.read_text())
    async with open_peer(nothing) as peer:
        reply = await peer.http("GET", WELL_KNOWN)
    Draft202012Validator({**schema, "$ref": "#/$defs/AgentCard"}).validate(reply.json)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": ""}, "name"),
        ({"version": ""}, "version"),
        ({"skills": [AgentSkill(id="", name="s", description="", tags=["t"])]}, r"skills\[0\].id"),
        ({"capabilities": AgentCapabilities(extensions=[AgentExtension(uri="")])}, "uri of its own"),
        ({"capabilities": AgentCapabilities(extensions=[AgentExtension(uri="u:a")] * 2)}, "uri of its own"),
        (
            {"supported_interfaces": [AgentInterface(url="", protocol_binding="JSONRPC", protocol_version="1.0")]},
            r"supportedInterfaces\[0\].url",
        ),
    ],
)
def test_a_card_that_lacks_what_it_must_have_is_refused_when_the_agent_is_made(change, says):
    with pytest.raises(ValueError, match=says):
        Agent(attrs.evolve(agent_card("Tested", "."), **change), nothing)


def test_an_agent_refuses_what_is_no_card_no_limits_and_no_key():
    card = agent_card("Tested", ".")
    with pytest.raises(TypeError, match="card is an AgentCard"):
        Agent({"name": "x"}, nothing)
    with pytest.raises(TypeError, match="limits is a Limits"):
        Agent(card, nothing, limits={})
    with pytest.raises(TypeError, match="page token key is bytes"):
        Agent(card, nothing, page_token_key="x" * 20)
