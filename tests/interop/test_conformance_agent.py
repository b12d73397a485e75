"""The conformance agent, as a program of its own, through what compatibility suites ask of an agent.

Each row of what such suites look at stands in `ROWS`, and each test says which rows it shows; the last test of the
module compares the two. What needs gRPC or the delivery of webhooks stands in `LATER`, and is all that is left out.

One program runs for each mode: with every capability, with none, and with an extension that callers must activate. A
test that needs nothing special runs in all of them, and over both bindings.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import httpx2
import pytest
import trio

from tests.deadline import within
from tests.interop.conformance_driver import (
    BINDINGS,
    JSON,
    OPERATIONS,
    Driver,
    check_result,
    connection,
    open_driver,
    route,
)
from tests.interop.program import DEADLINE, ENVIRONMENT, program
from tests.server.peer import Reply, request_bytes

PROGRAM = Path(__file__).with_name("conformance_agent.py")
CARD = "/.well-known/agent-card.json"
EXTENSION = "urn:example:required-extension"


# --------------------------------------------------------------------------------------------------------- the rows

ROWS = {
    "b.2 keys": "the card has every required key and none that is unknown, with a skill and modes",
    "b.2 interfaces": "each interface has a URL, one of the known bindings, and the version 1.0",
    "b.2 JSON-RPC URL": "it takes requests as it is and with a slash behind it, without a redirect",
    "b.2 HTTP+JSON URL": "it has no slash at its end, and /message:send is appended",
    "b.2 gRPC URL": "a bare host:port",
    "b.2 capabilities": "streaming, pushNotifications and extendedAgentCard are true or false as the mode says",
    "b.2 extension": "a required extension is declared, and calls without it are refused",
    "b.2 headers": "the card has Cache-Control with max-age, ETag and Last-Modified",
    "b.3 tck-complete-task": "COMPLETED, with a text; also as a follow-up",
    "b.3 tck-input-required": "INPUT_REQUIRED; also as a follow-up",
    "b.3 tck-message-response": "a bare message",
    "b.3 tck-artifact-text": "a text artifact",
    "b.3 tck-artifact-file": "a file artifact of raw bytes",
    "b.3 tck-artifact-file-url": "a file artifact by URL",
    "b.3 tck-artifact-data": "a data artifact",
    "b.3 tck-stream-001": "WORKING, an artifact, COMPLETED",
    "b.3 tck-stream-002": "COMPLETED",
    "b.3 tck-stream-003": "WORKING, an artifact, COMPLETED",
    "b.3 tck-stream-ordering-001": "WORKING, an artifact, COMPLETED, in this order",
    "b.3 anything else": "COMPLETED with an agent's message",
    "b.3 tck-reject-task": "an error",
    "b.3 tck-stream-artifact-text": "WORKING, a text artifact, COMPLETED",
    "b.3 tck-stream-artifact-file": "WORKING, a file artifact, COMPLETED",
    "b.3 tck-stream-artifact-chunked": "WORKING, two chunks of one artifact, COMPLETED",
    "b.3 test-resubscribe-message-id": "WORKING, four seconds, COMPLETED",
    "b.3 default ids": "the ids that are known to fall to the default branch",
    "b.3 tck-send-003": "is accepted",
    "b.3 the same messageId": "is taken again, for new tasks and for turns of one task",
    "b.3 tck-multi-004": "is refused: its taskId is unknown",
    "b.3 tck-terminal": "is refused: its task is COMPLETED",
    "b.3 tck-mismatch": "is refused: its contextId is not the task's",
    "b.3 version 99.0": "whatever is sent with it is refused",
    "b.3 text/plain": "tck-status-ct-004 and tck-error-code-005 are refused",
    "b.3 CancelTask": "a task that is INPUT_REQUIRED becomes CANCELED",
    "b.3 gRPC ids": "tck-grpc-streaming-001, tck-grpc-meta-001-ext, tck-grpc-status-ver-005 over gRPC",
    "b.4.1 blocking": "SendMessage waits for a terminal or interrupted state",
    "b.4.1 follow-up": "to a task that is INPUT_REQUIRED waits for the outcome of that follow-up",
    "b.4.1 returnImmediately": "may answer with any state",
    "b.4.2 inferred context": "a follow-up with the taskId alone succeeds, again and again",
    "b.4.2 wrong context": "a follow-up with another contextId is refused",
    "b.4.2 the client's context": "is taken without a taskId, and on both bindings",
    "b.4.3 SendMessage": "to a terminal task is refused",
    "b.4.3 CancelTask": "of a terminal task is refused",
    "b.4.3 SubscribeToTask": "to a terminal task is refused",
    "b.4.4 GetTask": "of an unknown task: TaskNotFound",
    "b.4.4 CancelTask": "of an unknown task: TaskNotFound",
    "b.4.4 SubscribeToTask": "to an unknown task: TaskNotFound",
    "b.4.4 SendMessage": "to an unknown task: TaskNotFound",
    "b.4.5 order": "every user message is kept, in order and unchanged",
    "b.4.5 GetTask": "historyLength 0, 1 and 10, and none",
    "b.4.5 SendMessage": "historyLength 0 in the configuration",
    "b.4.6 errors": "come without a stream",
    "b.4.6 snapshot": "is the first event, and prompt",
    "b.4.6 two subscribers": "receive identical events",
    "b.4.6 stays open": "on a task that is INPUT_REQUIRED, to its terminal event",
    "b.4.7 abandoned": "streams that nobody reads block nothing",
    "b.4.7 cancelled": "a client that goes after the first event does no harm",
    "b.4.7 gRPC streams": "end by the client's deadline",
    "b.4.8 CRUD": "works on a COMPLETED task",
    "b.4.8 id": "is kept, and belongs to its task",
    "b.4.8 unknown id": "GET is refused",
    "b.4.8 second DELETE": "succeeds",
    "b.4.8 URL": "is accepted without asking the DNS, and may be of this host",
    "b.4.8 inline": "a config that comes with a message is stored for its task",
    "b.4.8 delivery": "the webhook is called with a StreamResponse and the credentials",
    "b.4.8 not declared": "every push call is refused",
    "b.4.9 declared": "the extended card is given without credentials",
    "b.4.9 not declared": "the call is refused",
    "b.4.10 unknown context": "ListTasks succeeds with all four members",
    "b.4.10 gRPC": "ListTasks succeeds",
    "b.4.11 1.0": "is served, and the card needs no version",
    "b.4.11 99.0": "VersionNotSupported",
    "b.4.11 empty": "any well-formed result or error",
    "b.4.12 unknown fields": "in the request and in the message are ignored",
    "b.4.12 no message": "is refused",
    "b.4.12 unknown method": "is refused with code and message",
    "b.5 operations": "every operation is served under its method or route",
    "b.5 snake_case": "members of params are accepted in both spellings",
    "b.5 ids": "of a JSON-RPC request are echoed, numbers too",
    "b.5 results": "SendMessage gives a task or a message in its member, GetTask and CancelTask the bare task",
    "b.5 errors": "of JSON-RPC have code, message and data with an ErrorInfo alone",
    "b.5 extensions": "that are unknown are tolerated",
    "b.5 content type": "-32005 before the body is parsed",
    "b.5 cancel": "has an empty body",
    "b.5 subscribe": "takes POST without a body, and GET",
    "b.5 closed schema": "every response is valid, camelCase, with named enums, UTC times and padded base64",
    "b.5 gRPC": "the service, its metadata and its required fields",
    "e.3 timeouts": "a reply of the default branch takes less than five seconds",
    "e.3 gRPC timeouts": "streams of 30 seconds, and one retry",
    "e.3 webhook timeout": "a webhook is called within 15 seconds",
    "e.3 segments": "head and body may come apart, and the connection is kept",
    "e.3 redirects": "are never given",
    "e.3 SSE": "one data line for each event, which is one JSON document",
    "e.3 SSE data": "the whole envelope in JSON-RPC, the bare StreamResponse in HTTP+JSON",
    "e.3 stream errors": "come as plain errors before a stream",
    "e.3 errors": "of HTTP+JSON are google.rpc.Status with an ErrorInfo",
    "e.3 gRPC errors": "have a google.rpc.Status in their trailer",
    "e.3 stream start": "a task's stream begins with the task",
}

LATER = {
    "b.2 gRPC URL": "gRPC",
    "b.3 gRPC ids": "gRPC",
    "b.4.7 gRPC streams": "gRPC",
    "b.4.10 gRPC": "gRPC",
    "b.5 gRPC": "gRPC",
    "e.3 gRPC timeouts": "gRPC",
    "e.3 gRPC errors": "gRPC",
    "b.4.8 delivery": "webhooks",
    "e.3 webhook timeout": "webhooks",
}

SHOWN: set[str] = set()


def shows(*rows: str) -> Any:
    """Say which rows a test shows."""
    unknown = set(rows) - ROWS.keys()
    assert not unknown, unknown
    SHOWN.update(rows)
    return lambda test: test


# ------------------------------------------------------------------------------------------------------ the programs


@attrs.frozen
class Mode:
    """A way to run the program, and what its callers do then."""

    name: str
    arguments: tuple[str, ...]
    headers: dict[str, str]
    capable: bool = True
    complains: str = ""


ALL = Mode("all", (), {"a2a-version": "1.0"})
NONE = Mode("none", ("--capabilities", "none"), {"a2a-version": "1.0"}, capable=False)
REQUIRED = Mode("extension", ("--require-extension", EXTENSION), {"a2a-version": "1.0", "a2a-extensions": EXTENSION})
# With tasks, and webhooks without encryption, in a database.
STORED = Mode(
    "stored",
    ("--store", "sqlite:///{folder}/tasks.db"),
    {"a2a-version": "1.0"},
    complains="push configurations are stored without encryption: no encryption_key was given\n",
)
MODES = (ALL, NONE, REQUIRED, STORED)


def conformance_agent(*arguments: str, **options: Any) -> Any:
    """Run the agent on a free port; gives its URL and its process."""
    return program(PROGRAM, "--port", "0", *arguments, **options)


@pytest.fixture(scope="module")
def urls(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The URL of the program in each mode."""
    folder = tmp_path_factory.mktemp("store")
    with ExitStack() as stack:
        found = {}
        for mode in MODES:
            arguments = [argument.format(folder=folder) for argument in mode.arguments]
            found[mode.name] = stack.enter_context(conformance_agent(*arguments, complains=mode.complains))[0]
        yield found


