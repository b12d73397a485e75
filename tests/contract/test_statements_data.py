"""The statements on JSON and the data model, as they show in the two HTTP bindings."""

import pytest

from tests.contract.bindings import both_bindings, open_caller, said
from tests.contract.replay import assert_emittable
from tests.deadline import within
from trio_a2a.errors import InvalidAgentResponseError, InvalidParamsError
from trio_a2a.types import OAuthFlows, Part, SecurityScheme, TaskState
from trio_a2a.wire import from_dict


async def finish(_context, updater):
    await updater.complete("done")


async def echo(context, updater):
    await updater.add_artifact(context.message.parts, artifact_id="echo")
    await updater.complete()


# ------------------------------------------------------------------------------------------------- what is taken


@pytest.mark.requirement("C-009")
@pytest.mark.parametrize(
    ("operation", "params", "missing"),
    [
        ("SendMessage", {}, "message"),
        ("SendMessage", {"message": {"role": "ROLE_USER", "parts": [{"text": "a"}]}}, "message.messageId"),
        ("SendMessage", {"message": {"messageId": "m", "parts": [{"text": "a"}]}}, "message.role"),
        ("SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER"}}, "message.parts"),
        (
            "SendMessage",
            {**said(), "configuration": {"taskPushNotificationConfig": {"token": "t"}}},
            "configuration.taskPushNotificationConfig.url",
        ),
        (
            "SendMessage",
            {
                **said(),
                "configuration": {"taskPushNotificationConfig": {"url": "https://a.example", "authentication": {}}},
            },
            "configuration.taskPushNotificationConfig.authentication.scheme",
        ),
    ],
)
@both_bindings
@within(5)
async def test_a_request_that_lacks_a_required_member_is_refused(autojump_clock, binding, operation, params, missing):
    async with open_caller(binding, finish) as caller:
        answer = await caller.call(operation, params)
        assert answer.reason == "INVALID_PARAMS"
        assert answer.fields == [missing]
        assert (await caller.call("ListTasks")).result["totalSize"] == 0


@pytest.mark.requirement("C-009")
@pytest.mark.parametrize("operation", ["GetTask", "CancelTask", "SubscribeToTask"])
@within(5)
async def test_a_json_rpc_request_without_the_id_of_its_task_is_refused(autojump_clock, operation):
    async with open_caller("JSONRPC", finish) as caller:
        answer = await caller.call(operation, {})
    assert answer.reason == "INVALID_PARAMS"
    assert answer.fields == ["id"]


@pytest.mark.requirement("C-010")
@both_bindings
@within(5)
async def test_a_message_has_at_least_one_part(autojump_clock, binding):
    async with open_caller(binding, finish) as caller:
        answer = await caller.call("SendMessage", said(parts=[]))
    assert answer.reason == "INVALID_PARAMS"
    assert answer.fields == ["message.parts"]


@pytest.mark.requirement("C-011")
@both_bindings
@within(5)
async def test_what_is_not_set_has_its_stated_default(autojump_clock, binding):
    async with open_caller(binding, echo) as caller:
        task = await caller.send()
        listed = (await caller.call("ListTasks")).result
        assert listed["pageSize"] == 50
        assert "artifacts" not in listed["tasks"][0]
        assert "artifacts" in task  # of includeArtifacts, a list's alone


@pytest.mark.requirement("C-012")
@both_bindings
@within(5)
async def test_members_that_are_not_known_are_ignored_at_every_level(autojump_clock, binding):
    params = {
        "x": 1,
        "message": {**said()["message"], "x": 1, "parts": [{"text": "hello", "x": {"text": "no part"}}]},
        "configuration": {"x": 1, "historyLength": 1},
    }
    async with open_caller(binding, echo) as caller:
        task = (await caller.call("SendMessage", params)).result["task"]
        listed = (await caller.call("ListTasks", {"x": "1"})).result
    assert task["artifacts"][0]["parts"] == [{"text": "hello"}]
    assert listed["totalSize"] == 1


@pytest.mark.requirement("C-015")
@pytest.mark.parametrize("part", [{}, {"filename": "a"}, {"text": "a", "data": 1}, {"text": "", "url": "https://a"}])
@both_bindings
@within(5)
async def test_a_part_has_exactly_one_content(autojump_clock, binding, part):
    async with open_caller(binding, finish) as caller:
        answer = await caller.call("SendMessage", said(parts=[part]))
    assert answer.reason == "INVALID_PARAMS"
    assert answer.fields[0].startswith("message.parts[0]")


