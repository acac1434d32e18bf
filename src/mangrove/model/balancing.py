"""How a domain's agent detects and moves load: the federation file's `balancing`."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Placement(StrEnum):
    """Whether the clients of a domain are near all its brokers alike, or nearer to some."""

    LAN = "lan"
    WAN = "wan"


OFFLOADING_METHODS = ("drd", "drd-optimal", "peer", "peer-drd")
DISTRIBUTIONS = ("headroom", "round-robin", "least-connections", "random")


class Balancing(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of detection, distribution and offloading; the defaults are ePEER's where it has some."""

    enabled: bool = True
    method: str = "drd"
    distribution: str = "headroom"
    low: float = 0.90
    high: float = 0.95
    ceiling: float | None = None
    """Up to where an acceptor is filled; None: halfway between the thresholds.

    ePEER fills it up to `high`: then what was measured a little too small overloads it."""
    target: float | None = None
    """Down to where an overloaded broker is relieved; None: to `low`, where it may take load again.

    ePEER relieves it to `high`: then the next wave of its noise overloads it anew."""
    period_s: float = 1.0
    window: int = 2
    confirm_periods: int = 1
    cooldown_s: float = 3.0
    migration_timeout_s: float = 30.0
    delay_ms: float | None = None
    """A broker through which a probe takes so long is overloaded; None: that is no trigger."""
    cpu_percent: float | None = None
    memory_mb: float | None = None
    pending_bytes: int | None = None
    """So many pending bytes that have risen over five samples are a trigger."""
    imbalance: float = 0.10
    """PEER: the difference of two edges' loads that starts a session."""
    imbalance_stop: float | None = None
    """PEER: the difference down to which they are brought; None: half of `imbalance`."""
    publish_at_edges: bool = False
    """Whether topics with subscribers at one edge of the domain alone are published there."""
