"""Arbitrary and mutated requests to both HTTP bindings.

Whatever comes, the answer is well-formed and none of the server's own faults: no 500, no text of an exception, no error
in the log; and when the clients are gone, nothing is left running. The application is called as an ASGI server calls
it, so that also comes in what the built-in server would have refused.
"""

import contextlib
import copy
import json
import logging
from typing import Any
from urllib.parse import quote

import attrs
import trio
import trio.testing
from hypothesis import given, settings, strategies as st

from tests.server.peer import parse_block
from trio_a2a.abc import TaskChange
from trio_a2a.agents.runner import TaskRuns
from trio_a2a.server import A2AApp, Agent, BearerTokenAuthenticator, Limits, agent_card
from trio_a2a.stores import InMemoryPushConfigStore, InMemoryTaskStore
from trio_a2a.testing import task
from trio_a2a.types import AgentCapabilities, AgentExtension, TaskState

PATIENCE = 20
"""Seconds on the mock clock after which a client that is still being answered leaves."""

NEVER_SAID = ("Traceback", "object has no", "NoneType", "cattrs", "orjson", "trio_a2a", "unexpected keyword", ".py")


async def agent(context, updater):
    text = context.text()
    await trio.sleep(len(text) % 4 / 10)
    if len(text) % 3 == 0:
        await updater.require_input(text or "what?")
    elif len(text) % 3 == 1:
        await updater.add_artifact(context.message.parts)
        await updater.complete()
    else:
        await updater.start_work()


async def make_app(*, known: bool) -> A2AApp:
    store = InMemoryTaskStore()
    for task_id, state in [
        ("open", TaskState.INPUT_REQUIRED),
        ("over", TaskState.COMPLETED),
        ("a/b:c", TaskState.WORKING),
    ]:
        whole = task(task_id, state)
        await store.commit([TaskChange(task_id=task_id, sequence=1, event=whole, snapshot=lambda t=whole: t)])
    card = agent_card("Fuzzed", "Takes anything.", modes=("text/plain", "image/*"))
    extension = AgentExtension(uri="urn:x", required=known)
    card = attrs.evolve(card, capabilities=AgentCapabilities(extensions=(extension,)))
    return A2AApp(
        Agent(
            card,
            agent,
            store=store,
            push=InMemoryPushConfigStore(),
            extended_card=agent_card("Extended", "."),
            authenticator=BearerTokenAuthenticator({"t": "ann"}) if known else None,
            limits=Limits(max_body=20_000, max_parts=5, queued_sends=3, streams_per_task=3, stream_age=10),
        )
    )


# ------------------------------------------------------------------------------------------------------------- requests


@attrs.frozen
class Sent:
    """A request, as an ASGI server hands it on."""

    method: str
    path: bytes
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    patience: float = PATIENCE


patience = st.integers(0, 2).flatmap(lambda n: st.just(PATIENCE) if n else st.sampled_from([0, 0.05, 0.25, 1.5, 5]))

