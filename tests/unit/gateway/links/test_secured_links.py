"""Links with keys: who proves what, who is refused, and what a change of keys does to links that run."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from time import monotonic

import pytest
from tests.kit.engines import federation
from tests.kit.linked_gateways import LinkedGateway, all_up, linked
from tests.kit.waiting import eventually

from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.gateway.trust.refusals import Refusal
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.making import make_keys, revoke
from mangrove.host.keys.ring import KeyRing
from mangrove.host.keys.rotation import rotate
from mangrove.model.address import Address
from mangrove.overlay.protocol.control_messages import Hello, Renewal, RenewalStep, control_frame
from mangrove.overlay.protocol.frames import PROTOCOL_VERSION

CHAIN = federation(("a", "b"), ("b", "c"))


def folder(directory: Path, domain: str) -> str:
    return str(KeyDirectory(directory).domain(domain).path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("keys") / "keys"
    make_keys(CHAIN, directory)
    return directory


@pytest.fixture
async def chain(made: Path) -> AsyncIterator[dict[str, LinkedGateway]]:
    async with linked(CHAIN, {name: KeysInForce.read(folder(made, name)) for name in "abc"}) as gateways:
        await all_up(gateways)
        yield gateways


async def refused(gateway: LinkedGateway, reason: Refusal) -> None:
    async def counted() -> bool:
        return gateway.links.refusals.counts[reason] > 0

    await eventually(counted, f"{gateway.domain} should refuse: {reason}")


async def said(address: Address, data: bytes) -> bytes:
    """What a gateway answers to bytes, until it closes."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 10.0)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def greet(gateway: LinkedGateway, context: ssl.SSLContext, hello: bytes) -> bytes:
    """Do the handshake as a stranger would, and greet."""
    try:
        reader, writer = await asyncio.open_connection(*gateway.address, ssl=context)
    except (ssl.SSLError, ConnectionError):
        return b""
    try:
        writer.write(hello)
        return await asyncio.wait_for(reader.read(), 10.0)
    except (ssl.SSLError, ConnectionError):
        return b""
    finally:
        writer.close()


def hello_of(domain: str, epoch: int = 1) -> bytes:
    greeting = Hello(
        protocol=PROTOCOL_VERSION,
        federation=CHAIN.name,
        topology=CHAIN.topology_hash(),
        domain=domain,
        epoch=epoch,
    )
    return control_frame(greeting).encode()


async def test_neighbours_prove_who_they_are_and_messages_cross_two_links(
    chain: dict[str, LinkedGateway],
) -> None:
    for number in range(200):
        chain["a"].send("c", b"%d" % number)

    async def arrived() -> bool:
        return sum(map(len, chain["c"].delivered)) == len(b"".join(b"%d" % n for n in range(200)))

    await eventually(arrived, "all should arrive")
    assert all(link.secured for each in chain.values() for link in each.links)
    assert chain["b"].audit.figures().counts == {"link opened": 2}


async def test_without_tls_nobody_gets_in_and_is_told_so(chain: dict[str, LinkedGateway]) -> None:
    """The takeover: a neighbour's name and a later start, and no key."""
    answer = await said(chain["b"].address, hello_of("a", epoch=2**62))
    assert b"takes no calls without TLS" in answer
    await refused(chain["b"], Refusal.NO_TLS)
    assert chain["b"].links["a"].connects == 1
    assert chain["b"].engine.usable("a")


@pytest.mark.parametrize("said_by", ["b", "a"])
async def test_a_neighbours_key_speaks_for_its_own_domain_alone(
    chain: dict[str, LinkedGateway], made: Path, said_by: str
) -> None:
    """`c` is a neighbour of `b`, with a good key, and says that it is `a`, which started later."""
    context = KeyRing.read(folder(made, "c")).client_context()
    await greet(chain["b"], context, hello_of(said_by, epoch=2**62))
    await refused(chain["b"], Refusal.OTHER_DOMAIN)
    assert chain["b"].links["a"].connects == 1


async def test_a_later_start_displaces_only_with_the_same_identity(
    chain: dict[str, LinkedGateway], made: Path
) -> None:
    context = KeyRing.read(folder(made, "a")).client_context()
    task = asyncio.create_task(greet(chain["b"], context, hello_of("a", epoch=2**61)))

    async def displaced() -> bool:
        return chain["b"].links["a"].epoch == 2**61

    await eventually(displaced, "who has the key of a may start a later gateway of a")
    task.cancel()


@pytest.mark.parametrize("what", ["of another federation", "of a domain that is no neighbour", "none"])
async def test_other_keys_are_refused(
    chain: dict[str, LinkedGateway], made: Path, tmp_path: Path, what: str
) -> None:
    if what == "of another federation":
        make_keys(CHAIN, tmp_path / "theirs")
        context, reason = KeyRing.read(folder(tmp_path / "theirs", "a")).client_context(), Refusal.UNTRUSTED
        context.verify_mode = ssl.CERT_NONE
    elif what == "none":
        context, reason = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), Refusal.HANDSHAKE
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context, reason = KeyRing.read(folder(made, "c")).client_context(), Refusal.STRANGER
    await greet(chain["a"], context, hello_of("b", epoch=2**62))
    await refused(chain["a"], reason)
    assert chain["a"].links["b"].connects == 1


