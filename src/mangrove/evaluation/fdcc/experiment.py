"""The whole of ePEER's §5.3, its bars, and what it printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from mangrove.evaluation.drd.comparison import Pairing, Spread, pairing, spread
from mangrove.evaluation.fdcc.measures import Measures
from mangrove.evaluation.fdcc.sensitivity import Variant
from mangrove.evaluation.fdcc.setting import Setting
from mangrove.evaluation.fdcc.trial import ARMS, Trial

PUBLISHED_REDUCED = {"uo": 0.192, "ui": 0.157, "um": 0.161}
"""Load reduced, mean of 500 experiments (`e:2661-2665`); in points or relative is not said."""
PUBLISHED_QOE = (0.2671, 0.3348)
"""Before the damage, and with control after it (`e:2697-2699`)."""

REDUCED = (0.10, 0.25)
QOE_GAIN = (0.20, 0.30)
UTILITY_RATIO = 1.3
SIGNIFICANCE = 1e-10
SEEDS_FOR_SIGNIFICANCE = 60
"""With fewer experiments the test cannot say so much, even if one arm always has less."""

TESTS = {
    "uo": ("uo", "fdcc", "uncontrolled"),
    "ui": ("ui", "fdcc", "uncontrolled"),
    "um": ("um", "fdcc", "uncontrolled"),
    "uo_measured": ("uo_measured", "fdcc", "uncontrolled"),
    "qoe": ("qoe", "undamaged", "fdcc"),
    "qoe_random": ("qoe", "random", "fdcc"),
    "utility_random": ("utility_s", "random", "fdcc"),
    "utility_uncontrolled": ("utility_s", "uncontrolled", "fdcc"),
    "good_in_time": ("good_in_time", "random", "fdcc"),
}
"""A measure, and two arms, of which the first is expected to have less."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """How much less load there is with control than without, on one metric."""

    points: Spread
    """Of what brokers can carry undamaged, in the mean over brokers."""
    relative: float
    """Of what they are asked to carry without control."""
    measured_points: float
    """Of the utilisation that is measured; without control it is at most 1."""
    measured_relative: float
    published: float


@dataclass(frozen=True, slots=True)
class Control:
    """How congestion control behaved, in the mean over experiments."""

    overloaded: float
    """Brokers of five that are asked for more than the high threshold of what the damage leaves."""
    relief_s: float
    """From the damage until no broker is overloaded, where that came to be."""
    never_relieved: int
    """Experiments in which some broker stayed overloaded, or was so again."""
    clear_s: float
    """From the recovery until nobody is limited, where that came to be."""
    never_clear: int
    limited: float
    """Publishers that were limited: their share of all."""
    changes: float
    """Limits that changed while nothing else did, in each experiment."""
    feedback_capacity: float
    """Feedback by matching capacity of an edge, as the thesis counts it."""


@dataclass(frozen=True, slots=True)
class FdccResult:
    """All arms, all tests."""

    seeds: tuple[int, ...]
    setting: Setting
    arms: dict[str, Measures]
    """Means over all experiments."""
    tests: dict[str, Pairing]
    load_reduced: dict[str, Reduction]
    qoe_gain: float
    """Of the means, from the undamaged arm to the controlled one."""
    qoe: dict[str, Spread]
    utility_ratio: dict[str, Spread]
    """Utility delivered under control by that of another arm, experiment by experiment."""
    longest_silence_s: dict[str, float]
    """In the mean over experiments."""
    control: Control
    sensitivity: tuple[Variant, ...] = ()
    experiments: tuple[Trial, ...] = field(default=(), repr=False)

    def differs(self) -> list[str]:
        """What the thesis prints and this experiment has otherwise."""
        lines = [
            f"load reduced, {metric}: {one.points.mean:.1%} of what brokers can carry undamaged,"
            f" {one.relative:.1%} of what they are asked to carry; printed: {one.published:.1%}"
            for metric, one in self.load_reduced.items()
            if abs(one.points.mean - one.published) > 0.02
        ]
        before, after = self.arms["undamaged"].qoe, self.arms["fdcc"].qoe
        if max(abs(before - PUBLISHED_QOE[0]), abs(after - PUBLISHED_QOE[1])) > 0.01:
            lines.append(
                f"QoE {before:.4f} to {after:.4f}; printed: {PUBLISHED_QOE[0]} to {PUBLISHED_QOE[1]}"
            )
        return lines

    def missed(self) -> list[str]:
        """Bars that were not reached. Load is in points of what brokers can carry undamaged."""
        lines: list[str] = []
        for metric, one in self.load_reduced.items():
            if not REDUCED[0] <= one.points.mean <= REDUCED[1]:
                lines.append(f"load reduced on {metric} by {one.points.mean:.1%}, not 10 % to 25 %")
        if not QOE_GAIN[0] <= self.qoe_gain <= QOE_GAIN[1]:
            lines.append(f"QoE rises by {self.qoe_gain:.1%}, not by about a quarter")
        ratio = self.utility_ratio["random"].mean
        if ratio < UTILITY_RATIO:
            lines.append(f"utility delivered is {ratio:.2f} times that of random limiting, not 1.3")
        if len(self.seeds) >= SEEDS_FOR_SIGNIFICANCE:
            lines += [
                f"{name}: p = {self.tests[name].p:.2g}"
                for name in ("uo", "ui", "um", "qoe", "utility_random")
                if self.tests[name].p >= SIGNIFICANCE
            ]
        return lines


def summarise(seeds: tuple[int, ...], setting: Setting, found: tuple[Trial, ...]) -> FdccResult:
    """Means, intervals and tests of what was measured."""

    def values(arm: str, measure: str) -> list[float]:
        return [getattr(one.arms[arm], measure) for one in found]

    arms = {
        arm: Measures(**{each.name: float(np.mean(values(arm, each.name))) for each in fields(Measures)})
        for arm in ARMS
    }
    without, under = arms["uncontrolled"], arms["fdcc"]
    return FdccResult(
        seeds,
        setting,
        arms,
        {name: pairing(values(less, m), values(more, m)) for name, (m, less, more) in TESTS.items()},
        {metric: _reduction(metric, without, under, values, seeds[0]) for metric in PUBLISHED_REDUCED},
        under.qoe / arms["undamaged"].qoe - 1.0,
        {arm: spread(values(arm, "qoe"), seeds[0]) for arm in ARMS},
        {
            arm: spread(
                [
                    ours / theirs
                    for ours, theirs in zip(
                        values("fdcc", "utility_s"), values(arm, "utility_s"), strict=True
                    )
                ],
                seeds[0],
            )
            for arm in ARMS
            if arm != "fdcc"
        },
        {arm: float(np.mean([one.longest_silence_s[arm] for one in found])) for arm in ARMS},
        _control(found),
        experiments=found,
    )


def _reduction(
    metric: str,
    without: Measures,
    under: Measures,
    values: Callable[[str, str], list[float]],
    seed: int,
) -> Reduction:
    points = [
        one - two for one, two in zip(values("uncontrolled", metric), values("fdcc", metric), strict=True)
    ]
    seen = f"{metric}_measured"
    return Reduction(
        points=spread(points, seed),
        relative=1.0 - getattr(under, metric) / getattr(without, metric),
        measured_points=getattr(without, seen) - getattr(under, seen),
        measured_relative=1.0 - getattr(under, seen) / getattr(without, seen),
        published=PUBLISHED_REDUCED[metric],
    )


def _control(found: Sequence[Trial]) -> Control:
    relieved = [one.relief_s for one in found if one.relief_s is not None]
    cleared = [one.clear_s for one in found if one.clear_s is not None]
    return Control(
        overloaded=float(np.mean([one.overloaded for one in found])),
        relief_s=float(np.mean(relieved)) if relieved else 0.0,
        never_relieved=len(found) - len(relieved),
        clear_s=float(np.mean(cleared)) if cleared else 0.0,
        never_clear=len(found) - len(cleared),
        limited=float(np.mean([one.limited / one.publishers for one in found])),
        changes=float(np.mean([one.changes for one in found])),
        feedback_capacity=float(np.mean([one.feedback_capacity for one in found])),
    )
