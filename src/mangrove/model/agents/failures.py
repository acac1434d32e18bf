"""What an agent's detectors of failure say, for `mangrove load` and `mangrove status`."""

from __future__ import annotations

import msgspec


class BrokerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that is not taken for alive without doubt."""

    broker: str
    health: str
    """`suspected`, `failed` or `returning`."""
    since_s: float
    evidence: str = ""
    reporters: tuple[str, ...] = ()
    """Clients that take it for dead."""


class FailureStatus(msgspec.Struct, frozen=True, kw_only=True):
    """All three detectors (GEMOM §III): brokers, links of clients, bottlenecks."""

    brokers: tuple[BrokerHealth, ...] = ()
    hosts: tuple[str, ...] = ()
    """Hosts that are gone with all their brokers."""
    dropped: tuple[str, ...] = ()
    """Brokers that the directory does not name any more."""
    bottlenecks: tuple[str, ...] = ()
    """Brokers that are overloaded by a metric or a trigger, rising pending bytes among them."""
    power: dict[str, str] = {}
    """Brokers that are off, or on their way to it or back, where the domain is elastic."""
    verdicts: int = 0
    """How often a broker was found dead since the agent started."""
    missed_probes: int = 0
    uncounted_probes: int = 0
    """Missed ones that were not counted, because the agent itself had been away."""
    refuted_reports: int = 0
    """Reports of clients that could not reach a broker which is alive: trouble of their links."""
