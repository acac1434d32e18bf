"""What a wide-area link does to a stream of bytes, as arithmetic: no sockets, no clock."""

from __future__ import annotations

import random

import msgspec

SEGMENT_BYTES = 1460
MIN_RETRANSMISSION_S = 0.010


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of an emulated link, the same in both directions."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    bandwidth_mbps: float | None = None
    loss_ratio: float = 0.0
    black_hole: bool = False


class Shaper:
    """When each chunk of one direction of a TCP stream arrives at the far side.

    Delay and jitter move chunks in time but never past each other, since TCP delivers in order. Bandwidth
    makes them queue. A lost segment is sent again by TCP after about a round trip, which holds up everything
    behind it: that is how loss looks from above TCP.
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape = shape
        self._random = random.Random(seed)
        self._line_free_at = 0.0
        self._last_arrival = 0.0

    def arrival(self, now: float, size_bytes: int) -> float:
        """The time at which a chunk that is sent now comes out at the far side."""
        shape = self.shape
        self._line_free_at = max(self._line_free_at, now)
        if shape.bandwidth_mbps:
            self._line_free_at += size_bytes * 8 / (shape.bandwidth_mbps * 1e6)
        arrival = self._line_free_at + shape.delay_ms / 1000
        if shape.jitter_ms:
            arrival += self._random.uniform(0, shape.jitter_ms) / 1000
        if shape.loss_ratio:
            arrival += self._retransmissions(size_bytes) * max(
                2 * shape.delay_ms / 1000, MIN_RETRANSMISSION_S
            )
        self._last_arrival = max(self._last_arrival, arrival)
        return self._last_arrival

    def _retransmissions(self, size_bytes: int) -> int:
        """Rounds of retransmission until every segment of the chunk has come through."""
        missing = -(-size_bytes // SEGMENT_BYTES)
        rounds = 0
        while True:
            missing = sum(self._random.random() < self.shape.loss_ratio for _ in range(missing))
            if not missing:
                return rounds
            rounds += 1
