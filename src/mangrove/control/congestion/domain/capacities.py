"""Brokers that can carry less than their file says, because somebody who may say so has told it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mangrove.control.events.congestion_happenings import CapacityTold as CapacityNoted
from mangrove.control.site import Site
from mangrove.model.agents.load import Amounts
from mangrove.model.agents.usefulness import CapacityTold
from mangrove.model.events.event_log import EventLog

Parts = tuple[float, float]
"""Of bandwidth and of matching."""
WHOLE: Parts = (1.0, 1.0)


def capacity_problem(told: CapacityTold, site: Site) -> str:
    """Why a broker cannot be told to carry that, or nothing."""
    if not site.has(told.broker):
        return f"{told.broker} is no broker of {site.domain}; there are {', '.join(site.brokers)}"
    for name, part in (("bandwidth", told.bandwidth), ("matching", told.matching)):
        if not math.isfinite(part) or not 0.0 < part <= 1.0:
            return f"{name} is {part:g}, and must be a part above 0 and up to 1"
    written = site.capacities[told.broker]
    if told.bandwidth < 1.0 and math.isinf(written.output):
        return f"the federation file has no bandwidth_mbps for {told.broker}, of which this could be a part"
    if told.matching < 1.0 and math.isinf(written.matching):
        return f"the federation file has no capacity for {told.broker}, of which this could be a part"
    return ""


class Capacities:
    """The parts that are left of brokers' capacities; whole ones are not kept."""

    def __init__(self, site: Site, log: EventLog, change: Callable[[str, Amounts, float], None]) -> None:
        """`change` has a broker's detector use another capacity."""
        self._site = site
        self._log = log
        self._change = change
        self.parts: dict[str, Parts] = {}

    def tell(self, told: CapacityTold, now: float) -> bool:
        """A broker can carry these parts from now on; False if that is nothing new, or cannot be."""
        parts = (told.bandwidth, told.matching)
        if capacity_problem(told, self._site) or self.parts.get(told.broker, WHOLE) == parts:
            return False
        self._set(told.broker, parts, now)
        self._log.note(
            CapacityNoted(broker=told.broker, bandwidth=told.bandwidth, matching=told.matching), now
        )
        return True

    def restore(self, stored: Mapping[str, Parts], now: float) -> None:
        """What an earlier leader was told; the rest is as the file says."""
        for broker in self._site.brokers:
            bandwidth, matching = stored.get(broker, WHOLE)
            told = CapacityTold(broker=broker, bandwidth=bandwidth, matching=matching)
            self._set(broker, WHOLE if capacity_problem(told, self._site) else (bandwidth, matching), now)

    def _set(self, broker: str, parts: Parts, now: float) -> None:
        if parts == WHOLE:
            self.parts.pop(broker, None)
        else:
            self.parts[broker] = parts
        written = self._site.capacities[broker]
        bandwidth, matching = parts
        self._change(
            broker,
            Amounts(written.input * bandwidth, written.output * bandwidth, written.matching * matching),
            now,
        )
