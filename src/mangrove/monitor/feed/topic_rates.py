"""Messages per second, from what a gateway has counted so far."""

from __future__ import annotations

from collections import deque

from mangrove.model.topic_counts import TopicTally, TopicTotals
from mangrove.monitor.feed.snapshot import TopicRate

SPAN_S = 5.0
"""Rates are over about so long."""
MAX_KEPT = 32


class TopicRates:
    """Compares the totals of now with those of some seconds ago; a gateway's new life begins anew."""

    def __init__(self) -> None:
        self._kept: deque[TopicTotals] = deque(maxlen=MAX_KEPT)
        self.present: dict[str, TopicRate] = {}
        """By topic; those without messages are left out."""

    def take(self, totals: TopicTotals) -> None:
        """The latest totals."""
        kept = self._kept
        if kept and (kept[-1].epoch != totals.epoch or kept[-1].uptime_s >= totals.uptime_s):
            kept.clear()
        kept.append(totals)
        while len(kept) > 2 and totals.uptime_s - kept[1].uptime_s >= SPAN_S:
            kept.popleft()
        before = kept[0]
        span_s = totals.uptime_s - before.uptime_s
        self.present = {} if span_s <= 0 else _rates(before, totals, span_s)

    def forget(self) -> None:
        """The gateway is not heard; when it is again, what it counted meanwhile is no rate of that moment."""
        self._kept.clear()
        self.present = {}


def _rates(before: TopicTotals, after: TopicTotals, span_s: float) -> dict[str, TopicRate]:
    sent, delivered, dropped = (
        _gained(getattr(before, name), getattr(after, name), span_s)
        for name in ("sent", "delivered", "dropped")
    )
    return {
        topic: TopicRate(
            sent=sent.get(topic, 0.0), delivered=delivered.get(topic, 0.0), dropped=dropped.get(topic, 0.0)
        )
        for topic in sent.keys() | delivered.keys() | dropped.keys()
    }


def _gained(before: TopicTally, after: TopicTally, span_s: float) -> dict[str, float]:
    """What was counted since; a topic that was not told apart before may have begun long ago, so it waits."""
    old = before.topics
    hidden = before.other > 0
    return {
        topic: (count - old.get(topic, 0)) / span_s
        for topic, count in after.topics.items()
        if count > old.get(topic, 0) and (topic in old or not hidden)
    }
