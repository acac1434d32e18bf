"""One direction of a broker's line as arithmetic: how much may pass now, or how long to wait. No clock."""

from __future__ import annotations

BYTES_A_MEGABIT = 125_000
BURST_S = 0.02
MIN_BURST_BYTES = 8192
"""A line is never so narrow that it cannot carry a segment or two at once."""
MAX_MBPS = 1e6


def bandwidth_problem(bandwidth_mbps: float | None) -> str:
    """Why a line cannot have this bandwidth, or nothing; None is a line that never limits."""
    if bandwidth_mbps is None or 0 < bandwidth_mbps <= MAX_MBPS:
        return ""
    return f"a bandwidth of {bandwidth_mbps} Mbit/s: it must be above 0 and at most {MAX_MBPS:g}"


class Line:
    """A token bucket for bytes that many connections share."""

    def __init__(self, bandwidth_mbps: float | None) -> None:
        self.bandwidth_mbps = bandwidth_mbps
        self.passed_bytes = 0
        self._credit_bytes = 0.0
        self._looked_at: float | None = None

    @property
    def limited(self) -> bool:
        """Whether anything ever has to wait."""
        return self.bandwidth_mbps is not None

    @property
    def rate_bytes_s(self) -> float:
        """Of a line that is limited."""
        return (self.bandwidth_mbps or 0.0) * BYTES_A_MEGABIT

    def change(self, bandwidth_mbps: float | None, now: float) -> None:
        """Another bandwidth from now on; what was saved up before does not count for more than a burst."""
        self._credit(now)
        self.bandwidth_mbps = bandwidth_mbps
        self._credit_bytes = min(self._credit_bytes, self._burst_bytes)

    def wait_s(self, now: float) -> float:
        """How long until something may pass; 0: now."""
        if not self.limited:
            return 0.0
        credit = self._credit(now)
        return 0.0 if credit > 0 else (1.0 - credit) / self.rate_bytes_s

    def passed(self, size_bytes: int, now: float) -> None:
        """So much has passed. It may overdraw the credit: what follows waits the longer."""
        self.passed_bytes += size_bytes
        if self.limited:
            self._credit_bytes = self._credit(now) - size_bytes

    @property
    def _burst_bytes(self) -> float:
        return max(MIN_BURST_BYTES, self.rate_bytes_s * BURST_S)

    def _credit(self, now: float) -> float:
        elapsed_s = 0.0 if self._looked_at is None else max(0.0, now - self._looked_at)
        self._looked_at = now
        if self.limited:
            self._credit_bytes = min(self._burst_bytes, self._credit_bytes + elapsed_s * self.rate_bytes_s)
        return self._credit_bytes
