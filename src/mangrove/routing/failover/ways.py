"""The ways that forwarding takes from one broker to all others, and how they change when links fail.

Hop by hop, every broker takes the first by name of the next hops that lie on a shortest path. So the whole
way is, of all shortest paths, the first in the order of the names along it, and all ways from one broker are
a tree: where a way passes a broker, it began as the way to that broker does. Only what hangs on a failed link
changes; the rest stays shortest, and first in a smaller choice. One broker therefore needs nobody else's
tables, and a failure costs as much as it moves.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence
from copy import copy
from functools import cached_property

from mangrove.routing.failover.colours import Loss
from mangrove.routing.failover.ticks import NONE, ticks
from mangrove.routing.network.graph import Graph, NodePath

_Found = tuple[int, NodePath, int]
"""Length of a way in ticks, the way, and the last link on it."""
_NO_WAY: _Found = (0, (), NONE)


class Neighbourhood:
    """For each node its neighbours, the links to them and their cost in ticks; shared by many trees."""

    def __init__(self, graph: Graph) -> None:
        self.size = graph.size
        cost = [int(each) for each in ticks(graph.weights, graph.size)]
        self.of: list[list[tuple[int, int, int]]] = [[] for _ in graph.names]
        for link, (u, v) in enumerate(graph.ends.tolist()):
            self.of[u].append((v, link, cost[link]))
            self.of[v].append((u, link, cost[link]))


class Ways:
    """The ways from one broker while some links are down. Nodes and links are indices, ordered by name."""

    def __init__(
        self,
        near: Neighbourhood,
        lost: Loss,
        length: Sequence[int],
        ways: Sequence[NodePath],
        last: Sequence[int],
        hops: array[int],
    ) -> None:
        self._near = near
        self._lost = lost
        self._length = length
        self._ways = ways
        self._last = last
        self.hops = hops
        """Next hop by destination; NONE where there is no way."""

    def to(self, destination: int) -> NodePath:
        """The way to a destination, both ends included; empty if there is none."""
        return self._ways[destination]

    @cached_property
    def _beyond(self) -> dict[int, list[int]]:
        """For each link in use, the destinations whose ways lead over it."""
        beyond: dict[int, list[int]] = {}
        for destination, way in enumerate(self._ways):
            for node in way[1:]:
                beyond.setdefault(self._last[node], []).append(destination)
        return beyond

    @property
    def links_in_use(self) -> int:
        """Bits of the links that some way leads over: no other link's failure changes anything."""
        return sum(1 << link for link in self._beyond)

    def without(self, links: Loss) -> Ways:
        """The ways when these links fail too."""
        lost = self._lost | links
        found = self._moved(links, lost)
        if not found:
            same = copy(self)
            same._lost = lost
            return same
        length, ways, last = list(self._length), list(self._ways), list(self._last)
        for node, (at, way, link) in found.items():
            length[node], ways[node], last[node] = at, way, link
        return Ways(self._near, lost, length, ways, last, self._hops_after(found))

    def hops_without(self, links: Loss) -> array[int]:
        """Only the next hops of `without`."""
        return self._hops_after(self._moved(links, self._lost | links))

    def _hops_after(self, found: dict[int, _Found]) -> array[int]:
        hops = self.hops[:]
        for node, (_, way, _) in found.items():
            hops[node] = way[1] if way else NONE
        return hops

    def _moved(self, links: Loss, lost: Loss) -> dict[int, _Found]:
        """What has another way, or none, because `links` are lost too."""
        beyond = self._beyond
        found = {node: _NO_WAY for link in links if link in beyond for node in beyond[link]}
        _find(found, self._near, lost, self._length, self._ways)
        return found


def ways_from(near: Neighbourhood, source: int) -> Ways:
    """The ways from a broker when nothing has failed."""
    length, last = [0] * near.size, [NONE] * near.size
    ways: list[NodePath] = [()] * near.size
    ways[source] = (source,)
    hops = array("h", last)
    found = {node: _NO_WAY for node in range(near.size) if node != source}
    _find(found, near, frozenset(), length, ways)
    for node, (at, way, link) in found.items():
        length[node], ways[node], last[node] = at, way, link
        hops[node] = way[1] if way else NONE
    return Ways(near, frozenset(), length, ways, last, hops)


def _find(
    found: dict[int, _Found],
    near: Neighbourhood,
    lost: Loss,
    length: Sequence[int],
    ways: Sequence[NodePath],
) -> None:
    """Fill in the nodes of `found` from those around them, whose ways stand: Dijkstra from the rim inwards.

    The heap is ordered by length and then by the nodes along the way, which is the order by name.
    """
    of = near.of
    heap: list[_Found] = [
        (length[before] + cost, (*ways[before], node), link)
        for node in found
        for before, link, cost in of[node]
        if before not in found and ways[before] and link not in lost
    ]
    heapq.heapify(heap)
    while heap:
        nearest = heapq.heappop(heap)
        at, way, _ = nearest
        node = way[-1]
        if found[node][1]:
            continue
        found[node] = nearest
        for following, link, cost in of[node]:
            if following in found and not found[following][1] and link not in lost:
                heapq.heappush(heap, (at + cost, (*way, following), link))
