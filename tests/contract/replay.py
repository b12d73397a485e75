"""Replays the exchanges of the protocol's examples against a running application.

One replayer for every example. What an example shows tells nearly all that must be there: from its responses come the
tasks that it takes for granted, which are put into the store first, and what the agent does in each run. The rest (a
capability that is off, a store that breaks) stands in the settings of the test module.

An example fixes the status, the error codes, the ids that the client gave or the store held, and the members that are
shown. Ids that the server makes are its own: each stands for one id of the example, wherever that comes again, also in
the requests that follow. Times are compared by shape unless they were stored before, and texts of errors are free.

One thing differs by design: an agent of this package begins every task as SUBMITTED. Where the stream of an example
begins with a task in another state, that state comes as the first update.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from jsonschema import Draft202012Validator

from tests.server.peer import EventStream, Frame, Peer, Reply, make_app, parse_block, request_bytes
from trio_a2a.abc import TaskChange, TaskStore
from trio_a2a.agents import RequestContext, TaskUpdater
from trio_a2a.server import A2AApp, BearerTokenAuthenticator
from trio_a2a.stores import InMemoryPushConfigStore, InMemoryTaskStore
from trio_a2a.types import AgentCard, Artifact, Message, Task, TaskState, TaskStatus
from trio_a2a.wire import from_dict

__all__ = [
    "DATA",
    "Comparison",
    "Exchange",
    "Setting",
    "assert_emittable",
    "assert_error",
    "exchanges",
    "load",
    "replay",
]

DATA = Path(__file__).parent / "data"
OWNER = "the one who asks"

Step = Callable[[TaskUpdater], Any]

_SENDS = {"SendMessage", "SendStreamingMessage"}


def load(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


# -------------------------------------------------------------------------------------------------- what is always so

_EMIT = load("schema/a2a-1.0-emit.schema.json")
_VALIDATORS = {name: Draft202012Validator({**_EMIT, "$ref": f"#/$defs/{name}"}) for name in _EMIT["$defs"]}


def assert_emittable(members: Any, name: str) -> None:
    """Check an output of the server against the schema of what may be sent."""
    faults = [f"{list(fault.absolute_path)}: {fault.message}" for fault in _VALIDATORS[name].iter_errors(members)]
    assert not faults, f"{name}: {faults}"


def assert_error(error: Any, *, rest: bool) -> None:
    """Check the shape of an error: that of JSON-RPC, or google.rpc.Status."""
    kinds = {"code": int, "message": str} | ({"status": str, "details": list} if rest else {"data": list})
    assert set(error) <= set(kinds), error
    assert {"code", "message"} <= set(error), error
    assert all(type(value) is kinds[name] for name, value in error.items()), error
    assert error["message"], error
    for detail in error.get("details" if rest else "data", ()):
        kind = detail["@type"].removeprefix("type.googleapis.com/google.rpc.")
        if kind == "ErrorInfo":
            assert set(detail) <= {"@type", "reason", "domain", "metadata"}, detail
            assert re.fullmatch("[A-Z_]+", detail["reason"]), detail
            assert detail["domain"] == "a2a-protocol.org", detail
            assert all(type(value) is str for value in detail.get("metadata", {}).values()), detail
        else:
            assert kind == "BadRequest", detail
            assert set(detail) == {"@type", "fieldViolations"}, detail
            assert detail["fieldViolations"], detail
            for violation in detail["fieldViolations"]:
                assert set(violation) == {"field", "description"}, violation
                assert violation["description"], violation


# ------------------------------------------------------------------------------------------------------- the examples

_OPERATIONS = load("data/operations.json")
_ROUTES = [
    (verb, re.compile("/rest" + re.sub(r"\\{\w+\\}", "([^/:]+)", re.escape(rest["path"]))), operation["operation"])
    for operation in _OPERATIONS
    for rest in (operation["rest"],)
    for verb in (rest["verb"], *rest["alsoAccept"])
]


@attrs.frozen
class Exchange:
    """One request of an example, and its response.

    Attributes:
        example: The example's id.
        number: Its place in the example.
        request: The request.
        response: The response.
        binding: The example's binding.
        types: The names of the typed objects in the response, by their JSON pointer below it.
    """

    example: str
    number: int
    request: Any
    response: Any
    binding: str
    types: dict[str, str]

    @property
    def id(self) -> str:
        return f"{self.example}#{self.number}"

    @property
    def rest(self) -> bool:
        return self.binding == "HTTP+JSON"

    @property
    def operation(self) -> str | None:
        """What is asked for; None for the card, and for what is no request."""
        if self.rest:
            path = self.request["path"].partition("?")[0]
            found = {name for verb, route, name in _ROUTES if verb == self.request["method"] and route.fullmatch(path)}
            return found.pop()
        body = self.request.get("body")
        return body.get("method") if isinstance(body, dict) else None

    @property
    def params(self) -> Any:
        """The members of the request, without those of the path."""
        body = self.request.get("body", {})
        return body if self.rest else body.get("params", {})

    @property
    def task_id(self) -> str | None:
        """The id of the task that the request names."""
        found = re.match("/rest/tasks/([^/:]+)", self.request["path"])
        if found is not None:
            return found[1]
        params = self.params
        return params.get("taskId") or params.get("id") or params.get("message", {}).get("taskId")

    @property
    def sent(self) -> str:
        """The id of the message that is sent, if the answer may show it; else ""."""
        if self.operation not in _SENDS or self.params.get("configuration", {}).get("historyLength") == 0:
            return ""
        message_id: str = self.params["message"]["messageId"]
        return message_id

    def results(self) -> list[Any]:
        """The bare results that the response shows: one, or the events of a stream; without errors."""
        shown = self.response.get("events", [self.response["body"]] if "body" in self.response else [])
        if self.binding == "JSONRPC":
            return [one["result"] for one in shown if "result" in one]
        return [one for one in shown if "error" not in one]

    def error(self) -> Any:
        """The error that the response shows; None if it shows none."""
        shown = self.response.get("events", [self.response.get("body")])
        return next((one["error"] for one in shown if isinstance(one, dict) and "error" in one), None)

    def error_info(self) -> Any:
        error = self.error() or {}
        for detail in error.get("data", error.get("details", ())):
            if detail["@type"].endswith("ErrorInfo"):
                return {"metadata": {}, **detail}
        return {"reason": None, "metadata": {}}


def exchanges(name: str) -> list[Exchange]:
    """Return the exchanges of an example."""
    document = load(f"examples/{name}.json")
    return [
        Exchange(
            document["id"],
            number,
            one["request"],
            one["response"],
            document["binding"],
            {
                pointer.removeprefix(f"/exchange/{number}/response/"): kind
                for pointer, kind in document["types"].items()
                if pointer.startswith(f"/exchange/{number}/response/")
            },
        )
        for number, one in enumerate(document["exchange"])
    ]


@attrs.frozen(kw_only=True)
class Setting:
    """What an example takes for granted and does not show.

    Attributes:
        capabilities: Capabilities of the card that differ from those of the sample card.
        card: Other members of the card that differ.
        options: Options of the agent.
        tasks: Tasks that are there, beside those that the responses show.
        store: Makes the store.
    """

    capabilities: dict[str, Any] = attrs.field(factory=dict)
    card: dict[str, Any] = attrs.field(factory=dict)
    options: dict[str, Any] = attrs.field(factory=dict)
    tasks: tuple[dict[str, Any], ...] = ()
    store: Callable[[], TaskStore] = InMemoryTaskStore


# ---------------------------------------------------------------------------------------- what there is, and is done


def _presupposed(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """The tasks that must be there for a response to be right."""
    results, info = exchange.results(), exchange.error_info()
    state = info["metadata"].get("state", "TASK_STATE_COMPLETED" if info["reason"] == "TASK_NOT_CANCELABLE" else None)
    if state is not None:
        context_id = exchange.params.get("message", {}).get("contextId", "context")
        yield {"id": exchange.task_id, "contextId": context_id, "status": {"state": state}}
    elif exchange.operation == "GetTask":
        yield from results
    elif exchange.operation == "ListTasks":
        yield from (task for result in results for task in result["tasks"])
    elif exchange.operation == "CancelTask":
        yield from ({**result, "status": {"state": "TASK_STATE_WORKING"}} for result in results)
    elif exchange.operation == "SubscribeToTask":
        yield from (result["task"] for result in results[:1])
    elif results and "PushNotificationConfig" in (exchange.operation or ""):
        yield {"id": exchange.task_id, "contextId": "context", "status": {"state": "TASK_STATE_WORKING"}}


async def _put(store: TaskStore, members: dict[str, Any]) -> None:
    task = from_dict(members, Task)
    await store.commit([TaskChange(task_id=task.id, sequence=1, event=task, snapshot=lambda: task, owner=OWNER)])


def _steps(exchange: Exchange) -> list[Step]:
    """What the agent does in the run that makes this response."""
    steps: list[Step] = []
    for result in exchange.results():
        ((kind, members),) = result.items()
        if kind == "message":
            steps.append(_reply(members))
        elif kind == "artifactUpdate":
            steps.append(_artifact(members["artifact"], members.get("append", False), members.get("lastChunk")))
        else:
            steps += [_artifact(artifact) for artifact in members.get("artifacts", ())]
            steps += _status(members["status"])
    if exchange.response.get("events") and exchange.error() is not None:
        steps.append(lambda updater: updater.complete())  # which the store will not take
    return steps


def _reply(members: Any) -> Step:
    said = _said(members)
    return lambda updater: updater.reply(said)


def _status(members: Any) -> list[Step]:
    status = from_dict(members, TaskStatus)
    if status.state is TaskState.SUBMITTED:
        return []  # every task begins so
    said = None if status.message is None else _said(members["message"])
    return [lambda updater: updater.update_status(status.state, said)]


def _artifact(members: Any, append: bool = False, last_chunk: bool | None = None) -> Step:
    artifact = from_dict(members, Artifact)
    return lambda updater: updater.add_artifact(
        artifact.parts, artifact_id=artifact.artifact_id, name=artifact.name, append=append, last_chunk=last_chunk
    )


def _said(members: Any) -> Message:
    """The agent's message, without the ids of its task and context, which are the server's to give."""
    return attrs.evolve(from_dict(members, Message), task_id="", context_id="")


@attrs.define
class Actor:
    """An agent that does in each run what it was told to do next."""

    scripts: list[list[Step]] = attrs.Factory(list)

    async def execute(self, context: RequestContext, updater: TaskUpdater) -> None:
        for step in self.scripts.pop(0):
            await step(updater)
        if context.configuration.return_immediately:
            await trio.sleep_forever()


# ---------------------------------------------------------------------------------------------------------- comparing

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
# The shapes of what a server makes, by the name of the member.
_MADE = {
    "id": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "taskId": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "contextId": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "nextPageToken": re.compile(r"[\w-]+"),
    "etag": re.compile(r'"[^"]+"'),
}


@attrs.define
class Comparison:
    """Compares what came with what is shown.

    Attributes:
        given: Texts that the client or the store gave, so that they must come back as they are.
        names: Ids of the example to the server's own ids that stand for them.
        sent: The id of a message that was sent. The answer may show it as the task's history although the example
            leaves that out. "" where there is none, or no history was asked for.
    """

    given: set[str] = attrs.Factory(set)
    names: dict[str, str] = attrs.Factory(dict)
    sent: str = ""

    def give(self, value: Any) -> None:
        """Remember the texts in a value."""
        if isinstance(value, dict | list):
            for one in value.values() if isinstance(value, dict) else value:
                self.give(one)
        elif isinstance(value, str):
            self.given.add(value)

    def translated(self, value: Any) -> Any:
        """Return a part of a request with the server's own ids."""
        if isinstance(value, dict):
            return {name: self.translated(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.translated(one) for one in value]
        if isinstance(value, str):
            for theirs, ours in self.names.items():
                value = value.replace(theirs, ours)
        return value

    def same(self, expected: Any, actual: Any, place: str = "", name: str = "") -> None:
        """Check one value, and everything in it.

        Args:
            expected: What is shown.
            actual: What came.
            place: Where it is, for people.
            name: The name of the member.
        """
        if isinstance(expected, dict):
            assert isinstance(actual, dict), f"{place}: {actual!r}"
            if "error" in expected:
                assert "error" in actual, f"{place}: {actual!r}"
                self._same_error(expected["error"], actual["error"], place)
                expected = {**expected, "error": None}
                actual = {**actual, "error": None}
            missing, extra = set(expected) - set(actual), set(actual) - set(expected)
            assert not missing, f"{place} lacks {missing}"
            if extra == {"history"} and self.sent:
                assert [message["messageId"] for message in actual["history"]] == [self.sent], f"{place}: {actual}"
            else:
                assert not extra, f"{place} has {extra} besides: {actual}"
            for key, value in expected.items():
                self.same(value, actual[key], f"{place}.{key}", key)
        elif isinstance(expected, list):
            assert isinstance(actual, list), f"{place}: {actual!r}"
            assert len(expected) == len(actual), f"{place}: {actual!r}"
            for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
                self.same(one, other, f"{place}[{index}]", name)
        elif name == "timestamp" and expected not in self.given:
            assert _TIME.fullmatch(actual), f"{place}: {actual!r}"
        else:
            if name in _MADE and isinstance(expected, str) and expected not in {*self.given, *self.names, actual}:
                assert _MADE[name].fullmatch(actual), f"{place}: {actual!r}"
                assert actual not in self.names.values(), f"{place}: {actual!r} stands for two ids of the example"
                self.names[expected] = actual
            expected = self.names.get(expected, expected) if isinstance(expected, str) else expected
            assert type(expected) is type(actual), f"{place}: {actual!r} instead of {expected!r}"
            assert expected == actual, f"{place}: {actual!r} instead of {expected!r}"

    def _same_error(self, expected: Any, actual: Any, place: str) -> None:
        rest = "status" in expected
        assert_error(actual, rest=rest)
        assert actual["code"] == expected["code"], f"{place}: {actual}"
        assert actual.get("status") == expected.get("status"), f"{place}: {actual}"
        name = "details" if rest else "data"
        details = {detail["@type"]: detail for detail in actual.get(name, ())}
        for detail in expected.get(name, ()):
            other = details.get(detail["@type"])
            assert other is not None, f"{place}: {actual}"
            for key in ("reason", "domain"):
                assert other.get(key) == detail.get(key), f"{place}: {other}"
            for key, value in detail.get("metadata", {}).items():
                assert other["metadata"][key] == self.names.get(value, value), f"{place}: {other}"
            assert _fields(other) == _fields(detail), f"{place}: {other}"


def _fields(detail: Any) -> list[str]:
    return sorted(violation["field"] for violation in detail.get("fieldViolations", ()))


# ----------------------------------------------------------------------------------------------------------- replaying


def _app(exchange: Exchange, setting: Setting, agent: Any) -> A2AApp:
    """The application of the examples, at their URLs."""
    # Its own card where an example shows it; the sample card elsewhere.
    shown = exchange if exchange.binding == "agent-card" else exchanges("60-agent-card-well-known")[0]
    card = {**shown.response["body"], **setting.card}
    card["capabilities"] = {**card["capabilities"], **setting.capabilities}
    declared = card["capabilities"]
    extended = load("examples/12-jsonrpc-extended-card.json")["exchange"][0]["response"]["body"]["result"]
    options = {
        "store": setting.store(),
        "authenticator": BearerTokenAuthenticator({"example-token": OWNER}),
        "push": InMemoryPushConfigStore() if declared.get("pushNotifications") else None,
        "extended_card": from_dict(extended, AgentCard) if declared.get("extendedAgentCard") else None,
        **setting.options,
    }
    return make_app(
        agent,
        card=from_dict(card, AgentCard),
        app_options={"rpc_path": "/a2a", "rest_path": "/rest", "url": "https://ferry.example.com"},
        **options,
    )


@asynccontextmanager
async def _open(exchange: Exchange, setting: Setting) -> AsyncIterator["Replayer"]:
    actor = Actor()
    app = _app(exchange, setting, actor)
    async with app.running(), trio.open_nursery() as nursery:
        yield Replayer(app, actor, Peer(app, nursery))
        nursery.cancel_scope.cancel()


async def replay(shown: list[Exchange], setting: Setting) -> None:
    """Replay exchanges, one after the other, against one application."""
    async with _open(shown[0], setting) as replayer:
        for members in setting.tasks:
            await replayer.store(members)
        for exchange in shown:
            for members in _presupposed(exchange):
                await replayer.store(members)
        for exchange in shown:
            await replayer.replay(exchange)


@attrs.define
class Replayer:
    """Replays exchanges against one application."""

    app: A2AApp
    actor: Actor
    peer: Peer
    comparison: Comparison = attrs.Factory(Comparison)
    stored: set[str] = attrs.Factory(set)

    async def store(self, members: dict[str, Any]) -> None:
        """See that a task is there."""
        if members["id"] not in self.stored:
            self.stored.add(members["id"])
            self.comparison.give(members)
            await _put(self.app.agent.store, members)

    async def replay(self, exchange: Exchange) -> None:
        """Send one request, and compare what comes."""
        comparison = self.comparison
        request = comparison.translated(exchange.request)
        comparison.give({**request, "path": re.split(r"[/:?=&]", request["path"])})
        comparison.sent = exchange.sent
        if exchange.operation in _SENDS:
            self.actor.scripts.append(_steps(exchange))
        text = json.dumps(request["body"]) if "body" in request else request.get("rawBody", "")
        headers = {name.lower(): value for name, value in request["headers"].items()}
        wire = self.peer.connect()
        await wire.stream.send_all(request_bytes(request["method"], request["path"], headers, text.encode()))
        stream = EventStream(wire, *await wire.head())
        self._check_head(exchange, stream)
        if "events" in exchange.response:
            frames = await self._frames(exchange, stream)
            self._check_frames(exchange, frames)
        elif exchange.response["status"] == 304:
            assert "content-length" not in stream.headers
        else:
            self._check_body(exchange, (await stream.reply()).json)
        await trio.aclose_forcefully(wire.stream)

    # ------------------------------------------------------------------------------------------------------- checking

    def _check_head(self, exchange: Exchange, stream: EventStream) -> None:
        assert stream.status == exchange.response["status"]
        for name, expected in exchange.response["headers"].items():
            actual = stream.headers[name.lower()]
            if name == "Content-Type":
                assert actual.partition(";")[0] == expected
            elif name == "WWW-Authenticate":
                assert actual.partition(" ")[0] == expected.partition(" ")[0]
            else:
                self.comparison.same(expected, actual, name, name.lower())

    def _check_body(self, exchange: Exchange, body: Any) -> None:
        self.comparison.same(_without_defaults(exchange.response["body"]), body)
        self._check_types(exchange, body)

    def _check_types(self, exchange: Exchange, body: Any) -> None:
        """Check a whole answer against the schema; one without a type is an error, or empty."""
        result = body.get("result", body)
        names = {kind for pointer, kind in exchange.types.items() if pointer in {"body", "body/result"}}
        if names and "error" not in body:
            assert_emittable(result, *names)
        else:
            assert "error" in body or result == {}, body

    def _check_frames(self, exchange: Exchange, frames: list[Frame]) -> None:
        expected = _frames_shown(exchange)
        assert [frame.event for frame in frames] == [frame.event for frame in expected]
        self.comparison.same([frame.data for frame in expected], [frame.data for frame in frames], "events")
        for frame in frames:
            if "error" in frame.data:
                assert frame.id is None
                continue
            assert_emittable(frame.data["result"] if exchange.binding == "JSONRPC" else frame.data, "StreamResponse")

    # --------------------------------------------------------------------------------------------------------- streams

    async def _frames(self, exchange: Exchange, stream: EventStream) -> list[Frame]:
        """Read a stream to its end; that of a subscription goes on while somebody else moves the task on."""
        if exchange.operation != "SubscribeToTask":
            return await stream.frames()
        first = await stream.frame()
        assert first is not None
        status = exchange.results()[0]["task"]["status"]["state"]
        steps = _steps(exchange)[1:]  # the first one is what is stored
        async with trio.open_nursery() as nursery:
            if status == "TASK_STATE_INPUT_REQUIRED":
                self.actor.scripts.append(steps)
                nursery.start_soon(self._answer, exchange)
            else:
                nursery.start_soon(self._report, exchange, steps)
            return [first, *await stream.frames()]

    async def _answer(self, exchange: Exchange) -> None:
        said = {"messageId": "answer", "role": "ROLE_USER", "parts": [{"text": "Cars"}], "taskId": exchange.task_id}
        headers = {"authorization": "Bearer example-token", "a2a-version": "1.0", "content-type": "application/json"}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}).encode()
        reply: Reply = await self.peer.http("POST", "/a2a", headers, body)
        assert reply.status == 200

    async def _report(self, exchange: Exchange, steps: list[Step]) -> None:
        updater = self.app.updater(exchange.task_id or "")
        for step in steps:
            await step(updater)