MESSAGE = {
    "messageId": "m",
    "role": "ROLE_USER",
    "parts": [{"text": "hello"}, {"data": {"a": [1, None]}}, {"raw": "AP8=", "mediaType": "image/png"}],
    "taskId": "open",
    "metadata": {"urn:x": {"deep": [1, 2.5]}},
    "extensions": ["urn:x"],
    "referenceTaskIds": ["over"],
}
CONFIG = {"id": "c", "url": "https://example.com", "token": "t", "authentication": {"scheme": "Bearer"}}
SENDING = {
    "message": MESSAGE,
    "configuration": {
        "acceptedOutputModes": ["text/plain"],
        "historyLength": 3,
        "returnImmediately": True,
        "taskPushNotificationConfig": CONFIG,
    },
    "metadata": {"a": 1},
    "tenant": "",
}
PARAMS = {
    "SendMessage": SENDING,
    "SendStreamingMessage": SENDING,
    "GetTask": {"id": "open", "historyLength": 1},
    "ListTasks": {
        "contextId": "c",
        "status": "TASK_STATE_WORKING",
        "pageSize": 3,
        "pageToken": "x",
        "historyLength": 1,
        "statusTimestampAfter": "2024-01-01T00:00:00Z",
        "includeArtifacts": True,
    },
    "CancelTask": {"id": "a/b:c", "metadata": {}},
    "SubscribeToTask": {"id": "open"},
    "CreateTaskPushNotificationConfig": {**CONFIG, "taskId": "over"},
    "GetTaskPushNotificationConfig": {"taskId": "over", "id": "c"},
    "ListTaskPushNotificationConfigs": {"taskId": "over", "pageSize": 2, "pageToken": ""},
    "DeleteTaskPushNotificationConfig": {"taskId": "over", "id": "c"},
    "GetExtendedAgentCard": {},
}
SEGMENTS = (
    "tasks",
    "message:send",
    "message:stream",
    "pushNotificationConfigs",
    "extendedAgentCard",
    "open",
    "over",
    "open:cancel",
    "open:subscribe",
    "a%2Fb%3Ac",
    "a%2Fb%3Ac:cancel",
    "acme",
    "..",
    ".well-known",
    "agent-card.json",
    "",
)
HEADERS = {
    b"content-type": [b"application/json", b"application/a2a+json", b"text/plain", b"application/json; x", b"", b";"],
    b"accept": [b"*/*", b"text/event-stream", b"application/a2a+json;q=0", b",,;", b"\xff"],
    b"a2a-version": [b"1.0", b"1.0.3", b"0.3", b"", b"1", b"\xb2.\xb9", b"1.0, 1.0", b"9" * 300],
    b"a2a-extensions": [b"urn:x", b"urn:x,urn:x", b",", b"\xe9", b" "],
    b"authorization": [b"Bearer t", b"bearer  t ", b"Basic dDp0", b"Bearer", b"Bearer \xff", b""],
    b"last-event-id": [b"0", b"1", b"2", b"-1", b"\xb2", b"1e3", b"9" * 30, b""],
    b"host": [b"example.com", b"", b"\xff\xfe", b"a b", b"[::1"],
    b"content-length": [b"0", b"5", b"-1", b"x", b"\xb2", b"9" * 30],
    b"if-none-match": [b"*", b'W/"x"', b""],
}
PARAMETERS = (
    "tenant",
    "pageSize",
    "pageToken",
    "historyLength",
    "includeArtifacts",
    "status",
    "statusTimestampAfter",
    "contextId",
    "A2A-Version",
    "A2A-Extensions",
    "id",
)
VALUES = ("", "1", "-1", "true", "TASK_STATE_WORKING", "2024-01-01T00:00:00Z", "1.0", "urn:x", "é", "1e400", "null")

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.sampled_from(
        ["open", "over", "ROLE_USER", "TASK_STATE_WORKING", "2024-01-01T00:00:00Z", "\u2028", "\x00", "AP8="]
    ),
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all nodes of a document but its root."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    found = []
    for key, value in items:
        found += [(*path, key), *places(value, (*path, key))]
    return found


def snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


