"""Topology documents: the JSON format of `mangrove route`, and federations, as graphs.

Reading reports every mistake of a document at once, each with its place in the document.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

import numpy as np

from mangrove.errors import Mistakes
from mangrove.model.federation import Federation
from mangrove.routing.network.geography import Plane, line_length
from mangrove.routing.network.graph import Graph, Waypoints, make_graph

MAX_MEASURE: Final = 1e12
"""Of weights and of coordinates in the plane: sums and squares of them stay exact enough to compare."""
WEIGHT: Final = f"a weight of at least 0, at most {MAX_MEASURE:g}"
_FAILURE_KEYS: Final = ("node_failure", "edge_failure")
_KEYS: Final = ("plane", "nodes", "edges", "via", *_FAILURE_KEYS)
_FAILURES_HINT: Final = (
    'such a file looks like {"node_failure": {"a": 0.01}, "edge_failure": [["a", "b", 0.02]]}'
)
_HINT: Final = (
    'a topology looks like {"plane": "geo", "nodes": {"a": [47.6, -122.3], "b": [39.7, -105.0]}, '
    '"edges": [["a", "b", 15.0]]}'
)


def parse_topology(text: str, source: str = "topology") -> Graph:
    """The graph of a JSON topology; `InvalidDocumentError` lists all mistakes."""
    mistakes = Mistakes(source, hint=_HINT)
    return _read(_decoded(text, mistakes), mistakes)


def with_failures(graph: Graph, text: str, source: str = "failures") -> Graph:
    """The graph with the failure probabilities of a file such as `pipeline availability` writes.

    The file holds `node_failure` and `edge_failure` as a topology does. What it names must be in the graph;
    what it does not name keeps its probability.
    """
    mistakes = Mistakes(source, hint=_FAILURES_HINT)
    document = _decoded(text, mistakes)
    if not isinstance(document, dict):
        mistakes.note("", f"failure probabilities are an object, not {_kind(document)}")
        mistakes.raise_if_any()
    assert isinstance(document, dict)
    _only_known(document, _FAILURE_KEYS, "failure probabilities", mistakes)
    names = {name: number for number, name in enumerate(graph.names)}
    ends = [(int(u), int(v)) for u, v in graph.ends]
    nodes, edges = _failures(document, names, ends, mistakes)
    mistakes.raise_if_any()
    return make_graph(
        graph.names,
        graph.points,
        graph.ends,
        plane=graph.plane,
        weights=graph.weights,
        node_failure=np.where(np.isnan(nodes), graph.node_failure, nodes),
        edge_failure=np.where(np.isnan(edges), graph.edge_failure, edges),
        via=graph.via,
    )


def read_topology(document: object, source: str = "topology") -> Graph:
    """The graph of a topology already decoded from JSON."""
    return _read(document, Mistakes(source, hint=_HINT))


def topology_document(graph: Graph) -> dict[str, object]:
    """The JSON document of a graph; mistakes it back gives an equal graph."""
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
        "via": [
            [names[u], names[v], [list(place) for place in waypoints]]
            for (u, v), waypoints in zip(graph.ends, graph.via, strict=True)
            if waypoints
        ],
    }


def graph_of_federation(federation: Federation) -> Graph:
    """The overlay of a federation: domains at (latitude, longitude), links weighing what they cost.

    Where domains have numbers, these are their places; nothing leads to those that have left.
    Sites and links whose probability of failure is not known have none.
    """
    index = {name: number for number, name in enumerate(federation.numbers or federation.domains)}
    sites = [federation.domains.get(name) for name in index]
    unknown = (math.nan, math.nan)
    return make_graph(
        list(index),
        [(site.location if site is not None else None) or unknown for site in sites],
        [(index[link.between[0]], index[link.between[1]]) for link in federation.links],
        plane=Plane.GEO,
        weights=[federation.link_weight(link) for link in federation.links],
        via=[link.via for link in federation.links],
        node_failure=np.array([(site.failure_probability if site else None) or 0.0 for site in sites]),
        edge_failure=np.array([link.failure_probability or 0.0 for link in federation.links]),
    )


def _read(document: object, mistakes: Mistakes) -> Graph:
    if not isinstance(document, dict):
        mistakes.note("", f"a topology is an object, not {_kind(document)}")
        mistakes.raise_if_any()
    assert isinstance(document, dict)
    _only_known(document, _KEYS, "a topology", mistakes)
    plane = _plane(document.get("plane", "euclidean"), mistakes)
    nodes = _section(document, "nodes", dict, mistakes, needed=True)
    names = {name: number for number, name in enumerate(nodes)}
    points = _places(nodes, plane, "nodes", mistakes)
    edges = _section(document, "edges", list, mistakes, needed=True)
    ways = _ways(_section(document, "via", list, mistakes), edges, names, plane, mistakes)
    ends, weights = _edges(edges, names, points, plane, ways, mistakes)
    node_failure, edge_failure = _failures(document, names, ends, mistakes)
    mistakes.raise_if_any()
    return make_graph(
        list(names),
        points,
        ends,
        plane=plane,
        weights=np.array(weights),
        node_failure=np.nan_to_num(node_failure),
        edge_failure=np.nan_to_num(edge_failure),
        via=[ways.get(pair, ()) for pair in ends],
    )


def _decoded(text: str, mistakes: Mistakes) -> object:
    def keep_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, times in Counter(name for name, _ in pairs).items():
            if times > 1:
                mistakes.note(name, f"is given {times} times")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=keep_unique)
    except json.JSONDecodeError as error:
        mistakes.note(f"line {error.lineno}, column {error.colno}", f"not JSON: {error.msg}")
        mistakes.raise_if_any()
        raise  # never reached: there is a mistake
    except RecursionError:
        mistakes.note("", "not JSON that can be read: values in values without end")
        mistakes.raise_if_any()
        raise
    except ValueError as error:
        mistakes.note("", f"not JSON that can be read: {error}")
        mistakes.raise_if_any()
        raise


def _only_known(document: dict[str, Any], known: tuple[str, ...], what: str, mistakes: Mistakes) -> None:
    for key in document:
        if key not in known:
            mistakes.note(str(key), f"is not a field of {what}", ", ".join(known))


def _plane(value: object, mistakes: Mistakes) -> Plane:
    try:
        return Plane(value)
    except ValueError:
        mistakes.note("plane", f"{value!r} is not a plane", " or ".join(plane.value for plane in Plane))
        return Plane.EUCLIDEAN


def _section(
    document: dict[str, Any], key: str, kind: type, mistakes: Mistakes, *, needed: bool = False
) -> Any:
    value = document.get(key)
    if value is None and needed:
        mistakes.note(key, "is missing")
    elif value is not None and not isinstance(value, kind):
        mistakes.note(key, f"is {_kind(value)}", "an object" if kind is dict else "a list")
    elif value is not None:
        return value
    return kind()


def _places(nodes: Mapping[str, Any], plane: Plane, section: str, mistakes: Mistakes) -> np.ndarray[Any, Any]:
    """Coordinates of the nodes, not-a-number for those that have none (null)."""
    points = np.full((len(nodes), 2), np.nan)
    for number, (name, place) in enumerate(nodes.items()):
        path = f"{section}.{name}"
        if not name:
            mistakes.note(section, "a node has an empty name")
        if name.encode("utf-8", "ignore").decode() != name:
            mistakes.note(
                section,
                f"{name!r} has half of a character in it, which cannot be written: give it whole letters",
            )
        if place is None:
            continue
        values = _place(place, plane, path, ", or null when it is not known", mistakes)
        points[number] = [np.nan if value is None else value for value in values]
    return points


def _place(
    place: object, plane: Plane, path: str, otherwise: str, mistakes: Mistakes
) -> tuple[float | None, float | None]:
    """The two coordinates of a place; None for one that is wrong."""
    if not isinstance(place, list | tuple) or len(place) != 2:
        pair = "[latitude, longitude]" if plane is Plane.GEO else "[x, y]"
        mistakes.note(path, f"{place!r} is not a place", f"{pair}{otherwise}")
        return None, None
    bounds = (
        ((-90.0, 90.0, "latitude, -90 to 90"), (-180.0, 180.0, "longitude, -180 to 180"))
        if plane is Plane.GEO
        else ((-MAX_MEASURE, MAX_MEASURE, f"a number, {-MAX_MEASURE:g} to {MAX_MEASURE:g}"),) * 2
    )
    first, second = (
        _number(mistakes, f"{path}[{axis}]", value, *bounds[axis]) for axis, value in enumerate(place)
    )
    return first, second


def _ways(
    given: list[Any], edges: list[Any], names: Mapping[str, int], plane: Plane, mistakes: Mistakes
) -> dict[tuple[int, int], Waypoints]:
    """The waypoints of the fibres that a document knows, from the smaller end of the link to the larger."""
    links = {frozenset(map(str, edge[:2])) for edge in edges if isinstance(edge, list | tuple)}
    ways: dict[tuple[int, int], Waypoints] = {}
    seen: set[tuple[int, int]] = set()
    for number, entry in enumerate(given):
        path = f"via[{number}]"
        if not isinstance(entry, list | tuple) or len(entry) != 3 or not isinstance(entry[2], list | tuple):
            mistakes.note(path, f"{entry!r} is not the way of a fibre", "[node, node, [place, …]]")
            continue
        pair = _pair(path, (entry[0], entry[1]), names, seen, mistakes)
        if pair is not None and frozenset(map(str, entry[:2])) not in links:
            mistakes.note(path, f"there is no link between {entry[0]!r} and {entry[1]!r}")
        places = [
            _place(place, plane, f"{path}[2][{position}]", "", mistakes)
            for position, place in enumerate(entry[2])
        ]
        known = tuple((a, b) for a, b in places if a is not None and b is not None)
        if pair is not None:
            ways[pair] = known if names[str(entry[0])] == pair[0] else known[::-1]
    return ways


def _pair(
    path: str,
    ends: tuple[object, object],
    names: Mapping[str, int],
    seen: set[tuple[int, int]],
    mistakes: Mistakes,
) -> tuple[int, int] | None:
    """Indices of the two ends of a link that may exist; reports what is wrong with it otherwise."""
    known = True
    for axis, name in enumerate(ends):
        if not isinstance(name, str) or name not in names:
            mistakes.note(f"{path}[{axis}]", f"there is no node {name!r}", "the name of a node")
            known = False
    if not known:
        return None
    a, b = names[str(ends[0])], names[str(ends[1])]
    if a == b:
        mistakes.note(path, f"joins {ends[0]!r} with itself")
        return None
    pair = (min(a, b), max(a, b))
    if pair in seen:
        mistakes.note(path, f"the link between {ends[0]!r} and {ends[1]!r} is given more than once")
        return None
    seen.add(pair)
    return pair


def _edges(
    edges: list[Any],
    names: Mapping[str, int],
    points: np.ndarray[Any, Any],
    plane: Plane,
    ways: Mapping[tuple[int, int], Waypoints],
    mistakes: Mistakes,
) -> tuple[list[tuple[int, int]], list[float]]:
    ends: list[tuple[int, int]] = []
    weights: list[float] = []
    seen: set[tuple[int, int]] = set()
    for number, edge in enumerate(edges):
        path = f"edges[{number}]"
        if not isinstance(edge, list | tuple) or len(edge) not in (2, 3):
            mistakes.note(path, f"{edge!r} is not a link", "[node, node] or [node, node, weight]")
            continue
        pair = _pair(path, (edge[0], edge[1]), names, seen, mistakes)
        given = edge[2] if len(edge) == 3 else None
        if given is not None:
            weight = _number(mistakes, f"{path}[2]", given, 0.0, MAX_MEASURE, WEIGHT)
        elif pair is not None:
            weight = line_length(plane, np.array([points[pair[0]], *ways.get(pair, ()), points[pair[1]]]))
            if math.isnan(weight):
                place_is_wrong = mistakes.any_under("nodes.")
                if not place_is_wrong:
                    mistakes.note(path, "has no weight, and one of its ends has no place to measure it from")
                continue
        else:
            continue
        if pair is not None and weight is not None:
            ends.append(pair)
            weights.append(weight)
    return ends, weights


def _failures(
    document: dict[str, Any], names: Mapping[str, int], ends: list[tuple[int, int]], mistakes: Mistakes
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Failure probabilities of nodes and links, not-a-number for those that have none."""
    return (
        _node_failure(_section(document, "node_failure", dict, mistakes), names, mistakes),
        _edge_failure(_section(document, "edge_failure", list, mistakes), names, ends, mistakes),
    )


