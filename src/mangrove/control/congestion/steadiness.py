"""Figures that are kept as long as they hardly change, so that limits rest while load does."""

from __future__ import annotations

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

    def above(self, key: K, value: float, fall: float) -> float:
        """The kept value; a higher one is taken over at once, a lower one once it has fallen by a part."""
        kept = self._kept.get(key)
        if kept is None or value > kept or value < kept * (1.0 - fall):
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
