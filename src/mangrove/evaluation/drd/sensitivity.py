"""What comes out if what the thesis leaves open were otherwise: one thing changed at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mangrove.evaluation.drd.comparison import pairing
from mangrove.evaluation.drd.runs import Experiment, Methods
from mangrove.evaluation.drd.setting import Migration, Setting
from mangrove.evaluation.drd.workload import Ranges

METHODS = ("drd", "peer", "peer-drd")

BASE = Setting()

VARIANTS: dict[str, Setting] = {
    "as above": BASE,
    "pause of 0.33 s": BASE.changed(migration=Migration(0.020, 0.290, 0.020)),
    "pause of 1 s": BASE.changed(migration=Migration(0.020, 0.960, 0.020)),
    "thresholds .80 .85": BASE.changed(low=0.80, high=0.85),
    "thresholds .85 .95": BASE.changed(low=0.85, high=0.95),
    "imbalance 5 %": BASE.changed(imbalance=0.05),
    "imbalance 20 %": BASE.changed(imbalance=0.20),
    "stop at half": BASE.changed(stop_share=0.5),
    "stop at nothing": BASE.changed(stop_share=0.0),
    "by subscriber": BASE.changed(by_subscriber=True),
    "matching alone": BASE.changed(matching_only=True),
    "1–12 subscribers": BASE.changed(ranges=Ranges(subscribers=(1, 12))),
    "load .74–.78": BASE.changed(ranges=Ranges(utilisation=(0.74, 0.78))),
    "load .84–.88": BASE.changed(ranges=Ranges(utilisation=(0.84, 0.88))),
    "bursts of 5–8": BASE.changed(ranges=Ranges(burst_topics=(5, 8))),
    "bursts of 20–30": BASE.changed(ranges=Ranges(burst_topics=(20, 30))),
    "Poisson traffic": BASE.changed(irregular=True),
    "relieved to .90": BASE.changed(to_low=True),
    "cool-down 3 s": BASE.changed(cooldown_s=3.0),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One setting: means by method, and how often DRD has less than PEER."""

    name: str
    delay: dict[str, float]
    offloads: dict[str, float]
    delay_after: dict[str, float]
    offloads_after: dict[str, float]
    delay_wins: float
    offloads_wins: float
    delay_wins_after: float
    offloads_wins_after: float
    overload_s: dict[str, float]


def settings() -> dict[str, Methods]:
    """All variants, as trials are named after them."""
    return {name: Methods(setting, METHODS) for name, setting in VARIANTS.items()}


def summarise_variant(name: str, found: Sequence[Experiment]) -> Variant:
    """Means over the experiments of a variant."""

    def values(method: str, measure: str) -> list[float]:
        return [float(getattr(one[method], measure)) for one in found]

    def means(measure: str) -> dict[str, float]:
        return {method: sum(values(method, measure)) / len(found) for method in METHODS}

    def wins(measure: str) -> float:
        return pairing(values("drd", measure), values("peer", measure)).win_share

    return Variant(
        name,
        means("delay"),
        means("offloads"),
        means("delay_after"),
        means("offloads_after"),
        wins("delay"),
        wins("offloads"),
        wins("delay_after"),
        wins("offloads_after"),
        means("overload_s"),
    )
