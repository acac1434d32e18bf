"""What was observed lately, topic by topic, so that a topic has a history and a share in time."""

from __future__ import annotations

from collections import deque

import msgspec

from mangrove.monitor.view.sight import Sight

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
    frames: int = 0
    """That arrived until then, at all gateways, copies left out."""
    late: int = 0
    """Of these, after their deadline."""


class DelayHistory:
    """The last samples of all topics; a topic that is gone is forgotten with its last sample."""

    def __init__(self) -> None:
        self._at = 0.0
        self._samples: dict[str, deque[Sample]] = {}

    def look(self, sight: Sight) -> None:
        """Take note of what is observed now."""
        if 0 <= sight.at - self._at < SAMPLE_S:
            return
        if sight.at < self._at:  # the clock was set back: what was is in no order with what comes
            self._samples.clear()
        self._at = sight.at
        observed: dict[str, tuple[float, int, int]] = {}
        names = sight.names
        for gateway in sight.gateways.values():
            for arrival in () if gateway is None else gateway.arrivals:
                topic = names.named(arrival.topic)
                slowest, frames, late = observed.get(topic, (0.0, 0, 0))
                observed[topic] = (
                    max(arrival.observed_ms, slowest),
                    frames + arrival.frames,
                    late + arrival.late,
                )
        rates = sight.contract_rates
        for topic in {**observed, **rates}:
            samples = self._samples.get(topic)
            if samples is None:
                if len(self._samples) >= MAX_TOPICS:
                    continue
                samples = self._samples[topic] = deque(maxlen=KEPT)
            sent_s, delivered_s = rates.get(topic, (0.0, 0.0))
            slowest_ms, frames, late = observed.get(topic, (None, 0, 0))
            samples.append(Sample(round(sight.at, 1), slowest_ms, sent_s, delivered_s, frames, late))
        oldest = round(sight.at - KEPT * SAMPLE_S, 1)
        gone = [topic for topic, samples in self._samples.items() if samples[-1].at < oldest]
        for topic in gone:
            del self._samples[topic]

    def of(self, topic: str) -> tuple[Sample, ...]:
        """The samples of a topic, in order of time."""
        return tuple(self._samples.get(topic, ()))

    def in_time(self, topic: str) -> float | None:
        """The share of frames that came before their deadline while samples were kept; None: none came.

        A gateway that began anew, or is away, takes what it had counted with it: then all that is counted is
        of the time since.
        """
        samples = self._samples.get(topic)
        if not samples:
            return None
        last = samples[-1]
        first = samples[0] if len(samples) > 1 else Sample(0.0, None, 0.0, 0.0)
        if last.frames < first.frames or last.late < first.late:
            first = Sample(0.0, None, 0.0, 0.0)
        frames, late = last.frames - first.frames, last.late - first.late
        return None if frames <= 0 else max(0.0, 1.0 - late / frames)
