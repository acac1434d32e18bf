"""Frames that waited for a link longer than the budget of that hop, by topic class.

Now and then one does, and the hops that follow make up for it. When most do for a while, the shares of the
hops no longer fit the load: that is noted, and the advertised waits move routes that would miss their
deadline.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

_GAIN = 0.125
MIN_TOLD_SHARE = 0.01
PERSISTENT_SHARE = 0.5
OVER_SHARE = 0.1
PERSISTENT_S = 1.0


class Persistence(NamedTuple):
    """A topic class has begun, or ceased, to overrun its budget at a hop."""

    topic_class: int
    persists: bool


class Overruns:
    """The smoothed share of frames beyond their budget; one sample a heartbeat, as `Waits` takes them."""

    def __init__(self) -> None:
        self.counted: Counter[int] = Counter()
        """Frames that overran their budget, by topic class, since the beginning."""
        self._left: Counter[int] = Counter()
        self._overran: Counter[int] = Counter()
        self._shares: dict[int, float] = {}
        self._since: dict[int, float] = {}
        """Since when a class has been on the other side of the mark."""
        self._persistent: set[int] = set()

    def note(self, topic_class: int, overran: bool) -> None:
        """A frame with a budget has left."""
        self._left[topic_class] += 1
        if overran:
            self._overran[topic_class] += 1
            self.counted[topic_class] += 1

    def settle(self, now: float) -> list[Persistence]:
        """A heartbeat is due: take in what left since the last one; which classes changed sides for good."""
        changes: list[Persistence] = []
        if not self._shares and not self._left:
            return changes
        for topic_class in sorted(self._shares.keys() | self._left.keys()):
            left = self._left[topic_class]
            sample = self._overran[topic_class] / left if left else 0.0
            before = self._shares.get(topic_class, 0.0)
            share = before + _GAIN * (sample - before)
            changes += self._judge(topic_class, share, now)
            if share > 1e-4 or topic_class in self._persistent:
                self._shares[topic_class] = share
            else:
                self._shares.pop(topic_class, None)
                self._since.pop(topic_class, None)
        self._left.clear()
        self._overran.clear()
        return changes

    def _judge(self, topic_class: int, share: float, now: float) -> list[Persistence]:
        persistent = topic_class in self._persistent
        crossed = share < OVER_SHARE if persistent else share > PERSISTENT_SHARE
        if not crossed:
            self._since.pop(topic_class, None)
            return []
        if now - self._since.setdefault(topic_class, now) < PERSISTENT_S:
            return []
        del self._since[topic_class]
        self._persistent ^= {topic_class}
        return [Persistence(topic_class, not persistent)]

    def noticeable(self) -> dict[int, float]:
        """What the network should know: classes that overrun their budget noticeably often."""
        return {
            topic_class: round(share, 2)
            for topic_class, share in sorted(self._shares.items())
            if share >= MIN_TOLD_SHARE
        }

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        if all(0.0 <= share <= 1.0 for share in self._shares.values()):
            return []
        return [f"shares of overrun budgets are {self._shares}"]
