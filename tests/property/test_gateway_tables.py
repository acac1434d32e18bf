"""One gateway's own tables: the same as everybody's would be, for whatever is prepared and whatever fails."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.graphs import graphs, lengths_by_forwarding

from mangrove.routing.failover.colours import ColourBook, FailureGroup, PreparedFailures, make_colours
from mangrove.routing.failover.gateway_tables import GatewayTables, PreparedNetwork
from mangrove.routing.failover.tables import build_tables
from mangrove.routing.failover.ticks import ticks
from mangrove.routing.network.graph import Graph
from mangrove.routing.paths.shortest import trees


@st.composite
def preparations(draw: st.DrawFn, graph: Graph) -> PreparedFailures:
    """Singles or pairs, with risk groups of links and nodes."""
    links = [(graph.names[u], graph.names[v]) for u, v in graph.ends.tolist()]
    groups = [
        FailureGroup(
            f"g{number}",
            tuple(draw(st.lists(st.sampled_from(links), unique=True, max_size=3))),
            tuple(draw(st.lists(st.sampled_from(graph.names), unique=True, max_size=2))),
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    node_pairs = draw(st.booleans())
    return PreparedFailures(
        groups=tuple(draw(st.permutations(groups))),
        link_pairs=node_pairs or draw(st.booleans()),
        node_pairs=node_pairs,
    )


def each_gateway(graph: Graph, prepared: PreparedFailures) -> list[GatewayTables]:
    network = PreparedNetwork(make_colours(graph, prepared))
    return [GatewayTables(network, name) for name in network.book.graph.names]


@settings(max_examples=100, deadline=None)
@given(graphs(), st.data())
def test_every_gateway_makes_the_part_that_the_super_broker_would_give_it(
    graph: Graph, data: st.DataObject
) -> None:
    prepared = data.draw(preparations(graph))
    everybody = build_tables(graph, prepared)
    for own in each_gateway(graph, prepared):
        given = everybody.broker(own.names[own.index])
        assert np.array_equal(own.table.next_hop_array(), given.next_hop_array())
        assert own.table.super_table() == given.super_table()
        for colour in data.draw(st.lists(st.integers(1, len(everybody.colours)), max_size=3)):
            failed = frozenset(graph_ends(own.book, everybody.book.lost_links[colour - 1]))
            for name in own.names:
                assert own.path(name, failed) == everybody.path(given.name, name, colour)


def graph_ends(book: ColourBook, lost: frozenset[int]) -> list[tuple[str, str]]:
    names = book.graph.names
    return [(names[u], names[v]) for u, v in book.graph.ends[sorted(lost)].tolist()]


@settings(max_examples=150, deadline=None)
@given(graphs(), st.data())
def test_gateways_with_the_same_view_bring_every_packet_home(graph: Graph, data: st.DataObject) -> None:
    """Any failures, prepared or not: each packet arrives on a shortest way, or there is none."""
    gateways = each_gateway(graph, data.draw(preparations(graph)))
    book = gateways[0].book
    whole = book.graph
    lost = frozenset(data.draw(st.sets(st.integers(0, whole.links - 1))))
    failed = frozenset(graph_ends(book, lost))
    state = book.resolve(links=failed)
    next_hops = np.full((whole.size, whole.size), -1, dtype=np.int64)
    for own in gateways:
        hops = own.table.hops(state.colour) if state.exact else own.ways(failed).hops
        assert list(hops) == list(own.ways(failed).hops), "prepared and made now are the same"
        next_hops[:, own.index] = hops
    cost = ticks(whole.weights, whole.size)
    cost[sorted(lost)] = np.inf
    weight = np.full((whole.size, whole.size), np.inf)
    weight[whole.ends[:, 0], whole.ends[:, 1]] = weight[whole.ends[:, 1], whole.ends[:, 0]] = cost
    expected = trees(whole, np.arange(whole.size), cost)[0]
    assert np.array_equal(lengths_by_forwarding(next_hops, weight), expected)


@settings(max_examples=200, deadline=None)
@given(graphs(), st.data())
def test_a_state_is_named_by_the_nearest_of_all_colours(graph: Graph, data: st.DataObject) -> None:
    """What is calculated is what a look at every colour finds."""
    book = make_colours(graph, data.draw(preparations(graph)))
    lost = frozenset(data.draw(st.sets(st.integers(0, book.graph.links - 1), max_size=5)))
    state = book.resolve(links=graph_ends(book, lost))
    ranked = [
        (len(lost - gone), len(gone - lost), number)
        for number, gone in enumerate(book.lost_links, start=1)
        if gone & lost or not lost
    ]
    assert (*min(ranked, default=(1, 0, 1)),)[2] == state.colour
    assert state.exact == (book.lost_links[state.colour - 1] == lost)
    assert [colour.number for colour in book.colours] == list(range(1, len(book.colours) + 1))
