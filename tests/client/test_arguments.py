"""What a program gives the client by mistake is told at once, where it was given."""

import pytest

from tests.deadline import within
from trio_a2a.client import (
    APIKeyAuth,
    BasicAuth,
    BearerAuth,
    Client,
    ClientCall,
    Interceptor,
    MutualTLSAuth,
    OAuth2ClientCredentials,
    connect,
)
from trio_a2a.client.http import HttpRequest
from trio_a2a.errors import TaskNotFoundError
from trio_a2a.types import Task, TaskState, TaskStatus

from .scripted import CARD, ScriptedTransport, client_of

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"auth": "s3cret"}, TypeError, "auth is an Auth .*not a str"),
        ({"auth": ["s3cret"]}, TypeError, "auth is an Auth"),
        ({"auth": {"bearer": "s3cret"}}, TypeError, "auth is an Auth"),
        ({"auth": BearerAuth}, TypeError, "not the class BearerAuth"),
        ({"extensions": "https://example.com/x"}, TypeError, r"extensions is a sequence of texts, such as \['https"),
        ({"extensions": [5]}, TypeError, "not 5 among them"),
        ({"extensions": None}, TypeError, "extensions is a sequence of texts"),
        ({"interceptors": Interceptor()}, TypeError, "interceptors is a sequence"),
        ({"interceptors": [Interceptor]}, TypeError, "before and after"),
        ({"interceptors": ["x"]}, TypeError, "before and after"),
        ({"headers": [("a", "b")]}, TypeError, "headers is a mapping of names to values, not a list"),
        ({"headers": {"a": b"s3cret"}}, TypeError, "'a' is a bytes"),
        ({"transports": "JSONRPC"}, TypeError, r"such as \['JSONRPC'\]"),
        ({"transports": None}, TypeError, "sequence of names"),
        ({"transports": ()}, ValueError, "names no binding"),
        ({"timeout": "5"}, TypeError, "timeout is a number of seconds"),
        ({"timeout": True}, TypeError, "timeout is a number of seconds"),
        ({"timeout": -1}, ValueError, "timeout is 0 or more"),
        ({"timeout": float("nan")}, ValueError, "timeout is 0 or more"),
        ({"silence": 0}, ValueError, "silence is more than 0"),
        ({"silence": "x"}, TypeError, "silence is a number"),
    ],
)
@within(5)
async def test_what_connect_cannot_use_is_told_before_anything_is_sent(options, error, says):
    with pytest.raises(error, match=says) as told:
        async with connect(NOWHERE, **options):
            pass
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize("place", [None, b"http://127.0.0.1", 5, {"name": "x"}])
@within(5)
async def test_what_is_neither_a_url_nor_a_card_is_a_type_error(place):
    with pytest.raises(TypeError, match="an agent's URL or an AgentCard"):
        async with connect(place):
            pass


@pytest.mark.parametrize(
    "options", [{"extensions": "x"}, {"interceptors": [5]}, {"headers": "x"}, {"timeout": -1}, {"silence": 0}]
)
def test_a_client_of_one_s_own_is_told_the_same(options):
    with pytest.raises((TypeError, ValueError)):
        Client(CARD, ScriptedTransport(), **options)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"reference_task_ids": "abc"}, TypeError),
        ({"extensions": "https://example.com/x"}, TypeError),
        ({"timeout": "5"}, TypeError),
        ({"timeout": -1}, ValueError),
    ],
)
@within(5)
async def test_what_a_call_cannot_use_is_told_and_nothing_is_sent(options, error):
    """A text in place of several would go out letter by letter."""
    transport = ScriptedTransport(answers=[])
    with pytest.raises(error):
        await client_of(transport).send("hi", **options)
    with pytest.raises(error):
        async with client_of(transport).stream("hi", **options):
            pass
    assert not transport.calls


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: BearerAuth(None), TypeError),
        (lambda: BasicAuth("me", None), TypeError),
        (lambda: APIKeyAuth(5), TypeError),
        (lambda: MutualTLSAuth("cert.pem"), TypeError),
        (lambda: OAuth2ClientCredentials("id", None), TypeError),
        (lambda: OAuth2ClientCredentials("id", "s3cret", token_url=5), TypeError),
        (lambda: OAuth2ClientCredentials("id", "s3cret", scopes="read"), TypeError),
        (lambda: OAuth2ClientCredentials("id", "s3cret", method="jwt"), ValueError),
    ],
)
def test_credentials_that_are_none_are_told_when_they_are_made(make, error):
    """Not with the first request; and one scope in place of several would be asked for letter by letter."""
    with pytest.raises(error) as told:
        make()
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize("token", [None, 5, b"s3cret"])
@within(5)
async def test_a_function_that_gives_no_token_is_told(token):
    with pytest.raises(TypeError, match="a token is a str"):
        await BearerAuth(lambda: token).credentials(None)


@within(5)
async def test_an_interceptor_that_forgets_to_return_is_told():
    class Before(Interceptor):
        async def before(self, call):
            pass

    class After(Interceptor):
        async def after(self, call, result, error):
            pass

    answer = Task(id="t", status=TaskStatus(state=TaskState.WORKING))
    for forgets, says in ((Before(), "Before.before returns the call"), (After(), "After.after returns the result")):
        with pytest.raises(TypeError, match=says):
            await client_of(ScriptedTransport(answers=[answer]), interceptors=[forgets]).get_task("t")
    with pytest.raises(TaskNotFoundError):
        await client_of(ScriptedTransport(answers=[TaskNotFoundError()]), interceptors=[After()]).get_task("t")


def test_headers_which_may_be_secret_are_not_shown():
    shown = repr(ClientCall(operation="GetTask", request=None, headers={"x": "s3cret"}))
    shown += repr(HttpRequest(method="GET", url="http://x", headers={"x": "s3cret"}))
    assert "s3cret" not in shown


@pytest.mark.parametrize("after", [-1, "1", True])
@within(5)
async def test_the_number_of_an_event_is_one(after):
    with pytest.raises(ValueError, match="number of an event"):
        async with client_of(ScriptedTransport()).subscribe("t", after=after):
            pass
