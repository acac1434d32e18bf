"""Colours: one number for each failure state that routes are prepared for (PCRT §III-B, table III).

All brokers share this dictionary. Colour 1 is the network without a failure; then comes one colour for
every link, one for every node, one for every risk group, and on demand one for every pair of links and for
every other pair that a node has part in. Numbers follow the *names* of nodes, links and groups, never the
order of a file, so that brokers that read the same topology number it alike.

A failed node takes its links with it, so a state is compared by the links that are gone. From its
neighbours, a dead node and the loss of all of its links look the same, and get the same answer. Pairs are
many, so that nothing is kept for them: their numbers are calculated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from operator import eq
from typing import TypeVar, overload

import msgspec
import numpy as np

from mangrove.errors import InputError
from mangrove.routing.network.graph import Graph, make_graph

LinkEnds = tuple[str, str]
Loss = frozenset[int]
"""Links that are gone, by index."""
_Item = TypeVar("_Item")


class FailureGroup(msgspec.Struct, frozen=True):
    """Links and nodes that fail together."""

    name: str
    links: tuple[LinkEnds, ...] = ()
    nodes: tuple[str, ...] = ()


class PreparedFailures(msgspec.Struct, frozen=True):
    """Which failures get a colour, besides the network without one."""

    links: bool = True
    nodes: bool = True
    groups: tuple[FailureGroup, ...] = ()
    link_pairs: bool = False
    node_pairs: bool = False
    """Also a node with a link, and two nodes."""

    def __post_init__(self) -> None:
        if self.node_pairs and not (self.links and self.nodes and self.link_pairs):
            raise InputError("pairs with a node are prepared on top of links, nodes and pairs of links only")
        by_name = tuple(sorted(self.groups, key=lambda group: group.name))
        msgspec.structs.force_setattr(self, "groups", by_name)

    def __str__(self) -> str:
        parts = [name for name in ("links", "nodes", "link_pairs", "node_pairs") if getattr(self, name)]
        parts += [repr((group.name, sorted(group.links), sorted(group.nodes))) for group in self.groups]
        return "+".join(parts) or "none"


class Colour(msgspec.Struct, frozen=True):
    """A failure state: its number, from 1, and what has failed in it."""

    number: int
    links: tuple[LinkEnds, ...] = ()
    nodes: tuple[str, ...] = ()
    group: str = ""
    """The risk group, if the state is one's failure."""

    def __str__(self) -> str:
        failed = [f"{a} – {b}" for a, b in self.links] + list(self.nodes)
        return self.group or ", ".join(failed) or "no failure"


class Resolution(msgspec.Struct, frozen=True):
    """The colour of a state of the network: its own, or else the nearest covering one.

    Only an exact colour has tables to forward by. For other states gateways make shortest paths of what is
    left (decision 0004); the nearest colour then names the state to people.
    """

    colour: int
    exact: bool  # the state has a colour of its own


class Calculated(Sequence[_Item]):
    """A sequence of which nothing is kept: every item is made when it is asked for."""

    def __init__(self, count: int, item: Callable[[int], _Item]) -> None:
        self._count = count
        self._item = item

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[_Item]:
        return map(self._item, range(self._count))

    @overload
    def __getitem__(self, position: int) -> _Item: ...
    @overload
    def __getitem__(self, position: slice) -> list[_Item]: ...
    def __getitem__(self, position: int | slice) -> _Item | list[_Item]:
        where = range(self._count)[position]
        return self._item(where) if isinstance(where, int) else [self._item(each) for each in where]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]


