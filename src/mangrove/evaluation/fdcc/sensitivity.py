"""What comes out under other readings of the thesis and other inputs: one thing changed at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mangrove.evaluation.fdcc.setting import HALF, NO_REGIONS, Setting
from mangrove.evaluation.fdcc.trial import Trial
from mangrove.model.congestion.parameters import Congestion, Mode

BASE = Setting()
FILE_LADDER = Congestion().ladder

VARIANTS: dict[str, Setting] = {
    "as above": BASE,
    "the file's ladder": BASE.limiting(ladder=FILE_LADDER),
    "no regions": BASE.limiting(ladder=NO_REGIONS),
    "no regions, strict": BASE.limiting(ladder=NO_REGIONS, stop_at_first=True),
    "knapsack": BASE.limiting(selection="knapsack"),
    "knapsack, no regions": BASE.limiting(selection="knapsack", ladder=NO_REGIONS),
    "always": BASE.limiting(mode=Mode.ALWAYS),
    "probe a minute": BASE.limiting(probe_msg_s=1 / 60),
    "half the bandwidth": BASE.drawn(damage=HALF),
    "half, load .57–.63": BASE.drawn(damage=HALF, load=(0.57, 0.63)),
    "load .18–.22": BASE.drawn(load=(0.18, 0.22)),
    "load .48–.52": BASE.drawn(load=(0.48, 0.52)),
    "10–24 subscribers": BASE.drawn(subscribers=(10, 24)),
    "1–6 subscribers": BASE.drawn(subscribers=(1, 6)),
    "one publisher": BASE.drawn(publishers=(1, 1)),
    "1–3 publishers": BASE.drawn(publishers=(1, 3)),
    "all 1100 bytes": BASE.drawn(sizes_by_topic=False),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """One setting: means over its experiments."""

    name: str
    qoe_before: float
    qoe: float
    qoe_zero: float
    reduced: dict[str, float]
    """In points of what brokers can carry undamaged, by metric."""
    relative: dict[str, float]
    utility_ratio: float
    """By random limiting of the same volume."""
    utility_uncontrolled: float
    good_in_time: float
    stopped: float
    unheard: float

    @property
    def qoe_gain(self) -> float:
        """Of the means."""
        return self.qoe / self.qoe_before - 1.0


def summarise_variant(name: str, found: Sequence[Trial]) -> Variant:
    """Means over the experiments of a variant."""

    def mean(arm: str, measure: str) -> float:
        return float(np.mean([getattr(one.arms[arm], measure) for one in found]))

    def ratio(arm: str) -> float:
        return float(np.mean([one.arms["fdcc"].utility_s / one.arms[arm].utility_s for one in found]))

    loads = {metric: (mean("uncontrolled", metric), mean("fdcc", metric)) for metric in ("uo", "ui", "um")}
    return Variant(
        name=name,
        qoe_before=mean("undamaged", "qoe"),
        qoe=mean("fdcc", "qoe"),
        qoe_zero=mean("fdcc", "qoe_zero"),
        reduced={metric: without - under for metric, (without, under) in loads.items()},
        relative={metric: 1.0 - under / without for metric, (without, under) in loads.items()},
        utility_ratio=ratio("random"),
        utility_uncontrolled=ratio("uncontrolled"),
        good_in_time=mean("fdcc", "good_in_time"),
        stopped=mean("fdcc", "stopped"),
        unheard=mean("fdcc", "unheard"),
    )
