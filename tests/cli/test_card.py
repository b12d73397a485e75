"""`trio-a2a card`."""

import json

import attrs
import pytest
from joserfc.jwk import ECKey

from tests.client.peers import answer_json, card_json, open_agent, open_raw
from tests.deadline import within
from trio_a2a.cli.card import read_keys, show_card
from trio_a2a.cli.failures import CommandError
from trio_a2a.cli.output import Output
from trio_a2a.cli.redaction import Redaction
from trio_a2a.cli.session import Connection, Session
from trio_a2a.client import NoUsableInterfaceError, UnsupportedVersionError
from trio_a2a.server import agent_card
from trio_a2a.wire.signing import InvalidCardSignatureError, UnsignedCardError, sign_card

from .agents import KEY, PUBLIC, TOKEN
from .program import run, run_json


def test_a_card_is_shown_as_text(able):
    result = run("card", able)

    assert result.returncode == 0
    assert result.stdout.startswith("Obedient 1.0.0\nDoes what it is told.\n")
    assert f"JSONRPC 1.0  {able}" in result.stdout
    assert "capabilities: streaming, push notifications, extended card" in result.stdout
    assert "signatures: 1" in result.stdout
    assert not result.stderr


def test_a_card_is_shown_in_its_wire_form(able):
    (card,) = run_json("card", able)

    assert card["name"] == "Obedient"
    assert card["capabilities"]["streaming"] is True


def test_the_extended_card_is_shown(able):
    assert "Does more than it says." in run("card", able, "--extended").stdout


def test_an_agent_without_an_extended_card_is_told_in_one_line(blocking):
    result = run("card", blocking, "--extended")

    assert result.returncode == 1
    assert result.stderr == "trio-a2a: The agent has no extended card\n"


@pytest.mark.parametrize("form", ["jwk", "jwks", "pem"])
def test_a_signature_by_a_trusted_key_is_verified(able, tmp_path, form):
    key = tmp_path / "key"
    public = ECKey.import_key(PUBLIC)
    content = {
        "jwk": json.dumps(PUBLIC),
        "jwks": json.dumps({"keys": [{**PUBLIC, "kid": "test"}]}),
        "pem": public.as_pem(private=False).decode(),
    }
    key.write_text(content[form], encoding="utf-8")

    result = run("card", able, "--verify", str(key))

    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("verified: signed by a trusted key\n")


def test_a_card_that_the_trusted_key_has_not_signed_is_refused(able, tmp_path):
    key = tmp_path / "key.json"
    key.write_text(json.dumps(ECKey.generate_key("P-256").as_dict(private=False)), encoding="utf-8")

    result = run("card", able, "--verify", str(key))

    assert result.returncode == 1
    assert not result.stdout
    assert result.stderr.startswith("trio-a2a: No valid signature on the agent card")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"{broken", "is no JSON"), (b"\xff\xfe", "holds neither PEM nor JSON"), (b"no key", "holds neither")],
)
def test_what_is_no_key_is_wrong_usage(able, tmp_path, content, says):
    key = tmp_path / "key"
    key.write_bytes(content)

    result = run("card", able, "--verify", str(key))

    assert result.returncode == 2
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_private_agent_answers_to_its_token_alone(private):
    """Its card is public; what it does is not."""
    refused = run("task", "list", private)
    shown = run("task", "list", private, "--bearer", TOKEN)
    by_header = run("task", "list", private, "--header", f"Authorization: Bearer {TOKEN}")
    by_environment = run("task", "list", private, env={"TRIO_A2A_BEARER": TOKEN})

    assert refused.returncode == 1
    assert "--bearer" in refused.stderr
    assert [r.returncode for r in (shown, by_header, by_environment)] == [0, 0, 0]


def test_the_extended_card_is_verified_itself(able, tmp_path):
    """Not only the public one, which leads to it."""
    key = tmp_path / "key.json"
    key.write_text(json.dumps(PUBLIC), encoding="utf-8")

    result = run("card", able, "--extended", "--verify", str(key))

    assert result.returncode == 0, result.stderr
    assert "Does more than it says." in result.stdout
    assert result.stdout.endswith("verified: signed by a trusted key\n")


async def nothing(context, updater):
    await updater.complete()


def only(binding: str, version: str = "1.0"):
    interfaces = [{"url": "http://elsewhere.example", "protocolBinding": binding, "protocolVersion": version}]

    def answer(request):
        skill = {"id": "s", "name": "Skill", "description": "Does it.", "tags": ["x"]}
        return answer_json(card_json("", supportedInterfaces=interfaces, skills=[skill]))

    return answer


async def shown(url: str, **options) -> int:
    session = Session(connection=Connection(), output=Output(as_json=False, redaction=Redaction([])))
    return await show_card(session, url=url, **{"extended": False, "verify": None, **options})


@within(30)
async def test_a_card_without_a_usable_interface_is_shown_all_the_same(capsys):
    """With a word about it: whoever asks for the card wants to see it."""
    async with open_raw(only("https://example.com/own-binding")) as raw:
        assert await shown(raw.url) == 0

    told = capsys.readouterr()
    assert told.out.startswith("Raw 1\n")
    assert "can be used" in told.err


@within(30)
async def test_a_card_without_a_usable_interface_must_be_signed_where_that_is_asked_for(tmp_path):
    key = tmp_path / "key.json"
    key.write_text(json.dumps(PUBLIC), encoding="utf-8")
    async with open_raw(only("https://example.com/own-binding")) as raw:
        with pytest.raises(UnsignedCardError):
            await shown(raw.url, verify=str(key))
        with pytest.raises(NoUsableInterfaceError):
            await shown(raw.url, extended=True)


@within(30)
async def test_a_card_of_another_version_is_refused():
    old = {"name": "Old", "url": "http://elsewhere.example", "protocolVersion": "0.3.0"}
    async with open_raw(lambda _request: answer_json(old)) as raw:
        with pytest.raises(UnsupportedVersionError):
            await shown(raw.url)


def test_keys_that_cannot_be_read_are_wrong_usage(tmp_path):
    with pytest.raises(CommandError, match="cannot be read") as refused:
        read_keys(str(tmp_path))

    assert refused.value.status == 2


@within(30)
async def test_an_extended_card_with_a_signature_of_another_key_is_refused(tmp_path):
    """Although the public one is signed by the trusted one, and the other key goes by its name."""
    key = tmp_path / "key.json"
    key.write_text(json.dumps(PUBLIC), encoding="utf-8")
    card = agent_card("Half", "Is signed.")
    other = ECKey.generate_key("P-256")

    def signed(served):
        return sign_card(served, KEY if served.description == card.description else other, kid="test")

    extended = attrs.evolve(card, description="Is signed by somebody.")
    async with open_agent(nothing, card=card, card_signer=signed, extended_card=extended) as url:
        assert await shown(url, extended=True) == 0
        with pytest.raises(InvalidCardSignatureError):
            await shown(url, verify=str(key), extended=True)


@within(30)
async def test_an_extended_card_that_nobody_signed_is_refused(tmp_path):
    """Although the public one, which leads to it, is signed."""
    key = tmp_path / "key.json"
    key.write_text(json.dumps(PUBLIC), encoding="utf-8")
    card = agent_card("Half", "Is signed.")

    def signed(served):
        return sign_card(served, KEY, kid="test") if served.description == card.description else served

    extended = attrs.evolve(card, description="Is not signed.")
    async with open_agent(nothing, card=card, card_signer=signed, extended_card=extended) as url:
        assert await shown(url, verify=str(key)) == 0
        with pytest.raises(UnsignedCardError):
            await shown(url, verify=str(key), extended=True)
