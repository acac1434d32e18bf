"""From what publishers offer and brokers can carry to what everybody may say.

Figures that hardly change are kept (`steadiness`), so that a plan is the same as long as load is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mangrove.control.congestion.problem import (
    CongestionProblem,
    PublisherDemand,
    Select,
    Selection,
    TopicDemand,
)
from mangrove.control.congestion.steadiness import Peaks, Steady
from mangrove.control.congestion.surroundings import PublisherOffer, TopicOffer
from mangrove.model.agents.load import Amounts, Metric
from mangrove.model.congestion.parameters import Congestion

Key = tuple[str, str]
"""Topic and publisher."""

PERIODS = 8
"""Of so many periods, a publisher's demand is the highest: what was just silent may speak again."""
DEMAND_TOLERANCE = 0.05
ALL_BUT = 0.03
"""Who may say all but this part of what it would is not limited."""


class Planned(msgspec.Struct, frozen=True):
    """One publisher in a plan."""

    offer: TopicOffer
    publisher: PublisherOffer
    demand_msg_s: float
    allowed_msg_s: float
    importance: float
    probing: bool
    """Whether it was stopped, and may say no more than what it can be judged by."""

    @property
    def limited(self) -> bool:
        """Whether it may not say all that it would."""
        return self.allowed_msg_s < self.demand_msg_s * (1.0 - ALL_BUT)


class Plan(msgspec.Struct, frozen=True):
    """What everybody may say."""

    publishers: Mapping[Key, Planned] = msgspec.field(default_factory=dict)
    """All that are not protected."""
    importance: Mapping[str, float] = msgspec.field(default_factory=dict)
    short: Mapping[str, Amounts] = msgspec.field(default_factory=dict)
    """By how much protected topics alone exceed a budget."""
    budgets: Mapping[str, Amounts] = msgspec.field(default_factory=dict)
    wanted: Mapping[str, Amounts] = msgspec.field(default_factory=dict)
    """What all that is offered, protected or not, would take of each broker that has a budget."""

    def exceeded(self, broker: str) -> bool:
        """Whether more is offered than a broker can carry."""
        return self.exceeded_on(broker) is not None

    def exceeded_on(self, broker: str) -> Metric | None:
        """The metric on which the offers exceed what a broker can carry by most, if they do."""
        budget, wanted = self.budgets.get(broker), self.wanted.get(broker)
        return None if budget is None or wanted is None else _excess(wanted, budget)

    def exceeds(self, broker: str, budget: Amounts) -> bool:
        """Whether more is offered than this budget; also if nothing is known yet."""
        wanted = self.wanted.get(broker)
        return wanted is None or _excess(wanted, budget) is not None


