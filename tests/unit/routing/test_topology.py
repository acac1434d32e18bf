"""Reading topologies: JSON, BRITE and federations, and every kind of mistake in them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from mangrove.config import parse_federation
from mangrove.errors import InputError, InvalidDocumentError
from mangrove.routing.network.brite import BriteWeight, brite_text, parse_brite
from mangrove.routing.network.generators import barabasi_albert, random_network, waxman
from mangrove.routing.network.geography import Plane
from mangrove.routing.network.graph import Graph, UnknownNodeError, make_graph
from mangrove.routing.network.topology import (
    graph_of_federation,
    parse_topology,
    read_topology,
    topology_document,
)
from mangrove.routing.paths.shortest import shortest_path

GOOD: dict[str, Any] = {
    "plane": "geo",
    "nodes": {"a": [10, 20], "b": [11, 21], "c": None},
    "edges": [["a", "b"], ["b", "c", 7.5]],
    "node_failure": {"a": 0.01},
    "edge_failure": [["c", "b", 0.25]],
}


def same(a: Graph, b: Graph) -> bool:
    return (
        (a.plane, a.names) == (b.plane, b.names)
        and np.array_equal(a.points, b.points, equal_nan=True)
        and np.array_equal(a.ends, b.ends)
        and np.array_equal(a.weights, b.weights)
        and np.array_equal(a.node_failure, b.node_failure)
        and np.array_equal(a.edge_failure, b.edge_failure)
    )


def test_good_document() -> None:
    graph = read_topology(GOOD)
    assert graph.weights[0] == pytest.approx(155.9, abs=0.5)  # kilometres between (10, 20) and (11, 21)
    assert graph.weights[1] == 7.5
    assert graph.node_failure.tolist() == [0.01, 0, 0]
    assert graph.edge_failure.tolist() == [0, 0.25]
    assert same(read_topology(topology_document(graph)), graph)


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"plane": "flat"}, "plane", "not a plane"),
        ({"nodes": {"a": [91, 0], "b": [0, 0], "c": [0, 0]}}, "nodes.a[0]", "out of range"),
        ({"nodes": {"a": [0, 181], "b": [0, 0], "c": [0, 0]}}, "nodes.a[1]", "out of range"),
        ({"nodes": {"a": [0], "b": [0, 0], "c": [0, 0]}}, "nodes.a", "not a place"),
        ({"nodes": {"a": [0, "east"], "b": [0, 0], "c": [0, 0]}}, "nodes.a[1]", "not a number"),
        ({"nodes": {"a": [0, True], "b": [0, 0], "c": [0, 0]}}, "nodes.a[1]", "not a number"),
        ({"nodes": []}, "nodes", "is a list"),
        ({"nodes": None}, "nodes", "missing"),
        ({"edges": None}, "edges", "missing"),
        ({"edges": [["a", "a"], ["b", "c", 1]]}, "edges[0]", "with itself"),
        ({"edges": [["a", "b", -1], ["b", "c", 1]]}, "edges[0][2]", "out of range"),
        ({"edges": [["a", "b", math.nan], ["b", "c", 1]]}, "edges[0][2]", "not a number"),
        ({"edges": [["a", "b", 10**400], ["b", "c", 1]]}, "edges[0][2]", "401 digits is out of range"),
        ({"edges": [["a", "b", 1e308], ["b", "c", 1]]}, "edges[0][2]", "out of range"),
        ({"nodes": {"a": [10**400, 0], "b": [0, 0], "c": [0, 0]}}, "nodes.a[0]", "out of range"),
        (
            {"plane": "euclidean", "nodes": {"a": [1e308, 0], "b": [0, 0], "c": None}},
            "nodes.a[0]",
            "out of range",
        ),
        ({"nodes": {"a": None, "b": None, "c": None, "\ud800": None}}, "nodes", "half of a character"),
        ({"edges": [["a", "x"], ["b", "c", 1]]}, "edges[0][1]", "no node 'x'"),
        ({"edges": [[1, "b"], ["b", "c", 1]]}, "edges[0][0]", "no node 1"),
        ({"edges": [["a", "b"], ["b", "a", 2], ["b", "c", 1]]}, "edges[1]", "more than once"),
        ({"edges": [["a"], ["b", "c", 1]]}, "edges[0]", "not a link"),
        ({"edges": [["b", "c"]]}, "edges[0]", "no place to measure"),
        ({"node_failure": {"a": 1.5}}, "node_failure.a", "out of range"),
        ({"node_failure": {"x": 0.5}}, "node_failure.x", "no node 'x'"),
        ({"edge_failure": [["a", "c", 0.5]]}, "edge_failure[0]", "no link between"),
        ({"edge_failure": [["a", "b", -0.5]]}, "edge_failure[0][2]", "out of range"),
        ({"colour": "red"}, "colour", "not a field"),
    ],
)
def test_each_mistake_is_named_with_its_place(change: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(InvalidDocumentError) as caught:
        read_topology({**GOOD, **change}, "net.json")
    found = {mistake.path: mistake.problem for mistake in caught.value.mistakes}
    assert path in found, found
    assert words in found[path]
    assert "net.json" in caught.value.message


def test_all_mistakes_at_once() -> None:
    bad = {"plane": "geo", "nodes": {"a": [99, 0], "b": [0, 0]}, "edges": [["a", "a"], ["b", "x", -2]]}
    with pytest.raises(InvalidDocumentError) as caught:
        read_topology(bad)
    assert {mistake.path for mistake in caught.value.mistakes} == {
        "nodes.a[0]",
        "edges[0]",
        "edges[1][1]",
        "edges[1][2]",
    }


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", "nonsense", '{"nodes": {"a": [0,0], "a": [1,1]}, "edges": []}']
)
def test_text_that_is_no_topology(text: str) -> None:
    with pytest.raises(InvalidDocumentError):
        parse_topology(text)


def test_text_round_trip() -> None:
    graph = waxman(30, 2, seed=5)
    assert same(parse_topology(json.dumps(topology_document(graph))), graph)


def test_hash_is_of_the_topology_and_not_of_its_file() -> None:
    graph = read_topology(GOOD)
    shuffled = {
        **GOOD,
        "nodes": dict(reversed(GOOD["nodes"].items())),
        "edges": [["c", "b", 7.5], ["b", "a"]],
    }
    assert read_topology(shuffled).topology_hash == graph.topology_hash
    heavier = {**GOOD, "edges": [["a", "b"], ["b", "c", 7.6]]}
    assert read_topology(heavier).topology_hash != graph.topology_hash
    fewer = {**GOOD, "edges": [["a", "b"]], "edge_failure": []}
    assert read_topology(fewer).topology_hash != graph.topology_hash


def test_unknown_node_names_what_there_is() -> None:
    with pytest.raises(UnknownNodeError, match="no node 'z'") as caught:
        read_topology(GOOD).index("z")
    assert "a, b, c" in caught.value.hint


def test_a_federation_is_a_graph_of_its_domains() -> None:
    text = """
