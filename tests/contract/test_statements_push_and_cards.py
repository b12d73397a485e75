"""The statements on push configurations, the extended card and the agent card."""

import attrs
import pytest
import trio

from tests.contract.bindings import OPERATIONS, PAIR, both_bindings, open_caller, said
from tests.contract.replay import assert_emittable
from tests.deadline import within
from tests.server.peer import make_app, open_peer
from trio_a2a.server import Agent, BearerTokenAuthenticator, agent_card
from trio_a2a.stores import InMemoryPushConfigStore
from trio_a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from trio_a2a.wire import to_dict

WELL_KNOWN = "/.well-known/agent-card.json"
CRUD = [name for name in OPERATIONS if "PushNotificationConfig" in name]
URL = "https://hooks.example/a2a"


async def ask(_context, updater):
    await updater.require_input("What?")


async def finish(_context, updater):
    await updater.complete()


def with_push(**options):
    return {"push": InMemoryPushConfigStore(), **options}


async def create(caller, task_id, **members):
    params = {"taskId": task_id, "url": URL, **members}
    return (await caller.call("CreateTaskPushNotificationConfig", params)).result


async def configs(caller, task_id, **members):
    return (await caller.call("ListTaskPushNotificationConfigs", {"taskId": task_id, **members})).result


def params_of(operation, task_id):
    params = {"taskId": task_id}
    if operation.startswith("Create"):
        params["url"] = URL
    elif not operation.startswith("List"):
        params["id"] = "hook"
    return params


# ------------------------------------------------------------------------------------------------- push configurations


@pytest.mark.requirement("C-110", "B64")
@pytest.mark.parametrize("declared", [False, None])
@pytest.mark.parametrize("operation", CRUD)
@both_bindings
@within(5)
async def test_an_agent_that_does_not_push_says_so(autojump_clock, binding, operation, declared):
    assert len(CRUD) == 4
    card = attrs.evolve(agent_card("Tested", "."), capabilities=AgentCapabilities(push_notifications=declared))
    async with open_caller(binding, ask, card=card) as caller:
        assert caller.app.agent.card.capabilities.push_notifications is declared
        answer = await caller.call(operation, params_of(operation, "unknown"))
    assert answer.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"


@pytest.mark.requirement("C-111", "B64")
@both_bindings
@within(5)
async def test_a_configuration_is_returned_as_it_was_registered_with_its_id(autojump_clock, binding):
    async with open_caller(binding, ask, **with_push()) as caller:
        task = await caller.send()
        secret = {"token": "t", "authentication": {"scheme": "Bearer", "credentials": "c"}}
        made = await create(caller, task["id"], **secret)
        other = await create(caller, task["id"])
        named = await create(caller, task["id"], id="hook")
    assert made == {"id": made["id"], "taskId": task["id"], "url": URL, **secret}
    assert named["id"] == "hook"
    assert len({made["id"], other["id"], named["id"], ""}) == 4


@pytest.mark.requirement("C-112", "C-115", "C-118", "C-121", "B64")
@pytest.mark.parametrize("operation", CRUD)
@both_bindings
@within(5)
async def test_a_configuration_of_an_unknown_task_is_not_found(autojump_clock, binding, operation):
    async with open_caller(binding, ask, **with_push()) as caller:
        assert (await caller.call(operation, params_of(operation, "unknown"))).reason == "TASK_NOT_FOUND"


@pytest.mark.requirement("C-123", "C-115")
@pytest.mark.parametrize("operation", CRUD)
@both_bindings
@within(5)
async def test_a_configuration_is_for_those_who_may_see_its_task(autojump_clock, binding, operation):
    async with open_caller(binding, ask, **PAIR, **with_push()) as caller:
        ann, bob = caller.by("a-token"), caller.by("b-token")
        task = await ann.send()
        await create(ann, task["id"], id="hook")
        hidden = await bob.call(operation, params_of(operation, task["id"]))
        missing = await bob.call(operation, params_of(operation, "0" * len(task["id"])))
        assert len((await configs(ann, task["id"]))["configs"]) == 1
    assert hidden.reason == "TASK_NOT_FOUND"
    assert str(hidden.body).replace(task["id"], "0" * len(task["id"])) == str(missing.body)


