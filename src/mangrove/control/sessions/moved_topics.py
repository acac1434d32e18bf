"""Topics that were moved, and the brokers they left: within a burst none goes back.

The burst is over when the broker has been LOW for a while since, or after a long time in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from mangrove.model.agents.load import BrokerLoad, LoadState

QUIET_S = 10.0
"""A broker that was LOW for so long may have its topics back."""
BURST_S = 600.0
"""So may any after so long."""
MAX_REMEMBERED = 10_000


class MovedTopic(msgspec.Struct, frozen=True, array_like=True):
    """A topic left a broker."""

    topic: str
    source: str
    at: float
    """Seconds since 1970."""


class MovedTopics:
    """Which topics may not go where. `clock_shift_s` leads from the agent's time to the time of day."""

    def __init__(self, clock_shift_s: float) -> None:
        self._clock_shift_s = clock_shift_s
        self._left: dict[str, dict[str, float]] = {}
        """Topic → broker → when it left, in the agent's time."""
        self._low_since: dict[str, float] = {}
        self._count = 0

    def restore(self, moved: Iterable[MovedTopic], now: float) -> None:
        """What the store holds of an earlier leader."""
        self._left.clear()
        self._low_since.clear()
        self._count = 0
        for each in moved:
            self.add(each.topic, each.source, min(now, each.at - self._clock_shift_s))

    def add(self, topic: str, source: str, now: float) -> None:
        """A topic leaves a broker."""
        brokers = self._left.setdefault(topic, {})
        if source not in brokers:
            self._count += 1
        brokers[source] = now
        while self._count > MAX_REMEMBERED:
            self._forget_one()

    def loaded(self, load: BrokerLoad, now: float) -> None:
        """A broker was measured."""
        if load.measured is not LoadState.LOW or not load.reachable:
            self._low_since.pop(load.broker, None)
        else:
            self._low_since.setdefault(load.broker, now)

    def barred(self, topic: str, now: float) -> frozenset[str]:
        """Brokers that a topic may not go to."""
        brokers = self._left.get(topic)
        if brokers is None:
            return frozenset()
        for broker in [broker for broker, at in brokers.items() if self._over(broker, at, now)]:
            self._drop(topic, broker)
        return frozenset(brokers)

    def _over(self, broker: str, left_at: float, now: float) -> bool:
        """Whether the burst in which a topic left a broker is over."""
        quiet_since = max(self._low_since.get(broker, math.inf), left_at)
        return now - quiet_since >= QUIET_S or now - left_at >= BURST_S

    def told(self) -> tuple[MovedTopic, ...]:
        """All of it, for the store."""
        return tuple(
            MovedTopic(topic, broker, at + self._clock_shift_s)
            for topic, brokers in self._left.items()
            for broker, at in brokers.items()
        )

    def _forget_one(self) -> None:
        topic = next(iter(self._left))
        self._drop(topic, next(iter(self._left[topic])))

    def _drop(self, topic: str, broker: str) -> None:
        del self._left[topic][broker]
        self._count -= 1
        if not self._left[topic]:
            del self._left[topic]
