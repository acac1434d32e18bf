"""What libraries log of browsers that send garbage: a line each, and few of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

TALKERS = ("asyncio", "engineio.server", "nicegui", "socketio.server", "uvicorn.error")
AT_ONCE = 20
EVERY_S = 10.0
"""After so long one more is let through."""
MAX_LINE = 300


class Noise(logging.Filter):
    """Lets some records through, without their tracebacks, and says with the next how many it did not."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._room = float(AT_ONCE)
        self._at = clock()
        self.held_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged; it is changed into one short line."""
        now = self._clock()
        self._room = min(float(AT_ONCE), self._room + (now - self._at) / EVERY_S)
        self._at = now
        if self._room < 1.0:
            self.held_back += 1
            return False
        self._room -= 1.0
        error = record.exc_info[1] if record.exc_info else None
        text = record.getMessage().partition("\n")[0]
        text += f": {type(error).__name__}: {error}" if error is not None else ""
        text = "".join(each if each.isprintable() else "�" for each in text[:MAX_LINE])
        record.msg = text + (f" (and {self.held_back} more were not logged)" if self.held_back else "")
        record.args, record.exc_info, record.exc_text = (), None, None
        self.held_back = 0
        return True


def keep_down() -> Noise:
    """Have those who talk of browsers talk less, in this process."""
    noise = Noise()
    for name in TALKERS:
        logging.getLogger(name).addFilter(noise)
    return noise
