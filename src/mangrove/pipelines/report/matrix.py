"""The correlation of topics as a picture: topics that move together stand together."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mangrove.pipelines.report.page import data, text

# Correlation from which topics may be of one group, and from which all are of one.
TOGETHER = 0.5
ALIKE = 0.8
# Of the height of the tree: joins above it are of strangers.
UNDER_THE_TOP = 0.7


def correlations(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A constant has none with anything but itself."""
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    safe = np.where(deviation > 0, deviation, 1.0)
    found = np.clip(np.nan_to_num(covariance / np.outer(safe, safe)), -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found, dtype=np.float64)


def by_cluster(correlation: NDArray[np.float64]) -> tuple[list[int], list[list[int]]]:
    """An order in which relatives are neighbours, and the groups of at least two, largest first."""
    from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(correlation) < 2:
        return list(range(len(correlation))), []
    distance = 1.0 - (correlation + correlation.T) / 2
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), method="average")
    order = [int(place) for place in leaves_list(tree)]
    labels = fcluster(tree, _cut(tree[:, 2]), criterion="distance")
    groups: dict[int, list[int]] = {}
    for place in order:
        groups.setdefault(int(labels[place]), []).append(place)
    alike = [members for members in groups.values() if len(members) > 1]
    return order, sorted(alike, key=len, reverse=True)


def _cut(heights: NDArray[np.float64]) -> float:
    """The distance up to which topics are of one group; all of them may be."""
    highest = float(heights.max())
    if highest <= 1.0 - ALIKE:
        return 1.0
    return min(UNDER_THE_TOP * highest, 1.0 - TOGETHER)


def picture(
    own_name: str, names: Sequence[str], correlation: NDArray[np.float64], order: Sequence[int]
) -> str:
    """A canvas, and the values that its script draws and names; no other on the page has its `own_name`."""
    places = list(order)
    values = np.rint(100 * correlation[np.ix_(places, places)]).astype(np.int8)
    document = {
        "names": [names[place] for place in places],
        "values": base64.b64encode(values.tobytes()).decode(),
    }
    return f'<canvas data-matrix="{text(own_name)}" role="img"></canvas>' + data(own_name, document)
