"""What agents say to agents: carried between management brokers, limited, and seen by nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.running import CHAIN, Running
from tests.kit.waiting import eventually

from mangrove.config import parse_federation
from mangrove.gateway.management.agent_mail import NOT_LINKED
from mangrove.model.agents.names import from_peer_subject, to_peer_subject
from mangrove.overlay.links.management import BYTES_A_SECOND, MAX_MANAGEMENT_BYTES, TOO_FAST, TOO_LARGE
from mangrove.testbed.local_federation import LocalFederation

Agent = Callable[[str], Awaitable["FakeAgent"]]


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Seattle – Denver – Orlando, without agents of their own."""
    federation = parse_federation(CHAIN, "chain").require()
    directory = tmp_path_factory.mktemp("state") / "chain"
    async with LocalFederation(federation, directory, ephemeral=True, agents=False) as launched:
        found = Running(launched)
        await found.links_up()
        yield found


class FakeAgent:
    """Says and hears on a management broker what an agent would."""

    def __init__(self, domain: str, client: Client) -> None:
        self.domain = domain
        self.client = client
        self.heard: list[tuple[str, bytes]] = []

    async def listen(self) -> None:
        async def hear(message: Msg) -> None:
            self.heard.append((message.subject.rpartition(".")[2], message.data))

        await self.client.subscribe(from_peer_subject(self.domain, "*"), cb=hear)
        await self.client.flush()

    async def say(self, peer: str, body: bytes) -> None:
        await self.client.publish(to_peer_subject(self.domain, peer), body)


@pytest.fixture
async def agent(running: Running) -> AsyncIterator[Agent]:
    async with AsyncExitStack() as stack:

        async def start(domain: str) -> FakeAgent:
            client = await running.as_agent(domain, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
            stack.push_async_callback(client.close)
            made = FakeAgent(domain, client)
            await made.listen()
            return made

        yield start


async def arrives(sender: FakeAgent, peer: str, receiver: FakeAgent, body: bytes) -> None:
    """Say it again and again until it is heard: as agents do."""

    async def heard() -> bool:
        with contextlib.suppress(nats.errors.Error):  # while the broker is away
            await sender.say(peer, body)
            await sender.client.flush(1)
        return (sender.domain, body) in receiver.heard

    await eventually(heard, f"{receiver.domain} should hear {body[:20]!r} of {sender.domain}")


async def test_agents_of_linked_domains_hear_each_other(running: Running, agent: Agent) -> None:
    seattle, denver, orlando = [await agent(name) for name in ("seattle", "denver", "orlando")]
    large = os.urandom(48 << 10)
    await seattle.say("denver", b"hello")
    await seattle.say("denver", large)
    await orlando.say("denver", b"from the other side")
    await denver.say("seattle", b"back")

    async def all_heard() -> bool:
        return len(denver.heard) == 3 and len(seattle.heard) == 1

    await eventually(all_heard, "all that was said should be heard")
    assert sorted(denver.heard) == sorted(
        [("seattle", b"hello"), ("seattle", large), ("orlando", b"from the other side")]
    )
    assert seattle.heard == [("denver", b"back")]
    assert orlando.heard == []
    (link,) = (await running.gateway("seattle")).links
    assert (link.management.sent, link.management.received) == (2, 1)
    assert link.management.sent_bytes == len(b"hello") + len(large)


async def test_one_hop_only_and_to_linked_domains_only(running: Running, agent: Agent) -> None:
    seattle, orlando = await agent("seattle"), await agent("orlando")
    for peer in ("orlando", "seattle", "nowhere"):
        await seattle.say(peer, b"too far")

    async def counted() -> bool:
        return (await running.gateway("seattle")).ignored.get(NOT_LINKED) == 3

    await eventually(counted, "messages to domains that are not linked should be counted")
    assert orlando.heard == []


async def test_what_is_too_large_is_dropped_and_the_link_stays(running: Running, agent: Agent) -> None:
    seattle, denver = await agent("seattle"), await agent("denver")
    await seattle.say("denver", bytes(MAX_MANAGEMENT_BYTES + 1))

    async def counted() -> bool:
        (link,) = (await running.gateway("seattle")).links
        return link.management.dropped.get(TOO_LARGE) == 1 and link.up

    await eventually(counted, "it should be counted")
    await arrives(seattle, "denver", denver, b"after it")


async def failures_of(running: Running) -> dict[str, list[int]]:
    """How often links have failed."""
    return {
        name: [link.failures for link in (await running.gateway(name)).links]
        for name in running.launched.endpoints
    }


async def test_a_flood_fails_no_link_and_delays_no_message(running: Running, agent: Agent) -> None:
    seattle = await agent("seattle")
    failures = await failures_of(running)
    subscriber = await nats.connect(running.edge("denver"))
    publisher = await nats.connect(running.head("seattle"))
    watcher = await nats.connect(running.head("denver"))
    seen: list[str] = []

    async def see(message: Msg) -> None:
        seen.append(message.subject)

    await watcher.subscribe(">", cb=see)
    subscription = await subscriber.subscribe("during.flood")
    await subscriber.flush()
    await running.knows_interest("seattle", "denver", 2)
    stop = asyncio.Event()

    async def flood() -> int:
        said = 0
        while not stop.is_set():
            for _ in range(20):
                await seattle.say("denver", bytes(32 << 10))
            await seattle.client.flush()
            said += 20
            await asyncio.sleep(0.02)
        return said

    flooding = asyncio.create_task(flood())
    try:
        for number in range(200):
            await publisher.publish("during.flood", b"%d" % number)
            await asyncio.sleep(0.01)
        received = [(await subscription.next_msg(timeout=10)).data for _ in range(200)]
    finally:
        stop.set()
    said = await flooding
    assert received == [b"%d" % number for number in range(200)]
    assert not [subject for subject in seen if subject != "during.flood"], "clients see no word of agents"

    async def counted() -> bool:
        (link,) = (await running.gateway("seattle")).links
        return link.management.dropped.get(TOO_FAST, 0) > said / 2

    await eventually(counted, "most of the flood should be counted as dropped")
    (link,) = (await running.gateway("seattle")).links
    assert link.management.sent_bytes <= BYTES_A_SECOND * 60
    assert await failures_of(running) == failures
    for client in (subscriber, publisher, watcher):
        await client.close()
    await running.at_rest()


@pytest.mark.parametrize("killed", ["seattle", "denver"])
async def test_a_management_broker_that_was_killed_carries_again(
    running: Running, agent: Agent, killed: str
) -> None:
    seattle, denver = await agent("seattle"), await agent("denver")
    await arrives(seattle, "denver", denver, b"before")
    process = running.launched.sites[killed].brokers[f"{killed}-management"]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    await arrives(seattle, "denver", denver, b"afterwards")
    await arrives(denver, "seattle", seattle, b"and back")


async def test_a_gateway_that_was_killed_carries_again(running: Running, agent: Agent) -> None:
    seattle, denver = await agent("seattle"), await agent("denver")
    process = running.launched.sites["denver"].gateway
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    await arrives(seattle, "denver", denver, b"after the gateway")
