"""What stands before one subject: its limit, the client's limit, and leave to be silent."""

from __future__ import annotations

import math
import time

from mangrove.broker.client_connection import Outlet
from mangrove.client.publishing import Outcome, Withheld
from mangrove.model.congestion.token_bucket import TokenBucket

PURSE_SHARE = 1 / 16
"""Part of a burst that is taken out at once, so that not every message asks for the time."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds() -> float:
    """A clock that is not set, and that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(_CLOCK)


class Gate:
    """Lets messages of one subject pass, or not.

    `left` messages and `left_bytes` may pass without a question: they are taken out of the buckets
    beforehand, and handed back whenever something changes. While the gate is silent there are none.
    """

    __slots__ = ("_purse", "bucket", "client", "left", "left_bytes", "outlet", "silent_until_s", "withheld")

    def __init__(self, outlet: Outlet, withheld: Withheld, client: TokenBucket | None) -> None:
        self.outlet = outlet
        self.withheld = withheld
        self.bucket: TokenBucket | None = None
        self.client = client
        """What all subjects of the client share."""
        self.silent_until_s = -math.inf
        self.left = 0.0
        self.left_bytes = 0.0
        self._purse = False

    @property
    def needed(self) -> bool:
        """Whether anything is, or may be, held back here."""
        return self.bucket is not None or self.client is not None or self.silent_until_s > -math.inf

    def judge(self, size_bytes: int, share: float, *, awaited: bool) -> Outcome:
        """Whether a message may pass when there is nothing left; if so, something may be left afterwards.

        A message that somebody `awaited`, as a request is, passes also when nobody listens.
        """
        now = seconds()
        silent = now < self.silent_until_s
        if silent and not awaited:
            return Outcome.UNWANTED
        if not silent:
            self.silent_until_s = -math.inf
        self.settle()
        bucket, client = self.bucket, self.client
        if (bucket is not None and not bucket.open(now)) or (client is not None and not client.open(now)):
            return Outcome.LIMITED
        for each in (bucket, client):
            if each is not None:
                each.spend(size_bytes)
        if not silent:
            self._draw(share)
        return Outcome.SENT

    def settle(self) -> None:
        """Hand back what is left, or pay what was spent beyond it."""
        if self._purse:
            for bucket in (self.bucket, self.client):
                if bucket is not None:
                    bucket.put(self.left, self.left_bytes)
            self._purse = False
        self.left = self.left_bytes = 0.0

    def wait_s(self) -> float:
        """How long until a message may pass."""
        self.settle()
        now = seconds()
        return max((each.wait_s(now) for each in (self.bucket, self.client) if each is not None), default=0.0)

    def _draw(self, share: float) -> None:
        drawn = [each.draw(share) for each in (self.bucket, self.client) if each is not None]
        if not drawn:
            return
        messages, size_bytes = (min(column) for column in zip(*drawn, strict=True))
        if messages < 1 or size_bytes < 1:
            return
        for bucket in (self.bucket, self.client):
            if bucket is not None:
                bucket.put(-messages, -size_bytes)
        self.left, self.left_bytes, self._purse = messages, size_bytes, True