@st.composite
def mutated(draw, document: Any) -> Any:
    """A document of which a few nodes are something else."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        nodes = places(document)
        if not nodes:
            break
        *way, last = draw(st.sampled_from(nodes))
        parent = document
        for key in way:
            parent = parent[key]
        match draw(st.sampled_from(["replace", "delete", "add", "rename", "nest"])):
            case "replace":
                parent[last] = draw(documents)
            case "delete":
                del parent[last]
            case "add" if isinstance(parent, dict):
                parent[draw(st.text(max_size=5) | st.sampled_from(["text", "url", "task_id", "kind"]))] = draw(
                    documents
                )
            case "rename" if isinstance(parent, dict):
                parent[snake(last)] = parent.pop(last)
            case "nest":
                for _ in range(draw(st.sampled_from([1, 3, 99, 150]))):
                    parent[last] = [parent[last]]
    return document


@st.composite
def bodies(draw, document: Any) -> bytes:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.binary(max_size=40))
    changed = draw(documents if kind == 1 else mutated(document))
    data = bytearray(json.dumps(changed).encode("utf-8", "surrogatepass"))
    if kind == 2:
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 4))] = draw(st.binary(max_size=4) | st.just(b"[" * 3000))
    return bytes(data)


@st.composite
def header_lists(draw) -> tuple[tuple[bytes, bytes], ...]:
    headers = {b"content-type": b"application/json", b"a2a-version": b"1.0", b"a2a-extensions": b"urn:x"}
    headers[b"authorization"] = b"Bearer t"
    for name in draw(st.lists(st.sampled_from(sorted(HEADERS)), max_size=2)) if draw(st.booleans()) else ():
        headers[name] = draw(st.sampled_from(HEADERS[name]) | st.binary(max_size=5))
    found = list(headers.items())
    if draw(st.integers(0, 5)) == 0:
        found.append(draw(st.sampled_from(found)))
    if draw(st.integers(0, 5)) == 0:
        found.pop(draw(st.integers(0, len(found) - 1)))
    return tuple(found)


@st.composite
def queries(draw) -> bytes:
    if draw(st.integers(0, 6)) == 0:
        return draw(st.binary(max_size=20))
    names = draw(st.lists(st.sampled_from(PARAMETERS), max_size=3))
    values = [draw(st.sampled_from(VALUES) | st.text(max_size=4)) for _ in names]
    encoded = [quote(value, errors="replace") for value in values]
    return "&".join(f"{name}={value}" for name, value in zip(names, encoded, strict=True)).encode()


@st.composite
def rpc_requests(draw) -> Sent:
    method = draw(st.sampled_from(sorted(PARAMS)))
    document = {
        "jsonrpc": "2.0",
        "id": draw(st.sampled_from([1, "x", 0, ""])),
        "method": method,
        "params": PARAMS[method],
    }
    return Sent(
        draw(st.sampled_from(["GET", "HEAD"])) if draw(st.integers(0, 19)) == 0 else "POST",
        b"/",
        draw(st.just(b"") | queries()),
        draw(header_lists()),
        draw(bodies(document)),
        draw(patience),
    )


@st.composite
def rest_requests(draw) -> Sent:
    known = [
        ("POST", "/message:send", SENDING),
        ("POST", "/message:stream", SENDING),
        ("GET", "/tasks/open", None),
        ("GET", "/tasks", None),
        ("POST", "/tasks/a%2Fb%3Ac:cancel", PARAMS["CancelTask"]),
        ("POST", "/tasks/open:subscribe", None),
        ("GET", "/tasks/over:subscribe", None),
        ("POST", "/tasks/over/pushNotificationConfigs", CONFIG),
        ("GET", "/tasks/over/pushNotificationConfigs", None),
        ("DELETE", "/tasks/over/pushNotificationConfigs/c", None),
        ("GET", "/extendedAgentCard", None),
        ("GET", "/.well-known/agent-card.json", None),
    ]
    method, path, document = draw(st.sampled_from(known))
    raw = path.encode()
    match draw(st.integers(0, 5)):
        case 0:
            raw = b"/" + "/".join(draw(st.lists(st.sampled_from(SEGMENTS), max_size=5))).encode()
        case 1:
            at = draw(st.integers(1, len(raw)))
            raw = (
                raw[:at]
                + draw(st.binary(max_size=3) | st.sampled_from([b"%", b"%zz", b"%ff", b"%00", b":", b"/"]))
                + raw[at:]
            )
        case 2:
            raw = b"/acme" + raw
    if draw(st.integers(0, 9)) == 0:
        method = draw(st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "QUERY"]))
    body = draw(bodies(document)) if document is not None or draw(st.booleans()) else b""
    return Sent(method, raw, draw(st.just(b"") | queries()), draw(header_lists()), body, draw(patience))


# -------------------------------------------------------------------------------------------------------------- answers


@attrs.define
class Answer:
    """What the application sent."""

    status: int = 0
    headers: dict[bytes, bytes] = attrs.Factory(dict)
    body: bytes = b""
    complete: bool = False


async def ask(app: A2AApp, sent: Sent) -> Answer:
    """Call the application; a stream that goes on is left after a while."""
    answer = Answer()
    messages = [
        {"type": "http.request", "body": sent.body[:7], "more_body": True},
        {"type": "http.request", "body": sent.body[7:], "more_body": False},
    ]
    leaves_at = trio.current_time() + sent.patience

    async def receive() -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        if messages:
            return messages.pop(0)
        await trio.sleep_until(leaves_at)
        return {"type": "http.disconnect"}

    async def send(event: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        assert not answer.complete, "something was sent behind the end"
        if event["type"] == "http.response.start":
            assert not answer.status, "two answers"
            answer.status, answer.headers = event["status"], dict(event["headers"])
            assert len(answer.headers) == len(event["headers"]), "a header came twice"
            assert not any(b"\n" in part or b"\r" in part for header in event["headers"] for part in header)
        else:
            answer.body += event["body"]
            answer.complete = not event["more_body"]

    scope = {
        "type": "http",
        "method": sent.method,
        "path": sent.path.decode("latin-1"),
        "raw_path": sent.path,
        "query_string": sent.query,
        "headers": sent.headers,
        "server": ("127.0.0.1", 80),
    }
    with trio.fail_after(PATIENCE + 5):
        await app(scope, receive, send)
    return answer


def check(answer: Answer, sent: Sent) -> None:
    """Assert that the answer is well-formed and says nothing of what is inside."""
    if not answer.status and sent.patience < PATIENCE:
        return
    assert answer.status in {200, 304, 400, 401, 403, 404, 405, 413, 415, 429}, answer
    kind = answer.headers.get(b"content-type", b"")
    text = answer.body.decode()
    for secret in NEVER_SAID:
        assert secret not in text or secret.encode() in sent.body, text
    if kind == b"text/event-stream":
        assert answer.status == 200
        check_stream(text)
        return
    if not answer.complete and sent.patience < PATIENCE:
        return
    assert answer.complete
    if answer.status == 304:
        return
    assert int(answer.headers[b"content-length"]) == len(answer.body)
    if kind.startswith(b"text/plain"):
        assert answer.status in {404, 405}, answer
        return
    assert kind in {b"application/json", b"application/a2a+json"}, kind
    document = json.loads(text, parse_constant=lambda name: 1 / 0)
    if "jsonrpc" in document:
        assert set(document) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
        check_error(document.get("error"), rpc=True)
        assert answer.status != 200 or sent.path.startswith(b"/")
    else:
        assert ("error" in document) is (answer.status != 200)
        check_error(document.get("error"), rpc=False)


def check_stream(text: str) -> None:
    *blocks, rest = text.split("\n\n")
    assert rest == "", "an unfinished event"
    numbers = []
    for block in blocks:
        frame = parse_block(block)
        if frame.comment is None:
            document = frame.data.get("result", frame.data)
            check_error(frame.data.get("error"), rpc="jsonrpc" in frame.data)
            assert len(document) == 1 or "error" in document
            numbers.append(frame.id)
    numbered = [number for number in numbers if number is not None]
    assert numbered == list(range(numbered[0], numbered[0] + len(numbered))) if numbered else True


def check_error(error: Any, *, rpc: bool) -> None:
    if error is None:
        return
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["code"], int)
    assert (error["code"] < 0) is rpc
    assert error["code"] not in {-32603, 500}
    assert set(error) <= ({"code", "message", "data"} if rpc else {"code", "status", "message", "details"})


@contextlib.contextmanager
def nothing_is_logged_as_an_error():
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keep(logging.ERROR)
    logger = logging.getLogger("trio_a2a")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    assert not records, [(record.getMessage(), record.exc_info) for record in records]


async def exchange(requests: list[Sent], *, known: bool, at_once: bool) -> None:
    app = await make_app(known=known)
    async with app.running():
        answers: dict[int, Answer] = {}

        async def one(place: int) -> None:
            answers[place] = await ask(app, requests[place])

        async with trio.open_nursery() as nursery:
            for place in range(len(requests)):
                if at_once:
                    nursery.start_soon(one, place)
                else:
                    await one(place)
        for place, sent in enumerate(requests):
            check(answers[place], sent)
        # The agent is quick, so with the clients gone only idle queues are left.
        await trio.sleep(PATIENCE)
        manager = app._running.manager
        assert manager.statistics().subscribers == 0
        for queue in manager._queues.values():
            assert queue._needs == 0, queue
            assert not TaskRuns.of(queue).active
            assert not TaskRuns.of(queue).starting
        operations = app._running.operations
        assert not operations._slots._of_task
        assert not operations.push_configs._on_their_way


def run(requests: list[Sent], *, known: bool = False, at_once: bool = False) -> None:
    with nothing_is_logged_as_an_error():
        trio.run(
            lambda: exchange(requests, known=known, at_once=at_once), clock=trio.testing.MockClock(autojump_threshold=0)
        )


bounded = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@bounded
@given(st.lists(rpc_requests(), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_any_json_rpc_request_is_answered_in_order(requests, known, at_once):
    run(requests, known=known, at_once=at_once)


@bounded
@given(st.lists(rest_requests(), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_any_http_json_request_is_answered_in_order(requests, known, at_once):
    run(requests, known=known, at_once=at_once)


def test_the_requests_that_are_mutated_are_good_ones():
    """So what the mutations reach lies behind the checks, and not only before them."""
    headers = tuple({b"content-type": b"application/json", b"a2a-version": b"1.0", b"a2a-extensions": b"urn:x"}.items())
    reasons = []

    async def main() -> None:
        app = await make_app(known=False)
        async with app.running():
            for method, params in PARAMS.items():
                body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
                answer = await ask(app, Sent("POST", b"/", b"", headers, body))
                if b"error" in answer.body:
                    violations = json.loads(answer.body)["error"]["data"][1]["fieldViolations"]
                    reasons.append((method, [violation["field"] for violation in violations]))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert reasons == [("ListTasks", ["pageToken"])]
