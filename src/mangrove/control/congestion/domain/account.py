"""What an agent tells people of usefulness, limits and slow subscribers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest

from mangrove.control.congestion.controller import CongestionControl
from mangrove.control.congestion.domain.demand import SILENT, Demand
from mangrove.control.congestion.problem import CongestionProblem, PublisherDemand, TopicDemand
from mangrove.control.congestion.states import ControlState
from mangrove.control.congestion.surroundings import TopicOffer
from mangrove.control.site import Site
from mangrove.model.agents.load import UNLIMITED, Amounts, BrokerLoad, Metric
from mangrove.model.agents.usefulness import (
    CongestionStatus,
    LimitStatus,
    SlowSubscriber,
    TopicUsefulness,
)
from mangrove.model.congestion.parameters import Mode
from mangrove.model.congestion.rate_limit import LimitCause, RateLimit

MAX_LISTED = 100


def account(
    site: Site,
    control: CongestionControl,
    topics: Sequence[TopicUsefulness],
    contract: Mapping[str, Mapping[str, RateLimit]],
    demand: Demand,
    name: Callable[[str], str],
    now: float,
    *,
    slow: Callable[[int], tuple[SlowSubscriber, ...]],
    capacities: dict[str, tuple[float, float]],
    votes: int,
    refused: dict[str, int],
) -> CongestionStatus:
    """The state, the least important topics and the strictest limits first; long lists are cut."""
    limits = _congestion_limits(control, name, now)
    limits += _contract_limits(contract, demand, name)
    return CongestionStatus(
        state=control.state.value,
        since_s=now - control.since if control.state is not ControlState.CLEAR else 0.0,
        why=_why(site, control),
        topics=tuple(topics[:MAX_LISTED]),
        least_useful=_least_useful(topics[MAX_LISTED:]),
        known=len(topics),
        limits=tuple(limits[:MAX_LISTED]),
        limited=len(limits),
        slow=slow(MAX_LISTED),
        capacities=capacities,
        votes=votes,
        refused=refused,
    )


def usefulness(
    site: Site, control: CongestionControl, offers: Sequence[TopicOffer], loads: Mapping[str, BrokerLoad]
) -> list[TopicUsefulness]:
    """Topics by importance; without congestion, that at brokers filled to the low threshold."""
    importance = control.plan.importance
    if control.state is ControlState.CLEAR and offers:
        from mangrove.control.congestion.importance import importances

        low = site.balancing.low
        budgets = {
            broker: Amounts(
                *(
                    low * load.capacity[metric] if metric in load.capacity else UNLIMITED.of(metric)
                    for metric in Metric
                )
            )
            for broker, load in loads.items()
        }
        importance = importances(CongestionProblem(budgets, tuple(map(_demand, offers))))
    allowed: dict[str, float] = defaultdict(float)
    for (topic, _), limit in control.limits.items():
        allowed[topic] += limit.msg_s - limit.offered_msg_s
    found = []
    for offer in offers:
        offered = sum(each.offered_msg_s for each in offer.publishers)
        found.append(
            TopicUsefulness(
                topic=offer.topic,
                utility=offer.utility,
                importance=importance.get(offer.topic, 0.0),
                subscribers=offer.subscribers,
                publishers=len(offer.publishers),
                protected=offer.protected,
                offered_msg_s=offered,
                allowed_msg_s=max(0.0, offered + allowed[offer.topic]) if offer.topic in allowed else None,
            )
        )
    found.sort(key=lambda each: (each.allowed_msg_s is None, -each.importance, each.topic))
    return found


def _least_useful(topics: Sequence[TopicUsefulness]) -> tuple[TopicUsefulness, ...]:
    return tuple(
        nsmallest(MAX_LISTED, topics, key=lambda each: (each.utility, -each.offered_msg_s, each.topic))
    )


def _demand(offer: TopicOffer) -> TopicDemand:
    publishers = tuple(
        PublisherDemand(each.publisher, each.utility, each.offered_msg_s, each.size_bytes)
        for each in offer.publishers
    )
    return TopicDemand(
        offer.topic, offer.utility, offer.subscribers, publishers, offer.copies, offer.protected
    )


def _congestion_limits(
    control: CongestionControl, name: Callable[[str], str], now: float
) -> list[LimitStatus]:
    strictest = sorted(control.limits.items(), key=lambda each: (each[1].importance, each[0]))
    return [
        LimitStatus(
            topic=topic,
            publisher=name(publisher),
            utility=limit.utility,
            offered_msg_s=limit.offered_msg_s,
            limit=RateLimit(msg_s=limit.msg_s, cause=LimitCause.CONGESTION),
            brokers=limit.brokers,
            since_s=now - limit.since,
            probing=limit.probing,
        )
        for (topic, publisher), limit in strictest
    ]


def _contract_limits(
    contract: Mapping[str, Mapping[str, RateLimit]], demand: Demand, name: Callable[[str], str]
) -> list[LimitStatus]:
    return [
        LimitStatus(
            topic=topic,
            publisher=name(client),
            utility=None,
            offered_msg_s=demand.of(client).get(topic, SILENT).msg_s,
            limit=limit,
        )
        for client, limits in contract.items()
        for topic, limit in limits.items()
    ]


def _why(site: Site, control: CongestionControl) -> str:
    if control.state is ControlState.CLEAR:
        return ""
    if site.federation.congestion.mode is Mode.ALWAYS:
        return "the federation file says that limits are always in force"
    brokers = ", ".join(control.short)
    return f"{brokers} cannot carry what is offered, and nobody has room"
