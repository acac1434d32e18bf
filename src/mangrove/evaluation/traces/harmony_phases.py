"""The phases of Harmony's section 5: what happens in each, and what the paper says the routes do.

The simulation and the demonstration with real brokers follow the same script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

Routes = Mapping[str, tuple[tuple[str, ...], ...]]
"""The paths that carry each topic."""

TIGHT, LOOSE = "alert.capital", "feed.orlando"
RECEIVERS = {TIGHT: "washington", LOOSE: "orlando"}
SOURCE = "seattle"
SLOWED_DELAY_MS = 55.0


class Disturbance(Enum):
    """What a phase begins with."""

    NOTHING = "nothing"
    SLOWED = "a link is slowed"
    CUT = "the link is cut"
    SITE_DIED = "a site dies"


@dataclass(frozen=True)
class PhaseScript:
    """One phase: what happens at its beginning, what the paper says comes of it, and when that is so."""

    name: str
    disturbance: Disturbance
    paper: str
    expectation: str
    holds: Callable[[Routes, Routes], bool]
    """Told the routes now and the routes of the first phase."""


def two_each(routes: Routes, _: Routes | None = None) -> bool:
    """Whether every topic has two paths."""
    return all(len(paths) == 2 for paths in routes.values())


def uses(paths: Sequence[tuple[str, ...]], first: str, second: str) -> bool:
    """Whether some path goes over a link."""
    return any((first, second) in pairwise(path) for path in paths)


def _tight_leaves(routes: Routes, settled: Routes) -> bool:
    return not uses(routes[TIGHT], "seattle", "denver") and routes[LOOSE] == settled[LOOSE]


def _both_around(routes: Routes, _: Routes) -> bool:
    return two_each(routes) and not any(uses(paths, "seattle", "denver") for paths in routes.values())


def _without_denver(routes: Routes, _: Routes) -> bool:
    return all(paths and not any("denver" in path for path in paths) for paths in routes.values())


PHASES = (
    PhaseScript(
        "all is well",
        Disturbance.NOTHING,
        "two paths for each topic (figure 4a)",
        "two paths for each topic",
        two_each,
    ),
    PhaseScript(
        "Seattle – Denver is slowed",
        Disturbance.SLOWED,
        "the topic with the tighter deadline moves to Los Angeles, the other stays (4b)",
        "only the tight topic leaves the slow link",
        _tight_leaves,
    ),
    PhaseScript(
        "Seattle – Denver is cut, silently",
        Disturbance.CUT,
        "the other topic's second path is restored through Los Angeles (4c)",
        "both topics have two paths through Los Angeles",
        _both_around,
    ),
    PhaseScript(
        "the site of Denver dies",
        Disturbance.SITE_DIED,
        "the path goes from Los Angeles to Orlando and on to Washington (4d)",
        "no path leads through Denver",
        _without_denver,
    ),
)
