"""The asyncio SDK's own client, driven over one binding: a program of its own, with an event loop of its own.

    python sdk_client.py URL JSONRPC|HTTP+JSON

It resolves the card at the URL, makes the client that the card calls for, goes through the operations, and prints one
JSON object with what each step brought. Values are the SDK's own messages, in their JSON form.
"""

import asyncio
import json
import sys
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from google.protobuf.json_format import MessageToDict


def request(text, **ids):
    message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], **ids)
    return SendMessageRequest(message=message)


async def collect(stream):
    return [MessageToDict(event) async for event in stream]


async def refusal(call):
    try:
        await call
    except Exception as exc:
        return {"error": type(exc).__name__, "message": str(exc)}
    return {"error": None}


async def resubscribe(client):
    """Begin a task, join it as it goes on, and cancel it; return what both readers saw."""
    sent, task_id = [], asyncio.get_running_loop().create_future()

    async def send():
        async for event in client.send_message(request("slow work")):
            sent.append(MessageToDict(event))
            if event.HasField("task") and not task_id.done():
                task_id.set_result(event.task.id)

    sending = asyncio.create_task(send())
    id_ = await task_id
    stream = aiter(client.subscribe(SubscribeToTaskRequest(id=id_)))
    joined = [MessageToDict(await anext(stream))]
    live = MessageToDict(await client.get_task(GetTaskRequest(id=id_)))
    canceled = MessageToDict(await client.cancel_task(CancelTaskRequest(id=id_)))
    joined += [MessageToDict(event) async for event in stream]
    await sending
    return {"id": id_, "sent": sent, "joined": joined, "live": live, "canceled": canceled}


async def main(url, binding):
    async with httpx.AsyncClient(timeout=10) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        results = {"card": MessageToDict(card)}
        options = {"httpx_client": http, "supported_protocol_bindings": [binding]}
        streaming = ClientFactory(ClientConfig(**options)).create(card)
        blocking = ClientFactory(ClientConfig(**options, streaming=False)).create(card)

        (sent,) = await collect(blocking.send_message(request("hello from the asyncio SDK")))
        results["sent"] = sent
        results["streamed"] = await collect(streaming.send_message(request("one two")))

        (asked,) = await collect(blocking.send_message(request("ask me")))
        ids = {"task_id": asked["task"]["id"], "context_id": asked["task"]["contextId"]}
        results["asked"] = asked
        results["answered"] = await collect(streaming.send_message(request("the answer", **ids)))

        results["live"] = await resubscribe(streaming)
        done = sent["task"]["id"]
        results["got"] = MessageToDict(await blocking.get_task(GetTaskRequest(id=done, history_length=1)))
        unknown = str(uuid4())
        results["errors"] = {
            "get unknown": await refusal(blocking.get_task(GetTaskRequest(id=unknown))),
            "cancel unknown": await refusal(blocking.cancel_task(CancelTaskRequest(id=unknown))),
            "cancel done": await refusal(blocking.cancel_task(CancelTaskRequest(id=done))),
            "subscribe unknown": await refusal(collect(streaming.subscribe(SubscribeToTaskRequest(id=unknown)))),
            "subscribe done": await refusal(collect(streaming.subscribe(SubscribeToTaskRequest(id=done)))),
            "send to done": await refusal(collect(blocking.send_message(request("x", task_id=done)))),
            "stream to unknown": await refusal(collect(streaming.send_message(request("x", task_id=unknown)))),
        }
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
