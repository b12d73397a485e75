"""Every exchange of the protocol's examples, replayed against a running application.

An example fixes status, error code, ids and the members shown; the rules of comparing are in `replay`.
"""

from typing import Any

import pytest

from tests.contract.replay import DATA, Comparison, Exchange, Setting, exchanges, load, replay
from tests.deadline import within
from trio_a2a.testing import FlakyStore

NAMES = sorted(path.stem for path in (DATA / "examples").glob("*.json"))

LEFT_OUT = {
    "80-webhook-status-and-artifact": "webhooks are delivered by a later deliverable",
    "95-grpc-calls": "the gRPC binding is a later deliverable",
    "v03-01-message-send": "version 0.3 is a later deliverable",
    "v03-02-message-stream": "version 0.3 is a later deliverable",
    "v03-03-push-and-card": "version 0.3 is a later deliverable",
}
REPLAYED = [name for name in NAMES if name not in LEFT_OUT]

# Their exchanges need different agents, or the same task as it was before.
APART = {
    "28-jsonrpc-error-capabilities",
    "32-jsonrpc-error-internal-and-agent",
    "44-rest-subscribe",
}


def unreadable() -> FlakyStore:
    store = FlakyStore()
    store.unreadable = True
    return store


def full_after_two() -> FlakyStore:
    """Takes the beginning of a task, and then nothing."""
    return FlakyStore(refuse=lambda change: change.sequence > 2)


def said(number: int, role: str, text: str) -> dict[str, Any]:
    return {"messageId": f"f0000000-0000-4000-8000-0000000001{number}", "role": role, "parts": [{"text": text}]}


NOTHING = {"streaming": False, "pushNotifications": False, "extendedAgentCard": False}
WITHOUT = Setting(capabilities=NOTHING)
SETTINGS = {
    # "The task has three stored messages."
    "06-jsonrpc-get-task-history": Setting(
        tasks=(
            {
                **(shown := exchanges("06-jsonrpc-get-task-history")[0].response["body"]["result"]),
                "history": [
                    said(0, "ROLE_USER", "When do ferries leave?"),
                    said(1, "ROLE_AGENT", "From where?"),
                    *shown["history"],
                ],
            },
        )
    ),
    "11-jsonrpc-push-config-crud": Setting(options={"echo_push_secrets": True}),
    "28-jsonrpc-error-capabilities#0": WITHOUT,
    "28-jsonrpc-error-capabilities#1": WITHOUT,
    "28-jsonrpc-error-capabilities#2": WITHOUT,
    # "An agent that declares extendedAgentCard but has none."
    "28-jsonrpc-error-capabilities#3": Setting(options={"extended_card": lambda _: None}),
    "31-jsonrpc-error-extension-required": Setting(
        capabilities={"extensions": [{"uri": "https://example.com/ext/signing/v1", "required": True}]}
    ),
    "32-jsonrpc-error-internal-and-agent#0": Setting(store=unreadable),
    "33-jsonrpc-stream-error-midway": Setting(store=full_after_two),
    "40-rest-send-message-parts": Setting(
        card={"defaultInputModes": ["text/plain", "image/png", "application/pdf", "application/json"]}
    ),
    "45-rest-push-config-crud": Setting(options={"echo_push_secrets": True}),
    "56-rest-stream-error-midway": Setting(store=full_after_two),
}


def groups() -> list[Any]:
    """The exchanges that go together."""
    found = []
    for name in REPLAYED:
        shown = exchanges(name)
        if name in APART:
            found += [pytest.param([one], SETTINGS.get(one.id, Setting()), id=one.id) for one in shown]
        else:
            found.append(pytest.param(shown, SETTINGS.get(name, Setting()), id=name))
    return found


GROUPS = groups()


@pytest.mark.requirement("C-008", "C-246", "C-260")
@pytest.mark.parametrize(("shown", "setting"), GROUPS)
@within(10)
async def test_the_examples_are_answered_as_they_show(autojump_clock, shown: list[Exchange], setting: Setting):
    await replay(shown, setting)


