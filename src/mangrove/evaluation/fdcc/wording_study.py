"""Keyword against semantic utility: congestion control when publishers use other words than subscribers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mangrove.evaluation.drd.comparison import Pairing, Spread, pairing, spread
from mangrove.evaluation.fdcc.setting import Setting
from mangrove.evaluation.fdcc.trial import Trial
from mangrove.evaluation.fdcc.wording import Comparison, wording
from mangrove.model.congestion.word_vectors import WordVectors

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Of the words of messages, those that are not the subscribers'."""
MEANING = "meaning"
SIGNIFICANCE = 0.01
SEEDS_FOR_SIGNIFICANCE = 10
ARM = "fdcc"


def setting_name(comparison: Comparison, share: float) -> str:
    """What the trials of a setting are called; what subscribers know by meaning does not depend on words."""
    return MEANING if comparison is Comparison.MEANING else f"{comparison}, {share:.0%} other words"


def wording_settings(base: Setting, table: WordVectors) -> dict[str, Setting]:
    """Every comparison at every share of other words."""
    return {
        setting_name(comparison, share): replace(
            base, ranges=replace(base.ranges, wording=wording(comparison, share, table))
        )
        for share in SHARES
        for comparison in Comparison
    }


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison at one share of other words: what congestion control achieves with it."""

    comparison: Comparison
    other_words: float
    qoe: Spread
    utility_s: Spread
    """Worth of what is delivered in a second."""
    of_meaning: Spread
    """The same by that of subscribers who know the meaning, experiment by experiment."""
    of_random: Spread
    """The same by that of limiting the same volume at random."""
    good_in_time: float
    stopped: float
    unheard: float


@dataclass(frozen=True, slots=True)
class WordingResult:
    """All comparisons, and tests of semantic against keyword utility at each share."""

    seeds: tuple[int, ...]
    compared: tuple[Compared, ...]
    tests: dict[str, Pairing]
    """By share: worth delivered by keywords, and semantically; the first is expected to be less."""

    def missed(self) -> list[str]:
        """Where semantic utility does not do better."""
        if len(self.seeds) < SEEDS_FOR_SIGNIFICANCE:
            return []
        return [
            f"{share} other words: semantic utility delivers no more than keywords (p = {test.p:.2g})"
            for share, test in self.tests.items()
            if test.p >= SIGNIFICANCE
        ]


def summarise_wording(seeds: tuple[int, ...], found: Mapping[str, Sequence[Trial]]) -> WordingResult:
    """Means with intervals, and paired tests; `found` has the trials of each setting by seed."""

    def worth(trials: Sequence[Trial]) -> list[float]:
        return [one.arms[ARM].utility_s for one in trials]

    knowing = worth(found[MEANING])
    compared, tests = [], {}
    for share in SHARES:
        for comparison in Comparison:
            trials = found[setting_name(comparison, share)]
            own = worth(trials)
            at_random = [one.arms["random"].utility_s for one in trials]
            compared.append(
                Compared(
                    comparison,
                    share,
                    qoe=spread([one.arms[ARM].qoe for one in trials], seeds[0]),
                    utility_s=spread(own, seeds[0]),
                    of_meaning=spread(_ratios(own, knowing), seeds[0]),
                    of_random=spread(_ratios(own, at_random), seeds[0]),
                    good_in_time=float(np.mean([one.arms[ARM].good_in_time for one in trials])),
                    stopped=float(np.mean([one.arms[ARM].stopped for one in trials])),
                    unheard=float(np.mean([one.arms[ARM].unheard for one in trials])),
                )
            )
        by_words = worth(found[setting_name(Comparison.KEYWORDS, share)])
        tests[f"{share:.0%}"] = pairing(by_words, worth(found[setting_name(Comparison.SEMANTIC, share)]))
    return WordingResult(seeds, tuple(compared), tests)


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [one / other for one, other in zip(ours, theirs, strict=True)]
