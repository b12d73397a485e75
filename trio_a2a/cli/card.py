"""``trio-a2a card``: what an agent says about itself."""

from pathlib import Path

import attrs
import orjson

from ..client import NoUsableInterfaceError, card_url
from ..clock import TrioClock
from ..errors import A2AError
from ..types import AgentCard
from ..wire import from_json
from ..wire.signing import CardKeys, verify_card
from .failures import CommandError, described
from .program import USAGE
from .render import card_lines
from .session import Session

__all__ = ["read_keys", "show_card"]


async def show_card(session: Session, *, url: str, extended: bool, verify: str | None) -> int:
    """Show the card.

    Raises:
        A2AError: The agent refuses.
        ClientError: There is no card.
        CardSignatureError: None of the trusted keys has signed it.
        CommandError: The keys cannot be read.
    """
    keys = None if verify is None else read_keys(verify)
    try:
        async with session.open_client(url, verify_card=keys) as client:
            card = client.card
            if extended:
                card = await client.extended_card()
                if keys is not None:
                    card = verify_card(card, keys, now=TrioClock().now()).card
    except NoUsableInterfaceError as exc:
        # What it says can be read all the same, unless it says it in another version.
        public = None if extended else await _public_card(session, url, keys)
        if public is None:
            raise
        session.output.aside(described(exc))
        card = public
    if session.output.as_json:
        session.output.value(card)
        return 0
    for line in card_lines(card):
        session.output.line(line)
    if keys is not None:
        session.output.line("verified: signed by a trusted key")
    return 0


async def _public_card(session: Session, url: str, keys: "CardKeys | None") -> AgentCard | None:
    """Fetch a card without connecting to what it leads to; None if there is none for everybody."""
    # Here, since it needs the extra, which is asked for when the first connection is made.
    from .doctor.probe import open_probe  # noqa: PLC0415

    async with open_probe(attrs.evolve(session.connection, bearer=None)) as probe:
        answer = await probe.exchange("GET", card_url(url), headers={"accept": "application/json"})
    if answer.status != 200:
        return None
    if keys is not None:
        return verify_card(answer.body, keys, now=TrioClock().now()).card
    try:
        return from_json(answer.body, AgentCard, strict=False)
    except A2AError:
        return None


def read_keys(path: str) -> CardKeys:
    """Read the trusted keys: a JWK, a JWK Set or PEM.

    Raises:
        CommandError: The file cannot be read, or holds none of these.
    """
    try:
        text = Path(path).read_bytes().decode()
    except OSError as exc:
        raise CommandError(f"{path!r} cannot be read: {exc.strerror or exc}", status=USAGE) from exc
    except UnicodeDecodeError:
        raise CommandError(f"{path!r} holds neither PEM nor JSON", status=USAGE) from None
    if not text.lstrip().startswith("{"):
        if "-----BEGIN" not in text:
            raise CommandError(f"{path!r} holds neither PEM nor JSON", status=USAGE)
        return text
    try:
        keys: CardKeys = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise CommandError(f"{path!r} is no JSON: {exc}", status=USAGE) from None
    return keys
