"""What stands before one subject: its limit, the client's limit, and leave to be silent."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from mangrove.broker.client_connection import Outlet
from mangrove.client.publishing import Outcome, Withheld
from mangrove.model.congestion.token_bucket import TokenBucket

LARGE = 1 << 40
PURSE_SHARE = 1 / 16
"""Part of a burst that is taken out at once, so that not every message asks for the time."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds() -> float:
    """A clock that is not set, and that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(_CLOCK)


class _Purse(NamedTuple):
    """What is taken out of the buckets, and how much had been published then."""

    messages: int
    size_bytes: int
    published: int
    published_bytes: int


class Gate:
    """Lets messages of one subject pass, or not.

    While its outlet has published fewer than `until` messages, one of at most `most_bytes` may pass without
    a question: so much was taken out of the buckets beforehand, and what was not used is handed back
    whenever something changes. While the gate is silent there is nothing of that.
    """

    __slots__ = ("_purse", "bucket", "client", "most_bytes", "outlet", "silent_until_s", "until", "withheld")

    def __init__(self, outlet: Outlet, withheld: Withheld, client: TokenBucket | None) -> None:
        self.outlet = outlet
        self.withheld = withheld
        self.bucket: TokenBucket | None = None
        self.client = client
        """What all subjects of the client share."""
        self.silent_until_s = -math.inf
        self.until = 0
        self.most_bytes = 0
        self._purse: _Purse | None = None

    @property
    def needed(self) -> bool:
        """Whether anything is, or may be, held back here."""
        return self.bucket is not None or self.client is not None or self.silent_until_s > -math.inf

    def judge(self, size_bytes: int, share: float, *, awaited: bool, counted: bool) -> Outcome:
        """Whether a message may pass that is not sure to; if so it is paid for, and perhaps others as well.

        A message that somebody `awaited`, as a request is, passes also when nobody listens. The outlet will
        have `counted` it, or not, when the next one comes.
        """
        now = seconds()
        silent = now < self.silent_until_s
        if silent and not awaited:
            return Outcome.UNWANTED
        if not silent:
            self.silent_until_s = -math.inf
        self.settle()
        buckets = self._buckets()
        if not all(bucket.open(now) for bucket in buckets):
            return Outcome.LIMITED
        for bucket in buckets:
            bucket.spend(size_bytes)
        if buckets and counted and not silent:
            self._draw(buckets, share, size_bytes)
        return Outcome.SENT

    def charge(self, share: float, size_bytes: int) -> None:
        """Have a message that has passed cost more than itself."""
        for bucket in self._buckets():
            bucket.put(-share, -share * size_bytes)

    def settle(self) -> None:
        """Hand back what is left."""
        purse, self._purse = self._purse, None
        self.until = 0
        if purse is not None:
            messages = purse.messages - (self.outlet.messages - purse.published)
            size_bytes = purse.size_bytes - (self.outlet.size_bytes - purse.published_bytes)
            for bucket in self._buckets():
                bucket.put(messages, size_bytes)

    def wait_s(self) -> float:
        """How long until a message may pass."""
        self.settle()
        now = seconds()
        return max((bucket.wait_s(now) for bucket in self._buckets()), default=0.0)

    def _buckets(self) -> list[TokenBucket]:
        return [bucket for bucket in (self.bucket, self.client) if bucket is not None]

    def _draw(self, buckets: list[TokenBucket], share: float, paid_bytes: int) -> None:
        """Take out what the next messages of this size may use; the present one is paid for."""
        drawn = [bucket.draw(share) for bucket in buckets]
        messages, size_bytes = (min(*column, LARGE) for column in zip(*drawn, strict=True))
        count = min(int(messages), int(size_bytes) // max(paid_bytes, 1))
        if count < 1:
            return
        self.most_bytes = int(size_bytes) // count
        published, published_bytes = self.outlet.messages + 1, self.outlet.size_bytes + paid_bytes
        self._purse = _Purse(count, int(size_bytes), published, published_bytes)
        self.until = published + count
        for bucket in buckets:
            bucket.put(-count, -self._purse.size_bytes)
