"""Topics grouped into items: what is allocated as one (thesis §4.3.1).

Given by the user as lists of topics or patterns, or found: topics of low rate that rise and fall together
gain nothing from being apart, and fewer items make a smaller problem. Rates of a group add up, and its
variances and covariances are sums over its members, so grouping loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mangrove.errors import Mistakes
from mangrove.model.subjects import matches, subject_problem
from mangrove.planning.problem.arrays import FloatArray

# Topics below this share of the mean rate are of low rate.
LOW_RATE = 1.0
# Members of a found group are correlated at least so much on average.
CORRELATED = 0.3


def item_names(topics: Sequence[tuple[str, str]]) -> list[str]:
    """A topic's name, or `topic@domain` where several domains have it."""
    count: dict[str, int] = {}
    for _, topic in topics:
        count[topic] = count.get(topic, 0) + 1
    return [topic if count[topic] == 1 else f"{topic}@{domain}" for domain, topic in topics]


def read_groups(document: object, source: str) -> dict[str, tuple[str, ...]]:
    """`{"item": ["topic or pattern", …]}`, checked."""
    mistakes = Mistakes(source)
    if not isinstance(document, Mapping) or not document:
        mistakes.note("", "not an object with items", '{"item": ["topic", …]}')
        document = {}
    groups = {}
    for name, patterns in document.items():
        good = isinstance(patterns, list) and patterns and all(isinstance(each, str) for each in patterns)
        if not good:
            mistakes.note(str(name), "not a list of topics", "one topic or pattern, or more")
            continue
        for each in patterns:
            if problem := subject_problem(each, wildcards=True):
                mistakes.note(f"{name}: {each!r}", problem)
        groups[str(name)] = tuple(patterns)
    mistakes.raise_if_any()
    return groups


def given_groups(
    groups: Mapping[str, Sequence[str]], topics: Sequence[tuple[str, str]]
) -> dict[str, list[int]]:
    """Members of each item by the first pattern that matches; topics without one stay on their own."""
    names = item_names(topics)
    members: dict[str, list[int]] = {}
    for number, (_, topic) in enumerate(topics):
        item = next((n for n, patterns in groups.items() if any(matches(p, topic) for p in patterns)), None)
        members.setdefault(item if item is not None else names[number], []).append(number)
    return members


def found_groups(
    mean_rate: FloatArray, covariance: FloatArray, topics: Sequence[tuple[str, str]]
) -> dict[str, list[int]]:
    """Clusters of correlated low-rate topics (average linkage on 1 − correlation); others on their own."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    names = item_names(topics)
    deviation = np.sqrt(np.diag(covariance))
    low = np.flatnonzero((mean_rate <= LOW_RATE * mean_rate.mean()) & (deviation > 0))
    members = {names[number]: [number] for number in range(len(topics))}
    if len(low) < 2:
        return members
    correlation = covariance[np.ix_(low, low)] / np.outer(deviation[low], deviation[low])
    distance = np.clip(1.0 - (correlation + correlation.T) / 2, 0.0, 2.0)
    np.fill_diagonal(distance, 0.0)
    label = fcluster(linkage(squareform(distance, checks=False), "average"), 1.0 - CORRELATED, "distance")
    for cluster in np.unique(label):
        group = [int(number) for number in low[label == cluster]]
        if len(group) > 1:
            for number in group:
                del members[names[number]]
            members[f"{names[group[0]]}+{len(group) - 1}"] = group
    return dict(sorted(members.items(), key=lambda pair: pair[1][0]))


def membership(members: Mapping[str, Sequence[int]], topics: int) -> NDArray[np.float64]:
    """The matrix A with A[item, topic] = 1 for members: rates become A·μ and covariances A·Σ·Aᵀ."""
    matrix = np.zeros((len(members), topics))
    for row, numbers in enumerate(members.values()):
        matrix[row, list(numbers)] = 1.0
    return matrix
