"""The statements on versions, extensions and tenants, over both HTTP bindings."""

import attrs
import pytest

from tests.contract.bindings import OPERATIONS, both_bindings, open_caller, said
from tests.contract.replay import assert_emittable
from tests.deadline import within
from trio_a2a.server import agent_card
from trio_a2a.types import AgentCapabilities, AgentExtension

TIDES = "https://example.com/ext/tides/v1"
TIDES_2 = "https://example.com/ext/tides/v2"
WINDS = "https://example.com/ext/winds/v1"


async def finish(_context, updater):
    await updater.complete()


def knowing(*uris, required=()):
    extensions = [AgentExtension(uri=uri, required=uri in required) for uri in uris]
    return attrs.evolve(agent_card("Tested", "."), capabilities=AgentCapabilities(extensions=extensions))


# ------------------------------------------------------------------------------------------------------------ version


@pytest.mark.requirement("C-153", "C-154", "C-155")
@pytest.mark.parametrize(
    ("version", "served"),
    [("1.0", True), ("1.0.7", True), ("1.1", False), ("9.9", False), ("2.0", False), ("abc", False), ("0.5", False)],
)
@both_bindings
@within(5)
async def test_a_version_is_served_by_its_major_and_minor_number(autojump_clock, binding, version, served):
    async with open_caller(binding, finish) as caller:
        answer = await caller.call("ListTasks", headers={"a2a-version": version})
        if served:
            assert answer.result["totalSize"] == 0
        else:
            assert answer.reason == "VERSION_NOT_SUPPORTED"
            assert answer.details["ErrorInfo"]["metadata"] == {"requested": version, "supported": "1.0"}


@pytest.mark.requirement("C-158")
@both_bindings
@within(5)
async def test_the_version_may_be_a_parameter_of_the_url(autojump_clock, binding):
    async with open_caller(binding, finish) as caller:
        for version, served in (("1.0", True), ("9.9", False)):
            answer = await caller.call("ListTasks", headers={"a2a-version": ""}, query={"A2A-Version": version})
            assert ("error" not in answer.body) == served
        answer = await caller.call("ListTasks", query={"A2A-Version": "9.9"})
        assert "error" not in answer.body, "the header comes first"


@pytest.mark.requirement("C-162")
@both_bindings
@within(5)
async def test_the_names_of_service_parameters_have_no_case_and_their_values_have(autojump_clock, binding):
    async with open_caller(binding, finish, card=knowing(TIDES, required=[TIDES])) as caller:
        for name in ("a2a-extensions", "A2A-EXTENSIONS", "A2A-Extensions"):
            headers = {"a2a-version": "", "A2A-VERSION": "1.0", name: TIDES}
            assert (await caller.call("ListTasks", headers=headers)).result["totalSize"] == 0
        answer = await caller.call("ListTasks", headers={"a2a-extensions": TIDES.upper()})
    assert answer.reason == "EXTENSION_SUPPORT_REQUIRED"


# --------------------------------------------------------------------------------------------------------- extensions


async def tell(context, updater):
    await updater.reply(" ".join(context.extensions) or "none")


@pytest.mark.requirement("C-163", "C-165", "C-168", "C-169", "C-172", "C-173")
@pytest.mark.parametrize(
    ("asked", "active"),
    [
        ("", []),
        (TIDES, [TIDES]),
        (f"{TIDES}, {WINDS}", [TIDES, WINDS]),
        (f"{TIDES},https://example.com/unknown", [TIDES]),
        ("https://example.com/unknown", []),
        (TIDES_2, []),
    ],
)
@both_bindings
@within(5)
async def test_extensions_are_active_where_they_are_asked_for_and_known_and_the_answer_names_them(
    autojump_clock, binding, asked, active
):
    async with open_caller(binding, tell, card=knowing(TIDES, WINDS)) as caller:
        answer = await caller.call("SendMessage", said(), {"a2a-extensions": asked})
        assert answer.result["message"]["parts"] == [{"text": " ".join(active) or "none"}]
        async with caller.stream("SendStreamingMessage", said(), {"a2a-extensions": asked}) as events:
            await events.all()
            for headers in (answer.headers, events.headers):
                assert headers.get("a2a-extensions", "") == ", ".join(active)


