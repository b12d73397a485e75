"""``Last-Event-ID`` across a restart of the server: the log first, then what is live, without gap or double.

Each server is an application of its own on an SQL store of its own; what they share is the database. Threads are at
work: no autojump clock.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.deadline import within
from tests.server.bindings import BINDINGS, Caller, both_bindings, open_caller
from tests.stores.databases import KINDS, database
from trio_a2a.stores import open_sql_store

SEND, STREAM, SUBSCRIBE = "SendMessage", "SendStreamingMessage", "SubscribeToTask"
PARTS = 5


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with database(request.param, tmp_path) as made:
        yield made


@asynccontextmanager
async def serving(url: str, binding: str = BINDINGS[0], **options: float) -> AsyncIterator[Caller]:
    """A server from its start to its end."""
    async with open_sql_store(url, **options) as store, open_caller(binding, agent, store=store) as caller:
        yield caller


async def agent(context, updater):
    """Writes some parts and asks a question; with the answer it writes more, and is done."""
    await updater.start_work()
    for number in range(PARTS):
        await updater.add_artifact(f"{context.text()} {number}", artifact_id=context.text(), append=number > 0)
    if context.text() == "answer":
        await updater.complete("done")
    else:
        await updater.require_input("which?")


def said(text, **members):
    return {"message": {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}], **members}}


def numbered(events):
    return [(event.id, event.value) for event in events]


async def begin(caller):
    """Have a task made up to its question; its id and its numbered events."""
    async with caller.stream(STREAM, said("question")) as stream:
        first = numbered(await stream.rest())
    return first[0][1]["task"]["id"], first


@pytest.mark.requirement("S1-NO-LOSS", "S4-AFTER", "S3-SEQUENCE")
@within(60)
async def test_a_reader_of_an_unfinished_task_goes_on_with_the_next_server(url: str) -> None:
    async with serving(url) as caller:
        id_, first = await begin(caller)
        assert [number for number, _ in first] == list(range(1, len(first) + 1))
    for last in (0, 1, 4, len(first)):
        async with serving(url) as caller:
            headers = {"last-event-id": str(last)}
            async with caller.stream(SUBSCRIBE, {"id": id_}, headers) as stream:
                # What is stored comes without anything happening.
                again = [await stream.next() for _ in first[last:]]
                assert numbered(again) == first[last:]
    async with (
        serving(url, BINDINGS[1]) as caller,
        caller.stream(SUBSCRIBE, {"id": id_}, {"last-event-id": "3"}) as stream,
    ):
        answer = await caller.call(SEND, said("answer", taskId=id_))
        assert answer.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        rest = await stream.rest()
    assert numbered(rest)[: len(first) - 3] == first[3:]
    # Behind the log: the state, the parts, the end.
    assert [event.id for event in rest] == list(range(4, len(first) + PARTS + 3))
    assert rest[-1].says == "COMPLETED"


@pytest.mark.requirement("S1-NO-LOSS", "S4-AFTER")
@both_bindings
@within(60)
async def test_a_reader_of_a_finished_task_reads_it_to_its_end_from_the_next_server(sqlite_url, binding) -> None:
    async with serving(sqlite_url, binding) as caller:
        async with caller.stream(STREAM, said("answer")) as stream:
            whole = numbered(await stream.rest())
        id_ = whole[0][1]["task"]["id"]
    for last in range(len(whole) + 1):
        async with (
            serving(sqlite_url, binding) as caller,
            caller.stream(SUBSCRIBE, {"id": id_}, {"last-event-id": str(last)}) as stream,
        ):
            assert numbered(await stream.rest()) == whole[last:]


@within(60)
async def test_after_its_grace_period_a_finished_task_is_over_in_the_next_server_too(sqlite_url) -> None:
    async with serving(sqlite_url, grace_period=0) as caller:
        answer = await caller.call(SEND, said("answer"))
    id_ = answer.result["task"]["id"]
    async with serving(sqlite_url, grace_period=0) as caller:
        async with caller.stream(SUBSCRIBE, {"id": id_}, {"last-event-id": "2"}) as stream:
            assert (await stream.answer()).reason == "UNSUPPORTED_OPERATION"
        assert (await caller.call("GetTask", {"id": id_})).result["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'tasks.db'}"
