"""The same faults in turn, again and again, for a site with mirrors and for a native cluster.

Each host of the site is a network namespace in which a server of the native cluster runs too. A fault strikes
a broker of the site or its host, and a moment later the native server of that host: not both at once, as what
each then has to do would be measured in the other's gaps. All clients connect anew for every repetition: ours
publish at the head and subscribe where they are told; native ones publish at the head's host and subscribe at
the host of our subscribers' broker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from mangrove.errors import MangroveError
from mangrove.testbed.accounting import Figures, Span
from mangrove.testbed.hosts.namespaces import HostNetwork
from mangrove.testbed.mirrors.account import UNDER_WAY_NS, Fault, Repetition, counting
from mangrove.testbed.mirrors.native_cluster import NativeCluster
from mangrove.testbed.mirrors.site import BOTH, HOSTS, MIRRORED, PLAIN, STANDBY, FailingSite
from mangrove.testbed.mirrors.streams import Streams, StreamsUnableError
from mangrove.testbed.mirrors.workers import NATS_PY, SDK

RATE_MSG_S = 2000.0
NATIVE = "native"
VICTIMS = ("head", "primary", "mirror")
AWAY_S = 2.0
"""A broker stays frozen, and a host cut off, for so long."""
RETURN_S = 1.5
"""What happens when it returns belongs to the account."""
SETTLE_S = 2.0
MAX_TURNS = 3
"""At most so many times the repetitions that are to count are made: a busy machine ends it some day."""
UNABLE_IN_A_ROW = 5


class FaultSeries(msgspec.Struct, frozen=True, kw_only=True):
    """All repetitions of one fault, those included that do not count."""

    fault: Fault
    repetitions: tuple[Repetition, ...]
    not_begun: int
    """Turns that came to nothing, as clients did not find their brokers: nothing was struck in them."""


class Series:
    """Makes the repetitions, one fault after the other."""

    def __init__(
        self,
        site: Path,
        native: Path,
        wanted: int,
        note: Callable[[Fault, int, int], None],
        *,
        faults: Sequence[Fault] = tuple(Fault),
        victims: Sequence[str] = VICTIMS,
    ) -> None:
        """`site` and `native` are where their files are.

        `note` hears of the fault, and how many repetitions of it count and were left out.
        """
        self._site = site
        self._native = native
        self._wanted = wanted
        self._note = note
        self._faults = faults
        self._victims = victims

    async def run(self) -> list[FaultSeries]:
        """All faults, until enough repetitions of each count."""
        async with (
            HostNetwork(HOSTS) as network,
            FailingSite(len(HOSTS), self._site, network) as site,
            NativeCluster(network, HOSTS, self._native) as native,
        ):
            with (
                Streams(SDK, (BOTH, STANDBY, PLAIN), MIRRORED, RATE_MSG_S) as ours,
                Streams(NATS_PY, (NATIVE,), (), RATE_MSG_S) as theirs,
            ):
                return [
                    await self._series(fault, _Turn(site, native, ours, theirs)) for fault in self._faults
                ]

    async def _series(self, fault: Fault, turn: _Turn) -> FaultSeries:
        done: list[Repetition] = []
        not_begun = in_a_row = 0
        while len(counting(done)) < self._wanted and len(done) < MAX_TURNS * self._wanted:
            self._note(fault, counted := len(counting(done)), len(done) - counted)
            try:
                done.append(await turn.repetition(fault, self._victims[len(done) % len(self._victims)]))
                in_a_row = 0
            except StreamsUnableError as error:
                not_begun += 1
                in_a_row += 1
                if in_a_row == UNABLE_IN_A_ROW:
                    raise MangroveError(f"no stream begins any more after a {fault}: {error}") from None
            await asyncio.sleep(SETTLE_S)
        self._note(fault, counted := len(counting(done)), len(done) - counted)
        return FaultSeries(fault=fault, repetitions=tuple(done), not_begun=not_begun)


class _Turn:
    """One repetition after the other on what runs."""

    def __init__(self, site: FailingSite, native: NativeCluster, ours: Streams, theirs: Streams) -> None:
        self._site = site
        self._native = native
        self._ours = ours
        self._theirs = theirs

    async def repetition(self, fault: Fault, victim: str) -> Repetition:
        """The fault strikes the site, and then the cluster."""
        site = self._site
        try:
            await self._ours.begin(site.urls, site.urls)
            primary, mirror = await self._ours.place(BOTH)
            broker = {"head": site.head, "primary": primary, "mirror": mirror}[victim]
            ours, waited_ms = await self._account(self._ours, site.strike(fault, broker), site.heal)
            await asyncio.sleep(SETTLE_S)
            await self._theirs.begin(
                self._native.urls(site.host_of(site.head)), self._native.urls(site.host_of(primary))
            )
            struck = self._native.strike(fault, site.host_of(broker))
            theirs, _ = await self._account(self._theirs, struck, self._native.heal)
        except StreamsUnableError:
            await asyncio.gather(self._ours.close(), self._theirs.close())
            raise
        return Repetition(
            fault=fault,
            victim=victim,
            figures=ours | theirs,
            paused_ms=min(each.longest_send_gap_ms for each in ours.values()),
            waited_ms=waited_ms,
        )

    async def _account(
        self, streams: Streams, strike: Awaitable[None], heal: Callable[[], Awaitable[None]]
    ) -> tuple[dict[str, Figures], float]:
        start_ns = time.monotonic_ns()
        await strike
        await asyncio.sleep(AWAY_S)
        await heal()
        await asyncio.sleep(RETURN_S)
        return await streams.end(Span(start_ns - UNDER_WAY_NS, time.monotonic_ns()))