@pytest.mark.requirement("C-016")
@pytest.mark.parametrize(
    ("raw", "taken"), [("", ""), ("AA==", "AA=="), ("AAE=", "AAE="), ("AAEC", "AAEC"), ("_-8", "/+8=")]
)
@both_bindings
@within(5)
async def test_raw_bytes_come_back_in_standard_base64(autojump_clock, binding, raw, taken):
    async with open_caller(binding, echo) as caller:
        task = await caller.send(parts=[{"raw": raw}])
        assert task["artifacts"][0]["parts"] == [{"raw": taken}]
        refused = await caller.call("SendMessage", said(parts=[{"raw": "***"}]))
    assert refused.reason == "INVALID_PARAMS"


@pytest.mark.requirement("C-017", "C-018")
@pytest.mark.parametrize(
    "part",
    [
        {"data": None},
        {"data": [1]},
        {"data": "s"},
        {"data": False},
        {"data": {"a": [None, {"b": 1.5}]}},
        {"text": "x", "mediaType": "text/markdown", "filename": "a.md", "metadata": {"k": "v"}},
        {"raw": "AAEC", "mediaType": "text/plain", "filename": "a.txt", "metadata": {"k": "v"}},
        {"url": "https://a.example", "mediaType": "text/plain", "filename": "a", "metadata": {"k": "v"}},
        {"data": {"a": 1}, "mediaType": "text/plain", "filename": "a", "metadata": {"k": "v"}},
    ],
)
@both_bindings
@within(5)
async def test_any_content_of_a_part_comes_back_with_what_describes_it(autojump_clock, binding, part):
    async with open_caller(binding, echo, check_input_modes=False) as caller:
        task = await caller.send(parts=[part])
        assert (await caller.get(task["id"]))["artifacts"][0]["parts"] == [part]


@pytest.mark.requirement("C-027")
@both_bindings
@within(5)
async def test_json_is_utf_8(autojump_clock, binding):
    text = "Grüße, 你好, 🛳"
    async with open_caller(binding, echo) as caller:
        task = await caller.send(text)
        assert task["artifacts"][0]["parts"] == [{"text": text}]
        path = "/" if binding == "JSONRPC" else "/message:send"
        reply = await caller.peer.http(
            "POST", path, {"content-type": "application/json", "a2a-version": "1.0"}, b'{"a": "\xff"}'
        )
    error = reply.json["error"]
    assert error["code"] == (-32700 if binding == "JSONRPC" else 400)


# -------------------------------------------------------------------------------------------------- what is sent


@pytest.mark.requirement("C-014")
@within(5)
async def test_both_bindings_show_the_same_task(autojump_clock):
    async with open_caller("JSONRPC", echo) as caller:
        parts = [{"text": ""}, {"data": None}, {"raw": "AAEC", "filename": "a"}]
        task = await caller.send(parts=parts, metadata={"n": 1.5, "none": None})
        other = caller.over("HTTP+JSON")
        assert await caller.get(task["id"]) == await other.get(task["id"]) == task
        assert (await caller.call("ListTasks")).result == (await other.call("ListTasks")).result


@pytest.mark.requirement("C-003", "C-004", "C-005")
@both_bindings
@within(5)
async def test_times_are_utc_with_milliseconds_and_a_z(autojump_clock, binding):
    async with open_caller(binding, finish) as caller:
        task = await caller.send()
    stamp = task["status"]["timestamp"]
    assert len(stamp) == len("2026-01-01T00:00:00.000Z")
    assert stamp.endswith("Z")
    assert stamp[-5] == "."


