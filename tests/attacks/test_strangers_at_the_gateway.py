"""Somebody at a gateway's port who is not its neighbour: he gets nowhere, and others do not notice.

Each attacker has what its test says: no key, a key of another federation, an expired one, or that of another
domain.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from datetime import timedelta
from pathlib import Path

from tests.kit.battlefield import NAME, Battlefield
from tests.kit.forged_certificates import (
    TLS12,
    careless_context,
    issued,
    issued_by_a_gateway,
    of_a_broker,
    of_a_gateway,
    of_no_authority,
)
from tests.kit.mutation import Mutator, load_corpus
from tests.kit.rogue_gateway import RogueGateway

from mangrove.host.keys.certificates import IDENTITY_DAYS, today
from mangrove.host.keys.making import make_keys
from mangrove.model.audit.entry import AuditKind
from mangrove.model.security.identity import Role
from mangrove.overlay.protocol.frames import Frame, FrameType

REFUSED = AuditKind.CONNECTION_REFUSED
LATER_S = 1e9
CROWD = 1_000
MUTATED = 600


async def gets_nowhere(field: Battlefield, context: ssl.SSLContext | None, *words: str) -> None:
    """He calls c, says that he is b and has started later than b, and is refused; b's link goes on."""

    async def attack() -> None:
        async with RogueGateway(field.gateway_of("c"), context) as rogue:
            rogue.say(field.hello("b", LATER_S))
            assert await rogue.until_closed(), "he was let in"
            assert not any(frame.type is FrameType.HEARTBEAT for frame in rogue.heard), "the link was his"

    await field.refuses("c", REFUSED, *words, attack=attack)


async def test_the_takeover_without_any_key(field: Battlefield) -> None:
    """What once took a link over, with 4,683 of 10,588 messages lost: a HELLO with a later start time."""
    await gets_nowhere(field, None, "without TLS")


async def test_tls_without_a_certificate(field: Battlefield) -> None:
    await gets_nowhere(field, careless_context())


async def test_a_certificate_that_he_signed_himself(field: Battlefield) -> None:
    await gets_nowhere(field, of_no_authority(NAME, "b"))


async def test_the_key_of_another_federation_of_the_same_name(field: Battlefield, tmp_path: Path) -> None:
    other = make_keys(field.launched.federation, tmp_path / "keys")
    await gets_nowhere(field, of_a_gateway(other.domain("b")))


async def test_a_certificate_for_another_federation_by_the_same_authority(field: Battlefield) -> None:
    await gets_nowhere(field, issued(field.authority(), "elsewhere", "b"))


async def test_an_expired_certificate(field: Battlefield) -> None:
    long_ago = today() - timedelta(days=IDENTITY_DAYS + 1)
    await gets_nowhere(field, issued(field.authority(), NAME, "b", now=long_ago))


async def test_a_certificate_of_the_future(field: Battlefield) -> None:
    await gets_nowhere(field, issued(field.authority(), NAME, "b", now=today() + timedelta(days=7)))


async def test_the_key_of_another_domain(field: Battlefield) -> None:
    """He has m's key, and m is a neighbour of c; but he says that he is b."""
    await gets_nowhere(field, of_a_gateway(field.keys_of("m")))


async def test_the_key_of_a_domain_that_is_no_neighbour(field: Battlefield) -> None:
    await gets_nowhere(field, of_a_gateway(field.keys_of("a")))


async def test_the_certificate_of_a_broker(field: Battlefield) -> None:
    head = field.launched.endpoints["b"].head.name
    await gets_nowhere(field, of_a_broker(field.keys_of("b"), head))


async def test_a_certificate_with_another_role(field: Battlefield) -> None:
    await gets_nowhere(field, issued(field.authority(), NAME, "b", Role.AGENT))


async def test_a_certificate_that_a_gateway_has_issued(field: Battlefield) -> None:
    await gets_nowhere(field, issued_by_a_gateway(field.keys_of("m"), NAME, "b"))


async def test_an_older_tls(field: Battlefield) -> None:
    await gets_nowhere(field, careless_context(version=TLS12))