class ColourBook(msgspec.Struct, frozen=True, dict=True):
    """The dictionary of colours and failures of one topology."""

    graph: Graph  # canonical: nodes and links in the order of their names
    prepared: PreparedFailures

    @cached_property
    def _links(self) -> tuple[LinkEnds, ...]:
        names = self.graph.names
        return tuple((names[u], names[v]) for u, v in self.graph.ends.tolist())

    @cached_property
    def links_at(self) -> tuple[Loss, ...]:
        """For each node, its links: what is gone when it fails."""
        at: list[list[int]] = [[] for _ in self.graph.names]
        for link, (u, v) in enumerate(self.graph.ends.tolist()):
            at[u].append(link)
            at[v].append(link)
        return tuple(map(frozenset, at))

    @cached_property
    def group_losses(self) -> tuple[Loss, ...]:
        """For each risk group, by name, the links that are gone when it fails."""
        return tuple(self.loss_of(group.links, group.nodes) for group in self.prepared.groups)

    @cached_property
    def _firsts(self) -> tuple[int, ...]:
        """First number of links, nodes, groups, link pairs, links with nodes, node pairs; then the end."""
        links, nodes = self.graph.links, self.graph.size
        prepared = self.prepared
        counts = (
            prepared.links * links,
            prepared.nodes * nodes,
            len(prepared.groups),
            prepared.link_pairs * _pairs(links),
            prepared.node_pairs * links * nodes,
            prepared.node_pairs * _pairs(nodes),
        )
        return tuple(2 + sum(counts[:place]) for place in range(len(counts) + 1))

    @property
    def colours(self) -> Sequence[Colour]:
        """The failure states in the order of their numbers."""
        return Calculated(self._firsts[-1] - 1, lambda position: self.colour(position + 1))

    @property
    def lost_links(self) -> Sequence[Loss]:
        """For each colour, the indices of the links that are gone in it."""

        def lost(position: int) -> Loss:
            colour = self.colour(position + 1)
            return self.loss_of(colour.links, colour.nodes)

        return Calculated(self._firsts[-1] - 1, lost)

    def colour(self, number: int) -> Colour:
        """What has failed under a number."""
        if number == 1:
            return Colour(1)
        kind = bisect_right(self._firsts, number) - 1
        place = number - self._firsts[kind]
        links, names = self._links, self.graph.names
        match kind:
            case 0:
                return Colour(number, (links[place],))
            case 1:
                return Colour(number, (), (names[place],))
            case 2:
                group = self.prepared.groups[place]
                return Colour(number, group.links, group.nodes, group.name)
            case 3:
                first, second = _unranked(place, len(links))
                return Colour(number, (links[first], links[second]))
            case 4:
                link, node = divmod(place, len(names))
                return Colour(number, (links[link],), (names[node],))
            case _:
                first, second = _unranked(place, len(names))
                return Colour(number, (), (names[first], names[second]))

    def single_number(self, element: int) -> int:
        """Colour of the failure of one element: links come first, then nodes."""
        nodes = element - self.graph.links
        return self._firsts[0] + element if nodes < 0 else self._firsts[1] + nodes

    def group_number(self, place: int) -> int:
        """Colour of the failure of a risk group, by its place among their names."""
        return self._firsts[2] + place

    def pair_number(self, first: int, second: int) -> int:
        """Colour of the failure of two elements, the smaller first."""
        links, nodes = self.graph.links, self.graph.size
        if second < links:
            return self._firsts[3] + _rank(first, second, links)
        if first < links:
            return self._firsts[4] + first * nodes + second - links
        return self._firsts[5] + _rank(first - links, second - links, nodes)

    def loss_of(self, links: Iterable[LinkEnds], nodes: Iterable[str] = ()) -> Loss:
        """The links that are gone when these links and nodes have failed."""
        graph = self.graph
        lost = frozenset(graph.link_of(a, b) for a, b in links)
        return lost.union(*(self.links_at[graph.index(name)] for name in nodes))

    def resolve(self, links: Iterable[LinkEnds] = (), nodes: Iterable[str] = ()) -> Resolution:
        """The colour when these links and nodes have failed, whether or not the state has one of its own.

        The nearest colour leaves the fewest failed links uncovered, then gives up the fewest healthy ones,
        then has the smallest number; colours that cover nothing of the state are none.
        """
        lost = self.loss_of(links, nodes)
        nearest = min(self._candidates(lost), default=(len(lost), 0, 1))
        return Resolution(nearest[2], exact=nearest[:2] == (0, 0))

    def _candidates(self, lost: Loss) -> Iterator[tuple[int, int, int]]:
        """(failed links uncovered, healthy ones given up, number) of all colours that may be the nearest.

        Of links and pairs of links only the first by number that have failed can be it.
        """
        if not lost:
            yield 0, 0, 1
            return
        prepared, failed = self.prepared, sorted(lost)
        if prepared.links:
            yield len(lost) - 1, 0, self.single_number(failed[0])
        if prepared.link_pairs:
            yield from self._pair_candidates(failed)
        for number, group in enumerate(self.group_losses, start=self.group_number(0)):
            if group & lost:
                yield len(lost - group), len(group - lost), number
        if prepared.nodes:
            hit = Counter(self.graph.ends[failed].ravel().tolist())
            for node, count in hit.items():
                healthy = len(self.links_at[node]) - count
                yield len(lost) - count, healthy, self.single_number(self.graph.links + node)
            if prepared.node_pairs:
                yield from self._node_pair_candidates(lost, failed, hit)

    def _pair_candidates(self, failed: list[int]) -> Iterator[tuple[int, int, int]]:
        if len(failed) > 1:
            yield len(failed) - 2, 0, self.pair_number(failed[0], failed[1])
        elif self.graph.links > 1:
            link, other = failed[0], 0 if failed[0] else 1
            yield 0, 1, self.pair_number(min(link, other), max(link, other))

    def _node_pair_candidates(
        self, lost: Loss, failed: list[int], hit: Counter[int]
    ) -> Iterator[tuple[int, int, int]]:
        links = self.graph.links
        for node, count in hit.items():
            others = next((link for link in failed if link not in self.links_at[node]), None)
            if others is not None:
                healthy = len(self.links_at[node]) - count
                yield len(lost) - count - 1, healthy, self.pair_number(others, links + node)
        for first, second in combinations(sorted(hit), 2):
            between = self.links_at[first] & self.links_at[second]
            twice = len(between & lost)
            covered = hit[first] + hit[second] - twice
            taken = len(self.links_at[first]) + len(self.links_at[second]) - len(between)
            yield len(lost) - covered, taken - covered, self.pair_number(links + first, links + second)


def make_colours(graph: Graph, prepared: PreparedFailures, *, numbered: bool = False) -> ColourBook:
    """All colours of a topology, in canonical order; nodes stay in theirs if they are `numbered`."""
    book = ColourBook(canonical(graph, numbered=numbered), prepared)
    for group in prepared.groups:
        book.loss_of(group.links, group.nodes)  # names what the topology does not have
    return book


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _rank(first: int, second: int, count: int) -> int:
    """Place of a pair among all pairs of `count` things, the smaller first."""
    return first * (2 * count - first - 1) // 2 + second - first - 1


def _unranked(place: int, count: int) -> tuple[int, int]:
    first = bisect_right(range(count), place, key=lambda each: _rank(each, each + 1, count)) - 1
    return first, place - _rank(first, first + 1, count) + first + 1


def canonical(graph: Graph, *, numbered: bool = False) -> Graph:
    """The same graph with nodes in the order of their names, unless they are `numbered`; links by them."""
    order = sorted(range(graph.size), key=lambda node: node if numbered else graph.names[node])
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
