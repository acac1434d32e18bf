"""An upper bound on the time of a piece of work: when it is over, the work is broken off wherever it is."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from mangrove.pipelines.session.failures import TimeLimitError


class _ExpiredError(KeyboardInterrupt):
    """Breaks off like Ctrl-C does: libraries between here and there turn plain exceptions into their own."""


@contextmanager
def time_limit(limit_s: float | None, what: str) -> Iterator[None]:
    """`TimeLimitError` when the block takes longer; main thread only. Of nested limits the soonest holds."""
    outer_s, _ = signal.getitimer(signal.ITIMER_REAL)
    if limit_s is None or 0 < outer_s <= limit_s:
        yield
        return
    expired = _ExpiredError()

    def expire(_number: int, _frame: FrameType | None) -> None:
        raise expired

    before = signal.signal(signal.SIGALRM, expire)
    started = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    except _ExpiredError as error:
        if error is not expired:
            raise
        raise TimeLimitError(what, limit_s) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer_s:
            signal.setitimer(signal.ITIMER_REAL, max(outer_s - (time.monotonic() - started), 0.001))
