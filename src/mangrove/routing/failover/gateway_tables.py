"""What one gateway keeps: its own condensed table for all prepared failures, and the ways of the moment.

Nobody computes the tables of all brokers. A gateway makes a tree of its own ways once, and for each prepared
failure only what hangs on the links that are gone. A pair of failures begins with the tree of one of them;
mostly the other has no part in it, and nothing is to be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from mangrove.errors import InputError
from mangrove.model.federation import Federation, Prepare
from mangrove.model.site_pair import SitePair
from mangrove.routing.failover.colours import (
    ColourBook,
    FailureGroup,
    Loss,
    PreparedFailures,
    Resolution,
    make_colours,
)
from mangrove.routing.failover.condensed import MAX_BROKERS, BrokerTable, ColumnsMet
from mangrove.routing.failover.ways import Neighbourhood, Ways, ways_from
from mangrove.routing.network.topology import graph_of_federation


class PreparedNetwork:
    """What the tables of all gateways of a network have in common; made once where several are simulated."""

    def __init__(self, book: ColourBook) -> None:
        if book.graph.size > MAX_BROKERS:
            raise InputError(
                f"failover tables are made for up to {MAX_BROKERS} brokers, not {book.graph.size}"
            )
        self.book = book
        self.near = Neighbourhood(book.graph)

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """What is gone when an element fails: each link, then each node."""
        return (*(frozenset({link}) for link in range(self.book.graph.links)), *self.book.links_at)


class GatewayTables:
    """One gateway's next hops for every prepared failure, and its ways whatever has failed."""

    def __init__(self, network: PreparedNetwork, name: str) -> None:
        self.book = network.book
        self.index = self.book.graph.index(name)
        self._ways = ways_from(network.near, self.index)
        self.table = _table(network, self._ways, self.index)

    @property
    def names(self) -> tuple[str, ...]:
        """Brokers in the order of their indices: of their numbers."""
        return self.book.graph.names

    def resolve(self, failed: frozenset[SitePair]) -> Resolution:
        """The colour of a state of the network."""
        return self.book.resolve(links=failed)

    def ways(self, failed: frozenset[SitePair] = frozenset()) -> Ways:
        """The ways from this gateway while some links are down, prepared or not."""
        return self._ways.without(self.book.loss_of(failed))

    def path(self, destination: str, failed: frozenset[SitePair] = frozenset()) -> tuple[str, ...]:
        """The way that hop-by-hop forwarding takes from here; empty when there is none."""
        graph = self.book.graph
        return graph.named(self.ways(failed).to(graph.index(destination)))


def prepared_failures(federation: Federation) -> PreparedFailures:
    """The failures that a federation wants to be prepared for."""
    pairs = federation.prepare is Prepare.PAIRS
    groups = tuple(
        FailureGroup(name, group.links, group.sites) for name, group in federation.risk_groups.items()
    )
    return PreparedFailures(groups=groups, link_pairs=pairs, node_pairs=pairs)


def prepared_network(federation: Federation) -> PreparedNetwork:
    """The network of a federation, with the failures that it is prepared for."""
    graph = graph_of_federation(federation)
    # Without numbers, those are given by name, as colours are.
    numbered = bool(federation.numbers)
    return PreparedNetwork(make_colours(graph, prepared_failures(federation), numbered=numbered))


def tables_by_domain(federation: Federation) -> Mapping[str, GatewayTables]:
    """The tables of every gateway, as each makes them for itself."""
    network = prepared_network(federation)
    return {name: GatewayTables(network, name) for name in network.book.graph.names}


def _table(network: PreparedNetwork, ways: Ways, index: int) -> BrokerTable:
    book = network.book
    met = ColumnsMet(len(book.colours))
    met.of[0] = met.add(ways.hops.tobytes())
    prepared, links = book.prepared, book.graph.links
    wanted = [*range(links if prepared.links else 0)]
    wanted += range(links, links + book.graph.size if prepared.nodes else links)
    for element in wanted:
        hops = ways.hops_without(network.losses[element])
        met.of[book.single_number(element) - 1] = met.add(hops.tobytes())
    for place, lost in enumerate(book.group_losses):
        met.of[book.group_number(place) - 1] = met.add(ways.hops_without(lost).tobytes())
    if prepared.link_pairs:
        _add_pairs(network, ways, met)
    return met.condensed(book.graph.names, index)


def _add_pairs(network: PreparedNetwork, ways: Ways, met: ColumnsMet) -> None:
    """Every pair of links, and with nodes every pair of elements."""
    book, losses = network.book, network.losses
    count = len(losses) if book.prepared.node_pairs else book.graph.links
    bits = [sum(1 << link for link in lost) for lost in losses[:count]]
    trees = [ways.without(lost) for lost in losses[:count]]
    columns = [met.add(tree.hops.tobytes()) for tree in trees]
    in_use = [tree.links_in_use for tree in trees]
    for first in range(count):
        tree, used, column, mine = trees[first], in_use[first], columns[first], bits[first]
        for second in range(first + 1, count):
            if not bits[second] & used:
                found = column
            elif not mine & in_use[second]:
                found = columns[second]
            else:
                found = met.add(tree.hops_without(losses[second]).tobytes())
            met.of[book.pair_number(first, second) - 1] = found
