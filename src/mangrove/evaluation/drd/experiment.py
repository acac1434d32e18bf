"""The whole of ePEER's §4.5, its bars, and what it printed."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.evaluation.drd.comparison import Pairing, Spread, pairing, spread
from mangrove.evaluation.drd.runs import METHODS, Experiment
from mangrove.evaluation.drd.sensitivity import Variant
from mangrove.evaluation.drd.setting import Setting

PAIRS = (("drd", "peer"), ("drd", "peer-drd"), ("peer-drd", "peer"), ("drd-optimal", "drd"))
"""The first is expected to have less."""

WIN_SHARE = 0.95
SIGNIFICANCE = 1e-10
SEEDS_FOR_SIGNIFICANCE = 60
"""With fewer experiments the test cannot say so much, even if one method always has less."""

PUBLISHED_DELAY = {"drd": 0.0498, "peer": 18.94, "peer-drd": 10.22}
"""Mean Od over the whole experiment (`e:2152-2179`, `e:2232-2235`)."""
PUBLISHED_DELAY_AFTER = {"drd": 0.0498, "peer": 2.74, "peer-drd": 1.37}
"""The same without the distribution phase."""
PUBLISHED_WINS_AFTER = {"delay": 0.994, "offloads": 0.976}
"""Of DRD against PEER, without the distribution phase (`e:2180-2191`)."""


@dataclass(frozen=True, slots=True)
class MethodSummary:
    """One method over all experiments."""

    delay_mean: float
    """The mean over experiments of the sum of relative offloading delays, over the whole experiment."""
    offloads_mean: float
    delay_mean_after: float
    """From when all clients had registered, as the thesis compares."""
    offloads_mean_after: float
    delay: Spread
    offloads: Spread
    delay_after: Spread
    offloads_after: Spread
    subscribers_mean: float
    overload_s_mean: float
    overhead_capacity: float
    overhead_exchange: float


@dataclass(frozen=True, slots=True)
class PairSummary:
    """Two methods over all experiments."""

    delay: Pairing
    offloads: Pairing
    delay_after: Pairing
    """From when all clients had registered."""
    offloads_after: Pairing


@dataclass(frozen=True, slots=True)
class DrdResult:
    """All methods, all pairs."""

    seeds: tuple[int, ...]
    setting: Setting
    methods: dict[str, MethodSummary]
    pairs: dict[str, PairSummary]
    """By the names of both, the first with a hyphen before the second."""
    sensitivity: tuple[Variant, ...] = ()
    experiments: tuple[Experiment, ...] = field(default=(), repr=False)

    def differs(self) -> list[str]:
        """What the thesis prints and this experiment does not show, without the time of registration."""
        lines: list[str] = []
        against = self.pairs["drd-peer"]
        for measure, found in (("delay", against.delay_after), ("offloads", against.offloads_after)):
            printed = PUBLISHED_WINS_AFTER[measure]
            if found.win_share < printed:
                lines.append(
                    f"after registration drd has less {measure} than peer in {found.win_share:.1%}"
                    f" of the pairs; printed: {printed:.1%}"
                )
        delays = {name: method.delay_mean_after for name, method in self.methods.items()}
        if not delays["drd"] <= delays["peer-drd"] <= delays["peer"]:
            lines.append(
                f"after registration peer-drd's delay of {delays['peer-drd']:.1%} is not between drd's"
                f" {delays['drd']:.1%} and peer's {delays['peer']:.1%}"
            )
        return lines

    def missed(self) -> list[str]:
        """Bars that were not reached. They are on the whole experiment, the time of registration included."""
        lines: list[str] = []
        against = self.pairs["drd-peer"]
        for measure, found in (("delay", against.delay), ("offloads", against.offloads)):
            if found.win_share < WIN_SHARE:
                lines.append(f"drd has less {measure} than peer in {found.win_share:.1%} of the pairs")
            if len(self.seeds) >= SEEDS_FOR_SIGNIFICANCE and found.p >= SIGNIFICANCE:
                lines.append(f"drd against peer, {measure}: p = {found.p:.2g}")
        delays = {name: method.delay_mean for name, method in self.methods.items()}
        if not delays["drd"] <= delays["peer-drd"] <= delays["peer"]:
            lines.append(f"peer-drd's delay of {delays['peer-drd']:.3g} is not between drd's and peer's")
        if delays["drd-optimal"] > delays["drd"]:
            lines.append(f"drd-optimal's delay of {delays['drd-optimal']:.3g} is above drd's")
        return lines


def summarise(seeds: tuple[int, ...], setting: Setting, found: tuple[Experiment, ...]) -> DrdResult:
    """Means, intervals and tests of what was measured."""

    def values(method: str, measure: str) -> list[float]:
        return [float(getattr(one[method], measure)) for one in found]

    def mean(method: str, measure: str) -> float:
        return sum(values(method, measure)) / len(found)

    def method_summary(method: str) -> MethodSummary:
        delay, offloads, delay_after, offloads_after = (
            spread(values(method, measure), seeds[0])
            for measure in ("delay", "offloads", "delay_after", "offloads_after")
        )
        return MethodSummary(
            delay.mean,
            offloads.mean,
            delay_after.mean,
            offloads_after.mean,
            delay,
            offloads,
            delay_after,
            offloads_after,
            mean(method, "subscribers"),
            mean(method, "overload_s"),
            mean(method, "overhead_capacity"),
            mean(method, "overhead_exchange"),
        )

    def pair_summary(first: str, second: str) -> PairSummary:
        return PairSummary(
            *(
                pairing(values(first, measure), values(second, measure))
                for measure in ("delay", "offloads", "delay_after", "offloads_after")
            )
        )

    return DrdResult(
        seeds,
        setting,
        {method: method_summary(method) for method in METHODS},
        {f"{first}-{second}": pair_summary(first, second) for first, second in PAIRS},
        experiments=found,
    )
