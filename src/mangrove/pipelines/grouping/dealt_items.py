"""Very many topics as so many items as a planner takes, known from nothing but their rates.

The heaviest topics stay on their own. The others are dealt to groups, the heavier first and always to the
lightest group, so that groups weigh about the same. What matters more is what this does not do: it does not
put topics together that surge together. Such a group would carry their common surge whole to one broker;
groups dealt by weight are mixtures, whose surges even out (decision 0318 has the figures).

Figures of the groups are then taken from sums over windows, exactly as those of topics (`dealt_cube`), so
nothing about risk is approximate; what is lost is that members of a group cannot be apart.
"""

from __future__ import annotations

import heapq

import numpy as np

from mangrove.planning.problem.arrays import FloatArray, IntArray

# Of the items, this share are single topics.
SINGLE_SHARE = 0.5


def dealt(weight: FloatArray, items: int) -> IntArray:
    """The item of each topic, by weights; items are numbered by the first topic of each."""
    topics = len(weight)
    if topics <= items:
        return np.arange(topics)
    order: IntArray = np.argsort(-weight, kind="stable")
    single = int(SINGLE_SHARE * items)
    raw = np.empty(topics, dtype=np.int64)
    raw[order[:single]] = np.arange(single)
    groups = [(0.0, number) for number in range(single, items)]
    for topic in order[single:]:
        total, number = groups[0]
        raw[topic] = number
        # At least a little, so that topics without messages are spread too.
        heapq.heapreplace(groups, (total + max(float(weight[topic]), 1e-9), number))
    _, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(rank[inverse], dtype=np.int64)
