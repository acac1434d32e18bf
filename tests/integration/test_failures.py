"""Brokers, gateways and links that fail, and peers that send nonsense: traffic goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.forged_certificates import of_a_gateway
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.host.daemon import read_settings
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.model.address import Address
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.gateway_settings import GatewaySettings
from mangrove.model.shared_names import gateway_process
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.protocol.control_messages import Hello, control_frame
from mangrove.overlay.protocol.frames import LOWEST_PROTOCOL, PROTOCOL_VERSION, Frame, FrameType
from mangrove.testbed.local_federation import LocalFederation


async def crosses(chain: Running, text: bytes) -> None:
    """A message from Seattle reaches a subscriber in Orlando, possibly after some attempts."""
    async with (
        mangrove.connect(run_dir=chain.launched.directory, domain="seattle") as west,
        mangrove.connect(run_dir=chain.launched.directory, domain="orlando") as east,
    ):
        subscription = await east.subscribe("probe")

        async def arrives() -> bool:
            await west.publish("probe", text)
            try:
                return (await subscription.next(timeout=0.3)).data == text
            except TimeoutError:
                return False

        await eventually(arrives, "a message should cross the federation")


@pytest.mark.parametrize("broker", ["seattle-head", "orlando-head", "orlando-edge1", "denver-head"])
async def test_a_killed_broker_is_restarted_and_traffic_resumes(chain: Running, broker: str) -> None:
    site = chain.launched.sites[broker.split("-")[0]]
    process = site.brokers[broker]
    await crosses(chain, b"before")
    await kill(process)
    await crosses(chain, b"after")
    assert process.restarts >= 1


async def test_long_lived_clients_survive_the_restart_of_their_broker(chain: Running) -> None:
    async with (
        mangrove.connect(run_dir=chain.launched.directory, domain="seattle") as west,
        mangrove.connect(run_dir=chain.launched.directory, domain="orlando") as east,
    ):
        subscription = await east.subscribe("steady")
        await chain.knows_interest("seattle", "orlando", 1)
        for name in ("orlando-head", "orlando-edge1", "orlando-edge2"):
            await kill(chain.launched.sites["orlando"].brokers[name])

        async def arrives() -> bool:
            await west.publish("steady", b"x")
            try:
                await subscription.next(timeout=0.3)
            except TimeoutError:
                return False
            return True

        await eventually(arrives, "the old subscription should work again")


async def test_a_killed_gateway_is_restarted_and_learns_everything_anew(chain: Running) -> None:
    client = await nats.connect(chain.edge("orlando"))
    subscription = await client.subscribe("lasting")
    await chain.knows_interest("seattle", "orlando", 1)
    for domain in ("orlando", "denver", "seattle"):
        epoch = (await chain.gateway(domain)).epoch
        gateway = chain.launched.sites[domain].gateway
        await kill(gateway)
        await chain.links_up()
        await chain.knows_interest("seattle", "orlando", 1)
        assert (await chain.gateway(domain)).epoch > epoch
        publisher = await nats.connect(chain.head("seattle"))
        await publisher.publish("lasting", domain.encode())
        assert (await subscription.next_msg(timeout=5)).data == domain.encode()
        await publisher.close()
    await client.close()


async def kill(process: ManagedProcess) -> None:
    """Kill a supervised process by its id, and wait until its supervisor has it running again."""
    pid, restarts = process.pid, process.restarts
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    async def back() -> bool:
        return process.restarts > restarts and process.pid not in (None, pid)

    await eventually(back, f"{process.name} should be restarted")


async def test_what_is_published_while_the_far_broker_restarts_is_delivered_afterwards(
    chain: Running,
) -> None:
    """The gateway holds messages for its head broker while that is away."""
    await chain.at_rest()
    client = await nats.connect(chain.head("orlando"), reconnect_time_wait=0.05, max_reconnect_attempts=-1)
    subscription = await client.subscribe("held")
    await chain.knows_interest("seattle", "orlando", 1)
    publisher = await nats.connect(chain.head("seattle"))
    site = chain.launched.sites["orlando"]
    head = site.brokers["orlando-head"]
    assert head.pid is not None
    os.kill(head.pid, signal.SIGSTOP)  # not dead, only deaf
    try:
        for number in range(100):
            await publisher.publish("held", b"%d" % number)
        await publisher.flush()
        await asyncio.sleep(0.3)  # the gateway writes to a broker that does not read
    finally:
        os.kill(head.pid, signal.SIGCONT)
    received = [(await subscription.next_msg(timeout=5)).data for _ in range(100)]
    assert received == [b"%d" % number for number in range(100)]
    await client.close()
    await publisher.close()


async def test_what_arrives_while_the_head_is_dead_reaches_its_edges(
    chain: Running,
) -> None:
    """A restarted head would throw messages away until its edges are back; the gateway waits for them."""
    await chain.at_rest()
    plain = await nats.connect(chain.edge("orlando", 0))
    grouped = await nats.connect(chain.edge("orlando", 1))
    subscription = await plain.subscribe("while.dead")
    queue_subscription = await grouped.subscribe("while.>", "workers")
    await chain.knows_interest("seattle", "orlando", 2)
    publisher = await nats.connect(chain.head("seattle"))
    head = chain.launched.sites["orlando"].brokers["orlando-head"]
    assert head.pid is not None
    losses = gateway_log(chain, "orlando").count("lost the head broker")
    os.kill(head.pid, signal.SIGKILL)

    async def noticed() -> bool:
        return gateway_log(chain, "orlando").count("lost the head broker") > losses

    await eventually(noticed, "the gateway should notice", timeout_s=5)
    for number in range(100):
        await publisher.publish("while.dead", b"%d" % number)
    expected = [b"%d" % number for number in range(100)]
    assert [(await subscription.next_msg(timeout=10)).data for _ in range(100)] == expected
    assert [(await queue_subscription.next_msg(timeout=10)).data for _ in range(100)] == expected
    for client in (plain, grouped, publisher):
        await client.close()


async def test_a_black_hole_loses_nothing_once_it_is_gone(chain: Running) -> None:
    await chain.at_rest()
    client = await nats.connect(chain.head("orlando"))
    publisher = await nats.connect(chain.head("seattle"))
    subscription = await client.subscribe("hole")
    await chain.knows_interest("seattle", "orlando", 1)
    await chain.launched.reshape("seattle", "denver", black_hole=True)
    for number in range(50):
        await publisher.publish("hole", b"%d" % number)
    with pytest.raises(nats.errors.TimeoutError):
        await subscription.next_msg(timeout=0.5)
    await chain.launched.reshape("seattle", "denver", black_hole=False)
    received = [(await subscription.next_msg(timeout=5)).data for _ in range(50)]
    assert received == [b"%d" % number for number in range(50)]
    await client.close()
    await publisher.close()


async def test_delay_can_be_changed_while_running(chain: Running) -> None:
    client = await nats.connect(chain.head("orlando"))
    publisher = await nats.connect(chain.head("seattle"))

    async def echo(message: Msg) -> None:
        await message.respond(b"")

    await client.subscribe("echo", cb=echo)
    await eventually(lambda: answers(publisher), "the echo should answer")
    loop = asyncio.get_running_loop()
    await chain.launched.reshape("seattle", "denver", delay_ms=150.0)
    start = loop.time()
    await publisher.request("echo", b"", timeout=5)
    slow = loop.time() - start
    await chain.launched.reshape("seattle", "denver", delay_ms=2.0)
    assert slow >= 0.3, "two crossings of a link of 150 ms"
    await client.close()
    await publisher.close()


async def answers(publisher: Client) -> bool:
    try:
        await publisher.request("echo", b"", timeout=1)
    except nats.errors.Error:
        return False
    return True


# -- peers that send nonsense -----------------------------------------------------------------------------


def gateway_log(chain: Running, domain: str) -> str:
    return chain.launched.run.log(gateway_process(domain)).read_text()


async def send_to_gateway(chain: Running, domain: str, data: bytes) -> bytes:
    """Connect to a gateway's port, send bytes, and read until it closes the connection.

    Where domains have keys, with those of denver.
    """
    endpoints, keys = chain.launched.endpoints[domain], chain.launched.keys
    context = None if keys is None else of_a_gateway(KeyDirectory(keys).domain("denver"))
    reader, writer = await asyncio.open_connection(
        *endpoints.gateway, ssl=context, server_hostname=None if context is None else ""
    )
    writer.write(data)
    await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
    else:  # TLS is not closed on one side alone
        asyncio.get_running_loop().call_later(1.0, writer.close)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


def stranger_hello(chain: Running, **changes: object) -> bytes:
    fields: dict[str, object] = {
        "protocol": LOWEST_PROTOCOL,
        "newest": PROTOCOL_VERSION,
        "federation": "chain",
        "topology": chain.launched.federation.topology_hash(),
        "domain": "denver",
        "epoch": 1,
    }
    return control_frame(Hello(**(fields | changes))).encode()  # type: ignore[arg-type]


WITHOUT_KEYS = ("cut off inside a frame", "no link between 'seattle' and 'orlando'")


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda chain: b"GET / HTTP/1.1\r\n\r\n", "garbage where a frame should start"),
        (lambda chain: b"\x00" * 5000, "garbage where a frame should start"),
        (lambda chain: stranger_hello(chain)[:-3], "cut off inside a frame"),
        (lambda chain: stranger_hello(chain, federation="atlantic"), "belongs to federation 'atlantic'"),
        (lambda chain: stranger_hello(chain, protocol=99), "speaks protocol 99"),
        (lambda chain: stranger_hello(chain, topology="f" * 24), "another federation file"),
        (lambda chain: stranger_hello(chain, domain="orlando"), "no link between 'seattle' and 'orlando'"),
        (lambda chain: Frame(FrameType.DATA, b"x").encode(), "began with a DATA frame"),
    ],
    ids=["http", "zeros", "truncated", "federation", "version", "topology", "not a neighbour", "no hello"],
)
async def test_nonsense_closes_that_connection_alone(chain: Running, build: object, reason: str) -> None:
    if chain.launched.keys is not None and reason in WITHOUT_KEYS:
        pytest.skip("said by who has proven another name, or in TLS, it is refused for another reason")
    before = gateway_log(chain, "seattle").count(reason)
    assert callable(build)

    async def logged() -> bool:
        """Of many refusals in one second only the first are told one by one: then it is said again."""
        await send_to_gateway(chain, "seattle", build(chain))
        deadline = time.monotonic() + 1.5
        while gateway_log(chain, "seattle").count(reason) == before:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    await eventually(logged, f"the log should say: {reason}")
    await chain.links_up()
    await crosses(chain, b"still here")


async def test_nonsense_after_a_good_greeting_is_survived(chain: Running) -> None:
    """Who takes a neighbour's place and then sends garbage is thrown out; the neighbour comes back."""

    async def logged() -> bool:
        """Of many refusals in one second only the first are told one by one: then it is said again."""
        greeting = stranger_hello(chain, epoch=time.time_ns())
        await send_to_gateway(chain, "seattle", greeting + b"MG\xff" + bytes(64))
        await asyncio.sleep(0.5)
        return "unknown frame type 255" in gateway_log(chain, "seattle")

    await eventually(logged, "the log should say what was refused")
    await chain.links_up()
    await crosses(chain, b"still here")


