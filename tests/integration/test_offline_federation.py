"""Publishers that keep what they say, in a federation with keys, mirrors, limits and brokers that all die."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.client import Message, Outcome
from mangrove.config import parse_federation
from mangrove.host.keys.directory import KeyDirectory
from mangrove.testbed.local_federation import LocalFederation

TWO = """
federation: cutoff
domains:
  here:  {edges: 1}
  there: {edges: 1}
links:
  - {between: [here, there]}
topics:
  - {match: "twice.>", mirror: true}
  - {match: "news.>", deadline_ms: 50, late: drop}
  - {match: "seldom.>", rate_msg_s: 40}
"""
BROKERS = ("here-head", "here-edge1")


@pytest.fixture(scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory = tmp_path_factory.mktemp("state") / "cutoff"
    federation = parse_federation(TWO, "cutoff").require()
    async with LocalFederation(federation, directory, ephemeral=True, secured=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


class Far:
    """A subscriber in the other domain."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = defaultdict(list)

    async def take(self, message: Message) -> None:
        self.numbers[message.subject].append(int(message.data))

    async def has(self, subject: str, count: int) -> None:
        async def came() -> bool:
            return len(self.numbers[subject]) >= count

        await eventually(came, f"{count} messages on {subject}", timeout_s=30)
        assert self.numbers[subject] == list(range(count)), "each once, in order"


async def test_all_brokers_of_a_domain_die_under_load(two: Running) -> None:
    """Everything arrives once and in order; who joins meanwhile learns of the domain when it is back."""
    directory, far = two.launched.directory, Far()
    brokers = [two.launched.sites["here"].brokers[name] for name in BROKERS]
    assert two.launched.keys is not None
    credentials = KeyDirectory(two.launched.keys).domain("here").client("client").path
    urls = [two.head("here"), two.edge("here")]
    async with (
        mangrove.connect(run_dir=directory, domain="there") as there,
        mangrove.connect(run_dir=directory, domain="here", offline=True) as here,
    ):
        for pattern in ("plain.>", "twice.>", "seldom.>", "news.>"):
            subscription = await there.subscribe(pattern, callback=far.take)
            await subscription.ready()

        async def limited() -> int:
            return (await two.gateway("here")).dropped.get("rate limited", 0)

        sent: dict[str, int] = defaultdict(int)
        outcomes: dict[str, set[Outcome]] = defaultdict(set)
        stop = asyncio.Event()

        async def publish(subject: str) -> None:
            while not stop.is_set():
                outcomes[subject].add(await here.publish(subject, b"%d" % sent[subject]))
                sent[subject] += 1
                await asyncio.sleep(0.002)

        await here.publish("twice.a", b"0")
        sent["twice.a"] = 1
        await far.has("twice.a", 1)

        async def mirrored() -> bool:
            state = here.mirrors.get("twice.a")
            return state is not None and bool(state.mirrors) and not state.away

        await eventually(mirrored, "the topic has a mirror")
        load = [asyncio.create_task(publish(subject)) for subject in ("plain.a", "plain.b", "twice.a")]

        async def flows() -> bool:
            return min(len(far.numbers[subject]) for subject in ("plain.a", "plain.b", "twice.a")) > 100

        await eventually(flows, "messages flow")
        await asyncio.gather(*(broker.kill() for broker in brokers))

        async def waits() -> bool:
            return here.offline.messages > 300

        await eventually(waits, "messages wait")
        async with mangrove.connect(urls, credentials=credentials, offline=True) as late:
            assert await here.publish("news.a", b"0") is Outcome.KEPT
            for number in range(60):
                assert await late.publish("seldom.a", b"%d" % number) is Outcome.KEPT
            await asyncio.gather(*(broker.start() for broker in brokers))

            async def sent_all() -> bool:
                return not here.offline and not late.offline

            await eventually(sent_all, "nothing waits any longer", timeout_s=30)
            stop.set()
            await asyncio.gather(*load)
            await here.flush()
            for subject in ("plain.a", "plain.b", "twice.a"):
                await far.has(subject, sent[subject])
                assert outcomes[subject] == {Outcome.SENT, Outcome.KEPT}
            await late.flush()

            async def accounted_for() -> bool:
                return len(far.numbers["seldom.a"]) + await limited() == 60

            await eventually(accounted_for, "every message has come, or was dropped by the gateway")
            assert await limited() <= 10, "publishers keep to the limit while they catch up"
            assert far.numbers["seldom.a"] == sorted(far.numbers["seldom.a"])
            assert late.limits["seldom.a"].msg_s == 40, "the late one has met its domain"
            assert late.withheld.get("seldom.a") is None, "what waits for a limit is not withheld"
            assert not far.numbers["news.a"]
            assert {reason: each.messages for reason, each in here.offline.dropped["news.a"].items()} == {
                "late": 1
            }


async def test_the_head_alone_dies_and_publishers_go_on_at_the_edge(two: Running) -> None:
    far, head = Far(), two.launched.sites["here"].brokers["here-head"]
    directory = two.launched.directory
    async with (
        mangrove.connect(run_dir=directory, domain="there") as there,
        mangrove.connect(run_dir=directory, domain="here", offline=True) as here,
    ):
        subscription = await there.subscribe("plain.c", callback=far.take)
        await subscription.ready()
        sent, stop = 0, asyncio.Event()

        async def publish() -> None:
            nonlocal sent
            while not stop.is_set():
                await here.publish("plain.c", b"%d" % sent)
                sent += 1
                await asyncio.sleep(0.001)

        load = asyncio.create_task(publish())

        async def flows() -> bool:
            return len(far.numbers["plain.c"]) > 200

        await eventually(flows, "messages flow")
        await head.kill()

        async def moved() -> bool:
            return here.offline.said_again > 0 and not here.offline

        await eventually(moved, "what was kept has been sent at another broker", timeout_s=30)
        stop.set()
        await load
        await here.flush()
        await far.has("plain.c", sent)
        await head.start()
