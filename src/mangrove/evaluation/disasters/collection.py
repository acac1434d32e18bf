"""The experiment on separated paths over a whole collection of real backbones.

Radii and separation are in the published proportion to the width of each network, so that networks of a city
and of a continent can be told in one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from mangrove.errors import InputError
from mangrove.evaluation.confidence import Estimate, estimate_known
from mangrove.evaluation.separation.backbones import backbone, backbone_names
from mangrove.evaluation.separation.gap import (
    METHODS,
    PUBLISHED_RADII,
    SIDE,
    GapSummary,
    backbone_setup,
    run_gap,
)
from mangrove.routing.network.geography import Plane
from mangrove.routing.network.graph import Graph
from mangrove.routing.paths.planner import default_separation

GROUPS = ("backbone", "caida", "sndlib", "topozoo")
MIN_NODES = 5
RADIUS_SHARES = tuple(radius / SIDE for radius in PUBLISHED_RADII)
"""Radii as a share of the width."""


@dataclass(frozen=True, slots=True)
class PlacedBackbone:
    """A backbone whose places are known, and its size."""

    name: str
    nodes: int
    links: int
    width_km: float


@dataclass(frozen=True)
class CollectionSummary:
    """All backbones of one group, or all together: means over the backbones."""

    group: str
    backbones: int
    improvement: dict[str, tuple[Estimate, ...]]  # by method and radius
    ahead: int
    """Backbones where GAP avoids more failures than the better EKSP, all radii together."""
    equal: int
    behind: int


@dataclass(frozen=True)
class CollectionResult:
    """What the collection says, and each backbone of it."""

    seeds: tuple[int, ...]
    pairs: int
    regions: int
    min_nodes: int
    max_nodes: int
    backbones: tuple[PlacedBackbone, ...]
    groups: tuple[CollectionSummary, ...]
    each: dict[str, GapSummary]

    def missed(self) -> list[str]:
        """In words, groups where separated paths are behind on the mean."""
        lines = []
        for group in self.groups:
            for position, share in enumerate(RADIUS_SHARES):
                ours = group.improvement["gap_div"][position].mean
                theirs = max(group.improvement[ksp][position].mean for ksp in ("ksp3", "ksp5"))
                if ours < theirs:
                    lines.append(f"{group.group}, radius {share:.0%}: {ours:.3f} against {theirs:.3f}")
        return lines


def placed_backbones(
    groups: Iterable[str] = GROUPS, min_nodes: int = MIN_NODES, max_nodes: int = 200
) -> dict[str, Graph]:
    """The connected backbones of some groups that stand on the globe and keep within the sizes, by name."""
    found: dict[str, Graph] = {}
    for group in groups:
        names = backbone_names(group)
        if not names:
            raise InputError(f"there is no group {group!r}", hint=f"choose of: {', '.join(GROUPS)}")
        for name in names:
            graph = backbone(f"{group}/{name}")
            if graph.plane is Plane.GEO and min_nodes <= graph.size <= max_nodes and _usable(graph):
                found[f"{group}/{name}"] = graph
    if not found:
        raise InputError("no backbone of these groups has its places known and keeps within these sizes")
    return found


def listed(backbones: dict[str, Graph]) -> tuple[PlacedBackbone, ...]:
    """Names and sizes."""
    return tuple(
        PlacedBackbone(name, graph.size, graph.links, round(5 * default_separation(graph), 1))
        for name, graph in backbones.items()
    )


def run_collection(
    backbones: dict[str, Graph],
    seeds: Sequence[int],
    *,
    pairs: int = 200,
    regions: int = 100,
    on_pair: Callable[[float, int], None] | None = None,
) -> CollectionResult:
    """The experiment on each backbone. `on_pair(done, of)` hears of the progress, in backbones."""
    each: dict[str, GapSummary] = {}
    for number, (name, graph) in enumerate(backbones.items()):

        def told(done: int, of: int, number: int = number) -> None:
            if on_pair is not None:
                on_pair(number + done / of, len(backbones))

        each[name] = run_gap(backbone_setup(graph, pairs, regions), seeds, graph, name, told)
    groups = sorted({name.partition("/")[0] for name in backbones})
    summaries = [
        _summary(group, [s for name, s in each.items() if name.startswith(f"{group}/")]) for group in groups
    ]
    if len(groups) > 1:
        summaries.append(_summary("all", list(each.values())))
    sizes = [graph.size for graph in backbones.values()]
    return CollectionResult(
        tuple(seeds), pairs, regions, min(sizes), max(sizes), listed(backbones), tuple(summaries), each
    )


def _summary(group: str, each: Sequence[GapSummary]) -> CollectionSummary:
    def avoided(summary: GapSummary, method: str) -> float:
        alone = sum(failures.mean for failures in summary.failures["primary"])
        return alone - sum(failures.mean for failures in summary.failures[method])

    margins = [avoided(s, "gap_div") - max(avoided(s, "ksp3"), avoided(s, "ksp5")) for s in each]
    signs = np.sign(np.round(margins, 9))
    return CollectionSummary(
        group,
        len(each),
        {
            method: tuple(
                estimate_known([summary.improvement[method][position].mean for summary in each])
                for position in range(len(RADIUS_SHARES))
            )
            for method in METHODS
        },
        int((signs > 0).sum()),
        int((signs == 0).sum()),
        int((signs < 0).sum()),
    )


def _usable(graph: Graph) -> bool:
    """Connected, and not all in one place."""
    ends = graph.ends
    matrix = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(graph.size, graph.size))
    parts, _ = connected_components(matrix, directed=False)
    return bool(parts == 1 and np.ptp(graph.points, axis=0).max() > 0)