@pytest.mark.requirement("C-019")
@both_bindings
@within(5)
async def test_an_artifact_with_the_id_of_another_takes_its_place(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.add_artifact("one", artifact_id="a")
        await updater.add_artifact("other", artifact_id="b")
        await updater.add_artifact("two", artifact_id="a")
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        task = await caller.send()
    assert {one["artifactId"]: one["parts"] for one in task["artifacts"]} == {
        "a": [{"text": "two"}],
        "b": [{"text": "other"}],
    }
    assert len(task["artifacts"]) == 2


@pytest.mark.requirement("C-020")
@both_bindings
@within(5)
async def test_an_artifact_without_parts_is_an_invalid_agent_response(autojump_clock, binding):
    caught = []

    async def agent(_context, updater):
        with pytest.raises(InvalidAgentResponseError) as raised:
            await updater.add_artifact([])
        caught.append(raised)
        raise raised.value

    async with open_caller(binding, agent) as caller:
        assert (await caller.call("SendMessage", said())).reason == "INVALID_AGENT_RESPONSE"
    assert len(caught) == 1


@pytest.mark.requirement("C-021", "C-022")
@both_bindings
@within(5)
async def test_a_direct_reply_is_the_agent_s_and_has_a_context_and_no_task(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.reply("hi")

    async with open_caller(binding, agent) as caller:
        reply = await caller.send(contextId="ctx")
        assert reply["contextId"] == "ctx"
        assert "taskId" not in reply
        assert reply["role"] == "ROLE_AGENT"
        assert (await caller.send())["contextId"]


@pytest.mark.requirement("C-021", "C-022", "C-023", "C-025")
@both_bindings
@within(5)
async def test_what_a_task_says_is_the_agent_s_and_names_the_task_and_its_context(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.start_work("working")
        await updater.add_artifact("a")
        await updater.complete("done")

    async with open_caller(binding, agent) as caller:
        events = await caller.streamed()
    task = events[0]["task"]
    assert [set(event) for event in events] == [{"task"}, {"statusUpdate"}, {"artifactUpdate"}, {"statusUpdate"}]
    for event in events:
        assert_emittable(event, "StreamResponse")
    for event in events[1:]:
        ((_, update),) = event.items()
        assert (update["taskId"], update["contextId"]) == (task["id"], task["contextId"])
        message = update.get("status", {}).get("message")
        if message is not None:
            assert (message["taskId"], message["contextId"]) == (task["id"], task["contextId"])
            assert message["role"] == "ROLE_AGENT"


@pytest.mark.requirement("C-024", "C-028")
@both_bindings
@within(5)
async def test_the_answer_to_a_message_is_a_task_or_a_message_and_not_both(autojump_clock, binding):
    async def agent(context, updater):
        if context.text() == "reply":
            await updater.reply("hi")
        else:
            await updater.complete()

    async with open_caller(binding, agent) as caller:
        for text, kind in (("reply", "message"), ("work", "task")):
            result = (await caller.call("SendMessage", said(text))).result
            assert list(result) == [kind]
            assert_emittable(result, "SendMessageResponse")


@pytest.mark.requirement("C-008")
@both_bindings
@within(5)
async def test_what_an_agent_makes_of_every_kind_of_value_is_sent_as_the_schema_says(autojump_clock, binding):
    async def agent(context, updater):
        await updater.start_work([Part(text=""), Part(data=None), Part(raw=b""), Part(url="https://a.example")])
        await updater.add_artifact("a", name="n", description="d", metadata={"k": None}, extensions=("urn:x",))
        await updater.update_status(TaskState.INPUT_REQUIRED, "?", metadata={"deep": {"a": [1, None]}})

    async with open_caller(binding, agent) as caller:
        events = await caller.streamed(metadata={"k": [None]})
        task = await caller.get(events[0]["task"]["id"])
        for event in events:
            assert_emittable(event, "StreamResponse")
        assert_emittable(task, "Task")
        assert_emittable((await caller.call("ListTasks", {"includeArtifacts": True})).result, "ListTasksResponse")


# --------------------------------------------------------------------------------------------------- security schemes

SCHEMES = {
    "httpAuthSecurityScheme": {"scheme": "Bearer"},
    "mtlsSecurityScheme": {},
}
FLOWS = {
    "clientCredentials": {"tokenUrl": "https://id.example/token", "scopes": {}},
    "deviceCode": {
        "deviceAuthorizationUrl": "https://id.example/device",
        "tokenUrl": "https://id.example/token",
        "scopes": {},
    },
}


@pytest.mark.requirement("C-026")
@pytest.mark.parametrize(("cls", "members"), [(SecurityScheme, SCHEMES), (OAuthFlows, FLOWS)])
def test_a_security_scheme_is_of_one_kind_and_has_one_flow(cls, members):
    values = [from_dict({name: member}, cls) for name, member in members.items()]
    with pytest.raises(InvalidParamsError):
        from_dict(members, cls)
    with pytest.raises(InvalidParamsError):
        from_dict({}, cls)
    with pytest.raises(ValueError, match="exactly one"):
        cls(**{value.kind: value.value for value in values})
