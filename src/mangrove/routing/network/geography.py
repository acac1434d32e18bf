"""Points, lines and distances on the two planes that a topology may live on.

A euclidean plane has (x, y) in any one unit. The geographic plane has (latitude, longitude) in degrees, and
all its distances are kilometres along the great circle. Points are turned into *positions* once: (x, y)
itself, or the unit vector from the centre of the earth, on which every formula below is a few dot products.
"""

from __future__ import annotations

import itertools
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EARTH_RADIUS_KM: Final = 6371.0088  # mean radius, IUGG
_TINY: Final = 1e-15


class Plane(Enum):
    """The surface on which the nodes lie."""

    EUCLIDEAN = "euclidean"
    GEO = "geo"


def positions(plane: Plane, points: Floats) -> Floats:
    """Positions of `points`: (n, 2) unchanged on the euclidean plane, (n, 3) unit vectors on the sphere."""
    points = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    if plane is Plane.EUCLIDEAN:
        return points
    latitude, longitude = np.radians(points[:, 0]), np.radians(points[:, 1])
    return np.column_stack(
        (np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude))
    )


def distances(plane: Plane, a: Floats, b: Floats) -> Floats:
    """Matrix of distances between two sets of positions, (len(a), len(b))."""
    squared = np.zeros((len(a), len(b)))
    for axis in range(a.shape[1]):
        difference = a[:, axis, None] - b[None, :, axis]
        squared += difference * difference
    return _from_straight(plane, np.sqrt(squared))


def distances_along(plane: Plane, a: Floats, b: Floats) -> Floats:
    """Distance between the i-th position of `a` and the i-th of `b`."""
    return _from_straight(plane, np.sqrt(((a - b) ** 2).sum(axis=1)))


def line_length(plane: Plane, points: Floats) -> float:
    """Length of the line through points (not positions): the way that a fibre takes."""
    on = positions(plane, points)
    return float(distances_along(plane, on[:-1], on[1:]).sum())


def distances_to_line(plane: Plane, points: Floats, line: Floats) -> Floats:
    """Distance of each position from the line through `line`, which may be a single point."""
    if len(line) == 1:
        return distances(plane, points, line)[:, 0]
    starts, ends = line[:-1], line[1:]
    best = np.full(len(points), np.inf)
    for start, end in zip(starts, ends, strict=True):
        spread = np.broadcast_to(start, points.shape), np.broadcast_to(end, points.shape)
        best = np.minimum(best, _to_segments(plane, points, *spread))
    return best


def segments_to_line(plane: Plane, starts: Floats, ends: Floats, line: Floats) -> Floats:
    """Distance of each segment (start to end) from a line; zero where they cross."""
    if len(line) == 1:
        return _to_segments(plane, np.broadcast_to(line[0], starts.shape), starts, ends)
    best = np.minimum(distances_to_line(plane, starts, line), distances_to_line(plane, ends, line))
    for point in line:
        best = np.minimum(best, _to_segments(plane, np.broadcast_to(point, starts.shape), starts, ends))
    for start, end in itertools.pairwise(line):
        best[crossing(plane, starts, ends, start, end)] = 0.0
    return best


def _from_straight(plane: Plane, straight: Floats) -> Floats:
    """A straight distance between positions as a distance on the plane: chord to arc on the sphere."""
    if plane is Plane.EUCLIDEAN:
        return straight
    return 2.0 * EARTH_RADIUS_KM * np.arcsin(np.minimum(straight / 2.0, 1.0))


def _to_segments(plane: Plane, points: Floats, starts: Floats, ends: Floats) -> Floats:
    """Distance of the i-th position from the i-th segment."""
    if plane is Plane.EUCLIDEAN:
        along = ends - starts
        length = np.maximum((along**2).sum(axis=1), _TINY)
        share = np.clip(((points - starts) * along).sum(axis=1) / length, 0.0, 1.0)
        return distances_along(plane, points, starts + share[:, None] * along)
    at_ends = np.minimum(distances_along(plane, points, starts), distances_along(plane, points, ends))
    pole = np.cross(starts, ends)
    size = np.sqrt((pole**2).sum(axis=1))
    pole = pole / np.maximum(size, _TINY)[:, None]
    height = (points * pole).sum(axis=1)
    foot = points - height[:, None] * pole
    # The foot of the perpendicular lies on the arc when it is past the start and not past the end.
    past_start = (np.cross(pole, starts) * foot).sum(axis=1) >= 0
    past_end = (np.cross(pole, ends) * foot).sum(axis=1) > 0
    inner = past_start & ~past_end & (size > _TINY)
    across = EARTH_RADIUS_KM * np.abs(np.arcsin(np.clip(height, -1.0, 1.0)))
    return np.where(inner, across, at_ends)


def crossing(plane: Plane, starts: Floats, ends: Floats, a: Floats, b: Floats) -> NDArray[np.bool_]:
    """Which segments cross the segment from a to b; touching ends may count on the sphere."""
    if plane is Plane.EUCLIDEAN:
        side_of_ab = _turn(a, b, starts) * _turn(a, b, ends)
        side_of_segment = _turn_many(starts, ends, a) * _turn_many(starts, ends, b)
        return (side_of_ab < 0) & (side_of_segment < 0)
    pole, other = np.cross(a, b), np.cross(starts, ends)
    meet = np.cross(np.broadcast_to(pole, other.shape), other)
    size = np.sqrt((meet**2).sum(axis=1))
    meet = meet / np.maximum(size, _TINY)[:, None]
    crossed = np.zeros(len(starts), dtype=bool)
    for point in (meet, -meet):
        on_ab = (point @ np.cross(pole, a) >= 0) & (point @ np.cross(pole, b) <= 0)
        on_segment = ((np.cross(other, starts) * point).sum(axis=1) >= 0) & (
            (np.cross(other, ends) * point).sum(axis=1) <= 0
        )
        crossed |= on_ab & on_segment
    proper: NDArray[np.bool_] = crossed & (size > _TINY)
    return proper


def _turn(a: Floats, b: Floats, points: Floats) -> Floats:
    turn: Floats = (b[0] - a[0]) * (points[:, 1] - a[1]) - (b[1] - a[1]) * (points[:, 0] - a[0])
    return turn


def _turn_many(starts: Floats, ends: Floats, point: Floats) -> Floats:
    along = ends - starts
    turn: Floats = along[:, 0] * (point[1] - starts[:, 1]) - along[:, 1] * (point[0] - starts[:, 0])
    return turn
