"""Subscribers at home, and led to their publishers: the same workloads, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mangrove.evaluation.drd.comparison import Pairing, Spread, pairing, spread
from mangrove.evaluation.steering.trial import Trial, run_seed
from mangrove.evaluation.steering.workload import Setting
from mangrove.evaluation.trials import experiment as trials

MEASURES = ("link_msg_s", "line_msg_s", "mean_ms", "p95_ms", "busiest")
"""Of all of them less is better."""
BASE = Setting()
VARIANTS: dict[str, Setting] = {
    "all at home": BASE.changed(abroad=0.0),
    "all where it is published": BASE.changed(abroad=1.0),
    "one subscriber a topic": BASE.changed(subscribers=60),
    "ten subscribers a topic": BASE.changed(subscribers=600),
    "three domains": BASE.changed(domains=3),
    "sixteen domains": BASE.changed(domains=16),
    "edges of half the capacity": BASE.changed(capacity_msg_s=300.0),
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure over all seeds, with and without."""

    home: Spread
    steered: Spread
    less: Pairing
    """In how many seeds it is less with steering."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing changed: means over its seeds."""

    name: str
    home: dict[str, float]
    steered: dict[str, float]
    moved: float
    overload_s: tuple[float, float]
    """Without and with."""


@dataclass(frozen=True, slots=True)
class SteeringResult:
    """All seeds."""

    seeds: tuple[int, ...]
    setting: Setting
    measures: dict[str, Measure]
    moved_mean: float
    overload_s: tuple[float, float]
    """Seconds of overload, summed over edges, in the mean over seeds: without and with."""
    sessions: tuple[float, float]
    most_orders: int
    """That any subscriber carried out."""
    recalled: int
    sensitivity: tuple[Variant, ...] = ()
    experiments: tuple[Trial, ...] = field(default=(), repr=False)

    def differs(self) -> list[str]:
        """ePEER names this as future work and prints nothing."""
        return []

    def missed(self) -> list[str]:
        """Bars: less crosses links, nothing takes longer, no edge is overloaded, nobody goes to and fro."""
        found = []
        if self.measures["link_msg_s"].less.losses:
            found.append("in some seed more crosses links with steering")
        if self.measures["mean_ms"].less.losses:
            found.append("in some seed messages take longer with steering")
        if self.overload_s[1] > self.overload_s[0]:
            found.append("edges are overloaded for longer with steering")
        if self.most_orders > 2:
            found.append(f"a subscriber was moved {self.most_orders} times")
        return found


def steering_trials(settings: Mapping[str, Setting]) -> trials.Experiment[Setting, Trial]:
    """The experiment as trials."""
    return trials.Experiment("steering", run_seed, settings, Trial)


def summarise(seeds: tuple[int, ...], setting: Setting, found: tuple[Trial, ...]) -> SteeringResult:
    """Means, intervals and tests."""
    return SteeringResult(
        seeds,
        setting,
        {measure: _measure(measure, found, seeds[0]) for measure in MEASURES},
        _mean(found, "steered", "moved"),
        (_mean(found, "home", "overload_s"), _mean(found, "steered", "overload_s")),
        (_mean(found, "home", "sessions"), _mean(found, "steered", "sessions")),
        max(trial["steered"].orders for trial in found),
        sum(trial["steered"].recalled for trial in found),
        experiments=found,
    )


def summarise_variant(name: str, found: Sequence[Trial]) -> Variant:
    """Means over the seeds of a variant."""
    return Variant(
        name,
        {measure: _mean(found, "home", measure) for measure in MEASURES},
        {measure: _mean(found, "steered", measure) for measure in MEASURES},
        _mean(found, "steered", "moved"),
        (_mean(found, "home", "overload_s"), _mean(found, "steered", "overload_s")),
    )


def _measure(measure: str, found: Sequence[Trial], seed: int) -> Measure:
    home, steered = ([float(getattr(trial[arm], measure)) for trial in found] for arm in ("home", "steered"))
    return Measure(spread(home, seed), spread(steered, seed), pairing(steered, home))


def _mean(found: Sequence[Trial], arm: str, measure: str) -> float:
    return sum(float(getattr(trial[arm], measure)) for trial in found) / len(found)
