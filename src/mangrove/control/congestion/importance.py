"""How important a topic is (ePEER equation 4): use to all its subscribers for what it takes of the scarce."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mangrove.control.congestion.problem import CongestionProblem, TopicDemand
from mangrove.model.agents.load import Amounts

MIN_SHARE = 1e-9
"""A topic that takes less than this of what is short counts as taking so much: importance stays finite."""


def importance(topic: TopicDemand, budgets: Mapping[str, Amounts]) -> float:
    """Utility × subscribers ÷ `resource_share`: 0 without audience, without use, or without any room."""
    value = topic.utility * topic.subscribers
    share = resource_share(topic, budgets)
    if value <= 0 or math.isinf(share):
        return 0.0
    return value / max(share, MIN_SHARE)


def resource_share(topic: TopicDemand, budgets: Mapping[str, Amounts]) -> float:
    """The largest part that a topic would take of a budget, over all brokers and metrics that are short.

    More than 1 if it does not fit even alone; infinite if it needs something of which there is nothing.
    """
    messages_s = bytes_s = 0.0
    for publisher in topic.publishers:
        messages_s += publisher.msg_s
        bytes_s += publisher.msg_s * publisher.size_bytes
    share = 0.0
    for broker, copies in topic.copies.items():
        budget = budgets.get(broker)
        if budget is not None:
            share = max(
                share,
                _part(bytes_s, budget.input),
                _part(bytes_s * copies, budget.output),
                _part(messages_s, budget.matching),
            )
    return share


def importances(problem: CongestionProblem) -> dict[str, float]:
    """Equation 4 for all topics of a problem."""
    return {topic.topic: importance(topic, problem.budgets) for topic in problem.topics}


def steady_ranks(
    before: Mapping[str, float], importance_of: Mapping[str, float], hysteresis: float
) -> dict[str, float]:
    """Importances to rank by: the earlier one as long as a topic's has not changed by more than `hysteresis`.

    So noise that is smaller than that never changes the order of topics, and nobody is stopped and let go in
    turn.
    """
    ranks = {}
    for topic, value in importance_of.items():
        old = before.get(topic)
        keep = old is not None and abs(value - old) <= hysteresis * max(old, value)
        ranks[topic] = old if keep and old is not None else value
    return ranks


def _part(need: float, budget: float) -> float:
    if need <= 0:
        return 0.0
    return need / budget if budget > 0 else math.inf