@pytest.mark.requirement("C-167", "C-170")
@pytest.mark.parametrize("operation", OPERATIONS)
@both_bindings
@within(5)
async def test_a_required_extension_must_be_activated_whatever_is_asked_for(autojump_clock, binding, operation):
    params = {"id": "unknown", "taskId": "unknown", "url": "https://hooks.example", **said()}
    async with open_caller(binding, tell, card=knowing(TIDES, WINDS, required=[TIDES])) as caller:
        for asked in ("", WINDS, TIDES_2):
            answer = await caller.call(operation, params, {"a2a-extensions": asked})
            assert answer.reason == "EXTENSION_SUPPORT_REQUIRED"
            assert answer.details["ErrorInfo"]["metadata"] == {"uri": TIDES}
        async with caller.stream(operation, params, {"a2a-extensions": f"{WINDS},{TIDES}"}) as events:
            if "event-stream" not in events.headers["content-type"]:
                answer = await events.answer()
                assert "error" not in answer.body or answer.reason != "EXTENSION_SUPPORT_REQUIRED"


@pytest.mark.requirement("C-174")
@both_bindings
@within(5)
async def test_an_extension_adds_its_data_to_metadata_and_to_nothing_else(autojump_clock, binding):
    async def agent(context, updater):
        data = {TIDES: {"asked": context.message.metadata[TIDES]}}
        await updater.add_artifact("07:10", metadata=data, extensions=context.extensions)
        await updater.complete()

    async with open_caller(binding, agent, card=knowing(TIDES)) as caller:
        params = said(metadata={TIDES: {"datum": "LAT"}}, extensions=[TIDES])
        result = (await caller.call("SendMessage", params, {"a2a-extensions": TIDES})).result
    assert_emittable(result, "SendMessageResponse")
    (artifact,) = result["task"]["artifacts"]
    assert artifact["metadata"] == {TIDES: {"asked": {"datum": "LAT"}}}
    assert artifact["extensions"] == [TIDES]


# ------------------------------------------------------------------------------------------------------------ tenants


@pytest.mark.requirement("C-177")
@pytest.mark.parametrize("operation", OPERATIONS)
@within(5)
async def test_every_route_is_there_below_a_tenant_too(autojump_clock, operation):
    async def agent(context, updater):
        await updater.require_input(context.tenant)

    async with open_caller("HTTP+JSON", agent) as caller:
        task = await caller.send()
        params = {"tenant": "acme, inc", "pageSize": 1, **said()}
        if "{id}" in OPERATIONS[operation]["rest"]["path"]:
            params["id"] = task["id"]
        if "{taskId}" in OPERATIONS[operation]["rest"]["path"]:
            params |= {"taskId": task["id"], "url": "https://hooks.example"}
        async with caller.stream(operation, params) as events:
            if "event-stream" in events.headers["content-type"]:
                assert "task" in await events.next()
                return
            answer = await events.answer()
    if operation == "GetExtendedAgentCard":
        assert answer.reason == "UNSUPPORTED_OPERATION"
    elif "PushNotificationConfig" in operation:
        assert answer.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
    else:
        assert answer.status == 200
    if operation == "SendMessage":
        assert answer.result["task"]["status"]["message"]["parts"] == [{"text": "acme, inc"}]


@pytest.mark.requirement("C-177")
@within(5)
async def test_a_route_without_a_tenant_wins(autojump_clock):
    async with open_caller("HTTP+JSON", finish) as caller:
        answer = await caller.call("GetTask", {"id": "x"})
    assert answer.details["ErrorInfo"]["metadata"] == {"taskId": "x"}
