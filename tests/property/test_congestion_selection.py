"""Whatever is offered: limits keep budgets, spare the protected and follow importance; nothing is wasted."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.congestion_problems import problems

from mangrove.control.congestion.assessment import delivered_utility, used
from mangrove.control.congestion.importance import importances
from mangrove.control.congestion.problem import CongestionProblem, Selection, TopicDemand
from mangrove.control.congestion.regions import cut_to_regions, region_limits
from mangrove.control.congestion.selection.registry import SELECTIONS, select_named
from mangrove.control.congestion.selection.table import Table
from mangrove.model.agents.load import Amounts, Metric
from mangrove.model.congestion.parameters import Congestion

NEARLY = 1.0 - 1e-6

Slot = tuple[str, Metric]

by_name = pytest.mark.parametrize("name", SELECTIONS)


def needs(topic: TopicDemand, size_bytes: float, problem: CongestionProblem) -> dict[Slot, float]:
    """What a message takes of each budget."""
    found = {}
    for broker, copies in topic.copies.items():
        if broker in problem.budgets:
            each = Amounts(size_bytes, size_bytes * copies, 1.0)
            for metric in Metric:
                if problem.budgets[broker].of(metric) < math.inf and each.of(metric) > 0:
                    found[broker, metric] = each.of(metric)
    return found


def left_over(problem: CongestionProblem, selection: Selection) -> dict[Slot, float]:
    use = used(problem, selection.allowed)
    return {
        (broker, metric): budget.of(metric) - use[broker].of(metric)
        for broker, budget in problem.budgets.items()
        for metric in Metric
        if budget.of(metric) < math.inf
    }


def used_up(problem: CongestionProblem, selection: Selection) -> set[Slot]:
    return {
        (broker, metric)
        for (broker, metric), left in left_over(problem, selection).items()
        if left <= 1e-6 * abs(problem.budgets[broker].of(metric))
    }


@by_name
@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_budgets_are_kept_and_the_protected_are_left_alone(problem: CongestionProblem, name: str) -> None:
    selection = select_named(name)(problem)
    spared = dict.fromkeys(selection.allowed, 0.0)
    assert set(selection.allowed) == {
        (topic.topic, one.publisher) for topic in problem.topics for one in topic.publishers
    }
    for topic in problem.topics:
        for one in topic.publishers:
            rate = selection.allowed[topic.topic, one.publisher]
            assert 0.0 <= rate <= one.msg_s
            if topic.protected:
                assert rate == one.msg_s
                spared[topic.topic, one.publisher] = rate
    use, alone = used(problem, selection.allowed), used(problem, spared)
    for broker, budget in problem.budgets.items():
        for metric in Metric:
            most = max(budget.of(metric), alone[broker].of(metric), 0.0)
            assert use[broker].of(metric) <= most * (1 + 1e-9)
            lacking = selection.short.get(broker, Amounts()).of(metric)
            over = alone[broker].of(metric) - budget.of(metric)
            assert lacking == pytest.approx(max(0.0, over), abs=1e-6 * max(1.0, abs(budget.of(metric))))


@by_name
@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_whoever_is_limited_lacks_something_that_is_used_up(problem: CongestionProblem, name: str) -> None:
    if problem.stop_at_first and name == "greedy":
        return
    selection = select_named(name)(problem)
    full = used_up(problem, selection)
    for topic in problem.topics:
        for one in topic.publishers:
            if selection.allowed[topic.topic, one.publisher] < one.msg_s * NEARLY:
                assert full & needs(topic, one.size_bytes, problem).keys()


@settings(max_examples=200, deadline=None)
@given(problem=problems())
def test_greedy_respects_importance(problem: CongestionProblem) -> None:
    """Nobody gets anything who needs all that a more important topic has asked for in vain.

    With `stop_at_first`, who needs any of it.
    """
    selection = select_named("greedy")(problem)
    order = sorted(
        (topic for topic in problem.topics if not topic.protected),
        key=lambda topic: (-selection.importance[topic.topic], topic.topic),
    )
    in_vain: list[set[Slot]] = []
    for topic in order:
        loads = {slot for one in topic.publishers for slot in needs(topic, one.size_bytes, problem)}
        rates = [(one, selection.allowed[topic.topic, one.publisher]) for one in topic.publishers]
        if any(loads & asked if problem.stop_at_first else loads >= asked for asked in in_vain):
            assert all(rate <= one.msg_s * 1e-6 for one, rate in rates)
        if any(rate < one.msg_s * NEARLY for one, rate in rates):
            in_vain.append(loads)
            by_utility = sorted(rates, key=lambda pair: -pair[0].utility)
            parts = [rate / one.msg_s for one, rate in by_utility if one.msg_s > 0]
            assert all(later <= 1e-6 for part, later in pairwise(parts) if part < NEARLY)


@settings(max_examples=150, deadline=None)
@given(problem=problems())
def test_knapsack_delivers_at_least_what_greedy_does(problem: CongestionProblem) -> None:
    best = select_named("knapsack")(problem)
    assert best.optimal
    other = delivered_utility(problem, select_named("greedy")(problem).allowed)
    assert delivered_utility(problem, best.allowed) >= other * NEARLY - 1e-9


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_regions_cut_by_utility_and_spare_the_protected(problem: CongestionProblem) -> None:
    parameters = Congestion()
    table = Table(problem)
    limits = table.allowed(region_limits(table, parameters))
    cut = cut_to_regions(problem, parameters)
    for before, after in zip(problem.topics, cut.topics, strict=True):
        for one, other in zip(before.publishers, after.publishers, strict=True):
            limit = limits[before.topic, one.publisher]
            assert other.msg_s == min(one.msg_s, limit)
            if before.protected or not needs(before, one.size_bytes, problem):
                assert limit == math.inf
            for peer in before.publishers:
                if peer.size_bytes == one.size_bytes and peer.utility <= one.utility:
                    assert limits[before.topic, peer.publisher] <= limit


@settings(max_examples=60, deadline=None)
@given(problem=problems(), factor=st.floats(0.1, 10.0))
def test_importance_is_in_proportion_to_what_there_is(problem: CongestionProblem, factor: float) -> None:
    budgets = {
        broker: Amounts(*(amount * factor for amount in budget)) for broker, budget in problem.budgets.items()
    }
    before, after = importances(problem), importances(CongestionProblem(budgets, problem.topics))
    for topic in problem.topics:
        assert 0.0 <= before[topic.topic] < math.inf
        for one in topic.publishers:
            if one.msg_s > 0 and needs(topic, one.size_bytes, problem):
                assert after[topic.topic] == pytest.approx(before[topic.topic] * factor)
