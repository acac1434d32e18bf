"""The network that routes are planned on: named nodes with places, undirected links with weights.

A `Graph` is immutable and holds numpy arrays, so that every algorithm works on compiled kernels. Nodes and
links are addressed by index inside the room and by name at its doors.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mangrove.errors import InputError, MangroveError
from mangrove.routing.network.geography import Floats, Plane, distances_along, line_length, positions

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NodePath: TypeAlias = tuple[int, ...]
"""Node indices from source to destination."""

Waypoints: TypeAlias = tuple[tuple[float, float], ...]
"""Places that a fibre passes between the two ends of its link."""

Ints: TypeAlias = NDArray[np.int64]


class UnknownNodeError(InputError):
    """A node was named that the topology does not have."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        shown = ", ".join(known[:12]) + (f", … ({len(known)} in all)" if len(known) > 12 else "")
        super().__init__(f"there is no node {name!r} in the topology", hint=f"its nodes are: {shown}")


class NoPathError(MangroveError):
    """Two nodes are not connected, or not within the limits. A negative answer, not a bad input."""

    def __init__(self, source: str, destination: str, reason: str = "") -> None:
        self.source, self.destination = source, destination
        because = f": {reason}" if reason else "; the topology is disconnected between them"
        super().__init__(f"there is no path from {source!r} to {destination!r}{because}")


