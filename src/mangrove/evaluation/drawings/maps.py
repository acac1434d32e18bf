"""A disaster on a map: what the region takes, and the ways that carry on around it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mangrove.evaluation.drawings.figures import INK, PALE, figure
from mangrove.routing.network.geography import EARTH_RADIUS_KM, Floats, Plane, positions
from mangrove.routing.network.graph import Graph
from mangrove.routing.paths.disaster import DisasterReport, Fate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RED, GREEN, BLUE, LAND = "#c0392b", "#1e8449", "#2e5f8a", "#eceae4"
_MAX_LABELS = 60
_WIDTH, _NARROWEST, _TALLEST, _TITLE = 11.0, 6.5, 10.5, 0.7  # inches


def draw_disaster(graph: Graph, report: DisasterReport, file: Path, title: str = "") -> None:
    """Write a PNG map of the network, the region, the broken primaries and the surviving alternatives."""
    with figure(file, *_size(graph, report)) as axes:
        _frame(axes, graph, report)
        if graph.plane is Plane.GEO:
            _land(axes)
        _region(axes, graph, report)
        broken, saved = _loads(graph, report)
        for link in range(graph.links):
            _plot(axes, graph, _line(graph, link), color="#a9a9a9", linewidth=0.8, zorder=2)
        _weighted(axes, graph, broken, RED, 3, "broken primary paths")
        _weighted(axes, graph, saved, GREEN, 4, "surviving alternatives")
        _nodes(axes, graph, report)
        touched = report.lost_before
        unit = " km" if graph.plane is Plane.GEO else ""
        axes.set_title(
            f"{title}, radius {report.region.radius:g}{unit}\n"
            f"{report.pairs} pairs: {touched} without a path on primaries alone, "
            f"{report.lost_after} with separated alternatives",
            fontsize=11,
            color=INK,
            loc="left",
        )
        axes.legend(loc="lower left", fontsize=8, framealpha=0.92, edgecolor=PALE)


def _loads(graph: Graph, report: DisasterReport) -> tuple[Counter[int], Counter[int]]:
    """How many pairs use each link on a broken primary, and on the first alternative that survives."""
    broken: Counter[int] = Counter()
    saved: Counter[int] = Counter()
    for entry in report.having(Fate.SAVED, Fate.LOST, Fate.CUT_OFF):
        if entry.paths:  # else there was no way before, either
            broken.update(graph.path_links(entry.paths[0]))
    for entry in report.having(Fate.SAVED):
        alive = next(path for path in entry.paths[1:] if not report.damage.breaks(graph, path))
        saved.update(graph.path_links(alive))
    return broken, saved


def _weighted(axes: Axes, graph: Graph, loads: Counter[int], colour: str, zorder: int, label: str) -> None:
    most = max(loads.values(), default=1)
    for number, (link, load) in enumerate(loads.items()):
        style: dict[str, Any] = {"linestyle": (0, (4, 2))} if colour == RED else {}
        _plot(
            axes,
            graph,
            _line(graph, link),
            color=colour,
            linewidth=1.2 + 3.3 * load / most,
            alpha=0.75,
            zorder=zorder,
            label=label if number == 0 else None,
            **style,
        )


def _nodes(axes: Axes, graph: Graph, report: DisasterReport) -> None:
    x, y = _drawn(graph, graph.points)
    inside = report.damage.nodes
    placed = ~np.isnan(x)
    axes.scatter(x[~inside], y[~inside], s=22, color=BLUE, zorder=6, edgecolors="white", linewidths=0.6)
    if inside.any():
        axes.scatter(
            x[inside],
            y[inside],
            s=48,
            color=RED,
            marker="X",
            zorder=7,
            edgecolors="white",
            label="nodes inside",
        )
    if graph.size <= _MAX_LABELS:
        size = 9 if graph.size <= 15 else 6.5
        for name, a, b in zip(np.array(graph.names)[placed], x[placed], y[placed], strict=True):
            axes.annotate(
                name, (a, b), xytext=(3, 4), textcoords="offset points", fontsize=size, color=INK, zorder=8
            )


def _region(axes: Axes, graph: Graph, report: DisasterReport) -> None:
    """The disc, or the discs along the track, and the track itself."""
    points = np.asarray(report.region.points, dtype=np.float64)
    track = np.concatenate([points[:1], *(_line_between(graph, a, b) for a, b in pairwise(points))])
    centres = track[~np.isnan(track[:, 0])]
    for number, centre in enumerate(centres):
        x, y = _drawn(graph, _ring(graph, centre, report.region.radius))
        label = "region" if number == 0 else None
        axes.fill(x, y, color="#f3c6c0", linewidth=0, zorder=1.5, label=label)
    if len(points) > 1:
        _plot(axes, graph, track, color=RED, linewidth=1.2, zorder=2.5)


def _ring(graph: Graph, centre: Floats, radius: float) -> Floats:
    turn = np.linspace(0, 2 * np.pi, 181)
    if graph.plane is Plane.EUCLIDEAN:
        return np.column_stack((centre[0] + radius * np.cos(turn), centre[1] + radius * np.sin(turn)))
    latitude, longitude = np.radians(centre)
    reach = min(radius / EARTH_RADIUS_KM, np.pi)
    north = np.arcsin(np.sin(latitude) * np.cos(reach) + np.cos(latitude) * np.sin(reach) * np.cos(turn))
    east = longitude + np.arctan2(
        np.sin(turn) * np.sin(reach) * np.cos(latitude), np.cos(reach) - np.sin(latitude) * np.sin(north)
    )
    ring: Floats = np.degrees(np.column_stack((north, east)))
    return ring


def _line(graph: Graph, link: int) -> Floats:
    """The fibre of a link, by its waypoints if they are known."""
    return np.concatenate([_line_between(graph, a, b) for a, b in pairwise(graph.fibre(link))])


def _line_between(graph: Graph, a: Floats, b: Floats) -> Floats:
    """Points (as the graph gives them) along the straight line or the great circle between two places."""
    share = np.linspace(0.0, 1.0, 49)[:, None]
    if graph.plane is Plane.EUCLIDEAN:
        straight: Floats = a + share * (b - a)
        return straight
    start, end = positions(graph.plane, np.array([a, b]))
    angle = np.arccos(np.clip(start @ end, -1.0, 1.0))
    if angle < 1e-9:
        return np.array([a, b])
    along = (np.sin((1 - share) * angle) * start + np.sin(share * angle) * end) / np.sin(angle)
    latitude = np.degrees(np.arcsin(np.clip(along[:, 2], -1.0, 1.0)))
    longitude = np.degrees(np.arctan2(along[:, 1], along[:, 0]))
    # Across the date line the drawing breaks instead of running back around the world.
    jumps = np.flatnonzero(np.abs(np.diff(longitude)) > 180) + 1
    line = np.column_stack((latitude, longitude))
    broken: Floats = np.insert(line, jumps, np.nan, axis=0)
    return broken


def _plot(axes: Axes, graph: Graph, line: Floats, **style: Any) -> None:
    axes.plot(*_drawn(graph, line), solid_capstyle="round", **style)


def _drawn(graph: Graph, points: Floats) -> tuple[Floats, Floats]:
    """Across and up: x and y, or longitude and latitude."""
    if graph.plane is Plane.EUCLIDEAN:
        return points[:, 0], points[:, 1]
    return points[:, 1], points[:, 0]


def _bounds(graph: Graph, others: Floats) -> tuple[float, float, float, float]:
    """Left, right, bottom, top of the network and the region, with a margin."""
    waypoints = [np.array(places) for places in graph.via if places]
    x, y = _drawn(graph, np.concatenate((graph.points, *waypoints, others)))
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]  # a domain that has left is nowhere
    wide, high = max(float(np.ptp(x)), 1e-6), max(float(np.ptp(y)), 1e-6)
    margin = 0.06 * max(wide, high)
    return float(x.min()) - margin, float(x.max()) + margin, float(y.min()) - margin, float(y.max()) + margin


def _proportion(graph: Graph, bottom: float, top: float) -> float:
    """Height of a unit up in units across: at a latitude, degrees of longitude are shorter by its cosine."""
    if graph.plane is Plane.EUCLIDEAN:
        return 1.0
    return float(1 / max(np.cos(np.radians(np.clip((bottom + top) / 2, -75, 75))), 0.2))


def _size(graph: Graph, report: DisasterReport) -> tuple[float, float]:
    """Width and height of the drawing in inches, after the shape of the network."""
    left, right, bottom, top = _bounds(graph, _outline(graph, report))
    shape = (top - bottom) * _proportion(graph, bottom, top) / (right - left)
    width = min(_WIDTH, max(_TALLEST / shape, _NARROWEST))
    return width, min(max(width * shape, 3.0), _TALLEST) + _TITLE


def _outline(graph: Graph, report: DisasterReport) -> Floats:
    return np.concatenate([_ring(graph, np.asarray(p), report.region.radius) for p in report.region.points])


def _frame(axes: Axes, graph: Graph, report: DisasterReport) -> None:
    left, right, bottom, top = _bounds(graph, _outline(graph, report))
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_aspect(_proportion(graph, bottom, top))
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_color(PALE)
    axes.set_facecolor("#f7f9fb" if graph.plane is Plane.GEO else "white")


def _land(axes: Axes) -> None:
    for ring in _rings():
        axes.fill(ring[:, 0], ring[:, 1], facecolor=LAND, edgecolor="#cfcabd", linewidth=0.5, zorder=1)


def _rings() -> Iterator[Floats]:
    """Outlines of the countries (public domain, Natural Earth 1:110 million), longitude first."""
    text = files("mangrove").joinpath("data", "world-110m.geojson").read_text(encoding="utf-8")
    for feature in json.loads(text)["features"]:
        geometry = feature["geometry"]
        many: Iterable[Any] = geometry["coordinates"]
        for polygon in [many] if geometry["type"] == "Polygon" else many:
            for ring in polygon:
                yield np.asarray(ring, dtype=np.float64)
