"""Limits that plain clients cannot get around, and leave to be silent: real brokers, no agents."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import msgspec
import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.processor_waits import ProcessorWaits
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.config import parse_federation
from mangrove.gateway.audience.leaves import NOT_ANSWERED
from mangrove.gateway.limits.arrivals import CONGESTION
from mangrove.gateway.limits.departures import RATE_LIMITED
from mangrove.model.agents.names import gateway_limits_subject
from mangrove.model.agents.usefulness import GatewayLimited, GatewayLimits
from mangrove.model.congestion.rate_limit import RateLimit
from mangrove.model.questions.audience import (
    AudienceAnswer,
    AudienceRequest,
    Wanted,
    gateway_audience_subject,
    wanted_subject,
)
from mangrove.testbed.local_federation import LocalFederation

PAIR = """
federation: pair
domains:
  here:  {edges: 1}
  there: {edges: 1}
links:
  - {between: [here, there], delay_ms: 1}
topics:
  - {match: "slow.>", rate_msg_s: 200}
  - {match: "alert.>", protected: true}
  - {match: "always.>", always_send: true}
"""
ALICE, BOB, PLAIN = "alice-alice-", "bob-bob-bob-", ""


@pytest.fixture(scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    federation = parse_federation(PAIR, "pair").require()
    directory: Path = tmp_path_factory.mktemp("state") / "pair"
    async with LocalFederation(federation, directory, ephemeral=True, agents=False) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


async def dropped(pair: Running, domain: str, topic: str, reason: str) -> int:
    status = await pair.gateway(domain)
    return sum(drop.count for drop in status.drops if (drop.topic, drop.reason) == (topic, reason))


async def publish(url: str, subject: str, origin: str, msg_s: float, seconds: float) -> int:
    """Publish evenly as a plain client; with an origin, under ids such as that of an SDK."""
    loop = asyncio.get_running_loop()
    connection = await nats.connect(url)
    number = 0
    began = loop.time()
    while (elapsed := loop.time() - began) < seconds:
        while number < msg_s * elapsed:
            number += 1
            headers = {"Mangrove-Id": f"{origin}.{number:011x}"} if origin else None
            await connection.publish(subject, b"x" * 20, headers=headers)
        await asyncio.sleep(0.005)
    await connection.close()
    return number


async def test_publishers_share_what_the_contract_lets_out_of_the_domain(pair: Running) -> None:
    """The SDK's filter is not in the way: these are plain clients, two of them under ids of the SDK."""
    heard: Counter[str] = Counter()

    async def count(message: Msg) -> None:
        heard[(message.headers or {}).get("Mangrove-Id", "").partition(".")[0]] += 1

    subscriber = await nats.connect(pair.head("there"))
    await subscriber.subscribe("slow.x", cb=count)
    await subscriber.flush()
    await pair.knows_interest("here", "there", 1)
    seconds = 3.0
    rates = ((ALICE, 4000.0), (BOB, 400.0), (PLAIN, 1000.0))
    carriers = ("here-edge1", "here-head", "here-gateway")
    pids = {each.name: each.pid for each in pair.launched.processes()}
    waits = ProcessorWaits([pid for name in carriers if (pid := pids[name]) is not None])
    waits.start()
    began = monotonic()
    try:
        sent = await asyncio.gather(
            *(publish(pair.edge("here"), "slow.x", origin, msg_s, seconds) for origin, msg_s in rates)
        )
    finally:
        waits.stop()
    awake_s = waits.between(began, began + seconds)

    async def all_accounted_for() -> bool:
        return heard.total() + await dropped(pair, "here", "slow.x", RATE_LIMITED) == sum(sent)

    await eventually(all_accounted_for, "every message should have arrived or be counted as dropped")
    assert heard.total() <= 200 * (seconds + 1) + 100, "the rate, and a burst"
    assert heard.total() >= 200 * awake_s * 0.8, "what a machine in want of processors kept back is excused"
    shares = [heard[origin] / heard.total() for origin in (ALICE, BOB, PLAIN)]
    assert all(0.2 < share < 0.5 for share in shares), shares
    status = await pair.gateway("here")
    assert status.limits.subjects == 1
    await subscriber.close()


async def test_an_agent_limits_what_enters_its_domain(pair: Running) -> None:
    management = await pair.as_agent("there")

    async def order(epoch: int, limits: dict[str, dict[str, RateLimit]]) -> GatewayLimited:
        request = msgspec.json.encode(GatewayLimits(term=1, epoch=epoch, limits=limits))
        answer = await management.request(gateway_limits_subject("there"), request, timeout=5)
        return msgspec.json.decode(answer.data, type=GatewayLimited)

    subscriber = await nats.connect(pair.head("there"))
    subscription = await subscriber.subscribe("free.*")
    alerts = await subscriber.subscribe("alert.fire")
    await subscriber.flush()
    await pair.knows_interest("here", "there", 2)
    silence = {"*": RateLimit(msg_s=0.0)}
    assert (await order(1, {"free.x": silence, "alert.fire": silence})).limits == 1, "alerts are protected"
    publisher = await nats.connect(pair.head("here"))
    for subject in ("free.x", "free.y", "alert.fire"):
        await publisher.publish(subject, b"12345")
    assert (await subscription.next_msg(5)).subject == "free.y"
    await alerts.next_msg(5)
    told = await order(2, {})
    assert told.withheld == {"free.x": {"": (1, 5)}}
    assert await dropped(pair, "there", "free.x", CONGESTION) == 1
    await publisher.publish("free.x", b"again")
    assert (await subscription.next_msg(5)).data == b"again"
    for client in (management, subscriber, publisher):
        await client.close()


