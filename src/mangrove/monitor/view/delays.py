"""What was observed lately, topic by topic, so that a topic has a history and percentiles."""

from __future__ import annotations

from collections import deque

import msgspec

from mangrove.monitor.view.sight import ContractNames, Sight

SAMPLE_S = 1.0
KEPT = 300
"""Samples of a topic: five minutes."""
MAX_TOPICS = 5_000


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One moment of a topic."""

    at: float
    observed_ms: float | None
    """Of the slowest way that is used; None: nothing arrives."""
    sent_s: float
    delivered_s: float


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Of the delays that gateways told, each smoothed, from one second to the next."""

    p50_ms: float
    p99_ms: float


class DelayHistory:
    """The last samples of all topics; a topic that is gone is forgotten with its last sample."""

    def __init__(self) -> None:
        self._at = 0.0
        self._samples: dict[str, deque[Sample]] = {}

    def look(self, sight: Sight) -> None:
        """Take note of what is observed now."""
        if sight.at - self._at < SAMPLE_S:
            return
        self._at = sight.at
        observed: dict[str, float] = {}
        names = ContractNames(sight.federation.topics)
        for gateway in sight.gateways.values():
            for arrival in () if gateway is None else gateway.arrivals:
                topic = names.named(arrival.topic)
                observed[topic] = max(arrival.observed_ms, observed.get(topic, 0.0))
        rates = sight.contract_rates
        for topic in {**observed, **rates}:
            samples = self._samples.get(topic)
            if samples is None:
                if len(self._samples) >= MAX_TOPICS:
                    continue
                samples = self._samples[topic] = deque(maxlen=KEPT)
            sent_s, delivered_s = rates.get(topic, (0.0, 0.0))
            samples.append(Sample(round(sight.at, 1), observed.get(topic), sent_s, delivered_s))

    def of(self, topic: str) -> tuple[Sample, ...]:
        """The samples of a topic, in order of time."""
        return tuple(self._samples.get(topic, ()))

    def percentiles(self, topic: str) -> Percentiles | None:
        """Of what was observed; None: nothing was."""
        seen = sorted(
            each.observed_ms for each in self._samples.get(topic, ()) if each.observed_ms is not None
        )
        if not seen:
            return None
        return Percentiles(
            p50_ms=round(seen[len(seen) // 2], 2), p99_ms=round(seen[int(0.99 * (len(seen) - 1))], 2)
        )
