"""What the prepared tables cost by size of network: memory, time to build, time of a look-up (PCRT figure 6).

The paper times a million reads of two-dimensional arrays of several sizes, to show that a look-up does not
grow with the network. Here the production look-up is timed on the tables of random networks, beside the same
reads done by numpy in one call, where the interpreter does not count, and beside what the tables save:
computing the shortest paths anew. All times are processor times, so that a busy machine does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mangrove.errors import InputError
from mangrove.evaluation.confidence import Estimate, estimate
from mangrove.routing.failover.condensed import BrokerTable
from mangrove.routing.failover.gateway_tables import GatewayTables, PreparedNetwork
from mangrove.routing.failover.tables import build_tables
from mangrove.routing.network.generators import random_network
from mangrove.routing.network.graph import Graph
from mangrove.routing.paths.shortest import trees

SIZES = (6, 12, 25, 50, 100, 200)
LINKS_A_NODE = 2
LOOKUPS = 1_000_000
RECOMPUTATIONS = 50
PUBLISHED_LOOKUP_S = 3.9e-12


@dataclass(frozen=True, slots=True)
class LookupCosts:
    """One size of network, means over the seeds. Bytes and entries are those of one broker."""

    nodes: int
    links: int
    colours: int
    lookup_ns: Estimate
    vectorised_ns: Estimate
    """A read in an array of many, without the interpreter."""
    recompute_us: Estimate
    """Shortest paths of one broker computed anew."""
    build_s: Estimate
    """The tables of all brokers, as the paper's super broker makes them."""
    own_build_s: Estimate
    """What a gateway makes for itself."""
    condensed_bytes: Estimate
    uncondensed_bytes: Estimate
    entries: Estimate
    entries_bound: Estimate


@dataclass(frozen=True)
class LookupResult:
    """All sizes."""

    seeds: tuple[int, ...]
    lookups: int
    sizes: tuple[LookupCosts, ...]

    def missed(self) -> list[str]:
        """In words, where the paper's claims do not hold: constant time, and no more entries than (1)."""
        first, last = self.sizes[0], self.sizes[-1]
        lines = [
            f"{size.nodes} nodes: {size.entries.mean:.0f} entries, the bound is {size.entries_bound.mean:.0f}"
            for size in self.sizes
            if size.entries.mean > size.entries_bound.mean
        ]
        if last.lookup_ns.mean > 3 * first.lookup_ns.mean:
            lines.append(
                f"a look-up takes {last.lookup_ns.mean:.0f} ns with {last.nodes} nodes and "
                f"{first.lookup_ns.mean:.0f} ns with {first.nodes}"
            )
        return lines


@dataclass(frozen=True, slots=True)
class _Sample:
    lookup_ns: float
    vectorised_ns: float
    recompute_us: float
    build_s: float
    own_build_s: float
    condensed_bytes: float
    uncondensed_bytes: float
    entries: float
    entries_bound: float
    links: int
    colours: int


def run_lookup(
    seeds: Sequence[int],
    sizes: Sequence[int] = SIZES,
    lookups: int = LOOKUPS,
    on_network: Callable[[int, int], None] | None = None,
) -> LookupResult:
    """One random network for each size and seed."""
    if not seeds or not sizes:
        raise InputError("the experiment needs at least one seed and one size")
    if min(sizes) < 5:
        raise InputError(f"networks must have at least 5 nodes, not {min(sizes)}")
    costs, done = [], 0
    for size in sizes:
        samples = []
        for seed in seeds:
            samples.append(_measure(size, seed, lookups))
            done += 1
            if on_network is not None:
                on_network(done, len(sizes) * len(seeds))
        costs.append(_summary(size, samples))
    return LookupResult(tuple(seeds), lookups, tuple(costs))


def _measure(size: int, seed: int, lookups: int) -> _Sample:
    graph = random_network(size, LINKS_A_NODE * size, seed=seed)
    start = time.thread_time()
    tables = build_tables(graph)
    build_s = time.thread_time() - start
    report = tables.size()
    start = time.thread_time()
    table = GatewayTables(PreparedNetwork(tables.book), tables.names[0]).table
    own_build_s = time.thread_time() - start
    rng = np.random.default_rng([seed, size])
    destinations = rng.integers(0, size, lookups)
    colours = rng.integers(1, len(tables.colours) + 1, lookups)
    return _Sample(
        lookup_ns=time_lookups(table, destinations.tolist(), colours.tolist()),
        vectorised_ns=_time_reads(table, destinations, colours),
        recompute_us=_time_recomputation(graph, rng),
        build_s=build_s,
        own_build_s=own_build_s,
        condensed_bytes=report.condensed_bytes / size,
        uncondensed_bytes=report.uncondensed_bytes / size,
        entries=report.entries / size,
        entries_bound=report.entries_bound / size,
        links=graph.links,
        colours=len(tables.colours),
    )


def time_lookups(table: BrokerTable, destinations: list[int], colours: list[int]) -> float:
    """Nanoseconds of one look-up as the forwarder makes it, without those of the loop around it."""
    spent = min(_full_loop(table, destinations, colours) for _ in range(3))
    idle = min(_empty_loop(destinations, colours) for _ in range(3))
    return max(spent - idle, 0) / len(destinations)


def _full_loop(table: BrokerTable, destinations: list[int], colours: list[int]) -> int:
    next_hop = table.next_hop
    start = time.thread_time_ns()
    for destination, colour in zip(destinations, colours, strict=True):
        next_hop(destination, colour)
    return time.thread_time_ns() - start


def _empty_loop(destinations: list[int], colours: list[int]) -> int:
    start = time.thread_time_ns()
    for _destination, _colour in zip(destinations, colours, strict=True):
        pass
    return time.thread_time_ns() - start


def _time_reads(
    table: BrokerTable,
    destinations: np.ndarray[tuple[int], np.dtype[np.int64]],
    colours: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> float:
    hops = np.concatenate(([-1], table.next_hops)).astype(np.int16)
    cells = table.addresses
    best = float("inf")
    for _ in range(5):
        start = time.thread_time_ns()
        hops[cells[destinations, colours - 1]]
        best = min(best, time.thread_time_ns() - start)
    return best / len(destinations)


def _time_recomputation(graph: Graph, rng: np.random.Generator) -> float:
    """Microseconds of one search for shortest paths from one broker, without a link at random."""
    spent = []
    for link in rng.choice(graph.links, RECOMPUTATIONS):
        weights = graph.weights.copy()
        weights[link] = np.inf
        start = time.thread_time_ns()
        trees(graph, np.array([0]), weights)
        spent.append((time.thread_time_ns() - start) / 1000)
    return float(np.median(spent))


def _summary(size: int, samples: Sequence[_Sample]) -> LookupCosts:
    def over(name: str) -> Estimate:
        return estimate([getattr(sample, name) for sample in samples])

    return LookupCosts(
        size,
        samples[0].links,
        samples[0].colours,
        over("lookup_ns"),
        over("vectorised_ns"),
        over("recompute_us"),
        over("build_s"),
        over("own_build_s"),
        over("condensed_bytes"),
        over("uncondensed_bytes"),
        over("entries"),
        over("entries_bound"),
    )
