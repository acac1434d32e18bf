"""Path lengths after a failure: pre-calculated tables, recomputed shortest paths, resilient routing layers.

The experiment of PCRT's figure 7: on a network of 32 nodes and 64 links every link fails in turn, and the
lengths of the paths between all pairs that are still connected are counted in hops. Here every node fails
in turn too, and the pairs whose path the failure hit are also counted by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mangrove.errors import InputError
from mangrove.evaluation.baselines.layers import RoutingLayers, build_layers
from mangrove.evaluation.confidence import Estimate, estimate
from mangrove.routing.failover.colours import canonical
from mangrove.routing.failover.tables import FailoverTables, build_tables
from mangrove.routing.failover.ticks import NONE
from mangrove.routing.network.generators import random_network
from mangrove.routing.network.graph import Graph, make_graph
from mangrove.routing.paths.shortest import trees

SCHEMES = ("pcrt", "recomputed", "layers")


@dataclass
class Tally:
    """Path lengths of one scheme under one kind of failure."""

    hops: Counter[int] = field(default_factory=Counter)  # all connected pairs
    hops_hit: Counter[int] = field(default_factory=Counter)  # pairs whose normal path the failure hit
    stretch_sum: float = 0.0  # over the pairs hit, against the shortest path that is left
    stretch_max: float = 0.0
    undelivered: int = 0

    def count(self, hops: int, shortest: int, hit: bool) -> None:
        """One pair; `hops` of 0 is a pair that the scheme leaves without a path."""
        if hops == 0:
            self.undelivered += 1
            return
        self.hops[hops] += 1
        if hit:
            self.hops_hit[hops] += 1
            self.stretch_sum += hops / shortest
            self.stretch_max = max(self.stretch_max, hops / shortest)


@dataclass(frozen=True)
class TablesSummary:
    """All networks together, for one kind of failure ("link" or "node")."""

    failure: str
    share_by_hops: Mapping[str, Mapping[int, float]]  # scheme → hops → share of all paths
    mean_hops: Mapping[str, Estimate]
    mean_hops_hit: Mapping[str, Estimate]
    stretch: Mapping[str, Estimate]  # mean stretch of the pairs hit
    worst_stretch: Mapping[str, float]
    undelivered: Mapping[str, int]


@dataclass(frozen=True)
class TablesResult:
    """The experiment: networks of one size, link failures and node failures."""

    nodes: int
    links: int
    seeds: tuple[int, ...]
    layers: Estimate  # layers that the baseline needs
    summaries: tuple[TablesSummary, ...]

    def missed(self) -> list[str]:
        """Where the tables do not deliver, or not along a shortest path; empty when they always do."""
        lines = []
        for summary in self.summaries:
            if summary.worst_stretch["pcrt"] > 1:
                lines.append(
                    f"{summary.failure} failures: stretch {summary.worst_stretch['pcrt']:.3f} with the tables"
                )
            if summary.undelivered["pcrt"]:
                lines.append(
                    f"{summary.failure} failures: {summary.undelivered['pcrt']} pairs without a path"
                )
        return lines


def run_tables(
    nodes: int = 32,
    links: int = 64,
    seeds: Sequence[int] = tuple(range(1, 11)),
    on_network: Callable[[int, int], None] | None = None,
) -> TablesResult:
    """The comparison on one random network per seed, all links of weight one."""
    if not seeds:
        raise InputError("the experiment needs at least one seed")
    tallies: dict[str, list[dict[str, Tally]]] = {"link": [], "node": []}
    layers: list[int] = []
    for done, seed in enumerate(seeds, start=1):
        graph = _unweighted(random_network(nodes, links, seed=seed))
        tables, layered = build_tables(graph), build_layers(graph)
        layers.append(len(layered.layers))
        for failure, collected in tallies.items():
            collected.append(_fail_each(graph, tables, layered, failure))
        if on_network is not None:
            on_network(done, len(seeds))
    return TablesResult(
        nodes,
        links,
        tuple(seeds),
        estimate(layers),
        tuple(_summarise(failure, collected) for failure, collected in tallies.items()),
    )


def _unweighted(graph: Graph) -> Graph:
    """Canonical, so that its indices are those of the tables; every hop counts one."""
    ordered = canonical(graph)
    return make_graph(ordered.names, ordered.points, ordered.ends, weights=np.ones(ordered.links))


def _fail_each(
    graph: Graph, tables: FailoverTables, layered: RoutingLayers, failure: str
) -> dict[str, Tally]:
    tallies = {scheme: Tally() for scheme in SCHEMES}
    count = graph.links if failure == "link" else graph.size
    first_colour = 2 if failure == "link" else 2 + graph.links
    for element in range(count):
        lost = (
            [element] if failure == "link" else np.flatnonzero((graph.ends == element).any(axis=1)).tolist()
        )
        weights = graph.weights.copy()
        weights[lost] = np.inf
        shortest = trees(graph, np.arange(graph.size), weights)[0]
        by_table = _table_hops(tables.next_hops[first_colour + element - 1])
        for source in range(graph.size):
            for destination in range(graph.size):
                if source == destination or not np.isfinite(shortest[source, destination]):
                    continue
                least = int(shortest[source, destination])
                normal = layered.path(source, destination)
                if failure == "link":
                    hit = element in graph.path_links(normal)
                    around = layered.path_after_link(source, destination, element) if hit else normal
                else:
                    hit = element in normal
                    around = layered.path_after_node(source, destination, element) if hit else normal
                tallies["recomputed"].count(least, least, hit)
                tallies["pcrt"].count(int(by_table[destination, source]), least, hit)
                tallies["layers"].count(max(len(around) - 1, 0), least, hit)
    return tallies


def _table_hops(
    next_hops: np.ndarray[tuple[int, ...], np.dtype[np.int16]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Hops of the forwarded way [destination, source], by following the table; 0 where it does not arrive."""
    size = len(next_hops)
    destination, here = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    hops = np.zeros((size, size), dtype=np.int64)
    for _ in range(size):
        moving = here != destination
        step = next_hops[destination, here].astype(np.int64)
        moving &= step != NONE
        hops += moving
        here = np.where(moving, step, here)
    hops[here != destination] = 0
    return hops


def _summarise(failure: str, networks: list[dict[str, Tally]]) -> TablesSummary:
    def mean(counts: Counter[int]) -> float:
        return sum(hops * times for hops, times in counts.items()) / max(counts.total(), 1)

    together = {scheme: sum((tally[scheme].hops for tally in networks), Counter[int]()) for scheme in SCHEMES}
    return TablesSummary(
        failure=failure,
        share_by_hops={
            scheme: {hops: counts[hops] / counts.total() for hops in sorted(counts)}
            for scheme, counts in together.items()
        },
        mean_hops={s: estimate([mean(tally[s].hops) for tally in networks]) for s in SCHEMES},
        mean_hops_hit={s: estimate([mean(tally[s].hops_hit) for tally in networks]) for s in SCHEMES},
        stretch={
            s: estimate([tally[s].stretch_sum / max(tally[s].hops_hit.total(), 1) for tally in networks])
            for s in SCHEMES
        },
        worst_stretch={s: max(tally[s].stretch_max for tally in networks) for s in SCHEMES},
        undelivered={s: sum(tally[s].undelivered for tally in networks) for s in SCHEMES},
    )