class SilentPublisher:
    """A client that asks for leave, and obeys by hand."""

    def __init__(self, management: Client, name: str, user: str) -> None:
        self._management = management
        self._name = name
        self._user = user
        self.told: asyncio.Queue[Wanted] = asyncio.Queue()

    async def listen(self) -> None:
        async def hear(message: Msg) -> None:
            self.told.put_nowait(msgspec.json.decode(message.data, type=Wanted))

        await self._management.subscribe(wanted_subject("here", self._name, self._user), cb=hear)
        await self._management.flush()

    async def ask(self, *subjects: str, knows: int = 0) -> tuple[str, ...]:
        request = AudienceRequest(client=self._name, subjects=subjects, knows=knows)
        answer = await self._management.request(
            gateway_audience_subject("here", self._user), msgspec.json.encode(request), timeout=5
        )
        return msgspec.json.decode(answer.data, type=AudienceAnswer).unwanted

    async def give_up(self) -> None:
        """Without waiting for an answer."""
        request = msgspec.json.encode(AudienceRequest(client=self._name))
        await self._management.publish(gateway_audience_subject("here", self._user), request)

    async def gets_leave(self, *subjects: str) -> None:
        async def has_leave() -> bool:
            return await self.ask(*subjects) == subjects

        await eventually(has_leave, "the edge is attached, and nobody wants it")


@pytest.fixture
async def silent(pair: Running) -> AsyncIterator[SilentPublisher]:
    management = await nats.connect(pair.launched.endpoints["here"].management.client_url)
    publisher = SilentPublisher(management, "silent-publisher", pair.user)
    await publisher.listen()
    yield publisher
    await management.close()


@pytest.mark.parametrize("domain", ["here", "there"])
async def test_ready_waits_until_a_silent_publisher_knows(
    pair: Running, silent: SilentPublisher, domain: str
) -> None:
    await silent.gets_leave(f"{domain}.news", f"{domain}.other")
    async with mangrove.connect(domain=domain, run_dir=pair.launched.directory) as connection:
        subscription = await connection.subscribe(f"{domain}.news")
        ready = asyncio.ensure_future(subscription.ready())
        told = await asyncio.wait_for(silent.told.get(), 5)
        assert told.subjects == (f"{domain}.news",)
        assert not ready.done()
        assert await silent.ask(f"{domain}.other", knows=told.number) == (f"{domain}.other",)
        await asyncio.wait_for(ready, 5)
        assert (await pair.gateway("here")).silence.leaves == 1
        await silent.ask()


async def test_a_publisher_that_has_gone_holds_nobody_up_for_long(pair: Running) -> None:
    management = await nats.connect(pair.launched.endpoints["here"].management.client_url)
    gone = SilentPublisher(management, "gone-publisher", pair.user)
    await gone.gets_leave("gone.x")
    async with mangrove.connect(domain="there", run_dir=pair.launched.directory) as connection:
        subscription = await connection.subscribe("gone.x")
        await subscription.ready()
    assert NOT_ANSWERED not in (await pair.gateway("here")).silence.refused
    await management.close()


async def test_every_kind_of_subscriber_is_seen(pair: Running, silent: SilentPublisher) -> None:
    """Plain, in a queue group, at an edge, and a stream of the broker's own where clients may have one."""
    head, edge = await nats.connect(pair.head("here")), await nats.connect(pair.edge("here"))
    await head.subscribe("kinds.plain")
    await edge.subscribe("kinds.*.group", queue="workers")
    if pair.user:
        await head.subscribe("kinds.stream.>")
    else:
        await head.jetstream().add_stream(name="KINDS", subjects=["kinds.stream.>"])
    subjects = ("kinds.plain", "kinds.x.group", "kinds.stream.x", "always.x", "kinds.nobody")

    async def only_nobody() -> bool:
        return await silent.ask(*subjects) == ("kinds.nobody",)

    async def no_leaves() -> bool:
        return (await pair.gateway("here")).silence.leaves == 0

    await eventually(only_nobody, "leave only where nobody listens")
    await silent.give_up()
    await eventually(no_leaves, "what is given up should be forgotten")
    if not pair.user:
        await head.jetstream().delete_stream("KINDS")
    await head.close()
    await edge.close()


async def test_hostile_questions_are_answered_and_harm_nobody(pair: Running, silent: SilentPublisher) -> None:
    client = await nats.connect(pair.launched.endpoints["here"].management.client_url)
    agent = await pair.as_agent("here")
    audience = gateway_audience_subject("here", pair.user)
    garbage = (b"", b"\xff" * 1000, b"[]", b'{"client": "x"}', b"{" * 100_000, b'{"term": NaN}')
    for asker, subject in ((client, audience), (agent, gateway_limits_subject("here"))):
        for request in garbage:
            answer = msgspec.json.decode((await asker.request(subject, request, timeout=5)).data)
            assert answer["problem"]
    await agent.publish("mangrove.here.gateway.unheard.silent-publisher", b"")
    for number in range(200):
        forged = AudienceRequest(client=f"forged-{number:05d}", subjects=(f"forged.{number}",))
        await client.request(audience, msgspec.json.encode(forged), timeout=5)
    async with mangrove.connect(domain="here", run_dir=pair.launched.directory) as connection:
        subscription = await connection.subscribe("forged.>")
        await subscription.ready(timeout=10)
        await connection.publish("forged.1", b"heard")
        assert (await subscription.next(timeout=5)).data == b"heard"
    await client.close()
    await agent.close()
