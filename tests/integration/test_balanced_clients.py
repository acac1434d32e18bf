"""An overloaded edge is relieved by the real agent while SDK clients publish and subscribe."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from functools import partial
from pathlib import Path

from tests.kit.domain_of_brokers import Load
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.management import ManagementConnection
from mangrove.client import Connection, Message, Subscription
from mangrove.config import parse_federation
from mangrove.testbed.local_federation import LocalFederation

SITE = """
federation: alone
domains:
  here: {edges: [{capacity: 600}, {capacity: 600}]}
topics:
  - {match: "t0", deadline_ms: 50}
  - {match: ">", deadline_ms: 500}
"""
TOPICS = 12
QUIET_S = 10.0
BURST_S = 110.0


def broker_of(connection: Connection, subscription: Subscription) -> str:
    leg = connection._legs.of(subscription)
    assert leg is not None
    return leg.wire.url


async def test_a_burst_is_moved_away_and_nobody_notices(tmp_path: Path) -> None:
    federation = parse_federation(SITE, "alone").require()
    run_dir = tmp_path / "alone"
    async with (
        LocalFederation(federation, run_dir, ephemeral=True) as launched,
        ManagementConnection(launched.endpoints["here"]) as management,
    ):

        async def leads() -> bool:
            status = await management.agent_status()
            return status is not None and status.leads

        await eventually(leads, "an agent should lead")
        url = launched.endpoints["here"].head.client_url
        async with mangrove.connect(url) as subscriber, mangrove.connect(url) as publisher:
            got: dict[str, list[bytes]] = {f"t{number}": [] for number in range(TOPICS)}

            async def take(message: Message) -> None:
                got[message.subject].append(message.data)

            subscriptions = {topic: await subscriber.subscribe(topic, callback=take) for topic in got}
            for subscription in subscriptions.values():
                await subscription.ready()
            loads = {topic: Load() for topic in got}
            tasks = [
                asyncio.create_task(loads[topic].publish(topic, partial(publisher.publish, topic), QUIET_S))
                for topic in got
            ]
            await asyncio.sleep(3)
            places = {topic: broker_of(subscriber, each) for topic, each in subscriptions.items()}
            crowded = Counter(places.values()).most_common(1)[0][0]
            hot = [topic for topic, broker in places.items() if broker == crowded][:8]
            bursts = {topic: Load() for topic in hot}
            tasks += [
                asyncio.create_task(
                    bursts[topic].publish("burst", partial(publisher.publish, topic), BURST_S)
                )
                for topic in hot
            ]

            async def moved() -> bool:
                assert subscriber._managed is not None
                return subscriber._managed.moved["moved"] > 0

            await eventually(moved, "the agent should move something", 30)
            agent = launched.sites["here"].agent
            assert agent is not None
            assert agent.pid is not None
            before = await management.agent_status()
            assert before is not None
            os.kill(agent.pid, signal.SIGKILL)

            async def known_again() -> bool:
                """The agent that comes back knows this client, and where its subscriptions are served."""
                status = await management.agent_status()
                return status is not None and status.term > before.term and status.subscriptions >= TOPICS

            await eventually(known_again, "clients should register with the agent that comes back", 60)
            for each in (*loads.values(), *bursts.values()):
                each.running = False
            await asyncio.gather(*tasks)
            await publisher.flush()
            for topic, burst in bursts.items():
                loads[topic].sent.update(burst.sent)

            async def all_there() -> bool:
                return all(len(got[topic]) >= sum(each.sent.values()) for topic, each in loads.items())

            with contextlib.suppress(AssertionError):  # what is missing is told below
                await eventually(all_there, "everything should come", 15)
            await asyncio.sleep(0.5)
    for topic, each in loads.items():
        assert each.problems(got[topic]) == [], topic
