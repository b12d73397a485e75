"""The asyncio SDK's own client, driven against `peer_agent`: a program of its own, with an event loop of its own.

    python sdk_peer.py

It reads one JSON object from its input: the URLs of the agents, the binding to use, and what to say (parts, metadata,
a context). It goes through the operations, and prints one JSON object with what each step brought. Values are the SDK's
own messages, in their JSON form.
"""

import asyncio
import json
import sys
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.transports.http_helpers import send_http_request
from a2a.types import (
    AgentCard,
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from google.protobuf.json_format import MessageToDict, ParseDict


class Tap(httpx.AsyncHTTPTransport):
    """A transport that keeps the bytes of streams, and says when two comments in a row have come."""

    def __init__(self):
        super().__init__()
        self.text = b""
        self.quiet = asyncio.Event()

    async def handle_async_request(self, request):
        response = await super().handle_async_request(request)
        if "text/event-stream" in response.headers.get("content-type", ""):
            response.stream = Tapped(response.stream, self)
        return response


class Tapped(httpx.AsyncByteStream):
    def __init__(self, stream, tap):
        self._stream = stream
        self._tap = tap

    async def __aiter__(self):
        async for chunk in self._stream:
            self._tap.text += chunk
            yield chunk
            if self._tap.text.count(b": keep-alive\n\n") >= 2:
                self._tap.quiet.set()

    async def aclose(self):
        await self._stream.aclose()


async def collect(stream):
    return [MessageToDict(event) async for event in stream]


async def refusal(call):
    try:
        await call
    except Exception as exc:
        return {"error": type(exc).__name__, "message": str(exc), "data": getattr(exc, "data", None)}
    return {"error": None}


class Session:
    """The clients of one binding, and what is said to the agents."""

    def __init__(self, given, http, tap):
        self.given = given
        self.binding = given["binding"]
        self.http = http
        self.tap = tap
        self.cards = {}

    async def resolve(self):
        for name, url in self.given["urls"].items():
            self.cards[name] = await A2ACardResolver(self.http, url).get_agent_card()

    def client(self, name="full", **options):
        config = ClientConfig(httpx_client=self.http, supported_protocol_bindings=[self.binding], **options)
        return ClientFactory(config).create(self.cards[name])

    def believing(self, name):
        """A client that takes the agent for capable, so that it is the agent that refuses."""
        card = AgentCard()
        card.CopyFrom(self.cards[name])
        card.capabilities.streaming = card.capabilities.extended_agent_card = True
        config = ClientConfig(httpx_client=self.http, supported_protocol_bindings=[self.binding])
        return ClientFactory(config).create(card)

    def request(self, order, *, said=False, tenant="", parts=(), **members):
        parts = [Part(text=order), *parts]
        if said:
            parts += [ParseDict(part, Part()) for part in self.given["parts"]]
            members["metadata"] = self.given["metadata"]
        message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=parts, **members)
        return SendMessageRequest(message=message, tenant=tenant)

    async def send(self, order, client=None, context=None, **options):
        client = client or self.client(streaming=False)
        (event,) = await collect(client.send_message(self.request(order, **options), context=context))
        return event

    async def stream(self, order, client=None, **options):
        return await collect((client or self.client()).send_message(self.request(order, **options)))


async def quiet(session):
    """Read a stream that is silent for a while."""
    context = str(uuid4())
    session.tap.text = b""
    reading = asyncio.create_task(session.stream("hold", context_id=context))
    await session.tap.quiet.wait()
    released = await session.send("release", context_id=context)
    return {"events": await reading, "released": released, "text": session.tap.text.decode()}


async def large(session):
    """Send and stream much, and compare what is said back here."""
    parts = [
        Part(text="long \u2028 " * 100_000),
        Part(raw=bytes(range(256)) * 4000),
        ParseDict({"data": {f"key {number}": [number, None, str(number)] for number in range(10_000)}}, Part()),
    ]
    (sent,) = [
        event async for event in session.client(streaming=False).send_message(session.request("echo", parts=parts))
    ]
    streamed = [event async for event in session.client().send_message(session.request("echo", parts=parts))]
    return [
        list(sent.task.artifacts[0].parts) == parts,
        list(sent.task.history[0].parts)[1:] == parts,
        list(streamed[0].task.history[0].parts)[1:] == parts,
        list(streamed[1].status_update.status.message.parts) == parts,
        list(streamed[2].artifact_update.artifact.parts) == parts,
    ]