class Planner:
    """Makes plans, period after period."""

    def __init__(self, congestion: Congestion, select: Select | None = None) -> None:
        """`select` is the federation file's selection, unless an experiment has another.

        What plans are made with is loaded with the first of them: an agent may never need one.
        """
        self._congestion = congestion
        self._select = select
        self._demands: Peaks[Key] = Peaks(PERIODS, DEMAND_TOLERANCE)
        self._utilities: Steady[Key] = Steady()
        self._ranks: dict[str, float] = {}

    def plan(self, offers: Sequence[TopicOffer], budgets: Mapping[str, Amounts]) -> Plan:
        """What everybody may say so that no broker carries more than its budget."""
        from mangrove.control.congestion.importance import importances, steady_ranks

        demands = {
            (offer.topic, each.publisher): self._demand(offer, each)
            for offer in offers
            for each in offer.publishers
        }
        self._demands.keep_only(demands.keys())
        self._utilities.keep_only(demands.keys())
        probes = self._probes(offers, demands, budgets)
        left = _minus(budgets, offers, probes)
        topics = tuple(self._topic(offer, demands, probes) for offer in offers)
        problem = CongestionProblem(left, topics, stop_at_first=self._congestion.stop_at_first)
        self._ranks = steady_ranks(self._ranks, importances(problem), self._congestion.hysteresis)
        ranked = tuple(replace(topic, rank=self._ranks[topic.topic]) for topic in topics)
        selection = self._choose(replace(problem, topics=ranked))
        planned: dict[Key, Planned] = {}
        for offer in offers:
            if offer.protected:
                continue
            for each in offer.publishers:
                key = (offer.topic, each.publisher)
                chosen, probe, demand = selection.allowed[key], probes[key], demands[key]
                allowed = min(demand, chosen + probe)
                probing = not chosen and allowed < demand
                planned[key] = Planned(offer, each, demand, allowed, self._ranks[offer.topic], probing)
        return Plan(planned, dict(self._ranks), selection.short, budgets, _load(budgets, offers, demands))

    def _choose(self, problem: CongestionProblem) -> Selection:
        """First everybody up to its region, then what is left beyond: nobody is silenced for nothing."""
        from mangrove.control.congestion.assessment import used
        from mangrove.control.congestion.regions import cut_to_regions
        from mangrove.control.congestion.selection.registry import select_named

        select = self._select or select_named(self._congestion.selection)
        first = select(cut_to_regions(problem, self._congestion))
        taken = used(problem, first.allowed)
        rest = tuple(
            replace(
                topic,
                publishers=tuple(
                    replace(each, msg_s=max(0.0, each.msg_s - first.allowed[topic.topic, each.publisher]))
                    for each in topic.publishers
                ),
            )
            for topic in problem.topics
            if not topic.protected
            and any(first.allowed[topic.topic, each.publisher] < each.msg_s for each in topic.publishers)
        )
        if not rest:
            return first
        left = {broker: _left(budget, taken[broker]) for broker, budget in problem.budgets.items()}
        second = select(replace(problem, budgets=left, topics=rest))
        allowed = {key: rate + second.allowed.get(key, 0.0) for key, rate in first.allowed.items()}
        return replace(first, allowed=allowed)

    def forget(self) -> None:
        """Nobody is limited: the next plan begins anew."""
        self._demands.clear()
        self._utilities.clear()
        self._ranks = {}

    def _demand(self, offer: TopicOffer, each: PublisherOffer) -> float:
        return self._demands.of((offer.topic, each.publisher), each.offered_msg_s)

    def _topic(
        self, offer: TopicOffer, demands: Mapping[Key, float], probes: Mapping[Key, float]
    ) -> TopicDemand:
        publishers = []
        for each in offer.publishers:
            key = (offer.topic, each.publisher)
            utility = self._utilities.near(key, each.utility, self._congestion.hysteresis)
            rest = demands[key] - probes[key]
            publishers.append(PublisherDemand(each.publisher, utility, rest, each.size_bytes))
        utility = offer.utility
        if publishers:
            utility = sum(each.utility for each in publishers) / len(publishers)
        return TopicDemand(
            offer.topic, utility, offer.subscribers, tuple(publishers), offer.copies, offer.protected
        )

    def _probes(
        self, offers: Sequence[TopicOffer], demands: Mapping[Key, float], budgets: Mapping[str, Amounts]
    ) -> dict[Key, float]:
        """What everybody with an audience may say in any case, so that it can be judged.

        Where even that is too much for a broker, all probe less.
        """
        probe = self._congestion.probe_msg_s
        probes = {
            (offer.topic, each.publisher): 0.0
            if offer.protected or not offer.subscribers
            else min(probe, demands[offer.topic, each.publisher])
            for offer in offers
            for each in offer.publishers
        }
        needed = _load(budgets, offers, probes)
        part = 1.0
        for broker, amounts in needed.items():
            for metric in Metric:
                room, need = budgets[broker].of(metric), amounts.of(metric)
                if need > 0.0 and math.isfinite(room):
                    part = min(part, room / need)
        return probes if part >= 1.0 else {key: value * part for key, value in probes.items()}


def _load(
    brokers: Mapping[str, Amounts], offers: Sequence[TopicOffer], rates: Mapping[Key, float]
) -> dict[str, Amounts]:
    """What these rates come to at each of the brokers."""
    sums = {broker: [0.0, 0.0, 0.0] for broker in brokers}
    for offer in offers:
        messages_s = bytes_s = 0.0
        for each in offer.publishers:
            rate = rates[offer.topic, each.publisher]
            messages_s += rate
            bytes_s += rate * each.size_bytes
        for broker, copies in offer.copies.items():
            if (amounts := sums.get(broker)) is not None:
                amounts[0] += bytes_s
                amounts[1] += bytes_s * copies
                amounts[2] += messages_s
    return {broker: Amounts(*amounts) for broker, amounts in sums.items()}


def _minus(
    budgets: Mapping[str, Amounts], offers: Sequence[TopicOffer], rates: Mapping[Key, float]
) -> dict[str, Amounts]:
    taken = _load(budgets, offers, rates)
    return {broker: _left(budget, taken[broker]) for broker, budget in budgets.items()}


def _left(budget: Amounts, taken: Amounts) -> Amounts:
    return Amounts(*(max(0.0, each) for each in budget.minus(taken)))


def _excess(wanted: Amounts, budget: Amounts) -> Metric | None:
    excess = {
        metric: want / room if room > 0.0 else math.inf
        for metric, want, room in zip(Metric, wanted, budget, strict=True)
        if want * (1.0 - ALL_BUT) > room
    }
    return max(excess, key=lambda metric: excess[metric], default=None)
