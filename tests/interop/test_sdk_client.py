"""The asyncio SDK's client against our server: each is a program of its own, over real sockets."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.deadline import within

ROOT = Path(__file__).parents[2]
ECHO = ROOT / "docs" / "examples" / "echo_agent.py"
CLIENT = Path(__file__).with_name("sdk_client.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("a2a") is None, reason="the package a2a-sdk is not installed (extra: dev)"
)

over_both_bindings = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])


@asynccontextmanager
async def echo_agent():
    """The example, as a program; yields its URL and its process."""
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(
                trio.run_process,
                [sys.executable, ECHO, "--port", "0"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=ENVIRONMENT,
                check=False,
            )
        )
        yield await line(process.stdout), process
        nursery.cancel_scope.cancel()


async def line(stream):
    text = b""
    while not text.endswith(b"\n"):
        data = await stream.receive_some()
        assert data, f"the program has ended: {text!r}"
        text += data
    return text.decode().strip()


async def drive(url, binding):
    done = await trio.run_process(
        [sys.executable, CLIENT, url, binding], capture_stdout=True, capture_stderr=True, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def says(events):
    """Name what events say: the state of a status, or the kind of another."""
    names = []
    for event in events:
        ((kind, value),) = event.items()
        status = value.get("status")
        names.append(status["state"].removeprefix("TASK_STATE_") if status else kind)
    return names


def texts(parts):
    return [part.get("text", "") for part in parts]


@needs_sdk
@pytest.mark.requirement("S7-PEERS")
@over_both_bindings
@within(60)
async def test_the_asyncio_sdk_s_client_goes_through_all_operations_against_the_echo_agent(binding):
    async with echo_agent() as (url, _):
        results = await drive(url, binding)

    assert results["card"]["name"] == "Echo"
    assert results["card"]["capabilities"]["streaming"] is True
    assert results["card"]["supportedInterfaces"][0]["url"] == url

    sent = results["sent"]["task"]
    assert sent["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(sent["artifacts"][0]["parts"]) == ["hello", "from", "the", "asyncio", "SDK"]
    assert [texts(message["parts"]) for message in sent["history"]] == [
        ["hello from the asyncio SDK"],
        ["Thinking about it."],
    ]
    assert results["got"] == {**sent, "history": sent["history"][-1:]}

    streamed = results["streamed"]
    updates = ["artifactUpdate"] * 3
    assert says(streamed) == ["SUBMITTED", "WORKING", *updates, "COMPLETED"]
    assert streamed[4]["artifactUpdate"]["lastChunk"] is True

    assert results["asked"]["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert says(results["answered"]) == ["INPUT_REQUIRED", "WORKING", *updates, "COMPLETED"]

    live = results["live"]
    assert says(live["sent"])[0] == "SUBMITTED"
    assert says(live["sent"])[-1] == says(live["joined"])[-1] == "CANCELED"
    assert set(live["joined"][0]) == {"task"}
    assert live["joined"][0]["task"]["id"] == live["live"]["id"] == live["canceled"]["id"] == live["id"]
    assert live["canceled"]["status"]["state"] == "TASK_STATE_CANCELED"


@needs_sdk
@pytest.mark.requirement("S7-PEERS")
@over_both_bindings
@within(60)
async def test_our_errors_are_the_asyncio_sdk_s_errors(binding):
    async with echo_agent() as (url, _):
        errors = (await drive(url, binding))["errors"]
    assert {name: error["error"] for name, error in errors.items()} == {
        "get unknown": "TaskNotFoundError",
        "cancel unknown": "TaskNotFoundError",
        "cancel done": "TaskNotCancelableError",
        "subscribe unknown": "TaskNotFoundError",
        "subscribe done": "UnsupportedOperationError",
        "send to done": "UnsupportedOperationError",
        "stream to unknown": "TaskNotFoundError",
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@within(60)
async def test_the_echo_agent_ends_cleanly_when_it_is_told_to(number):
    async with echo_agent() as (url, process):
        assert url.startswith("http://127.0.0.1:")
        process.send_signal(number)
        assert await process.wait() == 0
        errors = b""
        while data := await process.stderr.receive_some():
            errors += data
        assert errors == b""


@within(60)
async def test_the_echo_agent_says_when_its_port_is_taken():
    async with echo_agent() as (url, _):
        done = await trio.run_process(
            [sys.executable, ECHO, "--port", url.rpartition(":")[2]],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=ENVIRONMENT,
        )
    assert done.returncode != 0
    assert b"in use" in done.stderr
