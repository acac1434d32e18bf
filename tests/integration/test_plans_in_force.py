"""Plans at real brokers: topics move while they are published, also when the leader dies in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.kit.domain_of_brokers import Load
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.management import ManagementConnection
from mangrove.client import Connection, Message, Subscription
from mangrove.config import parse_federation
from mangrove.model.agents.operations import PlanApplied, PlanShown
from mangrove.model.plans.account import PlansTold, PlanTaken
from mangrove.model.plans.topology import topology_fingerprint
from mangrove.testbed.local_federation import LocalFederation

SITE = """
federation: alone
domains:
  here: {edges: [{capacity: 6000}, {capacity: 6000}, {capacity: 6000}]}
plans: {moves_at_once: 1, policy: auto, directory: made}
"""
THREE_HOSTS = """
federation: alone
domains:
  here:
    edges: [{capacity: 6000}, {capacity: 6000}, {capacity: 6000}]
    hosts:
      h1: {address: 127.0.0.1, brokers: [head, edge1]}
      h2: {address: 127.0.0.1, brokers: [edge2]}
      h3: {address: 127.0.0.1, brokers: [edge3]}
plans: {moves_at_once: 1}
"""
TOPICS = 12
RATE = 50.0


class Site:
    """A domain whose topics are all published and subscribed to."""

    def __init__(self, launched: LocalFederation, management: ManagementConnection, made: Path) -> None:
        self.launched = launched
        self.management = management
        self.made = made
        self.got: dict[str, list[bytes]] = {f"t{number}": [] for number in range(TOPICS)}
        self.loads = {topic: Load() for topic in self.got}
        self.subscriptions: dict[str, Subscription] = {}
        self.subscriber: Connection

    def edge(self, number: int) -> str:
        return self.launched.endpoints["here"].edges[number].client_url

    def places(self) -> dict[str, str]:
        found = {}
        for topic, subscription in self.subscriptions.items():
            leg = self.subscriber._legs.of(subscription)
            assert leg is not None
            found[topic] = leg.wire.url
        return found

    def plan(self, number: int, **changes: object) -> bytes:
        """As `plan allocate --json` tells it: everything at one edge."""
        federation = self.launched.federation
        told = {
            "allocation": {f"here-edge{number + 1}": list(self.got)},
            "risk": {},
            "joint_ok": 0.99,
            "federation": federation.name,
            "domain": "here",
            "topology": topology_fingerprint(federation, "here"),
            "made_at": time.time(),
            "data_until": time.time(),
            **changes,
        }
        return json.dumps(told).encode()

    async def apply(self, number: int, **changes: object) -> PlanTaken:
        told = await self.management.operate(PlanApplied(plan=self.plan(number, **changes)))
        assert told is not None
        assert not told.problem, told.problem
        return msgspec.json.decode(told.result, type=PlanTaken)

    async def command(self, *words: str) -> str:
        """What `mangrove plan` says."""
        run = ("--run-dir", str(self.launched.run.path))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mangrove.cli.main", "plan", *words, *run),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "COLUMNS": "80"},
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        return output.decode()

    async def shown(self) -> PlansTold | None:
        told = await self.management.operate(PlanShown(), timeout_s=1.0)
        return None if told is None or told.problem else msgspec.json.decode(told.result, type=PlansTold)

    async def told(self, within_s: float = 30.0) -> PlansTold:
        """What the leader tells, also if it has just come to lead."""
        deadline = time.monotonic() + within_s
        while (told := await self.shown()) is None:
            assert time.monotonic() < deadline, "nobody tells of plans"
            await asyncio.sleep(0.1)
        return told

    async def first_at(self, number: int, within_s: float = 30.0) -> None:
        """Return as soon as the first topic is there, while others have still to move."""
        deadline = time.monotonic() + within_s
        while self.edge(number) not in self.places().values():
            assert time.monotonic() < deadline, "something should move"
            await asyncio.sleep(0.001)

    async def all_at(self, number: int, within_s: float = 30.0) -> None:
        async def there() -> bool:
            return set(self.places().values()) == {self.edge(number)}

        await eventually(there, f"all topics should be at edge {number}", within_s)

    async def rolled_out(self, within_s: float = 30.0) -> None:
        async def done() -> bool:
            told = await self.shown()
            return told is not None and told.rollout is not None and told.rollout.state == "done"

        await eventually(done, "the plan should be rolled out", within_s)


@asynccontextmanager
async def busy_site(tmp_path: Path, text: str = SITE) -> AsyncIterator[Site]:
    """Everything that was published came, and came once, or the test fails at its end."""
    made = tmp_path / "made"
    made.mkdir()
    federation = parse_federation(text, "alone", tmp_path).require()
    async with (
        LocalFederation(federation, tmp_path / "alone", ephemeral=True) as launched,
        ManagementConnection(launched.endpoints["here"]) as management,
    ):
        site = Site(launched, management, made)

        async def leads() -> bool:
            status = await management.agent_status()
            return status is not None and status.leads

        await eventually(leads, "an agent should lead")
        url = launched.endpoints["here"].head.client_url
        async with mangrove.connect(url) as subscriber, mangrove.connect(url) as publisher:
            site.subscriber = subscriber

            async def take(message: Message) -> None:
                site.got[message.subject].append(message.data)

            for topic in site.got:
                site.subscriptions[topic] = await subscriber.subscribe(topic, callback=take)
            for subscription in site.subscriptions.values():
                await subscription.ready()
            tasks = [
                asyncio.create_task(load.publish(topic, partial(publisher.publish, topic), RATE))
                for topic, load in site.loads.items()
            ]
            try:
                yield site
            finally:
                for load in site.loads.values():
                    load.running = False
                await asyncio.gather(*tasks)
            await publisher.flush()

            async def all_came() -> bool:
                return all(
                    len(site.got[topic]) >= sum(load.sent.values()) for topic, load in site.loads.items()
                )

            await eventually(all_came, "everything should come")
        assert {topic: load.problems(site.got[topic]) for topic, load in site.loads.items()} == {
            topic: [] for topic in site.loads
        }


async def test_plans_are_applied_found_and_completed_by_the_next_leader(tmp_path: Path) -> None:
    async with busy_site(tmp_path) as site:

        async def placed() -> bool:
            topics = Counter(site.places().values())
            return sorted(topics.values()) == [TOPICS // 3] * 3

        await eventually(placed, "each edge should have a third of the topics")
        taken = await site.apply(0)
        assert taken.version == 1
        assert taken.preview.subscriptions == 8
        await site.all_at(0)
        await site.rolled_out()
        # A plan that is found is put in force by itself, when it is whole.
        document = site.plan(1, made_at=time.time() + 1)
        (site.made / "nightly.json").write_bytes(document[:-20])
        await asyncio.sleep(0.1)
        (site.made / "nightly.json").write_bytes(document)
        await site.all_at(1)
        await site.rolled_out()
        # By the command line: back to the first, and what there is to be seen.
        back = await site.command("rollback", "--force", "--json")
        assert json.loads(back)["rollout"]["subscriptions"] == TOPICS
        await site.all_at(0)
        lines = (await site.command("history")).splitlines() + (await site.command("show")).splitlines()
        assert max(map(len, lines)) <= 80
        assert any("rolled back to 1" in line for line in lines)
        # The leader dies in the middle of the next.
        agent = site.launched.sites["here"].agent
        assert agent is not None
        assert agent.pid is not None
        killed = agent.pid
        await site.apply(2, made_at=time.time() + 2)

        await site.first_at(2)
        os.kill(killed, signal.SIGKILL)
        assert set(site.places().values()) != {site.edge(2)}, "the leader died in the middle"
        await site.all_at(2, 40)
        told = await site.told()
        assert told.version == 4
        assert [line.what for line in told.history] == ["applied", "rolled back to 1", "found", "applied"]


def pid_of(agent: str, run_dir: Path) -> int:
    """The process of an agent of this run."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if any(word.startswith(str(run_dir)) and Path(word).stem == agent for word in words):
                return int(entry.name)
    raise AssertionError(f"{agent} does not run")


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_the_leader_of_three_dies_in_the_middle_and_another_completes_the_plan(tmp_path: Path) -> None:
    async with busy_site(tmp_path, THREE_HOSTS) as site:
        await site.apply(0)
        await site.all_at(0)
        await site.apply(2, made_at=time.time() + 1)

        await site.first_at(2)
        before = await site.management.agent_status()
        assert before is not None
        os.kill(pid_of(before.agent, site.launched.run.path), signal.SIGKILL)
        assert set(site.places().values()) != {site.edge(2)}, "the leader died in the middle"
        await site.all_at(2, 60)

        async def another_leads() -> bool:
            after = await site.management.agent_status()
            return after is not None and after.leads and after.term > before.term

        await eventually(another_leads, "another agent should lead")
        told = await site.told()
        assert told.version == 2
