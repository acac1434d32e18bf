"""Graphs for property tests, and packets that are forwarded on them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from mangrove.routing.network.graph import Graph, make_graph

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph of up to nine nodes, connected or not, with weights that tie often."""
    size = draw(st.integers(2, 9))
    every = [(u, v) for u in range(size) for v in range(u + 1, size)]
    ends = draw(st.lists(st.sampled_from(every), unique=True, min_size=1, max_size=min(len(every), 18)))
    weight = st.one_of(st.integers(0, 3).map(float), st.sampled_from([0.1, 0.2, 0.3]), st.floats(0.001, 1000))
    weights = draw(st.lists(weight, min_size=len(ends), max_size=len(ends)))
    return make_graph(
        [f"n{i}" for i in range(size)], np.full((size, 2), np.nan), ends, weights=np.array(weights)
    )


def lengths_by_forwarding(next_hops: Ints, weight: Floats) -> Floats:
    """Length of the forwarded way from every broker to every destination, all at once; infinity where none.

    Every packet takes one hop per round. One that has not arrived after as many rounds as there are brokers
    has been somewhere twice: a loop.
    """
    size = len(next_hops)
    destination, here = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    length = np.zeros((size, size))
    for _ in range(size):
        moving = (here != destination) & np.isfinite(length)
        step = next_hops[destination, here]
        stuck = moving & (step < 0)
        going = moving & ~stuck
        length[stuck] = np.inf
        length[going] += weight[here[going], step[going]]
        here = np.where(going, step, here)
    assert not ((here != destination) & np.isfinite(length)).any(), "a loop"
    return length