async def test_two_gateways_of_one_domain_are_reported_on_both_sides(chain: Running, tmp_path: Path) -> None:
    settings = read_settings(chain.launched.run.settings(gateway_process("denver")), GatewaySettings)
    with PortReservation() as ports:
        listen = (Address("127.0.0.1", ports.take("127.0.0.1")),)
        second = msgspec.structs.replace(
            settings, listen=listen, management_urls=(), events_path="", audit_path=""
        )
        path = tmp_path / "second.json"
        path.write_bytes(msgspec.json.encode(second))
        impostor = ManagedProcess(
            "second-denver",
            [sys.executable, "-m", "mangrove.gateway.daemon", str(path)],
            log_path=tmp_path / "second.log",
            ready_text="gateway ready",
        )
        await impostor.start()
        try:

            async def reported() -> bool:
                claim = "two gateways claim the domain 'denver'"
                return claim in gateway_log(chain, "orlando") and claim in gateway_log(chain, "denver")

            await eventually(reported, "both sides should report the second gateway")
        finally:
            await impostor.stop()
    await chain.links_up()
    await crosses(chain, b"one is enough")


async def test_a_malformed_body_is_dropped_and_counted(chain: Running) -> None:
    """A frame whose body is not whole messages must not reach the head broker."""
    await chain.at_rest()
    order = chain.launched.federation.domain_order
    bad = [
        b"LMSG a 3\r\nabcdef\r\n",
        b"PUB a 1\r\nx\r\n",
        b"LMSG $SYS.X 0\r\n\r\n",
        b"LMSG a 10\r\nshort\r\n",
    ]
    frames = b"".join(
        Frame(
            FrameType.DATA,
            body,
            hop_limit=5,
            origin=order.index("denver"),
            epoch=1,
            destinations=1 << order.index("seattle"),
            sequence=number,
        ).encode()
        for number, body in enumerate(bad)
    )
    attached = gateway_log(chain, "seattle").count("attached to")
    await send_to_gateway(chain, "seattle", stranger_hello(chain, epoch=time.time_ns()) + frames)
    assert (await chain.gateway("seattle")).malformed_bodies == len(bad)
    assert gateway_log(chain, "seattle").count("attached to") == attached, (
        "the head connection was not disturbed"
    )
    await chain.links_up()


