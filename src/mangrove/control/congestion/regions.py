"""Rate regions (ePEER §5.2.1): the less useful a publisher, the fewer fair shares of its broker it may use.

The thesis gives limits in messages a second, as examples. Here they are parts of `MAX_SHARES` fair shares of
whatever the broker is short of: bytes are converted by the publisher's own mean size.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace

from mangrove.control.congestion.fair_level import fair_level
from mangrove.control.congestion.problem import CongestionProblem, TopicDemand
from mangrove.model.agents.load import Metric
from mangrove.model.congestion.parameters import Congestion

MAX_SHARES = 8.0
"""How many fair shares the most useful publisher may have. The thesis lets it say 2,000 messages a second
where an edge matches 25,000 for 25 topics: twice a topic's share, and eight times a publisher's where a topic
has four."""


def rung(parameters: Congestion, utility: float) -> float:
    """The part of the ladder for a utility; the end of a region belongs to the next."""
    return parameters.ladder[bisect_right(parameters.regions, utility)]


class Regions:
    """The limits of all publishers of a problem, by broker and metric that is short.

    A fair share is by what is offered: who says little leaves the rest to the others.
    """

    def __init__(self, parameters: Congestion, problem: CongestionProblem) -> None:
        self._parameters = parameters
        wants: defaultdict[tuple[str, Metric], list[float]] = defaultdict(list)
        self._short: dict[str, tuple[Metric, ...]] = {
            broker: tuple(metric for metric in Metric if budget.of(metric) < math.inf)
            for broker, budget in problem.budgets.items()
        }
        for topic in problem.topics:
            for publisher in topic.publishers:
                for key, each in self._costs(topic, publisher.size_bytes):
                    wants[key].append(publisher.msg_s * each)
        self.shares = {
            (broker, metric): min(
                MAX_SHARES * fair_level(problem.budgets[broker].of(metric), asked),
                max(problem.budgets[broker].of(metric), 0.0),
            )
            for (broker, metric), asked in wants.items()
        }
        """What the most useful may have, in the metric's own unit; never more than there is."""

    def limit_msg_s(self, topic: TopicDemand, utility: float, size_bytes: float) -> float:
        """What a publisher of a topic may say; infinite where nothing is short, or for protected topics."""
        if topic.protected:
            return math.inf
        part = rung(self._parameters, utility)
        shares = self.shares
        costs = self._costs(topic, size_bytes)
        return min((part * shares[key] / each for key, each in costs if key in shares), default=math.inf)

    def _costs(self, topic: TopicDemand, size_bytes: float) -> list[tuple[tuple[str, Metric], float]]:
        """What one message takes of each broker and metric that is short."""
        costs = []
        for broker, copies in topic.copies.items():
            for metric in self._short.get(broker, ()):
                each = 1.0
                if metric is Metric.INPUT:
                    each = size_bytes
                elif metric is Metric.OUTPUT:
                    each = size_bytes * copies
                if each > 0:
                    costs.append(((broker, metric), each))
        return costs


def cut_to_regions(problem: CongestionProblem, parameters: Congestion) -> CongestionProblem:
    """The same problem where nobody but protected topics asks for more than its region allows."""
    regions = Regions(parameters, problem)
    topics = []
    for topic in problem.topics:
        limits = [regions.limit_msg_s(topic, one.utility, one.size_bytes) for one in topic.publishers]
        if any(limit < one.msg_s for limit, one in zip(limits, topic.publishers, strict=True)):
            publishers = tuple(
                replace(one, msg_s=min(one.msg_s, limit))
                for one, limit in zip(topic.publishers, limits, strict=True)
            )
            topic = replace(topic, publishers=publishers)
        topics.append(topic)
    return replace(problem, topics=tuple(topics))
