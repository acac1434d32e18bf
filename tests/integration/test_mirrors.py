"""Brokers die and freeze under mirrored topics: nothing is lost, nothing comes twice, order is kept."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import monotonic

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.domain_of_brokers import Load
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.management import ManagementConnection
from mangrove.client import Connection, Message
from mangrove.config import parse_federation
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.shared_names import MIRROR_AGAIN, MIRROR_PREFIX
from mangrove.model.topics import Mirror
from mangrove.testbed.local_federation import LocalFederation

SITE = """
federation: alone
domains:
  here: {edges: 3}
topics:
  - {match: "alert.>", mirror: true}
  - {match: "meter.>", mirror: standby}
"""
RATE_S = 2000.0

log = logging.getLogger(__name__)


@dataclass
class Site:
    """A domain that runs."""

    launched: LocalFederation
    endpoints: DomainEndpoints

    @property
    def urls(self) -> list[str]:
        return [broker.client_url for broker in self.endpoints.succession]

    def url(self, broker: str) -> str:
        return next(each.client_url for each in self.endpoints.succession if each.name == broker)

    def signal(self, broker: str, number: signal.Signals) -> None:
        pid = next(each for each in self.launched.processes() if each.name == broker).pid
        assert pid is not None
        with contextlib.suppress(ProcessLookupError):  # who was frozen may have been replaced
            os.kill(pid, number)


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    federation = parse_federation(SITE, "alone").require()
    run_dir: Path = tmp_path_factory.mktemp("mirrors") / "alone"
    async with LocalFederation(federation, run_dir, ephemeral=True) as launched:
        endpoints = launched.endpoints["here"]
        async with ManagementConnection(endpoints) as management:

            async def leads() -> bool:
                status = await management.agent_status()
                return status is not None and status.leads

            await eventually(leads, "an agent should lead")
        yield Site(launched, endpoints)


async def at_mirrors(*ends: tuple[Connection, str]) -> None:
    """Wait until these connections are at a mirror with these topics or patterns."""

    async def mirrored() -> bool:
        states = [connection.mirrors.get(name) for connection, name in ends]
        return all(each is not None and each.mirrors and not each.away for each in states)

    await eventually(mirrored, "all ends should be at a mirror")
    for connection, _ in ends:
        await connection.mirrored()


class Stream:
    """One publisher and one subscriber of a topic, and what they saw."""

    def __init__(self, publisher: Connection, subscriber: Connection, topic: str, pattern: str) -> None:
        self.publisher = publisher
        self.subscriber = subscriber
        self.topic = topic
        self.pattern = pattern
        self.load = Load()
        self.got: list[bytes] = []
        self.came_at: list[float] = []

    async def begin(self) -> DirectoryRecord:
        """Publish until told otherwise; the record by which it is mirrored."""
        self.subscription = await self.subscriber.subscribe(self.pattern, callback=self._take)
        await self.subscription.ready()
        publish = partial(self.publisher.publish, self.topic)
        self._task = asyncio.create_task(self.load.publish("p", publish, RATE_S))
        await at_mirrors((self.subscriber, self.pattern), (self.publisher, self.topic))
        return self.subscriber.directory[self.pattern]

    async def primary_alone(self) -> None:
        """Wait until half a second's messages come by the primary alone.

        A machine that halts for some tenths of a second makes a client doubt its primary for a while.
        """

        async def alone() -> bool:
            mirrored, came = self.subscription.mirrored.messages, len(self.got)
            await asyncio.sleep(0.5)
            return self.subscription.mirrored.messages == mirrored and len(self.got) > came

        await eventually(alone, "the primary alone should bring messages", 40)

    async def _take(self, message: Message) -> None:
        assert message.subject == self.topic
        self.got.append(message.data)
        self.came_at.append(monotonic())

    async def end(self) -> list[str]:
        """What is lost, repeated or out of order."""
        self.load.running = False
        await self._task

        async def all_there() -> bool:
            return len(self.got) >= self.load.sent["p"]

        with contextlib.suppress(AssertionError):  # what is missing is told below
            await eventually(all_there, "everything should come", 5)
        return self.load.problems(self.got)

    def longest_gap_s(self, since: float) -> float:
        later = [at for at in self.came_at if at >= since - 0.05]
        return max((second - first for first, second in pairwise(later)), default=0.0)


FAULTS = [
    ("alert.fire", "alert.>", "head", signal.SIGKILL),
    ("alert.fire", "alert.fire", "primary", signal.SIGSTOP),
    ("alert.fire", "alert.fire", "mirror", signal.SIGKILL),
    ("meter.a", "meter.a", "head", signal.SIGSTOP),
    ("meter.a", "meter.*", "primary", signal.SIGKILL),
]


@pytest.mark.parametrize(("topic", "pattern", "who", "how"), FAULTS)
async def test_a_broker_fails_and_subscribers_do_not_notice(
    site: Site,
    topic: str,
    pattern: str,
    who: str,
    how: signal.Signals,
) -> None:
    async with mangrove.connect(site.urls) as publisher, mangrove.connect(site.urls) as subscriber:
        stream = Stream(publisher, subscriber, topic, pattern)
        record = await stream.begin()
        brokers = {"head": site.endpoints.head.name, "primary": record.edges[0], "mirror": record.mirror}
        assert len(set(brokers.values())) == 3
        await asyncio.sleep(0.3)
        failed_at = monotonic()
        site.signal(brokers[who], how)
        await asyncio.sleep(1.2)
        if how is signal.SIGSTOP:
            site.signal(brokers[who], signal.SIGCONT)
        await asyncio.sleep(0.5)
        problems = await stream.end()
        log.info("%s %s %s: gap %.0f ms", record.mode, who, how.name, stream.longest_gap_s(failed_at) * 1e3)
        assert problems == []
        assert stream.subscription.duplicates == stream.subscription.messages - len(stream.got)


@pytest.mark.parametrize(("topic", "pattern"), [("alert.plain", "alert.>"), ("alert.plain", "alert.plain")])
async def test_plain_clients_beside_see_and_make_one_copy(site: Site, topic: str, pattern: str) -> None:
    async with mangrove.connect(site.urls) as publisher, mangrove.connect(site.urls) as subscriber:
        got: list[bytes] = []

        async def take(message: Message) -> None:
            got.append(message.data)

        subscription = await subscriber.subscribe(pattern, callback=take)
        everything: list[bytes] = []

        async def take_all(message: Message) -> None:
            assert not message.subject.startswith(MIRROR_PREFIX)
            if message.subject == topic:
                everything.append(message.data)

        await subscriber.subscribe(">", callback=take_all)
        await subscription.ready()
        await publisher.publish(topic, b"first")
        await at_mirrors((publisher, topic), (subscriber, pattern))
        record = subscriber.directory[pattern]
        beside = [await nats.connect(site.url(broker)) for broker in (record.edges[0], record.mirror)]
        heard: list[list[bytes]] = [[], []]

        async def listen(client: Client, to: list[bytes]) -> None:
            async def hear(message: Msg) -> None:
                to.append(message.data)

            await client.subscribe(pattern, cb=hear)

        for client, each in zip(beside, heard, strict=True):
            await listen(client, each)
        probes = 0

        async def all_hear() -> bool:
            nonlocal probes
            probes += 1
            await publisher.publish(topic, b"probe sdk")
            for number, client in enumerate(beside):
                await client.publish(topic, b"probe plain %d" % number)
            wanted = {b"probe sdk", b"probe plain 0", b"probe plain 1"}
            return all(wanted <= set(each) for each in (got, everything, *heard))

        await eventually(all_hear, "everybody should hear everybody")

        def besides_probes(each: list[bytes]) -> list[bytes]:
            return sorted(data for data in each if not data.startswith(b"probe"))

        for number in range(50):
            await publisher.publish(topic, b"sdk %d" % number)
            await beside[number % 2].publish(topic, b"plain %d" % number)
            await publisher.flush()
            await beside[number % 2].flush()
        expected = sorted(
            [b"first", *(kind % each for each in range(50) for kind in (b"sdk %d", b"plain %d"))]
        )

        async def all_there() -> bool:
            enough = [len(expected), len(expected), 100, 100]
            lists = (got, everything, *heard)
            return (
                all(len(besides_probes(each)) >= many for each, many in zip(lists, enough, strict=True))
                and subscription.mirrored.messages >= 50 + probes
            )

        with contextlib.suppress(AssertionError):  # what is missing is told below
            await eventually(all_there, "everything should come", 10)
        await asyncio.sleep(0.2)
        assert besides_probes(got) == expected
        assert besides_probes(everything) == expected
        assert [len(besides_probes(each)) for each in heard] == [100, 100]
        assert subscription.mirrored.messages >= 50 + probes
        for client in beside:
            await client.close()


async def test_members_of_a_group_are_served_once_and_requests_answered_once(site: Site) -> None:
    async with mangrove.connect(site.urls) as publisher, mangrove.connect(site.urls) as server:
        got: list[bytes] = []
        answers = 0

        async def take(message: Message) -> None:
            nonlocal answers
            got.append(message.data)
            if message.reply:
                answers += 1
                await message.respond(b"yes")

        for _ in range(2):
            await (await server.subscribe("alert.work", queue="workers", callback=take)).ready()
        await publisher.publish("alert.work", b"begin")
        await at_mirrors((publisher, "alert.work"))
        for number in range(20):
            await publisher.publish("alert.work", b"%d" % number)
        assert (await publisher.request("alert.work", b"question")).data == b"yes"
        await publisher.flush()

        async def all_there() -> bool:
            return len(got) >= 22

        await eventually(all_there, "everything should come", 10)
        await asyncio.sleep(0.2)
        assert sorted(got) == sorted([b"begin", b"question", *(b"%d" % each for each in range(20))])
        assert answers == 1
        assert publisher.mirrors["alert.work"].mode is Mirror.BOTH
        assert "alert.work" not in server.mirrors


async def test_nobody_can_make_a_publisher_repeat_itself_all_the_time(site: Site) -> None:
    async with mangrove.connect(site.urls) as publisher, mangrove.connect(site.urls) as subscriber:
        stream = Stream(publisher, subscriber, "meter.b", "meter.b")
        record = await stream.begin()
        assert stream.subscription.mirrored.messages == 0 or publisher.mirroring["leases"] > 0
        await stream.primary_alone()
        before, mirrored = Counter(publisher.mirroring), stream.subscription.mirrored.messages
        hostile = await nats.connect(site.url(record.mirror))
        for _ in range(200):
            await hostile.publish(MIRROR_AGAIN, b"meter.b")
            await hostile.publish(MIRROR_AGAIN, b"\xff not a subject")
            await hostile.flush()

        async def twice() -> bool:
            return stream.subscription.mirrored.messages > mirrored

        await eventually(twice, "it should be said twice now")
        await hostile.close()
        assert await stream.end() == []
        assert publisher.mirroring["leases"] == before["leases"] + 1
        assert publisher.mirroring["said again"] - before["said again"] <= stream.load.sent["p"]
        assert publisher.mirroring["unreadable requests"] == 200
