"""BRITE topology files (`.brite`): read them, and write a graph as one.

A file has a header, a `Nodes:` section (id, x, y, in-degree, out-degree, AS, type) and an `Edges:` section
(id, from, to, length, delay, bandwidth, AS from, AS to, type, direction).
"""

from __future__ import annotations

import math
import re
from enum import Enum

import numpy as np

from mangrove.errors import Mistakes
from mangrove.routing.network.graph import Graph, make_graph

_SECTION = re.compile(r"^(Nodes|Edges):\s*\(\s*(\d+)\s*\)", re.IGNORECASE)
_DELAY_PER_LENGTH = 1e6 / 299_792.458  # microseconds, for a length in km at the speed of light


class BriteWeight(Enum):
    """Which column of the file weighs a link."""

    LENGTH = "length"
    DELAY = "delay"


def parse_brite(text: str, source: str = "topology", weight: BriteWeight = BriteWeight.LENGTH) -> Graph:
    """The graph of a BRITE file; `InvalidDocumentError` lists all mistakes by line."""
    mistakes = Mistakes(source, hint="a .brite file comes from the BRITE generator")
    names: dict[str, int] = {}
    points: list[tuple[float, float]] = []
    ends: dict[tuple[int, int], float] = {}
    announced: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if heading := _SECTION.match(stripped):
            section = heading[1].lower()
            announced[section] = int(heading[2])
        elif not stripped or not section:
            continue  # the header names the model and its parameters, which the graph does not need
        elif section == "nodes":
            problem = _node(stripped.split(), names, points)
            if problem:
                mistakes.note(f"line {number}", problem, "id x y …")
        else:
            problem = _edge(stripped.split(), names, ends, weight)
            if problem:
                mistakes.note(f"line {number}", problem, "id from to length delay …")
    for part, found in (("nodes", len(points)), ("edges", len(ends))):
        if part not in announced:
            mistakes.note(part, f"the file has no {part.capitalize()} section")
        elif not mistakes and announced[part] != found:
            mistakes.note(part, f"{announced[part]} are announced and {found} are there")
    mistakes.raise_if_any()
    return make_graph(list(names), points, list(ends), weights=np.array(list(ends.values())))


def brite_text(graph: Graph, model: str = "mangrove") -> str:
    """A graph as a BRITE file; the length column holds the weights."""
    degree = np.bincount(graph.ends.ravel(), minlength=graph.size)
    lines = [
        f"Topology: ( {graph.size} Nodes, {graph.links} Edges )",
        f"Model ( {model} )",
        "",
        f"Nodes: ( {graph.size} )",
        *(
            f"{node}\t{float(x)!r}\t{float(y)!r}\t{degree[node]}\t{degree[node]}\t-1\tRT_NODE"
            for node, (x, y) in enumerate(graph.points)
        ),
        "",
        f"Edges: ( {graph.links} )",
        *(
            f"{number}\t{u}\t{v}\t{float(length)!r}\t{length * _DELAY_PER_LENGTH:.6f}\t10.0\t-1\t-1\tE_RT\tU"
            for number, ((u, v), length) in enumerate(zip(graph.ends, graph.weights, strict=True))
        ),
    ]
    return "\n".join(lines) + "\n"


def _node(fields: list[str], names: dict[str, int], points: list[tuple[float, float]]) -> str:
    if len(fields) < 3:
        return "a node needs an id and two coordinates"
    if fields[0] in names:
        return f"node {fields[0]} is given more than once"
    x, y = _number(fields[1]), _number(fields[2])
    if x is None or y is None:
        return f"the coordinates {fields[1]} {fields[2]} of node {fields[0]} are not finite numbers"
    names[fields[0]] = len(points)
    points.append((x, y))
    return ""


def _edge(
    fields: list[str], names: dict[str, int], ends: dict[tuple[int, int], float], column: BriteWeight
) -> str:
    needed = 4 if column is BriteWeight.LENGTH else 5
    if len(fields) < needed:
        return f"an edge needs at least {needed} fields"
    for name in fields[1:3]:
        if name not in names:
            return f"there is no node {name}"
    u, v = sorted((names[fields[1]], names[fields[2]]))
    if u == v:
        return f"joins node {fields[1]} with itself"
    weight = _number(fields[needed - 1])
    if weight is None or weight < 0:
        return f"the {column.value} {fields[needed - 1]} is not a number of at least 0"
    if (u, v) in ends:
        return f"the link between {fields[1]} and {fields[2]} is given more than once"
    ends[(u, v)] = weight
    return ""


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