@pytest.mark.requirement("C-113", "C-114", "B64")
@both_bindings
@within(5)
async def test_a_configuration_stays_and_is_read_back_without_its_secrets(autojump_clock, binding):
    push = InMemoryPushConfigStore()
    secret = {"token": "t", "authentication": {"scheme": "Bearer", "credentials": "c"}}
    async with open_caller(binding, ask, push=push) as caller:
        task = await caller.send()
        await create(caller, task["id"], id="hook", **secret)
        await trio.sleep(3)
        got = (await caller.call("GetTaskPushNotificationConfig", {"taskId": task["id"], "id": "hook"})).result
    assert got == {"id": "hook", "taskId": task["id"], "url": URL, "authentication": {"scheme": "Bearer"}}
    (stored,) = await push.list(task["id"])
    assert (stored.token, stored.authentication.credentials) == ("t", "c")


@pytest.mark.requirement("C-115", "B64")
@both_bindings
@within(5)
async def test_a_configuration_that_is_none_is_not_found(autojump_clock, binding):
    async with open_caller(binding, ask, **with_push()) as caller:
        task = await caller.send()
        answer = await caller.call("GetTaskPushNotificationConfig", {"taskId": task["id"], "id": "none"})
    assert answer.reason == "TASK_NOT_FOUND"


@pytest.mark.requirement("C-116", "C-117", "D21", "B64")
@both_bindings
@within(5)
async def test_all_configurations_are_listed_also_page_by_page(autojump_clock, binding):
    async with open_caller(binding, ask, **with_push()) as caller:
        task = await caller.send()
        for name in "cab":
            await create(caller, task["id"], id=name)
        whole = await configs(caller, task["id"])
        first = await configs(caller, task["id"], pageSize=2)
        second = await configs(caller, task["id"], pageSize=2, pageToken=first["nextPageToken"])
    assert [one["id"] for one in whole["configs"]] == ["a", "b", "c"]
    assert [one["id"] for one in first["configs"]] == ["a", "b"]
    assert [one["id"] for one in second["configs"]] == ["c"]
    assert "nextPageToken" not in second


@pytest.mark.requirement("C-119", "C-120", "B64")
@both_bindings
@within(5)
async def test_a_configuration_is_deleted_for_good_however_often(autojump_clock, binding):
    push = InMemoryPushConfigStore()
    async with open_caller(binding, ask, push=push) as caller:
        task = await caller.send()
        await create(caller, task["id"], id="hook")
        params = {"taskId": task["id"], "id": "hook"}
        for _ in range(2):
            assert (await caller.call("DeleteTaskPushNotificationConfig", params)).result == {}
        assert (await caller.call("GetTaskPushNotificationConfig", params)).reason == "TASK_NOT_FOUND"
        assert "configs" not in await configs(caller, task["id"])
    assert not await push.list(task["id"])


# ---------------------------------------------------------------------------------------------------- extended card


def extended(principal):
    if principal.id != "ann":
        return None if principal.id != "bob" else agent_card("Small", "For everybody that is known.")
    return agent_card("Large", "For Ann.")


@pytest.mark.requirement("C-143")
@pytest.mark.parametrize("declared", [False, None])
@both_bindings
@within(5)
async def test_an_agent_without_an_extended_card_says_so(autojump_clock, binding, declared):
    card = attrs.evolve(agent_card("Tested", "."), capabilities=AgentCapabilities(extended_agent_card=declared))
    async with open_caller(binding, ask, card=card) as caller:
        assert caller.app.agent.card.capabilities.extended_agent_card is declared
        assert (await caller.call("GetExtendedAgentCard")).reason == "UNSUPPORTED_OPERATION"


@pytest.mark.requirement("C-144")
@both_bindings
@within(5)
async def test_an_extended_card_that_is_none_for_the_caller_is_not_configured(autojump_clock, binding):
    async with open_caller(binding, ask, extended_card=lambda _: None) as caller:
        assert (await caller.call("GetExtendedAgentCard")).reason == "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    with pytest.raises(ValueError, match="extended_agent_card"):
        capabilities = AgentCapabilities(extended_agent_card=True)
        Agent(attrs.evolve(agent_card("Tested", "."), capabilities=capabilities), ask)