def is_ours(document: Any) -> bool:
    """Whether the requests of an example go to the two HTTP bindings of version 1.0, or ask for the card."""
    hosts = {exchange["request"].get("headers", {}).get("Host") for exchange in document["exchange"]}
    bindings = {"JSONRPC", "HTTP+JSON", "agent-card"}
    return document["binding"] in bindings and "protocolVersion" not in document and hosts == {"ferry.example.com"}


def test_only_what_belongs_to_later_deliverables_is_left_out():
    left_out = [name for name in NAMES if not is_ours(load(f"examples/{name}.json"))]
    assert left_out == sorted(LEFT_OUT)
    assert len(REPLAYED) == 43


def test_every_exchange_is_replayed_and_every_setting_used():
    replayed = [exchange.id for group in GROUPS for exchange in group.values[0]]
    shown = [exchange.id for name in REPLAYED for exchange in exchanges(name)]
    assert sorted(replayed) == sorted(shown)
    assert set(SETTINGS) <= {group.id for group in GROUPS}


def test_every_vector_has_a_test():
    others = [path for path in DATA.parents[1].rglob("test_*.py") if path.name != "test_examples.py"]
    sources = "".join(path.read_text(encoding="utf-8") for path in others)
    vectors = {path.name for path in (DATA / "vectors").glob("*.json")}
    assert not {name for name in vectors if f'{name}"' not in sources}


TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING", "timestamp": "2026-03-14T09:00:00.000Z"}}
UUIDS = [f"0000000{number}-0000-4000-8000-000000000000" for number in range(3)]
MADE = {**TASK, "id": UUIDS[0], "contextId": UUIDS[1]}
SENT = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]}
INFO = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "TASK_NOT_FOUND",
    "domain": "a2a-protocol.org",
}
FAULT = {"code": -32001, "message": "No", "data": [INFO]}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (TASK, MADE),
        (TASK, {**MADE, "status": {**TASK["status"], "timestamp": "2030-01-01T00:00:00.001Z"}}),
        ([TASK, TASK], [MADE, MADE]),
        (TASK, {**MADE, "history": [SENT]}),
        ({"error": FAULT}, {"error": {**FAULT, "message": "Other", "data": [{**INFO, "metadata": {"a": "b"}}]}}),
    ],
)
def test_what_the_server_makes_itself_is_compared_by_its_shape(expected, actual):
    Comparison(sent="m").same(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual", "given"),
    [
        (TASK, {**MADE, "id": "t2"}, []),  # of no shape
        (TASK, MADE, ["t"]),  # the client's own id
        (TASK, {**MADE, "contextId": MADE["id"]}, []),  # one id for two
        ([TASK, TASK], [MADE, {**MADE, "id": UUIDS[2]}], []),  # two ids for one
        (TASK, {**MADE, "status": {**TASK["status"], "timestamp": "2030-01-01T00:00:00Z"}}, []),
        (
            TASK,
            {**MADE, "status": {**TASK["status"], "timestamp": "2030-01-01T00:00:00.000Z"}},
            ["2026-03-14T09:00:00.000Z"],
        ),
        (TASK, {**MADE, "status": {**TASK["status"], "state": "TASK_STATE_COMPLETED"}}, []),
        (TASK, {**MADE, "artifacts": []}, []),
        (TASK, {**MADE, "history": [SENT]}, []),
        (TASK, {"id": UUIDS[0], "status": TASK["status"]}, []),
        ([TASK], [MADE, MADE], []),
        ({"append": True}, {"append": 1}, []),
        ({"error": FAULT}, {"error": {**FAULT, "code": -32002}}, []),
        ({"error": FAULT}, {"error": {**FAULT, "data": [{**INFO, "reason": "OTHER"}]}}, []),
        ({"error": FAULT}, {"error": {**FAULT, "data": []}}, []),
        ({"error": FAULT}, {"result": {}}, []),
    ],
)
def test_the_comparison_notices_what_is_different(expected, actual, given):
    comparison = Comparison()
    comparison.give(given)
    with pytest.raises(AssertionError):
        comparison.same(expected, actual)
