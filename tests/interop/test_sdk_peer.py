"""The asyncio SDK's client against an agent that says back what it is sent, over both bindings.

Each program has a process of its own. The client goes through everything once for each binding; the tests look at what
it found. What is said is what the client's parser is known to be strict about: it splits the lines of a stream at each
line break that Unicode has, and reads JSON as ProtoJSON.
"""

import base64
import importlib.util
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.interop.program import DEADLINE, ENVIRONMENT, program
from tests.interop.test_sdk_client import says
from trio_a2a.errors import ERROR_TABLE

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("a2a") is None, reason="the package a2a-sdk is not installed (extra: dev)"
)

AGENT = Path(__file__).with_name("peer_agent.py")
CLIENT = Path(__file__).with_name("sdk_peer.py")
BINDINGS = ("JSONRPC", "HTTP+JSON")


def nested(depth):
    return [nested(depth - 1)] if depth else None


BREAKS = "\n \r \r\n \x0b \x0c \x1c \x1d \x1e \x85 \u2028 \u2029"
PARTS = [
    {"text": ""},
    {"text": " "},
    {"text": f"{BREAKS}: at every line break{BREAKS}"},
    {"text": "\n\ndata: {}\n\nevent: error\nid: 99\n\n"},
    {"text": "\x00 \x7f \ufeff \ufffe é 漢 🙂 e\u0301 \u202e"},
    {"text": "plain", "mediaType": "text/plain", "filename": f"a{BREAKS}b.txt", "metadata": {f"k{BREAKS}": BREAKS}},
    {"data": None},
    {"data": False},
    {"data": 0},
    {"data": ""},
    {"data": []},
    {"data": {}},
    {"data": {"": None, f"{BREAKS}": [1, -2.5, 1e300, 2**53, True, None, {"deep": [BREAKS]}]}},
    {"data": nested(40)},
    {"raw": ""},
    {"raw": base64.b64encode(bytes([251, 255, 254, 0])).decode()},
    {"url": "https://example.com/a?b=c#d", "mediaType": "application/json"},
]
METADATA = {"null": None, "empty": "", "none": [], "nothing": {}, f"key{BREAKS}": f"value{BREAKS}", "number": 1.5}
# What an agent can refuse with and the SDK has a class for: in JSON-RPC by its code, in HTTP+JSON by its reason.
CLASSES = [row.error.__name__ for row in ERROR_TABLE if row.code is not None]


@pytest.fixture(scope="module")
def both():
    """What the client has found over each binding."""
    with program(AGENT, complains=None) as (line, _):
        yield {binding: drive(json.loads(line), binding) for binding in BINDINGS}


@pytest.fixture(params=BINDINGS)
def binding(request):
    return request.param


@pytest.fixture
def found(both, binding):
    return both[binding]


