"""How long a marker takes from one place to another, smoothed."""

from __future__ import annotations

_GAIN = 0.25
_DEVIATION_GAIN = 0.25
UNSETTLED_S = 0.002
UNSETTLED_RATIO = 0.25
GIVEN_UP_S = 10.0
"""A marker that is not heard of for so long was lost with a connection."""


class LatencyEstimate:
    """Mean and deviation of a latency, from markers that were sent and heard.

    One that is still awaited counts as if it were heard now, as soon as that makes the mean longer: a place
    that no longer answers is slow, not unknown. One that never answered may not be allowed to. Markers keep
    their order: those sent before one that is heard were lost, and say nothing of the place.
    """

    def __init__(self) -> None:
        self._mean_s: float | None = None
        self.deviation_s = 0.0
        self._last_s = 0.0
        self._awaited: dict[int, float] = {}

    def sent(self, number: int, now: float) -> None:
        """A marker has been sent; later ones have higher numbers."""
        self._awaited[number] = now
        while self._awaited and now - next(iter(self._awaited.values())) > GIVEN_UP_S:
            del self._awaited[next(iter(self._awaited))]

    def heard(self, number: int, now: float) -> None:
        """A marker has come; one that nobody sent is not looked at."""
        sent = self._awaited.get(number)
        if sent is not None:
            self._awaited = {later: at for later, at in self._awaited.items() if later > number}
            self.add(now - sent)

    def add(self, sample_s: float) -> None:
        """Take in one latency."""
        self._last_s = sample_s
        if self._mean_s is None:
            self._mean_s, self.deviation_s = sample_s, sample_s / 2
            return
        self.deviation_s += _DEVIATION_GAIN * (abs(sample_s - self._mean_s) - self.deviation_s)
        self._mean_s += _GAIN * (sample_s - self._mean_s)

    def forget_awaited(self) -> None:
        """The connection is gone, and the markers with it."""
        self._awaited.clear()

    def mean_s(self, now: float) -> float | None:
        """The smoothed latency; None while nothing is known."""
        if self._mean_s is None:
            return None
        silent_s = now - next(iter(self._awaited.values()), now)
        return self._mean_s + _GAIN * max(0.0, silent_s - self._mean_s)

    def settled(self, now: float) -> bool:
        """Whether the estimate need not be looked at soon again."""
        mean = self.mean_s(now)
        if mean is None or self._mean_s is None:
            return not self._awaited
        limit = max(UNSETTLED_S, UNSETTLED_RATIO * self._mean_s)
        return abs(self._last_s - self._mean_s) <= limit and mean - self._mean_s <= limit
