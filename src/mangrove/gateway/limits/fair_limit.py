"""A rate that several publishers share: max-min fair by what each offers, never more than the rate in all.

Nothing is queued, so who may pass is decided from what everybody offered a moment ago: the level up to which
all may speak uses the rate up. Who says less than that is not touched; the others are kept to the level. The
whole is kept to the rate by a bucket of its own, which may be in debt for a moment: so somebody who says
little is not cut off because others have just used up everything. The debt lowers the level until it is paid.
"""

from __future__ import annotations

from mangrove.control.congestion.fair_level import fair_level
from mangrove.model.congestion.token_bucket import TokenBucket

BURST_S = 0.25
"""More than a client saves up: what it let pass evenly may come here in lumps."""
DEBT_S = 0.1
WINDOW_S = 0.1
GAIN = 0.3
"""Of the difference between the last window and what was expected."""
SETTLE_S = 0.5
"""In so long a debt is paid, or what was saved is spent."""
GONE_S = 2.0
MAX_PUBLISHERS = 256
"""Told apart on one subject; others count as one."""
OTHERS = b""


class PublisherRoom:
    """How many publishers may be told apart on all subjects together."""

    def __init__(self, most: int) -> None:
        self.left = most


class _Share:
    """One publisher: what it offers, and what it may say."""

    __slots__ = ("bucket", "bytes_s", "heard_at", "msg_s", "offered", "offered_bytes")

    def __init__(self, bucket: TokenBucket, now: float) -> None:
        self.bucket = bucket
        self.heard_at = now
        self.offered = 0
        self.offered_bytes = 0
        self.msg_s = 0.0
        self.bytes_s = 0.0

    def measure(self, span_s: float) -> None:
        """A window is over."""
        self.msg_s += GAIN * (self.offered / span_s - self.msg_s)
        self.bytes_s += GAIN * (self.offered_bytes / span_s - self.bytes_s)
        self.offered = self.offered_bytes = 0


class FairLimit:
    """One limit of messages and bytes per second, for any number of publishers."""

    __slots__ = ("_bytes_s", "_msg_s", "_only", "_room", "_shares", "_whole", "_window", "used_at")

    def __init__(
        self, msg_s: float | None, bytes_s: float | None, now: float, room: PublisherRoom | None = None
    ) -> None:
        """`room` is shared by many limits."""
        self._msg_s = msg_s
        self._bytes_s = bytes_s
        self._whole = TokenBucket(msg_s, bytes_s, now, burst_s=BURST_S)
        self._room = room or PublisherRoom(MAX_PUBLISHERS)
        self._only: bytes | None = None
        """Who publishes, while it is only one."""
        self._shares: dict[bytes, _Share] = {}
        self._window = now
        self.used_at = now

    @property
    def publishers(self) -> int:
        """How many are told apart at present."""
        return len(self._shares) or int(self._only is not None)

    def admit(self, origin: bytes, messages: int, size_bytes: int, now: float) -> int:
        """How many of somebody's messages, of this size each, pass."""
        self.used_at = now
        if not self._shares:
            if origin == self._only:
                return self._whole.take(messages, size_bytes, now)
            if self._only is None:
                self._only = origin
                return self._whole.take(messages, size_bytes, now)
            self._tell_apart(self._only, now)
        if now - self._window >= WINDOW_S:
            self._share_anew(now)
        share = self._shares.get(origin) or self._tell_apart(origin, now)
        share.heard_at = now
        share.offered += messages
        share.offered_bytes += messages * size_bytes
        passing = share.bucket.take(messages, size_bytes, now)
        saved = self._whole.take(passing, size_bytes, now)
        if saved == passing or self._whole.saved_s(now) < -DEBT_S:
            return saved
        self._whole.owe(passing - saved, size_bytes)
        return passing

    def change(self, msg_s: float | None, bytes_s: float | None, now: float) -> None:
        """Go on with other rates; publishers follow with the next window."""
        if (msg_s, bytes_s) != (self._msg_s, self._bytes_s):
            self._msg_s, self._bytes_s = msg_s, bytes_s
            self._whole.change(msg_s, bytes_s, now)

    def idle(self, now: float, after_s: float) -> bool:
        """Whether it can be forgotten: nobody has used it for so long, and nobody owes anything."""
        return now - self.used_at > after_s and self._whole.wait_s(now) == 0.0

    def release(self) -> None:
        """It is not used any more."""
        self._room.left += len(self._shares)
        self._shares.clear()

    def _tell_apart(self, origin: bytes, now: float) -> _Share:
        if origin != OTHERS and (len(self._shares) >= MAX_PUBLISHERS or self._room.left <= 0):
            return self._shares.get(OTHERS) or self._tell_apart(OTHERS, now)
        self._room.left -= 1
        parts = len(self._shares) + 1
        bucket = TokenBucket(_part(self._msg_s, parts), _part(self._bytes_s, parts), now, burst_s=BURST_S)
        share = self._shares[origin] = _Share(bucket, now)
        return share

    def _share_anew(self, now: float) -> None:
        """A window is over: the level follows what was offered, and what is saved or owed in all."""
        span_s = now - self._window
        self._window = now
        for origin, share in list(self._shares.items()):
            share.measure(span_s)
            if now - share.heard_at > GONE_S:
                del self._shares[origin]
                self._room.left += 1
        use = 1.0 + max(-0.5, min(0.5, self._whole.saved_s(now) / SETTLE_S))
        shares = self._shares.values()
        msg_s = bytes_s = None
        if self._msg_s is not None:
            msg_s = fair_level(use * self._msg_s, [share.msg_s for share in shares])
        if self._bytes_s is not None:
            bytes_s = fair_level(use * self._bytes_s, [share.bytes_s for share in shares])
        for share in shares:
            share.bucket.change(msg_s, bytes_s, now)


def _part(rate: float | None, parts: int) -> float | None:
    return None if rate is None else rate / parts
