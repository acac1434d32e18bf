"""PEER: choose by load alone (Cheung and Jacobsen, as ePEER's §3.4 and §4.5.4 describe their method).

Only prose is published. Our reading: bundles in the order of what the source is rid of for each unit that
the acceptor pays on the worst metric; at equal price the largest first; no more than fits. No delay
requirement is looked at. When two brokers are brought closer, the trigger gives the need and caps what the
acceptor may take, so that it does not end above the source.
"""

from __future__ import annotations

import math

from mangrove.control.offloading.plan import Plan, amount_text
from mangrove.control.offloading.priorities import worst_metric
from mangrove.control.offloading.problem import Acceptor, Bundle, Choice, Problem, cost_at
from mangrove.model.agents.load import Metric


def peer(problem: Problem) -> Choice:
    """Move what relieves most for the least at the acceptor, one acceptor after the other."""
    plan = Plan(problem)
    if plan.met():
        return plan.choice()
    metric = worst_metric(problem)
    for index, acceptor in enumerate(plan.acceptors):
        for bundle in by_influence(problem.bundles, acceptor, metric):
            if plan.met():
                return plan.choice()
            if bundle.topic in plan.moved or not plan.helps(bundle.load):
                continue
            if cost_at(acceptor, bundle).fits(plan.rooms[index]):
                why = (
                    f"the largest of those left that {acceptor.broker} has room for:"
                    f" {amount_text(bundle.load.of(metric), metric)} of {metric.value}"
                )
                plan.take(bundle, index, why)
    return plan.choice()


def by_influence(bundles: tuple[Bundle, ...], acceptor: Acceptor, metric: Metric) -> list[Bundle]:
    """Bundles by relief for each unit of cost, largest first; then by relief; then by name."""
    keyed: list[tuple[float, float, str, Bundle]] = []
    for bundle in bundles:
        relief, cost = bundle.load.of(metric), cost_at(acceptor, bundle).of(metric)
        keyed.append((-relief / cost if cost > 0 else -math.inf, -relief, bundle.topic, bundle))
    keyed.sort(key=lambda entry: entry[:3])
    return [entry[3] for entry in keyed]
