"""Two domains: the head or a gateway of the publisher's domain fails under streams from one to the other."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import msgspec

from mangrove.agent.inspection import gateway_status, inspect
from mangrove.config import parse_federation
from mangrove.errors import MangroveError
from mangrove.host.process import ManagedProcess
from mangrove.testbed.accounting import Figures, Span
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.mirrors.account import UNDER_WAY_NS
from mangrove.testbed.mirrors.series import MAX_TURNS
from mangrove.testbed.mirrors.site import BOTH, MIRRORED, PLAIN, STANDBY, TOPICS, send
from mangrove.testbed.mirrors.streams import Streams
from mangrove.testbed.mirrors.workers import SDK

HOME, ABROAD = "north", "south"
RATE_MSG_S = 1000.0
PAIR = f"""
federation: pair
domains:
  {HOME}: {{edges: 2, gateways: 2}}
  {ABROAD}: {{edges: 2, gateways: 2, base_port: 7300}}
links:
  - {{between: [{HOME}, {ABROAD}], delay_ms: 5}}
{TOPICS}"""
LONGEST_PAUSE_MS = 150.0
"""A repetition in which the publisher itself paused for longer, half of the shortest bar, is left out.
A gateway that starts anew keeps a processor busy for about a tenth of a second."""
WATCH_S = 3.0
SETTLE_S = 3.0
HEALTHY_S = 30.0


class PairFault(StrEnum):
    """What fails in the domain of the publisher."""

    HEAD_KILLED = "head killed"
    GATEWAY_KILLED = "gateway killed"
    GATEWAY_FROZEN = "gateway frozen"


class PairRepetition(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, and what became of each stream."""

    fault: PairFault
    figures: dict[str, Figures]
    paused_ms: float
    """The longest pause of the publisher, of that stream which paused least."""

    @property
    def counts(self) -> bool:
        """Whether the publisher did not pause for long by itself."""
        return self.paused_ms <= LONGEST_PAUSE_MS


class PairSeries:
    """The same faults again and again, on loopback: root is not needed."""

    def __init__(self, directory: Path, repetitions: int, note: Callable[[PairFault, int], None]) -> None:
        """`note` hears how many repetitions of a fault count."""
        self._launched = LocalFederation(
            parse_federation(PAIR, "pair").require(), directory, ephemeral=True, seed=1
        )
        self._repetitions = repetitions
        self._note = note

    async def run(self) -> list[PairRepetition]:
        """All faults, until enough repetitions of each count, or far too many were made."""
        done: list[PairRepetition] = []
        with Streams(SDK, (BOTH, STANDBY, PLAIN), MIRRORED, RATE_MSG_S) as streams:
            async with self._launched:
                await self._healthy()
                for fault in PairFault:
                    counted = 0
                    for _ in range(MAX_TURNS * self._repetitions):
                        done.append(await self._repetition(fault, streams))
                        counted += done[-1].counts
                        self._note(fault, counted)
                        await asyncio.sleep(SETTLE_S)
                        if counted == self._repetitions:
                            break
        return done

    async def _repetition(self, fault: PairFault, streams: Streams) -> PairRepetition:
        await streams.begin(self._urls(HOME), self._urls(ABROAD))
        pid = (await self._victim(fault)).pid
        if pid is None:
            raise MangroveError(f"{fault}: it does not run")
        start_ns = time.monotonic_ns()
        os.kill(pid, signal.SIGSTOP if fault is PairFault.GATEWAY_FROZEN else signal.SIGKILL)
        await asyncio.sleep(WATCH_S)
        send(pid, signal.SIGCONT)
        await asyncio.sleep(1.0)
        figures, _ = await streams.end(Span(start_ns - UNDER_WAY_NS, time.monotonic_ns()))
        return PairRepetition(
            fault=fault,
            figures=figures,
            paused_ms=min(each.longest_send_gap_ms for each in figures.values()),
        )

    async def _victim(self, fault: PairFault) -> ManagedProcess:
        if fault is PairFault.HEAD_KILLED:
            name = self._launched.endpoints[HOME].head.name
            return next(each for each in self._launched.processes() if each.name == name)
        async with asyncio.timeout(HEALTHY_S):
            while True:
                status = await gateway_status(self._launched.endpoints[HOME])
                if status is not None and status.pair is not None and status.pair.other == "standby":
                    return self._launched.sites[HOME].gateways[status.pair.number - 1]
                await asyncio.sleep(0.1)

    def _urls(self, domain: str) -> list[str]:
        return [broker.client_url for broker in self._launched.endpoints[domain].succession]

    async def _healthy(self) -> None:
        async with asyncio.timeout(HEALTHY_S):
            while not (await inspect(self._launched.runtime())).healthy:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.1)
