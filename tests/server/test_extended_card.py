"""The extended card over both HTTP bindings, and cards that are checked when the agent is made."""

import re
from functools import partial

import attrs
import pytest
import trio

from tests.deadline import within
from tests.server.bindings import JSONRPC, REST, both_bindings, open_caller
from trio_a2a.errors import AuthorizationError, TaskNotFoundError
from trio_a2a.server import Agent, BearerTokenAuthenticator, agent_card
from trio_a2a.stores.push_memory import InMemoryPushConfigStore
from trio_a2a.types import (
    AgentCapabilities,
    AgentCardSignature,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

GET = "GetExtendedAgentCard"
AUTH = BearerTokenAuthenticator({"a": "ann", "b": "bob"})
PUBLIC = agent_card("Public", "Is seen by all.")
EXTENDED = agent_card(
    "Extended",
    "Is seen by some.",
    skills=[AgentSkill(id="secret", name="Secret", description="For members.", tags=("x",))],
)


async def finish(_context, updater):
    await updater.complete()


def declaring(card, **capabilities):
    return attrs.evolve(card, capabilities=AgentCapabilities(**capabilities))


# ------------------------------------------------------------------------------------------------------------- the card


@both_bindings
@within(5)
async def test_the_extended_card_is_completed_like_the_public_one(autojump_clock, binding):
    async with open_caller(binding, finish, card=PUBLIC, extended_card=EXTENDED) as caller:
        public = (await caller.peer.http("GET", "/.well-known/agent-card.json")).json
        answer = await caller.call(GET)
    card = answer.result
    assert (public["name"], card["name"]) == ("Public", "Extended")
    assert card["skills"][0]["id"] == "secret"
    assert card["supportedInterfaces"] == public["supportedInterfaces"]
    assert card["capabilities"] == public["capabilities"] == {"streaming": True, "extendedAgentCard": True}


@both_bindings
@within(5)
async def test_interfaces_that_it_lists_are_its_own(autojump_clock, binding):
    interface = AgentInterface(url="https://members.example", protocol_binding="JSONRPC", protocol_version="1.0")
    card = attrs.evolve(EXTENDED, supported_interfaces=(interface,))
    async with open_caller(binding, finish, extended_card=card) as caller:
        (shown,) = (await caller.call(GET)).result["supportedInterfaces"]
    assert shown["url"] == "https://members.example"


@pytest.mark.requirement("C-148")
@both_bindings
@within(5)
async def test_it_is_for_the_caller_s_own_cache_alone(autojump_clock, binding):
    async with open_caller(binding, finish, extended_card=EXTENDED) as caller:
        answer = await caller.call(GET)
    assert answer.headers["cache-control"] == "private"
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.requirement("C-248")
@within(5)
async def test_json_rpc_takes_the_call_without_params(autojump_clock):
    async with open_caller(JSONRPC, finish, extended_card=EXTENDED) as caller:
        for extra in ("", ', "params": {}', ', "params": null'):
            body = f'{{"jsonrpc": "2.0", "id": 1, "method": "{GET}"{extra}}}'.encode()
            assert (await caller.peer.post(body)).result["name"] == "Extended"


# ------------------------------------------------------------------------------------------------------ for each caller


@pytest.mark.requirement("C-144", "C-145", "C-146", "C-147")
@both_bindings
@pytest.mark.parametrize("kind", ["function", "async function", "object"])
@within(5)
async def test_a_function_gives_each_principal_its_card_or_none(autojump_clock, binding, kind):
    def choose(principal):
        if principal.id == "bob":
            return None
        return attrs.evolve(EXTENDED, description=f"For {principal.id}.")

    async def choose_later(principal):
        await trio.sleep(1)
        return choose(principal)

    class Chooser:
        async def __call__(self, principal):
            return choose(principal)

    extended_card = {"function": choose, "async function": choose_later, "object": Chooser()}[kind]
    async with open_caller(binding, finish, extended_card=extended_card, authenticator=AUTH) as caller:
        assert (await caller.speaking_for("a").call(GET)).result["description"] == "For ann."
        answer = await caller.speaking_for("b").call(GET)
        assert answer.reason == "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
        assert answer.status == (200 if binding == JSONRPC else 400)
        refused = await caller.call(GET)
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == "Bearer"


@both_bindings
@within(5)
async def test_without_an_authenticator_the_caller_is_anonymous(autojump_clock, binding):
    seen = []

    def choose(principal):
        seen.append(principal.id)

    async with open_caller(binding, finish, extended_card=choose) as caller:
        assert (await caller.call(GET)).reason == "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    assert seen == [""]


@both_bindings
@within(5)
async def test_a_function_may_refuse_the_caller(autojump_clock, binding):
    def choose(principal):
        raise AuthorizationError if principal.id == "bob" else TaskNotFoundError

    async with open_caller(binding, finish, extended_card=choose, authenticator=AUTH) as caller:
        assert (await caller.speaking_for("b").call(GET)).status == 403
        assert (await caller.speaking_for("a").call(GET)).reason == "TASK_NOT_FOUND"


@both_bindings
@pytest.mark.parametrize("fault", ["raises", "declares push", "no card"])
@within(5)
async def test_a_function_that_fails_is_an_internal_error_without_detail(autojump_clock, binding, fault, caplog):
    def choose(_principal):
        if fault == "raises":
            raise ValueError("secret detail")
        return declaring(EXTENDED, push_notifications=True) if fault == "declares push" else "secret detail"

    async with open_caller(binding, finish, extended_card=choose) as caller:
        answer = await caller.call(GET)
        assert answer.reason == "INTERNAL_ERROR"
        assert b"secret" not in answer.reply.body
        assert b"push" not in answer.reply.body
        assert (await caller.call("ListTasks")).result
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


# ------------------------------------------------------------------------------------------------------ the declaration


@pytest.mark.requirement("C-143")
@both_bindings
@pytest.mark.parametrize("extended_card", [None, EXTENDED])
@within(5)
async def test_an_extended_card_that_the_public_one_does_not_declare_is_unsupported(
    autojump_clock, binding, extended_card
):
    card = declaring(PUBLIC, extended_agent_card=False)
    async with open_caller(binding, finish, card=card, extended_card=extended_card) as caller:
        answer = await caller.call(GET)
        assert answer.reason == "UNSUPPORTED_OPERATION"
        shown = (await caller.peer.http("GET", "/.well-known/agent-card.json")).json
        assert shown["capabilities"]["extendedAgentCard"] is False


@pytest.mark.parametrize(
    ("capability", "says"),
    [("push_notifications", "push="), ("extended_agent_card", "extended_card=")],
)
def test_a_capability_that_is_declared_and_not_configured_is_a_start_up_error_that_says_which(capability, says):
    with pytest.raises(ValueError, match=capability) as caught:
        Agent(declaring(PUBLIC, **{capability: True}), finish)
    assert says in str(caught.value)


def test_an_extended_card_is_checked_like_the_public_one_when_the_agent_is_made():
    with pytest.raises(ValueError, match="push_notifications"):
        Agent(PUBLIC, finish, extended_card=declaring(EXTENDED, push_notifications=True))
    Agent(PUBLIC, finish, extended_card=declaring(EXTENDED, push_notifications=True), push=InMemoryPushConfigStore())


@pytest.mark.parametrize("place", ["card", "skill", "extended card"])
def test_a_security_scheme_that_a_card_requires_and_does_not_describe_is_a_start_up_error(place):
    """Protocol 11.3."""
    needed = (SecurityRequirement(schemes={"token": StringList(), "key": StringList()}),)
    scheme = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))
    described = attrs.evolve(EXTENDED, security_schemes={"token": scheme})
    if place == "skill":
        wrong = attrs.evolve(described, skills=(attrs.evolve(EXTENDED.skills[0], security_requirements=needed),))
    else:
        wrong = attrs.evolve(described, security_requirements=needed)
    with pytest.raises(ValueError, match=re.escape("['key']")):
        Agent(PUBLIC, finish, extended_card=wrong) if place == "extended card" else Agent(wrong, finish)
    Agent(attrs.evolve(wrong, security_schemes={"token": scheme, "key": scheme}), finish)


