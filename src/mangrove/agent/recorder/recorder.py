"""The recorder: looks at a domain once a second and hands rows of the telemetry lake to a writer.

Sources: the brokers' monitoring pages (totals; subscriptions and what each was handed), the gateway's account
of itself (links, topics carried, drops), and the tap (which topics, how large, how late). A source that is
away leaves its columns empty or its rows out; it never stops the others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from mangrove.agent.inspection import inspect_domain
from mangrove.agent.recorder.counters import Counters
from mangrove.agent.recorder.rows import Second, delivery_rows, link_rows, rate_rows, sample_rows
from mangrove.broker.nats.subscriptions import Subscriptions, subscriptions
from mangrove.broker.nats.tap import Tap
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.federation import Federation
from mangrove.model.status import DomainStatus
from mangrove.model.telemetry import BROKER_SAMPLES, DELIVERIES, EVENTS, LINK_SAMPLES, TOPIC_RATES, Table

log = logging.getLogger(__name__)

FLUSH_S = 3.0
# A head broker that uses more than this share of the machine's cores has no time for a tap.
TAP_CPU_PERCENT_PER_CORE = 70.0
TAP_REST_S = 10

Row = Mapping[str, object]


class Sink(Protocol):
    """Where rows go."""

    def add(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep rows."""

    def flush(self) -> object:
        """Write what is kept; may block, and is called in a thread."""

    def close(self) -> None:
        """Write what is left."""


class Recorder:
    """Records the domains that run here."""

    def __init__(
        self, federation: Federation, domains: Sequence[DomainEndpoints], sink: Sink, *, cores: int = 1
    ) -> None:
        self._sink = sink
        self._domains = [DomainRecorder(federation, endpoints, sink, cores) for endpoints in domains]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to record."""
        for domain in self._domains:
            domain.event(domain.name, "recorder_started", "")
        self._tasks = [asyncio.create_task(domain.run()) for domain in self._domains]
        self._tasks.append(asyncio.create_task(self._flush_regularly()))

    async def stop(self) -> None:
        """End, with everything written."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for domain in self._domains:
            domain.close()
            domain.event(domain.name, "recorder_stopped", "")
        try:
            await asyncio.to_thread(self._sink.close)
        except OSError as error:
            log.error("the last telemetry could not be written: %s", error)

    async def _flush_regularly(self) -> None:
        failing = False
        while True:
            await asyncio.sleep(FLUSH_S)
            try:
                await asyncio.to_thread(self._sink.flush)
                failing = False
            except OSError as error:
                if not failing:
                    log.error("telemetry cannot be written: %s; kept in memory and tried again", error)
                failing = True


class DomainRecorder:
    """One domain."""

    def __init__(self, federation: Federation, endpoints: DomainEndpoints, sink: Sink, cores: int) -> None:
        self.name = endpoints.domain
        self._federation = federation
        self._endpoints = endpoints
        self._sink = sink
        self._busy_percent = TAP_CPU_PERCENT_PER_CORE * cores
        self._tap = Tap(endpoints.head.client_url)
        self._resting = 0
        self._counters = Counters()
        self._states: dict[tuple[str, str], bool] = {}
        self._last_second = 0

    async def run(self) -> None:
        """Look, once a second, until cancelled."""
        while True:
            # Rows describe the second that just ended.
            await asyncio.sleep(1.0 - time.time() % 1.0)
            second = int(time.time()) - 1
            if second == self._last_second:
                continue
            if second < self._last_second:
                behind = self._last_second - second
                self.event(
                    self.name, "clock_stepped_back", f"by {behind} s; these seconds are recorded twice"
                )
            self._last_second = second
            try:
                await self._record(datetime.fromtimestamp(second, UTC))
            except (OSError, TimeoutError) as error:
                log.warning("telemetry of %s: %s", self.name, error)

    def event(self, subject: str, kind: str, detail: str) -> None:
        """Record that something changed."""
        now = datetime.now(UTC)
        row = {"ts": now, "domain": self.name, "subject": subject, "kind": kind, "detail": detail}
        self._sink.add(EVENTS, [row])

    def close(self) -> None:
        """Let go of the broker."""
        self._tap.close()

    async def _record(self, ts: datetime) -> None:
        brokers = [self._endpoints.head, *self._endpoints.edges]
        seen = self._tap.take()
        status, pages = await asyncio.gather(
            inspect_domain(self._endpoints), asyncio.gather(*map(subscriptions, brokers))
        )
        held = {b.name: page for b, page in zip(brokers, pages, strict=True) if page is not None}
        resets = self._counters.resets
        second = Second(ts, self.name, self._federation.topics, self._counters, status, held, seen)
        self._sink.add(BROKER_SAMPLES, sample_rows(second, self._endpoints.head.name))
        self._sink.add(LINK_SAMPLES, link_rows(second))
        self._sink.add(DELIVERIES, delivery_rows(second))
        self._sink.add(TOPIC_RATES, rate_rows(second, self._endpoints.head.name))
        if self._counters.resets > resets:
            self.event(self.name, "counter_reset", f"{self._counters.resets - resets} counters")
        self._counters.sweep()
        self._note_changes(status)
        await self._steer_tap(status, held)

    def _note_changes(self, status: DomainStatus) -> None:
        states = {("broker", broker.name): broker.reachable for broker in status.brokers}
        states["gateway", self.name] = status.gateway is not None
        if status.gateway is not None:
            for link in status.gateway.links:
                states["link", "--".join(sorted((self.name, link.peer)))] = link.up
        for (kind, subject), up in states.items():
            if self._states.get((kind, subject), True) != up:
                self.event(subject, f"{kind}_{'up' if up else 'down'}", "")
        self._states |= states

    async def _steer_tap(self, status: DomainStatus, held: Mapping[str, Subscriptions]) -> None:
        """Listen to what the domain's subscribers want, unless the head broker has no time for it."""
        if not self.tap_may_listen(status):
            self._tap.rest()
        elif await self._tap.connect():
            self._tap.follow(pattern for page in held.values() for pattern in page.count)

    def tap_may_listen(self, status: DomainStatus) -> bool:
        """Whether the head broker has time for the tap; once it had not, the tap rests for a while."""
        name = self._endpoints.head.name
        head = next((broker for broker in status.brokers if broker.name == name), None)
        if head is not None and head.cpu_percent > self._busy_percent:
            if not self._resting:
                self.event(name, "tap_off", f"the head broker uses {head.cpu_percent:.0f} % of a core")
            self._resting = TAP_REST_S
        if not self._resting:
            return True
        self._resting -= 1
        if not self._resting:
            self.event(name, "tap_on", "")
        return False
