"""Colours: one number for each failure state that routes are prepared for (PCRT III-B, table III).

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

from mangrove.routing.graph import Graph, make_graph

Link = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Scope:
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
    links: tuple[Link, ...] = ()
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        failed = [f"{a} – {b}" for a, b in self.links] + list(self.nodes)
        return ", ".join(failed) or "no failure"


@dataclass(frozen=True, slots=True)
class Resolution:
    """Which colours to forward by in a given state, the nearest covering one first.

    A broker looks a destination up under the first of `colours` in which it has an entry for it. Why this
    cannot loop, if all brokers use the same resolution: under one colour every hop comes strictly nearer to
    the destination, and a broker with an entry under a colour sends only to brokers that have one too. So
    along the way the position in `colours` never rises, and while it stays the distance falls.
    """

    colours: tuple[int, ...]
    exact: bool  # the state has a colour of its own
    uncovered: tuple[
        Link, ...
    ]  # failed links that the first colour knows nothing of; traffic meeting one stops

    @property
    def colour(self) -> int:
        """The nearest covering colour."""
        return self.colours[0]


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

    def resolve(self, links: Iterable[Link] = (), nodes: Iterable[str] = ()) -> Resolution:
        """How to forward when these links and nodes have failed, whether or not the state has a colour.

        Colours are ranked by failed links left uncovered, then by healthy links given up, then by number:
        first the colour of the state itself, else the nearest that covers it, else the one that covers most
        of it.
        """
        graph = self.graph
        dead = [graph.index(name) for name in nodes]
        lost = frozenset(graph.link_of(a, b) for a, b in links).union(
            np.flatnonzero(np.isin(graph.ends, dead).any(axis=1)).tolist()
        )
        own = self._by_loss.get(lost)
        if own is not None:
            return Resolution((own,), exact=True, uncovered=())
        ranked = sorted(
            (len(lost - gone), len(gone - lost), colour.number)
            for colour, gone in zip(self.colours, self.lost_links, strict=True)
            if gone & lost
        )
        order = (*(number for _, _, number in ranked), 1)
        uncovered = sorted(lost - self.lost_links[order[0] - 1])
        return Resolution(order, exact=False, uncovered=tuple(self._link(link) for link in uncovered))

    def _link(self, link: int) -> Link:
        u, v = self.graph.ends[link]
        return self.graph.names[u], self.graph.names[v]


def make_colours(graph: Graph, scope: Scope) -> ColourBook:
    """All colours of a topology, in canonical order."""
    graph = canonical(graph)
    links: list[Link] = [(graph.names[u], graph.names[v]) for u, v in graph.ends]
    states: list[tuple[tuple[Link, ...], tuple[str, ...]]] = [((), ())]
    if scope.links:
        states += [((link,), ()) for link in links]
    if scope.nodes:
        states += [((), (name,)) for name in graph.names]
    if scope.link_pairs:
        states += [(pair, ()) for pair in combinations(links, 2)]
    return ColourBook(graph, tuple(Colour(number, *state) for number, state in enumerate(states, start=1)))


def canonical(graph: Graph) -> Graph:
    """The same graph with nodes and links in the order of their names."""
    order = sorted(range(graph.size), key=lambda node: graph.names[node])
    rank = np.empty(graph.size, dtype=np.int64)
    rank[order] = np.arange(graph.size)
    ends = np.sort(rank[graph.ends], axis=1)
    by_name = np.lexsort((ends[:, 1], ends[:, 0]))
    return make_graph(
        [graph.names[node] for node in order],
        graph.points[order],
        ends[by_name],
        plane=graph.plane,
        weights=graph.weights[by_name],
        node_failure=graph.node_failure[order],
        edge_failure=graph.edge_failure[by_name],
    )
