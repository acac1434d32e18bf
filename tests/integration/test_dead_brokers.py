"""Real brokers that die, freeze and return: the agent notices by itself, and the directory becomes true."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import nats
import pytest
from tests.kit.freezing import freeze
from tests.kit.waiting import eventually

from mangrove.agent.management import ManagementConnection
from mangrove.client import Connection, Subscription, connect
from mangrove.config import parse_federation
from mangrove.model.agents.directory import DirectoryQuestion
from mangrove.model.agents.status import AgentStatus
from mangrove.testbed.local_federation import LocalFederation

SITE = """
federation: mortal
domains:
  here: {edges: [{capacity: 100000}, {capacity: 100000}]}
"""

T = TypeVar("T")


async def answer_of(ask: Callable[[], Awaitable[T | None]]) -> T:
    """Ask until somebody answers."""
    answers: list[T] = []

    async def answered() -> bool:
        answer = await ask()
        if answer is not None:
            answers.append(answer)
        return bool(answers)

    await eventually(answered, "the agent should answer")
    return answers[0]


class Here:
    """The only domain, and what its agent says."""

    def __init__(self, launched: LocalFederation, management: ManagementConnection) -> None:
        self.launched = launched
        self.management = management

    async def status(self) -> AgentStatus:
        return await answer_of(self.management.agent_status)

    async def health(self, broker: str) -> str:
        found = (await self.status()).failures.brokers
        return next((each.health for each in found if each.broker == broker), "alive")

    async def edges(self, topic: str) -> tuple[str, ...]:
        question = DirectoryQuestion(topic=topic)
        answer = await answer_of(lambda: self.management.directory(question))
        return next((each.record.edges for each in answer.topics if each.record is not None), ())

    async def becomes(self, broker: str, health: str) -> None:
        async def so() -> bool:
            return await self.health(broker) == health

        await eventually(so, f"{broker} should be {health}")

    async def serving(self, topic: str) -> str:
        """Wait until exactly one edge serves a topic; which."""
        found: tuple[str, ...] = ()

        async def one() -> bool:
            nonlocal found
            found = await self.edges(topic)
            return len(found) == 1

        await eventually(one, f"one edge should serve {topic}")
        return found[0]

    async def leaves(self, topic: str, broker: str) -> str:
        """Wait until a topic is served, and not by this broker; by which."""

        edges: tuple[str, ...] = ()

        async def left() -> bool:
            nonlocal edges
            edges = await self.edges(topic)
            return bool(edges) and broker not in edges

        await eventually(left, f"{topic} should not be served at {broker}")
        return edges[0]


@pytest.fixture(scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Here]:
    federation = parse_federation(SITE, "mortal").require()
    directory = tmp_path_factory.mktemp("state") / "mortal"
    async with (
        LocalFederation(federation, directory, ephemeral=True) as launched,
        ManagementConnection(launched.endpoints["here"]) as management,
    ):
        here = Here(launched, management)

        async def leads() -> bool:
            return (await here.status()).leads

        await eventually(leads, "an agent should lead")
        yield here


async def arrives(client: Connection, subscription: Subscription, topic: str, data: bytes) -> None:
    """Publish until it arrives: clients may be moving, and brokers looking for each other."""

    async def came() -> bool:
        await client.publish(topic, data)
        with contextlib.suppress(TimeoutError):
            return (await subscription.next(0.5)).data == data
        return False

    await eventually(came, f"what is published on {topic} should arrive")


async def test_an_edge_that_is_killed_leaves_the_directory_and_is_used_again_when_it_returns(
    here: Here,
) -> None:
    async with connect(run_dir=here.launched.directory, domain="here") as client:
        heard = await client.subscribe("mortal.one")
        edge = await here.serving("mortal.one")
        process = here.launched.sites["here"].brokers[edge]
        await process.kill()
        other = await here.leaves("mortal.one", edge)
        assert other != edge
        await here.becomes(edge, "failed")
        await arrives(client, heard, "mortal.one", b"still served")
        await process.start()
        await here.becomes(edge, "alive")
        assert edge not in await here.edges("mortal.one")
        assert (await here.status()).failures.dropped == ()


async def test_a_frozen_edge_leaves_the_directory_and_is_started_anew(here: Here) -> None:
    async with connect(run_dir=here.launched.directory, domain="here") as client:
        await client.subscribe("mortal.two")
        edge = await here.serving("mortal.two")
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
        await arrives(client, heard, "mortal.three", b"by another head")
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
