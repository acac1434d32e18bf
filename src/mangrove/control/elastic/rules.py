"""When a broker is not needed, and when one more is (RQMOM §3.3.3): by how much of the brokers is in use."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence

from mangrove.control.site import Site
from mangrove.model.agents.load import BrokerLoad, LoadState, Metric
from mangrove.model.plans.plan import Plan

OFF_BELOW = 0.3
"""A broker is spare if the others would be used to no more than that without it, on every metric."""
ON_ABOVE = 0.6
"""One more is started when those that are on are used to more than that on any metric: long before the
threshold at which they would be HIGH, since a start and the moves take their time."""


def use(loads: Sequence[BrokerLoad], without: str = "") -> float | None:
    """How much of the brokers is in use, on the worst metric, if one were not there; None: unknown."""
    shares = []
    for metric in Metric:
        known = [load for load in loads if metric in load.utilisation]
        capacity = sum(load.capacity[metric] for load in known if load.broker != without)
        if len(known) < len(loads) or not capacity:
            continue
        shares.append(sum(load.utilisation[metric] * load.capacity[metric] for load in known) / capacity)
    return max(shares, default=None)


def shortage(loads: Sequence[BrokerLoad]) -> str:
    """Why one more broker is needed, or nothing."""
    share = use(loads)
    busy = [load.broker for load in loads if load.measured is not LoadState.LOW]
    if busy:
        return f"{', '.join(busy)} {'is' if len(busy) == 1 else 'are'} highly loaded"
    if share is not None and share > ON_ABOVE:
        return f"brokers are used to {share:.0%}"
    return ""


def spare(loads: Sequence[BrokerLoad], site: Site, mirrors: bool, planned: Collection[str] = ()) -> str:
    """The broker that can go best, or nothing; one that the plan has off at such a load goes first.

    With `mirrors` two edges stay, on two hosts where there are several: a mirror needs a second place.
    """
    possible: dict[str, float] = {}
    for load in loads:
        share = use(loads, without=load.broker)
        left = [each.broker for each in loads if each.broker != load.broker]
        if share is not None and share <= OFF_BELOW and _enough(left, loads, site, mirrors):
            possible[load.broker] = share
    by_load: Mapping[str, float] = {load.broker: load.messages_in_s + load.messages_out_s for load in loads}
    # Of equals the last of the succession goes: the first ones are heads one day.
    order = {broker: -place for place, broker in enumerate(site.brokers)}
    return min(possible, key=lambda each: (each not in planned, by_load[each], order[each]), default="")


def off_by_plan(plan: Plan | None, loads: Sequence[BrokerLoad]) -> tuple[str, ...]:
    """Brokers that the plan in force has off at the load as it is, by its case for low loads."""
    if plan is None or plan.figures is None:
        return ()
    packed = plan.figures.mean_rate_msg_s
    planned = sum(struct.unpack(f"<{len(packed) // 4}f", packed))
    if planned <= 0.0:
        return ()
    case = plan.case_for(frozenset(), sum(load.messages_in_s for load in loads) / planned)
    return () if case is None else case.off


def _enough(left: Sequence[str], loads: Sequence[BrokerLoad], site: Site, mirrors: bool) -> bool:
    if len(left) < (2 if mirrors else 1):
        return False
    hosts_now = {site.machine(load.broker) for load in loads}
    return len(hosts_now) < 2 or len({site.machine(broker) for broker in left}) > 1
