"""What a selection comes to, recomputed from what it allows: load of brokers, utility delivered."""

from __future__ import annotations

from collections.abc import Mapping

from mangrove.control.congestion.problem import CongestionProblem
from mangrove.model.agents.load import Amounts

Allowed = Mapping[tuple[str, str], float]


def used(problem: CongestionProblem, allowed: Allowed) -> dict[str, Amounts]:
    """What the topics take of each broker that has a budget."""
    sums = {broker: [0.0, 0.0, 0.0] for broker in problem.budgets}
    for topic in problem.topics:
        for publisher in topic.publishers:
            messages_s = allowed[topic.topic, publisher.publisher]
            bytes_s = messages_s * publisher.size_bytes
            for broker, copies in topic.copies.items():
                if broker in sums:
                    amounts = sums[broker]
                    amounts[0] += bytes_s
                    amounts[1] += bytes_s * copies
                    amounts[2] += messages_s
    return {broker: Amounts(*amounts) for broker, amounts in sums.items()}


def delivered_utility(problem: CongestionProblem, allowed: Allowed) -> float:
    """Utility handed to subscribers in a second: each message's, for each of its topic's subscribers."""
    return sum(
        publisher.utility * topic.subscribers * allowed[topic.topic, publisher.publisher]
        for topic in problem.topics
        for publisher in topic.publishers
    )
