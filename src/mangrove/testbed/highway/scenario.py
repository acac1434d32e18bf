"""A highway on which a broker is killed, another freezes and a host is lost, and the account of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from mangrove.control.events.kinds import KINDS
from mangrove.errors import MangroveError
from mangrove.model.events.event_log import Event, read_event
from mangrove.testbed.accounting import Figures, Span
from mangrove.testbed.highway.regions import FLOWS, STRUCK, Flow, Kind, highway
from mangrove.testbed.highway.traffic import HighwayTraffic, Stream
from mangrove.testbed.local_federation import LocalFederation

REST_S = 3.0
LOOK_S = 0.2
CALM_S = 1.5
UNDER_WAY_NS = 100_000_000
"""What was under way when something failed belongs to its account."""
KILLED, FROZEN, LOST = "killed", "frozen", "lost"
WATCHED = "alarm.north.accident"
"""The topic whose brokers fail."""


class KindAccount(msgspec.Struct, frozen=True, kw_only=True):
    """All topics of one kind, while one thing failed and after it returned."""

    kind: Kind
    fault: str
    victim: str
    sent: int
    """Once for every subscriber that is due to hear it."""
    lost: int
    duplicated: int
    longest_gap_ms: float
    own_pause_ms: float
    """The longest pause of the publishers themselves."""


class HighwayReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to."""

    accounts: tuple[KindAccount, ...]
    story: tuple[tuple[float, str, str], ...]
    """What the region's agents tell: seconds since the first fault, the event's id, and its sentence."""


class Moment(msgspec.Struct, frozen=True):
    """What is known while it runs."""

    phase: str
    primary: str
    mirror: str
    streams: tuple[tuple[str, str, int, int, float], ...]
    """Topic, region, sent, arrived, and seconds since the last arrival."""


class Highway:
    """The federation, its traffic, and what fails. `run` does all of it."""

    def __init__(
        self,
        directory: Path,
        *,
        seed: int = 1,
        flows: Sequence[Flow] = FLOWS,
        look: Callable[[Moment], None] = lambda _moment: None,
        progress: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._launched = LocalFederation(highway(), directory, ephemeral=True, seed=seed, progress=progress)
        self._traffic = HighwayTraffic(directory, flows)
        self._look = look

    async def run(self, seconds: float, rest_s: float = REST_S) -> HighwayReport:
        """Rest, three faults of `seconds` each with rest after each, and the account."""
        spans: dict[tuple[str, str], Span] = {}
        async with self._launched, self._traffic as traffic:
            traffic.publish()
            await self._watch("all is well", rest_s)
            await traffic.mirrored()
            began = time.time()
            for fault in (KILLED, FROZEN, LOST):
                start_ns = time.monotonic_ns() - UNDER_WAY_NS
                victim = await self._fail(fault, seconds, rest_s)
                spans[fault, victim] = Span(start_ns, time.monotonic_ns())
            await traffic.stop()
            await self._watch("what is under way arrives", CALM_S)
            story = self._story(began)
        return HighwayReport(
            accounts=tuple(
                _summed(kind, fault, victim, self._traffic.streams, span)
                for (fault, victim), span in spans.items()
                for kind in Kind
            ),
            story=story,
        )

    async def _fail(self, fault: str, seconds: float, rest_s: float) -> str:
        """Something fails, and returns; its name."""
        primary, _ = self._places()
        endpoints = self._launched.endpoints[STRUCK]
        victim = endpoints.head.name if fault == FROZEN else primary
        machine = next(each.machine for each in endpoints.succession if each.name == victim)
        host = self._launched.hosts[STRUCK][machine]
        if fault == LOST:
            await host.kill()
            await self._watch(f"{STRUCK} {machine} {fault}", seconds)
            await host.start()
            await self._watch(f"{machine} is back", rest_s)
            return f"{STRUCK} {machine}"
        pid = host.pid_of(victim)
        if pid is None:
            raise MangroveError(f"{victim} does not run")
        os.kill(pid, signal.SIGKILL if fault == KILLED else signal.SIGSTOP)
        await self._watch(f"{victim} {fault}", seconds)
        with contextlib.suppress(ProcessLookupError):  # it may have been replaced, or never return
            os.kill(pid, signal.SIGCONT)
        await self._watch(f"{victim} is back", rest_s)
        return victim

    def _places(self) -> tuple[str, str]:
        """Where the watched topic is served, and its mirror."""
        record = self._traffic.record(STRUCK, WATCHED)
        return ("", "") if record is None or not record.edges else (record.edges[0], record.mirror)

    async def _watch(self, phase: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left_s := end - time.monotonic()) > 0:
            streams = tuple(
                (each.flow.topic, each.subscriber, len(each.sent), len(each.numbers), each.silent_s)
                for each in self._traffic.streams
            )
            self._look(Moment(phase, *self._places(), streams))
            await asyncio.sleep(min(LOOK_S, left_s))

    def _story(self, since: float) -> tuple[tuple[float, str, str], ...]:
        events: list[Event] = []
        for path in sorted(self._launched.run.events.glob(f"{STRUCK}*.jsonl")):
            lines = path.read_bytes().split(b"\n")[:-1]
            events += [event for line in lines if (event := read_event(line, KINDS)) is not None]
        return tuple(
            (round(event.at - since, 3), event.id, event.happening.sentence())
            for event in sorted(events, key=lambda event: event.at)
            if event.at >= since
        )


def _summed(kind: Kind, fault: str, victim: str, streams: Sequence[Stream], span: Span) -> KindAccount:
    rows: list[Figures] = [each.account(span) for each in streams if each.flow.kind is kind]
    return KindAccount(
        kind=kind,
        fault=fault,
        victim=victim,
        sent=sum(row.sent for row in rows),
        lost=sum(row.lost for row in rows),
        duplicated=sum(row.duplicated for row in rows),
        longest_gap_ms=max((row.longest_gap_ms for row in rows), default=0.0),
        own_pause_ms=max((row.longest_send_gap_ms for row in rows), default=0.0),
    )
