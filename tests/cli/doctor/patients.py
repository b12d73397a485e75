"""Agents to examine, and the examination as a test sees it."""

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tests.client.peers import Request, answer_json, card_json, http, sse
from trio_a2a.cli.doctor import examine
from trio_a2a.cli.output import Output
from trio_a2a.cli.redaction import Redaction
from trio_a2a.cli.session import Connection, Session

__all__ = ["Findings", "Patient", "examined"]


@attrs.frozen
class Findings:
    """What was found.

    Attributes:
        status: The exit status.
        lines: The findings, as scripts get them.
    """

    status: int
    lines: list[dict[str, Any]]

    def of(self, severity: str) -> list[tuple[str, str, str]]:
        """Those of a severity: area, check and text."""
        return [(f["area"], f["check"], f["text"]) for f in self.lines if f["severity"] == severity]

    def severity(self, check: str, area: str = "JSONRPC") -> str:
        """The worst severity among the findings of a check."""
        order = ["ok", "info", "warning", "error"]
        found = [f["severity"] for f in self.lines if (f["area"], f["check"]) == (area, check)]
        return max(found, key=order.index) if found else "none"


async def examined(
    capsys: pytest.CaptureFixture[str],
    url: str,
    *,
    send: bool = True,
    strict: bool = False,
    wait: float = 5.0,
    **connection: Any,
) -> Findings:
    """Examine an agent."""
    session = Session(connection=Connection(**connection), output=Output(as_json=True, redaction=Redaction(["t0ken"])))
    status = await examine(session, url=url, send=send, strict=strict, wait=wait)
    *lines, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert sum(summary["summary"].values()) == len(lines)
    return Findings(status, lines)


_ERRORS = {
    "unknown": (-32601, "METHOD_NOT_FOUND"),
    "task": (-32001, "TASK_NOT_FOUND"),
    "version": (-32009, "VERSION_NOT_SUPPORTED"),
    "parse": (-32700, "JSON_PARSE"),
    "request": (-32600, "INVALID_REQUEST"),
    "params": (-32602, "INVALID_PARAMS"),
    "unsupported": (-32004, "UNSUPPORTED_OPERATION"),
    "push": (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "cancel": (-32002, "TASK_NOT_CANCELABLE"),
}


def _error(name: str) -> dict[str, Any]:
    code, reason = _ERRORS[name]
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "a2a-protocol.org"}
    return {"code": code, "message": name, "data": [info]}


TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
WORKING = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
COMPLETED = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}


@attrs.define
class Patient:
    """A JSON-RPC agent that is well, but for what a test changes.

    Attributes:
        card: Members of its card that differ.
        card_answer: Makes the answer with its card.
        errors: The error of each kind of request, by its name.
        spoil: Changes each document of an answer.
        status: The HTTP status of answers.
        events: The stream that answers a message.
        ids: The ids of its events.
        ended: The stream ends.
        answers: What else stands in the answer of a method, such as its result.
    """

    card: dict[str, Any] = attrs.Factory(dict)
    card_answer: Callable[[Request, dict[str, Any]], bytes] | None = None
    errors: dict[str, Any] = attrs.Factory(dict)
    spoil: Callable[[dict[str, Any]], Any] = lambda document: document
    status: int = 200
    events: list[Any] = attrs.Factory(lambda: [WORKING, COMPLETED])
    ids: list[int] | None = attrs.Factory(lambda: [1, 2])
    ended: bool = True
    answers: dict[str, dict[str, Any]] = attrs.Factory(dict)

    def __call__(self, request: Request) -> Any:
        if request.method == "GET":
            return self._card(request)
        try:
            document = request.json
        except json.JSONDecodeError:
            return self._answer(None, error="parse")
        method = document.get("method")
        params = document.get("params", {})
        id_ = document.get("id")
        if request.headers.get("a2a-version") != "1.0":
            return self._answer(id_, error="version")
        if method is None:
            return self._answer(id_, error="request")
        if method in self.answers:
            return answer_json(self.spoil({"jsonrpc": "2.0", "id": id_, **self.answers[method]}), self.status)
        if method == "SendStreamingMessage":
            frames = [self.spoil({"jsonrpc": "2.0", "id": id_, "result": event}) for event in self.events]
            return sse(*frames, ids=self.ids, end=self.ended)
        if method == "ListTasks":
            return self._answer(id_, {"tasks": [TASK], "nextPageToken": "", "pageSize": 1, "totalSize": 1})
        if method == "GetExtendedAgentCard":
            return self._answer(id_, error="unsupported")
        if "PushNotification" in method:
            return self._answer(id_, error="push")
        if method not in {"GetTask", "CancelTask", "SubscribeToTask"}:
            return self._answer(id_, error="unknown")
        if "id" not in params:
            return self._answer(id_, error="params")
        if params["id"] != "t":
            return self._answer(id_, error="task")
        if method == "GetTask":
            return self._answer(id_, TASK)
        return self._answer(id_, error="cancel" if method == "CancelTask" else "unsupported")

    def _card(self, request: Request) -> bytes:
        skill = {"id": "s", "name": "Skill", "description": "Does it.", "tags": ["x"]}
        card = card_json(f"http://{request.headers['host']}/", skills=[skill], capabilities={"streaming": True})
        card |= self.card
        if self.card_answer is not None:
            return self.card_answer(request, card)
        if request.headers.get("if-none-match") == '"1"':
            return http(304)
        return answer_json(card, cache_control="max-age=60", etag='"1"')

    def _answer(self, id_: Any, result: Any = None, *, error: str | None = None) -> bytes:
        document: dict[str, Any] = {"jsonrpc": "2.0", "id": id_}
        if error is None:
            document["result"] = result
        else:
            document["error"] = self.errors.get(error, _error(error))
        return answer_json(self.spoil(document), self.status)
