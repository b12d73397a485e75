"""The statements on authorization within a task, on security, and on what the documentation must say."""

import json
import logging
import re
import ssl
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme

from tests.contract.bindings import PAIR, both_bindings, open_caller, said, states
from tests.deadline import within
from tests.server.peer import make_app, open_peer
from trio_a2a.server import Limits, serve
from trio_a2a.stores import InMemoryPushConfigStore

DOCS = Path(__file__).parents[2] / "docs"
EXPLANATION = "Please log in at https://login.example."


async def finish(_context, updater):
    await updater.complete()


# ---------------------------------------------------------------------------------------- authorization within a task


async def log_in_first(context, updater):
    if context.task is None:
        await updater.require_auth(EXPLANATION)
    else:
        await updater.complete(f"Thank you for {context.text()}.")


@pytest.mark.requirement("C-276", "C-277")
@both_bindings
@within(5)
async def test_an_agent_that_needs_a_credential_makes_a_task_that_says_so(autojump_clock, binding):
    async with open_caller(binding, log_in_first) as caller:
        task = await caller.send()
        async with caller.stream("SendStreamingMessage", said()) as events:
            assert "task" in await events.next()
            streamed = (await events.next())["statusUpdate"]["status"]
        for status in (task["status"], (await caller.get(task["id"]))["status"], streamed):
            assert status["state"] == "TASK_STATE_AUTH_REQUIRED"
            assert status["message"]["parts"] == [{"text": EXPLANATION}]


@pytest.mark.requirement("C-280")
@both_bindings
@within(5)
async def test_a_task_that_waits_for_a_credential_takes_messages(autojump_clock, binding):
    async with open_caller(binding, log_in_first) as caller:
        task = await caller.send()
        task = await caller.send("that", taskId=task["id"])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": "Thank you for that."}]


@pytest.mark.requirement("C-279")
@both_bindings
@within(5)
async def test_a_run_goes_on_by_itself_when_its_credential_has_come(autojump_clock, binding):
    credential = trio.Event()

    async def agent(_context, updater):
        await updater.require_auth(EXPLANATION)
        await credential.wait()
        await updater.start_work()
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        task = await caller.send()
        assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
        async with caller.stream("SubscribeToTask", {"id": task["id"]}) as events:
            await events.next()
            credential.set()
            assert states(await events.all()) == ["WORKING", "COMPLETED"]


@pytest.mark.requirement("C-282")
@both_bindings
@within(5)
async def test_that_a_credential_was_asked_for_authorizes_nobody_to_anything(autojump_clock, binding):
    principals = []

    async def agent(context, updater):
        principals.append(context.principal.id)
        await updater.require_auth(EXPLANATION)

    async with open_caller(binding, agent, **PAIR) as caller:
        ann, bob, nobody = caller.by("a-token"), caller.by("b-token"), caller.by(None)
        task = await ann.send()
        for _ in range(2):
            assert (await bob.call("SendMessage", said(taskId=task["id"]))).reason == "TASK_NOT_FOUND"
            assert (await bob.call("GetTask", {"id": task["id"]})).reason == "TASK_NOT_FOUND"
            assert (await nobody.call("SendMessage", said(taskId=task["id"]))).status == 401
            # Each message is its sender's own, and no more than that.
            await ann.send(taskId=task["id"])
    assert principals == ["ann"] * 3


# ------------------------------------------------------------------------------------------------------------ security


