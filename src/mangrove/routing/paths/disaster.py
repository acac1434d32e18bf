"""Which pairs a disaster leaves without a path, with and without separated alternatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import msgspec
import numpy as np

from mangrove.routing.network.graph import Graph, NodePath
from mangrove.routing.network.regions import Damage, Region, damage
from mangrove.routing.paths.planner import PathRequest, plan_paths
from mangrove.routing.paths.shortest import shortest_paths


class Fate(Enum):
    """What becomes of a pair whose primary path fails."""

    SAVED = "saved"  # an alternative survives
    LOST = "lost"  # all paths fail, although a way exists around the region
    CUT_OFF = "cut off"  # no way exists around the region
    STRUCK = "struck"  # one of the two is itself inside the region
    UNCONNECTED = "unconnected"  # there was no path before the disaster either


class PairFate(msgspec.Struct, frozen=True):
    """A pair that the disaster touches, with its paths."""

    pair: tuple[int, int]
    fate: Fate
    paths: tuple[NodePath, ...]


class DisasterReport(msgspec.Struct, frozen=True):
    """The effect of one region on many pairs. Pairs that keep their primary path are counted, not listed."""

    region: Region
    damage: Damage
    pairs: int
    fates: tuple[PairFate, ...]

    def having(self, *fates: Fate) -> list[PairFate]:
        """The touched pairs with one of these fates."""
        return [entry for entry in self.fates if entry.fate in fates]

    @property
    def lost_before(self) -> int:
        """Pairs without a path left when each has only its primary."""
        return len(self.fates)

    @property
    def lost_after(self) -> int:
        """Pairs without a path left when each also has its alternatives."""
        return sum(entry.fate is not Fate.SAVED for entry in self.fates)


def all_pairs(graph: Graph) -> list[tuple[int, int]]:
    """Every pair of nodes once."""
    return [(u, v) for u in range(graph.size) for v in range(u + 1, graph.size)]


def assess(
    graph: Graph,
    region: Region,
    pairs: Sequence[tuple[int, int]],
    request: PathRequest,
    *,
    cut_links: bool = False,
    on_pair: Callable[[int, int], None] | None = None,
) -> DisasterReport:
    """Which pairs lose all their paths in the region. Alternatives are planned without knowing the region.

    They are needed only for pairs whose primary fails and whose ends stand, so only those are planned.
    """
    hit = damage(graph, region, cut_links=cut_links)
    part = _parts(graph, hit)
    primaries = shortest_paths(graph, pairs)
    fates: list[PairFate] = []
    for number, (pair, primary) in enumerate(zip(pairs, primaries, strict=True), start=1):
        if not primary:
            fates.append(PairFate(pair, Fate.UNCONNECTED, ()))
        elif hit.nodes[list(pair)].any():
            fates.append(PairFate(pair, Fate.STRUCK, (primary,)))
        elif hit.breaks(graph, primary):
            paths = plan_paths(graph, *pair, request, primary).paths
            survives = any(not hit.breaks(graph, path) for path in paths[1:])
            around = Fate.LOST if part[pair[0]] == part[pair[1]] else Fate.CUT_OFF
            fates.append(PairFate(pair, Fate.SAVED if survives else around, paths))
        if on_pair is not None:
            on_pair(number, len(pairs))
    return DisasterReport(region, hit, len(pairs), tuple(fates))


def _parts(graph: Graph, hit: Damage) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Which connected part of what remains each node is in."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    ends = graph.ends[np.isfinite(hit.surviving_weights(graph))]
    remains = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(graph.size, graph.size))
    _, labels = connected_components(remains, directed=False)
    return labels
