"""Samples of a broker: every period, whatever it does, and what the brain asks for beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from itertools import pairwise

from tests.kit.waiting import eventually

from mangrove.agent.serving.broker_watch import MAX_JOBS, BrokerWatch
from mangrove.broker.system import BrokerAwayError, Connections
from mangrove.control.stimuli import BrokerSampled, BrokerUnreachable, PlainClientsSeen, Stimulus
from mangrove.model.agents.load import BrokerSample
from mangrove.model.agents.plain_clients import PlainClient
from mangrove.model.questions.vouching import AttachedPlace

PERIOD_S = 0.02
SAMPLE = BrokerSample(broker="b", started="x", messages_in=0, messages_out=0, bytes_in=0, bytes_out=0)
CLIENT = PlainClient(cid=7, name="plain", patterns=(("a.>", 1),), bytes_out=1, pending_bytes=0)


class ScriptedBroker:
    """Answers as a test wants it to."""

    def __init__(self) -> None:
        self.away = False
        self.slow_s = 0.0
        self.asked: list[tuple[bool, bool]] = []
        self.at: list[float] = []
        self.kicked: list[int] = []
        self.looks = 0
        self.closed = False

    async def sample(self, *, pending: bool = False, delay: bool = False) -> BrokerSample:
        self.asked.append((pending, delay))
        slow_s, self.slow_s = self.slow_s, 0.0
        await asyncio.sleep(slow_s)
        if self.away:
            raise BrokerAwayError("it is away")
        self.at.append(asyncio.get_running_loop().time())
        return SAMPLE

    async def connections(self) -> Connections:
        self.looks += 1
        if self.away:
            raise BrokerAwayError("it is away")
        return Connections((CLIENT,), left_out=3)

    async def kick(self, cid: int) -> None:
        if self.away:
            raise BrokerAwayError("it is away")
        self.kicked.append(cid)

    async def attached(self) -> bool:
        return not self.away

    async def detach(self, other: str) -> bool:
        raise BrokerAwayError(f"it stays attached to {other}")

    async def expel(self, keys: Collection[str], vouched: Collection[AttachedPlace] = ()) -> int:
        raise BrokerAwayError(f"whoever has none of {len(keys)} keys stays")

    async def close(self) -> None:
        self.closed = True


class Watched:
    """A watch that runs, and what it told."""

    def __init__(self) -> None:
        self.broker = ScriptedBroker()
        self.told: list[Stimulus] = []
        self.leads = True
        self.watch = BrokerWatch(
            "b",
            self.broker,
            self.told.append,
            lambda: self.leads,
            period_s=PERIOD_S,
            pending=False,
            delay=True,
        )
        self.task = asyncio.create_task(self.watch.run())

    async def samples(self, more: int) -> None:
        wanted = len(self.told) + more

        async def enough() -> bool:
            return len(self.told) >= wanted

        await eventually(enough, f"{more} more samples should be told")

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_a_broker_is_sampled_every_period_and_told_when_it_is_away() -> None:
    watched = Watched()
    try:
        await watched.samples(3)
        assert all(isinstance(each, BrokerSampled) for each in watched.told)
        watched.broker.away = True
        watched.watch.curious = True
        await watched.samples(3)
        assert watched.told[-1] == BrokerUnreachable("b", "it is away")
        assert watched.broker.asked[0] == (False, True)
        assert watched.broker.asked[-1] == (True, True)
    finally:
        await watched.end()
    assert watched.broker.closed


async def test_after_a_late_sample_the_next_ones_do_not_pile_up() -> None:
    watched = Watched()
    try:
        await watched.samples(2)
        watched.broker.slow_s = 10 * PERIOD_S
        await watched.samples(4)
        at = watched.broker.at
        assert min(later - earlier for earlier, later in pairwise(at)) > PERIOD_S / 4
    finally:
        await watched.end()


async def test_looks_are_taken_once_and_kicks_in_order_also_after_a_failure() -> None:
    watched = Watched()
    try:
        for _ in range(5):
            watched.watch.look_at_clients()
        watched.watch.kick(1)
        watched.watch.kick(2)

        async def done() -> bool:
            return watched.broker.kicked == [1, 2]

        await eventually(done, "both should be disconnected")
        assert watched.broker.looks == 1
        assert PlainClientsSeen("b", (CLIENT,), 3) in watched.told
        watched.broker.away = True
        watched.watch.look_at_clients()

        async def tried() -> bool:
            return watched.broker.looks == 2

        await eventually(tried, "it should be tried")
        watched.broker.away = False
        watched.watch.kick(3)

        async def again() -> bool:
            return watched.broker.kicked == [1, 2, 3]

        await eventually(again, "it goes on after a failure")
    finally:
        await watched.end()


async def test_who_does_not_lead_any_more_disconnects_nobody() -> None:
    watched = Watched()
    try:
        watched.leads = False
        watched.watch.kick(1)
        watched.watch.look_at_clients()
        await watched.samples(3)
        watched.leads = True
        watched.watch.look_at_clients()
        watched.watch.kick(2)

        async def done() -> bool:
            return watched.broker.kicked == [2]

        await eventually(done, "only what is asked for as a leader is done")
        assert watched.broker.looks == 1
    finally:
        await watched.end()


async def test_jobs_are_bounded() -> None:
    watched = Watched()
    try:
        tried = [watched.watch.kick(cid) for cid in range(MAX_JOBS + 5)]
        assert tried.count(False) == 5
    finally:
        await watched.end()
