"""Keeps a stream of messages to a rate: what has been saved up may be spent, and nothing else."""

from __future__ import annotations

import math

BURST_S = 0.1
"""So many seconds of silence are saved up."""
SMALLEST_MESSAGES = 1.5
INFINITY = math.inf
WHOLE = 1.0 - 1e-9
"""One message, whatever the rounding."""


class TokenBucket:
    """Messages and bytes per second. None is no limit, 0 lets nothing pass.

    A message passes if a whole one is saved up, and any bytes: those may leave a debt, so that a message
    larger than the bucket passes too. In any span of T seconds no more than rate * T and a burst pass, of
    bytes one message more. A bucket holds half a message more than one at least, so that who comes a little
    late loses nothing; a new one is half full, so that the first seconds too are near the rate.

    `now` is any clock in seconds; one that stands still or goes back gives nothing, one that jumps ahead
    (a machine that slept) no more than the burst.
    """

    __slots__ = (
        "_burst_bytes",
        "_burst_messages",
        "_burst_s",
        "_bytes",
        "_bytes_s",
        "_messages",
        "_msg_s",
        "_updated_s",
    )

    def __init__(
        self, msg_s: float | None, bytes_s: float | None, now: float, *, burst_s: float = BURST_S
    ) -> None:
        """`burst_s` are the seconds of silence that are saved up."""
        self._msg_s, self._bytes_s = _rate(msg_s), _rate(bytes_s)
        self._burst_s = burst_s
        self._burst_messages = _burst(self._msg_s, burst_s, SMALLEST_MESSAGES)
        self._burst_bytes = _burst(self._bytes_s, burst_s)
        self._messages, self._bytes = _first(self._msg_s, burst_s), _first(self._bytes_s, burst_s)
        self._updated_s = now

    def change(self, msg_s: float | None, bytes_s: float | None, now: float) -> None:
        """Go on with other rates: what was saved is kept as far as there is room, and is not added to.

        A debt is paid back in the time that it would have taken, or sooner.
        """
        self._save(now)
        new_msg_s, new_bytes_s = _rate(msg_s), _rate(bytes_s)
        self._burst_messages = _burst(new_msg_s, self._burst_s, SMALLEST_MESSAGES)
        self._burst_bytes = _burst(new_bytes_s, self._burst_s)
        self._messages = _carried(self._messages, self._msg_s, new_msg_s, self._burst_messages)
        self._bytes = _carried(self._bytes, self._bytes_s, new_bytes_s, self._burst_bytes)
        self._msg_s, self._bytes_s = new_msg_s, new_bytes_s

    def open(self, now: float) -> bool:
        """Whether a message may pass; `spend` must follow if it does."""
        if now > self._updated_s:
            self._save(now)
        return self._messages >= WHOLE and self._bytes > 0.0

    def spend(self, size_bytes: int) -> None:
        """One message has passed."""
        self._messages -= 1.0
        self._bytes -= size_bytes

    def draw(self, share: float) -> tuple[float, float]:
        """Messages and bytes that may be taken out at once and handed back later: a share of a burst.

        What is out is not counted as saved, so that so much more than a burst can pass; see `put`.
        """
        return min(self._messages, self._burst_messages * share), min(self._bytes, self._burst_bytes * share)

    def put(self, messages: float, size_bytes: float) -> None:
        """Hand something back, or take it out if it is below 0; what is not limited stays so."""
        if self._msg_s != INFINITY:
            self._messages += messages
        if self._bytes_s != INFINITY:
            self._bytes += size_bytes

    def take(self, messages: int, size_bytes: int, now: float) -> int:
        """How many of several messages, of this size each, pass."""
        if messages <= 0 or not self.open(now):
            return 0
        passing = messages
        if self._messages < passing:
            passing = math.floor(self._messages + 1.0 - WHOLE)
        if size_bytes and self._bytes < passing * size_bytes:
            passing = min(passing, math.ceil(self._bytes / size_bytes))
        self._messages -= passing
        self._bytes -= passing * size_bytes
        return passing

    def wait_s(self, now: float) -> float:
        """How long from now until a message may pass, if none is taken before; infinity at a rate of 0."""
        if self.open(now):
            return 0.0
        return max(_until(self._messages, WHOLE, self._msg_s), _until(self._bytes, 0.0, self._bytes_s))

    def owe(self, messages: int, size_bytes: int) -> None:
        """So many messages, of this size each, have passed that were not asked for here."""
        self._messages -= messages
        self._bytes -= messages * size_bytes

    def saved_s(self, now: float) -> float:
        """How many seconds of the scarcer rate are saved up; below 0 is a debt. 0 without any rate."""
        self._save(now)
        saved = [
            level / rate
            for level, rate in ((self._messages, self._msg_s), (self._bytes, self._bytes_s))
            if rate and rate != INFINITY
        ]
        return min(saved, default=0.0)

    def _save(self, now: float) -> None:
        span_s = now - self._updated_s
        if span_s <= 0:
            return
        self._updated_s = now
        if self._msg_s != INFINITY:
            saved = self._messages + span_s * self._msg_s
            self._messages = saved if saved < self._burst_messages else self._burst_messages
        if self._bytes_s != INFINITY:
            saved = self._bytes + span_s * self._bytes_s
            self._bytes = saved if saved < self._burst_bytes else self._burst_bytes


def _rate(rate: float | None) -> float:
    if rate is None:
        return INFINITY
    if not rate >= 0:
        raise ValueError(f"a rate must not be below 0, as {rate} is")
    return float(rate)


def _burst(rate: float, burst_s: float, at_least: float = 1.0) -> float:
    return max(at_least, rate * burst_s) if rate else 0.0


def _first(rate: float, burst_s: float) -> float:
    """What a new bucket holds: half of a burst, and of the usual burst if its own is longer."""
    return max(1.0, rate * min(burst_s, BURST_S) / 2) if rate else 0.0


def _carried(level: float, rate: float, new_rate: float, new_burst: float) -> float:
    if new_rate == INFINITY:
        return INFINITY
    if rate == INFINITY:  # it has passed what it liked, and has saved nothing
        return 0.0
    if level < 0 and new_rate < rate:
        return level * new_rate / rate
    return min(level, new_burst)


def _until(level: float, enough: float, rate: float) -> float:
    if level > enough:
        return 0.0
    if not rate:
        return INFINITY
    # A little more, so that it is enough then whatever the rounding.
    return (enough - level) / rate + 1e-6
