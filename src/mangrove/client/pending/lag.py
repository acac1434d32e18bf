"""How far a subscription is behind, as its agent is told once a second."""

from __future__ import annotations

from collections import deque

from mangrove.model.agents.usefulness import Lag

LAGGING_S = 1.0
"""A message that has waited so long is told of."""
LAGGING_PART = 8
"""So is an eighth of what may wait."""
REMEMBERED = 600


class LagMeter:
    """Knows for how long the first message has waited by how many had come at each measurement.

    So no clock is read when messages come; the answer is at most the span of a measurement too small.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)
        self._lost = 0

    def measure(
        self, now: float, *, pending: int, max_pending: int, before_first: int, taken_in: int, lost: int
    ) -> Lag | None:
        """`before_first` came before the first that waits; `lost` is all so far. None: it keeps up."""
        self._marks.append((now, taken_in))
        while self._marks and self._marks[0][1] <= before_first:
            self._marks.popleft()
        oldest_s = now - self._marks[0][0] if pending and self._marks else 0.0
        lost, self._lost = lost - self._lost, lost
        if lost or oldest_s >= LAGGING_S or pending * LAGGING_PART > max_pending:
            return Lag(pending, lost, oldest_s)
        return None
