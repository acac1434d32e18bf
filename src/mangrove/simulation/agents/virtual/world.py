"""Virtual time: things happen one after the other, in an order that the seed decides."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable


class World:
    """A queue of what is to happen, and one source of chance."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.loss_ratio = 0.0
        """Of messages on the management network."""
        self.late_ratio = 0.0
        """Of those that arrive, how many come seconds later, after others that were sent after them."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do something at a time, or at once if that has passed."""
        self._count += 1
        heapq.heappush(self._queue, (max(time, self.now), self._count, action))

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something after a while."""
        self.at(self.now + delay_s, action)

    def send(self, deliver: Callable[[], None]) -> None:
        """A message goes over the management network: soon, late or never."""
        if self.random.random() < self.loss_ratio:
            return
        late = self.random.random() < self.late_ratio
        self.after(self.random.uniform(0.5, 5.0) if late else self.random.uniform(0.001, 0.02), deliver)

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = until
