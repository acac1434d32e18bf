"""Failover tables against the paper's example (tests/data/pcrt_triangle.json) and beyond it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mangrove.errors import InputError
from mangrove.routing.failover.colours import PreparedFailures, make_colours
from mangrove.routing.failover.tables import build_tables
from mangrove.routing.failover.ticks import NONE, ticks
from mangrove.routing.network.generators import random_network
from mangrove.routing.network.graph import Graph, make_graph

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "pcrt_triangle.json").read_text())
LINKS_ONLY = PreparedFailures(nodes=False)


def triangle() -> Graph:
    ends = [(a - 1, b - 1) for a, b in GOLDEN["links"]]
    return make_graph(["1", "2", "3"], np.full((3, 2), np.nan), ends, weights=np.ones(3))


def test_colours_of_table_iii() -> None:
    book = make_colours(triangle(), LINKS_ONLY)
    found = {str(c.number): [[int(a), int(b)] for a, b in c.links] for c in book.colours}
    assert found == GOLDEN["colours"]


def test_routing_tables_i_and_ii() -> None:
    tables = build_tables(triangle(), LINKS_ONLY)
    broker = tables.broker("1")
    for colour, table in GOLDEN["broker1"]["next_hop_by_colour"].items():
        for destination, next_hop in table.items():
            found = broker.next_hop(tables.index(destination), int(colour))
            assert tables.names[found] == str(next_hop), (colour, destination)


@pytest.mark.parametrize("prepared", [LINKS_ONLY, PreparedFailures()])
def test_super_routing_table_iv(prepared: PreparedFailures) -> None:
    """With node colours the same entries stay under the same addresses; they only serve more colours."""
    table = build_tables(triangle(), prepared).broker("1").super_table()
    found = [
        {
            "address": entry.address,
            "destination": int(entry.destination),
            "next_hop": int(entry.next_hop),
            "colours": [colour for colour in entry.colours if colour <= 4],
        }
        for entry in table
    ]
    assert found == GOLDEN["broker1"]["super_routing_table"]


def test_look_up_array_of_equation_3() -> None:
    tables = build_tables(triangle(), LINKS_ONLY)
    array = tables.broker("1").next_hop_array() + 1
    assert array.tolist() == [[1, 1, 1, 1], [2, 3, 2, 2], [3, 3, 2, 3]]
    assert tables.broker("1").addresses.tolist() == [[0, 0, 0, 0], [1, 3, 1, 1], [2, 2, 4, 2]]


def test_entries_keep_within_the_bound() -> None:
    tables = build_tables(random_network(20, 45, seed=2))
    graph = tables.book.graph
    for node, name in enumerate(tables.names):
        assert len(tables.broker(name).super_table()) <= 19 * graph.degree(node)
    size = tables.size()
    assert size.entries <= size.entries_bound
    assert size.entries < size.entries_uncondensed
    assert size.condensed_bytes < size.uncondensed_bytes


def test_look_up_agrees_with_the_tables() -> None:
    tables = build_tables(random_network(12, 20, seed=3))
    for node, name in enumerate(tables.names):
        broker = tables.broker(name)
        for colour in tables.colours:
            for destination in range(12):
                expected = int(tables.next_hops[colour.number - 1, destination, node])
                assert broker.next_hop(destination, colour.number) == expected


def test_order_of_the_file_does_not_matter() -> None:
    graph = random_network(15, 30, seed=4)
    order = np.random.default_rng(1).permutation(15)
    rank = np.argsort(order)
    links = np.random.default_rng(2).permutation(30)
    shuffled = make_graph(
        [graph.names[i] for i in order],
        graph.points[order],
        rank[graph.ends][links],
        weights=graph.weights[links],
    )
    one, other = build_tables(graph), build_tables(shuffled)
    assert one.version == other.version
    assert one.colours == other.colours
    assert np.array_equal(one.next_hops, other.next_hops)


def test_version_tells_topologies_and_scopes_apart() -> None:
    graph = random_network(10, 15, seed=1)
    heavier = make_graph(graph.names, graph.points, graph.ends, weights=graph.weights * 1.0001)
    versions = {
        build_tables(graph).version,
        build_tables(heavier).version,
        build_tables(graph, LINKS_ONLY).version,
        build_tables(graph, PreparedFailures(link_pairs=True)).version,
    }
    assert len(versions) == 4


def test_unreachable_destination_has_no_entry() -> None:
    line = make_graph(list("abc"), [(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 2)])
    tables = build_tables(line)
    broker = tables.broker("a")
    cut = tables.book.resolve(links=[("a", "b")])
    assert cut.exact
    assert broker.next_hop(tables.index("c"), cut.colour) == NONE
    assert all(cut.colour not in entry.colours for entry in broker.super_table())
    assert tables.path("a", "c", cut.colour) == ()
    assert tables.path("a", "c") == ("a", "b", "c")


def test_decimal_ties_are_ties() -> None:
    """0.1 + 0.2 is 0.3: the first next hop by name wins, although floats disagree."""
    graph = make_graph(
        list("sabt"),
        np.full((4, 2), np.nan),
        [(0, 1), (1, 3), (0, 2), (2, 3)],
        weights=np.array([0.1, 0.2, 0.15, 0.15]),
    )
    assert build_tables(graph).path("s", "t") == ("s", "a", "t")


def test_ticks_are_whole_and_exact() -> None:
    weights = np.random.default_rng(1).uniform(0, 5000, 600)
    whole = ticks(weights, 200)
    assert (whole == np.rint(whole)).all()
    assert whole.max() * 200 < 2**53
    assert np.allclose(whole / whole.max(), weights / weights.max(), rtol=1e-9, atol=1e-9)
    assert ticks(np.zeros(3), 5).tolist() == [1, 1, 1]


def test_zero_weights_do_not_loop() -> None:
    graph = make_graph(list("abcd"), [(0, 0)] * 4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    tables = build_tables(graph)
    assert tables.path("a", "d") == ("a", "c", "d")


def test_dead_node_and_loss_of_all_its_links_are_one_state() -> None:
    book = make_colours(random_network(10, 20, seed=5), PreparedFailures())
    links = [
        (book.graph.names[u], book.graph.names[v])
        for u, v in book.graph.ends
        if "3" in (book.graph.names[u], book.graph.names[v])
    ]
    assert book.resolve(nodes=["3"]).colour == book.resolve(links=links).colour


def test_two_links_of_one_node_are_covered_by_its_colour() -> None:
    """A state without a colour of its own; the node's colour covers both links and avoids them."""
    square = make_graph(
        list("abcde"),
        [(0, 0), (1, 0), (1, 1), (0, 1), (2, 2)],
        [(0, 1), (1, 2), (2, 3), (0, 3), (1, 4), (2, 4)],
    )
    tables = build_tables(square)
    state = tables.book.resolve(links=[("a", "b"), ("b", "c")])
    assert not state.exact
    assert tables.colours[state.colour - 1].nodes == ("b",)


