"""Equation 4 by hand."""

from __future__ import annotations

import math

import pytest

from mangrove.control.congestion.importance import MIN_SHARE, importances, resource_shares, steady_ranks
from mangrove.control.congestion.problem import CongestionProblem, PublisherDemand, TopicDemand
from mangrove.control.congestion.selection.table import Table
from mangrove.model.agents.load import UNLIMITED, Amounts

FREE = math.inf


def topic(copies: dict[str, float], utility: float = 0.5, subscribers: int = 6) -> TopicDemand:
    """300 messages and 50,000 bytes a second."""
    publishers = (PublisherDemand("p", utility, 100.0, 100.0), PublisherDemand("q", utility, 200.0, 200.0))
    return TopicDemand("a", utility, subscribers, publishers, copies)


def importance(topic: TopicDemand, budgets: dict[str, Amounts]) -> float:
    return importances(CongestionProblem(budgets, (topic,)))["a"]


def test_equation_4_by_hand() -> None:
    """Output at the edge: 50,000 B/s · 3 copies of 600,000 is a quarter; 0.5 · 6 / 0.25 = 12."""
    budgets = {"head": Amounts(FREE, 500_000.0, FREE), "edge": Amounts(FREE, 600_000.0, 3000.0)}
    demand = topic({"head": 1.0, "edge": 3.0})
    shares = resource_shares(Table(CongestionProblem(budgets, (demand,))))
    assert shares.tolist() == [pytest.approx(0.25)]
    assert importance(demand, budgets) == pytest.approx(12.0)


def test_the_scarcest_counts() -> None:
    """Matching: 300 of 400 messages is more than all other parts; 3 / 0.75 = 4."""
    budgets = {"head": Amounts(1e6, 1e6, FREE), "edge": Amounts(1e6, 1e6, 400.0)}
    assert importance(topic({"head": 1.0, "edge": 3.0}), budgets) == pytest.approx(4.0)


def test_without_audience_or_use_nothing_is_important() -> None:
    budgets = {"edge": Amounts(FREE, FREE, 400.0)}
    assert importance(topic({"edge": 1.0}, subscribers=0), budgets) == 0.0
    assert importance(topic({"edge": 1.0}, utility=0.0), budgets) == 0.0


def test_what_takes_nothing_that_is_short_is_very_important_but_not_infinitely() -> None:
    budgets = {"edge": Amounts(FREE, FREE, 400.0), "other": UNLIMITED}
    assert importance(topic({"other": 1.0, "unknown": 1.0}), budgets) == pytest.approx(3.0 / MIN_SHARE)
    silent = TopicDemand("a", 0.5, 6, (PublisherDemand("p", 0.5, 0.0, 100.0),), {"edge": 1.0})
    assert importance(silent, budgets) == pytest.approx(3.0 / MIN_SHARE)


def test_what_needs_something_of_which_there_is_nothing_is_not_important() -> None:
    assert importance(topic({"edge": 1.0}), {"edge": Amounts(FREE, FREE, 0.0)}) == 0.0
    assert importance(topic({"edge": 1.0}), {"edge": Amounts(FREE, FREE, -5.0)}) == 0.0
    no_output = importance(topic({"edge": 0.0}), {"edge": Amounts(FREE, 0.0, FREE)})
    assert no_output > 0, "who gives nothing out needs no output"


def test_ranks_stay_while_importance_hardly_changes() -> None:
    ranks = steady_ranks({"a": 100.0, "b": 99.0, "gone": 1.0}, {"a": 98.0, "b": 102.0, "c": 7.0}, 0.05)
    assert ranks == {"a": 100.0, "b": 99.0, "c": 7.0}
    assert steady_ranks(ranks, {"a": 90.0, "b": 110.0, "c": 0.0}, 0.05) == {"a": 90.0, "b": 110.0, "c": 0.0}