@pytest.mark.requirement("C-285")
@within(20)
async def test_tls_is_the_newest_and_nothing_older_than_1_2():
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(server)
    assert server.minimum_version >= ssl.TLSVersion.TLSv1_2

    async def version(newest):
        client = ssl.create_default_context()
        authority.configure_trust(client)
        client.set_ciphers("ALL:@SECLEVEL=0")  # else this client would refuse what is old by itself
        client.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        client.maximum_version = newest
        async with await trio.open_tcp_stream("127.0.0.1", int(served.url.rpartition(":")[2])) as tcp:
            stream = trio.SSLStream(tcp, client, server_hostname="localhost", https_compatible=True)
            await stream.do_handshake()
            return stream.version()

    async with trio.open_nursery() as nursery:
        served = await nursery.start(partial(serve, make_app(finish), ssl_context=server, grace=0))
        assert await version(ssl.TLSVersion.MAXIMUM_SUPPORTED) == "TLSv1.3"
        assert await version(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
        with (
            pytest.warns(DeprecationWarning, match="TLSv1_1"),
            pytest.raises(trio.BrokenResourceError),
        ):
            await version(ssl.TLSVersion.TLSv1_1)
        served.shutdown()


@pytest.mark.requirement("C-286")
@within(5)
async def test_the_header_of_hsts_is_added_around_the_application(autojump_clock):
    async with open_peer(finish) as peer:
        app = peer.app

        async def with_hsts(scope, receive, send):
            async def sending(message):
                if message["type"] == "http.response.start":
                    header = (b"strict-transport-security", b"max-age=63072000")
                    message = {**message, "headers": [*message["headers"], header]}
                await send(message)

            await app(scope, receive, sending)

        peer.app = with_hsts
        for reply in (await peer.send(), await peer.http("GET", "/.well-known/agent-card.json")):
            assert reply.headers["strict-transport-security"] == "max-age=63072000"
        async with peer.stream("SendStreamingMessage", said()) as stream:
            assert stream.headers["strict-transport-security"] == "max-age=63072000"


@pytest.mark.requirement("C-287")
@pytest.mark.parametrize(
    ("limits", "over"),
    [
        (Limits(max_body=500), said("a" * 500)),
        (Limits(max_parts=2), said(parts=[{"text": "a"}] * 3)),
        (Limits(), said(metadata=json.loads('{"a":' * 120 + "1" + "}" * 120))),
    ],
    ids=["size", "parts", "depth"],
)
@both_bindings
@within(5)
async def test_a_message_that_is_too_large_is_refused(autojump_clock, binding, limits, over):
    async with open_caller(binding, finish, limits=limits) as caller:
        await caller.send()
        answer = await caller.call("SendMessage", over)
        assert answer.status == (413 if limits.max_body == 500 else 400 if answer.rest else 200)
        assert answer.reason in {"INVALID_REQUEST", "INVALID_PARAMS"}
        assert (await caller.call("ListTasks")).result["totalSize"] == 1


@pytest.mark.requirement("C-291")
@both_bindings
@within(5)
async def test_a_caller_that_asks_for_too_much_is_told_to_wait(autojump_clock, binding):
    async def agent(_context, updater):
        await updater.start_work()
        await trio.sleep_forever()

    async with open_caller(binding, agent, limits=Limits(streams_per_principal=1), **PAIR) as caller:
        ann, bob = caller.by("a-token"), caller.by("b-token")
        async with ann.stream("SendStreamingMessage", said()) as events:
            await events.next()
            answer = await ann.call("SendStreamingMessage", said())
            assert answer.status == 429
            assert answer.headers["retry-after"]
            async with bob.stream("SendStreamingMessage", said()) as others:
                assert "task" in await others.next()


@pytest.mark.requirement("C-135", "C-289")
@both_bindings
@within(5)
async def test_credentials_are_in_no_log_and_in_no_repr(autojump_clock, binding, caplog):
    caplog.set_level(logging.DEBUG)
    push = InMemoryPushConfigStore()
    secret = {"token": "hook-token", "authentication": {"scheme": "Bearer", "credentials": "hook-credentials"}}
    config = {"url": "https://hooks.example", **secret}

    async def agent(_context, updater):
        await updater.start_work()
        raise RuntimeError("the agent failed")

    async with open_caller(binding, agent, push=push, **PAIR) as caller:
        ann = caller.by("a-token")
        task = await ann.send(configuration={"taskPushNotificationConfig": config})
        await ann.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], **config})
        await ann.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], **config, "url": "no"})
        await caller.by("wrong-token").call("ListTasks")
        shown = [repr(one) for one in (caller.app, caller.app.agent, caller.app.agent.authenticator, push)]
        shown += [repr(one) for one in await push.list(task["id"])]
    text = caplog.text + "".join(shown)
    assert "the agent failed" in text
    for one in ("hook-token", "hook-credentials", "a-token", "wrong-token"):
        assert one not in text


@pytest.mark.requirement("C-292")
@both_bindings
@within(5)
async def test_the_url_of_a_part_is_never_fetched(autojump_clock, binding):
    asked = []

    class NoSockets(trio.abc.SocketFactory, trio.abc.HostnameResolver):
        def socket(self, *args):
            asked.append(args)
            raise OSError

        async def getaddrinfo(self, *args):
            asked.append(args)
            raise OSError

        async def getnameinfo(self, *args):
            asked.append(args)
            raise OSError

    trio.socket.set_custom_socket_factory(NoSockets())
    trio.socket.set_custom_hostname_resolver(NoSockets())

    async def agent(context, updater):
        await updater.add_artifact(context.message.parts)
        await updater.complete()

    async with open_caller(binding, agent) as caller:
        parts = [{"url": url} for url in ("http://127.0.0.1/secret", "https://a.example/t.pdf", "file:///etc/passwd")]
        task = await caller.send(parts=parts)
        await trio.testing.wait_all_tasks_blocked()
    assert task["artifacts"][0]["parts"] == parts
    assert not asked


# ------------------------------------------------------------------------------------------------------- documentation


def page(name):
    """The text of a page, with its line breaks taken for spaces."""
    return re.sub(r"\s+", " ", (DOCS / name).read_text(encoding="utf-8"))


@pytest.mark.requirement("C-275")
def test_the_documentation_says_who_may_see_what():
    text = page("how-to/authentication.md")
    assert "tasks belong to the principal that made them, and for another one they do not exist" in text
    assert "Without an authenticator everybody is the anonymous principal, and sees all tasks" in text


@pytest.mark.requirement("C-149", "C-198")
def test_the_documentation_says_that_no_card_is_a_place_for_secrets():
    assert "neither card holds credentials" in page("how-to/authentication.md")


@pytest.mark.requirement("C-171")
def test_the_documentation_says_that_the_uri_of_an_extension_has_its_version():
    assert "a change that breaks readers takes a new URI" in page("how-to/extensions.md")


@pytest.mark.requirement("C-282")
def test_the_documentation_says_what_a_task_that_waits_for_a_credential_does_not_mean():
    assert "authorizes nothing" in page("how-to/authentication.md")


@pytest.mark.requirement("C-286")
def test_the_documentation_says_where_hsts_is_set():
    assert "Strict-Transport-Security" in page("how-to/deployment.md")


@pytest.mark.requirement("C-052")
@pytest.mark.parametrize("name", ["examples/echo_agent.py", "how-to/serving.md"])
def test_the_documentation_s_agents_deliver_their_results_as_artifacts(name):
    assert "updater.artifact(" in page(name) or "updater.add_artifact(" in page(name)