class Graph(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Nodes, links, weights, and what may fail. Build one with `make_graph`."""

    plane: Plane
    names: tuple[str, ...]
    points: Floats  # (n, 2): x, y or latitude, longitude
    ends: Ints  # (m, 2): node indices of each link, smaller first
    weights: Floats  # (m,)
    node_failure: Floats  # (n,) probabilities
    edge_failure: Floats  # (m,)
    via: tuple[Waypoints, ...]  # (m,): from the smaller end to the larger; empty where none are known

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.names)

    @property
    def links(self) -> int:
        """Number of links."""
        return len(self.ends)

    @cached_property
    def positions(self) -> Floats:
        """Positions of the nodes (see `geography`)."""
        return positions(self.plane, self.points)

    @cached_property
    def has_waypoints(self) -> bool:
        """Whether the way of any fibre is known."""
        return any(self.via)

    @cached_property
    def fibres(self) -> Fibres:
        """The straight pieces of which the fibres of all links are made."""
        return _fibres(self)

    def fibre(self, link: int) -> Floats:
        """The places of a link from its smaller end to its larger: its ends, and its waypoints between."""
        start, end = self.points[self.ends[link]]
        return np.array([start, *self.via[link], end], dtype=np.float64)

    def places(self, path: Sequence[int]) -> Floats:
        """The sites of a path and the waypoints of its fibres, in the order in which they are passed."""
        found = [self.points[path[0]]]
        for u, v in itertools.pairwise(path):
            waypoints = self.via[self.link(u, v)]
            found += [np.array(place) for place in (waypoints if u < v else reversed(waypoints))]
            found.append(self.points[v])
        return np.array(found)

    @cached_property
    def without_places(self) -> bool:
        """Whether it is not known of any node where it is."""
        return bool(np.isnan(self.points).all())

    @cached_property
    def unplaced(self) -> tuple[str, ...]:
        """Nodes that links lead to and of which it is not known where they are."""
        linked = np.zeros(self.size, dtype=bool)
        linked[self.ends] = True
        return self.named(np.flatnonzero(linked & np.isnan(self.points).any(axis=1)))

    @cached_property
    def pairs(self) -> list[list[int]]:
        """The ends of each link, for what looks at one after the other."""
        found: list[list[int]] = self.ends.tolist()
        return found

    @cached_property
    def near(self) -> list[dict[int, float]]:
        """For each node its neighbours, in order, and what links weigh; none infinitely much."""
        found: list[list[tuple[int, float]]] = [[] for _ in self.names]
        for (u, v), weight in zip(self.pairs, self.link_weights, strict=True):
            if weight < math.inf:
                found[u].append((v, weight))
                found[v].append((u, weight))
        return [dict(sorted(each)) for each in found]

    @cached_property
    def found_paths(self) -> dict[tuple[int, int], tuple[tuple[NodePath, ...], int]]:
        """The shortest paths that were sought before between two nodes, and how many were asked for."""
        return {}

    @cached_property
    def link_weights(self) -> list[float]:
        """The weight of each link, likewise."""
        found: list[float] = self.weights.tolist()
        return found

    def with_values(
        self,
        *,
        weights: Floats | None = None,
        node_failure: Floats | None = None,
        edge_failure: Floats | None = None,
    ) -> Graph:
        """The same nodes and links with other values; what follows from nodes and links is not made anew."""
        made = Graph(
            plane=self.plane,
            names=self.names,
            points=self.points,
            ends=self.ends,
            weights=self.weights if weights is None else weights,
            node_failure=self.node_failure if node_failure is None else node_failure,
            edge_failure=self.edge_failure if edge_failure is None else edge_failure,
            via=self.via,
        )
        kept = vars(self)
        vars(made).update((name, kept[name]) for name in _OF_STRUCTURE if name in kept)
        return made

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def _link_index(self) -> dict[tuple[int, int], int]:
        return {(u, v): index for index, (u, v) in enumerate(self.pairs)}

    def index(self, name: str) -> int:
        """Index of a node; `UnknownNodeError` names what there is."""
        try:
            return self._index[name]
        except KeyError:
            raise UnknownNodeError(name, self.names) from None

    def link(self, u: int, v: int) -> int:
        """Index of the link between two neighbours; KeyError when there is none."""
        return self._link_index[(u, v) if u < v else (v, u)]

    def link_of(self, a: str, b: str) -> int:
        """Index of the link between two named nodes; `InputError` when there is none."""
        key = self.index(a), self.index(b)
        try:
            return self.link(*key)
        except KeyError:
            raise InputError(f"there is no link between {a!r} and {b!r} in the topology") from None

    def path_links(self, path: Sequence[int]) -> list[int]:
        """Links that a path runs over."""
        return [self.link(u, v) for u, v in itertools.pairwise(path)]

    def length(self, path: Sequence[int]) -> float:
        """Sum of the weights along a path: its delay."""
        weights = self.link_weights
        return float(sum(weights[link] for link in self.path_links(path)))

    def named(self, path: Iterable[int]) -> tuple[str, ...]:
        """The path in names."""
        return tuple(self.names[node] for node in path)

    def indices(self, names: Iterable[str]) -> NodePath:
        """A path given in names, checked link by link."""
        path = tuple(self.index(name) for name in names)
        links = self._link_index
        for u, v in itertools.pairwise(path):
            if ((u, v) if u < v else (v, u)) not in links:
                self.link_of(self.names[u], self.names[v])  # tells which one is missing
        return path

    def leads(self, names: Iterable[str]) -> bool:
        """Whether a path given in names is one here: there are its nodes, and a link for each hop."""
        try:
            self.indices(names)
        except InputError:
            return False
        return True

    @cached_property
    def arcs(self) -> Arcs:
        """The links in both directions, in the order of the sparse matrix."""
        return _arcs(self)

    def degree(self, node: int) -> int:
        """Number of links at a node."""
        return int(self.arcs.starts[node + 1] - self.arcs.starts[node])

    def matrix(self, weights: Floats | None = None) -> csr_array:
        """Symmetric sparse matrix of (other) link weights; a new object over new data."""
        from scipy.sparse import csr_array

        data = (self.weights if weights is None else weights)[self.arcs.link]
        return csr_array((data, self.arcs.head, self.arcs.starts), shape=(self.size, self.size))

    @cached_property
    def topology_hash(self) -> str:
        """Version of nodes, links and weights, whatever the order in which a file lists them."""
        nodes = sorted(self.names)
        links = sorted(
            (*sorted((self.names[u], self.names[v])), float(weight).hex())
            for (u, v), weight in zip(self.ends, self.weights, strict=True)
        )
        return hashlib.sha256(repr((nodes, links)).encode()).hexdigest()[:16]


_OF_STRUCTURE = (
    "positions",
    "has_waypoints",
    "fibres",
    "without_places",
    "unplaced",
    "pairs",
    "_index",
    "_link_index",
    "arcs",
)
"""What is kept of a graph that follows from its nodes and links alone."""


class Fibres(msgspec.Struct, frozen=True):
    """Straight pieces (great circles on the sphere) between the places that fibres pass, as positions."""

    starts: Floats
    stops: Floats
    link: Ints  # to which link each piece belongs


def _fibres(graph: Graph) -> Fibres:
    if not graph.has_waypoints:
        starts, stops = graph.positions[graph.ends[:, 0]], graph.positions[graph.ends[:, 1]]
        return Fibres(starts, stops, np.arange(graph.links))
    lines = [graph.fibre(link) for link in range(graph.links)]
    starts = positions(graph.plane, np.concatenate([line[:-1] for line in lines]))
    stops = positions(graph.plane, np.concatenate([line[1:] for line in lines]))
    return Fibres(starts, stops, np.repeat(np.arange(graph.links), [len(line) - 1 for line in lines]))


class Arcs(msgspec.Struct, frozen=True):
    """Links in both directions, sorted by tail and then head (the layout of a CSR matrix)."""

    tail: Ints
    head: NDArray[np.int32]
    link: Ints
    starts: NDArray[np.int32]


def _arcs(graph: Graph) -> Arcs:
    tail = np.concatenate((graph.ends[:, 0], graph.ends[:, 1]))
    head = np.concatenate((graph.ends[:, 1], graph.ends[:, 0]))
    link = np.concatenate((np.arange(graph.links), np.arange(graph.links)))
    order = np.lexsort((head, tail))
    counts = np.bincount(tail, minlength=graph.size)
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    arcs = Arcs(tail[order], head[order].astype(np.int32), link[order], starts)
    for array in (arcs.tail, arcs.head, arcs.link, arcs.starts):
        array.flags.writeable = False  # every matrix of the graph shares them
    return arcs


def make_graph(
    names: Sequence[str],
    points: Floats | Sequence[tuple[float, float]],
    ends: Ints | Sequence[tuple[int, int]],
    *,
    plane: Plane = Plane.EUCLIDEAN,
    weights: Floats | Sequence[float] | None = None,
    node_failure: Floats | None = None,
    edge_failure: Floats | None = None,
    via: Sequence[Waypoints] | None = None,
) -> Graph:
    """A graph of checked parts; the readers in `topology` and `brite` check, this one only arranges.

    Without `weights` a link weighs the length of its fibre: the distance between its ends, by its waypoints
    if it has any. `via` gives the waypoints of each link in the order of its `ends`.
    """
    at = np.array(points, dtype=np.float64).reshape(-1, 2)
    given = np.asarray(ends, dtype=np.int64).reshape(-1, 2)
    pairs = np.sort(given, axis=1)
    along: tuple[Waypoints, ...] = ((),) * len(pairs)
    if via is not None and any(via):
        along = tuple(
            tuple(waypoints) if u <= v else tuple(reversed(waypoints))
            for waypoints, (u, v) in zip(via, given, strict=True)
        )
    if weights is None:
        on = positions(plane, at)
        weights = distances_along(plane, on[pairs[:, 0]], on[pairs[:, 1]])
        for link, waypoints in enumerate(along):
            if waypoints:
                start, end = at[pairs[link]]
                weights[link] = line_length(plane, np.array([start, *waypoints, end]))
    graph = Graph(
        plane=plane,
        names=tuple(names),
        points=at,
        ends=pairs,
        weights=np.array(weights, dtype=np.float64),
        node_failure=np.zeros(len(at)) if node_failure is None else np.array(node_failure),
        edge_failure=np.zeros(len(pairs)) if edge_failure is None else np.array(edge_failure),
        via=along,
    )
    for array in (graph.points, graph.ends, graph.weights, graph.node_failure, graph.edge_failure):
        array.flags.writeable = False
    return graph
