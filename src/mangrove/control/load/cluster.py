"""A domain's load as its neighbours learn it (ePEER §4.4.1.3)."""

from __future__ import annotations

from collections.abc import Sequence

from mangrove.model.agents.load import BrokerLoad, ClusterLoad, LoadState, Metric

UNKNOWN_HEADROOM = 1.0
"""Of a broker whose capacity nobody knows: nothing of it is known to be used."""


def ranking_headroom(load: BrokerLoad) -> float:
    """Headroom for comparing brokers."""
    return UNKNOWN_HEADROOM if load.headroom is None else load.headroom


def cluster_load(head: BrokerLoad, edges: Sequence[BrokerLoad]) -> ClusterLoad:
    """The state of the head and of the edges, and what they have left.

    Brokers that do not answer or were not measured yet are left out, and a domain in which none is left is as
    good as overloaded: nothing may be sent there. A domain without edges serves subscribers at its head.
    """
    serving = [edge for edge in (edges or [head]) if _known(edge)]
    low = [edge for edge in serving if edge.state is LoadState.LOW]
    best = max(low or serving, key=ranking_headroom, default=None)
    return ClusterLoad(
        head=head.state if _known(head) else LoadState.OVERLOAD,
        edges=edges_state(serving),
        head_remaining=dict(head.remaining) if _known(head) else {},
        edges_remaining=_sum(serving),
        largest_edge={} if best is None else dict(best.remaining),
        headroom=None if best is None else best.headroom,
    )


def edges_state(edges: Sequence[BrokerLoad]) -> LoadState:
    """LOW if any is, OVERLOAD if all are (or there is none), BUSY if all are, else HIGH."""
    states = {edge.state for edge in edges} or {LoadState.OVERLOAD}
    if LoadState.LOW in states:
        return LoadState.LOW
    return states.pop() if len(states) == 1 else LoadState.HIGH


def _known(load: BrokerLoad) -> bool:
    return load.reachable and len(load.utilisation) == len(load.capacity)


def _sum(edges: Sequence[BrokerLoad]) -> dict[Metric, float]:
    """What all edges have left together; a metric that some edge does not know is left out."""
    return {
        metric: sum(max(0.0, edge.remaining[metric]) for edge in edges)
        for metric in Metric
        if edges and all(metric in edge.remaining for edge in edges)
    }