async def test_an_older_tls_is_refused(chain: dict[str, LinkedGateway], made: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    await greet(chain["b"], context, hello_of("a"))
    await refused(chain["b"], Refusal.HANDSHAKE)


async def test_who_says_half_a_greeting_in_tls_costs_no_tls_state(chain: dict[str, LinkedGateway]) -> None:
    writers = []
    for _ in range(300):
        _, writer = await asyncio.open_connection(*chain["b"].address)
        writer.write(b"\x16\x03\x01\x02\x00" + bytes(100))
        writers.append(writer)
    await refused(chain["b"], Refusal.TOO_MANY)
    links = chain["b"].links
    assert len(links.admission) <= 128
    assert all(each._stream is None or each._stream._channel is None for each in links.admission._place)
    assert all(each.engine.usable(link.peer) for each in chain.values() for link in each.links)
    for writer in writers:
        writer.close()


async def test_a_gateway_without_keys_says_so_to_one_with_keys(made: Path) -> None:
    pair = federation(("a", "b"))
    with_keys = {name: KeysInForce.read(folder(made, name)) for name in "ab"}
    for secured, reasons in (
        ("a", {"a": Refusal.NO_TLS, "b": Refusal.TLS}),
        ("b", {"a": Refusal.GREETING, "b": Refusal.NO_TLS}),
    ):
        keys: dict[str, KeysInForce | None] = {"a": None, "b": None, secured: with_keys[secured]}
        async with linked(pair, keys) as gateways:
            for name, reason in reasons.items():
                await refused(gateways[name], reason)
            assert not gateways["a"].engine.usable("b")


async def load(gateway: LinkedGateway, domain: str, until: Callable[[], bool]) -> int:
    """Messages in small groups for as long as it takes; how many."""
    sent = 0
    deadline = monotonic() + 20
    while not until():
        assert monotonic() < deadline, "it should have happened by now"
        for _ in range(20):
            gateway.send(domain, b"%06d" % sent)
            sent += 1
        await asyncio.sleep(0.002)
    return sent


async def test_other_keys_are_taken_over_by_running_links_without_loss(tmp_path: Path) -> None:
    make_keys(CHAIN, tmp_path / "keys")
    keys = {name: KeysInForce.read(folder(tmp_path / "keys", name)) for name in "abc"}
    async with linked(CHAIN, keys) as gateways:
        await all_up(gateways)
        links = [link for each in gateways.values() for link in each.links]
        await asyncio.to_thread(rotate, tmp_path / "keys")
        sent = await load(gateways["a"], "c", lambda: all(link.renewals for link in links))
        serials = {each.ring.credential for each in keys.values()}

        async def arrived() -> bool:
            return len(b"".join(gateways["c"].delivered)) >= 6 * sent

        await eventually(arrived, "all should arrive")
        assert b"".join(gateways["c"].delivered) == b"".join(b"%06d" % n for n in range(sent))
        assert [link.connects for link in links] == [1] * 4, "no link was lost"
        proofs = {link.connection.proof.certificate for link in links}  # type: ignore[union-attr]
        assert proofs <= serials, "all links run with the certificates in force"


async def test_a_link_of_a_revoked_gateway_is_closed_and_the_others_go_on(tmp_path: Path) -> None:
    make_keys(CHAIN, tmp_path / "keys")
    keys = {name: KeysInForce.read(folder(tmp_path / "keys", name)) for name in "abc"}
    async with linked(CHAIN, keys) as gateways:
        await all_up(gateways)
        await asyncio.to_thread(revoke, tmp_path / "keys", "c")
        b = gateways["b"]
        sent = await load(gateways["a"], "b", lambda: not b.engine.usable("c"))
        await refused(b, Refusal.WITHDRAWN)
        assert "revoked" in b.links["c"].last_error or "certificate" in b.links["c"].last_error

        async def arrived() -> bool:
            return len(b"".join(b.delivered)) >= 6 * sent

        await eventually(arrived, "all should arrive")
        assert b"".join(b.delivered) == b"".join(b"%06d" % n for n in range(sent))
        assert b.links["a"].connects == 1
        failed = [event for event in b.engine.take_events() if "certificate" in str(event)]
        assert failed, "the story tells why"


async def test_two_words_about_renewal_in_one_go_leave_the_link_up(chain: dict[str, LinkedGateway]) -> None:
    """Both sides have other keys: one asks to be called while the other's call is under way."""
    asked = control_frame(Renewal(step=RenewalStep.ASKED)).encode()
    link = chain["b"].links["a"]
    assert link.connection is not None
    link.connection.write([asked, asked])
    sent = await load(chain["a"], "b", lambda: link.renewals > 0)

    async def arrived() -> bool:
        return len(b"".join(chain["b"].delivered)) >= 6 * sent

    await eventually(arrived, "all should arrive")
    assert b"".join(chain["b"].delivered) == b"".join(b"%06d" % n for n in range(sent))
    assert link.connects == 1, "the link was not lost"


async def test_the_last_word_may_come_before_the_greeting_that_it_follows(tmp_path: Path) -> None:
    """The connections before and after are two: what is said on one overtakes what is said on the other."""
    pair = federation(("a", "b"))
    make_keys(pair, tmp_path / "keys")
    keys = {name: KeysInForce.read(folder(tmp_path / "keys", name)) for name in "ab"}
    async with linked(pair, keys, slower_s=0.1) as gateways:
        await all_up(gateways)
        a, b = gateways["a"], gateways["b"]
        await asyncio.to_thread(rotate, tmp_path / "keys")
        sent = await load(b, "a", lambda: a.links["b"].renewals > 0)

        async def arrived() -> bool:
            return len(b"".join(a.delivered)) >= 6 * sent

        await eventually(arrived, "all should arrive")
        assert b"".join(a.delivered) == b"".join(b"%06d" % n for n in range(sent))
        assert (a.links["b"].connects, b.links["a"].connects) == (1, 1)
