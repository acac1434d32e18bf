"""Real brokers that die, freeze and return: the agent notices by itself, and the directory becomes true."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import nats
import pytest
from tests.kit.freezing import freeze
from tests.kit.waiting import eventually

from mangrove.agent.management import ManagementConnection
from mangrove.client import connect
from mangrove.config import parse_federation
from mangrove.model.agents.directory import DirectoryQuestion
from mangrove.model.agents.status import AgentStatus
from mangrove.testbed.local_federation import LocalFederation

SITE = """
federation: mortal
domains:
  here: {edges: [{capacity: 100000}, {capacity: 100000}]}
"""


class Here:
    """The only domain, and what its agent says."""

    def __init__(self, launched: LocalFederation, management: ManagementConnection) -> None:
        self.launched = launched
        self.management = management

    async def status(self) -> AgentStatus:
        status = await self.management.agent_status()
        assert status is not None
        return status

    async def health(self, broker: str) -> str:
        found = (await self.status()).failures.brokers
        return next((each.health for each in found if each.broker == broker), "alive")

    async def edges(self, topic: str) -> tuple[str, ...]:
        answer = await self.management.directory(DirectoryQuestion(topic=topic))
        assert answer is not None
        return next((each.record.edges for each in answer.topics if each.record is not None), ())

    async def becomes(self, broker: str, health: str) -> None:
        async def so() -> bool:
            return await self.health(broker) == health

        await eventually(so, f"{broker} should be {health}")

    async def leaves(self, topic: str, broker: str) -> str:
        """Wait until a topic is served, and not by this broker; by which."""

        async def left() -> bool:
            edges = await self.edges(topic)
            return bool(edges) and broker not in edges

        await eventually(left, f"{topic} should not be served at {broker}")
        return (await self.edges(topic))[0]


@pytest.fixture(scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Here]:
    federation = parse_federation(SITE, "mortal").require()
    directory = tmp_path_factory.mktemp("state") / "mortal"
    async with (
        LocalFederation(federation, directory, ephemeral=True) as launched,
        ManagementConnection(launched.endpoints["here"]) as management,
    ):
        yield Here(launched, management)


async def test_an_edge_that_is_killed_leaves_the_directory_and_is_used_again_when_it_returns(
    here: Here,
) -> None:
    async with connect(run_dir=here.launched.directory, domain="here") as client:
        heard = await client.subscribe("mortal.one")
        (edge,) = await here.edges("mortal.one")
        process = here.launched.sites["here"].brokers[edge]
        await process.kill()
        other = await here.leaves("mortal.one", edge)
        assert other != edge
        assert await here.health(edge) == "failed"
        await client.publish("mortal.one", b"still served")
        assert (await heard.next(10.0)).data == b"still served"
        await process.start()
        await here.becomes(edge, "alive")
        assert edge not in await here.edges("mortal.one")
        assert (await here.status()).failures.dropped == ()


async def test_a_frozen_edge_leaves_the_directory_and_is_started_anew(here: Here) -> None:
    async with connect(run_dir=here.launched.directory, domain="here") as client:
        await client.subscribe("mortal.two")
        (edge,) = await here.edges("mortal.two")
        process = here.launched.sites["here"].brokers[edge]
        pid = process.pid
        assert pid is not None
        freeze(pid)
        await here.leaves("mortal.two", edge)
        await here.becomes(edge, "alive")  # its supervisor was told to start it anew
        assert process.pid not in (None, pid)


async def test_the_next_broker_of_the_succession_acts_as_head_while_the_head_is_dead(here: Here) -> None:
    head = here.launched.sites["here"].brokers["here-head"]
    await head.kill()
    await here.becomes("here-head", "failed")
    async with connect(run_dir=here.launched.directory, domain="here") as client:
        heard = await client.subscribe("mortal.three")

        async def arrives() -> bool:  # brokers may still be looking for each other
            await client.publish("mortal.three", b"by another head")
            with contextlib.suppress(TimeoutError):
                return (await heard.next(0.5)).data == b"by another head"
            return False

        await eventually(arrives, "what is published at another head should arrive")
    await head.start()
    await here.becomes("here-head", "alive")


async def test_brokers_that_have_much_to_do_are_not_taken_for_dead(here: Here) -> None:
    before = (await here.status()).failures
    flood = [await nats.connect(each.client_url) for each in here.launched.endpoints["here"].edges]
    loop = asyncio.get_running_loop()
    try:
        until = loop.time() + 2.0
        payload = bytes(4096)
        while loop.time() < until:
            for connection in flood:
                for _ in range(50):
                    await connection.publish("mortal.flood", payload)
                await connection.flush()
    finally:
        for connection in flood:
            await connection.close()
    after = (await here.status()).failures
    assert (after.dropped, after.hosts) == ((), ())
    assert not [each for each in after.brokers if each.health != "suspected"]
    assert after.refuted_reports == before.refuted_reports
