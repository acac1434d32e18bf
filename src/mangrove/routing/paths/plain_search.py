"""Shortest paths in small networks, without the compiled kernels.

A gateway searches often, and mostly among a few dozen domains. There a heap of its own answers sooner than a
compiled kernel is reached, and the gateway starts without loading one. Both find paths of the same length; of
equally short trees and paths both choose by the order of the nodes alone, so everybody chooses alike.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import TypeAlias

UNREACHED = -9999
"""No predecessor, as the compiled kernels mark it, too."""

Near: TypeAlias = Sequence[Mapping[int, float]]
"""For each node its neighbours, in order, and what the links to them weigh."""


def neighbours(size: int, ends: Iterable[Sequence[int]], weights: Iterable[float]) -> Near:
    """The links of a network, seen from its nodes; one that weighs infinitely much is not there."""
    near: list[list[tuple[int, float]]] = [[] for _ in range(size)]
    for (u, v), weight in zip(ends, weights, strict=True):
        if weight < math.inf:
            near[u].append((v, weight))
            near[v].append((u, weight))
    return [dict(sorted(each)) for each in near]


def tree(near: Near, source: int) -> tuple[list[float], list[int]]:
    """Distance of each node from the source, infinite where there is no way, and the node before it."""
    return _tree(near, source, (), ())


def _tree(
    near: Near, source: int, avoided: Collection[int], not_first: Collection[int], until: int = UNREACHED
) -> tuple[list[float], list[int]]:
    """A tree around some nodes that does not begin with others, complete as far as `until`."""
    distance, before = [math.inf] * len(near), [UNREACHED] * len(near)
    distance[source] = 0.0
    heap = [(0.0, -source)]  # of equally near nodes the last is taken, as the compiled kernels do
    while heap:
        at, mark = heappop(heap)
        node = -mark
        if node == until:
            break
        if at > distance[node]:
            continue
        for following, weight in near[node].items():
            further = at + weight
            if further >= distance[following] or following in avoided:
                continue
            if node == source and following in not_first:
                continue
            distance[following] = further
            before[following] = node
            heappush(heap, (further, -following))
    return distance, before


def k_shortest(near: Near, source: int, destination: int, k: int) -> list[tuple[int, ...]]:
    """Up to `k` loop-free paths in order of length (Yen; Lawler).

    What branches off a path before the place where it left an earlier one was found with that one.
    """
    first = _shortest(near, (source,), destination, ())
    if not first or k < 1:
        return []
    waiting = [(_length(near, first), 0, first, 1)]  # of equally long ones the latest is taken
    met = {first}
    found: list[tuple[int, ...]] = []
    while waiting:
        _, _, path, left_at = heappop(waiting)
        found.append(path)
        if len(found) == k:
            break
        for place in reversed(range(left_at, len(path))):
            root = path[:place]
            taken = {each[place] for each in found if each[:place] == root}
            other = _shortest(near, root, destination, taken)
            if other and other not in met:
                met.add(other)
                heappush(waiting, (_length(near, other), -len(met), other, place))
    return found


def _shortest(
    near: Near, root: tuple[int, ...], destination: int, not_next: Collection[int]
) -> tuple[int, ...]:
    """The shortest path that begins with `root` and does not go on to some nodes; empty if there is none."""
    source = root[-1]
    _, before = _tree(near, source, root[:-1], not_next, destination)
    if source == destination or before[destination] == UNREACHED:
        return ()
    path = [destination]
    while path[-1] != source:
        path.append(before[path[-1]])
    return (*root, *path[-2::-1])


def _length(near: Near, path: Sequence[int]) -> float:
    return sum(near[u][v] for u, v in pairwise(path))