def case_id(case: tuple[Mode, str]) -> str:
    return f"{case[0].name}-{case[1]}"


def cases(*modes: Mode) -> Any:
    return {"params": [(mode, binding) for mode in modes for binding in BINDINGS], "ids": case_id}


@pytest.fixture(**cases(*MODES))
async def driver(request, urls):
    """A caller of the program in each mode, over each binding."""
    mode, binding = request.param
    async with open_driver(urls[mode.name], binding, mode.headers) as driver:
        yield driver


@pytest.fixture(**cases(ALL, REQUIRED, STORED))
async def capable(request, urls):
    """A caller in the modes with capabilities."""
    mode, binding = request.param
    async with open_driver(urls[mode.name], binding, mode.headers) as driver:
        yield driver


@pytest.fixture(**cases(NONE))
async def bare(request, urls):
    """A caller in the mode without capabilities."""
    mode, binding = request.param
    async with open_driver(urls[mode.name], binding, mode.headers) as driver:
        yield driver


@pytest.fixture(**cases(REQUIRED))
async def stranger(request, urls):
    """A caller that does not activate the extension that is required."""
    mode, binding = request.param
    async with open_driver(urls[mode.name], binding, {"a2a-version": "1.0"}) as driver:
        yield driver


# ------------------------------------------------------------------------------------- what comes of a message, b.3


FILE = {"raw": "dGNr", "filename": "output.txt", "mediaType": "text/plain"}
LINK = {"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"}


@attrs.frozen
class Expected:
    """What comes of a message.

    Attributes:
        parts: The parts of the artifact; none where there is no artifact.
        works: Whether WORKING is said first.
        says: The text of the last status message.
        state: The state at the end.
    """

    parts: tuple[Any, ...] = ()
    works: bool = False
    says: str | None = None
    state: str = "TASK_STATE_COMPLETED"


