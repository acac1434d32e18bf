"""Flow tables without an engine: the domains form a star round the first."""

from __future__ import annotations

from tests.kit.engines import federation

from mangrove.model.topics import TopicRules
from mangrove.overlay.forwarding.flows import FlowTable, OutboundFlow
from mangrove.overlay.forwarding.nearest import NearestDomains
from mangrove.overlay.network.live_map import LiveMap


def flow_table(order: tuple[str, ...], rules: TopicRules) -> FlowTable:
    """The flows of the first domain. No queue group is asked for, so a map of a few domains will do."""
    shape = federation(*((order[0], other) for other in order[1:4]), topics=rules)
    return FlowTable(order[0], order, rules, NearestDomains(LiveMap(shape, order[0])))


def flow_of(table: FlowTable, subject: str) -> OutboundFlow | None:
    """The only flow of a subject that no queue group wants."""
    routes = table.routes_of(subject, lambda _: ())
    assert len(routes) < 2
    return routes[0].flow if routes else None
