"""How an experiment is run: the agents' parameters, the migration model, and readings of what is left
open."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mangrove.control.offloading.registry import method_named
from mangrove.control.offloading.trigger import StartedBy
from mangrove.evaluation.drd.workload import Ranges
from mangrove.model.balancing import Balancing


@dataclass(frozen=True, slots=True)
class Migration:
    """How long a subscriber that is told to move waits for its messages, besides what waits at the old
    edge."""

    notify_s: float = 0.020
    connect_s: float = 0.040
    subscribe_s: float = 0.020

    @property
    def pause_s(self) -> float:
        """T_unexpected without a queue."""
        return self.notify_s + self.connect_s + self.subscribe_s


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything but the seed and the method. The thesis's values, where it prints any."""

    ranges: Ranges = field(default_factory=Ranges)
    low: float = 0.90
    high: float = 0.95
    imbalance: float = 0.10
    stop_share: float = 1.0
    """PEER brings two edges closer until they differ by this part of `imbalance`."""
    to_low: bool = False
    """Whether an overloaded edge is relieved to `low`, the default of the file; the thesis has `high`."""
    cooldown_s: float = 0.0
    """The thesis has none."""
    migration: Migration = field(default_factory=Migration)
    by_subscriber: bool = False
    """Whether PEER draws an edge for each subscriber, or one for all subscribers of a topic."""
    irregular: bool = False
    """Whether messages come as a Poisson process has it, or all at even distances."""
    matching_only: bool = False
    """Whether bandwidth is left out of account."""

    def balancing(self, method: str) -> Balancing:
        """The agents' parameters: PEER and its variant draw edges at random, DRD takes the emptiest."""
        drawn = method_named(method).started_by is StartedBy.IMBALANCE
        return Balancing(
            method=method,
            distribution="random" if drawn else "headroom",
            low=self.low,
            high=self.high,
            ceiling=self.high,
            imbalance=self.imbalance,
            imbalance_stop=self.stop_share * self.imbalance,
            target=self.low if self.to_low else self.high,
            cooldown_s=self.cooldown_s,
        )

    def changed(self, **values: object) -> Setting:
        """The same with some values changed."""
        return replace(self, **values)  # type: ignore[arg-type]