@pytest.mark.requirement("C-145", "C-146", "C-147", "C-148")
@both_bindings
@within(5)
async def test_an_extended_card_is_for_callers_that_are_known_and_each_gets_its_own(autojump_clock, binding):
    async with open_caller(binding, ask, extended_card=extended, **PAIR) as caller:
        for token in (None, "wrong"):
            answer = await caller.by(token).call("GetExtendedAgentCard")
            assert answer.status == 401
            assert "name" not in str(answer.body)
        large = await caller.by("a-token").call("GetExtendedAgentCard")
        small = await caller.by("b-token").call("GetExtendedAgentCard")
    assert (large.result["name"], small.result["name"]) == ("Large", "Small")
    assert "Large" not in str(small.body)
    for answer in (large, small):
        assert_emittable(answer.result, "AgentCard")
        if binding == "HTTP+JSON":
            assert answer.headers["cache-control"] == "private"


@pytest.mark.requirement("C-149", "C-198")
@within(5)
async def test_no_card_shows_what_the_agent_keeps_secret(autojump_clock):
    secrets = ["a-token", "b-token", "the key of the page tokens", "hook-token", "hook-credentials"]
    options = {
        "extended_card": extended,
        "page_token_key": secrets[2].encode(),
        **PAIR,
        **with_push(),
    }
    async with open_caller("HTTP+JSON", ask, **options) as caller:
        ann = caller.by("a-token")
        task = await ann.send()
        await create(ann, task["id"], token=secrets[3], authentication={"scheme": "Basic", "credentials": secrets[4]})
        cards = [
            str((await ann.call("GetExtendedAgentCard")).body),
            (await caller.peer.http("GET", WELL_KNOWN)).body.decode(),
        ]
    for card in cards:
        assert not [secret for secret in secrets if secret in card]


# ---------------------------------------------------------------------------------------------------- the agent card


@pytest.mark.requirement("C-178", "C-179", "C-154")
@within(5)
async def test_the_card_is_at_the_well_known_place(autojump_clock):
    async with open_peer(ask, app_options={"url": "https://agents.example"}) as peer:
        reply = await peer.http("GET", WELL_KNOWN)
    assert reply.status == 200
    assert_emittable(reply.json, "AgentCard")
    assert [one["protocolVersion"] for one in reply.json["supportedInterfaces"]] == ["1.0", "1.0"]


REQUIRED = {
    AgentCard: "name description version supported_interfaces capabilities default_input_modes"
    " default_output_modes skills",
    AgentInterface: "url protocol_binding protocol_version",
    AgentSkill: "id name description tags",
}


@pytest.mark.requirement("C-180", "C-181", "C-182")
@pytest.mark.parametrize("cls", REQUIRED)
def test_no_card_can_be_made_without_what_it_needs(cls):
    card = make_app(ask).agent.card
    whole = attrs.evolve(card, supported_interfaces=(_interface("JSONRPC"),))
    value = {AgentCard: whole, AgentInterface: whole.supported_interfaces[0], AgentSkill: whole.skills[0]}[cls]
    members = {field.name: getattr(value, field.name) for field in attrs.fields(cls)}
    for name in REQUIRED[cls].split():
        with pytest.raises(TypeError, match=name):
            cls(**{key: member for key, member in members.items() if key != name})


@pytest.mark.requirement("C-182")
def test_two_skills_of_one_id_are_refused():
    skill = AgentSkill(id="one", name="One", description=".", tags=("t",))
    with pytest.raises(ValueError, match="skill"):
        Agent(agent_card("Tested", ".", skills=(skill, attrs.evolve(skill, name="Two"))), ask)


def _interface(binding, url="https://agents.example"):
    return AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")


@pytest.mark.requirement("C-183", "C-184", "C-186")
@within(5)
async def test_both_bindings_are_in_the_card_and_may_have_one_url(autojump_clock):
    async with open_peer(ask, app_options={"url": "https://agents.example"}) as peer:
        listed = (await peer.http("GET", WELL_KNOWN)).json["supportedInterfaces"]
    assert listed == [to_dict(_interface("JSONRPC")), to_dict(_interface("HTTP+JSON"))]


@pytest.mark.requirement("C-184")
@within(5)
async def test_the_order_of_interfaces_is_the_user_s(autojump_clock):
    interfaces = tuple(_interface(binding) for binding in ("HTTP+JSON", "https://b.example/v1", "JSONRPC", "GRPC"))
    card = attrs.evolve(agent_card("Tested", "."), supported_interfaces=interfaces)
    async with open_peer(ask, card=card) as peer:
        listed = (await peer.http("GET", WELL_KNOWN)).json["supportedInterfaces"]
    assert listed == [to_dict(one) for one in interfaces]


