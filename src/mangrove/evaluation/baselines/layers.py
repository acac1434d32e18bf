"""Resilient routing layers, the baseline of the PCRT paper (§II-B; Kvalbein, Hansen et al.).

A layer is a connected spanning part of the network in which some nodes are *safe*: they keep a single link,
so no traffic passes through them. Every node is safe in some layer and every link is missing from some
layer. A broker whose next hop has failed forwards in a layer that does without it. Few tables, but the way
is longer than it need be: that is what the comparison shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from mangrove.routing.network.geography import Floats
from mangrove.routing.network.graph import Graph, NodePath
from mangrove.routing.paths.shortest import trees, walk

_MAX_LAYERS = 64


@dataclass(frozen=True)
class Layer:
    """Links that the layer keeps, and nodes that are safe in it."""

    links: NDArray[np.bool_]
    safe: frozenset[int]


@dataclass(frozen=True)
class RoutingLayers:
    """The full network and the layers over it."""

    graph: Graph
    layers: tuple[Layer, ...]
    unprotected_nodes: frozenset[int]  # articulation points: without them the network falls apart
    unprotected_links: frozenset[int]  # bridges

    @cached_property
    def _normal(self) -> NDArray[np.int32]:
        return self._towards(self.graph.weights)

    @cached_property
    def _in_layer(self) -> tuple[NDArray[np.int32], ...]:
        graph = self.graph
        return tuple(self._towards(np.where(layer.links, graph.weights, np.inf)) for layer in self.layers)

    def _towards(self, weights: Floats) -> NDArray[np.int32]:
        return trees(self.graph, np.arange(self.graph.size), weights)[1]

    def path(self, source: int, destination: int) -> NodePath:
        """The way without a failure."""
        return walk(self._normal[source], source, destination)

    def path_after_link(self, source: int, destination: int, failed: int) -> NodePath:
        """The way when a link has failed: the normal one up to the failure, from there in a layer without it.

        Empty when no layer does without the link, or source and destination are not connected.
        """
        path = self.path(source, destination)
        links = self.graph.path_links(path)
        if failed not in links:
            return path
        turn = links.index(failed)
        here = path[turn]
        for layer, before in zip(self.layers, self._in_layer, strict=True):
            if not layer.links[failed]:
                return (*path[:turn], *walk(before[here], here, destination))
        return ()

    def path_after_node(self, source: int, destination: int, failed: int) -> NodePath:
        """The way when a node has failed: the normal one up to it, then in a layer where it is safe."""
        path = self.path(source, destination)
        if failed not in path:
            return path
        if failed in (source, destination):
            return ()
        turn = path.index(failed) - 1
        here = path[turn]
        for layer, before in zip(self.layers, self._in_layer, strict=True):
            if failed in layer.safe:
                return (*path[:turn], *walk(before[here], here, destination))
        return ()


def build_layers(graph: Graph) -> RoutingLayers:
    """As few layers as the round-robin heuristic needs to make every node safe and miss every link once."""
    cut_nodes = frozenset(node for node in range(graph.size) if not _connected_without(graph, node))
    bridges = frozenset(link for link in range(graph.links) if not _connected(graph, _all_but(graph, link)))
    for count in range(2, _MAX_LAYERS + 1):
        layers = _round_robin(graph, count, cut_nodes)
        if layers is None:
            continue
        extra = _missing_links(graph, layers, bridges)
        return RoutingLayers(graph, (*layers, *extra), cut_nodes, bridges)
    raise AssertionError(f"no set of {_MAX_LAYERS} layers protects all nodes")  # each node alone needs one


def _round_robin(graph: Graph, count: int, skip: frozenset[int]) -> tuple[Layer, ...] | None:
    """Make node after node safe in the next layer that stays connected; None when a node fits in no layer."""
    links = [np.ones(graph.links, dtype=bool) for _ in range(count)]
    safe: list[set[int]] = [set() for _ in range(count)]
    turn = 0
    for node in range(graph.size):
        if node in skip:
            continue
        for offset in range(count):
            layer = (turn + offset) % count
            reduced = _without_transit(graph, links[layer], node, links)
            if reduced is not None:
                links[layer] = reduced
                safe[layer].add(node)
                turn = layer + 1
                break
        else:
            return None
    return tuple(Layer(kept, frozenset(nodes)) for kept, nodes in zip(links, safe, strict=True))


def _without_transit(
    graph: Graph, kept: NDArray[np.bool_], node: int, layers: list[NDArray[np.bool_]]
) -> NDArray[np.bool_] | None:
    """The layer with one link left at `node`; None when that would cut the layer apart."""
    at_node = np.flatnonzero((graph.ends == node).any(axis=1) & kept)
    bare = kept.copy()
    bare[at_node] = False
    if not _connected(graph, bare, besides=node):
        return None
    # Keep the link that most other layers miss already, so that every link goes missing somewhere.
    missing = [sum(not layer[link] for layer in layers) for link in at_node]
    bare[at_node[int(np.argmax(missing))]] = True
    return bare


def _missing_links(graph: Graph, layers: tuple[Layer, ...], bridges: frozenset[int]) -> tuple[Layer, ...]:
    """Layers for the links that all node layers kept, as many links to a layer as stay connected."""
    left = [
        link
        for link in range(graph.links)
        if link not in bridges and all(layer.links[link] for layer in layers)
    ]
    extra: list[Layer] = []
    while left:
        kept = np.ones(graph.links, dtype=bool)
        for link in list(left):
            kept[link] = False
            if _connected(graph, kept):
                left.remove(link)
            else:
                kept[link] = True
        extra.append(Layer(kept, frozenset()))
    return tuple(extra)


def _all_but(graph: Graph, link: int) -> NDArray[np.bool_]:
    kept = np.ones(graph.links, dtype=bool)
    kept[link] = False
    return kept


def _connected_without(graph: Graph, node: int) -> bool:
    return _connected(graph, ~(graph.ends == node).any(axis=1), besides=node)


def _connected(graph: Graph, kept: NDArray[np.bool_], besides: int | None = None) -> bool:
    """Whether the kept links hold the network together, not counting the node `besides`."""
    ends = graph.ends[kept]
    matrix = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(graph.size, graph.size))
    parts, _ = connected_components(matrix, directed=False)
    return bool(parts == (1 if besides is None else 2))