async def test_a_slow_link_drops_the_oldest_and_counts_it(tmp_path: Path) -> None:
    """Queues are bounded in bytes, and what does not fit is counted by topic and reason."""
    federation = Federation(
        name="narrow",
        domains={name: Domain(name=name, base_port=1) for name in ("a", "b")},
        links=(Link(between=("a", "b")),),
        queue_bytes=1 << 16,
    )
    async with LocalFederation(federation, tmp_path / "narrow", ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        client = await nats.connect(running.head("b"))
        publisher = await nats.connect(running.head("a"))
        await client.subscribe("flood")
        await running.knows_interest("a", "b", 1)
        await launched.reshape("a", "b", black_hole=True)
        payload = b"x" * 50_000
        for _ in range(400):
            await publisher.publish("flood", payload)
        await publisher.flush()

        async def counted() -> bool:
            status = await running.gateway("a")
            return any(drop.topic == "flood" and "queue to b full" in drop.reason for drop in status.drops)

        await eventually(counted, "drops should be counted")
        status = await running.gateway("a")
        assert status.links[0].queued_bytes <= (1 << 16) + (1 << 19), "the bound, and one frame at most"
        await client.close()
        await publisher.close()


def test_the_engine_of_a_test_peer_is_the_real_one(chain: Running) -> None:
    """The greeting built by hand above is what a production engine sends."""
    federation = chain.launched.federation
    engine = OverlayEngine(federation, "denver", 1)
    assert engine.hello().encode() == stranger_hello(chain)
