"""How strong a candidate is: the agent with the most computing power leads (RQMOM §4.6)."""

from __future__ import annotations

from mangrove.model.federation import Domain, Edge


def score_of(domain: Domain, host: str, power: float) -> float:
    """Messages per second that the brokers of a host can carry, where that is known of all hosts.

    Else `power`, which is cores × clock: the two are never compared with each other.
    """
    described: dict[str, Edge] = {"head": domain.head}
    described |= {f"edge{number}": edge for number, edge in enumerate(domain.edges, 1)}
    capacities: dict[str, float] = {}
    for each in domain.hosts:
        known = [described[broker].capacity for broker in each.brokers if broker in described]
        sums = [capacity for capacity in known if capacity is not None]
        if not known or len(sums) < len(known):
            return power
        capacities[each.name] = sum(sums)
    return capacities.get(host, power)