@pytest.mark.parametrize("signer", ["key.pem", 7])
def test_a_signer_that_cannot_be_called_is_a_type_error_at_once(signer):
    with pytest.raises(TypeError, match="card_signer"):
        Agent(PUBLIC, finish, card_signer=signer)


def test_a_function_may_give_none_so_nothing_is_wrong_with_declaring_its_card():
    agent = Agent(declaring(PUBLIC, extended_agent_card=True), finish, extended_card=lambda _principal: None)
    assert agent.card.capabilities.extended_agent_card is True


@pytest.mark.parametrize("extended_card", ["card.json", {"name": "x"}, 7])
def test_what_is_neither_a_card_nor_a_function_is_a_type_error_at_once(extended_card):
    with pytest.raises(TypeError, match="extended_card"):
        Agent(PUBLIC, finish, extended_card=extended_card)


def test_capabilities_follow_what_the_agent_is_given():
    bare = Agent(PUBLIC, finish).card.capabilities
    assert (bare.streaming, bare.push_notifications, bare.extended_agent_card) == (True, None, None)
    rich = Agent(PUBLIC, finish, push=InMemoryPushConfigStore(), extended_card=EXTENDED).card.capabilities
    assert (rich.streaming, rich.push_notifications, rich.extended_agent_card) == (True, True, True)


# -------------------------------------------------------------------------------------------------------------- signing


def sign(card, *, by):
    """Stands for a signature: names what was signed."""
    what = ",".join((card.name, *(interface.url for interface in card.supported_interfaces)))
    return attrs.evolve(card, signatures=(AgentCardSignature(protected=by, signature=what),))


@both_bindings
@within(5)
async def test_both_cards_are_signed_as_they_are_served(autojump_clock, binding):
    options = {"card": PUBLIC, "extended_card": EXTENDED, "card_signer": partial(sign, by="me")}
    async with open_caller(binding, finish, app_options={"url": "https://a.example"}, **options) as caller:
        public = (await caller.peer.http("GET", "/.well-known/agent-card.json")).json
        extended = (await caller.call(GET)).result
    urls = "https://a.example,https://a.example"
    assert public["signatures"] == [{"protected": "me", "signature": f"Public,{urls}"}]
    assert extended["signatures"] == [{"protected": "me", "signature": f"Extended,{urls}"}]


@within(5)
async def test_a_real_signature_of_each_card_holds_for_what_was_received(autojump_clock):
    jose = pytest.importorskip("joserfc.jwk")
    from trio_a2a.wire.signing import sign_card, verify_card

    key = jose.ECKey.generate_key("P-256")
    options = {"extended_card": EXTENDED, "card_signer": partial(sign_card, key=key.as_pem(private=True), kid="k1")}
    async with open_caller(REST, finish, **options) as caller:
        for reply in (
            await caller.peer.http("GET", "/.well-known/agent-card.json"),
            (await caller.call(GET)).reply,
        ):
            assert reply.status == 200, reply
            verify_card(reply.body, keys={"k1": key.as_dict(private=False)})
            changed = (
                reply.body.replace(b"Public", b"Pablic").replace(b"Extended", b"Extanded").replace(b"Tested", b"T")
            )
            with pytest.raises(Exception, match="signature"):
                verify_card(changed, keys={"k1": key.as_dict(private=False)})