def test_two_links_far_apart_are_covered_in_part() -> None:
    ring = make_graph(
        [str(i) for i in range(6)], [(0, 0)] * 6, [(i, (i + 1) % 6) for i in range(6)], weights=np.ones(6)
    )
    tables = build_tables(ring)
    state = tables.book.resolve(links=[("0", "1"), ("3", "4")])
    assert not state.exact
    assert len(tables.colours[state.colour - 1].links) == 1
    with_pairs = build_tables(ring, PreparedFailures(link_pairs=True)).book.resolve(
        links=[("0", "1"), ("3", "4")]
    )
    assert with_pairs.exact


def test_unknown_names_in_a_state() -> None:
    book = make_colours(triangle(), PreparedFailures())
    with pytest.raises(InputError, match="no node"):
        book.resolve(nodes=["9"])
    with pytest.raises(InputError, match="no link"):
        build_tables(random_network(6, 6, seed=1)).book.resolve(links=[("0", "0")])


def test_too_many_colours_are_refused_before_the_work() -> None:
    with pytest.raises(InputError, match="GiB"):
        build_tables(random_network(200, 600, seed=1), PreparedFailures(link_pairs=True))


def test_progress_is_told() -> None:
    heard: list[tuple[int, int]] = []
    build_tables(triangle(), on_colour=lambda done, of: heard.append((done, of)))
    assert heard[-1] == (7, 7)


@pytest.mark.parametrize("heaviest", [5e-324, 1e-300, 1e300, 1e308])
def test_ticks_of_weights_at_the_ends_of_what_a_number_can_be(heaviest: float) -> None:
    found = ticks(np.array([heaviest, heaviest, 0.0]), 10)
    assert found[0] == found[1] >= found[2] == 1.0
    assert found.sum() * 10 < 2.0**53
