"""Colours: one number for each failure state that routes are prepared for (PCRT §III-B, table III).

All brokers share this dictionary. Colour 1 is the network without a failure; then comes one colour for
every link, one for every node, and on demand one for every pair of links. Numbers follow the *names* of
nodes and links, never the order of a file, so that brokers that read the same topology number it alike.

A failed node takes its links with it, so a state is compared by the links that are gone. From its
neighbours, a dead node and the loss of all of its links look the same, and get the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from mangrove.routing.network.graph import Graph, make_graph

LinkEnds = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PreparedFailures:
    """Which failures get a colour, besides the network without one."""

    links: bool = True
    nodes: bool = True
    link_pairs: bool = False

    def __str__(self) -> str:
        parts = [name for name in ("links", "nodes", "link_pairs") if getattr(self, name)]
        return "+".join(parts) or "none"


@dataclass(frozen=True, slots=True)
class Colour:
    """A failure state: its number, from 1, and what has failed in it."""

    number: int
    links: tuple[LinkEnds, ...] = ()
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        failed = [f"{a} – {b}" for a, b in self.links] + list(self.nodes)
        return ", ".join(failed) or "no failure"


@dataclass(frozen=True, slots=True)
class Resolution:
    """The colour of a state of the network: its own, or else the nearest covering one.

    Only an exact colour has tables to forward by. For other states gateways make shortest paths of what is
    left (decision 0004); the nearest colour then names the state to people.
    """

    colour: int
    exact: bool  # the state has a colour of its own


@dataclass(frozen=True)
class ColourBook:
    """The dictionary of colours and failures of one topology."""

    graph: Graph  # canonical: nodes and links in the order of their names
    colours: tuple[Colour, ...]

    @cached_property
    def lost_links(self) -> tuple[frozenset[int], ...]:
        """For each colour, the indices of the links that are gone in it."""
        graph = self.graph
        at_node: dict[str, frozenset[int]] = {
            name: frozenset(np.flatnonzero((graph.ends == node).any(axis=1)).tolist())
            for node, name in enumerate(graph.names)
        }
        return tuple(
            frozenset(graph.link_of(a, b) for a, b in colour.links).union(*(at_node[n] for n in colour.nodes))
            for colour in self.colours
        )

    @cached_property
    def _by_loss(self) -> dict[frozenset[int], int]:
        found: dict[frozenset[int], int] = {}
        for colour, lost in zip(self.colours, self.lost_links, strict=True):
            found.setdefault(lost, colour.number)
        return found

    def resolve(self, links: Iterable[LinkEnds] = (), nodes: Iterable[str] = ()) -> Resolution:
        """The colour when these links and nodes have failed, whether or not the state has one of its own.

        The nearest colour leaves the fewest failed links uncovered, then gives up the fewest healthy ones,
        then has the smallest number; colours that cover nothing of the state are none.
        """
        graph = self.graph
        dead = [graph.index(name) for name in nodes]
        lost = frozenset(graph.link_of(a, b) for a, b in links).union(
            np.flatnonzero(np.isin(graph.ends, dead).any(axis=1)).tolist()
        )
        own = self._by_loss.get(lost)
        if own is not None:
            return Resolution(own, exact=True)
        ranked = (
            (len(lost - gone), len(gone - lost), colour.number)
            for colour, gone in zip(self.colours, self.lost_links, strict=True)
            if gone & lost
        )
        return Resolution(min(ranked, default=(0, 0, 1))[2], exact=False)


def make_colours(graph: Graph, prepared: PreparedFailures) -> ColourBook:
    """All colours of a topology, in canonical order."""
    graph = canonical(graph)
    links: list[LinkEnds] = [(graph.names[u], graph.names[v]) for u, v in graph.ends]
    states: list[tuple[tuple[LinkEnds, ...], tuple[str, ...]]] = [((), ())]
    if prepared.links:
        states += [((link,), ()) for link in links]
    if prepared.nodes:
        states += [((), (name,)) for name in graph.names]
    if prepared.link_pairs:
        states += [(pair, ()) for pair in combinations(links, 2)]
    return ColourBook(graph, tuple(Colour(number, *state) for number, state in enumerate(states, start=1)))


def canonical(graph: Graph) -> Graph:
    """The same graph with nodes and links in the order of their names."""
    order = sorted(range(graph.size), key=lambda node: graph.names[node])
    rank = np.empty(graph.size, dtype=np.int64)
    rank[order] = np.arange(graph.size)
    ends = rank[graph.ends]
    by_name = np.lexsort((ends.max(axis=1), ends.min(axis=1)))
    return make_graph(
        [graph.names[node] for node in order],
        graph.points[order],
        ends[by_name],
        plane=graph.plane,
        weights=graph.weights[by_name],
        node_failure=graph.node_failure[order],
        edge_failure=graph.edge_failure[by_name],
        via=[graph.via[link] for link in by_name],
    )