SENT = {
    "tck-complete-task": Expected(says="Hello from TCK"),
    "tck-input-required": Expected(state="TASK_STATE_INPUT_REQUIRED"),
    "tck-artifact-text": Expected(({"text": "Generated text content"},)),
    "tck-artifact-file": Expected((FILE,)),
    "tck-artifact-file-url": Expected((LINK,)),
    "tck-artifact-data": Expected(({"data": {"key": "value", "count": 42}},)),
}
STREAMED = {
    "tck-stream-001": Expected(({"text": "Stream hello from TCK"},), works=True),
    "tck-stream-002": Expected(),
    "tck-stream-003": Expected(({"text": "Stream task lifecycle"},), works=True),
    "tck-stream-ordering-001": Expected(({"text": "Ordered output"},), works=True),
    "tck-stream-artifact-text": Expected(({"text": "Streamed text content"},), works=True),
    "tck-stream-artifact-file": Expected((FILE,), works=True),
    "tck-stream-artifact-chunked": Expected(({"text": "chunk-1 "}, {"text": "chunk-2"}), works=True),
}
DEFAULT = (
    "tck-dm-test-001",
    "tck-transport-test-001",
    "tck-sse-streaming-001",
    "tck-grpc-streaming-001",
    "tck-infer-ctx",
    "tck-status-success-007",
    "tck-svc-002-ext",
    "tck-jsonrpc-svc-002-ext",
    "tck-grpc-meta-001-ext",
    "tck-dm-serial-005-first",
    "tck-ver-003",
    "tck-send-003",
    "something-else",
)
EXPECTED = {**SENT, **STREAMED, **dict.fromkeys(DEFAULT, Expected())}
WITH_ANOTHER_VERSION = (
    "tck-ver-002",
    "tck-error-code-009",
    "tck-range-check-003",
    "tck-status-ver-006",
    "tck-grpc-status-ver-005",
)


def expected(name: str, driver: Driver) -> Expected:
    if name not in DEFAULT:
        return EXPECTED[name]
    return Expected(says=f"Unhandled messageId prefix: {driver.message(name)['messageId']}")


def check_task(task: Any, outcome: Expected, name: str, driver: Driver) -> None:
    """Check a task at the end of its first message."""
    assert task["status"]["state"] == outcome.state
    if outcome.says is not None:
        assert task["status"]["message"]["role"] == "ROLE_AGENT"
        assert [part["text"] for part in task["status"]["message"]["parts"]] == [outcome.says]
    assert [part for artifact in task.get("artifacts", ()) for part in artifact["parts"]] == list(outcome.parts)
    assert len(task.get("artifacts", ())) == bool(outcome.parts)
    assert [message["messageId"] for message in task["history"]] == [driver.message(name)["messageId"]]


@shows(*(f"b.3 {name}" for name in SENT), *(f"b.3 {name}" for name in STREAMED))
@shows("b.3 anything else", "b.3 default ids", "b.3 tck-send-003", "b.5 results", "b.5 closed schema", "b.4.11 1.0")
@pytest.mark.parametrize("name", EXPECTED)
@within(DEADLINE)
async def test_a_sent_message_brings_about_what_its_id_asks_for(driver, name):
    answer = await driver.send(name)
    assert set(answer.result) == {"task"}
    task = answer.result["task"]
    check_task(task, expected(name, driver), name, driver)
    assert await driver.get(task["id"]) == task


@shows("b.3 tck-message-response", "b.5 results")
@within(DEADLINE)
async def test_a_message_can_be_answered_with_a_bare_message(driver):
    answer = await driver.send("tck-message-response")
    assert set(answer.result) == {"message"}
    message = answer.result["message"]
    assert message["role"] == "ROLE_AGENT"
    assert message["parts"] == [{"text": "Direct message response"}]
    assert "taskId" not in message


@shows("b.3 tck-reject-task")
@within(DEADLINE)
async def test_an_agent_can_refuse_a_message_with_an_error_and_then_there_is_no_task(driver):
    context = str(uuid4())
    answer = await driver.send("tck-reject-task", contextId=context)
    assert answer.is_error("InternalError")
    assert answer.error["message"] == "rejected"
    assert (await driver.call("ListTasks", {"contextId": context})).result["tasks"] == []


def check_events(events: list[Any], outcome: Expected) -> None:
    """Check the events of a stream that made a task."""
    first, *updates = events
    assert set(first) == {"task"}
    task = first["task"]
    states = [task["status"]["state"]]
    parts: list[Any] = []
    artifact_ids = set()
    order = []
    for update in updates:
        ((kind, value),) = update.items()
        order.append(kind)
        assert value["taskId"] == task["id"]
        assert value["contextId"] == task["contextId"]
        if kind == "statusUpdate":
            states.append(value["status"]["state"])
        else:
            assert value.get("append", False) is bool(parts)
            artifact_ids.add(value["artifact"]["artifactId"])
            parts += value["artifact"]["parts"]
    works = ["statusUpdate"] if outcome.works else []
    assert order == [*works, *["artifactUpdate"] * len(parts), "statusUpdate"]
    assert states == ["TASK_STATE_SUBMITTED", *["TASK_STATE_WORKING"] * outcome.works, outcome.state]
    assert parts == list(outcome.parts)
    assert len(artifact_ids) == bool(parts)


@shows(*(f"b.3 {name}" for name in STREAMED))
@shows("b.3 default ids", "e.3 stream start", "e.3 SSE data", "b.5 closed schema")
@pytest.mark.parametrize("name", [*STREAMED, *SENT, *DEFAULT])
@within(DEADLINE)
async def test_a_streamed_message_brings_about_what_its_id_asks_for(capable, name):
    async with capable.streaming(name) as stream:
        events = await stream.rest()
    check_events(events, expected(name, capable))
    task = await capable.get(events[0]["task"]["id"])
    check_task(task, expected(name, capable), name, capable)


@shows("b.3 tck-message-response")
@within(DEADLINE)
async def test_a_stream_can_be_a_bare_message(capable):
    async with capable.streaming("tck-message-response") as stream:
        (event,) = await stream.rest()
    assert event["message"]["parts"] == [{"text": "Direct message response"}]


