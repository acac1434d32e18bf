"""Topology documents: the JSON format of `mangrove route`, and federations, as graphs.

Reading reports every mistake of a document at once, each with its place in the document.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from mangrove.errors import InvalidDocumentError, Mistake
from mangrove.model.federation import Federation
from mangrove.routing.geography import Plane, distances_along, positions
from mangrove.routing.graph import Graph, make_graph

_KEYS: Final = ("plane", "nodes", "edges", "node_failure", "edge_failure")
_HINT: Final = (
    'a topology looks like {"plane": "geo", "nodes": {"a": [47.6, -122.3], "b": [39.7, -105.0]}, '
    '"edges": [["a", "b", 15.0]]}'
)


class _Reading:
    """One pass over a document, collecting its mistakes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.mistakes: list[Mistake] = []

    def wrong(self, path: str, problem: str, allowed: str = "") -> None:
        self.mistakes.append(Mistake(path, problem, allowed))

    def number(self, path: str, value: object, low: float, high: float, allowed: str) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.wrong(path, f"{value!r} is not a number", allowed)
        elif not low <= value <= high:
            self.wrong(path, f"{value:g} is out of range", allowed)
        else:
            return float(value)
        return None

    def finish(self) -> None:
        if self.mistakes:
            raise InvalidDocumentError(self.source, self.mistakes, hint=_HINT)


def parse_topology(text: str, source: str = "topology") -> Graph:
    """The graph of a JSON topology; `InvalidDocumentError` lists all mistakes."""
    reading = _Reading(source)

    def keep_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, times in Counter(name for name, _ in pairs).items():
            if times > 1:
                reading.wrong(name, f"is given {times} times")
        return dict(pairs)

    try:
        document = json.loads(text, object_pairs_hook=keep_unique)
    except json.JSONDecodeError as error:
        reading.wrong(f"line {error.lineno}, column {error.colno}", f"not JSON: {error.msg}")
        document = None
        reading.finish()
    return _read(document, reading)


def read_topology(document: object, source: str = "topology") -> Graph:
    """The graph of a topology already decoded from JSON."""
    return _read(document, _Reading(source))


def topology_document(graph: Graph) -> dict[str, object]:
    """The JSON document of a graph; reading it back gives an equal graph."""
    names = graph.names
    placed = [None if math.isnan(x) else [float(x), float(y)] for x, y in graph.points]
    return {
        "plane": graph.plane.value,
        "nodes": dict(zip(names, placed, strict=True)),
        "edges": [
            [names[u], names[v], float(weight)]
            for (u, v), weight in zip(graph.ends, graph.weights, strict=True)
        ],
        "node_failure": {name: float(p) for name, p in zip(names, graph.node_failure, strict=True) if p > 0},
        "edge_failure": [
            [names[u], names[v], float(p)]
            for (u, v), p in zip(graph.ends, graph.edge_failure, strict=True)
            if p > 0
        ],
    }


def graph_of_federation(federation: Federation) -> Graph:
    """The overlay of a federation: domains at (latitude, longitude), links weighing what they cost."""
    index = {name: number for number, name in enumerate(federation.domains)}
    unknown = (math.nan, math.nan)
    return make_graph(
        list(index),
        [domain.location or unknown for domain in federation.domains.values()],
        [(index[link.between[0]], index[link.between[1]]) for link in federation.links],
        plane=Plane.GEO,
        weights=[federation.link_weight(link) for link in federation.links],
    )


def _read(document: object, reading: _Reading) -> Graph:
    if not isinstance(document, dict):
        reading.wrong("", f"a topology is an object, not {_kind(document)}")
        reading.finish()
    assert isinstance(document, dict)
    for key in document:
        if key not in _KEYS:
            reading.wrong(str(key), "is not a field of a topology", ", ".join(_KEYS))
    plane = _plane(document.get("plane", "euclidean"), reading)
    nodes = _section(document, "nodes", dict, reading, needed=True)
    names = {name: number for number, name in enumerate(nodes)}
    points = _places(nodes, plane, "nodes", reading)
    ends, weights = _edges(
        _section(document, "edges", list, reading, needed=True), names, points, plane, reading
    )
    node_failure = _node_failure(_section(document, "node_failure", dict, reading), names, reading)
    edge_failure = _edge_failure(_section(document, "edge_failure", list, reading), names, ends, reading)
    reading.finish()
    return make_graph(
        list(names),
        points,
        ends,
        plane=plane,
        weights=np.array(weights),
        node_failure=node_failure,
        edge_failure=edge_failure,
    )


def _plane(value: object, reading: _Reading) -> Plane:
    try:
        return Plane(value)
    except ValueError:
        reading.wrong("plane", f"{value!r} is not a plane", " or ".join(plane.value for plane in Plane))
        return Plane.EUCLIDEAN


def _section(
    document: dict[str, Any], key: str, kind: type, reading: _Reading, *, needed: bool = False
) -> Any:
    value = document.get(key)
    if value is None and needed:
        reading.wrong(key, "is missing")
    elif value is not None and not isinstance(value, kind):
        reading.wrong(key, f"is {_kind(value)}", "an object" if kind is dict else "a list")
    elif value is not None:
        return value
    return kind()


