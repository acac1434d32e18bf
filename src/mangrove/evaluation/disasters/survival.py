"""Which pairs of a backbone a recorded disaster leaves a path: one path, two disjoint ones, two kept apart.

Disjoint paths are chosen by topology alone, as most networks have them.

The paths are planned without knowing the disaster. Pairs with an end inside the region are left out: no path
can help them. What is left after the disaster at all is counted too, as the bound of every method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mangrove.evaluation.disasters.recorded import RecordedDisaster
from mangrove.routing.network.graph import Graph
from mangrove.routing.paths.disaster import Fate, all_pairs, assess
from mangrove.routing.paths.planner import Method, PathRequest

WAYS = ("one_path", "disjoint", "gap")
LABELS = {"one_path": "one path", "disjoint": "disjoint", "gap": "GAP"}
BLIND_KM = 1e-6
"""A separation at which only shared nodes are near: disjointness by topology alone."""


@dataclass(frozen=True, slots=True)
class Survival:
    """One disaster on one backbone."""

    disaster: str
    backbone: str
    nodes_struck: int
    pairs: int
    """Pairs with both ends outside the region and a path before."""
    surviving: Mapping[str, int]
    """Of those, by `WAYS`, the pairs that keep a path."""
    possible: int
    """Of those, the pairs that some way still connects."""


@dataclass(frozen=True, slots=True)
class DisasterSummary:
    """One disaster on all backbones that it touched, pairs added up."""

    disaster: RecordedDisaster
    backbones: int
    pairs: int
    hit: int
    """Pairs whose only path fails."""
    surviving: Mapping[str, float]
    """Share of `pairs`."""
    saved: Mapping[str, float]
    """Share of `hit` that a second path saves; of "possible", the share that any could."""


@dataclass(frozen=True, slots=True)
class SurvivalResult:
    """All disasters on all backbones."""

    backbones: tuple[str, ...]
    max_pairs: int
    seed: int
    cut_links: bool
    separation_km: float | None
    each: tuple[Survival, ...]
    summaries: tuple[DisasterSummary, ...]
    untouched: tuple[str, ...]
    """Disasters that no backbone of the collection feels."""

    def missed(self) -> list[str]:
        """In words, where separated paths keep fewer pairs than disjoint ones over all disasters."""
        kept = {way: sum(one.surviving[way] for one in self.each) for way in WAYS}
        if kept["gap"] < kept["disjoint"]:
            return [f"separated paths keep {kept['gap']} pairs, disjoint ones {kept['disjoint']}"]
        return []


def run_survival(
    disasters: Sequence[RecordedDisaster],
    backbones: Mapping[str, Graph],
    *,
    max_pairs: int = 2000,
    seed: int = 1,
    cut_links: bool = False,
    separation_km: float | None = None,
    on_backbone: Callable[[int, int], None] | None = None,
) -> SurvivalResult:
    """Every disaster on every backbone that has a node, or with `cut_links` a link, inside its region."""
    each: list[Survival] = []
    for done, (name, graph) in enumerate(backbones.items(), start=1):
        pairs = _pairs(graph, max_pairs, seed)
        for disaster in disasters:
            found = survive(graph, name, disaster, pairs, cut_links, separation_km)
            if found is not None:
                each.append(found)
        if on_backbone is not None:
            on_backbone(done, len(backbones))
    summaries = [_summary(d, [one for one in each if one.disaster == d.title]) for d in disasters]
    return SurvivalResult(
        tuple(backbones),
        max_pairs,
        seed,
        cut_links,
        separation_km,
        tuple(each),
        tuple(summary for summary in summaries if summary.backbones),
        tuple(summary.disaster.title for summary in summaries if not summary.backbones),
    )


def survive(
    graph: Graph,
    backbone: str,
    disaster: RecordedDisaster,
    pairs: Sequence[tuple[int, int]],
    cut_links: bool = False,
    separation_km: float | None = None,
) -> Survival | None:
    """One disaster on one backbone; None where no pair with standing ends feels it."""
    requests = {
        "disjoint": PathRequest(Method.DISJOINT, separation=BLIND_KM),
        "gap": PathRequest(Method.GAP_DIV, separation=separation_km),
    }
    reports = {
        way: assess(graph, disaster.region, pairs, request, cut_links=cut_links)
        for way, request in requests.items()
    }
    report = reports["gap"]
    standing = len(pairs) - len(report.having(Fate.STRUCK, Fate.UNCONNECTED))
    hit = len(report.having(Fate.SAVED, Fate.LOST, Fate.CUT_OFF))
    if not hit:
        return None
    saved = {way: len(each.having(Fate.SAVED)) for way, each in reports.items()}
    return Survival(
        disaster.title,
        backbone,
        int(np.count_nonzero(report.damage.nodes)),
        standing,
        {"one_path": standing - hit, **{way: standing - hit + count for way, count in saved.items()}},
        standing - len(report.having(Fate.CUT_OFF)),
    )


def _pairs(graph: Graph, max_pairs: int, seed: int) -> list[tuple[int, int]]:
    """All pairs, or of a large backbone a sample."""
    pairs = all_pairs(graph)
    if len(pairs) <= max_pairs:
        return pairs
    chosen = np.random.default_rng([seed, graph.size]).choice(len(pairs), max_pairs, replace=False)
    return [pairs[index] for index in sorted(chosen)]


def _summary(disaster: RecordedDisaster, each: Sequence[Survival]) -> DisasterSummary:
    pairs = sum(one.pairs for one in each)
    kept = {way: sum(one.surviving[way] for one in each) for way in WAYS}
    kept["possible"] = sum(one.possible for one in each)
    hit = pairs - kept["one_path"]
    return DisasterSummary(
        disaster,
        len(each),
        pairs,
        hit,
        {way: count / max(pairs, 1) for way, count in kept.items()},
        {way: (count - kept["one_path"]) / max(hit, 1) for way, count in kept.items() if way != "one_path"},
    )
