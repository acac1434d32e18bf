"""Subscribers that judge, lag and are cut off, at real brokers; an agent hears of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import nats
import pytest
from tests.kit.domain_of_brokers import (
    DomainOfBrokers,
    Load,
    OrderingAgent,
    domain_of_brokers,
    ordering_agent,
)
from tests.kit.waiting import eventually

import mangrove
from mangrove.client import Gap, Message, SlowSubscriberError, Subscription
from mangrove.model.agents.registration import Report
from mangrove.model.agents.usefulness import PLAIN_ORIGIN, Lag
from mangrove.model.congestion.terms import Slow, TopicTerms
from mangrove.model.shared_names import UTILITY_HEADER


@pytest.fixture(scope="module")
async def domain(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DomainOfBrokers]:
    async with domain_of_brokers(tmp_path_factory.mktemp("slow")) as running:
        running.terms = (TopicTerms(match="cut.>", slow=Slow.DISCONNECT),)
        yield running


@pytest.fixture
async def agent(domain: DomainOfBrokers) -> AsyncIterator[OrderingAgent]:
    async with ordering_agent(domain) as running:
        yield running


async def in_force(connection: mangrove.Connection, subscription: Subscription, subject: str) -> int:
    """Wait until what is published at the head comes; how many messages that took, all of them read."""
    for number in itertools.count():
        await connection.publish(subject, b"probe %d" % number)
        with contextlib.suppress(TimeoutError):
            while (await subscription.next(0.1)).data != b"probe %d" % number:
                pass
            return subscription.messages
    raise AssertionError("never")


def reports(agent: OrderingAgent) -> list[Report]:
    return [each for each in agent.said if isinstance(each, Report)]


async def test_an_agent_hears_how_useful_publishers_are(
    domain: DomainOfBrokers, agent: OrderingAgent
) -> None:
    async def take(message: Message) -> None:
        """By callback as by iteration."""

    async with (
        mangrove.connect(domain.url("head")) as subscriber,
        mangrove.connect(domain.url("head")) as good,
        mangrove.connect(domain.url("head")) as bad,
    ):
        await subscriber.subscribe("news.*", callback=take, keywords=["Storm", "flood"])
        await subscriber.subscribe("news.1", utility=lambda message: 0.25)
        await subscriber.subscribe("news.1", utility=lambda message: float("nan"))
        client = agent.registrations[-1].client
        plain = await nats.connect(domain.url("head"))
        load = Load()
        tasks = [
            asyncio.create_task(load.publish("good", partial(say, good, "storm"), 200)),
            asyncio.create_task(load.publish("bad", partial(say, bad, "sport"), 200)),
            asyncio.create_task(
                load.publish("plain", partial(plain.publish, "news.1", headers={UTILITY_HEADER: "NaN"}), 200)
            ),
        ]
        votes: dict[tuple[str, str], set[float]] = {}

        async def judged() -> bool:
            for report in reports(agent):
                if report.client == client:
                    for key, said in report.votes.items():
                        for origin, vote in said.items():
                            assert 0 < vote.messages <= (32 if key == "s1" else 512)
                            votes.setdefault((key, origin), set()).add(vote.utility)
            return {origin for key, origin in votes if key == "s2"} >= {good._ids.prefix, bad._ids.prefix}

        await eventually(judged, "the agent hears what was judged")
        await agent.move("s1", "edge2", client=client)
        await eventually(judged, "it goes on after a move")
        load.running = False
        await asyncio.gather(*tasks)
        await plain.close()
        assert votes["s1", good._ids.prefix] == {0.5}
        assert votes["s1", bad._ids.prefix] == {0.0}
        assert votes["s2", good._ids.prefix] == {0.25}
        assert not [key for key, _ in votes if key == "s3"], "NaN is no vote"
        assert ("s1", PLAIN_ORIGIN) in votes, "by the words of their bodies"
        registered = {each.client: each.origin for each in agent.registrations}
        assert good._ids.prefix in registered.values(), "by it the agent knows whom they mean"


async def say(connection: mangrove.Connection, keyword: str, data: bytes) -> None:
    await connection.publish("news.1", data, keywords=[keyword])


async def test_a_slow_reader_loses_exactly_what_it_is_told_also_while_it_moves(
    domain: DomainOfBrokers, agent: OrderingAgent
) -> None:
    told: Counter[str] = Counter()

    def note(gap: Gap) -> None:
        told[gap.subject] += gap.lost

    async with (
        mangrove.connect(domain.url("head")) as subscriber,
        mangrove.connect(domain.url("head")) as publisher,
    ):
        subscription = await subscriber.subscribe(
            "load.*", slow="drop-least-useful", max_pending=50, on_gap=note
        )
        client = agent.registrations[-1].client
        probes = await in_force(publisher, subscription, "load.1")
        load = Load()
        publishing = asyncio.create_task(
            load.publish("sdk", partial(publisher.publish, "load.1", utility=0.5), 2000)
        )
        got: list[bytes] = []

        async def read() -> None:
            async for message in subscription:
                got.append(message.data)
                await asyncio.sleep(0.005)

        reading = asyncio.create_task(read())
        for to in ("edge2", "edge1"):
            assert (await agent.move("s1", to, client=client)).problem == ""

        async def lagging() -> bool:
            lags = [lag for each in reports(agent) for lag in each.lags.values()]
            return any(isinstance(lag, Lag) and lag.lost and lag.pending >= 40 for lag in lags)

        await eventually(lagging, "the agent hears of the lag")
        load.running = False
        await publishing
        await publisher.flush()

        async def all_came() -> bool:
            return subscription.messages - subscription.duplicates - probes >= load.sent["sdk"]

        await eventually(all_came, "all has come")
        subscription.finish()
        await reading
    assert told.keys() == {"load.1"}
    assert len(set(got)) == len(got)
    came = subscription.messages - subscription.duplicates - probes
    assert len(got) + told["load.1"] == load.sent["sdk"] == came
    assert subscriber.dropped == told


async def test_a_contract_cuts_a_slow_subscription_off_and_the_others_go_on(
    domain: DomainOfBrokers, agent: OrderingAgent
) -> None:
    async with mangrove.connect(domain.url("head")) as connection:
        assert connection._terms == domain.terms
        cut = await connection.subscribe("cut.*", max_pending=10)
        other = await connection.subscribe("other")
        assert cut.slow is Slow.DISCONNECT
        await in_force(connection, other, "other")
        probes = await in_force(connection, cut, "cut.1")
        for number in range(200):
            await connection.publish("cut.1", b"%d" % number)
            await connection.publish("other", b"%d" % number)
        got = [int((await other.next(5)).data) for _ in range(200)]
        assert got == list(range(200))
        kept = [int((await cut.next(5)).data) for _ in range(cut.pending)]
        with pytest.raises(SlowSubscriberError):
            await cut.next(5)
        assert kept == list(range(len(kept)))
        assert len(kept) + cut.lost["disconnect"] == cut.messages - probes

        async def left() -> bool:
            return cut not in connection._legs

        await eventually(left, "it is not served any more")
        await connection.publish("other", b"after")
        assert (await other.next(5)).data == b"after"
        await cut.unsubscribe()
