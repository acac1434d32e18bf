"""Failover tables over random graphs and all of SNDlib: always a shortest path, never a loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.graphs import graphs, lengths_by_forwarding

from mangrove.evaluation.separation.backbones import backbone, backbone_names
from mangrove.routing.failover.colours import PreparedFailures
from mangrove.routing.failover.tables import FailoverTables, build_tables
from mangrove.routing.failover.ticks import ticks
from mangrove.routing.network.graph import Graph, make_graph
from mangrove.routing.paths.shortest import trees

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def check_every_colour(tables: FailoverTables) -> None:
    graph = tables.book.graph
    cost = ticks(graph.weights, graph.size)
    for colour, lost in zip(tables.colours, tables.book.lost_links, strict=True):
        left = cost.copy()
        left[sorted(lost)] = np.inf
        weight = np.full((graph.size, graph.size), np.inf)
        weight[graph.ends[:, 0], graph.ends[:, 1]] = weight[graph.ends[:, 1], graph.ends[:, 0]] = left
        expected = trees(graph, np.arange(graph.size), left)[0]
        found = lengths_by_forwarding(tables.next_hops[colour.number - 1].astype(np.int64), weight)
        assert np.array_equal(found, expected), f"colour {colour.number}: {colour}"


@settings(max_examples=250, deadline=None)
@given(graphs())
def test_every_failure_is_survived_on_a_shortest_path(graph: Graph) -> None:
    tables = build_tables(graph)
    check_every_colour(tables)
    for node, name in enumerate(tables.names):
        broker = tables.broker(name)
        assert np.array_equal(broker.next_hop_array()[broker.index], np.full(len(tables.colours), node))
        assert len(broker.super_table()) <= (graph.size - 1) * tables.book.graph.degree(node)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_every_pair_of_links(graph: Graph) -> None:
    check_every_colour(build_tables(graph, PreparedFailures(link_pairs=True)))


@settings(max_examples=250, deadline=None)
@given(graphs(), st.data())
def test_any_state_has_a_colour_of_its_own_or_tables_of_what_is_left(
    graph: Graph, data: st.DataObject
) -> None:
    """Any set of failed links: forwarding ends, meets no failed link, and reaches all that can be reached."""
    tables = build_tables(graph)
    whole = tables.book.graph
    failed = data.draw(st.sets(st.integers(0, whole.links - 1), max_size=4))
    state = tables.book.resolve(
        links=[whole.named(whole.ends[link]) for link in failed],  # type: ignore[misc]
    )
    left = np.array([link for link in range(whole.links) if link not in failed], dtype=np.int64)
    remaining = make_graph(whole.names, whole.points, whole.ends[left], weights=whole.weights[left])
    made_now = build_tables(remaining, PreparedFailures(links=False, nodes=False))
    check_every_colour(made_now)
    if state.exact:
        assert not set(tables.book.lost_links[state.colour - 1]) ^ failed
        prepared, now = tables_lengths(tables, state.colour), tables_lengths(made_now, 1)
        assert np.array_equal(np.isfinite(prepared), np.isfinite(now))


def tables_lengths(tables: FailoverTables, colour: int) -> Floats:
    size = len(tables.names)
    return lengths_by_forwarding(tables.next_hops[colour - 1].astype(np.int64), np.ones((size, size)))


@pytest.mark.parametrize("name", backbone_names("sndlib"))
def test_sndlib(name: str) -> None:
    check_every_colour(build_tables(backbone(f"sndlib/{name}")))


def test_sndlib_is_all_there() -> None:
    import topohub

    folder = Path(topohub.__file__).parent / "data" / "sndlib"
    assert len(backbone_names("sndlib")) == len(list(folder.glob("*.json"))) >= 20