async def polled(session):
    """Send without waiting, look at the task, join it, and let it go on."""
    context = str(uuid4())
    sent = await session.send("hold", session.client(streaming=False, polling=True), context_id=context)
    task_id = sent["task"]["id"]
    stream = aiter(session.client().subscribe(SubscribeToTaskRequest(id=task_id)))
    joined = [MessageToDict(await anext(stream))]
    await session.send("release", context_id=context)
    joined += [MessageToDict(event) async for event in stream]
    return {"sent": sent, "joined": joined}


async def cancelled(session):
    client = session.client(streaming=False, polling=True)
    sent = await session.send("hold", client)
    task_id = sent["task"]["id"]
    return {"sent": sent, "canceled": MessageToDict(await client.cancel_task(CancelTaskRequest(id=task_id)))}


async def conversation(session):
    """Ask, be asked, and answer."""
    asked = await session.send("ask")
    task = asked["task"]
    again = await session.send("ask", task_id=task["id"])
    answered = await session.stream("echo", task_id=task["id"], context_id=task["contextId"])
    return {"asked": asked, "again": again, "answered": answered}


async def listed(session):
    """List the tasks of a context page by page, and with filters."""
    context = session.given["context"] + str(uuid4())
    made = [(await session.send("echo", context_id=context))["task"]["id"] for _ in range(5)]
    made.append((await session.send("ask", context_id=context))["task"]["id"])
    client = session.client()
    pages, token = [], ""
    while not pages or token:
        page = await client.list_tasks(ListTasksRequest(context_id=context, page_size=4, page_token=token))
        token = page.next_page_token
        pages.append(MessageToDict(page, always_print_fields_with_no_presence=True))
    waiting = await client.list_tasks(
        ListTasksRequest(context_id=context, status=TaskState.TASK_STATE_INPUT_REQUIRED, history_length=1)
    )
    whole = await client.list_tasks(ListTasksRequest(context_id=context, include_artifacts=True, history_length=5))
    newest = ListTasksRequest(context_id=context)
    newest.status_timestamp_after.CopyFrom(whole.tasks[0].status.timestamp)
    return {
        "context": context,
        "made": made,
        "pages": pages,
        "waiting": MessageToDict(waiting),
        "whole": MessageToDict(whole),
        "newest": MessageToDict(await client.list_tasks(newest)),
    }


async def webhooks(session):
    """Keep push configurations."""
    hook = TaskPushNotificationConfig(
        id="hook:1 ü",
        url="https://example.com/hook?x=1",
        token="secret",
        authentication=AuthenticationInfo(scheme="Bearer", credentials="secret"),
    )
    client = session.client(streaming=False, push_notification_config=hook)
    task_id = (await session.send("echo", client))["task"]["id"]
    second = await client.create_task_push_notification_config(
        TaskPushNotificationConfig(task_id=task_id, url="https://example.com/second")
    )
    listed = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task_id))
    page = await client.list_task_push_notification_configs(
        ListTaskPushNotificationConfigsRequest(task_id=task_id, page_size=1)
    )
    rest = await client.list_task_push_notification_configs(
        ListTaskPushNotificationConfigsRequest(task_id=task_id, page_size=1, page_token=page.next_page_token)
    )
    got = await client.get_task_push_notification_config(
        GetTaskPushNotificationConfigRequest(task_id=task_id, id=hook.id)
    )
    for _ in range(2):
        await client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=hook.id)
        )
    left = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task_id))
    gone = await refusal(
        client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(task_id=task_id, id=hook.id))
    )
    return {
        "task": task_id,
        "second": MessageToDict(second),
        "listed": MessageToDict(listed),
        "pages": [MessageToDict(page), MessageToDict(rest)],
        "got": MessageToDict(got),
        "left": MessageToDict(left),
        "gone": gone,
    }


async def cards(session):
    """Fetch the extended card, and what there is in place of one."""
    client = session.client()
    extended = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
    return {
        "cards": {name: MessageToDict(card) for name, card in session.cards.items()},
        "extended": MessageToDict(extended),
    }


