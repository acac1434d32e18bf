"""How important a topic is (ePEER equation 4): use to all its subscribers for what it takes of the scarce."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mangrove.control.congestion.problem import CongestionProblem
from mangrove.control.congestion.selection.table import Numbers, Table

MIN_SHARE = 1e-9
"""A topic that takes less than this of what is short counts as taking so much: importance stays finite."""


def resource_shares(table: Table) -> Numbers:
    """Rt of all topics: the largest part that each would take of a budget, over all slots.

    More than 1 if it does not fit even alone; infinite if it needs something of which there is nothing.
    """
    shares = np.zeros(len(table.protected))
    needs = table.topic_needs()
    budgets = table.budgets[table.load_slot]
    some = (needs > 0) & (budgets > 0)
    parts = np.divide(needs, budgets, out=np.where(needs > 0, np.inf, 0.0), where=some)
    np.maximum.at(shares, table.load_topic, parts)
    return shares


def topic_importances(table: Table) -> Numbers:
    """Utility × subscribers ÷ Rt: 0 without audience, without use, or where there is nothing to be had."""
    return table.topic_utility * table.subscribers / np.maximum(resource_shares(table), MIN_SHARE)


def importances(problem: CongestionProblem) -> dict[str, float]:
    """Equation 4 for all topics of a problem."""
    values = topic_importances(Table(problem)).tolist()
    return {topic.topic: value for topic, value in zip(problem.topics, values, strict=True)}


def steady_ranks(
    before: Mapping[str, float], importance_of: Mapping[str, float], hysteresis: float
) -> dict[str, float]:
    """Importances to rank by: the earlier one as long as a topic's has not changed by more than `hysteresis`.

    So noise that is smaller than that never changes the order of topics, and nobody is stopped and let go in
    turn.
    """
    ranks = {}
    for topic, value in importance_of.items():
        old = before.get(topic, value)
        ranks[topic] = old if abs(value - old) <= hysteresis * max(old, value) else value
    return ranks
