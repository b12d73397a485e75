"""Agents for the command to talk to, served by the command itself: ``trio-a2a serve agents:able``."""

from functools import partial

import attrs
import trio

import trio_a2a
from trio_a2a.server import BearerTokenAuthenticator
from trio_a2a.stores import InMemoryPushConfigStore
from trio_a2a.types import AgentCapabilities, Part
from trio_a2a.wire.signing import sign_card

TOKEN = "s3cret-token"
KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "VjuXxIUDERSPhb2F7fJLps9TJN7Bva43IdmvVIeJr24",
    "y": "As-TapPfp7Bz2N0q9UE1rTHB-RatQwf6uDpgZ_TqljM",
    "d": "qSzjXhbT460W6HlHk_L13Zg_w6JSv_i_XTO_u5MKqjI",
}
PUBLIC = {name: value for name, value in KEY.items() if name != "d"}


async def obey(context, updater):
    """Does what the first word of the message says."""
    order, _, rest = context.text().partition(" ")
    if order == "reply":
        await updater.reply(rest)
        return
    await updater.start_work("thinking")
    match order:
        case "hold":
            await trio.sleep_forever()
        case "ask":
            await updater.require_input("Which one?")
        case "fail":
            await updater.fail("It is \x1b[31mbroken\x1b[0m.")
        case "parts":
            # What came, told in words: the sender sees whether it arrived whole.
            for part in context.message.parts[1:]:
                content = part.raw.decode() if part.raw is not None else part.data
                await updater.add_artifact(f"{part.kind} {part.filename} {part.media_type} {content}", name="part")
            await updater.complete()
        case "files":
            await updater.add_artifact(
                [
                    Part(raw=b"one", filename="../../escape.txt", media_type="text/plain"),
                    Part(raw=b"two", filename="/etc/escape.txt", media_type="text/plain"),
                    Part(data={"answer": 42}),
                    Part(url="https://example.com/far"),
                ],
                name="results",
            )
            await updater.complete()
        case _:
            async with updater.artifact(name="greeting") as out:
                for piece in ("Hello,", " world", "\n", "and ", rest or "good bye"):
                    await out.write(piece)
            await updater.complete("done")


_card = trio_a2a.agent_card("Obedient", "Does what it is told.")
able = trio_a2a.Agent(
    _card,
    obey,
    push=InMemoryPushConfigStore(),
    check_input_modes=False,
    extended_card=attrs.evolve(_card, description="Does more than it says."),
    card_signer=partial(sign_card, key=KEY, kid="test"),
)
blocking = trio_a2a.Agent(attrs.evolve(_card, capabilities=AgentCapabilities(streaming=False)), obey)
private = trio_a2a.Agent(_card, obey, authenticator=BearerTokenAuthenticator({TOKEN: "me"}))
