"""Who publishes what where, with real agents and gateways: known two links away, and withdrawn."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator

import msgspec
import nats
import pytest
from tests.kit.registrations import SigningClient
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.management import ManagementConnection
from mangrove.model.agents.directory import DirectoryAnswer, DirectoryQuestion
from mangrove.model.agents.names import register_subject, report_subject
from mangrove.model.agents.registration import LEASE_S, ClientRole, Registered, Wish
from mangrove.model.agents.status import AgentStatus


class Agents:
    """What the agents of the chain say."""

    def __init__(self, chain: Running, connections: dict[str, ManagementConnection]) -> None:
        self.chain = chain
        self._connections = connections

    async def status(self, domain: str) -> AgentStatus | None:
        return await self._connections[domain].agent_status()

    async def all_online(self) -> None:
        """Wait until every agent knows its neighbours to be there."""

        async def online() -> bool:
            told = [await self.status(domain) for domain in self._connections]
            return all(each is not None and each.leads and all(p.online for p in each.peers) for each in told)

        await eventually(online, "all agents should be online", timeout_s=30)

    async def sources(self, domain: str, topic: str) -> dict[str, str]:
        """Who publishes a topic, as a domain's directory has it, and who told."""
        answers: list[DirectoryAnswer] = []

        async def answered() -> bool:
            answer = await self._connections[domain].directory(DirectoryQuestion(topic=topic))
            if answer is not None:
                answers.append(answer)
            return bool(answers)

        await eventually(answered, f"the agent of {domain} should answer")
        return {
            each.source: each.by
            for served in answers[0].topics
            if served.topic == topic
            for each in served.published_by
        }

    async def becomes(self, domain: str, topic: str, *sources: str, timeout_s: float = 20.0) -> None:
        """Wait until the directory of a domain says so."""

        async def so() -> bool:
            return set(await self.sources(domain, topic)) == set(sources)

        await eventually(so, f"{domain} should know that {topic} is published in {sources}", timeout_s)

    async def register(self, client: SigningClient, *subjects: str) -> None:
        """A publisher registers, as an SDK does."""
        url = self.chain.launched.endpoints[client.domain].management.client_url
        connection = await nats.connect(url)
        wishes = tuple(Wish(key=each, role=ClientRole.PUBLISHER, subject=each) for each in subjects)
        registration = client.registration(wishes=wishes)
        answer = await connection.request(
            register_subject(client.domain, self.chain.user), client.signed(registration), timeout=5
        )
        await connection.close()
        registered = msgspec.json.decode(answer.data, type=Registered)
        assert not registered.problem
        client.share(registered.exchange_key)

    async def leave(self, client: SigningClient) -> None:
        """It says that it goes."""
        url = self.chain.launched.endpoints[client.domain].management.client_url
        connection = await nats.connect(url)
        await connection.publish(
            report_subject(client.domain, self.chain.user), client.sealed(client.leave())
        )
        await connection.close()

    def kill(self, domain: str) -> None:
        agent = self.chain.launched.sites[domain].agent
        assert agent is not None
        assert agent.pid is not None
        os.kill(agent.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
async def agents(chain: Running) -> AsyncIterator[Agents]:
    connections = {
        domain: ManagementConnection(endpoints) for domain, endpoints in chain.launched.endpoints.items()
    }
    made = Agents(chain, connections)
    await made.all_online()
    yield made
    for connection in connections.values():
        await connection.close()


async def test_publishers_are_known_two_links_away_until_they_leave(agents: Agents) -> None:
    client = SigningClient("seattle")
    await agents.register(client, "quake.pacific")
    for domain in ("seattle", "denver", "orlando"):
        await agents.becomes(domain, "quake.pacific", "seattle")
    assert await agents.sources("seattle", "quake.pacific") == {"seattle": "sdk"}
    assert await agents.sources("orlando", "quake.pacific") == {"seattle": "denver"}
    await agents.leave(client)
    for domain in ("orlando", "denver", "seattle"):
        await agents.becomes(domain, "quake.pacific")


async def test_a_topic_of_two_sources_is_known_from_both(agents: Agents) -> None:
    first, second = SigningClient("seattle"), SigningClient("orlando")
    await agents.register(first, "tide")
    await agents.register(second, "tide")
    for domain in ("seattle", "denver", "orlando"):
        await agents.becomes(domain, "tide", "seattle", "orlando")
    await agents.leave(first)
    for domain in ("seattle", "denver", "orlando"):
        await agents.becomes(domain, "tide", "orlando")
    await agents.leave(second)


async def test_topics_of_a_domain_alone_are_known_there_alone(agents: Agents) -> None:
    client = SigningClient("seattle")
    await agents.register(client, "plant.boiler", "plantation")
    await agents.becomes("orlando", "plantation", "seattle")
    await agents.becomes("seattle", "plant.boiler", "seattle")
    assert await agents.sources("denver", "plant.boiler") == {}
    assert await agents.sources("orlando", "plant.boiler") == {}
    await agents.leave(client)


async def test_plain_clients_are_known_by_what_the_gateway_carries(agents: Agents) -> None:
    subscriber = await nats.connect(agents.chain.edge("orlando"))
    publisher = await nats.connect(agents.chain.head("seattle"))
    await subscriber.subscribe("plain.topic")
    await subscriber.flush()
    await agents.chain.knows_interest("seattle", "orlando", 1)

    async def known() -> bool:
        await publisher.publish("plain.topic", b"x")
        return await agents.sources("orlando", "plain.topic") == {"seattle": "denver"}

    await eventually(known, "orlando should know of the plain publisher")
    assert await agents.sources("seattle", "plain.topic") == {"seattle": "gateway"}
    await subscriber.close()
    await publisher.close()


async def test_agents_that_are_killed_learn_again_and_forget_nothing_meanwhile(agents: Agents) -> None:
    client = SigningClient("orlando")
    await agents.register(client, "storm")
    await agents.becomes("seattle", "storm", "orlando")
    terms = {domain: await agents.status(domain) for domain in ("denver", "orlando")}
    for domain, before in terms.items():
        assert before is not None
        agents.kill(domain)

        async def back(domain: str = domain, term: int = before.term) -> bool:
            assert set(await agents.sources("seattle", "storm")) == {"orlando"}
            status = await agents.status(domain)
            return status is not None and status.leads and status.term > term

        await eventually(back, f"the agent of {domain} should lead again", timeout_s=40)
        await agents.all_online()
        await agents.becomes("denver", "storm", "orlando")
    await agents.becomes("seattle", "storm", "orlando")
    await agents.becomes("orlando", "storm", "orlando")


# -- the SDK and the command line -------------------------------------------------------------------------


async def directory(chain: Running, domain: str, topic: str) -> list[str]:
    """Who publishes a topic, as `mangrove directory` shows it in a domain."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mangrove.cli.main", "directory", topic, "--json", "--domain", domain),
        *("--run-dir", str(chain.launched.directory)),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out
    topics = json.loads(out)["domains"][domain]["topics"]
    return sorted(each["source"] for served in topics for each in served["published_by"])


async def test_what_the_sdk_publishes_is_in_the_directory_two_links_away_until_it_is_closed(
    agents: Agents,
) -> None:
    where = agents.chain.launched.directory
    async with mangrove.connect(domain="seattle", run_dir=where) as connection:
        await connection.publish("by.the.sdk", b"x")
        await agents.becomes("orlando", "by.the.sdk", "seattle")
        assert await directory(agents.chain, "orlando", "by.the.*") == ["seattle"]
    await agents.becomes("orlando", "by.the.sdk")
    assert await directory(agents.chain, "orlando", "by.the.*") == []


async def test_what_a_killed_process_published_is_withdrawn_with_its_lease(agents: Agents) -> None:
    code = (
        "import asyncio, mangrove, pathlib, sys\n"
        "async def main():\n"
        "    where = pathlib.Path(sys.argv[1])\n"
        "    async with mangrove.connect(domain='seattle', run_dir=where) as connection:\n"
        "        await connection.publish('by.a.process', b'x')\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(agents.chain.launched.directory)
    )
    try:
        await agents.becomes("orlando", "by.a.process", "seattle")
    finally:
        assert process.returncode is None
        process.kill()
        await process.wait()
    await agents.becomes("orlando", "by.a.process", timeout_s=LEASE_S + 20)