federation: f
domains:
  seattle: {location: [47.61, -122.33]}
  denver: {location: [39.74, -104.99]}
  vault: {}
links:
  - {between: [seattle, denver]}
  - {between: [vault, denver], delay_ms: 3}
  - {between: [seattle, vault]}
"""
    graph = graph_of_federation(parse_federation(text, "f.yaml").require())
    assert graph.plane is Plane.GEO
    assert graph.names == ("seattle", "denver", "vault")
    light_in_glass = 1640 / 200
    assert graph.weights == pytest.approx([light_in_glass, 3.0, 1.0], rel=0.01)


BRITE = """Topology: ( 3 Nodes, 2 Edges )
Model (1 - RTWaxman):  3 1000 100 1  2  0.15 0.2 1 1 10.0 1024.0

Nodes: ( 3 )
0\t100.0\t200.0\t1\t1\t-1\tRT_NODE
1\t400.0\t600.0\t2\t2\t-1\tRT_NODE
7\t401.0\t600.0\t1\t1\t-1\tRT_NODE

Edges: ( 2 )
0\t1\t0\t500.0\t1.667\t10.0\t-1\t-1\tE_RT\tU
1\t1\t7\t1.0\t0.0033\t10.0\t-1\t-1\tE_RT\tU
"""


def test_brite_file() -> None:
    graph = parse_brite(BRITE)
    assert graph.names == ("0", "1", "7")
    assert graph.weights.tolist() == [500.0, 1.0]
    assert parse_brite(BRITE, weight=BriteWeight.DELAY).weights.tolist() == [1.667, 0.0033]


def test_brite_round_trip() -> None:
    graph = waxman(50, 3, seed=2)
    assert same(parse_brite(brite_text(graph)), graph)


def test_brite_mistakes_by_line() -> None:
    bad = (
        BRITE.replace("7\t401.0", "7\tfar")
        .replace("0\t1\t0\t500.0", "0\t1\t1\t500.0")
        .replace("\t1.0\t", "\t-1.0\t")
    )
    with pytest.raises(InvalidDocumentError) as caught:
        parse_brite(bad, "net.brite")
    assert [mistake.path for mistake in caught.value.mistakes] == ["line 7", "line 10", "line 11"]


@pytest.mark.parametrize("text", ["", "Nodes: ( 1 )\n0 1 1\n", BRITE.replace("Edges: ( 2 )", "Edges: ( 3 )")])
def test_brite_that_is_not_whole(text: str) -> None:
    with pytest.raises(InvalidDocumentError):
        parse_brite(text)


@pytest.mark.parametrize("model", [waxman, barabasi_albert])
def test_generated_networks(model: Any) -> None:
    graph = model(200, 4, seed=3)
    assert graph.links == 6 + 196 * 4
    assert same(model(200, 4, seed=3), graph)
    assert not np.array_equal(model(200, 4, seed=4).ends, graph.ends)
    assert (np.diff(graph.arcs.starts) >= 3).all()
    for node in (1, 50, 199):
        assert shortest_path(graph, 0, node)


def test_waxman_prefers_near_nodes_and_barabasi_albert_hubs() -> None:
    near, far = waxman(400, 3, seed=1, beta=0.05), waxman(400, 3, seed=1, beta=5.0)
    assert near.weights.mean() < far.weights.mean() / 2
    hubs = np.diff(barabasi_albert(400, 3, seed=1).arcs.starts).max()
    assert hubs > 2 * np.diff(far.arcs.starts).max()


def test_random_network_has_exactly_the_links_asked_for() -> None:
    graph = random_network(32, 64, seed=9)
    assert (graph.size, graph.links) == (32, 64)
    assert all(shortest_path(graph, 0, node) for node in range(1, 32))
    with pytest.raises(InputError):
        random_network(10, 8, seed=1)
    with pytest.raises(InputError):
        waxman(5, 5, seed=1)


def test_zero_weights_are_links() -> None:
    graph = make_graph(["a", "b", "c"], [(0, 0), (0, 0), (1, 0)], [(0, 1), (1, 2)])
    assert graph.weights[0] == 0
    assert shortest_path(graph, 0, 2) == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "words"), [("[" * 100_000, "values in values without end"), ("9" * 5000, "5000 digits")]
)
def test_json_that_cannot_be_read_is_told(text: str, words: str) -> None:
    with pytest.raises(InvalidDocumentError, match=words):
        parse_topology(text)
