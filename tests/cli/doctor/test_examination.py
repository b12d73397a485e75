"""`trio-a2a doctor` with agents that are well: ours, and those of the asyncio SDK."""

import re

import attrs
import pytest
import trio

import trio_a2a
from tests.cli.agents import TOKEN
from tests.cli.program import run, run_json
from tests.client.peers import open_agent, open_raw
from tests.client.test_sdk_server import open_server
from tests.deadline import within
from trio_a2a.server import Limits
from trio_a2a.stores import InMemoryPushConfigStore
from trio_a2a.types import AgentCapabilities

from .patients import Patient, examined


async def greeter(context, updater):
    await updater.complete("Hello.")


async def holder(context, updater):
    await updater.start_work()
    await trio.sleep_forever()


async def replier(context, updater):
    await updater.reply("Hello.")


async def asker(context, updater):
    await updater.require_input("Which one?")


@within(60)
@pytest.mark.parametrize("executor", [greeter, replier, asker])
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("more", [True, False])
async def test_our_own_server_is_well(capsys, executor, streaming, more):
    """Whatever it declares, over both bindings."""
    card = trio_a2a.agent_card("Well", "Is well.")
    options = {"push": InMemoryPushConfigStore(), "extended_card": card} if more else {}
    card = attrs.evolve(card, capabilities=AgentCapabilities(streaming=streaming))
    async with open_agent(executor, card=card, **options) as url:
        found = await examined(capsys, url, strict=True)

    assert not found.of("error") + found.of("warning")
    assert found.status == 0
    assert {"JSONRPC", "HTTP+JSON"} <= {line["area"] for line in found.lines}
    if more and executor is not replier:
        assert found.severity("webhook: removed", "HTTP+JSON") == "ok"


@within(60)
async def test_an_agent_at_work_is_seen_alive_subscribed_to_and_left_idle(capsys):
    """Its keep-alive is seen, a second stream begins with a snapshot, and the test task does not stay at work."""
    async with open_agent(holder, limits=Limits(keep_alive=0.1)) as url:
        found = await examined(capsys, url, strict=True, wait=0.5)

    assert found.status == 0
    assert found.severity("keep-alive") == "ok"
    assert found.severity("end of the stream") == "info"
    assert found.severity("subscription") == found.severity("subscription", "HTTP+JSON") == "ok"
    assert found.severity("cancel") == "ok"


@within(60)
async def test_without_sending_nothing_is_sent(capsys):
    async with open_raw(Patient()) as raw:
        found = await examined(capsys, raw.url, send=False)

    assert found.severity("message", "message") == "info"
    assert not [r for r in raw.requests if b"SendStreamingMessage" in r.body]
    assert not [r for r in raw.requests if b"SendMessage" in r.body]


@within(60)
async def test_one_message_is_sent_at_most(capsys):
    async with open_raw(Patient()) as raw:
        found = await examined(capsys, raw.url, strict=True)

    assert not found.of("error") + found.of("warning")
    assert len([r for r in raw.requests if b"ROLE_USER" in r.body]) == 1


@within(60)
async def test_the_server_of_the_asyncio_sdk_has_no_error(capsys):
    """Its unknown routes are answered without an error object, and its cards may be kept for nobody knows how long."""
    async with open_server() as url:
        found = await examined(capsys, url)

    assert not found.of("error")
    assert found.severity("unknown route", "HTTP+JSON") == "warning"
    assert found.severity("caching", "card") == "warning"
    assert found.severity("webhook: removed") == "ok"
    assert found.status == 0


def test_the_command_shows_a_table_and_exits_by_severity(able):
    result = run("doctor", able)

    assert result.returncode == 0, result.stdout
    assert re.search(r"^severity +area +check +finding *$", result.stdout, re.MULTILINE)
    assert re.search(r"^ok +JSONRPC +unknown method +MethodNotFound \(-32601\) *$", result.stdout, re.MULTILINE)
    assert re.search(r"^\d+ ok, \d+ info, 0 warnings, 0 errors$", result.stdout, re.MULTILINE)
    assert "\x1b" not in result.stdout


def test_a_private_agent_is_examined_with_its_token(private):
    refused = run_json("doctor", private, "--no-send", status=1)
    shown = run_json("doctor", private, "--no-send", "--bearer", TOKEN)

    assert {"JSONRPC", "HTTP+JSON"} == {f["area"] for f in refused[:-1] if f["severity"] == "error"}
    assert shown[-1]["summary"]["error"] == 0


@pytest.mark.parametrize(("url", "status"), [("http://127.0.0.1:9", 1), ("nonsense", 2)])
def test_where_there_is_no_agent_the_exit_status_says_so(url, status):
    assert run("doctor", url).returncode == status


def test_one_transport_alone_is_examined_where_that_is_wanted(able):
    *lines, _ = run_json("doctor", able, "--no-send", "--transport", "HTTP+JSON")

    assert "JSONRPC" not in {line["area"] for line in lines}