def _frames_shown(exchange: Exchange) -> list[Frame]:
    """The frames of a stream as it should come: those of the raw text where there is one."""
    events = exchange.response["events"]
    frames = [Frame(event) for event in events]
    if "raw" in exchange.response:
        frames = [parse_block(block) for block in exchange.response["raw"].split("\n\n")[:-1]]
        assert [frame.data for frame in frames] == events
    elif exchange.rest:
        frames = [attrs.evolve(frame, event="error") if "error" in frame.data else frame for frame in frames]
    if exchange.operation == "SendStreamingMessage":
        frames[:1] = _begun(frames[0])
    return frames


def _begun(frame: Frame) -> list[Frame]:
    """The first frame of a sent message's stream as an agent of this package makes it: see the module."""
    result = frame.data.get("result", frame.data)
    if "task" not in result or result["task"]["status"]["state"] == "TASK_STATE_SUBMITTED":
        return [frame]
    task = result["task"]
    submitted = {**task["status"], "state": "TASK_STATE_SUBMITTED"}
    update = {"taskId": task["id"], "contextId": task["contextId"], "status": task["status"]}
    first, second = {"task": {**task, "status": submitted}}, {"statusUpdate": update}
    if "result" not in frame.data:
        return [Frame(first), Frame(second)]
    return [Frame({**frame.data, "result": first}), Frame({**frame.data, "result": second})]


def _without_defaults(node: Any) -> Any:
    """The sample cards spell one default out: ``"required": false`` of an extension."""
    if isinstance(node, list):
        return [_without_defaults(item) for item in node]
    if isinstance(node, dict):
        return {k: _without_defaults(v) for k, v in node.items() if (k, v) != ("required", False)}
    return node