@pytest.mark.requirement("C-185")
@pytest.mark.parametrize("paths", [{}, {"rpc_path": "/rpc", "rest_path": "/rest"}, {"rest_path": "/deep/down/"}])
@within(5)
async def test_each_entry_of_the_card_can_be_called(autojump_clock, paths):
    headers = {"content-type": "application/json", "a2a-version": "1.0"}
    async with open_peer(finish, app_options=paths) as peer:
        for entry in (await peer.http("GET", WELL_KNOWN)).json["supportedInterfaces"]:
            assert entry["url"].startswith("http://test")
            path = entry["url"].removeprefix("http://test")
            if entry["protocolBinding"] == "JSONRPC":
                reply = await peer.http("POST", path or "/", headers, peer.request("SendMessage", said()))
                assert reply.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            else:
                reply = await peer.http("GET", f"{path}/tasks", headers)
                assert reply.json["totalSize"] == 1


@pytest.mark.requirement("C-187")
@pytest.mark.parametrize("url", ["agents.example", "/a2a", "", "ftp://agents.example"])
def test_a_url_that_is_not_absolute_is_refused(url):
    with pytest.raises(ValueError, match="absolute"):
        make_app(ask, app_options={"url": url})


@pytest.mark.requirement("C-187")
@within(5)
async def test_the_url_is_https_where_the_client_came_over_https(autojump_clock):
    async with open_peer(ask) as peer:
        app = peer.app

        async def over_tls(scope, receive, send):
            await app({**scope, "scheme": "https"}, receive, send)

        peer.app = over_tls
        listed = (await peer.http("GET", WELL_KNOWN, {"host": "agents.example"})).json["supportedInterfaces"]
    assert {entry["url"] for entry in listed} == {"https://agents.example"}


@pytest.mark.requirement("C-191", "C-192", "C-193", "C-194")
@within(5)
async def test_a_card_says_how_long_it_may_be_kept_and_is_not_sent_twice(autojump_clock):
    tags = []
    for name in ("One", "One", "Two"):
        async with open_peer(ask, card=agent_card(name, ".")) as peer:
            reply = await peer.http("GET", WELL_KNOWN)
            assert "max-age=" in reply.headers["cache-control"]
            assert reply.headers["last-modified"].endswith(" GMT")
            tags.append(reply.headers["etag"])
            for known in (tags[-1], f"W/{tags[-1]}", "*"):
                again = await peer.http("GET", WELL_KNOWN, {"if-none-match": known})
                assert (again.status, again.body) == (304, b"")
    assert tags[0] == tags[1] != tags[2]


@pytest.mark.requirement("C-199", "S5-OPERATIONS")
@within(10)
async def test_all_operations_are_there_in_both_bindings_with_the_same_results_errors_and_credentials(autojump_clock):
    options = {
        "authenticator": BearerTokenAuthenticator({"a-token": "ann"}),
        "extended_card": agent_card("Large", "."),
        **with_push(),
    }
    async with open_caller("JSONRPC", ask, **options) as caller:
        task = await caller.by("a-token").send()
        await create(caller.by("a-token"), task["id"], id="hook")
        calls = {
            "SendMessage": said(taskId="unknown"),
            "SendStreamingMessage": said(taskId="unknown"),
            "GetTask": {"id": task["id"]},
            "ListTasks": {"pageSize": 1},
            "CancelTask": {"id": "unknown"},
            "SubscribeToTask": {"id": "unknown"},
            "GetExtendedAgentCard": {},
            **{operation: params_of(operation, task["id"]) | {"id": "hook"} for operation in CRUD},
        }
        assert set(calls) == set(OPERATIONS)
        for operation, params in calls.items():
            rpc, rest = (caller.over(binding) for binding in ("JSONRPC", "HTTP+JSON"))
            assert (await rpc.call(operation, params)).status == (await rest.call(operation, params)).status == 401
            answers = [await one.by("a-token").call(operation, params) for one in (rpc, rest)]
            if "error" in answers[0].body:
                assert [answer.reason for answer in answers] == ["TASK_NOT_FOUND"] * 2
            else:
                assert answers[0].result == answers[1].result