def _node_failure(
    given: dict[str, Any], names: Mapping[str, int], mistakes: Mistakes
) -> np.ndarray[Any, Any]:
    failure = np.full(len(names), np.nan)
    for name, value in given.items():
        path = f"node_failure.{name}"
        probability = _number(mistakes, path, value, 0.0, 1.0, "a probability, 0 to 1")
        if name not in names:
            mistakes.note(path, f"there is no node {name!r}", "the name of a node")
        elif probability is not None:
            failure[names[name]] = probability
    return failure


def _edge_failure(
    given: list[Any], names: Mapping[str, int], ends: list[tuple[int, int]], mistakes: Mistakes
) -> np.ndarray[Any, Any]:
    failure = np.full(len(ends), np.nan)
    number_of = {pair: number for number, pair in enumerate(ends)}
    seen: set[tuple[int, int]] = set()
    for number, entry in enumerate(given):
        path = f"edge_failure[{number}]"
        if not isinstance(entry, list | tuple) or len(entry) != 3:
            mistakes.note(path, f"{entry!r} is not a failure probability", "[node, node, probability]")
            continue
        probability = _number(mistakes, f"{path}[2]", entry[2], 0.0, 1.0, "a probability, 0 to 1")
        pair = _pair(path, (entry[0], entry[1]), names, seen, mistakes)
        if pair is None or probability is None:
            continue
        if pair in number_of:
            failure[number_of[pair]] = probability
        elif not mistakes.any_under("edges"):
            mistakes.note(path, f"there is no link between {entry[0]!r} and {entry[1]!r}")
    return failure


def _number(
    mistakes: Mistakes, path: str, value: object, low: float, high: float, allowed: str
) -> float | None:
    if not _is_number(value):
        mistakes.note(path, f"{value!r} is not a number", allowed)
    elif not low <= value <= high:
        shown = f"{value:g}" if abs(value) <= sys.float_info.max else f"a number of {len(str(value))} digits"
        mistakes.note(path, f"{shown} is out of range", allowed)
    else:
        return float(value)
    return None


def _is_number(value: object) -> TypeGuard[int | float]:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole or (isinstance(value, float) and math.isfinite(value))


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return kinds.get(type(value), "a number")