def _places(nodes: Mapping[str, Any], plane: Plane, section: str, reading: _Reading) -> np.ndarray[Any, Any]:
    """Coordinates of the nodes, not-a-number for those that have none (null)."""
    points = np.full((len(nodes), 2), np.nan)
    bounds = (
        ((-90.0, 90.0, "latitude, -90 to 90"), (-180.0, 180.0, "longitude, -180 to 180"))
        if plane is Plane.GEO
        else ((-math.inf, math.inf, "a finite number"),) * 2
    )
    for number, (name, place) in enumerate(nodes.items()):
        path = f"{section}.{name}"
        if not name:
            reading.wrong(section, "a node has an empty name")
        if place is None:
            continue
        if not isinstance(place, list | tuple) or len(place) != 2:
            pair = "[latitude, longitude]" if plane is Plane.GEO else "[x, y]"
            reading.wrong(path, f"{place!r} is not a place", f"{pair}, or null when it is not known")
            continue
        values = [reading.number(f"{path}[{axis}]", value, *bounds[axis]) for axis, value in enumerate(place)]
        points[number] = [np.nan if value is None else value for value in values]
    return points


def _pair(
    path: str,
    ends: tuple[object, object],
    names: Mapping[str, int],
    seen: set[tuple[int, int]],
    reading: _Reading,
) -> tuple[int, int] | None:
    """Indices of the two ends of a link that may exist; reports what is wrong with it otherwise."""
    known = True
    for axis, name in enumerate(ends):
        if not isinstance(name, str) or name not in names:
            reading.wrong(f"{path}[{axis}]", f"there is no node {name!r}", "the name of a node")
            known = False
    if not known:
        return None
    a, b = names[str(ends[0])], names[str(ends[1])]
    if a == b:
        reading.wrong(path, f"joins {ends[0]!r} with itself")
        return None
    pair = (min(a, b), max(a, b))
    if pair in seen:
        reading.wrong(path, f"the link between {ends[0]!r} and {ends[1]!r} is given more than once")
        return None
    seen.add(pair)
    return pair


def _edges(
    edges: list[Any], names: Mapping[str, int], points: np.ndarray[Any, Any], plane: Plane, reading: _Reading
) -> tuple[list[tuple[int, int]], list[float]]:
    on = positions(plane, points)
    ends: list[tuple[int, int]] = []
    weights: list[float] = []
    seen: set[tuple[int, int]] = set()
    for number, edge in enumerate(edges):
        path = f"edges[{number}]"
        if not isinstance(edge, list | tuple) or len(edge) not in (2, 3):
            reading.wrong(path, f"{edge!r} is not a link", "[node, node] or [node, node, weight]")
            continue
        pair = _pair(path, (edge[0], edge[1]), names, seen, reading)
        given = edge[2] if len(edge) == 3 else None
        if given is not None:
            weight = reading.number(f"{path}[2]", given, 0.0, math.inf, "a weight of at least 0")
        elif pair is not None:
            weight = float(distances_along(plane, on[[pair[0]]], on[[pair[1]]])[0])
            if math.isnan(weight):
                place_is_wrong = any(mistake.path.startswith("nodes.") for mistake in reading.mistakes)
                if not place_is_wrong:
                    reading.wrong(path, "has no weight, and one of its ends has no place to measure it from")
                continue
        else:
            continue
        if pair is not None and weight is not None:
            ends.append(pair)
            weights.append(weight)
    return ends, weights


def _node_failure(given: dict[str, Any], names: Mapping[str, int], reading: _Reading) -> np.ndarray[Any, Any]:
    failure = np.zeros(len(names))
    for name, value in given.items():
        path = f"node_failure.{name}"
        probability = reading.number(path, value, 0.0, 1.0, "a probability, 0 to 1")
        if name not in names:
            reading.wrong(path, f"there is no node {name!r}", "the name of a node")
        elif probability is not None:
            failure[names[name]] = probability
    return failure


def _edge_failure(
    given: list[Any], names: Mapping[str, int], ends: list[tuple[int, int]], reading: _Reading
) -> np.ndarray[Any, Any]:
    failure = np.zeros(len(ends))
    number_of = {pair: number for number, pair in enumerate(ends)}
    seen: set[tuple[int, int]] = set()
    for number, entry in enumerate(given):
        path = f"edge_failure[{number}]"
        if not isinstance(entry, list | tuple) or len(entry) != 3:
            reading.wrong(path, f"{entry!r} is not a failure probability", "[node, node, probability]")
            continue
        probability = reading.number(f"{path}[2]", entry[2], 0.0, 1.0, "a probability, 0 to 1")
        pair = _pair(path, (entry[0], entry[1]), names, seen, reading)
        if pair is None or probability is None:
            continue
        if pair in number_of:
            failure[number_of[pair]] = probability
        elif not any(mistake.path.startswith("edges") for mistake in reading.mistakes):
            reading.wrong(path, f"there is no link between {entry[0]!r} and {entry[1]!r}")
    return failure


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return kinds.get(type(value), "a number")
