"""A neighbour with a key of its own, which somebody has taken over: it may say what it likes of itself.

In the name of others it is not believed; what it sends costs its own link at most.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from tests.kit.attachments import message
from tests.kit.battlefield import NAME, Battlefield
from tests.kit.forged_certificates import of_a_gateway
from tests.kit.rogue_gateway import RogueGateway
from tests.kit.waiting import eventually

from mangrove.host.keys.making import revoke
from mangrove.model.audit.entry import AuditKind
from mangrove.overlay.protocol.control_messages import (
    ControlBody,
    DangerNotice,
    Digest,
    Heartbeat,
    HeartbeatKind,
    InterestUpdate,
    LinkReport,
    LinkStateAd,
    RouteAck,
    RouteSetup,
    RouteTeardown,
)
from mangrove.overlay.protocol.frames import HEADER, TAG_BYTES, Frame, FrameType, Tag
from mangrove.overlay.protocol.signed import InterestStatement, Signed
from mangrove.overlay.protocol.signed_bodies import Signable, signed_frame, words
from mangrove.overlay.trust.trust import KeyTrust

REFUSED = AuditKind.MESSAGE_REFUSED
EVER = 1 << 62
"""An epoch, or a version, that is later than all others."""
DOWN = LinkReport(up=False, delay_ms=1.0)


@asynccontextmanager
async def in_place_of_m(field: Battlefield, at: str = "a") -> AsyncIterator[RogueGateway]:
    """The attacker, as m, on a link that is tested and usable."""
    async with RogueGateway(field.gateway_of(at), of_a_gateway(field.keys_of("m"))) as rogue:
        rogue.say(field.hello("m"))
        assert await rogue.until_heard(FrameType.HEARTBEAT), (
            f"m is a neighbour: {rogue.problem}{rogue.goodbye}"
        )
        yield rogue


def signed_by_m(field: Battlefield, said: Signable) -> Signed:
    """What m signs with its own key, whoever it speaks of."""
    ring = field.ring_of("m")
    return KeyTrust(NAME, ring, ring, time.time_ns).signed(words(said))


async def is_not_believed(field: Battlefield, *said: ControlBody | Frame, words: tuple[str, ...]) -> None:
    """The attacker says something to a; others do not notice, and a writes down who said it."""

    async def attack() -> None:
        async with in_place_of_m(field) as rogue:
            for _ in range(3):
                rogue.say(*said)
                await rogue.drain()
            await asyncio.sleep(0.3)

    await field.refuses("a", REFUSED, "'peer': 'm'", *words, attack=attack)


def ad_of_b() -> LinkStateAd:
    return LinkStateAd(origin="b", epoch=EVER, sequence=EVER, links={"a": DOWN, "c": DOWN})


def route_of_c() -> RouteSetup:
    return RouteSetup(origin="c", epoch=EVER, label=7, path=["c", "m", "a"], version=1, topic_class=1)


async def test_link_state_about_the_links_of_others(field: Battlefield) -> None:
    """All links of b are down, it says: unsigned, and under its own signature."""
    forged = signed_frame(FrameType.LINK_STATE, signed_by_m(field, ad_of_b()))
    await is_not_believed(field, ad_of_b(), forged, words=("'origin': 'b'", "link state"))


async def test_a_signature_that_is_cut_or_of_something_else(field: Battlefield) -> None:
    signed = signed_by_m(field, ad_of_b())
    cut = replace(signed, signature=signed.signature[:-1])
    other = replace(signed, said=words(replace(ad_of_b(), sequence=1)))
    nobody = replace(signed, credential=b"\x30\x82" + bytes(300))
    frames = [signed_frame(FrameType.LINK_STATE, each) for each in (cut, other, nobody)]
    await is_not_believed(field, *frames, words=("'origin': 'b'",))


async def test_what_others_have_signed_is_said_again_later(field: Battlefield) -> None:
    """Everything that a has flooded, with true signatures, again and again: old words change nothing."""

    async def attack() -> None:
        async with in_place_of_m(field) as rogue:
            await asyncio.sleep(0.5)
            replayed = [f for f in rogue.heard if f.type in (FrameType.LINK_STATE, FrameType.INTEREST)]
            assert replayed
            for _ in range(20):
                rogue.say(*replayed)
                await rogue.drain()
            await asyncio.sleep(0.3)

    await field.withstands(attack)


async def test_interest_of_others(field: Battlefield) -> None:
    """Nobody at c wants anything any more, it says; and everybody wants everything."""
    epoch = (await field.running.gateway("c")).epoch
    update = InterestUpdate(origin="c", epoch=epoch, version=EVER, snapshot=True, added=[])
    statement = InterestStatement(origin="c", epoch=epoch, version=EVER, change=bytes(32), table=bytes(32))
    forged = replace(update, statement=signed_by_m(field, statement))
    every = replace(update, origin="b", added=[">"], snapshot=False)
    await is_not_believed(field, update, forged, every, words=("interest",))


async def test_routes_in_the_name_of_others(field: Battlefield) -> None:
    forged = signed_frame(FrameType.ROUTE, signed_by_m(field, route_of_c()))
    await is_not_believed(field, route_of_c(), forged, words=("'origin': 'c'", "route"))


async def test_answers_and_ends_of_routes_that_are_not_its_own(field: Battlefield) -> None:
    """It confirms, and tears down, routes that do not lead through it."""
    said: list[ControlBody] = []
    for label in range(1, 6):
        told = {"origin": "a", "epoch": EVER, "label": label, "path": ["a", "b", "c"], "version": EVER}
        said.append(RouteAck(**told, ok=True))  # type: ignore[arg-type]
        said.append(RouteTeardown(**{**told, "origin": "c", "path": ["c", "b", "a"]}))  # type: ignore[arg-type]

    async def attack() -> None:
        async with in_place_of_m(field) as rogue:
            rogue.say(*said)
            await asyncio.sleep(0.3)

    await field.withstands(attack)


async def test_regions_that_others_should_have_declared(field: Battlefield) -> None:
    notice = DangerNotice(
        name="everything", version=EVER, told_at="b", centre=(0.0, 0.0), radius_km=20_000.0, left_s=1e6
    )
    forged = signed_frame(FrameType.LINK_STATE, signed_by_m(field, notice))
    await is_not_believed(field, notice, forged, words=("region",))


async def forged_data(field: Battlefield, count: int) -> bytes:
    """Messages that c should have sent, under the names of those that it sends next; half with a tag."""
    order = field.launched.federation.domain_order
    place = order.index("a")
    frame = Frame(
        FrameType.DATA,
        message("honest.c", b"999999999"),
        hop_limit=9,
        origin=order.index("c"),
        epoch=(await field.running.gateway("c")).epoch,
        destinations=1 << place,
    )
    tags = ((), (Tag(place, bytes(TAG_BYTES)),))
    return b"".join(
        replace(frame, flow_id=1 + number % 2, sequence=number // 2, tags=tags[number % 2]).encode()
        for number in range(2, count + 2)
    )


@pytest.mark.parametrize("count", [12_000, 100_000])
async def test_bursts_of_frames_that_name_another_origin(field: Battlefield, count: int) -> None:
    """All in one breath: they are refused as fast as others let them, and others do not notice."""
    burst = await forged_data(field, count)

    async def forgeries() -> int:
        ignored = (await field.running.gateway("a")).ignored
        return sum(times for what, times in ignored.items() if what.startswith("data from m"))

    before = await forgeries()

    async def attack() -> None:
        async with in_place_of_m(field) as rogue:
            rogue.say(burst)

            async def all_counted() -> bool:
                return await forgeries() >= before + count

            await eventually(all_counted, "every single one should be counted", timeout_s=100)
            rogue.say(Digest(known={}))
            assert not rogue.closed.is_set(), "the link goes on: it may carry what others have sent"

    await field.refuses("a", REFUSED, "'peer': 'm'", "data", attack=attack)


async def test_frames_in_the_receivers_own_name(field: Battlefield) -> None:
    order = field.launched.federation.domain_order
    frame = Frame(FrameType.DATA, message("honest.a", b"1"), hop_limit=9, origin=order.index("a"), epoch=EVER)
    await is_not_believed(field, replace(frame, destinations=1 << order.index("a")), words=("data",))


async def loses_its_link(field: Battlefield, *said: bytes | Frame | ControlBody) -> None:
    """What is no frame, or beyond all limits, ends the link that it comes on, and nothing else."""

    async def attack() -> None:
        async with in_place_of_m(field) as rogue:
            for each in said:
                rogue.say(each)
                await rogue.drain()
            assert await rogue.until_closed(), "the link goes on"

    await field.withstands(attack)
    await field.written("a-gateway", AuditKind.LINK_CLOSED, "'peer': 'm'")


async def test_an_oversized_frame(field: Battlefield) -> None:
    fields = list(HEADER.unpack(Frame(FrameType.DATA).head()[: HEADER.size]))
    fields[3] = (1 << 32) - 1
    await loses_its_link(field, HEADER.pack(*fields) + b"x" * 1000)


async def test_pieces_without_an_end(field: Battlefield) -> None:
    """Of more frames than may have begun; how many bytes may is checked with mutated frames."""
    await loses_its_link(field, *(Frame(FrameType.PIECE, b"x" * 1000, stream=n) for n in range(1, 30)))


async def test_a_second_greeting_in_another_name(field: Battlefield) -> None:
    await loses_its_link(field, field.hello("b", 1e9))


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1e300])
async def test_heartbeats_that_cannot_be(field: Battlefield, odd: float) -> None:
    beat = Heartbeat(kind=HeartbeatKind.REGULAR, sequence=1, sent=odd, received=0, echo=odd, held=odd)
    await loses_its_link(field, beat)


async def test_what_it_says_that_others_know(field: Battlefield) -> None:
    """Digests by which a should believe that a later life of itself is known, or that all is known."""
    said = [Digest(known={"a": (EVER, EVER), "c": (EVER, EVER)}), Digest(known={})]

    async def attack() -> None:
        async with in_place_of_m(field) as rogue:
            for _ in range(50):
                rogue.say(*said)
            await rogue.drain()
            await asyncio.sleep(0.5)

    await field.withstands(attack)


async def test_subjects_and_commands_smuggled_in_bodies(field: Battlefield) -> None:
    """Bodies in its own name with wrong sizes, commands for the broker behind them, and inner subjects."""
    order = field.launched.federation.domain_order
    inner = ("$SYS.REQ.SERVER.PING", "$JS.API.STREAM.LIST", "_MGR._WHERE", "a b", ">")
    bodies = [
        b"LMSG honest.c 3\r\n1\r\nPUB honest.c 1\r\n1\r\n",
        b"LMSG honest.c 1\r\n1\r\nUNSUB 1\r\nLMSG x 1\r\n1\r\n",
        b"LMSG honest.c \r\nRS+ x\r\n 1\r\n1\r\n",
        *(message(subject, b"1") for subject in inner),
    ]
    frame = Frame(FrameType.DATA, hop_limit=9, origin=order.index("m"), epoch=time.time_ns())
    frames = [
        replace(frame, body=body, destinations=1 << order.index("a"), sequence=number)
        for number, body in enumerate(bodies, 1)
    ]

    async def attack() -> None:
        async with in_place_of_m(field) as rogue:
            rogue.say(*frames)
            await asyncio.sleep(0.3)

    await field.withstands(attack)


async def test_a_flood_of_words_for_the_agent(field: Battlefield) -> None:
    async def attack() -> None:
        async with in_place_of_m(field) as rogue:
            for _ in range(500):
                rogue.say(Frame(FrameType.MANAGEMENT, b'{"type": "nonsense"}' + b"x" * 1000))
            await rogue.drain()
            await asyncio.sleep(0.5)

    await field.withstands(attack)


async def test_a_revoked_key_ends_its_link_and_opens_no_other(field: Battlefield) -> None:
    """The last one, for m is out of the federation after it."""

    async def attack() -> None:
        async with in_place_of_m(field, "a") as at_a, in_place_of_m(field, "c") as at_c:
            await asyncio.to_thread(revoke, field.keys.path, "m")
            # Each gateway looks at its keys by itself: until its own link ends, it may not know.
            assert await at_a.until_closed(), "its link to a goes on"
            assert await at_c.until_closed(), "its link to c goes on"
        for site in ("a", "c"):
            async with RogueGateway(field.gateway_of(site), context) as again:
                again.say(field.hello("m"))
                assert await again.until_closed()
                assert not any(frame.type is FrameType.HEARTBEAT for frame in again.heard)

    context = of_a_gateway(field.keys_of("m"))
    await field.refuses("c", AuditKind.CONNECTION_REFUSED, "revoked", attack=attack)
