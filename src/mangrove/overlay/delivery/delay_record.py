"""How delays are spread: a histogram with steps of a tenth, in which the recent past counts most."""

from __future__ import annotations

from itertools import accumulate
from math import log

FIRST_MS = 0.1
RATIO = 1.1
BUCKETS = 160
"""Up to six minutes."""
MAX_COUNT = 20_000
"""Beyond so many all counts are halved: what is older counts less."""
_SCALE = 1.0 / log(RATIO)


class DelayRecord:
    """Delays of one contract from one origin. Adding one takes no more than a logarithm."""

    __slots__ = ("_counts", "_total", "count")

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self._total = 0
        self.count = 0
        """All that were ever added."""

    def add(self, delay_ms: float) -> None:
        """One delay more."""
        bucket = int(log(delay_ms / FIRST_MS) * _SCALE) + 1 if delay_ms > FIRST_MS else 0
        self._counts[min(bucket, BUCKETS - 1)] += 1
        self._total += 1
        self.count += 1
        if self._total > MAX_COUNT:
            self._counts = [count >> 1 for count in self._counts]
            self._total = sum(self._counts)

    def quantile_ms(self, share: float) -> float | None:
        """The delay that so large a share does not exceed, at most a tenth too large; None without any."""
        if not self._total:
            return None
        needed = share * self._total - 1e-9
        reached = enumerate(accumulate(self._counts))
        bucket = next((each for each, so_far in reached if so_far >= needed), BUCKETS - 1)
        return float(FIRST_MS * RATIO**bucket)
