"""Keeps a log from being filled by whoever can make a process say the same thing again and again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

BURST = 200
PER_S = 0.1
"""Of lines with the same wording, whatever is filled in: so many at once, and then one in ten seconds."""
MAX_WORDINGS = 1_000


class LogLimit(logging.Filter):
    """Lets lines through by their wording; what was left out is said with the next that comes through."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._left: dict[tuple[str, str], tuple[float, float, int]] = {}
        """Lines that may come, since when, and how many were left out; by logger and wording."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        key, now = (record.name, str(record.msg)), self._clock()
        left, since, left_out = self._left.pop(key, (float(BURST), now, 0))
        left = min(float(BURST), left + PER_S * (now - since))
        if len(self._left) >= MAX_WORDINGS:  # the one that has been silent for longest goes
            del self._left[next(iter(self._left))]
        if left < 1.0:
            self._left[key] = (left, now, left_out + 1)
            return False
        self._left[key] = (left - 1.0, now, 0)
        if left_out:
            record.msg = f"{record.msg} ({left_out} lines like this one were left out)"
        return True
