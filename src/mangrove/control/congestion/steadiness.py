"""Figures that are kept as long as they hardly change, so that limits rest while load does."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Steady(Generic[K]):
    """Values by key. One that differs from what is kept by no more than the tolerance is not taken over."""

    def __init__(self) -> None:
        self._kept: dict[K, float] = {}

    def near(self, key: K, value: float, tolerance: float) -> float:
        """The kept value, unless `value` is further from it than `tolerance`."""
        kept = self._kept.get(key)
        if kept is None or abs(value - kept) > tolerance:
            kept = self._kept[key] = value
        return kept

    def get(self, key: K) -> float | None:
        """What is kept."""
        return self._kept.get(key)

    def keep_only(self, keys: Collection[K]) -> None:
        """Forget all others."""
        if len(self._kept) > len(keys) or any(key not in keys for key in self._kept):
            self._kept = {key: value for key, value in self._kept.items() if key in keys}

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()


RISE = 0.02


class Peaks(Generic[K]):
    """The highest of the last values by key; a little less than what was taken for it is the same."""

    def __init__(self, values: int, tolerance: float) -> None:
        self._values = values
        self._tolerance = tolerance
        self._seen: dict[K, tuple[float, deque[float]]] = {}

    def of(self, key: K, value: float) -> float:
        """The peak, after another value: a higher one counts at once, a lower one when it has lasted."""
        kept, seen = self._seen.get(key, (-1.0, None))
        if seen is None:
            seen = deque(maxlen=self._values)
        seen.append(value)
        highest = max(seen)
        if highest > kept * (1.0 + RISE) or highest < kept * (1.0 - self._tolerance):
            kept = highest
        self._seen[key] = (kept, seen)
        return kept

    def keep_only(self, keys: Collection[K]) -> None:
        """Forget all others."""
        for key in [key for key in self._seen if key not in keys]:
            del self._seen[key]

    def clear(self) -> None:
        """Forget all."""
        self._seen.clear()
