"""The suites for what a client's program implements: transports and credentials. Ours pass, broken ones do not."""

import itertools
import json
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
import trio

from tests.deadline import within
from trio_a2a.client import (
    APIKeyAuth,
    Auth,
    BasicAuth,
    BearerAuth,
    ClientTransport,
    Credentials,
    CredentialsError,
    EventSource,
    OAuth2ClientCredentials,
    ReceivedEvent,
)
from trio_a2a.errors import A2AError, InternalError
from trio_a2a.testing import ScriptedAgent, Step, check_auth, check_client_transport, open_in_memory
from trio_a2a.types import (
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    ListTasksResponse,
    SecurityScheme,
)

pytestmark = pytest.mark.requirement("S7-CONFORMANCE")

AGENT = ScriptedAgent(Step.work(), Step.sleep(1), Step.artifact("x"), Step.complete())


def opening(make, binding="JSONRPC"):
    @asynccontextmanager
    async def transports():
        async with open_in_memory(AGENT) as server, server.connect(transports=[binding]) as client:
            yield make(client.transport)

    return transports


class Passing(ClientTransport):
    """Passes everything on, and is as good as what is inside."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def binding(self):
        return self.inner.binding

    async def call(self, call):
        return await self.inner.call(call)

    async def open(self, call, *, last_event_id=None):
        return self.source(await self.inner.open(call, last_event_id=last_event_id))

    def source(self, source):
        return source


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("make", [lambda inner: inner, Passing], ids=["ours", "passing"])
@within(1000)
async def test_our_transports_pass(autojump_clock, binding, make):
    await check_client_transport(opening(make, binding))


class Nameless(Passing):
    binding = ""


class ReturnsJson(Passing):
    async def call(self, call):
        await self.inner.call(call)
        return {}


class ReturnsTheFirstAnswer(Passing):
    """As one connection would whose answers are not told apart."""

    first = None

    async def call(self, call):
        answer = await self.inner.call(call)
        if call.operation == "GetTask" and self.first is None:
            self.first = answer
        return self.first if call.operation == "GetTask" else answer


class ListsNothing(Passing):
    async def call(self, call):
        answer = await self.inner.call(call)
        return None if isinstance(answer, ListTasksResponse) else answer


class RaisesAnything(Passing):
    async def call(self, call):
        try:
            return await self.inner.call(call)
        except A2AError as exc:
            raise KeyError("no such task") from exc


class RaisesInternal(Passing):
    async def call(self, call):
        try:
            return await self.inner.call(call)
        except A2AError as exc:
            raise InternalError from exc


class OpensAnything(Passing):
    async def open(self, call, *, last_event_id=None):
        try:
            return await self.inner.open(call, last_event_id=last_event_id)
        except A2AError:
            return None


class Hangs(Passing):
    async def call(self, call):
        await trio.sleep_forever()


class Source(EventSource):
    def __init__(self, inner):
        self.inner = inner

    async def receive(self):
        return await self.inner.receive()

    async def aclose(self):
        await self.inner.aclose()


def with_source(source):
    return type(f"Opens{source.__name__}", (Passing,), {"source": lambda self, inner: source(inner)})


class Bare(Source):
    async def receive(self):
        return (await self.inner.receive()).event


class NeverEnds(Source):
    async def receive(self):
        try:
            return await self.inner.receive()
        except trio.EndOfChannel:
            await trio.sleep_forever()


class EndsEarly(Source):
    count = 0

    async def receive(self):
        self.count += 1
        if self.count == 3:
            raise trio.EndOfChannel
        return await self.inner.receive()


class LosesTheFirst(Source):
    lost = False

    async def receive(self):
        if not self.lost:
            self.lost = True
            await self.inner.receive()
        return await self.inner.receive()


class CountsDown(Source):
    numbers = 100

    async def receive(self):
        self.numbers -= 1
        return ReceivedEvent((await self.inner.receive()).event, self.numbers)


class ClosesOnce(Source):
    closed = False

    async def aclose(self):
        if self.closed:
            raise trio.ClosedResourceError("closed twice")
        self.closed = True
        await super().aclose()


class ShieldsItself(Source):
    async def receive(self):
        with trio.CancelScope(shield=True):
            return await self.inner.receive()


BROKEN = {
    Nameless: "binding is a name",
    ReturnsJson: "returns a SendMessageResponse",
    ListsNothing: "returns a ListTasksResponse",
    ReturnsTheFirstAnswer: "each gets its own answer",
    RaisesAnything: r"call\(\) raises an agent's refusal as an A2AError",
    RaisesInternal: r"call\(\) raises what the agent said",
    OpensAnything: r"open\(\) raises an agent's refusal",
    Hangs: "did not end within 60",
    with_source(Bare): "returns a ReceivedEvent",
    with_source(NeverEnds): "did not end within 60",
    with_source(EndsEarly): "behind the task's last event",
    with_source(LosesTheFirst): "begins with the Task",
    with_source(CountsDown): "numbers of events rise",
    with_source(ShieldsItself): "can be cancelled",
}


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__)
@within(1000)
async def test_each_fault_of_a_transport_is_found(autojump_clock, make):
    with pytest.raises(AssertionError, match=BROKEN[make]):
        await check_client_transport(opening(make))


@within(1000)
async def test_a_stream_that_cannot_be_closed_twice_raises_what_it_raises(autojump_clock):
    with pytest.raises(trio.ClosedResourceError):
        await check_client_transport(opening(with_source(ClosesOnce)))


# --------------------------------------------------------------------------------------------------------- credentials

SCHEMES = [
    SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer")),
    SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="basic")),
    SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location="header", name="x-key")),
]


def endpoint():
    numbers = itertools.count()

    async def post(url, form, headers):
        await trio.sleep(1)
        body = {"access_token": f"token-{next(numbers)}", "token_type": "Bearer", "expires_in": 3600}
        return 200, json.dumps(body).encode()

    return post


@pytest.mark.parametrize(
    "auth",
    [
        BearerAuth("s3cret-token"),
        BearerAuth(lambda: "s3cret-token"),
        BasicAuth("ann", "s3cret"),
        APIKeyAuth("s3cret-key", name="x-key", location="header"),
        OAuth2ClientCredentials("id", "s3cret", token_url="https://login.example/token"),
    ],
    ids=lambda auth: type(auth).__name__,
)
@within(100)
async def test_our_credentials_pass(autojump_clock, auth):
    await check_auth(auth, schemes=SCHEMES, post=endpoint())


class Good(Auth):
    def __init__(self):
        self.number = 0

    def bind(self, scheme, scopes=()):
        return self

    async def credentials(self, post):
        await trio.lowlevel.checkpoint()
        return Credentials(headers={"authorization": f"Bearer token-{self.number}"})

    def forget(self, refused):
        if refused.headers["authorization"] == f"Bearer token-{self.number}":
            self.number += 1
        return True


class Shows(Good):
    def __repr__(self):
        return f"<Auth token-{self.number}>"


class GivesHeaders(Good):
    async def credentials(self, post):
        return (await super().credentials(post)).headers


class Changes(Good):
    async def credentials(self, post):
        self.number += 1
        return await super().credentials(post)


class ForgetsTheNew(Good):
    def forget(self, refused):
        self.number += 1
        return True


class SaysNothing(Good):
    def forget(self, refused):
        super().forget(refused)


class GivesUp(Good):
    def forget(self, refused):
        self.number += 1
        return self.number == 1


class BindsToNothing(Good):
    def bind(self, scheme, scopes=()):
        return False


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (Shows, "shows no secret"),
        (GivesHeaders, "returns Credentials"),
        (Changes, "stay as they are"),
        (ForgetsTheNew, "leaves the new ones"),
        (SaysNothing, "tells whether"),
        (GivesUp, "others can be had"),
        (BindsToNothing, "returns an Auth"),
    ],
)
@within(5)
async def test_each_fault_of_credentials_is_found(autojump_clock, make, fault):
    await check_auth(Good(), schemes=SCHEMES)
    with pytest.raises(AssertionError, match=fault):
        await check_auth(make(), schemes=SCHEMES)


@within(5)
async def test_credentials_may_refuse_what_a_card_says_but_must_have_something_to_give(autojump_clock):
    nonsense = SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location="header", name="no name"))
    await check_auth(APIKeyAuth("s3cret", name="x-key", location="header"), schemes=[nonsense])
    with pytest.raises(CredentialsError, match="no token endpoint"):
        await check_auth(OAuth2ClientCredentials("id", "s3cret", token_url="https://login.example/token"))


# --------------------------------------------------------------------------------------------------------------- extras


@pytest.mark.requirement("S7-IN-MEMORY")
def test_without_the_extra_the_rest_of_the_kit_works_and_the_server_names_it():
    program = """
import sys
import trio
sys.modules['httpx2'] = None
from trio_a2a.testing import check_task_store, serve_in_memory, status
async def agent(context, updater):
    pass
async def main():
    async with serve_in_memory(agent):
        pass
try:
    trio.run(main)
except ImportError as exc:
    print(exc)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "serving in memory needs the extra 'client': pip install 'trio-a2a[client]'\n"
