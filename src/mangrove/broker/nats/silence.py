"""Whether a broker to which a connection stands has fallen silent: it is frozen, or its host is cut off.

It is pinged at every look and so has something to say. Looks that come late are not held against it: who was
stopped itself has not listened meanwhile.
"""

from __future__ import annotations

from enum import Enum

LOOK_S = 0.1
LATE_S = 0.05
"""A look that comes so much later than it should was held up here."""
DOUBTED_AFTER = 2
SILENT_AFTER = 8
"""Looks in a row without a word. More than for a doubt: who leaves a broker that lives has its subscribers
told anew, and a broker that is short of processor time may say nothing for half a second."""


class Life(Enum):
    """What is thought of a broker."""

    ALIVE = "alive"
    DOUBTED = "doubted"
    SILENT = "silent"


class SilenceWatch:
    """Judges one connection by what came between looks."""

    def __init__(self, now: float) -> None:
        self._looked_at = now
        self._heard = 0
        self._missed = 0

    def look(self, now: float, heard: int) -> Life:
        """`heard` grows with whatever comes from the broker."""
        on_time = now - self._looked_at <= LOOK_S + LATE_S
        self._looked_at = now
        if heard != self._heard:
            self._heard = heard
            self._missed = 0
        elif on_time:
            self._missed += 1
        if self._missed >= SILENT_AFTER:
            return Life.SILENT
        return Life.DOUBTED if self._missed >= DOUBTED_AFTER else Life.ALIVE
