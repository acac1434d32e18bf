"""Which clients are still to be told to move, and when each is told again."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator

from mangrove.control.clients.placements import WishId

REPEAT_S = 1.0
MAX_ORDERS_AT_ONCE = 1000
PACE_S = 0.05
"""Between two such lots."""


class OrderBook:
    """The wishes of a session that have not moved yet, each with its topic."""

    def __init__(self) -> None:
        self._topics: dict[WishId, str] = {}
        self._waiting: Counter[str] = Counter()
        """How many wishes of each topic there are."""
        self._first: deque[WishId] = deque()
        self._again: deque[tuple[float, WishId]] = deque()
        self._next = -math.inf

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[WishId]:
        return iter(self._topics)

    def __contains__(self, wish: WishId) -> bool:
        return wish in self._topics

    def add(self, wish: WishId, topic: str) -> bool:
        """A wish is to be moved; False if that is known."""
        if wish in self._topics:
            return False
        self._topics[wish] = topic
        self._waiting[topic] += 1
        self._first.append(wish)
        return True

    def drop(self, wish: WishId) -> str | None:
        """Nothing more is to be told of a wish; its topic, if it was in the book."""
        topic = self._topics.pop(wish, None)
        if topic is not None:
            self._waiting[topic] -= 1
            if not self._waiting[topic]:
                del self._waiting[topic]
        return topic

    def waiting(self, topic: str) -> int:
        """How many of a topic have not moved yet."""
        return self._waiting[topic]

    def timer(self) -> float:
        """When somebody is to be told."""
        if self._first:
            return self._next
        return max(self._again[0][0], self._next) if self._again else math.inf

    def due(self, now: float) -> list[tuple[WishId, str]]:
        """Whom to tell now, and of which topic."""
        told: list[tuple[WishId, str]] = []
        if now < self._next:
            return told
        while len(told) < MAX_ORDERS_AT_ONCE:
            if self._first:
                wish = self._first.popleft()
            elif self._again and self._again[0][0] <= now:
                wish = self._again.popleft()[1]
            else:
                break
            topic = self._topics.get(wish)
            if topic is not None:
                told.append((wish, topic))
                self._again.append((now + REPEAT_S, wish))
        if told:
            self._next = now + PACE_S
        return told
