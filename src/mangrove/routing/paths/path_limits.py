"""What a path must satisfy to be of use: a limit on delay, a limit on hops (thesis §5.3.1.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from mangrove.errors import InputError
from mangrove.routing.network.graph import Graph

_ROUNDING = 1e-9  # a path that is exactly as long as the limit passes, whatever the order of its sum


class PathLimits(msgspec.Struct, frozen=True):
    """Limits on a path; `max_delay` holds for the true, unpenalised sum of the weights."""

    max_delay: float = math.inf
    max_hops: int | None = None

    def __post_init__(self) -> None:
        if not self.max_delay > 0:
            raise InputError(f"the maximum delay must be positive, not {self.max_delay}")
        if self.max_hops is not None and self.max_hops < 1:
            raise InputError(f"the maximum number of hops must be at least 1, not {self.max_hops}")

    def hold(self, graph: Graph, path: Sequence[int]) -> bool:
        """Whether a path keeps within the limits."""
        if self.max_hops is not None and len(path) - 1 > self.max_hops:
            return False
        return self.allow_length(graph.length(path))

    def allow_length(self, length: float) -> bool:
        """Whether a path may be so long."""
        return length <= self.max_delay * (1 + _ROUNDING)

    def __str__(self) -> str:
        parts = []
        if math.isfinite(self.max_delay):
            parts.append(f"maximum delay {self.max_delay:g}")
        if self.max_hops is not None:
            parts.append(f"maximum hops {self.max_hops}")
        return " and ".join(parts) or "no limits"


FREE = PathLimits()
