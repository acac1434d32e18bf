"""`gateways: 2`: one carries and dies or hangs, the other takes over; nothing is delivered twice."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.agent.inspection import gateway_status
from mangrove.agent.story import read_events
from mangrove.config import parse_federation
from mangrove.host.process import ManagedProcess
from mangrove.model.shared_names import ID_HEADER, MIRROR_PREFIX
from mangrove.model.status import PairStatus
from mangrove.overlay.events.happenings import GatewayDisplaced, GatewayTookOver
from mangrove.testbed.local_federation import LocalFederation

TWINS = """
federation: twins
domains:
  oslo:  {location: [59.91, 10.75], edges: 2, gateways: 2}
  paris: {location: [48.86, 2.35], edges: 2, gateways: 2}
links:
  - {between: [oslo, paris], delay_ms: 2}
topics:
  - {match: "twin.>", mirror: true}
"""
RATE = 1000
"""Messages a second, of each of several topics."""
SETTLED_S = 0.3
PATIENCE_S = 2.0

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
async def twins(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    federation = parse_federation(TWINS, "twins").require()
    directory: Path = tmp_path_factory.mktemp("state") / "twins"
    async with LocalFederation(federation, directory, ephemeral=True, agents=False) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


async def pair_of(running: Running, domain: str) -> PairStatus:
    """How the two gateways of a domain stand, once one of them carries and the other stands by."""
    found: list[PairStatus] = []

    async def both() -> bool:
        status = await gateway_status(running.launched.endpoints[domain])
        if status is None or status.pair is None or status.pair.other != "standby":
            return False
        found.append(status.pair)
        return True

    await eventually(both, f"one gateway of {domain} should carry and the other stand by")
    return found[-1]


async def carrying(running: Running, domain: str) -> ManagedProcess:
    return running.launched.sites[domain].gateways[(await pair_of(running, domain)).number - 1]


class Stream:
    """Messages of one topic from one domain to another, numbered, at a steady rate."""

    def __init__(self, topic: str, mirrored: bool) -> None:
        self.topic = topic
        self._mirrored = mirrored
        self.sent = self._first = 0
        self.came: Counter[int] = Counter()
        self.longest_s = 0.0
        self._last = 0.0
        self._connections: list[Client] = []
        self._task: asyncio.Task[None] | None = None
        self._flows = True

    async def begin(self, running: Running, origin: str, destination: str) -> None:
        endpoints = running.launched.endpoints
        ends = (endpoints[origin].head, endpoints[origin].edges[1], endpoints[destination].edges[0])
        self._connections = [await nats.connect(end.client_url) for end in ends]
        await self._connections[2].subscribe(self.topic, cb=self._arrived, pending_msgs_limit=1_000_000)
        await self._connections[2].flush()

        async def arrives() -> bool:
            before = self.came.total()
            await self._publish()
            await asyncio.sleep(0.05)
            return self.came.total() > before

        await eventually(arrives, f"{self.topic} should arrive")
        self.came.clear()
        self._first = self.sent
        self._task = asyncio.create_task(self._flow())

    async def _flow(self) -> None:
        began = monotonic()
        while self._flows:
            while self.sent - self._first < (monotonic() - began) * RATE:
                await self._publish()
            await asyncio.sleep(0.002)

    async def _publish(self) -> None:
        head, mirror, _ = self._connections
        body = b"%d" % self.sent
        self.sent += 1
        if not self._mirrored:
            await head.publish(self.topic, body)
            return
        headers = {ID_HEADER: f"{self.topic}-{id(self)}-{body.decode()}"}
        await mirror.publish(f"{MIRROR_PREFIX}{self.topic}", body, headers=headers)
        await head.publish(self.topic, body, headers=headers)

    async def _arrived(self, message: Msg) -> None:
        now = monotonic()
        if self._last:
            self.longest_s = max(self.longest_s, now - self._last)
        self._last = now
        self.came[int(message.data)] += 1

    async def end(self) -> None:
        """Stop, and wait until what is under way has come."""
        assert self._task is not None
        self._flows = False
        await self._task
        await self._connections[0].flush()
        await self._connections[1].flush()
        # What is late is not lost: it ends when all is there, or when nothing has come for a good while.
        last, silent_s = self.came.total(), 0.0
        while silent_s < (PATIENCE_S if self.lost else SETTLED_S):
            await asyncio.sleep(0.1)
            silent_s = silent_s + 0.1 if last == self.came.total() else 0.0
            last = self.came.total()
        for connection in self._connections:
            await connection.close()

    @property
    def lost(self) -> int:
        return len(set(range(self._first, self.sent)) - self.came.keys())

    @property
    def doubled(self) -> int:
        return sum(count - 1 for count in self.came.values())

    def figures(self) -> str:
        gap_ms, sent = 1000 * self.longest_s, self.sent - self._first
        return f"{self.topic}: gap {gap_ms:.0f} ms, {sent} sent, {self.lost} lost, {self.doubled} doubled"


async def disturb(process: ManagedProcess, number: signal.Signals) -> None:
    assert process.pid is not None
    os.kill(process.pid, number)
    if number is signal.SIGSTOP:
        await asyncio.sleep(1.0)
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
async def test_a_gateway_that_dies_or_hangs_is_followed_and_nothing_comes_twice(
    twins: Running, number: signal.Signals
) -> None:
    inward, outward = Stream("in.x", False), Stream("out.x", False)
    twin_in, twin_out = Stream("twin.in", True), Stream("twin.out", True)
    for stream in (inward, twin_in):
        await stream.begin(twins, "paris", "oslo")
    for stream in (outward, twin_out):
        await stream.begin(twins, "oslo", "paris")
    neighbour = await twins.gateway("paris")
    await asyncio.sleep(0.5)
    victim = await carrying(twins, "oslo")
    await disturb(victim, number)
    after = await pair_of(twins, "oslo")
    await asyncio.sleep(0.3)
    for stream in (inward, outward, twin_in, twin_out):
        await stream.end()
        log.info("%s: %s", number.name, stream.figures())
    assert after.process != victim.name
    assert after.names_told > 0
    assert (after.sent_before, after.delivered_before) > (0, 0)
    assert [inward.doubled, outward.doubled, twin_out.doubled] == [0, 0, 0]
    assert [twin_in.lost, twin_out.lost] == [0, 0]
    assert inward.lost < RATE / 10, "what it had said it delivers, and no more"
    assert outward.lost < outward.sent / 2
    there = await twins.gateway("paris")
    assert there.pair is not None
    assert neighbour.pair is not None
    # On a busy machine the two there may have changed places by themselves.
    earlier, now = ((each.process, each.takeovers) for each in (neighbour.pair, there.pair))
    assert there.epoch == neighbour.epoch or now != earlier


async def test_the_one_that_stands_by_may_die_or_hang_without_anybody_noticing(twins: Running) -> None:
    for attempt in range(3):  # the machine may be so busy that the other one hangs too
        stream = Stream(f"calm.{attempt}", False)
        await stream.begin(twins, "oslo", "paris")
        before = await pair_of(twins, "oslo")
        other = twins.launched.sites["oslo"].gateways[2 - before.number]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            await disturb(other, number)
            after = await pair_of(twins, "oslo")
        await stream.end()
        assert stream.doubled == 0
        if (after.process, after.takeovers, stream.lost) == (before.process, before.takeovers, 0):
            return
    pytest.fail(f"{before} became {after}, with {stream.lost} lost")


async def test_a_gateway_that_is_told_to_stop_hands_over(twins: Running) -> None:
    stream = Stream("handed.x", False)
    await stream.begin(twins, "paris", "oslo")
    before = await pair_of(twins, "oslo")
    process = await carrying(twins, "oslo")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)

    async def handed_over() -> bool:
        status = await gateway_status(twins.launched.endpoints["oslo"])
        return status is not None and status.pair is not None and status.pair.number != before.number

    await eventually(handed_over, "the other gateway should carry")
    await stream.end()
    assert (stream.lost, stream.doubled) == (0, 0)


@pytest.mark.soak
async def test_when_both_die_nothing_comes_twice_from_whichever_is_back_first(twins: Running) -> None:
    """What one delivered is in its journal, which the other one reads: they are on one machine."""
    stream = Stream("both.x", False)
    await stream.begin(twins, "paris", "oslo")
    dropped = sum((await twins.gateway("paris")).dropped.values())
    first = await carrying(twins, "oslo")
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)

    async def alone() -> bool:
        status = await gateway_status(twins.launched.endpoints["oslo"])
        return status is not None and status.pair is not None and status.pair.process != first.name

    await eventually(alone, "the other gateway should carry")
    (second,) = (each for each in twins.launched.sites["oslo"].gateways if each is not first)
    assert second.pid is not None
    os.kill(second.pid, signal.SIGKILL)
    await pair_of(twins, "oslo")
    await stream.end()
    assert stream.doubled == 0
    expired = sum((await twins.gateway("paris")).dropped.values()) - dropped
    assert stream.lost - expired < RATE / 10, "frames wait for ten seconds, and restarts may take longer"


async def test_the_story_tells_who_took_over_and_why(twins: Running) -> None:
    found = [event.happening for event in read_events(twins.launched.run.events)]
    assert GatewayTookOver(reason="the other gateway has died") in found
    assert GatewayTookOver(reason="the other gateway is silent") in found
    assert any(isinstance(each, GatewayDisplaced) for each in found)
