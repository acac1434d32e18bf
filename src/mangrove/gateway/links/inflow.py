"""What a neighbour has said and nobody has looked at yet, and when it may be looked at.

Everything of a gateway is done by one loop. A neighbour that says ten thousand things in one breath, true or
not, must not keep others waiting: its words are looked at in portions, and after a while it is the others'
turn. Nothing more is read from it meanwhile, so that the rest waits in its own queues.

Who brings what is refused is also read more slowly, once that is more than a mishap: for as long as it took
to refuse it, nothing is read. Not for longer, since the neighbour may have been honest: it cannot tell true
data frames from forged ones that it passes on.
"""

from __future__ import annotations

from mangrove.overlay.protocol.frames import Frame

PORTION_FRAMES = 256
TURN_S = 0.004
"""After this long it is the others' turn, once the portion at hand is done."""
REFUSED_BURST = 2_000
REFUSED_PER_S = 1_000.0
"""So many refused frames of a neighbour slow nothing down: at once, and in a second."""
REFUSAL_S = 20e-6
"""About what it takes to refuse a frame."""
MIN_REST_S = 0.002
MAX_REST_S = 0.05
"""Not to be read for longer would look like a link that is dead."""


class Inflow:
    """The frames of one connection on their way to the engine."""

    def __init__(self, now: float) -> None:
        self._waiting: list[Frame] = []
        self._position = 0
        self._allowance = float(REFUSED_BURST)
        self._at = now
        self._owed_s = 0.0

    @property
    def waits(self) -> bool:
        """Whether something has not been looked at."""
        return self._position < len(self._waiting)

    def add(self, frames: list[Frame]) -> None:
        """Frames came from the line."""
        if self.waits:
            self._waiting = self._waiting[self._position :] + frames
        else:
            self._waiting = frames
        self._position = 0

    def portion(self) -> list[Frame]:
        """The next frames to look at."""
        start, self._position = self._position, self._position + PORTION_FRAMES
        if start == 0 and not self.waits:
            portion, self._waiting, self._position = self._waiting, [], 0
            return portion
        return self._waiting[start : self._position]

    def clear(self) -> None:
        """The connection is gone; what was not looked at was not acknowledged either."""
        self._waiting, self._position = [], 0

    def refused(self, frames: int, now: float) -> None:
        """So many of the frames that were looked at were refused."""
        self._allowance += REFUSED_PER_S * max(0.0, now - self._at)
        self._allowance = min(self._allowance, float(REFUSED_BURST)) - frames
        self._at = now
        if self._allowance < 0:
            self._owed_s += REFUSAL_S * min(frames, -self._allowance)
            self._allowance = 0.0

    def rest_s(self) -> float:
        """For how long nothing is to be read from this neighbour now; most often 0."""
        if self._owed_s < MIN_REST_S:
            return 0.0
        rest_s = min(self._owed_s, MAX_REST_S)
        self._owed_s -= rest_s
        return rest_s