async def errors(session):
    """Bring about every error that there is a way to bring about."""
    full, bare, strict = session.client(), session.believing("bare"), session.believing("strict")
    blocking = session.client(streaming=False)
    done = (await session.send("echo"))["task"]["id"]
    unknown = str(uuid4())
    activated = ClientCallContext(service_parameters={"A2A-Extensions": "urn:example:strict"})
    other_version = ClientCallContext(service_parameters={"A2A-Version": "99.0"})
    picture = Part(raw=b"x", media_type="image/png")
    hook = TaskPushNotificationConfig(task_id=done, url="https://example.com/")
    found = {
        "get unknown": full.get_task(GetTaskRequest(id=unknown)),
        "cancel unknown": full.cancel_task(CancelTaskRequest(id=unknown)),
        "subscribe to unknown": collect(full.subscribe(SubscribeToTaskRequest(id=unknown))),
        "send to unknown": session.send("echo", task_id=unknown),
        "stream to unknown": session.stream("echo", task_id=unknown),
        "cancel done": full.cancel_task(CancelTaskRequest(id=done)),
        "subscribe to done": collect(full.subscribe(SubscribeToTaskRequest(id=done))),
        "send to done": session.send("echo", task_id=done),
        "stream to done": session.stream("echo", task_id=done),
        "send a picture": session.send("echo", parts=[picture]),
        "stream a picture": session.stream("echo", parts=[picture]),
        "send without an answer": session.send("nothing"),
        "stream without an answer": session.stream("nothing"),
        "push where there is none": bare.create_task_push_notification_config(hook),
        "stream where there is none": session.stream("echo", bare),
        "subscribe where there is none": collect(bare.subscribe(SubscribeToTaskRequest(id=unknown))),
        "extended card where there is none": bare.get_extended_agent_card(GetExtendedAgentCardRequest()),
        "extended card for nobody": strict.get_extended_agent_card(GetExtendedAgentCardRequest(), context=activated),
        "send without the extension": session.send("echo", session.client("strict", streaming=False)),
        "stream without the extension": session.stream("echo", strict),
        "send in another version": session.send("echo", blocking, context=other_version),
        "get in another version": full.get_task(GetTaskRequest(id=done), context=other_version),
        "send nothing": collect(blocking.send_message(SendMessageRequest())),
        "stream nothing": collect(full.send_message(SendMessageRequest())),
        "list too much": full.list_tasks(ListTasksRequest(page_size=1000)),
        "list with a bad token": full.list_tasks(ListTasksRequest(page_token="bad")),
        "get with a negative length": full.get_task(GetTaskRequest(id=done, history_length=-1)),
        "call an unknown method": call_unknown(session, full),
    }
    if session.binding == "JSONRPC":
        found["send what is no JSON"] = send_raw(session, full, b"{")
        found["send what is no request"] = send_raw(session, full, b"[]")
    return {name: await refusal(call) for name, call in found.items()}


async def call_unknown(session, client):
    transport = client._transport
    if session.binding == "JSONRPC":
        await transport._send_request({"jsonrpc": "2.0", "id": "1", "method": "NoSuchMethod", "params": {}})
    else:
        await transport._execute_request("GET", "/no/such/route/here", "")


async def send_raw(session, client, content):
    transport = client._transport
    headers = {"content-type": "application/json"}
    request = session.http.build_request("POST", transport.url, content=content, headers=headers)
    transport._check_jsonrpc_response(await send_http_request(session.http, request))


async def refused(session):
    """Let the agent refuse with each class of error, with and without a stream."""
    return {
        name: [await refusal(session.send(f"refuse {name}")), await refusal(session.stream(f"refuse {name}"))]
        for name in session.given["classes"]
    }


async def lost(session):
    """Read a stream whose next event cannot be stored."""
    events = []

    async def read():
        async for event in session.client().send_message(session.request("lose")):
            events.append(MessageToDict(event))  # noqa: PERF401 - kept though an error ends it

    return {"refusal": await refusal(read()), "events": events}


async def main():
    given = json.load(sys.stdin)
    tap = Tap()
    async with httpx.AsyncClient(timeout=20, transport=tap) as http:
        session = Session(given, http, tap)
        await session.resolve()
        results = {
            "sent": await session.send("echo", said=True),
            "streamed": await session.stream("echo", said=True),
            "replied": [await session.send("reply", said=True), *(await session.stream("reply", said=True))],
            "tenant": await session.send("echo", tenant="a tenant"),
            "activated": await session.send(
                "echo",
                session.client("strict", streaming=False),
                context=ClientCallContext(service_parameters={"A2A-Extensions": "urn:example:strict"}),
            ),
            "failed": [await session.send("fail"), *(await session.stream("fail"))[-1:]],
        }
        done = results["sent"]["task"]["id"]
        client = session.client()
        for length in (None, 0, 1):
            asked = {} if length is None else {"history_length": length}
            results[f"got {length}"] = MessageToDict(await client.get_task(GetTaskRequest(id=done, **asked)))
        for step in (large, quiet, polled, cancelled, conversation, listed, webhooks, cards, errors, refused, lost):
            results[step.__name__] = await step(session)
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    asyncio.run(main())
