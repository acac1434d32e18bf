"""Synthetic topologies in the manner of BRITE's flat router models: Waxman, and Barabási-Albert.

Both place the nodes uniformly on a square plane and grow the network one node at a time; each new node
links to `m` nodes that are already there, so the mean degree tends to 2m. A link weighs its length.
"""

from __future__ import annotations

import numpy as np

from mangrove.errors import InputError
from mangrove.routing.network.graph import Graph, make_graph


def waxman(
    nodes: int, m: int, *, seed: int, side: float = 10_000.0, alpha: float = 0.15, beta: float = 0.2
) -> Graph:
    """Waxman growth: a node accepts with probability alpha * exp(-d / (beta * L)), L the diagonal.

    BRITE draws candidates at random until m have accepted, so that only the *ratio* of the probabilities
    counts and alpha cancels out; it is kept as a parameter because configurations name it. This draws the m
    neighbours from the same distribution directly.
    """
    _check(nodes, m, alpha=alpha, beta=beta, side=side)
    rng = np.random.default_rng(seed)
    points = rng.uniform(0.0, side, (nodes, 2))
    reach = beta * side * np.sqrt(2.0)
    ends = _clique(m)
    for node in range(m, nodes):
        distance = np.hypot(*(points[:node] - points[node]).T)
        wish = alpha * np.exp(-(distance - distance.min()) / reach)  # shifted: no underflow on large planes
        for other in rng.choice(node, size=min(m, node), replace=False, p=wish / wish.sum()):
            ends.append((int(other), node))
    return make_graph([str(node) for node in range(nodes)], points, ends)


def barabasi_albert(nodes: int, m: int, *, seed: int, side: float = 10_000.0) -> Graph:
    """Barabási-Albert growth: a node is chosen as neighbour in proportion to the links it already has."""
    _check(nodes, m, side=side)
    rng = np.random.default_rng(seed)
    points = rng.uniform(0.0, side, (nodes, 2))
    ends = _clique(m)
    degree = np.zeros(nodes)
    for u, v in ends:
        degree[[u, v]] += 1
    for node in range(m, nodes):
        weight = degree[:node] if m > 1 or node > 1 else np.ones(node)
        for other in rng.choice(node, size=min(m, node), replace=False, p=weight / weight.sum()):
            ends.append((int(other), node))
            degree[[other, node]] += 1
    return make_graph([str(node) for node in range(nodes)], points, ends)


def random_network(nodes: int, links: int, *, seed: int, side: float = 1000.0) -> Graph:
    """A connected network with exactly so many links: a random tree, then random further links."""
    most = nodes * (nodes - 1) // 2
    if nodes < 2 or not nodes - 1 <= links <= most:
        raise InputError(f"{nodes} nodes can be joined by {nodes - 1} to {most} links, not by {links}")
    rng = np.random.default_rng(seed)
    order = rng.permutation(nodes)
    chosen = {tuple(sorted((int(order[i]), int(order[rng.integers(i)])))) for i in range(1, nodes)}
    while len(chosen) < links:
        u, v = rng.choice(nodes, size=2, replace=False)
        chosen.add(tuple(sorted((int(u), int(v)))))
    points = rng.uniform(0.0, side, (nodes, 2))
    return make_graph([str(node) for node in range(nodes)], points, np.array(sorted(chosen)))


def _clique(m: int) -> list[tuple[int, int]]:
    """The first m nodes, all joined, from which the network grows."""
    return [(u, v) for v in range(m) for u in range(v)]


def _check(nodes: int, m: int, **positive: float) -> None:
    if m < 1 or nodes < m + 1:
        raise InputError(f"a grown topology needs m >= 1 and more than m nodes, not m={m} and {nodes} nodes")
    for name, value in positive.items():
        if not value > 0:
            raise InputError(f"{name} must be positive, not {value}")
