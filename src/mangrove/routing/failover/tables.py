"""Failover tables: the next hop for every destination under every failure, before it happens (PCRT).

`build_tables` does what the paper's super broker does: shortest paths for every colour, then one condensed
table per broker. It serves planning and comparison; a gateway makes its own part alone (`gateway_tables`).
The result is the same whichever broker computes it:

- Weights become whole numbers of *ticks*, so that sums are exact and equal lengths are equal in every order
  of addition; a tick is finer than a billionth of the heaviest weight in any network of up to
  100,000 nodes.
- Of several next hops on shortest paths, the first by name is taken.
- Every link weighs at least one tick, so each hop comes strictly nearer to the destination and forwarding
  under one colour cannot loop.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from mangrove.errors import InputError
from mangrove.routing.failover.colours import Colour, ColourBook, PreparedFailures, make_colours
from mangrove.routing.failover.condensed import MAX_BROKERS, BrokerTable, SizeReport, condense, size_report
from mangrove.routing.failover.ticks import NONE, ticks
from mangrove.routing.network.graph import Graph

NextHops = NDArray[np.int16]
_MAX_BYTES = 4 << 30


class FailoverTables(msgspec.Struct, frozen=True, dict=True):
    """Next hops of all brokers under all colours of one topology."""

    book: ColourBook
    next_hops: NextHops  # [colour - 1, destination, broker]

    @property
    def names(self) -> tuple[str, ...]:
        """Brokers in the order of their indices (by name)."""
        return self.book.graph.names

    @property
    def colours(self) -> Sequence[Colour]:
        """The failure states with their numbers."""
        return self.book.colours

    @cached_property
    def version(self) -> str:
        """Hash of topology and what is prepared; brokers whose versions differ must not forward by colour."""
        text = f"{self.book.graph.topology_hash} {self.book.prepared}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def index(self, name: str) -> int:
        """Index of a broker."""
        return self.book.graph.index(name)

    def broker(self, name: str) -> BrokerTable:
        """The condensed table of one broker, which is all that it needs to forward."""
        index = self.index(name)
        return condense(self.names, index, self.next_hops[:, :, index])

    def path(self, source: str, destination: str, colour: int = 1) -> tuple[str, ...]:
        """The way that hop-by-hop forwarding takes under one colour; empty when there is none."""
        here, end = self.index(source), self.index(destination)
        way = [here]
        while here != end:
            here = int(self.next_hops[colour - 1, end, here])
            if here == NONE:
                return ()
            way.append(here)
        return self.book.graph.named(way)

    def size(self) -> SizeReport:
        """Entries and bytes of all brokers, against the bound and against storing every table."""
        degrees = [self.book.graph.degree(node) for node in range(len(self.names))]
        return size_report((self.broker(name) for name in self.names), degrees)


def build_tables(
    graph: Graph,
    prepared: PreparedFailures | None = None,
    on_colour: Callable[[int, int], None] | None = None,
) -> FailoverTables:
    """Tables for every colour of `prepared`. `on_colour(done, of)` hears of the progress."""
    prepared = prepared or PreparedFailures()
    if graph.size > MAX_BROKERS:
        raise InputError(f"failover tables are made for up to {MAX_BROKERS} brokers, not {graph.size}")
    book = make_colours(graph, prepared)
    _check_size(book)
    builder = _Builder(book)
    count = len(book.colours)
    next_hops = np.full((count, graph.size, graph.size), NONE, dtype=np.int16)
    next_hops[0] = builder.without(frozenset(), np.arange(graph.size))
    single: dict[int, int] = {}
    for position, lost in enumerate(book.lost_links[1:], start=1):
        # Start from the nearest table already made; only the trees that used what is now lost change.
        known = next((single[link] for link in sorted(lost) if len(lost) == 2 and link in single), 0)
        next_hops[position] = builder.repaired(next_hops[known], lost, book.colours[position])
        if len(lost) == 1 and not book.colours[position].nodes:
            single[next(iter(lost))] = position
        if on_colour is not None:
            on_colour(position + 1, count)
    return FailoverTables(book, next_hops)


class _Builder:
    """Shortest-path trees towards destinations with some links removed."""

    def __init__(self, book: ColourBook) -> None:
        from scipy.sparse import csr_array

        graph = book.graph
        self._graph = graph
        self._cost = ticks(graph.weights, graph.size)[graph.arcs.link]
        self._occupied = np.flatnonzero(np.diff(graph.arcs.starts) > 0)
        self._offsets = graph.arcs.starts[self._occupied]
        self._matrix = csr_array(
            (self._cost.copy(), graph.arcs.head, graph.arcs.starts), shape=(graph.size, graph.size)
        )

    def without(self, lost: frozenset[int], destinations: NDArray[np.int64]) -> NextHops:
        """Next hops [destination, broker] towards some destinations, without the lost links."""
        from scipy.sparse.csgraph import dijkstra

        arcs, size = self._graph.arcs, self._graph.size
        result = np.full((len(destinations), size), NONE, dtype=np.int16)
        if not len(self._offsets) or not len(destinations):
            return result
        cost = self._cost
        if lost:
            cost = np.where(np.isin(arcs.link, list(lost)), np.inf, self._cost)
        self._matrix.data[:] = cost
        # Links have no direction, so distances from a destination are distances towards it.
        distance = np.atleast_2d(dijkstra(self._matrix, directed=True, indices=destinations))
        shortest = distance[:, arcs.tail] == distance[:, arcs.head] + cost
        shortest &= np.isfinite(distance[:, arcs.tail])
        # Arcs are sorted by tail and then head: the least head is the first next hop by name.
        heads = np.where(shortest, arcs.head, size).astype(np.int32)
        first = np.minimum.reduceat(heads, self._offsets, axis=1)
        result[:, self._occupied] = np.where(first < size, first, NONE)
        return result

    def repaired(self, known: NextHops, lost: frozenset[int], colour: Colour) -> NextHops:
        """`known` with the trees rebuilt that use one of the lost links.

        A tree that uses none of them stays as it is: it is still shortest, and its choice among equals was
        the first by name in a larger set of choices.
        """
        table = known.copy()
        nodes = np.arange(self._graph.size)
        if lost:
            ends = self._graph.ends[sorted(lost)]
            uses = (known[:, ends[:, 0]] == ends[:, 1]) | (known[:, ends[:, 1]] == ends[:, 0])
            affected = nodes[uses.any(axis=1)]
            table[affected] = self.without(lost, affected)
        for name in colour.nodes:
            gone = self._graph.index(name)
            table[gone, :] = NONE
            table[:, gone] = NONE
        return table


def _check_size(book: ColourBook) -> None:
    count, brokers = len(book.colours), book.graph.size
    size_bytes = count * brokers**2 * 2
    if size_bytes > _MAX_BYTES:
        raise InputError(
            f"tables for {count} colours and {brokers} brokers would take {size_bytes / 2**30:.1f} GiB",
            hint="leave the pairs of links out, or plan for a smaller overlay",
        )
