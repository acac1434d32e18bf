"""How a domain's agent limits publishers when capacity is short: the federation file's `congestion`."""

from __future__ import annotations

from enum import StrEnum

import msgspec

SELECTIONS = ("greedy", "knapsack")
PUBLISHED_LIMITS_MSG_S = (10.0, 200.0, 500.0, 900.0, 2000.0)
"""ePEER's examples of what publishers of rising utility may say in a second (§5.2.1)."""


class Mode(StrEnum):
    """When limits are in force: while congestion is declared, always, or never (they are computed anyway)."""

    CONGESTED = "congested"
    ALWAYS = "always"
    OFF = "off"


class Congestion(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of congestion control by usefulness; the defaults are ePEER's where it has some."""

    mode: Mode = Mode.CONGESTED
    selection: str = "greedy"
    stop_at_first: bool = False
    """Whether nothing is picked after the first topic that does not fit; else smaller ones still are."""
    regions: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)
    """Where the ranges of a publisher's utility end; there is one limit more than there are ends."""
    ladder: tuple[float, ...] = tuple(limit / 2000.0 for limit in PUBLISHED_LIMITS_MSG_S)
    """What a publisher in each range may say: parts of a publisher's share of its broker's capacity."""
    probe_msg_s: float = 1.0
    """What a stopped publisher with an audience may still say, so that its usefulness can be judged."""
    lift_after_s: float = 5.0
    """For so long there must be room before a limit is raised."""
    hysteresis: float = 0.05
    """A topic overtakes another only if it is so much more important."""
    protect_deadline_ms: float | None = 1000.0
    """Topics with a deadline of at most this are never limited; None: only `protected` ones are not."""
    max_weight: float = 10.0
    """A subscriber's opinion counts at most so many times another's, whatever it says of itself."""
    disconnect_plain_publishers: bool = False
    """Whether a client without the SDK that says more than its limit is disconnected from its broker."""

    def protects(self, protected: bool, deadline_ms: float | None) -> bool:
        """Whether a topic with such a contract is never limited by it."""
        limit_ms = self.protect_deadline_ms
        return protected or (limit_ms is not None and deadline_ms is not None and deadline_ms <= limit_ms)