def drive(urls, binding):
    given = {
        "urls": urls,
        "binding": binding,
        "parts": PARTS,
        "metadata": METADATA,
        "context": f"é/%2F?&=+ {BREAKS}",
        "classes": [*CLASSES, "RateLimitedError"],
    }
    done = subprocess.run(
        [sys.executable, CLIENT],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def state(event):
    (value,) = event.values()
    return value["status"]["state"].removeprefix("TASK_STATE_")


# ------------------------------------------------------------------------------------------------- what is said


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_reads_back_what_it_has_sent(found):
    task = found["sent"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == PARTS
    (artifact,) = task["artifacts"]
    assert (artifact["parts"], artifact["metadata"], artifact["name"]) == (PARTS, METADATA, "echo")
    said, worked = task["history"]
    assert (said["parts"], said["metadata"]) == ([{"text": "echo"}, *PARTS], METADATA)
    assert worked["parts"] == PARTS
    assert task["metadata"] == METADATA


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_reads_the_same_from_a_stream(found):
    begun, worked, artifact, done = found["streamed"]
    assert says(found["streamed"]) == ["SUBMITTED", "WORKING", "artifactUpdate", "COMPLETED"]
    assert begun["task"]["history"][0]["parts"] == [{"text": "echo"}, *PARTS]
    assert worked["statusUpdate"]["status"]["message"]["parts"] == PARTS
    assert artifact["artifactUpdate"]["artifact"]["parts"] == PARTS
    assert artifact["artifactUpdate"]["artifact"]["metadata"] == METADATA
    assert done["statusUpdate"]["status"]["message"]["parts"] == PARTS
    assert done["statusUpdate"]["metadata"] == METADATA


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_reads_direct_replies(found):
    sent, streamed = found["replied"]
    for event in (sent, streamed):
        assert event["message"]["role"] == "ROLE_AGENT"
        assert event["message"]["parts"] == PARTS


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_reads_megabytes(found):
    assert found["large"] == [True] * 5


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_reads_our_times(found):
    statuses = [value["status"] for event in found["streamed"] for value in event.values() if "status" in value]
    times = [datetime.fromisoformat(status["timestamp"]) for status in statuses]
    assert len(times) == 3
    assert times == sorted(times)
    assert {at.tzinfo for at in times} == {UTC}


@pytest.mark.requirement("S7-PEERS")
def test_comments_and_numbers_of_events_do_not_disturb_the_sdk(found):
    quiet = found["quiet"]
    assert quiet["text"].count(": keep-alive\n\n") >= 2
    assert re.findall("^id: (.*)$", quiet["text"], re.MULTILINE) == ["1", "2", "3"]
    assert says(quiet["events"]) == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert "message" in quiet["released"]


# -------------------------------------------------------------------------------------------------- operations


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_gets_a_task_with_as_much_of_its_history_as_it_asks_for(found):
    task = found["sent"]["task"]
    assert found["got None"] == task
    assert found["got 1"] == {**task, "history": task["history"][-1:]}
    assert found["got 0"] == {name: value for name, value in task.items() if name != "history"}


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_need_not_wait_and_joins_the_task_later(found):
    polled = found["polled"]
    assert state(polled["sent"]) in {"SUBMITTED", "WORKING"}
    first, *_, last = polled["joined"]
    assert first["task"]["id"] == polled["sent"]["task"]["id"]
    assert state(last) == "COMPLETED"


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_cancels_a_task(found):
    cancelled = found["cancelled"]
    assert cancelled["canceled"]["id"] == cancelled["sent"]["task"]["id"]
    assert cancelled["canceled"]["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_answers_when_it_is_asked(found):
    conversation = found["conversation"]
    assert state(conversation["asked"]) == state(conversation["again"]) == "INPUT_REQUIRED"
    assert conversation["again"]["task"]["contextId"] == conversation["asked"]["task"]["contextId"]
    assert says(conversation["answered"]) == ["INPUT_REQUIRED", "WORKING", "artifactUpdate", "COMPLETED"]


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_lists_the_tasks_of_a_context_page_by_page(found):
    listed = found["listed"]
    first, second = listed["pages"]
    assert (len(first["tasks"]), len(second["tasks"])) == (4, 2)
    assert {(page["pageSize"], page["totalSize"]) for page in listed["pages"]} == {(4, 6)}
    assert first["nextPageToken"]
    assert second["nextPageToken"] == ""
    tasks = first["tasks"] + second["tasks"]
    assert {task["id"] for task in tasks} == set(listed["made"])
    assert all(task["contextId"] == listed["context"] for task in tasks)
    times = [task["status"]["timestamp"] for task in tasks]
    assert times == sorted(times, key=datetime.fromisoformat, reverse=True)
    assert not any(task["artifacts"] or task["history"] for task in tasks)


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_s_filters_are_obeyed(found):
    listed = found["listed"]
    (waiting,) = listed["waiting"]["tasks"]
    assert waiting["id"] == listed["made"][-1]
    assert len(waiting["history"]) == 1
    whole = listed["whole"]["tasks"]
    assert [task["id"] for task in whole if "artifacts" in task] == [
        task["id"] for task in whole if task["id"] != waiting["id"]
    ]
    assert all(task["history"] for task in whole)
    newest = {task["id"] for task in listed["newest"]["tasks"]}
    assert listed["whole"]["tasks"][0]["id"] in newest


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_keeps_push_configurations(found):
    hooks = found["webhooks"]
    inline = {
        "id": "hook:1 ü",
        "taskId": hooks["task"],
        "url": "https://example.com/hook?x=1",
        "authentication": {"scheme": "Bearer"},
    }
    assert hooks["got"] == inline
    assert hooks["second"]["id"]
    assert sorted(hooks["listed"]["configs"], key=str) == sorted([inline, hooks["second"]], key=str)
    first, second = hooks["pages"]
    assert first["configs"] + second["configs"] == hooks["listed"]["configs"]
    assert "nextPageToken" not in second
    assert hooks["left"]["configs"] == [hooks["second"]]
    assert hooks["gone"]["error"] == "TaskNotFoundError"


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_fetches_the_cards(found):
    cards = found["cards"]["cards"]
    assert cards["full"]["capabilities"] == {"streaming": True, "pushNotifications": True, "extendedAgentCard": True}
    assert cards["bare"]["capabilities"] == {"streaming": False}
    assert cards["strict"]["capabilities"]["extensions"] == [{"uri": "urn:example:strict", "required": True}]
    extended = found["cards"]["extended"]
    assert [skill["id"] for skill in extended["skills"]] == ["peer", "more"]
    assert {**extended, "skills": cards["full"]["skills"]} == cards["full"]


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_s_tenants_and_extensions_reach_the_agent(found):
    assert found["tenant"]["task"]["metadata"] == {"tenant": "a tenant"}
    assert state(found["activated"]) == "COMPLETED"


# ------------------------------------------------------------------------------------------------------ errors

REFUSALS = {
    "get unknown": "TaskNotFoundError",
    "cancel unknown": "TaskNotFoundError",
    "subscribe to unknown": "TaskNotFoundError",
    "send to unknown": "TaskNotFoundError",
    "stream to unknown": "TaskNotFoundError",
    "cancel done": "TaskNotCancelableError",
    "subscribe to done": "UnsupportedOperationError",
    "send to done": "UnsupportedOperationError",
    "stream to done": "UnsupportedOperationError",
    "send a picture": "ContentTypeNotSupportedError",
    "stream a picture": "ContentTypeNotSupportedError",
    "send without an answer": "InvalidAgentResponseError",
    "stream without an answer": "InvalidAgentResponseError",
    "push where there is none": "PushNotificationNotSupportedError",
    "stream where there is none": "UnsupportedOperationError",
    "subscribe where there is none": "UnsupportedOperationError",
    "extended card where there is none": "UnsupportedOperationError",
    "extended card for nobody": "ExtendedAgentCardNotConfiguredError",
    "send without the extension": "ExtensionSupportRequiredError",
    "stream without the extension": "ExtensionSupportRequiredError",
    "send in another version": "VersionNotSupportedError",
    "get in another version": "VersionNotSupportedError",
    "send nothing": "InvalidParamsError",
    "stream nothing": "InvalidParamsError",
    "list too much": "InvalidParamsError",
    "list with a bad token": "InvalidParamsError",
    "get with a negative length": "InvalidParamsError",
    "call an unknown method": "MethodNotFoundError",
}


@pytest.mark.requirement("S7-PEERS")
def test_our_refusals_are_the_sdk_s_errors(found, binding):
    of_jsonrpc = {"send what is no JSON": "JSONParseError", "send what is no request": "InvalidRequestError"}
    expected = {**REFUSALS, **(of_jsonrpc if binding == "JSONRPC" else {})}
    assert {name: refusal["error"] for name, refusal in found["errors"].items()} == expected


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_reads_what_our_errors_say(found):
    errors = found["errors"]
    assert errors["cancel done"]["data"]["state"] == "TASK_STATE_COMPLETED"
    assert errors["send in another version"]["data"] == {"requested": "99.0", "supported": "1.0"}
    assert errors["send a picture"]["data"] == {"mediaType": "image/png"}
    assert all(error["message"] for error in errors.values())


@pytest.mark.requirement("S7-PEERS")
def test_each_class_of_error_is_the_sdk_s_class_with_and_without_a_stream(found, binding):
    # The SDK has no reason for what cannot be parsed, so over HTTP+JSON it knows its status only.
    unknown = {"RateLimitedError"} | ({"JSONParseError"} if binding == "HTTP+JSON" else set())
    for name, refusals in found["refused"].items():
        expected = "A2AClientError" if name in unknown else name
        assert [refusal["error"] for refusal in refusals] == [expected] * 2


@pytest.mark.requirement("S7-PEERS")
def test_an_error_in_the_midst_of_a_stream_is_the_sdk_s_error(found):
    assert says(found["lost"]["events"]) == ["SUBMITTED", "WORKING"]
    assert found["lost"]["refusal"]["error"] == "InternalError"


@pytest.mark.requirement("S7-PEERS")
def test_the_sdk_is_told_that_an_agent_failed_and_not_why(found):
    assert [state(event) for event in found["failed"]] == ["FAILED", "FAILED"]
    assert "secret of" not in json.dumps(found)
