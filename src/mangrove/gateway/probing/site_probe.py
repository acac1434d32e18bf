"""How long messages are inside the own domain, measured by markers through its real brokers.

Inward, a plain client of the head broker publishes a marker, and the gateway gets it as it gets the messages
of publishers. Outward, the gateway hands a marker to the head broker, behind all that waits for it, and plain
clients at the head and at every edge hear it as subscribers do. Markers are not federated, and while somebody
in the domain listens to a pattern under which they fall, such as `>`, none are sent: the round trip of a
ping over the gateway's own connection stands in for them, half of it each way. So it does at a broker that
lets no marker through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Protocol

from mangrove.broker.probing import Probe, ProbeOwner
from mangrove.gateway.probing.latency_estimate import LatencyEstimate
from mangrove.model.status import SiteLatency
from mangrove.model.subjects import ingress_marker_subject

INTERVAL_S = 1.0
UNSETTLED_INTERVAL_S = 0.2
NUMBER_BYTES = 16
"""All markers are equally long, so that the gateway knows their line."""
MAX_UNHEARD = 10
"""So many first markers may be lost before they are taken to be forbidden."""
MAX_ROUNDS = 10
HEAD = "head"


class MarkedHead(Protocol):
    """What a probe needs of the gateway's side towards its head broker."""

    @property
    def ready(self) -> bool:
        """Whether messages are written to the broker."""

    @property
    def onlookers(self) -> bool:
        """Whether somebody in the domain would see markers."""

    def send_marker(self, payload: bytes) -> None:
        """Hand a marker to the broker, behind all that waits for it."""

    def ping(self, done: Callable[[], None]) -> None:
        """Call `done` when the broker has taken, and answered, all that was sent so far."""


class SiteProbe(ProbeOwner):
    """Sends markers about once a second, more often while the figures change, and tells the means."""

    def __init__(
        self,
        domain: str,
        probes: Callable[[ProbeOwner], Mapping[str, Probe]],
        measured: Callable[[float, float], None],
    ) -> None:
        """`probes` makes a probe for each broker; the one named `head` also publishes."""
        self._subject = ingress_marker_subject(domain)
        self._measured = measured
        self._probes = dict(probes(self))
        self._ingress = LatencyEstimate()
        self._egress = {broker: LatencyEstimate() for broker in self._probes}
        self._round_trip = LatencyEstimate()
        self._by_pings = False
        self._unheard = 0
        """Markers sent since one was heard at the head."""
        self._number = 0
        self._rounds: dict[int, tuple[float, set[str]]] = {}
        """Markers that not every broker has heard yet: when they were sent, and who has not."""
        self.together_at = float("-inf")
        """When the last marker was sent that every broker has heard: then all of them hung together."""
        self._told: tuple[float, float] | None = None

    async def run(self, head: MarkedHead) -> None:
        """Measure until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for broker, probe in self._probes.items():
                tasks.create_task(probe.run(), name=f"probe of {broker}")
            tasks.create_task(self._keep_measuring(head), name="markers")

    async def _keep_measuring(self, head: MarkedHead) -> None:
        while True:
            if head.ready:
                await self._measure(head)
            else:
                self._forget_awaited()
            await asyncio.sleep(INTERVAL_S if self._settled() else UNSETTLED_INTERVAL_S)
            self._tell()

    async def _measure(self, head: MarkedHead) -> None:
        self._number += 1
        number, now = self._number, monotonic()
        forbidden = self._unheard >= MAX_UNHEARD and self._egress[HEAD].mean_s(now) is None
        by_pings = head.onlookers or forbidden
        if by_pings != self._by_pings:
            self._by_pings = by_pings
            self._forget_awaited()
        if by_pings:
            self._round_trip.sent(number, now)
            head.ping(lambda: self._round_trip.heard(number, monotonic()))
            return
        payload = f"{number:0{NUMBER_BYTES}d}".encode()
        listening = [broker for broker, probe in self._probes.items() if probe.listening]
        for broker in listening:
            self._egress[broker].sent(number, now)
        if len(listening) == len(self._probes):
            self._rounds[number] = (now, set(listening))
            self._rounds.pop(number - MAX_ROUNDS, None)
        if listening:
            head.send_marker(payload)
        if HEAD in listening:
            self._unheard += 1
            self._ingress.sent(number, monotonic())
            await self._probes[HEAD].publish(self._subject, payload)

    # -- markers come ---------------------------------------------------------------------------------------

    def take(self, messages: bytes) -> None:
        """Markers came from the head broker as messages of publishers do."""
        now = monotonic()
        for line in messages.split(b"\r\n")[1::2]:
            self._ingress.heard(_number(line), now)

    def heard(self, broker: str, payload: bytes) -> None:
        """A marker came to a broker's subscribers."""
        if broker == HEAD:
            self._unheard = 0
        number = _number(payload)
        self._egress[broker].heard(number, monotonic())
        sent_at, unheard = self._rounds.get(number, (0.0, set()))
        unheard.discard(broker)
        if number in self._rounds and not unheard:
            del self._rounds[number]
            self.together_at = max(self.together_at, sent_at)

    def probe_lost(self, broker: str) -> None:
        """What was on its way to a probe is lost with its connection, and the broker may come back faster."""
        self._egress[broker] = LatencyEstimate()
        self._rounds.clear()
        if broker == HEAD:
            self._unheard = 0
            self._ingress.forget_awaited()

    def _forget_awaited(self) -> None:
        for estimate in (self._ingress, self._round_trip, *self._egress.values()):
            estimate.forget_awaited()

    # -- what is known --------------------------------------------------------------------------------------

    def _settled(self) -> bool:
        now = monotonic()
        if self._by_pings:
            return self._round_trip.settled(now)
        return all(
            estimate.settled(now)
            for broker, estimate in (*self._egress.items(), (HEAD, self._ingress))
            if self._probes[broker].listening
        )

    def _tell(self) -> None:
        found = self.latency()
        if found.ingress_ms is None and not found.egress_ms:
            return
        told = (round(found.ingress_ms or 0.0, 1), round(max(found.egress_ms.values(), default=0.0), 1))
        if told != self._told:
            self._told = told
            self._measured(*told)

    def latency(self) -> SiteLatency:
        """The means as they are now; brokers that were never heard of are left out."""
        now = monotonic()
        if self._by_pings:
            whole_s = self._round_trip.mean_s(now)
            half_ms = None if whole_s is None else 500 * whole_s
            return SiteLatency(
                ingress_ms=half_ms, egress_ms={} if half_ms is None else {HEAD: half_ms}, by="pings"
            )
        ingress_s = self._ingress.mean_s(now)
        means = {broker: estimate.mean_s(now) for broker, estimate in self._egress.items()}
        return SiteLatency(
            ingress_ms=None if ingress_s is None else 1000 * ingress_s,
            egress_ms={broker: 1000 * mean for broker, mean in means.items() if mean is not None},
            jitter_ms=max((1000 * each.deviation_s for each in self._egress.values()), default=0.0),
            by="markers",
        )


def _number(payload: bytes) -> int:
    """The number of a marker; one that cannot be read is none that was sent."""
    return int(payload) if payload.isdigit() and len(payload) == NUMBER_BYTES else -1