async def test_a_greeting_that_was_overheard_is_said_again(field: Battlefield) -> None:
    """What b once sent to c, byte by byte, as who listens on the way has it: a handshake is not repeated."""
    heard: list[bytes] = []

    async def overhear() -> None:
        """Somebody between who carries the bytes of a real handshake, and keeps them."""
        context = of_a_gateway(field.keys_of("b"))
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        line = context.wrap_bio(incoming, outgoing)
        reader, writer = await asyncio.open_connection(*field.gateway_of("d"))
        for _ in range(10):
            with contextlib.suppress(ssl.SSLWantReadError):
                line.do_handshake()
                break
            heard.append(outgoing.read())
            writer.write(heard[-1])
            incoming.write(await reader.read(1 << 16))
        heard.append(outgoing.read())
        writer.transport.abort()

    await overhear()

    async def attack() -> None:
        async with RogueGateway(field.gateway_of("c")) as rogue:
            rogue.say(b"".join(heard))
            assert await rogue.until_closed()

    await field.refuses("c", REFUSED, attack=attack)


async def test_frames_before_any_greeting(field: Battlefield) -> None:
    """Frames that say they are of b, and lengths without an end, in the clear and within TLS."""
    endless = Frame(FrameType.DATA, b"x" * (4 << 20)).encode()[: 1 << 20]

    async def attack() -> None:
        for context in (None, of_a_gateway(field.keys_of("m"))):
            for said in (endless, os.urandom(1000), b"GET / HTTP/1.1\r\n\r\n", b"MG" * 10_000):
                async with RogueGateway(field.gateway_of("c"), context) as rogue:
                    rogue.say(said)
                    assert await rogue.until_closed(), said[:20]

    await field.refuses("c", REFUSED, attack=attack)


async def test_slow_handshakes_by_the_thousand(field: Battlefield) -> None:
    """He opens a thousand connections and says one byte on each; neighbours can still call, at once."""

    async def attack() -> None:
        sockets: list[socket.socket] = []
        try:
            for _ in range(CROWD):
                each = socket.socket()
                each.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    each.connect(tuple(field.gateway_of("c")))
                sockets.append(each)
                if len(sockets) % 50 == 0:
                    await asyncio.sleep(0.01)
            for each in sockets:
                with contextlib.suppress(OSError):
                    each.send(b"\x16")
            async with RogueGateway(field.gateway_of("c"), of_a_gateway(field.keys_of("m"))) as neighbour:
                neighbour.say(field.hello("m"))
                hello = await neighbour.until_heard(FrameType.HELLO, within_s=2.0)
                assert hello, "a neighbour gets no place in the crowd"
        finally:
            for each in sockets:
                each.close()

    await field.refuses("c", REFUSED, attack=attack)


async def test_handshakes_that_are_broken_off_by_the_hundred(field: Battlefield) -> None:
    context = careless_context()

    async def one() -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                _, writer = await asyncio.open_connection(
                    *field.gateway_of("c"), ssl=context, server_hostname=""
                )
                writer.transport.abort()

    async def attack() -> None:
        for _ in range(10):
            await asyncio.gather(*(one() for _ in range(20)))

    await field.refuses("c", REFUSED, attack=attack)


async def test_mutated_handshakes_and_frames_at_the_port(field: Battlefield) -> None:
    """Hundreds of connections, in the clear or with TLS and the key of a neighbour, with mutated bytes."""
    mutate = Mutator(load_corpus(), seed=7)
    hello = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        careless_context().wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
    mutate_handshake = Mutator([hello.read()], seed=8)
    neighbour = of_a_gateway(field.keys_of("m"))

    async def one(number: int) -> None:
        context = neighbour if number % 20 == 0 else None
        data = mutate() if number % 2 or context else mutate_handshake()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                _, writer = await asyncio.open_connection(
                    *field.gateway_of("c"), ssl=context, server_hostname="" if context else None
                )
                writer.write(data)
                await writer.drain()
                writer.transport.abort()

    async def attack() -> None:
        for start in range(0, MUTATED, 40):
            await asyncio.gather(*(one(start + number) for number in range(40)))

    await field.refuses("c", REFUSED, attack=attack)
