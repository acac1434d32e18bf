"""A note, outside of the process, that publishers have leave to be silent.

A gateway that crashes forgets to whom it gave leave, and they do not notice. The next one must not tell
anybody that its subscription is ready before all those leaves have run out.
"""

from __future__ import annotations

from pathlib import Path
from time import time

from mangrove.model.questions.audience import LEAVE_S

NOTE_EVERY_S = 0.5


class LeaveMark:
    """The time of a file is that of the last leaves, or a little before. Without a path, nothing is noted."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._noted = float("-inf")

    def left_s(self) -> float:
        """For how long leaves of an earlier life may last; 0 if there are none."""
        try:
            noted = self._path.stat().st_mtime if self._path is not None else float("-inf")
        except FileNotFoundError:
            return 0.0
        whole = LEAVE_S + NOTE_EVERY_S
        left = noted + whole - time()
        return min(left, whole) if left > 0 else 0.0

    def note(self, now: float) -> None:
        """Leaves are given now."""
        if self._path is not None and now - self._noted >= NOTE_EVERY_S:
            self._noted = now
            self._path.touch()