@shows("b.3 tck-reject-task", "e.3 stream errors")
@within(DEADLINE)
async def test_an_agent_can_refuse_a_streamed_message_without_a_stream(capable):
    answer = await capable.refusal("SendStreamingMessage", capable.sending("tck-reject-task"))
    assert answer.is_error("InternalError")


@shows("b.3 test-resubscribe-message-id", "b.4.6 two subscribers")
@within(DEADLINE)
async def test_a_task_that_takes_a_while_can_be_joined(urls):
    # It takes four seconds, so all of them take them at once.
    name = "test-resubscribe-message-id"

    async def join(mode: Mode, binding: str) -> None:
        async with open_driver(urls[mode.name], binding, mode.headers) as driver:
            if mode is NONE:
                check_task(await driver.task(name), Expected(), name, driver)
                return
            async with driver.streaming(name) as sent:
                task = (await sent.event())["task"]
                working = await sent.event()
                assert working["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"
                async with driver.subscribing(task["id"]) as joined:
                    snapshot = await joined.event()
                    assert snapshot["task"]["status"] == working["statusUpdate"]["status"]
                    (end,) = await joined.rest()
                    assert end["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
                assert await sent.rest() == [end]

    async with trio.open_nursery() as nursery:
        for mode in MODES:
            for binding in BINDINGS:
                nursery.start_soon(join, mode, binding)


@shows("b.3 the same messageId")
@within(DEADLINE)
async def test_a_message_id_that_comes_again_is_a_new_message(driver):
    first, second = await driver.task("tck-input-required"), await driver.task("tck-input-required")
    assert first["id"] != second["id"]
    again = await driver.task("tck-input-required", taskId=second["id"])
    assert again["id"] == second["id"]
    assert len(again["history"]) == 2
    assert again["history"][0]["messageId"] == again["history"][1]["messageId"]


# ------------------------------------------------------------------------------- what is refused before the agent runs


@shows("b.3 tck-multi-004", "b.4.4 SendMessage")
@within(DEADLINE)
async def test_a_message_to_an_unknown_task_is_refused(driver):
    answer = await driver.refusal("SendMessage", driver.sending("tck-multi-004", taskId="no-such-task"))
    assert answer.is_error("TaskNotFoundError")


@shows("b.3 tck-terminal", "b.4.3 SendMessage")
@within(DEADLINE)
async def test_a_message_to_a_task_that_is_over_is_refused(driver):
    task = await driver.task("tck-complete-task")
    answer = await driver.refusal("SendMessage", driver.sending("tck-terminal", taskId=task["id"]))
    assert answer.is_error("UnsupportedOperationError")
    assert await driver.get(task["id"]) == task


@shows("b.3 tck-mismatch", "b.4.2 wrong context")
@within(DEADLINE)
async def test_a_message_in_another_context_than_its_task_is_refused(driver):
    task = await driver.task("tck-input-required")
    wrong = driver.sending("tck-mismatch", taskId=task["id"], contextId=str(uuid4()))
    assert (await driver.refusal("SendMessage", wrong)).is_error("InvalidParamsError")
    assert await driver.get(task["id"]) == task


@shows("b.3 version 99.0", "b.4.11 99.0")
@pytest.mark.parametrize("name", WITH_ANOTHER_VERSION)
@within(DEADLINE)
async def test_a_message_with_another_version_is_refused(driver, name):
    context = str(uuid4())
    version = {"a2a-version": "99.0"}
    answer = await driver.refusal("SendMessage", driver.sending(name, contextId=context), version)
    assert answer.is_error("VersionNotSupportedError")
    assert (await driver.call("ListTasks", {"contextId": context})).result["totalSize"] == 0


@shows("b.3 text/plain", "b.5 content type")
@pytest.mark.parametrize("name", ["tck-status-ct-004", "tck-error-code-005"])
@within(DEADLINE)
async def test_what_is_no_json_is_refused_by_its_type_before_it_is_parsed(driver, name):
    path = "/message:send" if driver.rest else "/"
    for body in (b"this is no JSON", json.dumps(driver.sending(name)).encode()):
        answer = await driver.raw("POST", path, body, {**driver.headers, "content-type": "text/plain"})
        assert answer.check(None).is_error("ContentTypeNotSupportedError")


@shows("b.3 CancelTask")
@within(DEADLINE)
async def test_a_task_that_waits_for_input_can_be_cancelled(driver):
    task = await driver.task("tck-input-required")
    canceled = (await driver.call("CancelTask", {"id": task["id"]})).result
    assert canceled["id"] == task["id"]
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert await driver.get(task["id"]) == canceled


# ---------------------------------------------------------------------------------------------- the framework, b.4


@shows("b.4.1 blocking", "b.4.1 follow-up", "b.3 tck-complete-task", "b.3 tck-input-required")
@within(DEADLINE)
async def test_a_follow_up_is_answered_with_its_own_outcome(driver):
    task = await driver.task("tck-input-required")
    again = await driver.task("tck-input-required", taskId=task["id"], contextId=task["contextId"])
    assert again["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert len(again["history"]) == 2
    done = await driver.task("tck-complete-task", taskId=task["id"], contextId=task["contextId"])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert done["id"] == task["id"]


@shows("b.4.1 follow-up", "e.3 stream start")
@within(DEADLINE)
async def test_the_stream_of_a_follow_up_begins_with_the_task_and_ends_with_its_outcome(capable):
    task = await capable.task("tck-input-required")
    async with capable.streaming("tck-complete-task", taskId=task["id"]) as stream:
        first, *_, last = await stream.rest()
    assert first["task"]["id"] == task["id"]
    assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@shows("b.4.1 returnImmediately")
@within(DEADLINE)
async def test_a_caller_that_does_not_wait_gets_the_task_as_it_is(driver):
    with trio.fail_after(3):  # less than the task takes
        task = await driver.task("test-resubscribe-message-id", {"returnImmediately": True})
    assert task["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
    assert (await driver.call("CancelTask", {"id": task["id"]})).result["status"]["state"] == "TASK_STATE_CANCELED"
    assert "status" in await driver.task("tck-complete-task", {"returnImmediately": True})


@shows("b.4.2 inferred context")
@within(DEADLINE)
async def test_a_follow_up_needs_no_context(driver):
    task = await driver.task("tck-input-required")
    for name in ("tck-input-required", "tck-input-required", "tck-infer-ctx"):
        followed = await driver.task(name, taskId=task["id"])
        assert (followed["id"], followed["contextId"]) == (task["id"], task["contextId"])
    assert followed["status"]["state"] == "TASK_STATE_COMPLETED"


@shows("b.4.2 the client's context")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@within(DEADLINE)
async def test_a_context_of_the_client_is_taken_on_both_bindings(urls, mode):
    context = f"the client's own {uuid4()}"
    ids = set()
    for binding in BINDINGS:
        async with open_driver(urls[mode.name], binding, mode.headers) as driver:
            task = await driver.task("tck-complete-task", contextId=context)
            assert task["contextId"] == context
            ids.add(task["id"])
            listed = (await driver.call("ListTasks", {"contextId": context, "includeArtifacts": False})).result
            assert {one["id"] for one in listed["tasks"]} == ids


@shows("b.4.3 CancelTask")
@within(DEADLINE)
async def test_a_task_that_is_over_cannot_be_cancelled(driver):
    task = await driver.task("tck-complete-task")
    assert (await driver.refusal("CancelTask", {"id": task["id"]})).is_error("TaskNotCancelableError")
    assert await driver.get(task["id"]) == task


@shows("b.4.3 SubscribeToTask", "b.4.6 errors", "e.3 stream errors")
@within(DEADLINE)
async def test_a_task_that_is_over_cannot_be_subscribed_to(driver):
    task = await driver.task("tck-complete-task")
    assert (await driver.refusal("SubscribeToTask", {"id": task["id"]})).is_error("UnsupportedOperationError")


@shows("b.4.4 GetTask", "b.4.4 CancelTask", "e.3 errors", "b.5 errors")
@pytest.mark.parametrize("operation", ["GetTask", "CancelTask"])
@within(DEADLINE)
async def test_a_task_that_is_unknown_is_not_found(driver, operation):
    answer = await driver.refusal(operation, {"id": "no-such-task"})
    assert answer.is_error("TaskNotFoundError")
    if driver.rest:
        assert answer.error["status"] == "NOT_FOUND"


@shows("b.4.4 SubscribeToTask", "b.4.6 errors", "e.3 stream errors")
@within(DEADLINE)
async def test_a_task_that_is_unknown_cannot_be_subscribed_to(capable):
    assert (await capable.refusal("SubscribeToTask", {"id": "no-such-task"})).is_error("TaskNotFoundError")
    unknown = capable.sending("tck-multi-004", taskId="no-such-task")
    assert (await capable.refusal("SendStreamingMessage", unknown)).is_error("TaskNotFoundError")


@shows("b.4.5 order", "b.4.5 GetTask", "b.4.5 SendMessage")
@within(DEADLINE)
async def test_the_history_has_every_message_of_the_user_in_order(driver):
    def turn(number: int) -> Any:
        return {"parts": [{"text": f"turn {number}", "mediaType": "text/plain"}], "metadata": {"turn": number}}

    task = await driver.task("tck-input-required", **turn(1))
    for number in (2, 3):
        await driver.task("tck-input-required", taskId=task["id"], **turn(number))
    last = await driver.task("tck-complete-task", {"historyLength": 0}, taskId=task["id"], **turn(4))
    assert last["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "history" not in last

    names = ["tck-input-required"] * 3 + ["tck-complete-task"]
    turns = [
        {**driver.message(name, **turn(number)), "taskId": task["id"], "contextId": task["contextId"]}
        for number, name in enumerate(names, start=1)
    ]
    for length, shown in ((None, turns), (10, turns), (1, turns[-1:]), (2, turns[-2:])):
        asked = {} if length is None else {"historyLength": length}
        assert (await driver.get(task["id"], **asked))["history"] == shown
    assert "history" not in await driver.get(task["id"], historyLength=0)


@shows("b.4.6 snapshot", "b.4.6 two subscribers", "b.4.6 stays open")
@within(DEADLINE)
async def test_subscribers_stay_to_the_end_of_a_task_that_waits_for_input(capable):
    task = await capable.task("tck-input-required")
    with trio.fail_after(10):
        async with capable.subscribing(task["id"]) as one, capable.subscribing(task["id"]) as other:
            with trio.fail_after(5):
                snapshot = await one.event()
            assert snapshot == {"task": task}
            again = await capable.task("tck-input-required", taskId=task["id"])
            await capable.task("tck-complete-task", taskId=task["id"])
            events = await one.rest()
            assert await other.rest() == [snapshot, *events]
    states = [event["statusUpdate"]["status"] for event in events]
    assert states[0] == again["status"]
    assert states[-1]["state"] == "TASK_STATE_COMPLETED"


@shows("b.4.7 abandoned")
@within(DEADLINE)
async def test_streams_that_nobody_reads_block_nothing(capable):
    task = await capable.task("tck-input-required")
    async with AsyncExitStack() as abandoned:
        for _ in range(7):
            await abandoned.enter_async_context(capable.subscribing(task["id"]))
        await capable.task("tck-complete-task")
        async with capable.subscribing(task["id"]) as reader:
            assert (await reader.event())["task"]["id"] == task["id"]
            done = await capable.task("tck-complete-task", taskId=task["id"])
            (*_, last) = await reader.rest()
        assert last["statusUpdate"]["status"] == done["status"]
    assert await capable.get(task["id"]) == done


@shows("b.4.7 cancelled")
@within(DEADLINE)
async def test_a_client_that_goes_after_the_first_event_does_no_harm(capable):
    task = await capable.task("tck-input-required")
    for _ in range(3):
        async with capable.subscribing(task["id"]) as stream:
            await stream.event()
    async with capable.streaming("tck-stream-001") as stream:
        begun = (await stream.event())["task"]["id"]
    done = await capable.task("tck-complete-task", taskId=task["id"])
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    # The agent goes on without it.
    state = (await capable.get(begun))["status"]["state"]
    while state != "TASK_STATE_COMPLETED":
        async with capable.subscribing(begun) as stream:
            if stream.answer is None:
                await stream.rest()
        state = (await capable.get(begun))["status"]["state"]


WEBHOOK = {
    "url": "https://example.com/tck-push-webhook",
    "authentication": {"scheme": "Bearer", "credentials": "tck-secret"},
}


@shows("b.4.8 CRUD", "b.4.8 id", "b.4.8 unknown id", "b.4.8 second DELETE", "b.4.8 URL")
@within(DEADLINE)
async def test_push_configurations_of_a_task_that_is_over_are_kept_and_forgotten(capable):
    tasks = [(await capable.task("tck-complete-task"))["id"] for _ in range(2)]
    for task in tasks:
        config = {"taskId": task, "id": "tck-config-id", **WEBHOOK}
        created = (await capable.call("CreateTaskPushNotificationConfig", config)).result
        assert (created["id"], created["taskId"], created["url"]) == ("tck-config-id", task, WEBHOOK["url"])
    first, second = ({"taskId": task, "id": "tck-config-id"} for task in tasks)

    got = (await capable.call("GetTaskPushNotificationConfig", first)).result
    assert (got["id"], got["taskId"], got["url"]) == ("tck-config-id", tasks[0], WEBHOOK["url"])
    listed = (await capable.call("ListTaskPushNotificationConfigs", {"taskId": tasks[0]})).result
    assert listed["configs"] == [got]
    unknown = {**first, "id": "no-such-config"}
    assert (await capable.refusal("GetTaskPushNotificationConfig", unknown)).is_error("TaskNotFoundError")

    for _ in range(2):
        await capable.call("DeleteTaskPushNotificationConfig", first)
    assert (await capable.refusal("GetTaskPushNotificationConfig", first)).is_error("TaskNotFoundError")
    assert (await capable.call("GetTaskPushNotificationConfig", second)).result["id"] == "tck-config-id"


@shows("b.4.8 inline", "b.4.8 URL")
@pytest.mark.parametrize("url", ["http://127.0.0.1:9/webhook", "http://localhost:9/webhook", WEBHOOK["url"]])
@within(DEADLINE)
async def test_a_push_configuration_that_comes_with_a_message_is_stored_for_its_task(capable, url):
    config = {**WEBHOOK, "id": "tck-inline", "url": url}
    task = await capable.task("tck-input-required", {"taskPushNotificationConfig": config})
    got = (await capable.call("GetTaskPushNotificationConfig", {"taskId": task["id"], "id": "tck-inline"})).result
    assert (got["taskId"], got["url"]) == (task["id"], url)


PUSH_CALLS = {
    "CreateTaskPushNotificationConfig": {"id": "tck-config-id", **WEBHOOK},
    "GetTaskPushNotificationConfig": {"id": "tck-config-id"},
    "ListTaskPushNotificationConfigs": {},
    "DeleteTaskPushNotificationConfig": {"id": "tck-config-id"},
}


@shows("b.4.8 not declared")
@pytest.mark.parametrize("operation", PUSH_CALLS)
@within(DEADLINE)
async def test_an_agent_that_does_not_push_refuses_every_call_about_it(bare, operation):
    task = await bare.task("tck-complete-task")
    answer = await bare.refusal(operation, {"taskId": task["id"], **PUSH_CALLS[operation]})
    assert answer.is_error("PushNotificationNotSupportedError")


@shows("b.4.8 not declared")
@within(DEADLINE)
async def test_an_agent_that_does_not_push_refuses_a_message_with_a_configuration(bare):
    sent = bare.sending("tck-complete-task", {"taskPushNotificationConfig": WEBHOOK})
    assert (await bare.refusal("SendMessage", sent)).is_error("PushNotificationNotSupportedError")


@shows("b.4.9 declared")
@within(DEADLINE)
async def test_the_extended_card_is_given_without_credentials(capable):
    card = (await capable.call("GetExtendedAgentCard", {})).result
    public = (await capable.http.get(capable.url + CARD)).json()
    assert "securityRequirements" not in public
    assert [skill["id"] for skill in card["skills"]] == ["conform", "extra"]
    assert {**card, "skills": public["skills"]} == public


@shows("b.4.9 not declared")
@within(DEADLINE)
async def test_an_agent_without_an_extended_card_refuses_the_call_for_it(bare):
    assert (await bare.refusal("GetExtendedAgentCard", {})).is_error("UnsupportedOperationError")


@shows("b.2 capabilities")
@pytest.mark.parametrize("name", [*EXPECTED, "tck-message-response", "tck-reject-task", "test-resubscribe-message-id"])
@within(DEADLINE)
async def test_an_agent_that_does_not_stream_refuses_every_message_to_stream(bare, name):
    context = str(uuid4())
    answer = await bare.refusal("SendStreamingMessage", bare.sending(name, contextId=context))
    assert answer.is_error("UnsupportedOperationError")
    assert (await bare.call("ListTasks", {"contextId": context})).result["totalSize"] == 0


@shows("b.2 capabilities")
@within(DEADLINE)
async def test_an_agent_that_does_not_stream_refuses_every_subscription(bare):
    task = await bare.task("tck-input-required")
    for task_id in (task["id"], "no-such-task"):
        assert (await bare.refusal("SubscribeToTask", {"id": task_id})).is_error("UnsupportedOperationError")


@shows("b.4.10 unknown context")
@within(DEADLINE)
async def test_a_context_without_tasks_has_an_empty_list(driver):
    asked = {"contextId": str(uuid4()), "pageSize": 10, "includeArtifacts": False}
    listed = (await driver.call("ListTasks", asked)).result
    assert listed == {"tasks": [], "nextPageToken": "", "pageSize": 10, "totalSize": 0}


@shows("b.4.11 empty")
@within(DEADLINE)
async def test_an_empty_version_is_answered_in_good_form(driver):
    answer = await driver.call("SendMessage", driver.sending("tck-ver-003"), {"a2a-version": ""})
    assert answer.refused
    assert answer.is_error("VersionNotSupportedError")


@shows("b.4.12 unknown fields")
@within(DEADLINE)
async def test_fields_that_are_unknown_are_ignored(driver):
    request = {**driver.sending("tck-complete-task", unknownField="x"), "anotherField": {"deep": [1, None]}}
    request["message"]["parts"][0]["unknownInPart"] = True
    if driver.rest:
        answer = await driver.call("SendMessage", request)
    else:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": request, "unknown": 1}
        kind = {"content-type": JSON}
        answer = await driver.raw("POST", "", json.dumps(body).encode(), {**driver.headers, **kind})
        answer.check("SendMessageResponse")
    check_task(answer.result["task"], SENT["tck-complete-task"], "tck-complete-task", driver)


@shows("b.4.12 no message")
@within(DEADLINE)
async def test_a_request_without_a_message_is_refused(driver):
    for members in ({}, {"configuration": {}}, {"message": None}):
        assert (await driver.refusal("SendMessage", members)).is_error("InvalidParamsError")


@shows("b.4.12 unknown method")
@within(DEADLINE)
async def test_a_method_that_is_unknown_is_refused(driver):
    if driver.rest:
        answer = await driver.raw("GET", "/no/such/route/at/all", None, driver.headers)
    else:
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "NoSuchMethod", "params": {}}).encode()
        answer = await driver.raw("POST", "/", body, {**driver.headers, "content-type": JSON})
    assert answer.check(None).is_error("MethodNotFoundError")


# ------------------------------------------------------------------------------------------------ the card, b.2


@shows("b.2 keys", "b.2 interfaces", "b.2 capabilities", "b.2 extension", "b.2 headers", "b.4.11 1.0")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@within(DEADLINE)
async def test_the_card_says_what_is_served(urls, mode):
    url = urls[mode.name]
    async with httpx2.AsyncClient(trust_env=False) as http:
        response = await http.get(url + CARD)
    assert response.status_code == 200
    assert re.search(r"\bmax-age=\d+", response.headers["cache-control"])
    assert response.headers["etag"]
    assert response.headers["last-modified"]

    card = response.json()
    check_result(card, "AgentCard")
    required = {"name", "description", "version", "capabilities", "skills", "supportedInterfaces"}
    assert set(card) == required | {"defaultInputModes", "defaultOutputModes"}
    assert all(card[name] for name in card)
    assert all(skill[name] for skill in card["skills"] for name in ("id", "name", "description", "tags"))
    assert card["supportedInterfaces"] == [
        {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"} for binding in BINDINGS
    ]
    capabilities = card["capabilities"]
    for name in ("streaming", "pushNotifications", "extendedAgentCard"):
        assert capabilities[name] is mode.capable
    required_extensions = [
        extension["uri"] for extension in capabilities.get("extensions", ()) if extension["required"]
    ]
    assert required_extensions == ([EXTENSION] if mode is REQUIRED else [])


@shows("b.2 JSON-RPC URL", "b.2 HTTP+JSON URL", "e.3 redirects", "b.5 ids", "b.5 snake_case")
@within(DEADLINE)
async def test_the_urls_of_the_card_are_those_that_clients_call(driver):
    assert not driver.url.endswith("/")
    headers = {**driver.headers, "content-type": JSON}
    if driver.rest:
        body = json.dumps(driver.sending("tck-complete-task")).encode()
        answer = await driver.raw("POST", "/message:send", body, headers)
        assert answer.check("SendMessageResponse").status == 200
        return
    for path, request_id, spelling in (("", 17, "historyLength"), ("/", "a text", "history_length"), ("/", 0, "id")):
        params = {"id": "no-such-task", **({} if spelling == "id" else {spelling: 1})}
        body = {"jsonrpc": "2.0", "id": request_id, "method": "GetTask", "params": params}
        answer = await driver.raw("POST", path, json.dumps(body).encode(), headers)
        assert answer.check("Task").is_error("TaskNotFoundError")
        assert answer.body["id"] == request_id
        assert type(answer.body["id"]) is type(request_id)


@shows("b.2 extension")
@pytest.mark.parametrize("operation", OPERATIONS)
@within(DEADLINE)
async def test_a_caller_without_the_required_extension_is_refused_whatever_it_calls(stranger, operation):
    members = {"taskId": "no-such-task", **PUSH_CALLS[operation]} if operation in PUSH_CALLS else {}
    if operation in {"GetTask", "CancelTask", "SubscribeToTask"}:
        members = {"id": "no-such-task"}
    if operation in {"SendMessage", "SendStreamingMessage"}:
        members = stranger.sending("tck-complete-task")
    answer = await stranger.refusal(operation, members)
    assert answer.is_error("ExtensionSupportRequiredError")


@shows("b.2 extension")
@pytest.mark.parametrize("name", [*EXPECTED, "tck-message-response", "tck-reject-task", "test-resubscribe-message-id"])
@within(DEADLINE)
async def test_a_caller_without_the_required_extension_is_refused_whatever_it_says(stranger, name):
    for operation in ("SendMessage", "SendStreamingMessage"):
        answer = await stranger.refusal(operation, stranger.sending(name))
        assert answer.is_error("ExtensionSupportRequiredError")


@shows("b.2 extension", "b.5 extensions")
@within(DEADLINE)
async def test_an_extension_that_is_unknown_is_tolerated_and_one_that_is_known_echoed(driver):
    known = driver.headers.get("a2a-extensions")
    asked = {"a2a-extensions": ", ".join(filter(None, ("urn:example:unknown", known)))}
    for name in ("tck-svc-002-ext", "tck-jsonrpc-svc-002-ext"):
        answer = await driver.send(name, headers=asked)
        assert answer.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert answer.headers.get("a2a-extensions") == known


# ------------------------------------------------------------------------------------------ the bindings, b.5 and e.3


@shows("b.5 operations", "b.5 snake_case", "b.5 results")
@within(DEADLINE)
async def test_every_operation_is_served(driver):
    task = await driver.task("tck-input-required")
    assert (await driver.call("GetTask", {"id": task["id"], "historyLength": 10})).result == task
    asked = {"contextId": task["contextId"], "pageSize": 5, "includeArtifacts": False}
    listed = (await driver.call("ListTasks", asked)).result
    assert [one["id"] for one in listed["tasks"]] == [task["id"]]
    assert listed["pageSize"] == 5
    assert (await driver.call("CancelTask", {"id": task["id"]})).result["id"] == task["id"]
    # The others are called above; that all of them are there is said here.
    called = {"SendMessage", "GetTask", "ListTasks", "CancelTask", "SendStreamingMessage", "SubscribeToTask"}
    assert called | PUSH_CALLS.keys() | {"GetExtendedAgentCard"} == set(OPERATIONS)


@shows("b.5 cancel", "b.5 subscribe")
@pytest.mark.parametrize("mode", [ALL, REQUIRED, STORED], ids=lambda mode: mode.name)
@within(DEADLINE)
async def test_http_json_takes_an_empty_body_and_subscribes_with_either_verb(urls, mode):
    async with open_driver(urls[mode.name], "HTTP+JSON", mode.headers) as driver:
        task = await driver.task("tck-input-required")
        assert route("CancelTask", {"id": "x"}) == ("POST", "/tasks/x:cancel", b"")
        assert route("SubscribeToTask", {"id": "x"}) == ("POST", "/tasks/x:subscribe", b"")
        async with connection(driver.url) as wire, driver.subscribing(task["id"]) as posted:
            await wire.stream.send_all(request_bytes("GET", f"/tasks/{task['id']}:subscribe", driver.headers, b""))
            status, headers = await wire.head()
            assert (status, headers["content-type"]) == (200, posted.headers["content-type"])
            canceled = (await driver.call("CancelTask", {"id": task["id"]})).result
            assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
            first, last = await posted.rest()
            assert first["task"]["id"] == last["statusUpdate"]["taskId"] == task["id"]
            got = (await wire.body(headers)).decode()
            assert [json.loads(line[5:]) for line in got.splitlines() if line.startswith("data:")] == [first, last]


@shows("e.3 timeouts")
@within(DEADLINE)
async def test_the_default_branch_answers_in_time(driver):
    for name in DEFAULT:
        with trio.fail_after(5):
            await driver.send(name)


@shows("e.3 segments")
@within(DEADLINE)
async def test_head_and_body_may_come_apart_and_the_connection_is_kept(driver):
    body = driver.sending("tck-complete-task")
    if not driver.rest:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": body}
    path = "/message:send" if driver.rest else "/"
    content = json.dumps(body).encode()
    request = request_bytes("POST", path, {**driver.headers, "content-type": JSON}, content)
    head = request.removesuffix(content)
    async with connection(driver.url) as wire:
        for _ in range(3):
            for piece in (head, content[:10], content[10:]):
                await wire.stream.send_all(piece)
            status, headers = await wire.head()
            reply = Reply(status, headers, await wire.body(headers))
            assert "task" in (reply.json if driver.rest else reply.result)


@shows("e.3 SSE", "e.3 SSE data")
@within(DEADLINE)
async def test_each_event_is_one_data_line_and_the_rest_can_be_overlooked(capable):
    async with capable.streaming("tck-stream-artifact-chunked") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = await stream.rest()
    assert len(stream.blocks) == len(events)
    for lines in stream.blocks:
        assert len([line for line in lines if line.startswith("data:")]) == 1
        assert all(line.startswith(("data:", "id:", "event:", "retry:", ":")) for line in lines)


@shows("e.3 SSE", "e.3 timeouts")
@within(DEADLINE)
async def test_an_http_client_reads_a_stream_line_by_line(capable):
    request = capable.sending("tck-stream-001")
    if not capable.rest:
        request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": request}
    url = capable.url + ("/message:stream" if capable.rest else "/")
    headers = {**capable.headers, "accept": "text/event-stream"}
    async with (
        capable.http.stream("POST", url, json=request, headers=headers) as response,
        aclosing(response.aiter_lines()) as lines,
    ):
        data = [json.loads(line.removeprefix("data:")) async for line in lines if line.startswith("data:")]
    events = data if capable.rest else [one["result"] for one in data]
    check_events(events, STREAMED["tck-stream-001"])


# ------------------------------------------------------------------------------------------------------ the program


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@within(DEADLINE)
async def test_the_program_says_its_url_and_ends_in_order_though_a_stream_is_open(number):
    cut_off = "connections were still busy at the end of the grace period and have been cancelled\n"
    with conformance_agent("--host", "127.0.0.1", "--grpc-port", "10000", complains=cut_off) as (url, process):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        async with open_driver(url, "JSONRPC", ALL.headers) as driver:
            task = await driver.task("tck-input-required")
            async with driver.subscribing(task["id"]) as stream:
                await stream.event()
                process.send_signal(number)
                await trio.to_thread.run_sync(process.wait, DEADLINE)


@pytest.mark.parametrize(("table", "statuses"), [("1.0.0", (409, 415)), ("1.0.1", (400, 400))])
@within(DEADLINE)
async def test_the_statuses_are_those_of_the_version_that_is_asked_for(table, statuses):
    with conformance_agent("--error-table", table) as (url, _):
        async with open_driver(url, "HTTP+JSON", ALL.headers) as driver:
            task = await driver.task("tck-complete-task")
            cancel = await driver.raw("POST", f"/tasks/{task['id']}:cancel", b"", driver.headers)
            plain = await driver.raw("POST", "/message:send", b"no", {**driver.headers, "content-type": "text/plain"})
    assert (cancel.status, plain.status) == statuses


@within(DEADLINE)
async def test_tasks_in_a_database_are_there_after_a_restart(tmp_path):
    store = ("--store", f"sqlite:///{tmp_path / 'tasks.db'}")
    with conformance_agent(*store, complains=STORED.complains) as (url, _):
        async with open_driver(url, "JSONRPC", ALL.headers) as driver:
            task = await driver.task("tck-artifact-data")
    with conformance_agent(*store, complains=STORED.complains) as (url, _):
        async with open_driver(url, "JSONRPC", ALL.headers) as driver:
            assert await driver.get(task["id"]) == task


@pytest.mark.parametrize(
    ("url", "says"), [("tasks.db", "use sqlite:///FILE"), ("sqlite:////nowhere/at/all.db", "cannot be opened")]
)
def test_a_store_that_cannot_be_opened_is_one_line_and_exit_status_2(url, says):
    done = subprocess.run(
        [sys.executable, PROGRAM, "--store", url],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 2
    assert not done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert "--store" in done.stderr
    assert says in done.stderr


# ------------------------------------------------------------------------------------------------------ nothing is left


def test_all_rows_are_shown_but_those_that_need_grpc_or_webhooks():
    assert ROWS.keys() - SHOWN == LATER.keys()
    assert set(LATER.values()) == {"gRPC", "webhooks"}
